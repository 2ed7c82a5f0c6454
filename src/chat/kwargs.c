// Thinking control: what requests say in the words of several APIs, as a template's variables.
#include <strings.h>

#include "chat/parts.h"

struct thinking {
    bool said, on;
    struct json_object *level; // NULL: none
};

static bool is_off(struct sv level) {
    static const char *const off[] = {"none", "off", "disabled", "false", "0"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (level.n == sv(off[i]).n && !strncasecmp(level.p, off[i], level.n)) return true;
    return false;
}

static void say(struct thinking *t, bool on, struct json_object *level) {
    *t = (struct thinking){.said = true, .on = on, .level = on ? level : NULL};
}

static bool read_level(struct json_object *v, const char *key, struct thinking *t,
                       struct error *e) {
    if (v && !json_object_is_type(v, json_type_string))
        return fail(e, "%s must be text, not %s", key, json_kind(v));
    struct sv level = sv_trim(json_text(v));
    if (level.n) say(t, !is_off(level), v);
    return true;
}

static bool read_reasoning(struct json_object *v, struct thinking *t, struct error *e) {
    if (json_object_is_type(v, json_type_object))
        return read_level(json_at(v, "effort"), "reasoning.effort", t, e);
    if (v && !json_object_is_type(v, json_type_boolean))
        return fail(e, "reasoning must be an object with an effort, true or false, not %s",
                    json_kind(v));
    if (v) say(t, json_object_get_boolean(v), NULL);
    return true;
}

static bool read_thinking(struct json_object *request, struct thinking *t, struct error *e) {
    struct json_object *on = json_at(request, "enable_thinking");
    if (!read_reasoning(json_at(request, "reasoning"), t, e)) return false;
    if (!read_level(json_at(request, "reasoning_effort"), "reasoning_effort", t, e)) return false;
    if (on && !json_object_is_type(on, json_type_boolean))
        return fail(e, "enable_thinking must be true or false, not %s", json_kind(on));
    if (on) say(t, json_object_get_boolean(on), t->level);
    return true;
}

static bool names(const struct chat_template *t, const char *variable) {
    if (t && t->coded) return coded_knows(t->coded, variable);
    return t && t->compiled && jinja_names(t->compiled, sv(variable));
}

static bool wants_thinking(const struct chat_template *t) {
    if (t && t->coded) return coded_knows(t->coded, "thinking");
    return t && t->compiled && jinja_provides_for(t->compiled, sv("thinking"));
}

static bool has(struct json_object *o, const char *key) {
    return json_object_object_get_ex(o, key, NULL);
}

// The switch under another name, unless that was given: by the request, or by the defaults when
// the switch is theirs too.
static void add_alias(struct json_object *out, const char *name, struct json_object *value,
                      struct json_object *given, bool asked) {
    if (!has(given, name) && (asked || !has(out, name)))
        json_object_object_add(out, name, json_object_get(value));
}

static void add_aliases(struct json_object *out, const struct chat_template *t,
                        struct json_object *given, bool asked) {
    struct json_object *on = json_at(out, "enable_thinking");
    if (!on) return;
    if (wants_thinking(t)) add_alias(out, "thinking", on, given, asked);
    if (!json_object_get_boolean(on) || !names(t, "thinking_mode")) return;
    struct json_object *enabled = json_object_new_string("enabled");
    add_alias(out, "thinking_mode", enabled, given, asked);
    json_object_put(enabled);
}

// A chat rendered by code may have to tell the model of these.
static void add_told(struct json_object *out, const struct coded *coded,
                     struct json_object *request) {
    static const char *const told[] = {"tool_choice", "response_format"};
    for (int i = 0; i < 2; i++) {
        struct json_object *v = json_at(request, told[i]);
        if (v && coded_knows(coded, told[i]))
            json_object_object_add(out, told[i], json_object_get(v));
    }
}

struct json_object *chat_kwargs(const struct chat *c, bool tools, struct json_object *request,
                                struct json_object *defaults, struct error *e) {
    static const char *const levels[] = {"reasoning_effort", "reasoning_strength"};
    const struct chat_template *t = chat_pick(c, tools);
    struct json_object *given = json_at(request, "chat_template_kwargs");
    struct thinking thinking = {0};
    if (given && !json_object_is_type(given, json_type_object))
        fail(e, "chat_template_kwargs must be an object, not %s", json_kind(given));
    if (e->set || !read_thinking(request, &thinking, e)) return NULL;
    struct json_object *out = json_object_new_object();
    if (c->thinks) json_object_object_add(out, "enable_thinking", json_object_new_boolean(true));
    json_add_members(out, defaults);
    if (thinking.said)
        json_object_object_add(out, "enable_thinking", json_object_new_boolean(thinking.on));
    for (int i = 0; i < 2; i++)
        if (thinking.level && names(t, levels[i]))
            json_object_object_add(out, levels[i], json_object_get(thinking.level));
    if (t && t->coded) add_told(out, t->coded, request);
    json_add_members(out, given);
    add_aliases(out, t, given, thinking.said || has(given, "enable_thinking"));
    return out;
}
