#include "chat/reply/jscan.h"

#include <string.h>

enum state {
    VALUE, // white space, then a value
    FIRST, // the same, or the end of an array
    FIRST_KEY,
    KEY,
    KEY_STRING,
    KEY_ESCAPE,
    COLON,
    AFTER, // a value in an array or object
    STRING,
    ESCAPE,
    LITERAL,
    MINUS,
    ZERO,
    WHOLE,
    POINT,
    FRACTION,
    EXPONENT,
    EXPONENT_SIGN,
    POWER,
};

static const char *const literals[] = {"true", "false", "null"};

bool jscan_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool in_object(const struct jscan *j) {
    return j->object[(j->depth - 1) / 64] >> ((j->depth - 1) % 64) & 1;
}

static enum jscan_result enter(struct jscan *j, bool object) {
    if (j->depth == JSCAN_DEPTH) return JSCAN_BAD;
    uint64_t bit = (uint64_t)1 << (j->depth % 64);
    j->object[j->depth / 64] &= ~bit;
    if (object) j->object[j->depth / 64] |= bit;
    j->depth++;
    j->state = object ? FIRST_KEY : FIRST;
    return JSCAN_MORE;
}

static enum jscan_result ended(struct jscan *j) {
    j->state = AFTER;
    return j->depth ? JSCAN_MORE : JSCAN_DONE;
}

static enum jscan_result leave(struct jscan *j) {
    j->depth--;
    return ended(j);
}

static enum jscan_result to(struct jscan *j, enum state s) {
    j->state = (uint8_t)s;
    return JSCAN_MORE;
}

static enum jscan_result begin(struct jscan *j, char c) {
    if (c == '{' || c == '[') return enter(j, c == '{');
    if (c == '"') return to(j, STRING);
    if (c == '-') return to(j, MINUS);
    if (is_digit(c)) return to(j, c == '0' ? ZERO : WHOLE);
    for (uint8_t i = 0; i < 3; i++) {
        if (c != literals[i][0]) continue;
        j->literal = i;
        j->seen = 1;
        return to(j, LITERAL);
    }
    return JSCAN_BAD;
}

// Between values; also what ends a number.
static enum jscan_result after(struct jscan *j, char c) {
    if (jscan_space(c)) return to(j, AFTER);
    if (c == ',') return to(j, in_object(j) ? KEY : VALUE);
    if (c == (in_object(j) ? '}' : ']')) return leave(j);
    return JSCAN_BAD;
}

static enum jscan_result in_string(struct jscan *j, char c, enum state escape, enum state next) {
    if (j->hex) {
        j->hex--;
        return hex_digit(c) >= 0 ? JSCAN_MORE : JSCAN_BAD;
    }
    if (c == '\\') return to(j, escape);
    j->control = (unsigned char)c < 0x20;
    if (c != '"') return JSCAN_MORE;
    return next == AFTER ? ended(j) : to(j, next);
}

static enum jscan_result escaped(struct jscan *j, char c, enum state string) {
    if (!c || !strchr("\"\\/bfnrtu", c)) return JSCAN_BAD;
    if (c == 'u') j->hex = 4;
    return to(j, string);
}

// A number may end here; at the top nothing else says where it does.
static enum jscan_result past(struct jscan *j, char c) {
    return j->depth ? after(j, c) : JSCAN_PAST;
}

static enum jscan_result in_number(struct jscan *j, char c) {
    bool e = c == 'e' || c == 'E';
    switch (j->state) {
    case MINUS: return is_digit(c) ? to(j, c == '0' ? ZERO : WHOLE) : JSCAN_BAD;
    case ZERO:
        if (is_digit(c)) return JSCAN_BAD;
        return c == '.' ? to(j, POINT) : e ? to(j, EXPONENT) : past(j, c);
    case WHOLE:
        if (is_digit(c)) return JSCAN_MORE;
        return c == '.' ? to(j, POINT) : e ? to(j, EXPONENT) : past(j, c);
    case POINT: return is_digit(c) ? to(j, FRACTION) : JSCAN_BAD;
    case FRACTION: return is_digit(c) ? JSCAN_MORE : e ? to(j, EXPONENT) : past(j, c);
    case EXPONENT:
        if (c == '+' || c == '-') return to(j, EXPONENT_SIGN);
        return is_digit(c) ? to(j, POWER) : JSCAN_BAD;
    case EXPONENT_SIGN: return is_digit(c) ? to(j, POWER) : JSCAN_BAD;
    default: return is_digit(c) ? JSCAN_MORE : past(j, c);
    }
}

enum jscan_result jscan_push(struct jscan *j, char c) {
    j->control = false;
    switch ((enum state)j->state) {
    case VALUE: return jscan_space(c) ? JSCAN_MORE : begin(j, c);
    case FIRST: return jscan_space(c) ? JSCAN_MORE : c == ']' ? leave(j) : begin(j, c);
    case FIRST_KEY:
        if (c == '}') return leave(j);
        return jscan_space(c) ? JSCAN_MORE : c == '"' ? to(j, KEY_STRING) : JSCAN_BAD;
    case KEY: return jscan_space(c) ? JSCAN_MORE : c == '"' ? to(j, KEY_STRING) : JSCAN_BAD;
    case KEY_STRING: return in_string(j, c, KEY_ESCAPE, COLON);
    case KEY_ESCAPE: return escaped(j, c, KEY_STRING);
    case COLON: return jscan_space(c) ? JSCAN_MORE : c == ':' ? to(j, VALUE) : JSCAN_BAD;
    case AFTER: return j->depth ? after(j, c) : JSCAN_BAD;
    case STRING: return in_string(j, c, ESCAPE, AFTER);
    case ESCAPE: return escaped(j, c, STRING);
    case LITERAL:
        if (c != literals[j->literal][j->seen]) return JSCAN_BAD;
        return literals[j->literal][++j->seen] ? JSCAN_MORE : ended(j);
    default: return in_number(j, c);
    }
}

bool jscan_whole(struct sv text) {
    struct jscan j = {0};
    text = sv_trim(text);
    enum jscan_result r = JSCAN_MORE;
    for (size_t i = 0; i < text.n; i++) {
        if (r != JSCAN_MORE) return false;
        r = jscan_push(&j, text.p[i]);
        if (j.control) return false;
    }
    // A number at the top ends where the text does.
    return r == JSCAN_DONE || (r == JSCAN_MORE && jscan_push(&j, ' ') == JSCAN_PAST);
}
