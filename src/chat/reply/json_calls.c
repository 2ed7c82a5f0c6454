// Calls as JSON: {"name": ..., "arguments": {...}} under the names that models give these members,
// one or many, in a list or not.
#include <string.h>

#include "chat/reply/call.h"

enum { TOP, FIRST_MEMBER, MEMBER, KEY, COLON, VALUE, CAPTURE, STREAM, SKIP, NEXT };

static enum step go(struct reply *r, int at) {
    r->json.at = at;
    return STEP_ON;
}

static enum json_field field_of(const struct reply *r, struct sv key) {
    static const struct {
        const char *name;
        enum json_field field;
    } known[] = {
        {"name", FIELD_NAME},           {"tool_name", FIELD_NAME},
        {"arguments", FIELD_ARGUMENTS}, {"parameters", FIELD_ARGUMENTS},
        {"args", FIELD_ARGUMENTS},      {"id", FIELD_ID},
        {"tool_call_id", FIELD_ID},     {"call_id", FIELD_ID},
        {"function", FIELD_FUNCTION},
    };
    if (r->style->keyed) return FIELD_ARGUMENTS;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (sv_is(key, known[i].name)) return known[i].field;
    return FIELD_OTHER;
}

// The name is known: the call begins, with what has come of its arguments.
static enum step begin(struct reply *r) {
    struct json_calls *j = &r->json;
    if (!r->name.n || ((r->bare || r->style->known) && !tool_known(r->opt.tools, str_sv(&r->name))))
        return STEP_LOST;
    call_begin(r, str_sv(&r->name), str_sv(&r->id));
    j->begun = true;
    return STEP_ON;
}

static enum step end(struct reply *r) {
    struct json_calls *j = &r->json;
    if (!j->named) return STEP_LOST;
    if (!j->begun) {
        if (begin(r) == STEP_LOST) return STEP_LOST;
        call_argue(r, j->argued ? str_sv(&r->value) : sv("{}"));
    }
    call_end(r);
    j->named = j->begun = j->argued = false;
    str_clear(&r->name);
    str_clear(&r->id);
    str_clear(&r->value);
    return go(r, TOP);
}

static enum step read_key(struct reply *r) {
    bool done;
    enum step s = input_json(r, &r->key, &done);
    if (!done) return s;
    struct str key = {0};
    bool ok = unquote_json(str_sv(&r->key), &key);
    str_free(&r->key);
    r->key = key;
    return ok ? go(r, COLON) : STEP_LOST;
}

static enum step colon(struct reply *r) {
    input_skip_space(r);
    enum fit f = input_take(r, ":");
    if (f != FIT_YES) return input_rest(r).n ? STEP_LOST : STEP_MORE;
    r->scan = (struct jscan){0};
    return go(r, VALUE);
}

// A member's value begins.
static enum step value(struct reply *r) {
    struct json_calls *j = &r->json;
    input_skip_space(r);
    struct sv rest = input_rest(r);
    if (!rest.n) return STEP_MORE;
    j->field = field_of(r, str_sv(&r->key));
    if (j->field == FIELD_FUNCTION && rest.p[0] == '{') {
        if (j->depth == 2) return STEP_LOST;
        input_eat(r, 1);
        j->depth = 2;
        return go(r, FIRST_MEMBER);
    }
    if (j->field == FIELD_FUNCTION) j->field = FIELD_NAME;
    // JSON that is an answer shows it by its first member.
    if (j->field == FIELD_OTHER && r->bare && !sv_is(str_sv(&r->key), "type")) return STEP_LOST;
    if (j->field == FIELD_OTHER) return go(r, SKIP);
    if (j->field != FIELD_ARGUMENTS) return go(r, CAPTURE);
    if (j->argued) return STEP_LOST;
    j->argued = true;
    if (r->style->keyed) {
        str_clear(&r->name);
        str_add(&r->name, str_sv(&r->key));
        j->named = true;
    }
    if (rest.p[0] != '{' || !j->named) return go(r, CAPTURE);
    return begin(r) == STEP_LOST ? STEP_LOST : go(r, STREAM);
}

// Arguments that are no object as they stand: a text that holds one, or nothing.
static enum step take_arguments(struct reply *r) {
    struct str text = {0};
    struct sv v = str_sv(&r->value);
    if (v.n && v.p[0] == '"') unquote_json(v, &text);
    if (sv_is(v, "null")) str_puts(&text, "{}");
    if (text.n) {
        str_clear(&r->value);
        str_add(&r->value, str_sv(&text));
    }
    str_free(&text);
    v = sv_trim(str_sv(&r->value));
    if (!v.n || v.p[0] != '{' || !jscan_whole(v)) return STEP_LOST;
    if (!r->json.named) return go(r, NEXT);
    if (begin(r) == STEP_LOST) return STEP_LOST;
    call_argue(r, v);
    str_clear(&r->value);
    return go(r, NEXT);
}

static enum step captured(struct reply *r) {
    struct json_calls *j = &r->json;
    struct str *to = j->field == FIELD_NAME ? &r->name : &r->id;
    bool text = r->key.n && r->key.p[0] == '"', ok = true;
    if (j->field == FIELD_NAME && (!text || j->named)) return STEP_LOST;
    str_clear(to);
    if (text)
        ok = unquote_json(str_sv(&r->key), to);
    else
        str_add(to, str_sv(&r->key));
    if (j->field == FIELD_NAME) j->named = true;
    return ok ? go(r, NEXT) : STEP_LOST;
}

// A whole value: of the arguments into `value`, of the others, whose key has served, into `key`.
static enum step capture(struct reply *r) {
    bool arguments = r->json.field == FIELD_ARGUMENTS, done;
    if (!r->json.capturing) str_clear(arguments ? &r->value : &r->key);
    r->json.capturing = true;
    enum step s = input_json(r, arguments ? &r->value : &r->key, &done);
    if (!done) return s;
    r->json.capturing = false;
    return arguments ? take_arguments(r) : captured(r);
}

static enum step stream(struct reply *r) {
    bool done;
    str_clear(&r->value);
    enum step s = input_json(r, &r->value, &done);
    call_argue(r, str_sv(&r->value));
    str_clear(&r->value);
    return done ? go(r, NEXT) : s;
}

static enum step skip(struct reply *r) {
    bool done;
    enum step s = input_json(r, NULL, &done);
    return done ? go(r, NEXT) : s;
}

static enum step next_member(struct reply *r) {
    struct json_calls *j = &r->json;
    input_skip_space(r);
    if (input_take(r, ",") == FIT_YES) return go(r, MEMBER);
    if (input_take(r, "}") != FIT_YES) return input_rest(r).n ? STEP_LOST : STEP_MORE;
    if (--j->depth) return STEP_ON;
    return end(r);
}

static enum step member(struct reply *r) {
    struct json_calls *j = &r->json;
    input_skip_space(r);
    if (j->at == FIRST_MEMBER && input_take(r, "}") == FIT_YES) {
        if (--j->depth) return go(r, NEXT);
        return end(r);
    }
    if (input_fits(r, "\"") != FIT_YES) return input_rest(r).n ? STEP_LOST : STEP_MORE;
    r->scan = (struct jscan){0};
    str_clear(&r->key);
    return go(r, KEY);
}

// Between calls.
static enum step top(struct reply *r) {
    struct json_calls *j = &r->json;
    const char *close = r->style->close;
    input_skip_space(r);
    if (!j->listed && close) {
        enum fit f = input_take(r, close);
        if (f == FIT_YES) return r->sectioned ? STEP_DONE : STEP_LOST;
        if (f == FIT_MORE) return STEP_MORE;
    }
    if (input_take(r, "{") == FIT_YES) {
        j->depth = 1;
        return go(r, FIRST_MEMBER);
    }
    if (!j->listed && !r->sectioned && input_take(r, "[") == FIT_YES) {
        j->listed = true;
        return STEP_ON;
    }
    if (j->listed && input_take(r, "]") == FIT_YES) {
        j->listed = false;
        if (r->sectioned) str_clear(&r->raw); // the list is whole
        return close || !r->sectioned ? STEP_ON : STEP_DONE;
    }
    if (r->sectioned && (input_take(r, ",") == FIT_YES || input_take(r, ";") == FIT_YES))
        return STEP_ON;
    if (!input_rest(r).n) return STEP_MORE;
    return r->sectioned && !j->listed ? STEP_DONE : STEP_LOST;
}

enum step read_json_calls(struct reply *r) {
    switch (r->json.at) {
    case TOP: return top(r);
    case FIRST_MEMBER:
    case MEMBER: return member(r);
    case KEY: return read_key(r);
    case COLON: return colon(r);
    case VALUE: return value(r);
    case CAPTURE: return capture(r);
    case STREAM: return stream(r);
    case SKIP: return skip(r);
    default: return next_member(r);
    }
}
