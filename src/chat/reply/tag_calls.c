// Calls between tags: a name, then the arguments as one JSON object or each between tags of its
// own.
#include <string.h>

#include "chat/reply/call.h"

enum { OPEN, NAME_OPEN, NAME, BODY, ARGS, AFTER_ARGS, KEY, VALUE_OPEN, VALUE, VALUE_CLOSE };

static enum step go(struct reply *r, int at) {
    r->tag.at = at;
    return STEP_ON;
}

static enum step lost_or_more(const struct reply *r, enum fit f) {
    return f == FIT_MORE || !input_rest(r).n ? STEP_MORE : STEP_LOST;
}

// Whether the call needs `text` here and it has come. An absent tag is always there.
static enum fit take(struct reply *r, const char *text) {
    return text ? input_take(r, text) : FIT_YES;
}

static void unescape_entities(struct str *s) {
    static const struct {
        const char *name;
        char c;
    } known[] = {{"&quot;", '"'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}};
    struct str out = {0};
    struct sv all = str_sv(s);
    for (size_t i = 0, used; i < all.n; i += used) {
        char c = all.p[i];
        used = 1;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
            if (!sv_starts(sv_cut(all, i, all.n), sv(known[k].name))) continue;
            c = known[k].c;
            used = strlen(known[k].name);
        }
        str_addc(&out, c);
    }
    str_free(s);
    *s = out;
}

// Behind a tag that ends with a quote (name=") comes an attribute's value, a quote, and other
// attributes, which go to *others.
static void split_attributes(const char *open, struct str *s, struct str *others) {
    size_t n = open ? strlen(open) : 0;
    ptrdiff_t quote = n && open[n - 1] == '"' ? sv_find(str_sv(s), sv("\""), 0) : -1;
    if (quote < 0) return;
    str_add(others, sv_cut(str_sv(s), (size_t)quote + 1, s->n));
    s->n = (size_t)quote;
    s->p[s->n] = 0;
}

static void trim(struct str *s) {
    struct str out = {0};
    str_add(&out, sv_trim(str_sv(s)));
    str_free(s);
    *s = out;
}

// The name's own part of what stood between its tags, and the call's id.
static void read_head(struct reply *r) {
    const struct call_style *s = r->style;
    struct str others = {0}, head = {0};
    split_attributes(s->name_open ? s->name_open : s->call_open, &r->name, &others);
    if (s->entities) unescape_entities(&r->name);
    trim(&r->name);
    struct sv name = str_sv(&r->name);
    str_clear(&r->id);
    ptrdiff_t id = s->id_open ? sv_find(name, sv(s->id_open), 0) : -1;
    if (s->numbered) str_add(&r->id, name);
    if (id >= 0) {
        str_add(&r->id, sv_trim(sv_cut(name, (size_t)id + strlen(s->id_open), name.n)));
        name = sv_trim(sv_cut(name, 0, (size_t)id));
    }
    ptrdiff_t named = s->id_close ? sv_find(name, sv(s->id_close), 0) : -1;
    if (named >= 0) {
        str_add(&r->id, sv_trim(sv_cut(name, 0, (size_t)named)));
        name = sv_trim(sv_cut(name, (size_t)named + strlen(s->id_close), name.n));
    }
    if (s->numbered) {
        size_t n = name.n;
        while (n && name.p[n - 1] >= '0' && name.p[n - 1] <= '9') n--;
        if (n && n < name.n && name.p[n - 1] == ':') name.n = n - 1;
    }
    if (s->name_start && sv_starts(name, sv(s->name_start)))
        name = sv_cut(name, strlen(s->name_start), name.n);
    str_add(&head, name);
    str_free(&r->name);
    r->name = head;
    str_free(&others);
}

static enum step name(struct reply *r) {
    const struct call_style *s = r->style;
    const char *close = s->name_close;
    enum fit f = FIT_YES;
    if (close) {
        f = input_head(r, close, true, &r->name);
    } else {
        struct sv rest = input_rest(r);
        size_t n = 0, room = MOST_HEAD - r->name.n;
        while (n < rest.n && n < room && rest.p[n] != '<' && (unsigned char)rest.p[n] > ' ') n++;
        str_add(&r->name, sv_cut(rest, 0, n));
        input_eat(r, n);
        if (n == rest.n) f = r->ended ? FIT_NO : FIT_MORE;
    }
    if (f == FIT_NO || (!close && r->name.n == MOST_HEAD)) return STEP_LOST;
    if (f == FIT_MORE) return STEP_MORE;
    read_head(r);
    if (!r->name.n || ((r->bare || s->known) && !tool_known(r->opt.tools, str_sv(&r->name))))
        return STEP_LOST;
    call_begin(r, str_sv(&r->name), str_sv(&r->id));
    return go(r, BODY);
}

static enum step name_open(struct reply *r) {
    r->tag.argued = false;
    str_clear(&r->name);
    if (r->style->name) {
        str_puts(&r->name, r->style->name);
        call_begin(r, str_sv(&r->name), sv(""));
        return go(r, BODY);
    }
    input_skip_space(r);
    enum fit f = take(r, r->style->name_open);
    return f == FIT_YES ? go(r, NAME) : lost_or_more(r, f);
}

static enum step open_call(struct reply *r) {
    const struct call_style *s = r->style;
    input_skip_space(r);
    if (s->call_open || !r->sectioned) {
        enum fit f = take(r, s->call_open);
        if (f == FIT_YES) return go(r, NAME_OPEN);
        if (f == FIT_MORE) return STEP_MORE;
    }
    enum fit f = s->close ? input_take(r, s->close) : FIT_NO;
    if (f == FIT_YES) return r->sectioned ? STEP_DONE : STEP_LOST;
    if (f == FIT_MORE || !input_rest(r).n) return STEP_MORE;
    return r->sectioned ? STEP_DONE : STEP_LOST;
}

static enum step end_call(struct reply *r) {
    call_argue(r, sv(r->tag.argued ? "}" : "{}"));
    call_end(r);
    return go(r, OPEN);
}

static enum step body(struct reply *r) {
    const struct call_style *s = r->style;
    input_skip_space(r);
    if (s->args_open && !r->tag.argued) {
        enum fit f = s->args_open[0] ? input_take(r, s->args_open) : input_fits(r, "{");
        if (f == FIT_MORE) return STEP_MORE;
        r->scan = (struct jscan){0};
        if (f == FIT_YES) return go(r, ARGS);
    }
    if (s->key_open) {
        enum fit f = input_take(r, s->key_open);
        if (f == FIT_MORE) return STEP_MORE;
        str_clear(&r->key);
        if (f == FIT_YES) return go(r, KEY);
    }
    // A call without a close of its own ends with the section.
    enum fit f = s->call_close ? input_take(r, s->call_close)
                 : s->close    ? input_fits(r, s->close)
                               : FIT_NO;
    return f == FIT_YES ? end_call(r) : lost_or_more(r, f);
}

static enum step args(struct reply *r) {
    bool done;
    if (!r->scan.depth) {
        input_skip_space(r);
        enum fit f = input_fits(r, "{");
        if (f != FIT_YES) return lost_or_more(r, f);
    }
    str_clear(&r->value);
    enum step s = input_json(r, &r->value, &done);
    call_argue(r, str_sv(&r->value));
    return done ? go(r, AFTER_ARGS) : s;
}

// The object is whole, and so is the call, whether or not it is closed as it should be.
static enum step after_args(struct reply *r) {
    const struct call_style *s = r->style;
    if (s->args_close || s->call_close) {
        input_skip_space(r);
        if (!input_rest(r).n && !r->ended) return STEP_MORE;
        enum fit f = s->args_close ? input_take(r, s->args_close) : FIT_NO;
        if (f == FIT_YES) return STEP_ON;
        if (f == FIT_MORE) return STEP_MORE;
        f = s->call_close ? input_take(r, s->call_close) : FIT_NO;
        if (f == FIT_MORE) return STEP_MORE;
    }
    call_end(r);
    return go(r, OPEN);
}

static bool attribute_is(struct sv attributes, const char *text) {
    return sv_find(attributes, sv(text), 0) >= 0;
}

// The value's types: as its tag has them (string="true", type="number"), else the schema.
static unsigned value_types(const struct reply *r, struct sv attributes) {
    static const struct {
        const char *text;
        unsigned types;
    } known[] = {
        {"string=\"true\"", KIND_STRING},   {"string=\"false\"", ~(unsigned)KIND_STRING},
        {"type=\"string\"", KIND_STRING},   {"type=\"number\"", KIND_NUMBER | KIND_INTEGER},
        {"type=\"boolean\"", KIND_BOOLEAN}, {"type=\"object\"", KIND_OBJECT},
        {"type=\"array\"", KIND_ARRAY},     {"type=\"null\"", KIND_NULL},
        {"type=\"integer\"", KIND_INTEGER},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (attribute_is(attributes, known[i].text)) return known[i].types;
    return schema_kinds(
        schema_member(tool_schema(r->opt.tools, str_sv(&r->name)), str_sv(&r->key)));
}

static void argue_key(struct reply *r) {
    struct str s = {0};
    str_puts(&s, r->tag.argued ? ", \"" : "{\"");
    escape_json(&s, str_sv(&r->key));
    str_puts(&s, "\": ");
    call_argue(r, str_sv(&s));
    str_free(&s);
    r->tag.argued = true;
}

static enum step key(struct reply *r) {
    enum fit f = input_head(r, r->style->key_close, false, &r->key);
    if (f == FIT_NO) return STEP_LOST;
    if (f == FIT_MORE) return STEP_MORE;
    struct str others = {0};
    split_attributes(r->style->key_open, &r->key, &others);
    if (r->style->entities) unescape_entities(&r->key);
    trim(&r->key);
    r->tag.types = value_types(r, str_sv(&others));
    str_free(&others);
    argue_key(r);
    return go(r, VALUE_OPEN);
}

static enum step value_open(struct reply *r) {
    if (r->style->value_open) input_skip_space(r);
    enum fit f = take(r, r->style->value_open);
    if (f != FIT_YES) return lost_or_more(r, f);
    r->tag.begun = r->tag.cdata = false;
    r->tag.text = r->tag.types == KIND_STRING;
    str_clear(&r->value);
    if (r->tag.text) call_argue(r, sv("\""));
    return go(r, VALUE);
}

static void add_value(struct reply *r, struct sv text) {
    if (!r->tag.text) {
        str_add(&r->value, text);
        return;
    }
    struct str s = {0};
    escape_json(&s, text);
    call_argue(r, str_sv(&s));
    str_free(&s);
}

static enum step end_value(struct reply *r) {
    if (r->tag.text) {
        call_argue(r, sv("\""));
    } else {
        struct str s = {0};
        typed_json(&s, str_sv(&r->value), r->tag.types);
        call_argue(r, str_sv(&s));
        str_free(&s);
    }
    return go(r, BODY);
}

// What may stand before the value itself.
static enum step begin_value(struct reply *r) {
    enum fit line = r->style->lines ? input_take(r, "\n") : FIT_NO;
    if (line == FIT_MORE) return STEP_MORE;
    enum fit cdata = r->style->cdata ? input_take(r, "<![CDATA[") : FIT_NO;
    if (cdata == FIT_MORE) return STEP_MORE;
    r->tag.cdata = cdata == FIT_YES;
    r->tag.begun = true;
    return STEP_ON;
}

static enum step value(struct reply *r) {
    if (!r->tag.begun) return begin_value(r);
    const char *end = r->tag.cdata ? "]]>" : r->style->value_close;
    struct sv rest = input_rest(r);
    ptrdiff_t at = sv_find(rest, sv(end), 0);
    size_t n = at >= 0 ? (size_t)at : rest.n - input_tail(rest, sv(end));
    // The line break before the tag is the tag's.
    size_t shown = n && r->style->lines && rest.p[n - 1] == '\n' ? n - 1 : n;
    add_value(r, sv_cut(rest, 0, shown));
    if (at < 0) {
        input_eat(r, shown);
        return STEP_MORE;
    }
    input_eat(r, n + strlen(end));
    if (!r->tag.cdata) return end_value(r);
    return go(r, VALUE_CLOSE);
}

static enum step value_close(struct reply *r) {
    input_skip_space(r);
    enum fit f = input_take(r, r->style->value_close);
    return f == FIT_YES ? end_value(r) : lost_or_more(r, f);
}

enum step read_tag_calls(struct reply *r) {
    switch (r->tag.at) {
    case OPEN: return open_call(r);
    case NAME_OPEN: return name_open(r);
    case NAME: return name(r);
    case BODY: return body(r);
    case ARGS: return args(r);
    case AFTER_ARGS: return after_args(r);
    case KEY: return key(r);
    case VALUE_OPEN: return value_open(r);
    case VALUE: return value(r);
    default: return value_close(r);
    }
}
