#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

// The values in a text, or more where its strings hold commas and brackets: what its tree may cost
// is known before it grows.
static size_t most_values(struct sv text) {
    size_t n = 1;
    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == ',' || text.p[i] == '[' || text.p[i] == '{';
    return n;
}

// What json-c allocates for a value, with its place in a list; for a member's key and its place;
// for the tables of a list and of an object. Marks inside strings count too, since json-c knows
// more kinds of quotes and comments than JSON does.
// The same marks written as \u007b count as well: a string may hold JSON that is parsed later.
static unsigned char escaped(struct sv text, size_t at) {
    struct sv s = sv_cut(text, at, at + 6);
    if (s.n < 6 || !sv_starts(s, sv("\\u00"))) return 0;
    const char digits[] = {s.p[4], s.p[5], 0};
    return (unsigned char)strtoul(digits, NULL, 16);
}

size_t json_cost(struct sv text) {
    enum { VALUE = 104, MEMBER = 192, LIST = 160, OBJECT = 768 };
    size_t marks[256] = {0};
    for (size_t i = 0; i < text.n; i++)
        marks[text.p[i] == '\\' ? escaped(text, i) : (unsigned char)text.p[i]]++;
    return text.n + VALUE * (marks[','] + 1) + MEMBER * marks[':'] + LIST * marks['['] +
           OBJECT * marks['{'];
}

// The first byte, outside of texts, that no JSON has there, or the comma with nothing behind it;
// -1: none. json-c lets several pass, even when it is strict.
static ptrdiff_t stray(struct sv text) {
    static const char known[] = "{}[]:,\"0123456789+-.eEtrufalsn \t\n\r";
    bool quoted = false;
    ptrdiff_t comma = -1;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (quoted && c == '\\') i++;
        if (c == '"') quoted = !quoted;
        if (quoted) {
            comma = -1;
            continue;
        }
        if (!c || !strchr(known, c)) return (ptrdiff_t)i;
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') continue;
        if (comma >= 0 && (c == '}' || c == ']')) return comma;
        comma = c == ',' ? (ptrdiff_t)i : -1;
    }
    return -1;
}

static struct json_object *read(struct sv text, int flags, const char *what, struct error *e) {
    if (text.n > INT32_MAX) {
        fail(e, "%s: %zu bytes of JSON is over the limit of 2 GB", what, text.n);
        return NULL;
    }
    if (most_values(text) > JSON_VALUES) {
        fail(e, "%s: holds more than %d JSON values", what, JSON_VALUES);
        return NULL;
    }
    if (!utf8_valid(text)) { // json-c's own check lets overlong forms and surrogates through
        fail(e, "%s: not valid JSON: its text is not UTF-8", what);
        return NULL;
    }
    struct json_tokener *t = json_tokener_new_ex(JSON_DEPTH);
    json_tokener_set_flags(t, flags);
    struct json_object *o = json_tokener_parse_ex(t, text.p, (int)text.n);
    enum json_tokener_error why = json_tokener_get_error(t);
    size_t end = json_tokener_get_parse_end(t);
    if (why == json_tokener_continue) // a bare number or word at the very end: say that it ended
        o = json_tokener_parse_ex(t, "\n", 1), why = json_tokener_get_error(t);
    json_tokener_free(t);
    struct sv rest = why == json_tokener_success ? sv_trim(sv_cut(text, end, text.n)) : sv("");
    if (why == json_tokener_continue)
        fail(e, "%s: JSON ends too early (is it truncated?)", what);
    else if (why != json_tokener_success)
        fail(e, "%s: not valid JSON at byte %zu: %s", what, end, json_tokener_error_desc(why));
    else if (rest.n)
        fail(e, "%s: text after the JSON value at byte %zu", what, (size_t)(rest.p - text.p));
    else if (!o)
        fail(e, "%s: the JSON value is null", what);
    else
        return o;
    json_object_put(o);
    return NULL;
}

struct json_object *json_read(struct sv text, const char *what, struct error *e) {
    return read(text, 0, what, e);
}

struct json_object *json_read_strict(struct sv text, const char *what, struct error *e) {
    struct json_object *o =
        read(text, JSON_TOKENER_STRICT | JSON_TOKENER_ALLOW_TRAILING_CHARS, what, e);
    ptrdiff_t at = o ? stray(text) : -1;
    if (at < 0) return o;
    fail(e, "%s: not valid JSON at byte %td: unexpected character", what, at);
    json_object_put(o);
    return NULL;
}

struct json_object *json_read_file(const char *path, size_t limit, struct error *e) {
    struct str text = {0};
    struct json_object *o = NULL;
    if (file_read(path, limit, &text, e)) o = json_read(str_sv(&text), path, e);
    str_free(&text);
    return o;
}

struct json_object *json_at(struct json_object *o, const char *key) {
    struct json_object *v = NULL;
    return json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, key, &v) ? v
                                                                                             : NULL;
}

struct sv json_text(struct json_object *o) {
    if (!json_object_is_type(o, json_type_string)) return sv("");
    return sv_n(json_object_get_string(o), (size_t)json_object_get_string_len(o));
}

struct sv json_text_at(struct json_object *o, const char *key) {
    return json_text(json_at(o, key));
}

bool json_bool_at(struct json_object *o, const char *key, bool otherwise) {
    struct json_object *v = json_at(o, key);
    return json_object_is_type(v, json_type_boolean) ? json_object_get_boolean(v) : otherwise;
}

int64_t json_int_at(struct json_object *o, const char *key, int64_t otherwise) {
    struct json_object *v = json_at(o, key);
    return json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : otherwise;
}

double json_number_at(struct json_object *o, const char *key, double otherwise) {
    struct json_object *v = json_at(o, key);
    bool number = json_object_is_type(v, json_type_int) || json_object_is_type(v, json_type_double);
    return number ? json_object_get_double(v) : otherwise;
}

void json_add_members(struct json_object *to, struct json_object *from) {
    if (!json_object_is_type(from, json_type_object)) return;
    json_object_object_foreach(from, key, v) {
        json_object_object_add(to, key, json_object_get(v));
    }
}

const char *json_kind(struct json_object *o) {
    switch (json_object_get_type(o)) {
    case json_type_null: return "null";
    case json_type_boolean: return "a boolean";
    case json_type_double:
    case json_type_int: return "a number";
    case json_type_object: return "an object";
    case json_type_array: return "an array";
    case json_type_string: return "a string";
    }
    return "something else";
}

void json_quote(struct str *out, struct sv text) {
    str_addc(out, '"');
    for (size_t i = 0, len; i < text.n; i += len) {
        int32_t cp = utf8_decode(text, i, &len);
        if (cp < 0)
            str_puts(out, "\xef\xbf\xbd");
        else if (cp == '"' || cp == '\\')
            str_printf(out, "\\%c", (char)cp);
        else if (cp == '\n')
            str_puts(out, "\\n");
        else if (cp == '\r')
            str_puts(out, "\\r");
        else if (cp == '\t')
            str_puts(out, "\\t");
        else if (cp < 0x20 || cp == 0x7f)
            str_printf(out, "\\u%04x", (unsigned)cp);
        else
            str_add(out, sv_cut(text, i, i + len));
    }
    str_addc(out, '"');
}

void json_member(struct str *out, const char *name, struct sv text) {
    str_printf(out, "\"%s\":", name);
    json_quote(out, text);
}
