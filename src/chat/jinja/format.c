// Python's two ways to format: text % values, and text.format(values).
#include "chat/jinja/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct spec { // what both have in common
    uint32_t fill;
    char align; // < > ^ =, 0: by kind
    char sign;  // + - space
    bool alt, comma, underscore;
    size_t width;
    int precision; // -1: none
    char type;     // 0: none
};

enum { MAX_PRECISION = 400 };

// A number's digits, grouped by threes when asked, and their padding. digits is ASCII.
static void put_digits(struct vm *vm, const struct spec *f, bool neg, const char *prefix,
                       struct sv digits) {
    const char *sign = neg ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "";
    char comma = f->comma ? ',' : '_';
    size_t whole = 0, n = digits.n;
    while (whole < digits.n && digits.p[whole] >= '0' && digits.p[whole] <= '9') whole++;
    size_t commas = (f->comma || f->underscore) && whole ? (whole - 1) / 3 : 0;
    n += commas + strlen(sign) + strlen(prefix);
    size_t pad = f->width > n ? f->width - n : 0;
    char align = f->align ? f->align : '>';
    size_t left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    put_fill(vm, f->fill, left);
    puts_text(vm, sign);
    puts_text(vm, prefix);
    if (align == '=') put_fill(vm, f->fill, pad);
    for (size_t i = 0; i < digits.n; i++) {
        if (commas && i && i < whole && (whole - i) % 3 == 0) put_char(vm, comma);
        put_char(vm, digits.p[i]);
    }
    if (align == '<' || align == '^') put_fill(vm, f->fill, pad - left);
}

static void put_integer(struct vm *vm, const struct spec *f, struct value v) {
    int base = f->type == 'x' || f->type == 'X' ? 16 : f->type == 'o' ? 8 : f->type == 'b' ? 2 : 10;
    const char *prefix = !f->alt || base == 10 ? ""
                         : f->type == 'X'      ? "0X"
                         : base == 16          ? "0x"
                         : base == 8           ? "0o"
                                               : "0b";
    size_t mark = text_mark(vm);
    put_int(vm, v, base);
    struct sv digits = sv_of(text_take(vm, mark));
    bool neg = digits.n && digits.p[0] == '-';
    if (f->type == 'X') {
        mark = text_mark(vm);
        put_upper(vm, digits);
        digits = sv_of(text_take(vm, mark));
    }
    put_digits(vm, f, neg, prefix, sv_cut(digits, neg, digits.n));
}

static void put_real(struct vm *vm, const struct spec *f, struct value v) {
    double x = to_double(vm, v);
    if (f->type == '%') x *= 100;
    bool neg = signbit(x) && !isnan(x);
    char text[MAX_PRECISION + 400], fmt[16];
    int precision = f->precision < 0 ? 6 : f->precision;
    if (precision > MAX_PRECISION)
        raise_error(vm, "a precision of %d is over %d", precision, MAX_PRECISION);
    char type = f->type == '%' ? 'f' : f->type ? f->type : 'g';
    size_t mark = text_mark(vm);
    if (isnan(x) || isinf(x)) {
        puts_text(vm, isnan(x) ? "nan" : "inf");
    } else if (!f->type && f->precision < 0) {
        put_float(vm, fabs(x));
    } else {
        snprintf(fmt, sizeof fmt, "%%%s.*%c", f->alt ? "#" : "", type);
        snprintf(text, sizeof text, fmt, precision, fabs(x));
        puts_text(vm, text);
        if (!f->type && !strpbrk(text, ".e")) puts_text(vm, ".0");
    }
    if (f->type == '%') put_char(vm, '%');
    struct sv digits = sv_of(text_take(vm, mark));
    put_digits(vm, f, neg, "", digits);
}

static void put_padded(struct vm *vm, const struct spec *f, struct value text) {
    struct sv s = sv_of(text);
    size_t chars = text.text->chars;
    if (f->precision >= 0 && (size_t)f->precision < chars) {
        s = sv_cut(s, 0, char_at(s, chars, (size_t)f->precision));
        chars = (size_t)f->precision;
    }
    size_t pad = f->width > chars ? f->width - chars : 0;
    size_t left = f->align == '>' ? pad : f->align == '^' ? pad / 2 : 0;
    put_fill(vm, f->fill, left);
    put(vm, s);
    put_fill(vm, f->fill, pad - left);
}

static bool at_digit(struct sv s, size_t i) { return i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; }

static size_t read_count(struct vm *vm, struct sv s, size_t *i) {
    size_t n = 0;
    for (; at_digit(s, *i); ++*i) {
        n = n * 10 + (size_t)(s.p[*i] - '0');
        if (n > INT32_MAX) raise_error(vm, "Too many decimal digits in format string");
    }
    return n;
}

// text % values

struct percent {
    struct sv format;
    size_t at;
    struct items values; // when it is a tuple, or one value
    size_t used;
    struct value mapping;
};

static struct value next_value(struct vm *vm, struct percent *p) {
    if (p->used >= p->values.n) raise_error(vm, "not enough arguments for format string");
    return p->values.at[p->used++];
}

static size_t star_or_count(struct vm *vm, struct percent *p) {
    if (p->at < p->format.n && p->format.p[p->at] == '*') {
        p->at++;
        return to_count(vm, next_value(vm, p), "a width");
    }
    return read_count(vm, p->format, &p->at);
}

static struct value named_value(struct vm *vm, struct percent *p) {
    size_t from = p->at;
    int depth = 1;
    for (; p->at < p->format.n && depth; p->at++) {
        depth += p->format.p[p->at] == '(';
        depth -= p->format.p[p->at] == ')';
    }
    if (depth) raise_error(vm, "incomplete format key");
    if (p->mapping.kind != V_DICT) raise_error(vm, "format requires a mapping");
    struct sv key = sv_cut(p->format, from, p->at - 1);
    struct value v = dict_get_sv(vm, p->mapping.dict, key);
    if (v.kind == V_MISSING)
        raise_error(vm, "the format's key '%.*s' is missing", (int)sv_cut(key, 0, 100).n, key.p);
    return v;
}

static void percent_flags(struct percent *p, struct spec *f) {
    for (; p->at < p->format.n; p->at++) {
        char c = p->format.p[p->at];
        if (c == '-')
            f->align = '<';
        else if (c == '+' || (c == ' ' && f->sign != '+'))
            f->sign = c;
        else if (c == '#')
            f->alt = true;
        else if (c == '0' && f->align != '<')
            f->align = '=', f->fill = '0';
        else if (c != '0' && c != ' ')
            return;
    }
}

// What %s, %r, %a and %c put as text; V_MISSING for the numbers.
static struct value percent_text(struct vm *vm, char type, struct value v) {
    size_t mark = text_mark(vm);
    if (type == 's') return to_text(vm, v);
    if (type == 'c' && v.kind == V_TEXT && v.text->chars == 1) return v;
    if (type == 'r' || type == 'a') {
        put_repr(vm, v);
    } else if (type == 'c') {
        int64_t cp = to_int(vm, v, "%c's value");
        if (cp < 0 || cp > 0x10ffff) raise_error(vm, "%%c arg not in range(0x110000)");
        put_code(vm, (uint32_t)cp);
    } else {
        return (struct value){.kind = V_MISSING};
    }
    return text_take(vm, mark);
}

static void put_percent(struct vm *vm, struct spec *f, struct value v) {
    struct value text = percent_text(vm, f->type, v);
    if (text.kind != V_MISSING) {
        if (f->align != '<') f->align = '>';
        f->fill = ' ';
        put_padded(vm, f, text);
        return;
    }
    if (!is_number(v))
        raise_error(vm, "%%%c format: a real number is required, not %s", f->type, type_name(v));
    if (strchr("diu", f->type)) {
        if (v.kind == V_FLOAT && isfinite(v.f)) v = int_from_double(vm, v.f);
        f->type = 'd';
    }
    if (strchr("eEfFgG", f->type)) {
        put_real(vm, f, v);
        return;
    }
    if (!is_int(v))
        raise_error(vm, "%%%c format: an integer is required, not %s", f->type, type_name(v));
    put_integer(vm, f, v);
}

static void percent_one(struct vm *vm, struct percent *p) {
    struct spec f = {.fill = ' ', .precision = -1};
    struct value named = {0};
    if (p->at < p->format.n && p->format.p[p->at] == '(') p->at++, named = named_value(vm, p);
    percent_flags(p, &f);
    f.width = star_or_count(vm, p);
    if (p->at < p->format.n && p->format.p[p->at] == '.') {
        p->at++;
        size_t n = star_or_count(vm, p);
        f.precision = n > INT32_MAX ? INT32_MAX : (int)n;
    }
    while (p->at < p->format.n && strchr("hlL", p->format.p[p->at])) p->at++;
    if (p->at >= p->format.n) raise_error(vm, "incomplete format");
    f.type = p->format.p[p->at++];
    if (f.type == '%') {
        put_char(vm, '%');
        return;
    }
    if (!f.type || !strchr("sradiucxXoeEfFgG", f.type))
        raise_error(vm, "unsupported format character '%c'", f.type);
    put_percent(vm, &f, named.kind == V_MISSING ? next_value(vm, p) : named);
}

struct value format_percent(struct vm *vm, struct value format, struct value arg) {
    struct percent p = {.format = sv_of(format), .values = {&arg, 1, 0}, .mapping = arg};
    if (arg.kind == V_TUPLE) p.values = to_items(vm, arg);
    size_t mark = text_mark(vm);
    while (p.at < p.format.n) {
        char c = p.format.p[p.at++];
        if (c == '%')
            percent_one(vm, &p);
        else
            put_char(vm, c);
    }
    if (p.used < p.values.n && arg.kind != V_DICT && arg.kind != V_LIST)
        raise_error(vm, "not all arguments converted during string formatting");
    return text_take(vm, mark);
}

// text.format(values)

struct braces {
    const struct args *args;
    size_t next; // automatic number
};

static void read_spec(struct vm *vm, struct sv s, struct spec *f) {
    size_t i = 0, len = 0;
    *f = (struct spec){.fill = ' ', .precision = -1};
    int32_t first = s.n ? utf8_decode(s, 0, &len) : 0;
    if (s.n > len && memchr("<>^=", s.p[len], 4))
        f->fill = (uint32_t)first, f->align = s.p[len], i = len + 1;
    else if (s.n && memchr("<>^=", s.p[0], 4))
        f->align = s.p[0], i = 1;
    if (i < s.n && memchr("+- ", s.p[i], 3)) f->sign = s.p[i++];
    if (i < s.n && s.p[i] == 'z') i++;
    if (i < s.n && s.p[i] == '#') f->alt = true, i++;
    if (i < s.n && s.p[i] == '0') {
        if (!f->align) f->align = '=', f->fill = '0';
        i++;
    }
    f->width = read_count(vm, s, &i);
    if (i < s.n && s.p[i] == ',') f->comma = true, i++;
    if (i < s.n && s.p[i] == '_') f->underscore = true, i++;
    if (i < s.n && s.p[i] == '.') {
        i++;
        if (!at_digit(s, i)) raise_error(vm, "Format specifier missing precision");
        f->precision = (int)read_count(vm, s, &i);
    }
    if (i < s.n) f->type = s.p[i++];
    if (i < s.n) raise_error(vm, "Invalid format specifier");
}

static void put_formatted(struct vm *vm, struct value v, struct sv spec) {
    struct spec f;
    if (!spec.n) {
        put_str(vm, v);
        return;
    }
    read_spec(vm, spec, &f);
    bool real = f.type && strchr("eEfFgG%", f.type), whole = f.type && strchr("dxXobn", f.type);
    if (v.kind == V_TEXT && (!f.type || f.type == 's')) {
        if (f.align == '=') raise_error(vm, "'=' alignment not allowed in string format specifier");
        put_padded(vm, &f, v);
        return;
    }
    if (is_int(v) && f.type == 'c') {
        size_t mark = text_mark(vm);
        put_code(vm, (uint32_t)to_int(vm, v, "a character"));
        put_padded(vm, &f, text_take(vm, mark));
        return;
    }
    if (v.kind == V_BOOL && !f.type) {
        put_padded(vm, &f, to_text(vm, v));
        return;
    }
    if (is_number(v) && (real || (v.kind == V_FLOAT && !f.type))) {
        put_real(vm, &f, v);
        return;
    }
    if (is_int(v) && (whole || !f.type)) {
        put_integer(vm, &f, v);
        return;
    }
    raise_error(vm, "Unknown format code '%c' for object of type '%s'", f.type ? f.type : 's',
                type_name(v));
}

static struct value field_start(struct vm *vm, struct braces *b, struct sv name) {
    size_t i = 0, n = 0;
    if (!name.n) {
        n = b->next++;
    } else if (at_digit(name, 0)) {
        n = read_count(vm, name, &i);
    } else {
        for (size_t k = 0; k < b->args->n_kw; k++)
            if (sv_eq(b->args->kw[k].name, name)) return b->args->kw[k].value;
        raise_error(vm, "format lacks the value '%.*s'", (int)sv_cut(name, 0, 100).n, name.p);
    }
    if (n >= b->args->n)
        raise_error(vm, "Replacement index %zu out of range for positional args tuple", n);
    return b->args->at[n];
}

// A field's name: a start, then .attribute and [item] parts.
static struct value field_value(struct vm *vm, struct braces *b, struct sv name) {
    size_t i = 0;
    while (i < name.n && name.p[i] != '.' && name.p[i] != '[') i++;
    struct value v = field_start(vm, b, sv_cut(name, 0, i));
    while (i < name.n) {
        bool item = name.p[i] == '[';
        size_t from = ++i;
        while (i < name.n && (item ? name.p[i] != ']' : name.p[i] != '.' && name.p[i] != '[')) i++;
        struct sv part = sv_cut(name, from, i);
        if (!part.n || (item && i == name.n)) raise_error(vm, "a format field's name is cut");
        size_t k = 0;
        if (item && at_digit(part, 0))
            v = get_item(vm, v, size_value(read_count(vm, part, &k)));
        else
            v = item ? get_item(vm, v, text_value(vm, part)) : get_member(vm, v, part);
        i += item;
    }
    return v;
}

static void put_braces(struct vm *vm, struct braces *b, struct sv s, int depth);

static void put_field(struct vm *vm, struct braces *b, struct sv field, int depth) {
    size_t end = 0, square = 0;
    for (; end < field.n; end++) {
        char c = field.p[end];
        square += c == '[';
        if (c == ']' && square) square--;
        if (!square && (c == ':' || c == '!')) break;
    }
    struct value v = field_value(vm, b, sv_cut(field, 0, end));
    size_t mark = text_mark(vm);
    if (end < field.n && field.p[end] == '!') {
        char how = end + 1 < field.n ? field.p[end + 1] : 0;
        if (how != 's' && how != 'r' && how != 'a')
            raise_error(vm, "Unknown conversion specifier in a format");
        if (how == 's')
            put_str(vm, v);
        else
            put_repr(vm, v);
        v = text_take(vm, mark);
        end += 2;
    }
    if (end >= field.n) {
        put_str(vm, v);
        return;
    }
    if (field.p[end] != ':') raise_error(vm, "expected ':' after conversion specifier");
    put_braces(vm, b, sv_cut(field, end + 1, field.n), depth + 1);
    struct value spec = text_take(vm, mark);
    put_formatted(vm, v, sv_of(spec));
}

static void put_braces(struct vm *vm, struct braces *b, struct sv s, int depth) {
    if (depth > 2) raise_error(vm, "Max string recursion exceeded");
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if ((c == '{' || c == '}') && i + 1 < s.n && s.p[i + 1] == c) {
            put_char(vm, c);
            i++;
        } else if (c == '{') {
            size_t from = i + 1, open = 1;
            for (i++; i < s.n; i++) {
                open += s.p[i] == '{';
                open -= s.p[i] == '}';
                if (!open) break;
            }
            if (i == s.n) raise_error(vm, "expected '}' before end of string");
            put_field(vm, b, sv_cut(s, from, i), depth);
        } else if (c == '}') {
            raise_error(vm, "Single '}' encountered in format string");
        } else {
            put_char(vm, c);
        }
    }
}

struct value format_braces(struct vm *vm, struct sv format, const struct args *args) {
    struct braces b = {args, 0};
    size_t mark = text_mark(vm);
    put_braces(vm, &b, format, 1);
    return text_take(vm, mark);
}
