// Strings and numbers of a JSON Schema.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/schema.h"

// Numbers without bounds have so many digits, and those with bounds as many in all: there doubles
// are as exact as the digits.
enum { DIGITS = 15, FRACTION_DIGITS = 6, INTEGER_DIGITS = 18 };

// --- what every schema has -----------------------------------------------------------------------

static int32_t regex_rule(struct schema *x, const char *regex, const char *name) {
    struct dfa d;
    int32_t rule = 0;
    if (dfa_regex(&d, x->s->effort, sv(regex), false, x->e)) rule = dfa_rule(x->s, &d, 0, name);
    dfa_free(&d);
    return rule;
}

static int32_t string_of(struct schema *x, int64_t least, int64_t most) {
    struct syntax *s = x->s;
    int32_t seq = syn_seq(s);
    syn_add(s, seq, syn_text(s, sv("\"")));
    syn_add(s, seq, syn_repeat(s, syn_call(s, x->character), least, most));
    syn_add(s, seq, syn_text(s, sv("\"")));
    return seq;
}

static bool writes_json(const struct schema *x) {
    return x->how->kind == NOTATION_JSON || x->how->kind == NOTATION_TAGS;
}

static int32_t any_text(struct schema *x) {
    struct dfa d = {0};
    if (writes_json(x)) return string_of(x, 0, -1);
    int32_t node = dfa_length(&d, x->s->effort, 0, -1, x->e) ? schema_text(x, &d) : 0;
    dfa_free(&d);
    return node;
}

void schema_basics(struct schema *x) {
    struct syntax *s = x->s;
    // White space as llama.cpp allows it: enough for indented text, and it ends.
    x->space = regex_rule(x, "| |\\n{1,2}[ \\t]{0,20}", "space");
    // A character of a string, in any way that JSON has to write it. Half a pair is none.
    x->character = regex_rule(x,
                              "[^\"\\\\\\x00-\\x1f]|\\\\([\"\\\\/bfnrt]|u([0-9a-cefA-CEF]"
                              "[0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|[dD][89abAB][0-9a-fA-F]{2}"
                              "\\\\u[dD][c-fC-F][0-9a-fA-F]{2}))",
                              "character");
    x->integer = regex_rule(x, "-?(0|[1-9][0-9]{0,15})", "integer");
    x->number =
        regex_rule(x, "-?(0|[1-9][0-9]{0,15})(\\.[0-9]{1,16})?([eE][+-]?[0-9]{1,2})?", "number");
    x->text = syn_rule(s, sv("string"));
    syn_define(s, x->text, any_text(x));
}

// --- strings -------------------------------------------------------------------------------------

#define HEX   "[0-9a-fA-F]"
#define BYTE  "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4  BYTE "(\\." BYTE "){3}"
#define LABEL "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define LEAP  "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define YEAR  "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
#define DATE                                                                                       \
    "(" YEAR "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-"   \
    "(0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define CLOCK "([01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME  CLOCK ":[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]" CLOCK ")"
#define H16   HEX "{1,4}"

static const struct {
    const char *name;
    const char *regex; // NULL: known, but it can't be held
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P([0-9]{1,6}W|([0-9]{1,6}Y([0-9]{1,6}M([0-9]{1,6}D)?)?|[0-9]{1,6}M([0-9]{1,6}D)?|"
                 "[0-9]{1,6}D)(T([0-9]{1,6}H([0-9]{1,6}M([0-9]{1,6}S)?)?|[0-9]{1,6}M([0-9]{1,6}S)?|"
                 "[0-9]{1,6}S))?|T([0-9]{1,6}H([0-9]{1,6}M([0-9]{1,6}S)?)?|[0-9]{1,6}M"
                 "([0-9]{1,6}S)?|[0-9]{1,6}S))"},
    {"uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"},
    {"email", "[a-zA-Z0-9_+-]+(\\.[a-zA-Z0-9_+-]+)*@" LABEL "(\\." LABEL ")+"},
    {"hostname", LABEL "(\\." LABEL "){0,2}"},
    {"ipv4", IPV4},
    {"ipv6", "(" H16 ":){7}" H16 "|(" H16 ":){1,6}:" H16 "|::(" H16 ":){0,5}" H16 "|::"},
    {"uri", "[a-zA-Z][a-zA-Z0-9+.-]*://" LABEL "(\\." LABEL "){0,3}(:[0-9]{1,4})?"
            "(/[a-zA-Z0-9._~!$&'()*+,;=:@-]*)*"
            "(\\?[a-zA-Z0-9._~!$&'()*+,;=:@/?-]*)?(#[a-zA-Z0-9._~!$&'()*+,;=:@/?-]*)?"},
    {"uri-reference", NULL},
    {"idn-email", NULL},
    {"idn-hostname", NULL},
    {"iri", NULL},
    {"iri-reference", NULL},
    {"uri-template", NULL},
    {"json-pointer", "(/([^~/]|~[01])*)*"},
    {"relative-json-pointer", NULL},
    {"regex", NULL},
};

// False without an error: a format that nobody defines says nothing.
bool schema_format(struct schema *x, const struct place *at, struct sv name, struct dfa *out) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (!sv_is(name, formats[i].name)) continue;
        if (!formats[i].regex)
            return schema_refuse(x, at, "format", "\"%s\" can't be held", formats[i].name);
        return dfa_regex(out, x->s->effort, sv(formats[i].regex), false, x->e);
    }
    return false;
}

bool schema_texts(struct schema *x, const struct shape *h, struct dfa *d) {
    struct error why = {0};
    bool ok = dfa_length(d, x->s->effort, h->min_length, h->max_length, &why) &&
              (!h->has_text || dfa_and(d, &h->text, &why));
    return ok || schema_refuse(x, h->places->p, h->has_text ? "pattern" : "maxLength",
                               "with its length: %s", why.text);
}

int32_t schema_string(struct schema *x, const struct shape *h) {
    struct dfa d = {0};
    bool limits = h->min_length > 0 || h->max_length >= 0;
    if (h->max_length >= 0 && h->max_length < h->min_length) return syn_alt(x->s);
    if (!h->has_text && !limits) return syn_call(x->s, x->text);
    if (!h->has_text && writes_json(x)) return string_of(x, h->min_length, h->max_length);
    if (h->has_text && !limits) return schema_text(x, &h->text);
    int32_t node = schema_texts(x, h, &d) ? schema_text(x, &d) : 0;
    dfa_free(&d);
    return node;
}

// --- numbers -------------------------------------------------------------------------------------

// floor or (up) ceiling of a JSON number times 10^digits; *exact: it is just that. What is out of
// range becomes the limit.
static int64_t scaled(struct json_object *v, int digits, bool up, bool *exact) {
    const int64_t limit = 1000000000000000000;
    struct sv t = schema_json(v);
    bool negative = t.n && t.p[0] == '-', rest = false, seen = false;
    int64_t whole = 0, shift = digits;
    size_t i = negative;
    for (; i < t.n && t.p[i] != 'e' && t.p[i] != 'E'; i++) {
        if (t.p[i] == '.') {
            seen = true;
        } else if (whole < limit) {
            whole = whole * 10 + (t.p[i] - '0');
            shift -= seen;
        } else { // a digit that there is no place for
            rest |= t.p[i] != '0';
            shift += !seen;
        }
    }
    if (i < t.n) shift += strtol(t.p + i + 1, NULL, 10);
    for (; shift > 0 && whole && whole < limit; shift--) whole *= 10;
    for (; shift < 0 && (whole || rest); shift++) {
        rest |= whole % 10 != 0;
        whole /= 10;
        if (!whole) break;
    }
    if (whole > limit) whole = limit;
    *exact = !rest;
    if (rest && up != negative) whole++;
    return negative ? -whole : whole;
}

static int64_t least_of(const struct bound *b, int digits) {
    bool exact;
    int64_t n = scaled(b->value, digits, true, &exact);
    return n + (exact && b->exclusive);
}

static int64_t most_of(const struct bound *b, int digits) {
    bool exact;
    int64_t n = scaled(b->value, digits, false, &exact);
    return n - (exact && b->exclusive);
}

bool schema_in_bounds(const struct shape *h, struct json_object *number) {
    double d = json_object_get_double(number);
    if (h->least.value) {
        double b = json_object_get_double(h->least.value);
        if (h->least.exclusive ? d <= b : d < b) return false;
    }
    if (h->most.value) {
        double b = json_object_get_double(h->most.value);
        if (h->most.exclusive ? d >= b : d > b) return false;
    }
    return h->multiple == 1 || fabs(fmod(d, (double)h->multiple)) <= 0;
}

static bool all_are(const char *digits, size_t n, char c) {
    for (size_t i = 0; i < n; i++)
        if (digits[i] != c) return false;
    return true;
}

static void add_digit(struct str *s, char lo, char hi) {
    if (lo == hi)
        str_addc(s, lo);
    else
        str_printf(s, "[%c-%c]", lo, hi);
}

// n digits from a to b, or, when they are a fraction, up to n of which zeros at the end are left
// out or not.
static void add_digits(struct str *s, const char *a, const char *b, size_t n, bool fraction) {
    static const char nines[] = "999999999999999999", zeros[] = "000000000000000000";
    if (!n) return;
    if (all_are(a, n, '0') && all_are(b, n, '9')) {
        str_printf(s, fraction ? "[0-9]{0,%zu}" : "[0-9]{%zu}", n);
        return;
    }
    str_puts(s, fraction && all_are(a, n, '0') ? "(?:|" : "(?:");
    if (*a == *b) {
        str_addc(s, *a);
        add_digits(s, a + 1, b + 1, n - 1, fraction);
    } else {
        str_addc(s, *a);
        add_digits(s, a + 1, nines, n - 1, fraction);
        if (*a + 1 < *b) {
            str_addc(s, '|');
            add_digit(s, (char)(*a + 1), (char)(*b - 1));
            add_digits(s, zeros, nines, n - 1, fraction);
        }
        str_addc(s, '|');
        str_addc(s, *b);
        add_digits(s, zeros, b + 1, n - 1, fraction);
    }
    str_addc(s, ')');
}

// Whole numbers from a to b, both not negative.
static void add_whole(struct str *s, int64_t a, int64_t b) {
    str_puts(s, "(?:");
    bool any = false;
    for (int64_t low = 0, high = 9; low <= b; low = high + 1, high = high * 10 + 9) {
        char from[24], to[24];
        if (a <= high) {
            snprintf(from, sizeof from, "%lld", (long long)(a > low ? a : low));
            snprintf(to, sizeof to, "%lld", (long long)(b < high ? b : high));
            if (any) str_addc(s, '|');
            any = true;
            add_digits(s, from, to, strlen(from), false);
        }
        if (high >= 999999999999999999) break;
    }
    str_addc(s, ')');
}

static void pad(char out[DIGITS], int64_t n, int digits) {
    for (int i = digits; i-- > 0; n /= 10) out[i] = (char)('0' + n % 10);
}

// A point and a fraction from a to b, or nothing where that is the same as zeros.
static void add_fraction(struct str *s, int64_t a, int64_t b, int digits) {
    char from[DIGITS] = {0}, to[DIGITS] = {0};
    pad(from, a, digits);
    pad(to, b, digits);
    str_puts(s, "(?:\\.");
    add_digits(s, from, to, (size_t)digits, true);
    str_addc(s, ')');
    if (!a) str_addc(s, '?');
}

// Numbers from a to b, both not negative and times 10^digits.
static void add_decimal(struct str *s, int64_t a, int64_t b, int digits) {
    int64_t one = 1;
    for (int i = 0; i < digits; i++) one *= 10;
    int64_t low = a / one, high = b / one;
    str_puts(s, "(?:");
    if (low == high) {
        add_whole(s, low, low);
        add_fraction(s, a % one, b % one, digits);
    } else {
        add_whole(s, low, low);
        add_fraction(s, a % one, one - 1, digits);
        if (low + 1 < high) {
            str_addc(s, '|');
            add_whole(s, low + 1, high - 1);
            add_fraction(s, 0, one - 1, digits);
        }
        str_addc(s, '|');
        add_whole(s, high, high);
        add_fraction(s, 0, b % one, digits);
    }
    str_addc(s, ')');
}

static void add_range(struct str *s, int64_t a, int64_t b, int digits) {
    str_puts(s, "(?:");
    if (a < 0) {
        int64_t from = b < 0 ? -b : 1;
        str_addc(s, '-');
        if (digits)
            add_decimal(s, from, -a, digits);
        else
            add_whole(s, from, -a);
    }
    if (a < 0 && b >= 0) str_addc(s, '|');
    if (b >= 0) {
        if (digits)
            add_decimal(s, a > 0 ? a : 0, b, digits);
        else
            add_whole(s, a > 0 ? a : 0, b);
    }
    str_addc(s, ')');
}

// Whole numbers that are multiples: a state for each remainder.
static bool multiples(struct dfa *d, struct effort *f, int64_t of, struct error *e) {
    uint32_t *low = mem_array(14, sizeof *low);
    *d = (struct dfa){.effort = f};
    low[0] = '-';
    low[1] = '-' + 1;
    for (uint32_t i = 0; i <= 10; i++) low[2 + i] = '0' + i;
    dfa_classes(d, low, 13);
    for (int64_t i = 0; i <= of; i++)
        if (dfa_add(d, i == 1, e) < 0) return false;
    for (int64_t i = 0; i <= of; i++) {
        int32_t *next = d->next + (size_t)i * d->classes;
        for (size_t c = 0; c < d->classes; c++) {
            int64_t digit = (int64_t)d->low[c] - '0';
            if (digit >= 0 && digit <= 9)
                next[c] = (int32_t)(1 + ((i ? i - 1 : 0) * 10 + digit) % of);
            else if (d->low[c] == '-' && !i)
                next[c] = 0;
        }
    }
    return true;
}

static int digits_of(int64_t n) {
    int digits = 1;
    for (n = n < 0 ? -n : n; n > 9; n /= 10) digits++;
    return digits;
}

// Digits behind the point that a bound has, as far as that matters.
static int fraction_of(const struct bound *b) {
    bool exact = true;
    int n = 0;
    while (b->value && n < DIGITS && (scaled(b->value, n, false, &exact), !exact)) n++;
    return n;
}

static int32_t bounded(struct schema *x, const struct shape *h, int64_t a, int64_t b, int digits) {
    struct str regex = {0};
    struct dfa d = {0}, some = {0};
    if (a > b) return syn_alt(x->s);
    add_range(&regex, a, b, digits);
    struct effort *f = x->s->effort;
    bool ok = dfa_regex(&d, f, str_sv(&regex), false, x->e);
    if (ok && digits) // no point without digits
        ok = dfa_regex(&some, f, sv("-?[0-9]+(\\.[0-9]+)?"), false, x->e) &&
             dfa_and(&d, &some, x->e);
    if (ok && h->multiple > 1)
        ok = multiples(&some, f, h->multiple, x->e) && dfa_and(&d, &some, x->e);
    int32_t node = ok ? syn_call(x->s, dfa_rule(x->s, &d, 0, "number")) : 0;
    dfa_free(&d);
    dfa_free(&some);
    str_free(&regex);
    return node;
}

int32_t schema_number(struct schema *x, const struct shape *h) {
    const struct place *at = h->places->p;
    bool whole = !(h->types & TYPE_FRACTION) || h->multiple > 1,
         bounds = h->least.value || h->most.value;
    if (!bounds && h->multiple == 1) return syn_call(x->s, whole ? x->integer : x->number);
    int64_t limit = 1;
    for (int i = 0; i < (whole ? INTEGER_DIGITS : DIGITS); i++) limit *= 10;
    int64_t a = h->least.value ? least_of(&h->least, 0) : -limit + 1;
    int64_t b = h->most.value ? most_of(&h->most, 0) : limit - 1;
    if (whole && (a >= limit || b <= -limit))
        return schema_refuse(x, at, "", "bounds beyond %d digits can't be held", INTEGER_DIGITS);
    if (whole) return bounded(x, h, a > -limit ? a : -limit + 1, b < limit ? b : limit - 1, 0);
    // The larger of the bounds that are there takes its digits, and fractions get what is left.
    int digits = fraction_of(&h->least), most = fraction_of(&h->most), used = 1;
    if (most > digits) digits = most;
    if (digits < FRACTION_DIGITS) digits = FRACTION_DIGITS;
    if (h->least.value && digits_of(a) > used) used = digits_of(a);
    if (h->most.value && digits_of(b) > used) used = digits_of(b);
    if (used + FRACTION_DIGITS > DIGITS || digits + used > DIGITS) {
        bool far = digits == FRACTION_DIGITS;
        return schema_refuse(x, at, "",
                             far ? "bounds of a number beyond %d digits can't be held"
                                 : "bounds of a number with more than %d digits can't "
                                   "be held",
                             far ? DIGITS - FRACTION_DIGITS : DIGITS);
    }
    for (int i = 0; i < digits; i++) limit /= 10;
    int64_t scale = 1;
    for (int i = 0; i < digits; i++) scale *= 10;
    a = h->least.value ? least_of(&h->least, digits) : -limit * scale + 1;
    b = h->most.value ? most_of(&h->most, digits) : limit * scale - 1;
    return bounded(x, h, a, b, digits);
}
