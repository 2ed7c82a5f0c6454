// An answer in the generic format: a JSON string, which is content as it comes.
#include <string.h>

#include "chat/reply/call.h"

enum { IN_STRING, BEHIND, AFTER }; // BEHIND the string, AFTER the object

enum { CODE = 6 }; // bytes of a \uXXXX

// Whether a \uXXXX stands at s[0]; FIT_MORE when more must come to tell.
static enum fit is_code(struct sv s) {
    for (size_t i = 0; i < CODE; i++) {
        if (i == s.n) return FIT_MORE;
        if (i < 2 ? s.p[i] != "\\u"[i] : hex_digit(s.p[i]) < 0) return FIT_NO;
    }
    return FIT_YES;
}

// Bytes of the escape at s[0], with its other half if it is one of a pair. 0: more must come to
// tell; 1: it is none.
static size_t escape_bytes(struct sv s) {
    if (s.n < 2) return 0;
    if (s.p[1] != 'u') return strchr("\"\\/bfnrt", s.p[1]) && s.p[1] ? 2 : 1;
    enum fit first = is_code(s);
    if (first != FIT_YES) return first == FIT_NO;
    bool high = (s.p[2] | 32) == 'd' && hex_digit(s.p[3]) >= 8 && hex_digit(s.p[3]) < 12;
    enum fit second = high ? is_code(sv_cut(s, CODE, s.n)) : FIT_NO;
    return second == FIT_MORE ? 0 : second == FIT_YES ? 2 * CODE : CODE;
}

static void add_escape(struct str *text, struct sv escape) {
    struct str quoted = {0};
    str_addc(&quoted, '"');
    str_add(&quoted, escape);
    str_addc(&quoted, '"');
    unquote_json(str_sv(&quoted), text);
    str_free(&quoted);
}

// Appends what can be decoded, up to the string's end. Returns the bytes that it has.
static size_t decode(struct sv s, struct str *text) {
    size_t i = 0, n;
    for (; i < s.n && s.p[i] != '"'; i += n) {
        n = s.p[i] == '\\' ? escape_bytes(sv_cut(s, i, s.n)) : 1;
        if (!n) return i;
        if (n > 1)
            add_escape(text, sv_cut(s, i, i + n));
        else
            str_addc(text, s.p[i]);
    }
    return i;
}

static bool read_string(struct reply *r) {
    struct sv rest = input_rest(r);
    struct str text = {0};
    size_t n = decode(rest, &text);
    bool end = n < rest.n && rest.p[n] == '"';
    if (n) show_text(r, REPLY_CONTENT, str_sv(&text));
    input_eat(r, n + end);
    if (end) r->answer = BEHIND;
    if (r->ended && !end) r->at = r->in.n; // what is left is half an escape
    str_free(&text);
    return n || end;
}

bool in_answer(const struct reply *r) { return r->mode == IN_ANSWER && r->answer == IN_STRING; }

bool answer_unbegun(const struct reply *r) {
    struct sv rest = sv_trim(input_rest(r));
    return reply_wrapped(r) && !r->spoke && rest.n &&
           (sv_starts(sv(REPLY_ANSWER), rest) || sv_starts(sv(REPLY_CALLS), rest));
}

bool read_answer(struct reply *r) {
    if (r->answer == IN_STRING) return read_string(r);
    input_skip_space(r);
    if (r->answer == BEHIND && input_take(r, "}") == FIT_YES) {
        r->answer = AFTER;
        return true;
    }
    if (input_rest(r).n) r->mode = IN_CONTENT;
    return input_rest(r).n > 0;
}
