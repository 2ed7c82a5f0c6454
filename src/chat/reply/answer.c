// An answer in the generic format: a JSON string, which is content as it comes.
#include "chat/reply/call.h"

enum { IN_STRING, BEHIND, AFTER }; // BEHIND the string, AFTER the object

enum { PAIR = 12 }; // bytes of two halves, \uXXXX each

// Bytes of the escape at s[0]; 0: more must come to tell.
static size_t escape_bytes(struct sv s) {
    if (s.n < 2) return 0;
    if (s.p[1] != 'u') return 2;
    if (s.n < PAIR / 2) return 0;
    bool half = (s.p[2] | 32) == 'd' && hex_digit(s.p[3]) >= 8 && hex_digit(s.p[3]) < 12;
    if (!half || (s.n > 6 && s.p[6] != '\\') || (s.n > 7 && s.p[7] != 'u')) return PAIR / 2;
    return s.n < PAIR ? 0 : PAIR;
}

// The bytes of s that can be decoded by themselves, up to the string's end.
static size_t whole_bytes(struct sv s) {
    size_t i = 0;
    while (i < s.n && s.p[i] != '"') {
        size_t n = s.p[i] == '\\' ? escape_bytes(sv_cut(s, i, s.n)) : 1;
        if (!n) return i;
        i += n;
    }
    return i < s.n ? i : s.n - utf8_partial(s);
}

static void show(struct reply *r, struct sv raw) {
    struct str quoted = {0}, text = {0};
    str_addc(&quoted, '"');
    str_add(&quoted, raw);
    str_addc(&quoted, '"');
    bool good = unquote_json(str_sv(&quoted), &text);
    show_text(r, REPLY_CONTENT, good ? str_sv(&text) : raw);
    str_free(&quoted);
    str_free(&text);
}

static bool read_string(struct reply *r) {
    struct sv rest = input_rest(r);
    size_t n = whole_bytes(rest);
    bool end = n < rest.n && rest.p[n] == '"';
    if (n) show(r, sv_cut(rest, 0, n));
    input_eat(r, n + end);
    if (end) r->answer = BEHIND;
    if (r->ended && !end) r->at = r->in.n; // what is left is half an escape
    return n || end;
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
