// Values: JSON's texts, and what a tool's schema makes of a value written without quotes.
#include <string.h>

#include "chat/reply/call.h"

void escape_json(struct str *out, struct sv text) {
    static const char names[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        const char *name = names;
        while (*name && (unsigned char)name[0] != c) name += 2;
        if (*name)
            str_printf(out, "\\%c", name[1]);
        else if (c < 0x20)
            str_printf(out, "\\u%04x", c);
        else
            str_addc(out, (char)c);
    }
}

static int hex4(struct sv s, size_t at) {
    int n = 0;
    if (at + 4 > s.n) return -1;
    for (size_t i = at; i < at + 4; i++) {
        int d = hex_digit(s.p[i]);
        if (d < 0) return -1;
        n = n * 16 + d;
    }
    return n;
}

// \uXXXX at s[at], and its other half when it is one of a pair: half a pair becomes U+FFFD.
static size_t unescape_u(struct str *out, struct sv s, size_t at) {
    int high = hex4(s, at), low = -1;
    size_t used = 4;
    if (high < 0) return 0;
    uint32_t cp = (uint32_t)high;
    if (high >= 0xd800 && high < 0xdc00 && sv_starts(sv_cut(s, at + 4, s.n), sv("\\u")))
        low = hex4(s, at + 6);
    if (low >= 0xdc00 && low < 0xe000) {
        cp = 0x10000 + (((uint32_t)high - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
        used = 10;
    } else if (high >= 0xd800 && high < 0xe000) {
        cp = 0xfffd;
    }
    char utf8[4];
    str_add(out, sv_n(utf8, utf8_encode(cp, utf8)));
    return used;
}

bool unquote_json(struct sv quoted, struct str *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    struct sv s = sv_cut(quoted, 1, quoted.n - 1);
    if (quoted.n < 2 || quoted.p[0] != '"') return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '\\') {
            str_addc(out, s.p[i]);
            continue;
        }
        if (++i == s.n) return false;
        size_t k = 0;
        while (from[k] && from[k] != s.p[i]) k++;
        size_t used = s.p[i] == 'u' ? unescape_u(out, s, i + 1) : 0;
        if (from[k])
            str_addc(out, to[k]);
        else if (!used)
            return false;
        i += used;
    }
    return true;
}

size_t unescape_python(struct sv rest, struct str *out) {
    static const char from[] = "\\'\"abfnrtv0", to[] = "\\'\"\a\b\f\n\r\t\v";
    static const struct {
        char c;
        size_t digits;
    } hex[] = {{'x', 2}, {'u', 4}, {'U', 8}};
    if (rest.n < 2) return 0;
    if (rest.p[1] == '\n') return 2; // goes on in the next line
    for (size_t i = 0; i < 3; i++) {
        if (rest.p[1] != hex[i].c) continue;
        uint32_t cp = 0;
        size_t k = 2;
        for (; k < 2 + hex[i].digits; k++) {
            if (k >= rest.n) return 0;
            int d = hex_digit(rest.p[k]);
            if (d < 0) break;
            cp = cp << 4 | (uint32_t)d;
        }
        if (k < 2 + hex[i].digits) break;
        bool good = cp < 0x110000 && !(cp >= 0xd800 && cp < 0xe000);
        char utf8[4];
        str_add(out, sv_n(utf8, utf8_encode(good ? cp : 0xfffd, utf8)));
        return k;
    }
    for (size_t i = 0; i < sizeof from - 1; i++) {
        if (rest.p[1] != from[i]) continue;
        str_addc(out, to[i]);
        return 2;
    }
    str_addc(out, '\\'); // no escape: the backslash is itself
    return 1;
}

// --- tools ---------------------------------------------------------------------------------------

static struct json_object *tool_named(struct json_object *tools, struct sv name) {
    for (size_t i = 0; i < json_object_array_length(tools); i++) {
        struct json_object *tool = json_object_array_get_idx(tools, i);
        struct json_object *function = json_at(tool, "function");
        if (json_object_is_type(function, json_type_object)) tool = function;
        if (sv_eq(json_text_at(tool, "name"), name)) return tool;
    }
    return NULL;
}

bool tool_known(struct json_object *tools, struct sv name) { return tool_named(tools, name); }

struct json_object *tool_schema(struct json_object *tools, struct sv name) {
    return json_at(tool_named(tools, name), "parameters");
}

// The JSON type of a text that is JSON, by its first byte.
static unsigned json_type_at(struct sv text) {
    switch (text.p[0]) {
    case '{': return KIND_OBJECT;
    case '[': return KIND_ARRAY;
    case '"': return KIND_STRING;
    case 't':
    case 'f': return KIND_BOOLEAN;
    case 'n': return KIND_NULL;
    default: break;
    }
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] == '.' || text.p[i] == 'e' || text.p[i] == 'E') return KIND_NUMBER;
    return KIND_INTEGER;
}

struct sv python_word(struct sv text) {
    if (sv_is(text, "True")) return sv("true");
    if (sv_is(text, "False")) return sv("false");
    if (sv_is(text, "None")) return sv("null");
    return text;
}

// A Python text at s[at], quotes and all, as JSON. Returns where it ends; 0: it doesn't.
static size_t python_text(struct str *out, struct sv s, size_t at) {
    struct str text = {0};
    size_t i = at + 1, used = 1;
    for (; i < s.n && s.p[i] != s.p[at] && used; i += used) {
        used = 1;
        if (s.p[i] == '\\')
            used = unescape_python(sv_cut(s, i, s.n), &text);
        else
            str_addc(&text, s.p[i]);
    }
    str_addc(out, '"');
    escape_json(out, str_sv(&text));
    str_addc(out, '"');
    str_free(&text);
    return i < s.n && used ? i + 1 : 0;
}

static bool in_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// A list, tuple or dict as Python prints it. False, with nothing added, when it isn't one.
static bool python_json(struct str *out, struct sv s) {
    struct str json = {0};
    bool ok = s.n && strchr("[{(", s.p[0]) != NULL;
    for (size_t i = 0, n; ok && i < s.n; i = n) {
        n = i + 1;
        if (s.p[i] == '"' || s.p[i] == '\'') {
            ok = (n = python_text(&json, s, i)) > 0;
        } else if (in_word(s.p[i])) {
            while (n < s.n && in_word(s.p[n])) n++;
            str_add(&json, python_word(sv_cut(s, i, n)));
        } else {
            str_addc(&json, s.p[i] == '(' ? '[' : s.p[i] == ')' ? ']' : s.p[i]);
        }
    }
    ok = ok && jscan_whole(str_sv(&json));
    if (ok) str_add(out, str_sv(&json));
    str_free(&json);
    return ok;
}

void typed_json(struct str *out, struct sv text, unsigned kinds) {
    struct str python = {0};
    struct sv value = python_word(sv_trim(text));
    unsigned allowed = kinds ? kinds : ~0u;
    if (allowed & KIND_NUMBER) allowed |= KIND_INTEGER;
    bool json = kinds != KIND_STRING && jscan_whole(value);
    if (!json && kinds != KIND_STRING && python_json(&python, value)) {
        value = str_sv(&python);
        json = true;
    }
    unsigned got = json ? json_type_at(value) : 0;
    if (json && (got & allowed || (got == KIND_NUMBER && allowed & KIND_INTEGER))) {
        str_add(out, value);
    } else {
        str_addc(out, '"');
        escape_json(out, text);
        str_addc(out, '"');
    }
    str_free(&python);
}
