#include "base/jread.h"

enum expect { VALUE, VALUE_OR_CLOSE, KEY, KEY_OR_CLOSE, COMMA_OR_CLOSE, NOTHING, DONE, BROKEN };

void jread_open(struct jread *j, struct sv text, const char *what, struct error *e) {
    *j = (struct jread){.in = text, .what = what, .e = e, .expect = VALUE};
}

void jread_close(struct jread *j) { str_free(&j->unescaped); }

const char *jtoken_name(enum jtoken t) {
    static const char *const names[] = {
        [J_ERROR] = "an error",      [J_END] = "the end",       [J_OBJECT] = "an object",
        [J_OBJECT_END] = "an end",   [J_ARRAY] = "a list",      [J_ARRAY_END] = "an end",
        [J_KEY] = "a key",           [J_STRING] = "a string",   [J_INT] = "an integer",
        [J_UINT] = "a huge integer", [J_NUMBER] = "a fraction", [J_TRUE] = "true",
        [J_FALSE] = "false",         [J_NULL] = "null",
    };
    return names[t];
}

static enum jtoken broken(struct jread *j, size_t at, const char *why) {
    fail(j->e, "%s: not valid JSON at byte %zu: %s", j->what, at, why);
    j->expect = BROKEN;
    return J_ERROR;
}

static int peek(const struct jread *j) {
    return j->at < j->in.n ? (unsigned char)j->in.p[j->at] : -1;
}

static void skip_space(struct jread *j) {
    for (int c; (c = peek(j)) == ' ' || c == '\t' || c == '\n' || c == '\r';) j->at++;
}

static int hex4(const struct jread *j, size_t at) {
    int v = 0;
    for (size_t i = at; i < at + 4; i++) {
        int digit = i < j->in.n ? hex_digit(j->in.p[i]) : -1;
        if (digit < 0) return -1;
        v = v << 4 | digit;
    }
    return v;
}

// One escape, j->at after its backslash; its meaning goes to the buffer. NULL, or what is wrong.
static const char *unescape(struct jread *j) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(j);
    j->at++;
    for (int i = 0; from[i]; i++) {
        if (c != from[i]) continue;
        str_addc(&j->unescaped, to[i]);
        return NULL;
    }
    if (c != 'u') return "unknown escape";
    int cp = hex4(j, j->at);
    if (cp < 0) return "\\u needs four hexadecimal digits";
    j->at += 4;
    if (cp >= 0xdc00 && cp < 0xe000) return "\\u escapes half a surrogate pair";
    if (cp >= 0xd800 && cp < 0xdc00) {
        bool pair = sv_starts(sv_cut(j->in, j->at, j->in.n), sv("\\u"));
        int low = pair ? hex4(j, j->at + 2) : -1;
        if (low < 0xdc00 || low >= 0xe000) return "\\u escapes half a surrogate pair";
        j->at += 6;
        cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
    }
    char utf8[4];
    str_add(&j->unescaped, sv_n(utf8, utf8_encode((uint32_t)cp, utf8)));
    return NULL;
}

// The first byte at or after `at` that a string can't just hold: a quote, a backslash, a control
// character, or the end. *high becomes true when a byte before it is not ASCII.
static size_t plain_end(struct sv in, size_t at, bool *high) {
    unsigned char any = 0;
    for (; at < in.n; at++) {
        unsigned char c = (unsigned char)in.p[at];
        if (c < 0x20 || c == '"' || c == '\\') break;
        any |= c;
    }
    *high |= any >= 0x80;
    return at;
}

// A string, j->at after its opening quote. Without escapes, text views the input itself.
static enum jtoken read_string(struct jread *j, enum jtoken kind) {
    size_t begin = j->at, run = j->at;
    bool escaped = false, high = false;
    for (int c; j->at = plain_end(j->in, j->at, &high), (c = peek(j)) != '"';) {
        if (c < 0) return broken(j, begin - 1, "a string has no end");
        if (c < 0x20) return broken(j, j->at, "a raw control character in a string");
        if (!escaped) str_clear(&j->unescaped);
        escaped = true;
        str_add(&j->unescaped, sv_cut(j->in, run, j->at));
        size_t at = j->at++;
        const char *why = unescape(j);
        if (why) return broken(j, at, why);
        run = j->at;
    }
    if (high && !utf8_valid(sv_cut(j->in, begin, j->at)))
        return broken(j, begin - 1, "a string is not UTF-8");
    if (escaped) str_add(&j->unescaped, sv_cut(j->in, run, j->at));
    j->text = escaped ? str_sv(&j->unescaped) : sv_cut(j->in, begin, j->at);
    j->at++;
    return kind;
}

static bool digits(struct jread *j) {
    size_t begin = j->at;
    for (int c; (c = peek(j)) >= '0' && c <= '9';) j->at++;
    return j->at > begin;
}

// A plain integer that fits 64 bits is exact; the rest stays text.
static enum jtoken classify(struct jread *j, bool plain) {
    bool negative = j->text.p[0] == '-';
    uint64_t u = 0;
    for (size_t i = negative; plain && i < j->text.n; i++) {
        unsigned digit = (unsigned)(j->text.p[i] - '0');
        if (u > (UINT64_MAX - digit) / 10)
            plain = false;
        else
            u = u * 10 + digit;
    }
    if (!plain || (negative && (u == 0 || u > (uint64_t)INT64_MAX + 1))) return J_NUMBER;
    j->u = u;
    if (!negative && u > INT64_MAX) return J_UINT;
    j->i = negative ? -(int64_t)(u - 1) - 1 : (int64_t)u;
    return J_INT;
}

static enum jtoken read_number(struct jread *j) {
    size_t begin = j->at;
    bool plain = true;
    if (peek(j) == '-') j->at++;
    if (peek(j) == '0')
        j->at++;
    else if (!digits(j))
        return broken(j, begin, "expected a value");
    if (peek(j) == '.') {
        j->at++, plain = false;
        if (!digits(j)) return broken(j, begin, "a number ends in a point");
    }
    if (peek(j) == 'e' || peek(j) == 'E') {
        j->at++, plain = false;
        if (peek(j) == '+' || peek(j) == '-') j->at++;
        if (!digits(j)) return broken(j, begin, "an exponent without digits");
    }
    j->text = sv_cut(j->in, begin, j->at);
    return classify(j, plain);
}

static enum jtoken read_word(struct jread *j, const char *word, enum jtoken kind) {
    if (!sv_starts(sv_cut(j->in, j->at, j->in.n), sv(word)))
        return broken(j, j->at, "expected a value");
    j->at += sv(word).n;
    return kind;
}

static enum jtoken open_value(struct jread *j, bool object) {
    if (j->depth == JREAD_DEPTH) return broken(j, j->at, "nested too deep");
    j->in_object[j->depth++] = object;
    j->at++;
    j->expect = object ? KEY_OR_CLOSE : VALUE_OR_CLOSE;
    return object ? J_OBJECT : J_ARRAY;
}

static enum jtoken close_value(struct jread *j) {
    bool object = j->in_object[--j->depth];
    j->at++;
    j->expect = j->depth ? COMMA_OR_CLOSE : NOTHING;
    return object ? J_OBJECT_END : J_ARRAY_END;
}

static enum jtoken read_value(struct jread *j) {
    int c = peek(j);
    if (c == '{' || c == '[') return open_value(j, c == '{');
    enum jtoken t;
    if (c == '"')
        j->at++, t = read_string(j, J_STRING);
    else if (c == 't')
        t = read_word(j, "true", J_TRUE);
    else if (c == 'f')
        t = read_word(j, "false", J_FALSE);
    else if (c == 'n')
        t = read_word(j, "null", J_NULL);
    else
        t = read_number(j);
    if (t != J_ERROR) j->expect = j->depth ? COMMA_OR_CLOSE : NOTHING;
    return t;
}

static enum jtoken read_key(struct jread *j) {
    if (peek(j) != '"') return broken(j, j->at, "expected a key in quotes");
    j->at++;
    if (read_string(j, J_KEY) == J_ERROR) return J_ERROR;
    skip_space(j);
    if (peek(j) != ':') return broken(j, j->at, "expected a colon after a key");
    j->at++;
    j->expect = VALUE;
    return J_KEY;
}

enum jtoken jread_next(struct jread *j) {
    if (j->expect == DONE) return J_END;
    if (j->expect == BROKEN) return J_ERROR;
    skip_space(j);
    int c = peek(j);
    if (j->expect == NOTHING) {
        if (c >= 0) return broken(j, j->at, "text after the value");
        j->expect = DONE;
        return J_END;
    }
    if (c < 0) return broken(j, j->at, "it ends too early");
    bool object = j->depth && j->in_object[j->depth - 1];
    bool may_close = j->expect != VALUE && j->expect != KEY;
    if (may_close && c == (object ? '}' : ']')) return close_value(j);
    if (j->expect == COMMA_OR_CLOSE) {
        if (c != ',') return broken(j, j->at, "expected a comma or the end of the list");
        j->at++;
        skip_space(j);
        j->expect = object ? KEY : VALUE;
    }
    return j->expect == KEY || j->expect == KEY_OR_CLOSE ? read_key(j) : read_value(j);
}

// The first byte behind the list or object that begins at `at`, 0: it has no end.
static size_t list_end(struct sv in, size_t at) {
    size_t depth = 0;
    for (; at < in.n; at++) {
        char c = in.p[at];
        if (c == '"') {
            for (at++; at < in.n && in.p[at] != '"'; at++) at += in.p[at] == '\\';
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return at + 1;
        }
    }
    return 0;
}

bool jread_pass(struct jread *j, struct sv *value) {
    skip_space(j);
    size_t begin = j->at;
    int c = peek(j);
    if (c != '{' && c != '[') {
        bool ok = jread_skip(j, J_KEY);
        *value = sv_cut(j->in, begin, j->at);
        return ok;
    }
    j->at = list_end(j->in, begin);
    if (!j->at) return broken(j, begin, "a list or object has no end") != J_ERROR;
    *value = sv_cut(j->in, begin, j->at);
    j->expect = COMMA_OR_CLOSE;
    return true;
}

bool jread_skip(struct jread *j, enum jtoken token) {
    if (token == J_KEY) token = jread_next(j);
    if (token == J_OBJECT || token == J_ARRAY)
        for (int outside = j->depth - 1; j->depth > outside;)
            if (jread_next(j) == J_ERROR) return false;
    return token != J_ERROR;
}
