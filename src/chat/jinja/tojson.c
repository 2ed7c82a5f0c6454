// The tojson filter: json.dumps as transformers calls it.
#include "chat/jinja/value.h"

#include <math.h>
#include <stdio.h>

static void put_json_text(struct vm *vm, struct sv s, bool ascii) {
    char code[32];
    put_char(vm, '"');
    size_t done = 0;
    for (size_t i = 0, len; i < s.n; i += len) {
        int32_t cp = (unsigned char)s.p[i];
        len = 1;
        if (cp >= 0x80) cp = utf8_decode(s, i, &len);
        bool plain = cp >= 0x20 && cp != '"' && cp != '\\' && (!ascii || cp < 0x7f);
        if (plain || (!ascii && cp >= 0x7f)) continue;
        put(vm, sv_cut(s, done, i));
        done = i + len;
        if (cp == '"' || cp == '\\')
            snprintf(code, sizeof code, "\\%c", (char)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t' || cp == '\b' || cp == '\f')
            snprintf(code, sizeof code, "\\%c", "btn?fr"[cp - '\b']);
        else if (cp == 0x7f)
            snprintf(code, sizeof code, "\x7f");
        else if (cp >= 0x10000)
            snprintf(code, sizeof code, "\\u%04x\\u%04x",
                     0xd800u + ((unsigned)(cp - 0x10000) >> 10),
                     0xdc00u + ((unsigned)(cp - 0x10000) & 0x3ff));
        else
            snprintf(code, sizeof code, "\\u%04x", cp < 0 ? 0xfffdu : (unsigned)cp);
        puts_text(vm, code);
    }
    put(vm, sv_cut(s, done, s.n));
    put_char(vm, '"');
}

static void put_json_float(struct vm *vm, double f) {
    if (isnan(f))
        puts_text(vm, "NaN");
    else if (isinf(f))
        puts_text(vm, f < 0 ? "-Infinity" : "Infinity");
    else
        put_float(vm, f);
}

// Keys of other kinds become text.
static void put_key(struct vm *vm, struct value key, const struct json_style *style) {
    if (key.kind == V_TEXT) {
        put_json_text(vm, sv_of(key), style->ascii);
        return;
    }
    if (!is_number(key) && key.kind != V_NONE)
        raise_error(vm, "keys must be str, int, float, bool or None, not %s", type_name(key));
    put_char(vm, '"');
    put_json(vm, key, style, 0);
    put_char(vm, '"');
}

static void new_line(struct vm *vm, const struct json_style *style, size_t level) {
    if (!style->pretty) return;
    put_char(vm, '\n');
    for (size_t i = 0; i < level; i++) put(vm, style->indent);
}

static void put_array(struct vm *vm, const struct list *l, const struct json_style *style,
                      size_t level) {
    if (!l->n) {
        puts_text(vm, "[]");
        return;
    }
    put_char(vm, '[');
    for (size_t i = 0; i < l->n; i++) {
        if (i) put(vm, style->item);
        new_line(vm, style, level + 1);
        put_json(vm, l->at[i], style, level + 1);
    }
    new_line(vm, style, level);
    put_char(vm, ']');
}

static void put_object(struct vm *vm, const struct dict *d, const struct json_style *style,
                       size_t level) {
    if (!d->n) {
        puts_text(vm, "{}");
        return;
    }
    const struct pair *at = style->sort ? sorted_pairs(vm, d) : d->at;
    put_char(vm, '{');
    for (size_t i = 0; i < d->n; i++) {
        if (i) put(vm, style->item);
        new_line(vm, style, level + 1);
        put_key(vm, at[i].key, style);
        put(vm, style->key);
        put_json(vm, at[i].value, style, level + 1);
    }
    new_line(vm, style, level);
    put_char(vm, '}');
}

void put_json(struct vm *vm, struct value v, const struct json_style *style, size_t level) {
    spend(vm, 1);
    enter(vm);
    switch (v.kind) {
    case V_NONE: puts_text(vm, "null"); break;
    case V_BOOL: puts_text(vm, v.b ? "true" : "false"); break;
    case V_INT:
    case V_BIG: put_int(vm, v, 10); break;
    case V_FLOAT: put_json_float(vm, v.f); break;
    case V_TEXT: put_json_text(vm, sv_of(v), style->ascii); break;
    case V_LIST:
    case V_TUPLE: put_array(vm, v.list, style, level); break;
    case V_DICT: put_object(vm, v.dict, style, level); break;
    default: raise_error(vm, "Object of type %s is not JSON serializable", type_name(v));
    }
    leave(vm);
}
