#include "chat/jinja/filters.h"
#include "chat/jinja/letters.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct value filter_abs(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    if (at[0].kind == V_UNDEFINED) raise_undefined(vm, at[0]);
    if (!is_number(at[0])) raise_error(vm, "bad operand type for abs(): '%s'", type_name(at[0]));
    if (at[0].kind == V_FLOAT) return float_value(fabs(at[0].f));
    bool negative = compare_numbers(vm, at[0], int_value(0)) < 0;
    return negative ? negate(vm, at[0]) : arithmetic(vm, '+', at[0], int_value(0));
}

static struct value filter_attr(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    if (at[1].kind != V_TEXT) raise_error(vm, "attr needs a name");
    if (at[0].kind == V_UNDEFINED) raise_undefined(vm, at[0]);
    struct value v = get_attribute(vm, at[0], sv_of(at[1]));
    return v.kind == V_MISSING ? undefined_member(vm, at[0], sv_of(at[1])) : v;
}

static struct value filter_length(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    size_t n;
    if (!has_length(at[0], &n))
        raise_error(vm, "object of type '%s' has no len()", type_name(at[0]));
    return size_value(n);
}

static struct value filter_default(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    if (at[0].kind != V_UNDEFINED && (!truth(at[2]) || truth(at[0]))) return at[0];
    return at[1].kind == V_MISSING ? text_value(vm, sv("")) : at[1];
}

// Trimmed, and with the decimals of every script as those of ASCII.
static struct sv plain_digits(struct vm *vm, struct sv s) {
    s = strip(s, true, true);
    char *p = vm_alloc(vm, s.n, 1);
    size_t n = 0;
    for (size_t i = 0, len; i < s.n; i += len) {
        int32_t cp = utf8_decode(s, i, &len);
        int digit = decimal_value(cp);
        for (size_t k = 0; k < len; k++)
            if (digit < 0)
                p[n++] = s.p[i + k];
            else if (!k)
                p[n++] = (char)('0' + digit);
    }
    return sv_n(p, n);
}

// Text as float() reads it; false when it isn't a number.
static bool read_float(struct vm *vm, struct sv s, double *out) {
    s = plain_digits(vm, s);
    char *p = vm_alloc(vm, s.n + 1, 1), *end;
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        bool between = i && i + 1 < s.n && isdigit((unsigned char)s.p[i - 1]) &&
                       isdigit((unsigned char)s.p[i + 1]);
        if (s.p[i] == '_' && between) continue;
        p[n++] = s.p[i];
    }
    if (!n || strpbrk(p, "xXpP(")) return false; // C reads more than Python
    *out = strtod(p, &end);
    return end == p + n;
}

// Text as int(text, base) reads it; V_MISSING when it isn't an integer.
static struct value read_int(struct vm *vm, struct sv s, int base) {
    struct value none = {.kind = V_MISSING};
    s = plain_digits(vm, s);
    bool neg = s.n && s.p[0] == '-', zero = false;
    if (s.n && (s.p[0] == '-' || s.p[0] == '+')) s = sv_cut(s, 1, s.n);
    int marked_base = 10;
    if (s.n > 1 && s.p[0] == '0') {
        char c = (char)(s.p[1] | 32);
        marked_base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
        zero = base == 0 && marked_base == 10;
    }
    if (marked_base != 10 && (base == 0 || base == marked_base)) {
        base = marked_base;
        s = sv_cut(s, 2, s.n);
        if (s.n && s.p[0] == '_') s = sv_cut(s, 1, s.n);
    }
    if (base == 0) base = 10;
    char *p = vm_alloc(vm, s.n + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == '_' && i && i + 1 < s.n && s.p[i - 1] != '_') continue;
        int d = isdigit(c) ? c - '0' : isalpha(c) ? (c | 32) - 'a' + 10 : 99;
        if (d >= base || (zero && c != '0')) return none;
        p[n++] = (char)c;
    }
    if (!n) return none;
    struct value v = int_parse(vm, sv_n(p, n), base);
    return neg ? negate(vm, v) : v;
}

static struct value filter_int(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct value otherwise = at[1].kind == V_MISSING ? int_value(0) : at[1];
    if (at[0].kind == V_UNDEFINED) raise_undefined(vm, at[0]);
    if (is_int(at[0])) return arithmetic(vm, '+', at[0], int_value(0));
    double f = at[0].f;
    if (at[0].kind == V_TEXT) {
        int64_t base = at[2].kind == V_MISSING ? 10 : to_int(vm, at[2], "base");
        if (base < 0 || base == 1 || base > 36) return otherwise;
        struct value v = read_int(vm, sv_of(at[0]), (int)base);
        if (v.kind != V_MISSING) return v;
        if (!read_float(vm, sv_of(at[0]), &f)) return otherwise;
    } else if (at[0].kind != V_FLOAT) {
        return otherwise;
    }
    return isfinite(f) ? int_from_double(vm, f) : otherwise;
}

static struct value filter_filesizeformat(struct vm *vm, const struct value *at,
                                          const struct args *all) {
    (void)all;
    static const char units[] = "kMGTPEZY";
    bool binary_units = truth(at[1]);
    double base = binary_units ? 1024 : 1000, bytes;
    if (at[0].kind == V_UNDEFINED) raise_undefined(vm, at[0]);
    if (is_number(at[0]))
        bytes = to_double(vm, at[0]);
    else if (at[0].kind != V_TEXT || !read_float(vm, sv_of(at[0]), &bytes))
        raise_error(vm, "filesizeformat needs a number, not %s", type_name(at[0]));
    char text[400];
    if (bytes == 1) {
        snprintf(text, sizeof text, "1 Byte");
    } else if (bytes < base) {
        if (isinf(bytes)) raise_error(vm, "cannot convert float infinity to integer");
        snprintf(text, sizeof text, "%.0f Bytes", bytes > -1 ? fabs(trunc(bytes)) : trunc(bytes));
    } else {
        size_t i = 0;
        double unit = base * base;
        while (i < 7 && !(bytes < unit)) i++, unit *= base;
        char letter = binary_units && !i ? 'K' : units[i];
        if (isfinite(bytes))
            snprintf(text, sizeof text, "%.1f %c%sB", base * bytes / unit, letter,
                     binary_units ? "i" : "");
        else
            snprintf(text, sizeof text, "%s %c%sB", isnan(bytes) ? "nan" : "inf", letter,
                     binary_units ? "i" : "");
    }
    return text_copy(vm, sv(text));
}

static struct value filter_float(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct value otherwise = at[1].kind == V_MISSING ? float_value(0) : at[1];
    double f;
    if (at[0].kind == V_UNDEFINED) raise_undefined(vm, at[0]);
    if (is_number(at[0])) return float_value(to_double(vm, at[0]));
    return at[0].kind == V_TEXT && read_float(vm, sv_of(at[0]), &f) ? float_value(f) : otherwise;
}

enum { MAX_PLACES = 300 };

// Half to even on the exact value, as round() and printf do.
static double round_places(double f, int64_t places) {
    char text[MAX_PLACES + 400];
    if (!isfinite(f) || places > MAX_PLACES) return f;
    if (places < -MAX_PLACES) return copysign(0, f);
    if (places < 0) {
        double unit = pow(10, (double)-places);
        return nearbyint(f / unit) * unit;
    }
    snprintf(text, sizeof text, "%.*f", (int)places, f);
    return strtod(text, NULL);
}

static struct value filter_round(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    int64_t places = at[1].kind == V_MISSING ? 0 : to_int(vm, at[1], "precision");
    struct sv method = at[2].kind == V_MISSING ? sv("common") : to_sv(vm, at[2]);
    bool common = sv_is(method, "common"), up = sv_is(method, "ceil");
    if (!common && !up && !sv_is(method, "floor"))
        raise_error(vm, "method must be common, ceil or floor");
    if (at[0].kind == V_UNDEFINED) raise_undefined(vm, at[0]);
    if (!is_number(at[0])) raise_error(vm, "type %s can't be rounded", type_name(at[0]));
    if (common && is_int(at[0]) && places >= 0) return arithmetic(vm, '+', at[0], int_value(0));
    double f = to_double(vm, at[0]);
    if (common) {
        f = round_places(f, places);
        return is_int(at[0]) ? int_from_double(vm, f) : float_value(f);
    }
    double unit = pow(10, (double)places);
    if (!isfinite(f * unit)) raise_error(vm, "cannot convert float infinity or NaN to integer");
    f = up ? ceil(f * unit) : floor(f * unit);
    return float_value(f == 0 ? 0 : f / unit); // an integer is no -0.0
}

static struct sv separator(struct vm *vm, struct value pair, size_t i, struct sv otherwise) {
    if (!given(pair)) return otherwise;
    struct items two = to_items(vm, pair);
    if (two.n != 2 || two.at[i].kind != V_TEXT)
        raise_error(vm, "tojson's separators must be two strings");
    return sv_of(two.at[i]);
}

static struct value filter_tojson(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct json_style style = {.ascii = truth(at[1]), .sort = truth(at[4])};
    style.pretty = given(at[2]);
    size_t mark = text_mark(vm);
    if (at[2].kind == V_TEXT) {
        style.indent = sv_of(at[2]);
    } else if (style.pretty) {
        put_fill(vm, ' ', to_count(vm, at[2], "tojson's indent"));
        style.indent = sv_of(text_take(vm, mark));
    }
    style.item = separator(vm, at[3], 0, sv(style.pretty ? "," : ", "));
    style.key = separator(vm, at[3], 1, sv(": "));
    put_json(vm, at[0], &style, 0);
    return text_take(vm, mark);
}

static const struct builtin table[] = {
    {"tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson},
    {"length", "", 0, filter_length},
    {"count", "", 0, filter_length},
    {"trim", "chars", 0, filter_trim},
    {"string", "", 0, filter_string},
    {"default", "default_value boolean", 0, filter_default},
    {"d", "default_value boolean", 0, filter_default},
    {"list", "", 0, filter_list},
    {"join", "d attribute", 0, filter_join},
    {"items", "", 0, filter_items},
    {"first", "", 0, filter_first},
    {"last", "", 0, filter_last},
    {"map", NULL, 0, filter_map},
    {"select", NULL, 0, filter_select},
    {"reject", NULL, 0, filter_reject},
    {"selectattr", NULL, 0, filter_selectattr},
    {"rejectattr", NULL, 0, filter_rejectattr},
    {"upper", "", 0, filter_upper},
    {"lower", "", 0, filter_lower},
    {"title", "", 0, filter_title},
    {"capitalize", "", 0, filter_capitalize},
    {"replace", "old new count", 2, filter_replace},
    {"int", "default base", 0, filter_int},
    {"float", "default", 0, filter_float},
    {"round", "precision method", 0, filter_round},
    {"abs", "", 0, filter_abs},
    {"attr", "name", 1, filter_attr},
    {"batch", "linecount fill_with", 1, filter_batch},
    {"slice", "slices fill_with", 1, filter_slice},
    {"center", "width", 0, filter_center},
    {"dictsort", "case_sensitive by reverse", 0, filter_dictsort},
    {"e", "", 0, filter_escape},
    {"escape", "", 0, filter_escape},
    {"forceescape", "", 0, filter_forceescape},
    {"safe", "", 0, filter_safe},
    {"filesizeformat", "binary", 0, filter_filesizeformat},
    {"format", NULL, 0, filter_format},
    {"groupby", "attribute default case_sensitive", 1, filter_groupby},
    {"indent", "width first blank", 0, filter_indent},
    {"max", "case_sensitive attribute", 0, filter_max},
    {"min", "case_sensitive attribute", 0, filter_min},
    {"pprint", "", 0, filter_pprint},
    {"random", "", 0, filter_random},
    {"reverse", "", 0, filter_reverse},
    {"sort", "reverse case_sensitive attribute", 0, filter_sort},
    {"striptags", "", 0, filter_striptags},
    {"sum", "attribute start", 0, filter_sum},
    {"truncate", "length killwords end leeway", 0, filter_truncate},
    {"unique", "case_sensitive attribute", 0, filter_unique},
    {"urlencode", "", 0, filter_urlencode},
    {"urlize", "trim_url_limit nofollow target rel extra_schemes", 0, filter_urlize},
    {"wordcount", "", 0, filter_wordcount},
    {"wordwrap", "width break_long_words wrapstring break_on_hyphens", 0, filter_wordwrap},
    {"xmlattr", "autospace", 0, filter_xmlattr},
};

const struct builtin *find_filter(struct sv name) {
    return find_builtin(table, sizeof table / sizeof *table, name);
}
