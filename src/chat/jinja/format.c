// Python's two ways to format: text % values, and text.format(values).
#include "chat/jinja/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct spec { // what both have in common
    uint32_t fill;
    char align; // < > ^ =, 0: by kind
    char sign;  // + - space
    char group; // , or _ between groups of digits, 0: none
    bool alt, unsign_zero;
    size_t width;
    int precision; // -1: none
    char type;     // 0: none
};

enum { MAX_PRECISION = 400 };

static bool digit_of(char c, bool hex) {
    return (c >= '0' && c <= '9') || (hex && (c | 32) >= 'a' && (c | 32) <= 'f');
}

// A number's digits, grouped when asked (threes, fours in bases 2, 8, 16), and their padding.
// digits is ASCII. Zeros that fill the width after the sign are grouped too.
static void put_digits(struct vm *vm, const struct spec *f, bool neg, const char *prefix,
                       struct sv digits) {
    const char *sign = neg ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "";
    size_t by = f->type && strchr("xXob", f->type) ? 4 : 3, whole = 0;
    while (whole < digits.n && digit_of(digits.p[whole], by == 4)) whole++;
    size_t fixed = strlen(sign) + strlen(prefix) + digits.n - whole; // all but the whole digits
    size_t groups = f->group && whole ? (whole - 1) / by : 0, zeros = 0;
    if (f->group && whole && f->align == '=' && f->fill == '0') {
        size_t room = f->width > fixed ? f->width - fixed : 0; // digits and separators
        size_t most = room ? room - room / (by + 1) : 0;
        if (most > whole) zeros = most - whole, groups = (most - 1) / by;
    }
    size_t n = fixed + whole + zeros + groups, pad = f->width > n ? f->width - n : 0;
    char align = f->align ? f->align : '>';
    size_t left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    put_fill(vm, f->fill, left);
    puts_text(vm, sign);
    puts_text(vm, prefix);
    if (align == '=') put_fill(vm, f->fill, pad);
    for (size_t i = zeros + whole; i > 0; i--) {
        put_char(vm, i > whole ? '0' : digits.p[whole - i]);
        if (groups && i > 1 && (i - 1) % by == 0) put_char(vm, f->group);
    }
    put(vm, sv_cut(digits, whole, digits.n));
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

// Without a type, a precision is that of g, but the number always shows as a float: at p digits
// before the point it takes an exponent, and else has a digit after it.
static void put_general(struct vm *vm, double x, int precision, bool alt) {
    char text[MAX_PRECISION + 400];
    if (!precision) precision = 1;
    snprintf(text, sizeof text, "%.*e", precision - 1, x);
    char *e = strchr(text, 'e');
    if (atoi(e + 1) + 1 != precision) {
        snprintf(text, sizeof text, alt ? "%#.*g" : "%.*g", precision, x);
        puts_text(vm, text);
        if (!strpbrk(text, ".e")) puts_text(vm, ".0");
        return;
    }
    char *end = e;
    if (!alt && memchr(text, '.', (size_t)(e - text))) {
        while (end[-1] == '0') end--;
        if (end[-1] == '.') end--;
    }
    put(vm, sv_n(text, (size_t)(end - text)));
    puts_text(vm, e);
}

static void put_finite(struct vm *vm, const struct spec *f, double x) {
    char text[MAX_PRECISION + 400], fmt[16];
    int precision = f->precision < 0 ? 6 : f->precision;
    if (precision > MAX_PRECISION)
        raise_error(vm, "a precision of %d is over %d", precision, MAX_PRECISION);
    if (!f->type && f->precision < 0) {
        put_float(vm, x);
    } else if (!f->type) {
        put_general(vm, x, precision, f->alt);
    } else {
        snprintf(fmt, sizeof fmt, "%%%s.*%c", f->alt ? "#" : "", f->type == '%' ? 'f' : f->type);
        snprintf(text, sizeof text, fmt, precision, x);
        puts_text(vm, text);
    }
}

static bool all_zeros(struct sv s) {
    for (size_t i = 0; i < s.n && s.p[i] != 'e' && s.p[i] != 'E'; i++)
        if (s.p[i] >= '1' && s.p[i] <= '9') return false;
    return true;
}

static void put_real(struct vm *vm, const struct spec *f, struct value v) {
    double x = to_double(vm, v);
    if (f->type == '%') x *= 100;
    bool neg = signbit(x) && !isnan(x), capital = f->type && strchr("EFG", f->type);
    size_t mark = text_mark(vm);
    if (isfinite(x))
        put_finite(vm, f, fabs(x));
    else
        puts_text(vm, isnan(x) ? capital ? "NAN" : "nan" : capital ? "INF" : "inf");
    if (f->type == '%') put_char(vm, '%');
    struct sv digits = sv_of(text_take(vm, mark));
    if (f->unsign_zero && isfinite(x) && all_zeros(digits)) neg = false;
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

// repr() with escapes for all but ASCII.
static void put_ascii(struct vm *vm, struct value v) {
    char code[16];
    size_t mark = text_mark(vm);
    put_repr(vm, v);
    struct sv s = sv_of(text_take(vm, mark));
    for (size_t i = 0, len; i < s.n; i += len) {
        int32_t cp = utf8_decode(s, i, &len);
        const char *fmt = cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x";
        snprintf(code, sizeof code, fmt, (unsigned)cp);
        put(vm, cp < 0x80 ? sv_n(s.p + i, len) : sv(code));
    }
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
    if (type == 'r') {
        put_repr(vm, v);
    } else if (type == 'a') {
        put_ascii(vm, v);
    } else if (type == 'c') {
        put_character(vm, to_int(vm, v, "%c's value"));
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

static void read_group(struct vm *vm, struct sv s, size_t *i, struct spec *f) {
    while (*i < s.n && (s.p[*i] == ',' || s.p[*i] == '_')) {
        if (f->group) raise_error(vm, "Cannot specify both '%c' and '%c'.", f->group, s.p[*i]);
        f->group = s.p[(*i)++];
    }
}

static void read_spec(struct vm *vm, struct sv s, struct spec *f) {
    size_t i = 0, len = 0;
    *f = (struct spec){.fill = ' ', .precision = -1};
    int32_t first = s.n ? utf8_decode(s, 0, &len) : 0;
    bool filled = s.n > len && memchr("<>^=", s.p[len], 4);
    if (filled)
        f->fill = (uint32_t)first, f->align = s.p[len], i = len + 1;
    else if (s.n && memchr("<>^=", s.p[0], 4))
        f->align = s.p[0], i = 1;
    if (i < s.n && memchr("+- ", s.p[i], 3)) f->sign = s.p[i++];
    if (i < s.n && s.p[i] == 'z') f->unsign_zero = true, i++;
    if (i < s.n && s.p[i] == '#') f->alt = true, i++;
    if (i < s.n && s.p[i] == '0' && !filled) {
        f->fill = '0';
        i++;
    }
    f->width = read_count(vm, s, &i);
    read_group(vm, s, &i, f);
    if (i < s.n && s.p[i] == '.') {
        i++;
        if (!at_digit(s, i)) raise_error(vm, "Format specifier missing precision");
        f->precision = (int)read_count(vm, s, &i);
    }
    if (i < s.n) f->type = s.p[i++];
    if (i < s.n) raise_error(vm, "Invalid format specifier");
    bool grouped =
        !f->type || strchr("defgEGF%", f->type) || (f->group == '_' && strchr("boxX", f->type));
    if (f->group && !grouped) raise_error(vm, "Cannot specify '%c' with '%c'.", f->group, f->type);
}

static void format_text(struct vm *vm, const struct spec *f, struct value v) {
    if (f->sign) raise_error(vm, "Sign not allowed in string format specifier");
    if (f->alt || f->unsign_zero || f->align == '=')
        raise_error(vm, "'#', 'z' and '=' are not allowed in string format specifier");
    if (f->group) raise_error(vm, "Cannot specify '%c' with 's'.", f->group);
    put_padded(vm, f, v);
}

static void format_number(struct vm *vm, struct spec *f, struct value v) {
    bool real = f->type && strchr("eEfFgG%", f->type);
    if (!f->align && f->fill == '0') f->align = '=';
    if (f->type == 'n') f->type = is_int(v) ? 'd' : 'g';
    if (real || v.kind == V_FLOAT) {
        put_real(vm, f, v);
        return;
    }
    if (f->precision >= 0) raise_error(vm, "Precision not allowed in integer format specifier");
    if (f->unsign_zero)
        raise_error(vm, "Negative zero coercion (z) not allowed in format specifier with integer "
                        "presentation type");
    if (f->type != 'c') {
        put_integer(vm, f, v);
        return;
    }
    if (f->sign || f->alt)
        raise_error(vm, "'%c' not allowed with integer format specifier 'c'",
                    f->sign ? f->sign : '#');
    size_t mark = text_mark(vm);
    put_character(vm, to_int(vm, v, "a character"));
    if (!f->align) f->align = '>';
    if (f->align == '=') f->align = '>';
    put_padded(vm, f, text_take(vm, mark));
}

static void put_formatted(struct vm *vm, struct value v, struct sv spec) {
    struct spec f;
    if (!spec.n) {
        put_str(vm, v);
        return;
    }
    bool text = v.kind == V_TEXT;
    if (!text && !is_number(v))
        raise_error(vm, "unsupported format string passed to %s.__format__", type_name(v));
    read_spec(vm, spec, &f);
    const char *types = v.kind == V_TEXT ? "s" : v.kind == V_FLOAT ? "eEfFgG%n" : "eEfFgG%ncdxXob";
    if (f.type && !strchr(types, f.type))
        raise_error(vm, "Unknown format code '%c' for object of type '%s'", f.type, type_name(v));
    if (text)
        format_text(vm, &f, v);
    else
        format_number(vm, &f, v);
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
        else if (how == 'r')
            put_repr(vm, v);
        else
            put_ascii(vm, v);
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
