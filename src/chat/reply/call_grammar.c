// The other way round: the grammar of what the readers of calls read, one way to write it for each
// style. White space may be where a reader passes over it.
#include "chat/call_grammar.h"

#include <string.h>

#include "chat/reply/call.h"
#include "grammar/grammar.h"

// Calls after the first in a generic format: models that were not made for it might never end.
enum { GENERIC_MORE = 15 };

struct writer {
    struct syntax *s;
    const struct reply_format *f;
    const struct call_style *style;
    const struct call_rules *c;
    struct notation notation;
    int32_t space, call; // rules: white space, a call of any tool
};

static void add(const struct writer *w, int32_t seq, int32_t node) { syn_add(w->s, seq, node); }

static void add_mark(const struct writer *w, int32_t seq, const char *text) {
    if (text) add(w, seq, syn_mark(w->s, sv(text)));
}

static void add_space(const struct writer *w, int32_t seq) {
    add(w, seq, syn_call(w->s, w->space));
}

static void add_pattern(const struct writer *w, int32_t seq, const char *pattern) {
    add(w, seq, syn_call(w->s, regex_read(w->s, sv(pattern))));
}

static void add_option(const struct writer *w, int32_t seq, int32_t node) {
    add(w, seq, syn_repeat(w->s, node, 0, 1));
}

static void option_mark(const struct writer *w, int32_t seq, const char *text) {
    if (text) add_option(w, seq, syn_mark(w->s, sv(text)));
}

// --- one call ------------------------------------------------------------------------------------

static void set_notation(struct writer *w) {
    const struct call_style *s = w->style;
    struct notation *n = &w->notation;
    if (s->kind == CALLS_LITERAL) n->kind = s->quote ? NOTATION_QUOTED : NOTATION_PYTHON;
    n->quote = s->quote;
    if (!s->key_open || w->f->harmony) return;
    n->kind = NOTATION_TAGS;
    n->key_open = s->key_open;
    n->key_close = s->key_close;
    n->value_open = s->value_open;
    n->value_close = s->value_close;
    n->end = s->kind == CALLS_TREE ? s->mark : s->value_close;
    n->closed = s->kind == CALLS_TREE;
    n->quoted = s->key_open[strlen(s->key_open) - 1] == '"';
    n->entities = s->entities;
    n->lines = s->lines;
    n->cdata = s->cdata;
    n->says = s->says;
}

static bool can_hold(const struct notation *n, struct json_object *schema) {
    struct error why = {0};
    struct syntax trial = {.e = &why};
    notation_arguments(&trial, schema, n);
    syn_free(&trial);
    return !why.set;
}

// A node for a tool's arguments.
static int32_t arguments(const struct writer *w, struct json_object *function) {
    struct json_object *schema = json_at(function, "parameters"), *own = NULL;
    bool strict = json_bool_at(function, "strict", false);
    if (!schema || (!strict && !can_hold(&w->notation, schema))) {
        own = json_object_new_object();
        json_object_object_add(own, "type", json_object_new_string("object"));
        if (!schema) json_object_object_add(own, "properties", json_object_new_object());
        schema = own;
    }
    int32_t rule = notation_arguments(w->s, schema, &w->notation);
    json_object_put(own);
    return syn_call(w->s, rule);
}

static void add_member(const struct writer *w, int32_t seq, const char *key) {
    add_mark(w, seq, "\"");
    add_mark(w, seq, key);
    add_mark(w, seq, "\"");
    add_space(w, seq);
    add_mark(w, seq, ":");
    add_space(w, seq);
}

static void add_comma(const struct writer *w, int32_t seq) {
    add_space(w, seq);
    add_mark(w, seq, ",");
    add_space(w, seq);
}

// A member with the call's id, and the comma before or after it.
static void option_id(const struct writer *w, int32_t seq, const char *key, bool first) {
    int32_t id = syn_seq(w->s);
    if (!key) return;
    if (!first) add_comma(w, id);
    add_member(w, id, key);
    add_pattern(w, id, "\"[A-Za-z0-9_-]{1,40}\"");
    if (first) add_comma(w, id);
    add_option(w, seq, id);
}

static void write_json(const struct writer *w, int32_t seq, const char *name, int32_t args) {
    const struct call_style *s = w->style;
    add_mark(w, seq, "{");
    add_space(w, seq);
    if (s->keyed) {
        add_member(w, seq, name);
    } else {
        option_id(w, seq, s->first, true);
        add_member(w, seq, s->keys[0] ? s->keys[0] : "name");
        add_mark(w, seq, "\"");
        add_mark(w, seq, name);
        add_mark(w, seq, "\"");
        add_comma(w, seq);
        add_member(w, seq, s->keys[1] ? s->keys[1] : "arguments");
    }
    add(w, seq, args);
    option_id(w, seq, s->last, false);
    add_space(w, seq);
    add_mark(w, seq, "}");
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The name with what stands around it.
static void write_head(const struct writer *w, int32_t seq, const char *name) {
    const struct call_style *s = w->style;
    const char *open = s->name_open ? s->name_open : s->call_open;
    size_t n = s->call_open ? strlen(s->call_open) : 0;
    add_mark(w, seq, s->call_open);
    if (n && s->name_open && is_letter(s->call_open[n - 1]) && is_letter(*s->name_open))
        add_mark(w, seq, " ");
    add_mark(w, seq, s->name_open);
    if (s->id_close) add_pattern(w, seq, "[A-Za-z0-9_-]{1,40}");
    add_mark(w, seq, s->id_close);
    add_mark(w, seq, s->name_start);
    add_mark(w, seq, name);
    if (s->numbered) add_pattern(w, seq, ":[0-9]{1,3}");
    if (s->id_open) {
        int32_t id = syn_seq(w->s);
        add_mark(w, id, s->id_open);
        add_pattern(w, id, "[A-Za-z0-9_-]{1,40}");
        add_option(w, seq, id);
    }
    if (open && sv_ends(sv(open), sv("\"")) && s->name_close && s->name_close[0] != '"')
        add_mark(w, seq, "\"");
    if (s->number) {
        int32_t number = syn_seq(w->s);
        add_mark(w, number, s->number);
        add_pattern(w, number, "[0-9]{1,3}\"");
        add_option(w, seq, number);
    }
    add_mark(w, seq, s->name_close);
}

static void write_tags(const struct writer *w, int32_t seq, const char *name, int32_t args) {
    const struct call_style *s = w->style;
    bool object = !s->key_open;
    write_head(w, seq, name);
    if (object) add_space(w, seq);
    if (object && s->args_open && s->args_open[0]) {
        add_mark(w, seq, s->args_open);
        add_space(w, seq);
    }
    add(w, seq, args);
    if (object && s->args_close) {
        add_space(w, seq);
        add_mark(w, seq, s->args_close);
    }
    if (object && s->call_close) add_space(w, seq);
    add_mark(w, seq, s->call_close);
}

static void write_literal(const struct writer *w, int32_t seq, const char *name, int32_t args) {
    if (w->style->quote) add_mark(w, seq, "call:");
    add_mark(w, seq, name);
    add_mark(w, seq, w->style->name_end);
    add(w, seq, args);
}

// The recipient stands before the channel or behind it.
static void write_harmony(const struct writer *w, int32_t seq, const char *name, int32_t args) {
    static const char channel[] = "<|channel|>commentary";
    int32_t alt = syn_alt(w->s), behind = syn_seq(w->s), before = syn_seq(w->s);
    int32_t type = syn_alt(w->s);
    add_mark(w, behind, channel);
    add_mark(w, behind, " to=functions.");
    add_mark(w, behind, name);
    option_mark(w, before, " ");
    add_mark(w, before, "to=functions.");
    add_mark(w, before, name);
    add_mark(w, before, channel);
    add(w, alt, behind);
    add(w, alt, before);
    add(w, seq, alt);
    for (int i = 0; i < 4; i++) {
        static const char *const types[] = {" <|constrain|>json", "<|constrain|>json", " json",
                                            " "};
        add_mark(w, type, types[i]);
    }
    add_option(w, seq, type);
    add_mark(w, seq, "<|message|>");
    add(w, seq, args);
}

static bool name_fits(struct sv name) {
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (!is_letter(c) && !(c >= '0' && c <= '9') && !(c && strchr("_-.", c))) return false;
    }
    return name.n > 0 && name.n <= 128;
}

static bool write_tool(struct writer *w, int32_t alt, struct json_object *tool) {
    struct json_object *function = json_at(tool, "function");
    int32_t seq = syn_seq(w->s);
    if (!json_object_is_type(function, json_type_object)) function = tool;
    struct sv name = json_text_at(function, "name");
    if (!name_fits(name))
        return fail(w->s->e,
                    "a name is \"%.*s\"; calls can be forced of names of up to 128 letters, digits "
                    "and _ - . alone",
                    (int)(name.n < 80 ? name.n : 80), name.p);
    int32_t args = arguments(w, function);
    if (w->f->harmony)
        write_harmony(w, seq, name.p, args);
    else if (w->style->kind == CALLS_JSON)
        write_json(w, seq, name.p, args);
    else if (w->style->kind == CALLS_LITERAL)
        write_literal(w, seq, name.p, args);
    else
        write_tags(w, seq, name.p, args);
    add(w, alt, seq);
    return !w->s->e->set;
}

static bool write_tools(struct writer *w) {
    int32_t alt = syn_alt(w->s);
    for (size_t i = 0; i < json_object_array_length(w->c->tools); i++)
        if (!write_tool(w, alt, json_object_array_get_idx(w->c->tools, i)))
            return fail_in(w->s->e, "tools[%zu]", i);
    w->call = syn_rule(w->s, sv("call"));
    syn_define(w->s, w->call, alt);
    return true;
}

// --- sections ------------------------------------------------------------------------------------

// Calls between the marks of a section.
static void add_calls(const struct writer *w, int32_t seq) {
    const struct call_style *s = w->style;
    bool lists = s->kind == CALLS_JSON || (s->kind == CALLS_LITERAL && !s->quote);
    bool single = s->each || w->c->one, bare = !s->open;
    int32_t alt = syn_alt(w->s), row = syn_seq(w->s), list = syn_seq(w->s);
    int32_t next = syn_seq(w->s), more = syn_seq(w->s);
    add(w, row, syn_call(w->s, w->call));
    if (s->kind == CALLS_JSON) option_mark(w, next, ";");
    if (lists) option_mark(w, next, ",");
    add_space(w, next);
    add(w, next, syn_call(w->s, w->call));
    add(w, row, syn_repeat(w->s, next, 0, single ? 0 : -1));
    add_mark(w, list, "[");
    add_space(w, list);
    add(w, list, syn_call(w->s, w->call));
    add_comma(w, more);
    add(w, more, syn_call(w->s, w->call));
    add(w, list, syn_repeat(w->s, more, 0, w->c->one ? 0 : w->f->generic ? GENERIC_MORE : -1));
    add_space(w, list);
    add_mark(w, list, "]");
    bool listed = lists && !s->each && !(bare && s->kind == CALLS_JSON && !s->list);
    if (listed) add(w, alt, list);
    if (!listed || (!bare && !s->list)) add(w, alt, row);
    add(w, seq, alt);
    add_space(w, seq);
}

static void add_section(const struct writer *w, int32_t seq, const char *open) {
    if (open) {
        add_mark(w, seq, open);
        add_space(w, seq);
    }
    add_calls(w, seq);
}

// What is left of the first mark where the prompt has begun it.
static const char *first_open(const struct writer *w) {
    struct sv begun = w->f->begun;
    const char *open = w->style->open;
    return open && begun.n && sv_starts(sv(open), begun) ? open + begun.n : open;
}

// The last section's end, for which the end of the reply may stand, unless it ends the call too.
static void add_end(const struct writer *w, int32_t seq) {
    const struct call_style *s = w->style;
    if (s->kind == CALLS_TAGS && s->key_open && !s->call_close)
        add_mark(w, seq, s->close);
    else
        option_mark(w, seq, s->close);
}

// Nothing but calls.
static int32_t only_calls(const struct writer *w) {
    const struct call_style *s = w->style;
    int32_t seq = syn_seq(w->s), next = syn_seq(w->s);
    add_space(w, seq);
    if (s->before) {
        option_mark(w, seq, s->before);
        add_space(w, seq);
    }
    add_section(w, seq, first_open(w));
    if (s->each && !w->c->one) {
        add_mark(w, next, s->close);
        add_space(w, next);
        add_section(w, next, s->open);
        add(w, seq, syn_repeat(w->s, next, 0, -1));
    }
    add_end(w, seq);
    option_mark(w, seq, s->behind);
    return seq;
}

// Text in which no call begins.
static int32_t free_text(const struct writer *w) {
    struct sv mark[REPLY_STYLES], first = {0};
    struct str bytes = {0};
    size_t n = 0;
    for (size_t i = 0; i < w->f->styles; i++) {
        const struct call_style *s = w->f->style[i];
        if (s->open || s->kind == CALLS_TAGS)
            mark[n++] = style_trigger(s);
        else
            str_add(&bytes, style_trigger(s));
    }
    first = str_sv(&bytes);
    int32_t node = syn_without(w->s, mark, n, first);
    str_free(&bytes);
    return node;
}

// Text, and sections with text between them.
static int32_t text_and_calls(const struct writer *w) {
    const struct call_style *s = w->style;
    int32_t seq = syn_seq(w->s), closed = syn_seq(w->s), last = syn_seq(w->s);
    add(w, seq, free_text(w));
    add_section(w, closed, s->open);
    add_mark(w, closed, s->close);
    add(w, closed, free_text(w));
    add(w, seq, syn_repeat(w->s, closed, 0, w->c->one ? 0 : -1));
    add_section(w, last, s->open);
    add_end(w, last);
    add_option(w, seq, last);
    return seq;
}

static int32_t either(const struct writer *w, int32_t one, int32_t other) {
    int32_t alt = syn_alt(w->s);
    add(w, alt, one);
    add(w, alt, other);
    return alt;
}

// A generic format's answer: its object, with any text.
static int32_t any_answer(const struct writer *w) {
    struct sv open = sv(REPLY_ANSWER);
    struct json_object *schema = json_object_new_object();
    int32_t seq = syn_seq(w->s);
    json_object_object_add(schema, "type", json_object_new_string("string"));
    add_space(w, seq);
    add(w, seq, syn_mark(w->s, sv_cut(open, 0, open.n - 1))); // the string has its own quote
    add(w, seq, syn_call(w->s, schema_read(w->s, schema)));
    add_space(w, seq);
    add_mark(w, seq, "}");
    json_object_put(schema);
    return seq;
}

static int32_t with_style(const struct writer *w) {
    bool bare = !w->style->open && w->style->kind != CALLS_TAGS;
    if (w->c->required) return only_calls(w);
    if (w->c->answer >= 0) return either(w, only_calls(w), syn_call(w->s, w->c->answer));
    if (w->f->generic) return either(w, only_calls(w), any_answer(w));
    return bare ? either(w, only_calls(w), free_text(w)) : text_and_calls(w);
}

// --- harmony -------------------------------------------------------------------------------------

// A message on a channel, without its end.
static void add_message(const struct writer *w, int32_t seq, const char *channel, int32_t text) {
    add_mark(w, seq, "<|channel|>");
    add_mark(w, seq, channel);
    add_mark(w, seq, "<|message|>");
    add(w, seq, text);
}

static int32_t message_text(const struct writer *w) {
    static const char *const marks[] = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>",
                                        "<|end|>",   "<|call|>",    "<|return|>"};
    struct sv mark[sizeof marks / sizeof *marks];
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) mark[i] = sv(marks[i]);
    return syn_without(w->s, mark, sizeof marks / sizeof *marks, sv(""));
}

static void add_start(const struct writer *w, int32_t seq, const char *end) {
    add_mark(w, seq, end);
    add_mark(w, seq, "<|start|>assistant");
}

static int32_t in_harmony(const struct writer *w) {
    bool any = !w->c->required && w->c->answer < 0;
    static const char *const channels[] = {"analysis", "commentary", "final"};
    int32_t seq = syn_seq(w->s), earlier = syn_seq(w->s), channel = syn_alt(w->s);
    int32_t last = syn_alt(w->s), calls = syn_seq(w->s), next = syn_seq(w->s);
    for (size_t i = 0; i < (any ? 3 : 1); i++) {
        int32_t message = syn_seq(w->s);
        add_message(w, message, channels[i], message_text(w));
        add(w, channel, message);
    }
    add(w, earlier, channel);
    add_start(w, earlier, "<|end|>");
    add(w, seq, syn_repeat(w->s, earlier, 0, -1));
    add(w, calls, syn_call(w->s, w->call));
    add_start(w, next, "<|call|>");
    add(w, next, syn_call(w->s, w->call));
    add(w, calls, syn_repeat(w->s, next, 0, w->c->one ? 0 : -1));
    option_mark(w, calls, "<|call|>");
    add(w, last, calls);
    if (!w->c->required) {
        int32_t message = syn_seq(w->s);
        add_message(w, message, "final", any ? message_text(w) : syn_call(w->s, w->c->answer));
        add(w, last, message);
    }
    add(w, seq, last);
    return seq;
}

// --- the whole -----------------------------------------------------------------------------------

static bool can_write(const struct writer *w, struct error *e) {
    static const char why[] = "this model's format of calls can't be held to a schema";
    if (w->f->harmony) return true;
    if (w->style->own) return fail(e, "%s (each call is a message of its own)", why);
    if (w->style->name) return fail(e, "%s (calls have no names)", why);
    return w->c->required || !w->f->begun.n ||
           fail(e, "%s beside text (the prompt begins the reply)", why);
}

int32_t call_grammar(struct syntax *s, const struct reply_format *f, const struct call_rules *c) {
    struct writer w = {.s = s, .f = f, .style = f->writes, .c = c};
    if (!can_write(&w, s->e)) return 0;
    w.space = regex_read(s, sv("| |\\n{1,2}[ \\t]{0,20}"));
    if (!f->harmony) set_notation(&w);
    if (!write_tools(&w)) return 0;
    int32_t root = syn_rule(s, sv("reply"));
    syn_define(s, root, f->harmony ? in_harmony(&w) : with_style(&w));
    return root;
}
