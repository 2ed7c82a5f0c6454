#include "server/ask_grammar.h"

#include "engine/constraint.h"
#include "server/body.h"

struct wanted {
    struct constraint constraint;
    const char *param;        // that asks for it; NULL: none, or
    const char *option;       // the server's
    struct json_object *made; // a schema that no field has, or NULL; owned
    struct str pattern;       // the same of a regular expression
};

static bool set(struct wanted *w, enum constraint_kind kind, const char *param, struct refusal *r) {
    if (w->constraint.kind != CONSTRAINT_NONE)
        return refuse(r, 400, param, "\"%s\" and \"%s\" exclude each other", w->param, param);
    w->constraint.kind = kind;
    w->param = param;
    return true;
}

// param is what the client calls the value: a field of o, or of an object in it.
static bool read_text(struct wanted *w, struct json_object *o, const char *name, const char *param,
                      enum constraint_kind kind, struct refusal *r) {
    struct json_object *v = json_at(o, name);
    if (!v || (json_object_is_type(v, json_type_string) && !json_text(v).n)) return true;
    if (!json_object_is_type(v, json_type_string)) return body_wrong_kind(r, param, "a string", v);
    w->constraint.text = json_text(v);
    return set(w, kind, param, r);
}

// An object, or the JSON of one.
static bool read_schema(struct wanted *w, struct json_object *o, const char *name,
                        const char *param, struct refusal *r) {
    struct json_object *v = json_at(o, name);
    struct error e = {0};
    if (!v) return true;
    if (json_object_is_type(v, json_type_string) && !w->made) {
        v = w->made = json_read(json_text(v), param, &e);
        if (!v) return refuse(r, 400, param, "%s", e.text);
    }
    if (!json_object_is_type(v, json_type_object))
        return body_wrong_kind(r, param, "a JSON schema (an object)", v);
    w->constraint.schema = v;
    return set(w, CONSTRAINT_SCHEMA, param, r);
}

static void add_literal(struct str *pattern, struct sv text) {
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (unsigned char)c >= 0x80 || (unsigned char)c <= ' ';
        if (!plain) str_addc(pattern, '\\');
        str_addc(pattern, c);
    }
}

static bool read_choices(struct wanted *w, struct json_object *o, const char *name,
                         const char *param, struct refusal *r) {
    struct json_object *list = json_at(o, name);
    if (!list) return true;
    if (!json_object_is_type(list, json_type_array) || !json_object_array_length(list))
        return body_wrong_kind(r, param, "a list of strings", list);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        if (!json_object_is_type(one, json_type_string))
            return body_wrong_kind(r, param, "a list of strings", one);
        if (i) str_addc(&w->pattern, '|');
        add_literal(&w->pattern, json_text(one));
    }
    w->constraint.text = str_sv(&w->pattern);
    return set(w, CONSTRAINT_REGEX, param, r);
}

static void want_any_object(struct wanted *w) {
    w->made = json_object_new_object();
    json_object_object_add(w->made, "type", json_object_new_string("object"));
    w->constraint.schema = w->made;
}

static bool read_structured(struct wanted *w, struct json_object *o, struct refusal *r) {
    static const char name[] = "structured_outputs";
    struct json_object *v = json_at(o, name);
    bool object = false;
    if (!v) return true;
    if (!json_object_is_type(v, json_type_object)) return body_wrong_kind(r, name, "an object", v);
    if (json_at(v, "structural_tag"))
        return refuse(r, 400, name, "\"structured_outputs.structural_tag\" is not supported");
    if (!body_flag(v, "json_object", &object, r)) return false;
    if (object) want_any_object(w);
    return (!object || set(w, CONSTRAINT_SCHEMA, name, r)) && read_schema(w, v, "json", name, r) &&
           read_text(w, v, "regex", name, CONSTRAINT_REGEX, r) &&
           read_text(w, v, "grammar", name, CONSTRAINT_GBNF, r) &&
           read_choices(w, v, "choice", name, r);
}

static bool read_format(struct wanted *w, struct json_object *o, struct refusal *r) {
    static const char name[] = "response_format";
    struct json_object *v = json_at(o, name);
    if (!v) return true;
    if (!json_object_is_type(v, json_type_object)) return body_wrong_kind(r, name, "an object", v);
    struct sv type = json_text_at(v, "type");
    if (sv_is(type, "text")) return true;
    if (sv_is(type, "json_schema")) {
        w->constraint.schema = json_at(json_at(v, "json_schema"), "schema");
        if (!w->constraint.schema) w->constraint.schema = json_at(v, "schema");
        if (!w->constraint.schema)
            return refuse(r, 400, name, "\"response_format.json_schema.schema\" is missing");
    } else if (sv_is(type, "json_object")) {
        w->constraint.schema = json_at(v, "schema"); // llama-server's
        if (!w->constraint.schema) want_any_object(w);
    } else {
        return refuse(
            r, 400, name,
            "\"response_format.type\" is \"%.*s\"; it must be \"text\", \"json_object\" or "
            "\"json_schema\"",
            (int)(type.n < 40 ? type.n : 40), type.p);
    }
    return set(w, CONSTRAINT_SCHEMA, name, r);
}

// Tools that nothing holds to their schemas are held to them beside another form of the answer, and
// where the model has no format of calls of its own.
static void add_tools(struct wanted *w, struct ask *a) {
    bool formed = w->constraint.kind != CONSTRAINT_NONE;
    if (!a->tools || (!a->callable && !formed && !a->prompt.reply->generic)) return;
    a->formed = formed;
    w->constraint.tools = a->callable ? a->callable : a->tools;
    w->constraint.calls_required = a->must_call;
    w->constraint.one_call = a->one_call;
    if (a->must_call) w->constraint.kind = CONSTRAINT_NONE;
    if (!formed || a->must_call) w->param = "tools";
}

static bool compile(struct ask *a, struct wanted *w, bool chat, const struct text_model *m,
                    struct refusal *r) {
    struct error e = {0};
    if (w->constraint.kind == CONSTRAINT_NONE && a->defaults) {
        w->constraint = a->defaults->form.constraint;
        w->option = a->defaults->form.option;
    }
    add_tools(w, a);
    if (w->constraint.kind == CONSTRAINT_NONE && !w->constraint.tools) return true;
    if (!a->stop_ids.n && !w->param)
        return refuse(r, 400, "ignore_eos",
                      "\"ignore_eos\" and this server's %s exclude each other", w->option);
    if (!a->stop_ids.n)
        return refuse(r, 400, w->param, "\"%s\" and \"ignore_eos\" exclude each other", w->param);
    struct effort effort = effort_usual();
    effort.stop = a->unwanted;
    effort.arg = a->waiting;
    a->sampling.grammar =
        constraint_grammar(m, &w->constraint, chat ? &a->prompt : NULL, &effort, &e);
    if (a->sampling.grammar || effort.stopped) return a->sampling.grammar != NULL;
    unsigned status = effort.full ? 503 : 400;
    if (!w->param) return refuse(r, status, NULL, "this server's %s: %s", w->option, e.text);
    return refuse(r, status, w->param, "\"%s\": %s", w->param, e.text);
}

bool ask_grammar(struct ask *a, struct json_object *o, bool chat, const struct text_model *m,
                 struct refusal *r) {
    static const struct {
        const char *name;
        enum constraint_kind kind;
    } texts[] = {
        {"grammar", CONSTRAINT_GBNF},
        {"guided_grammar", CONSTRAINT_GBNF},
        {"regex", CONSTRAINT_REGEX},
        {"guided_regex", CONSTRAINT_REGEX},
    };
    struct wanted w = {0};
    bool ok = read_format(&w, o, r) && read_schema(&w, o, "json_schema", "json_schema", r) &&
              read_schema(&w, o, "guided_json", "guided_json", r) &&
              read_choices(&w, o, "guided_choice", "guided_choice", r) && read_structured(&w, o, r);
    for (size_t i = 0; ok && i < sizeof texts / sizeof *texts; i++)
        ok = read_text(&w, o, texts[i].name, texts[i].name, texts[i].kind, r);
    ok = ok && compile(a, &w, chat, m, r);
    json_object_put(w.made);
    str_free(&w.pattern);
    return ok;
}
