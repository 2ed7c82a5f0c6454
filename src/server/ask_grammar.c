#include "server/ask_grammar.h"

#include "engine/constraint.h"
#include "server/body.h"

struct wanted {
    struct constraint constraint;
    const char *param;
    struct json_object *made; // a schema that no field has, or NULL; owned
};

static bool set(struct wanted *w, enum constraint_kind kind, const char *param, struct refusal *r) {
    if (w->constraint.kind != CONSTRAINT_NONE)
        return refuse(r, 400, param, "\"%s\" and \"%s\" exclude each other", w->param, param);
    w->constraint.kind = kind;
    w->param = param;
    return true;
}

static bool read_text(struct wanted *w, struct json_object *o, const char *name,
                      enum constraint_kind kind, struct refusal *r) {
    struct json_object *v = json_at(o, name);
    if (!v || (json_object_is_type(v, json_type_string) && !json_text(v).n)) return true;
    if (!json_object_is_type(v, json_type_string)) return body_wrong_kind(r, name, "a string", v);
    w->constraint.text = json_text(v);
    return set(w, kind, name, r);
}

static bool read_schema(struct wanted *w, struct json_object *o, const char *name,
                        struct refusal *r) {
    struct json_object *v = json_at(o, name);
    if (!v) return true;
    if (!json_object_is_type(v, json_type_object))
        return body_wrong_kind(r, name, "a JSON schema (an object)", v);
    w->constraint.schema = v;
    return set(w, CONSTRAINT_SCHEMA, name, r);
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
        if (!w->constraint.schema) {
            w->made = json_object_new_object();
            json_object_object_add(w->made, "type", json_object_new_string("object"));
            w->constraint.schema = w->made;
        }
    } else {
        return refuse(
            r, 400, name,
            "\"response_format.type\" is \"%.*s\"; it must be \"text\", \"json_object\" or "
            "\"json_schema\"",
            (int)(type.n < 40 ? type.n : 40), type.p);
    }
    return set(w, CONSTRAINT_SCHEMA, name, r);
}

static bool compile(struct ask *a, const struct wanted *w, bool chat, const struct text_model *m,
                    struct refusal *r) {
    struct error e = {0};
    if (w->constraint.kind == CONSTRAINT_NONE) return true;
    if (a->tools)
        return refuse(r, 400, w->param, "\"%s\" and \"tools\" exclude each other", w->param);
    if (!a->stop_ids.n)
        return refuse(r, 400, w->param, "\"%s\" and \"ignore_eos\" exclude each other", w->param);
    a->sampling.grammar = constraint_grammar(m, &w->constraint, chat ? &a->prompt : NULL, &e);
    return a->sampling.grammar || refuse(r, 400, w->param, "\"%s\": %s", w->param, e.text);
}

bool ask_grammar(struct ask *a, struct json_object *o, bool chat, const struct text_model *m,
                 struct refusal *r) {
    struct wanted w = {0};
    bool ok = read_format(&w, o, r) && read_schema(&w, o, "json_schema", r) &&
              read_schema(&w, o, "guided_json", r) &&
              read_text(&w, o, "grammar", CONSTRAINT_GBNF, r) &&
              read_text(&w, o, "guided_grammar", CONSTRAINT_GBNF, r) &&
              read_text(&w, o, "regex", CONSTRAINT_REGEX, r) &&
              read_text(&w, o, "guided_regex", CONSTRAINT_REGEX, r) && compile(a, &w, chat, m, r);
    json_object_put(w.made);
    return ok;
}
