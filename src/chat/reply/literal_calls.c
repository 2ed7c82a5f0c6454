// Calls written as a language's literals: Python's NAME(KEY=VALUE, ...) and Gemma's
// call:NAME{KEY:VALUE,...}. Their values become JSON as they come.
#include <string.h>

#include "chat/reply/call.h"

enum { MOST_NAME = 256, MOST_WORD = 4096 };

enum { TOP, NAME, OPEN, ITEM, KEY, COLON, VALUE, WORD, TEXT, AFTER };

static enum step go(struct reply *r, int at) {
    r->literal.at = at;
    return STEP_ON;
}

static enum step lost_or_more(const struct reply *r) {
    return input_rest(r).n ? STEP_LOST : STEP_MORE;
}

static bool in_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-' || (unsigned char)c >= 0x80;
}

// Takes the bytes of a name. FIT_MORE: it may go on.
static enum fit take_name(struct reply *r, struct str *to) {
    struct sv rest = input_rest(r);
    size_t n = 0, room = MOST_NAME - to->n;
    while (n < rest.n && n < room && in_name(rest.p[n])) n++;
    str_add(to, sv_cut(rest, 0, n));
    input_eat(r, n);
    if (to->n == MOST_NAME) return FIT_NO;
    return n < rest.n ? FIT_YES : FIT_MORE;
}

static enum step push(struct reply *r, char close, bool object) {
    struct literal_calls *l = &r->literal;
    if (l->depth == LITERAL_DEPTH) return STEP_LOST;
    l->close[l->depth] = close;
    l->object[l->depth] = object;
    l->any[l->depth++] = false;
    call_argue(r, sv(object ? "{" : "["));
    return go(r, ITEM);
}

static enum step pop(struct reply *r) {
    struct literal_calls *l = &r->literal;
    l->depth--;
    call_argue(r, sv(l->object[l->depth] ? "}" : "]"));
    if (l->depth) return go(r, AFTER);
    call_end(r);
    return go(r, TOP);
}

// Between calls.
static enum step top(struct reply *r) {
    struct literal_calls *l = &r->literal;
    const struct call_style *s = r->style;
    input_skip_space(r);
    if (!l->listed && s->close) {
        enum fit f = input_take(r, s->close);
        if (f == FIT_YES) return r->sectioned ? STEP_DONE : STEP_LOST;
        if (f == FIT_MORE) return STEP_MORE;
    }
    if (!l->listed && !r->sectioned && !s->quote && input_take(r, "[") == FIT_YES) {
        l->listed = true;
        return STEP_ON;
    }
    if (l->listed && input_take(r, "]") == FIT_YES) {
        l->listed = false;
        if (r->sectioned) str_clear(&r->raw); // the list is whole
        return s->close || !r->sectioned ? STEP_ON : STEP_DONE;
    }
    if (r->sectioned && input_take(r, ",") == FIT_YES) return STEP_ON;
    struct sv rest = input_rest(r);
    if (!rest.n) return STEP_MORE;
    enum fit call = s->quote ? input_take(r, "call:") : in_name(rest.p[0]) ? FIT_YES : FIT_NO;
    if (call == FIT_MORE) return STEP_MORE;
    str_clear(&r->name);
    if (call == FIT_YES) return go(r, NAME);
    return r->sectioned && !l->listed ? STEP_DONE : STEP_LOST;
}

static enum step name(struct reply *r) {
    enum fit f = take_name(r, &r->name);
    if (f != FIT_YES) return f == FIT_MORE ? STEP_MORE : STEP_LOST;
    return go(r, OPEN);
}

static enum step open_call(struct reply *r) {
    const struct call_style *s = r->style;
    input_skip_space(r);
    if (input_take(r, s->quote ? "{" : "(") != FIT_YES) return lost_or_more(r);
    struct sv name = str_sv(&r->name);
    if (s->name_end && sv_ends(name, sv(s->name_end))) name.n -= strlen(s->name_end);
    if (!name.n || (r->bare && !tool_known(r->opt.tools, name))) return STEP_LOST;
    call_begin(r, name, sv(""));
    return push(r, s->quote ? '}' : ')', true);
}

static enum step begin_text(struct reply *r, bool key, const char *mark) {
    r->literal.key = key;
    r->literal.mark = mark[0];
    call_argue(r, sv("\""));
    return go(r, TEXT);
}

// The quote that begins here, if any.
static enum fit take_quote(struct reply *r, const char **mark) {
    static const char *const python[] = {"\"", "'"};
    if (r->style->quote) {
        *mark = r->style->quote;
        return input_take(r, *mark);
    }
    for (int i = 0; i < 2; i++) {
        *mark = python[i];
        if (input_take(r, *mark) == FIT_YES) return FIT_YES;
    }
    return FIT_NO;
}

// An element, a key, or the end of what is open.
static enum step item(struct reply *r) {
    struct literal_calls *l = &r->literal;
    int top = l->depth - 1;
    input_skip_space(r);
    struct sv rest = input_rest(r);
    if (!rest.n) return STEP_MORE;
    if (rest.p[0] == l->close[top]) {
        input_eat(r, 1);
        return pop(r);
    }
    const char *mark = NULL;
    enum fit quoted = l->object[top] ? take_quote(r, &mark) : FIT_NO;
    if (quoted == FIT_MORE) return STEP_MORE;
    if (l->any[top]) call_argue(r, sv(", "));
    l->any[top] = true;
    if (!l->object[top]) return go(r, VALUE);
    // The arguments of a Python call have names, not texts.
    if (quoted == FIT_YES && top == 0 && !r->style->quote) return STEP_LOST;
    if (quoted == FIT_YES) return begin_text(r, true, mark);
    str_clear(&r->key);
    return go(r, KEY);
}

static enum step key(struct reply *r) {
    struct literal_calls *l = &r->literal;
    enum fit f = take_name(r, &r->key);
    if (f != FIT_YES) return f == FIT_MORE ? STEP_MORE : STEP_LOST;
    if (!r->key.n) return STEP_LOST;
    struct str s = {0};
    str_addc(&s, '"');
    escape_json(&s, str_sv(&r->key));
    str_addc(&s, '"');
    call_argue(r, str_sv(&s));
    str_free(&s);
    l->key = true;
    return go(r, COLON);
}

static enum step colon(struct reply *r) {
    bool argument = r->literal.depth == 1 && !r->style->quote;
    input_skip_space(r);
    if (input_take(r, argument ? "=" : ":") != FIT_YES) return lost_or_more(r);
    call_argue(r, sv(": "));
    return go(r, VALUE);
}

static enum step value(struct reply *r) {
    const char *mark = NULL;
    input_skip_space(r);
    enum fit quoted = take_quote(r, &mark);
    if (quoted == FIT_MORE) return STEP_MORE;
    if (quoted == FIT_YES) return begin_text(r, false, mark);
    if (input_take(r, "[") == FIT_YES) return push(r, ']', false);
    if (input_take(r, "{") == FIT_YES) return push(r, '}', true);
    if (!r->style->quote && input_take(r, "(") == FIT_YES) return push(r, ')', false);
    if (!input_rest(r).n) return STEP_MORE;
    str_clear(&r->value);
    return go(r, WORD);
}

// --- words ---------------------------------------------------------------------------------------

// A Python number as JSON has it: without "+" and "_", with digits on both sides of the point.
// JSON's words pass as they are.
static bool add_number(struct str *out, struct sv text) {
    struct str s = {0};
    for (size_t i = text.n && text.p[0] == '+'; i < text.n; i++) {
        char c = text.p[i], before = i ? text.p[i - 1] : 0,
             after = i + 1 < text.n ? text.p[i + 1] : 0;
        if (c == '_') continue;
        if (c == '.' && !(before >= '0' && before <= '9')) str_addc(&s, '0');
        str_addc(&s, c);
        if (c == '.' && !(after >= '0' && after <= '9')) str_addc(&s, '0');
    }
    bool ok = s.p && s.p[0] != '"' && jscan_whole(str_sv(&s));
    if (ok) str_add(out, str_sv(&s));
    str_free(&s);
    return ok;
}

static enum step end_word(struct reply *r) {
    struct sv word = python_word(sv_trim(str_sv(&r->value)));
    struct str s = {0};
    bool ok = word.n && add_number(&s, word);
    // Gemma may leave out the quotes.
    if (!ok && r->style->quote) {
        str_addc(&s, '"');
        escape_json(&s, word);
        str_addc(&s, '"');
        ok = true;
    }
    if (ok) call_argue(r, str_sv(&s));
    str_free(&s);
    return ok ? go(r, AFTER) : STEP_LOST;
}

static enum step word(struct reply *r) {
    struct sv rest = input_rest(r);
    const char *ends = r->style->quote ? ",]}" : ",]}) \t\r\n";
    size_t n = 0, room = MOST_WORD - r->value.n;
    while (n < rest.n && n < room && (!rest.p[n] || !strchr(ends, rest.p[n]))) n++;
    str_add(&r->value, sv_cut(rest, 0, n));
    input_eat(r, n);
    if (r->value.n == MOST_WORD) return STEP_LOST;
    return n < rest.n ? end_word(r) : STEP_MORE;
}

// --- texts ---------------------------------------------------------------------------------------

// A quote ends a text where the text's end makes sense: templates print texts with quotes inside as
// they are.
static enum fit quote_ends(const struct reply *r, struct sv rest) {
    size_t i = 1;
    while (i < rest.n && i < MOST_WORD && jscan_space(rest.p[i])) i++;
    if (i == MOST_WORD) return FIT_YES;
    if (i == rest.n) return r->ended ? FIT_YES : FIT_MORE;
    return strchr(",)]}:", rest.p[i]) && rest.p[i] ? FIT_YES : FIT_NO;
}

static void show_escaped(struct reply *r, struct str *s) {
    struct str json = {0};
    escape_json(&json, str_sv(s));
    call_argue(r, str_sv(&json));
    str_free(&json);
    str_free(s);
}

static enum step python_text(struct reply *r) {
    struct sv rest = input_rest(r);
    struct str out = {0};
    size_t n = 0;
    bool end = false, cut = false;
    while (n < rest.n && !end && !cut) {
        struct sv here = sv_cut(rest, n, rest.n);
        size_t used = 1;
        if (here.p[0] == '\\') {
            used = unescape_python(here, &out);
            cut = !used;
        } else if (here.p[0] == r->literal.mark) {
            enum fit f = quote_ends(r, here);
            end = f == FIT_YES;
            cut = f == FIT_MORE;
            if (f == FIT_NO) str_addc(&out, here.p[0]);
        } else {
            str_addc(&out, here.p[0]);
        }
        if (!cut) n += used;
    }
    show_escaped(r, &out);
    input_eat(r, n);
    if (!end) return STEP_MORE;
    call_argue(r, sv("\""));
    return go(r, r->literal.key ? COLON : AFTER);
}

static enum step quoted_text(struct reply *r) {
    str_clear(&r->value);
    enum fit f = input_until(r, r->style->quote, &r->value);
    struct str out = {0};
    str_add(&out, str_sv(&r->value));
    show_escaped(r, &out);
    if (f != FIT_YES) return STEP_MORE;
    call_argue(r, sv("\""));
    return go(r, r->literal.key ? COLON : AFTER);
}

static enum step after(struct reply *r) {
    struct literal_calls *l = &r->literal;
    input_skip_space(r);
    struct sv rest = input_rest(r);
    if (!rest.n) return STEP_MORE;
    if (rest.p[0] != ',' && rest.p[0] != l->close[l->depth - 1]) return STEP_LOST;
    if (rest.p[0] == ',') input_eat(r, 1);
    return go(r, ITEM);
}

enum step read_literal_calls(struct reply *r) {
    switch (r->literal.at) {
    case TOP: return top(r);
    case NAME: return name(r);
    case OPEN: return open_call(r);
    case ITEM: return item(r);
    case KEY: return key(r);
    case COLON: return colon(r);
    case VALUE: return value(r);
    case WORD: return word(r);
    case TEXT: return r->style->quote ? quoted_text(r) : python_text(r);
    default: return after(r);
    }
}
