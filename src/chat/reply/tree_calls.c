// Calls as a tree of elements, each KEY between tags of its own that begin with a mark:
//   MARK<invoke name="NAME">MARK<city>Oslo MARK</city>MARK<tags>MARK<item>a MARK</item>MARK</tags>
//   MARK</invoke>
// Whether an element holds a text, more elements or a list is known once its first one comes, and
// by the tool's schema.
#include <string.h>

#include "chat/reply/call.h"

enum { TOP, NAME, TEXT, TAG };

static enum step go(struct reply *r, int at) {
    r->tree.at = at;
    return STEP_ON;
}

static enum step top(struct reply *r) {
    input_skip_space(r);
    enum fit f = input_take(r, r->style->call_open);
    str_clear(&r->name);
    if (f == FIT_YES) return go(r, NAME);
    enum fit end = input_take(r, r->style->close);
    if (end == FIT_YES) return r->sectioned ? STEP_DONE : STEP_LOST;
    if (f == FIT_MORE || end == FIT_MORE || !input_rest(r).n) return STEP_MORE;
    return r->sectioned ? STEP_DONE : STEP_LOST;
}

static enum step name(struct reply *r) {
    enum fit f = input_head(r, r->style->name_close, true, &r->name);
    if (f == FIT_NO) return STEP_LOST;
    if (f == FIT_MORE) return STEP_MORE;
    if (!r->name.n) return STEP_LOST;
    call_begin(r, str_sv(&r->name), sv(""));
    r->tree.depth = 1;
    r->tree.level[0].schema = tool_schema(r->opt.tools, str_sv(&r->name));
    r->tree.level[0].begun = r->tree.level[0].list = false;
    str_clear(&r->value);
    return go(r, TEXT);
}

static enum step text(struct reply *r) {
    enum fit f = input_until(r, r->style->mark, &r->value);
    str_clear(&r->key);
    return f == FIT_YES ? go(r, TAG) : STEP_MORE;
}

// What separates an element from the one before it, and its key.
static void argue_key(struct reply *r, struct sv key) {
    struct tree_calls *t = &r->tree;
    bool list = t->level[t->depth - 1].list;
    struct str s = {0};
    if (t->level[t->depth - 1].begun)
        str_puts(&s, ", ");
    else
        str_addc(&s, list ? '[' : '{');
    if (!list) {
        str_addc(&s, '"');
        escape_json(&s, key);
        str_puts(&s, "\": ");
    }
    call_argue(r, str_sv(&s));
    str_free(&s);
    t->level[t->depth - 1].begun = true;
}

static enum step open_element(struct reply *r, struct sv key) {
    struct tree_calls *t = &r->tree;
    if (t->depth == TREE_DEPTH || !key.n) return STEP_LOST;
    struct json_object *schema = t->level[t->depth - 1].schema;
    unsigned types = schema_kinds(schema);
    if (!t->level[t->depth - 1].begun)
        t->level[t->depth - 1].list =
            t->depth > 1 && sv_is(key, "item") && (types & KIND_ARRAY || !(types & KIND_OBJECT));
    argue_key(r, key);
    bool list = t->level[t->depth - 1].list;
    t->level[t->depth].schema = list ? json_at(schema, "items") : schema_member(schema, key);
    t->level[t->depth].begun = t->level[t->depth].list = false;
    t->depth++;
    str_clear(&r->value);
    return go(r, TEXT);
}

static void argue_text(struct reply *r, unsigned types) {
    struct str s = {0};
    bool empty = !sv_trim(str_sv(&r->value)).n && types && !(types & KIND_STRING);
    if (empty && types & (KIND_ARRAY | KIND_OBJECT))
        str_puts(&s, types & KIND_ARRAY ? "[]" : "{}");
    else if (empty && types & KIND_NULL)
        str_puts(&s, "null");
    else
        typed_json(&s, str_sv(&r->value), types);
    call_argue(r, str_sv(&s));
    str_free(&s);
}

static enum step close_element(struct reply *r) {
    struct tree_calls *t = &r->tree;
    bool list = t->level[--t->depth].list;
    if (t->level[t->depth].begun)
        call_argue(r, sv(list ? "]" : "}"));
    else if (t->depth)
        argue_text(r, schema_kinds(t->level[t->depth].schema));
    else
        call_argue(r, sv("{}"));
    str_clear(&r->value);
    if (t->depth) return go(r, TEXT);
    call_end(r);
    return go(r, TOP);
}

static enum step tag(struct reply *r) {
    enum fit f = input_head(r, ">", false, &r->key);
    if (f == FIT_NO) return STEP_LOST;
    if (f == FIT_MORE) return STEP_MORE;
    struct sv key = str_sv(&r->key);
    if (sv_starts(key, sv("</"))) return close_element(r);
    return sv_starts(key, sv("<")) ? open_element(r, sv_cut(key, 1, key.n)) : STEP_LOST;
}

enum step read_tree_calls(struct reply *r) {
    switch (r->tree.at) {
    case TOP: return top(r);
    case NAME: return name(r);
    case TEXT: return text(r);
    default: return tag(r);
    }
}
