// Python's numbers: integers of any size (up to JINJA_INT_BITS), floats, and bools as integers.
#include "chat/jinja/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMBS = JINJA_INT_BITS / 32 };

struct big { // magnitude, least limb first, no zero limb at the top
    bool neg;
    int n;
    uint32_t d[];
};

struct wide { // a big being worked on; holds any product of two
    bool neg;
    int n;
    uint32_t d[2 * LIMBS + 2];
};

static void trim(struct wide *w) {
    while (w->n && !w->d[w->n - 1]) w->n--;
    if (!w->n) w->neg = false;
}

static void from_u64(struct wide *w, uint64_t u, bool neg) {
    w->neg = neg;
    w->n = 2;
    w->d[0] = (uint32_t)u;
    w->d[1] = (uint32_t)(u >> 32);
    trim(w);
}

static int64_t small_int(struct value v) { return v.kind == V_BOOL ? v.b : v.i; }

static void widen(struct value v, struct wide *w) {
    if (v.kind == V_BIG) {
        w->neg = v.big->neg;
        w->n = v.big->n;
        memcpy(w->d, v.big->d, (size_t)w->n * sizeof *w->d);
    } else {
        int64_t i = small_int(v);
        from_u64(w, i < 0 ? 0 - (uint64_t)i : (uint64_t)i, i < 0);
    }
}

static struct value narrow(struct vm *vm, struct wide *w) {
    trim(w);
    uint64_t u = w->n ? w->d[0] : 0;
    if (w->n > 1) u |= (uint64_t)w->d[1] << 32;
    if (w->n <= 2 && u <= (uint64_t)INT64_MAX + w->neg)
        return int_value(w->neg ? (int64_t)(0 - u) : (int64_t)u);
    if (w->n > LIMBS)
        raise_error(vm, "an integer has more than %d bits (limit JINJA_INT_BITS)", JINJA_INT_BITS);
    spend(vm, (size_t)w->n);
    struct big *b = vm_alloc(vm, 1, sizeof *b + (size_t)w->n * sizeof *b->d);
    b->neg = w->neg;
    b->n = w->n;
    memcpy(b->d, w->d, (size_t)w->n * sizeof *b->d);
    return (struct value){.kind = V_BIG, .big = b};
}

static int cmp_size(const struct wide *a, const struct wide *b) {
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (int i = a->n; i-- > 0;)
        if (a->d[i] != b->d[i]) return a->d[i] < b->d[i] ? -1 : 1;
    return 0;
}

static void add_size(struct wide *a, const struct wide *b) {
    uint64_t carry = 0;
    int n = a->n > b->n ? a->n : b->n;
    for (int i = 0; i < n; i++) {
        carry += (i < a->n ? (uint64_t)a->d[i] : 0) + (i < b->n ? b->d[i] : 0);
        a->d[i] = (uint32_t)carry;
        carry >>= 32;
    }
    a->d[n] = (uint32_t)carry;
    a->n = n + 1;
    trim(a);
}

static void sub_size(struct wide *a, const struct wide *b) { // needs |a| >= |b|
    int64_t borrow = 0;
    for (int i = 0; i < a->n; i++) {
        int64_t d = (int64_t)a->d[i] - (i < b->n ? b->d[i] : 0) + borrow;
        a->d[i] = (uint32_t)d;
        borrow = d < 0 ? -1 : 0;
    }
    trim(a);
}

static void add_wide(struct wide *a, const struct wide *b) {
    if (a->neg == b->neg) {
        add_size(a, b);
    } else if (cmp_size(a, b) >= 0) {
        sub_size(a, b);
    } else {
        struct wide t = *b;
        sub_size(&t, a);
        *a = t;
    }
}

static void mul_small(struct wide *w, uint32_t by, uint32_t plus) {
    uint64_t carry = plus;
    for (int i = 0; i < w->n; i++) {
        carry += (uint64_t)w->d[i] * by;
        w->d[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry) w->d[w->n++] = (uint32_t)carry;
}

static uint32_t div_small(struct wide *w, uint32_t by) { // returns the remainder
    uint64_t rest = 0;
    for (int i = w->n; i-- > 0;) {
        rest = rest << 32 | w->d[i];
        w->d[i] = (uint32_t)(rest / by);
        rest %= by;
    }
    trim(w);
    return (uint32_t)rest;
}

static struct value mul_big(struct vm *vm, struct value va, struct value vb) {
    struct wide a, b, r = {0};
    widen(va, &a);
    widen(vb, &b);
    spend(vm, (size_t)(a.n * b.n) / 16 + 1);
    r.n = a.n + b.n;
    r.neg = a.neg != b.neg;
    for (int i = 0; i < a.n; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < b.n; j++) {
            carry += (uint64_t)a.d[i] * b.d[j] + r.d[i + j];
            r.d[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        r.d[i + b.n] = (uint32_t)carry;
    }
    return narrow(vm, &r);
}

// Magnitudes by long division in base 2: big divisors are too rare for anything quicker.
static void divide_size(struct vm *vm, const struct wide *a, const struct wide *b, struct wide *q,
                        struct wide *r) {
    *q = (struct wide){.n = a->n};
    *r = (struct wide){0};
    spend(vm, (size_t)a->n * 32 * (size_t)(b->n + 1) / 16);
    for (int bit = a->n * 32; bit-- > 0;) {
        mul_small(r, 2, 0);
        if (a->d[bit / 32] >> (bit % 32) & 1) {
            if (!r->n) r->n = 1, r->d[0] = 0;
            r->d[0] |= 1;
        }
        if (cmp_size(r, b) >= 0) {
            sub_size(r, b);
            q->d[bit / 32] |= 1u << (bit % 32);
        }
    }
    trim(q);
}

static int bit_length(const struct wide *w) {
    if (!w->n) return 0;
    return w->n * 32 - __builtin_clz(w->d[w->n - 1]);
}

static void shift_left(struct wide *w, int bits) {
    int words = bits / 32, rest = bits % 32;
    memmove(w->d + words, w->d, (size_t)w->n * sizeof *w->d);
    memset(w->d, 0, (size_t)words * sizeof *w->d);
    w->n += words;
    if (rest) mul_small(w, 1u << rest, 0);
}

// a / b as the nearest double: a quotient of 64 bits or more, the last one set when there is a
// rest, rounds as the exact one does.
static double divide_exactly(struct vm *vm, struct value va, struct value vb) {
    struct wide a, b, q, r;
    widen(va, &a);
    widen(vb, &b);
    int shift = 66 + bit_length(&b) - bit_length(&a);
    shift_left(shift > 0 ? &a : &b, abs(shift));
    divide_size(vm, &a, &b, &q, &r);
    uint64_t u = (uint64_t)q.d[1] << 32 | q.d[0];
    int drop = 0; // q has 66 or 67 bits
    for (; q.n > 2; drop++) {
        uint32_t low = q.d[0] & 1;
        div_small(&q, 2);
        u = (uint64_t)q.d[1] << 32 | q.d[0] | low;
        q.d[0] |= low;
    }
    if (r.n) u |= 1;
    double f = ldexp((double)u, drop - shift);
    if (isinf(f)) raise_error(vm, "integer division result too large for a float");
    return a.neg != b.neg ? -f : f;
}

// Floor division: the remainder has the divisor's sign.
static void divide_big(struct vm *vm, struct value va, struct value vb, struct value *quotient,
                       struct value *rest) {
    struct wide a, b, q, r, one;
    widen(va, &a);
    widen(vb, &b);
    from_u64(&one, 1, false);
    divide_size(vm, &a, &b, &q, &r);
    if (a.neg != b.neg && r.n) {
        add_size(&q, &one);
        struct wide t = b;
        sub_size(&t, &r);
        r = t;
    }
    q.neg = a.neg != b.neg;
    r.neg = b.neg;
    *quotient = narrow(vm, &q);
    *rest = narrow(vm, &r);
}

bool is_int(struct value v) { return v.kind == V_INT || v.kind == V_BOOL || v.kind == V_BIG; }

bool is_number(struct value v) { return is_int(v) || v.kind == V_FLOAT; }

struct value int_parse(struct vm *vm, struct sv digits, int base) {
    struct wide w = {0};
    spend(vm, digits.n / 8);
    for (size_t i = 0; i < digits.n; i++) {
        char c = digits.p[i];
        uint32_t d = c <= '9' ? (uint32_t)(c - '0') : (uint32_t)((c | 32) - 'a' + 10);
        mul_small(&w, (uint32_t)base, d);
        if (w.n > LIMBS)
            raise_error(vm, "an integer has more than %d bits (limit JINJA_INT_BITS)",
                        JINJA_INT_BITS);
    }
    return narrow(vm, &w);
}

struct value int_from_double(struct vm *vm, double f) {
    if (f > -9.2e18 && f < 9.2e18) return int_value((int64_t)f);
    int exp;
    double m = frexp(fabs(f), &exp);
    struct wide w;
    from_u64(&w, (uint64_t)ldexp(m, 53), f < 0);
    for (exp -= 53; exp > 0; exp--) mul_small(&w, 2, 0);
    return narrow(vm, &w);
}

static void big_digits(struct wide *w, uint32_t base, char *out, size_t *n) {
    // Nine decimal digits a division; the other bases go digit by digit.
    uint32_t step = base == 10 ? 1000000000u : base;
    int per = base == 10 ? 9 : 1;
    *n = 0;
    while (w->n) {
        uint32_t part = div_small(w, step);
        for (int i = 0; i < per && (part || w->n); i++, part /= base)
            out[(*n)++] = "0123456789abcdef"[part % base];
    }
}

void put_int(struct vm *vm, struct value v, int base) {
    struct wide w;
    widen(v, &w);
    char digit[JINJA_INT_BITS + 1];
    size_t n;
    spend(vm, (size_t)w.n * (size_t)w.n);
    if (w.neg) put_char(vm, '-');
    if (!w.n) put_char(vm, '0');
    big_digits(&w, (uint32_t)base, digit, &n);
    while (n) put_char(vm, digit[--n]);
}

// The highest 64 bits, the last one set when there are others below, round as all of them do.
static double big_double(const struct big *b) {
    int low = b->n > 2 ? b->n - 3 : 0, shift = __builtin_clz(b->d[b->n - 1]);
    uint64_t u = (uint64_t)b->d[b->n - 1] << 32 | b->d[b->n - 2];
    uint32_t next = b->n > 2 ? b->d[low] : 0;
    if (shift) u = u << shift | next >> (32 - shift);
    bool more = shift ? (uint32_t)(next << shift) != 0 : next != 0;
    for (int i = 0; i < low && !more; i++) more = b->d[i] != 0;
    double f = ldexp((double)(u | more), (b->n - 2) * 32 - shift);
    return b->neg ? -f : f;
}

double to_double(struct vm *vm, struct value v) {
    if (v.kind == V_FLOAT) return v.f;
    if (v.kind != V_BIG) return (double)small_int(v);
    double f = big_double(v.big);
    if (isinf(f)) raise_error(vm, "int too large to convert to float");
    return f;
}

int64_t to_int(struct vm *vm, struct value v, const char *what) {
    if (v.kind == V_UNDEFINED) raise_undefined(vm, v);
    if (v.kind == V_BIG) raise_error(vm, "%s is too large", what);
    if (!is_int(v)) raise_error(vm, "%s must be an integer, not %s", what, type_name(v));
    return small_int(v);
}

size_t to_count(struct vm *vm, struct value v, const char *what) {
    int64_t i = to_int(vm, v, what);
    return i < 0 ? 0 : (size_t)i;
}

static int sign_of(double f) { return (f > 0) - (f < 0); }

int compare_numbers(struct vm *vm, struct value a, struct value b) {
    if (a.kind == V_FLOAT && b.kind == V_FLOAT) {
        if (isnan(a.f) || isnan(b.f)) return 2;
        return (a.f > b.f) - (a.f < b.f);
    }
    if (b.kind == V_FLOAT) {
        int c = compare_numbers(vm, b, a);
        return c == 2 ? 2 : -c;
    }
    if (a.kind == V_FLOAT) {
        if (isnan(a.f)) return 2;
        if (isinf(a.f)) return sign_of(a.f);
        int c = compare_numbers(vm, int_from_double(vm, a.f), b);
        return c ? c : sign_of(a.f - trunc(a.f));
    }
    if (a.kind != V_BIG && b.kind != V_BIG) {
        int64_t x = small_int(a), y = small_int(b);
        return (x > y) - (x < y);
    }
    struct wide x, y;
    widen(a, &x);
    widen(b, &y);
    if (x.neg != y.neg) return x.neg ? -1 : 1;
    return x.neg ? -cmp_size(&x, &y) : cmp_size(&x, &y);
}

// Equal numbers of different kinds must hash alike.
uint64_t hash_number(struct value v) {
    double f = v.kind == V_FLOAT ? v.f : v.kind == V_BIG ? big_double(v.big) : 0;
    if (v.kind == V_FLOAT && f == trunc(f) && fabs(f) < 9e18) return (uint64_t)(int64_t)f;
    if (v.kind == V_FLOAT || v.kind == V_BIG) return sv_hash(sv_n((const char *)&f, sizeof f));
    return (uint64_t)small_int(v);
}

static struct value power(struct vm *vm, struct value a, struct value b) {
    bool negative = b.kind == V_BIG ? b.big->neg : b.kind != V_FLOAT && small_int(b) < 0;
    if (a.kind == V_FLOAT || b.kind == V_FLOAT || negative) {
        double x = to_double(vm, a), y = to_double(vm, b);
        if (x == 0 && y < 0) raise_error(vm, "0.0 cannot be raised to a negative power");
        if (x < 0 && y != trunc(y)) raise_error(vm, "complex numbers are not supported");
        double r = pow(x, y);
        if (isinf(r) && !isinf(x) && !isinf(y))
            raise_error(vm, "(34, 'Numerical result out of range')");
        return float_value(r);
    }
    bool tiny = a.kind != V_BIG && small_int(a) >= -1 && small_int(a) <= 1;
    if (tiny) { // the only bases whose powers may be astronomic
        bool odd = b.kind == V_BIG ? b.big->d[0] & 1 : small_int(b) & 1;
        bool zero = b.kind != V_BIG && small_int(b) == 0;
        int64_t x = small_int(a);
        return int_value(zero ? 1 : x < 0 && !odd ? 1 : x);
    }
    if (b.kind == V_BIG || small_int(b) > JINJA_INT_BITS)
        raise_error(vm, "an integer has more than %d bits (limit JINJA_INT_BITS)", JINJA_INT_BITS);
    struct value r = int_value(1);
    for (int64_t e = small_int(b); e; e >>= 1) {
        if (e & 1) r = arithmetic(vm, '*', r, a);
        if (e > 1) a = arithmetic(vm, '*', a, a);
    }
    return r;
}

static struct value float_arithmetic(struct vm *vm, char op, double a, double b) {
    if (op == '+') return float_value(a + b);
    if (op == '-') return float_value(a - b);
    if (op == '*') return float_value(a * b);
    if (b == 0)
        raise_error(vm, op == '/'   ? "float division by zero"
                        : op == '%' ? "float modulo by zero"
                                    : "float floor division by zero");
    if (op == '/') return float_value(a / b);
    // Floor division and modulo agree with each other: the remainder takes the divisor's sign.
    double rest = fmod(a, b), q = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) rest += b, q -= 1;
    if (rest == 0) rest = copysign(0, b);
    if (op == '%') return float_value(rest);
    double whole = floor(q);
    if (q - whole > 0.5) whole += 1;
    return float_value(q == 0 ? copysign(0, a / b) : whole);
}

static struct value int_arithmetic(struct vm *vm, char op, struct value a, struct value b) {
    bool small = a.kind != V_BIG && b.kind != V_BIG;
    int64_t x = small ? small_int(a) : 0, y = small ? small_int(b) : 0, r;
    if (op == '+' && small && !__builtin_add_overflow(x, y, &r)) return int_value(r);
    if (op == '-' && small && !__builtin_sub_overflow(x, y, &r)) return int_value(r);
    if (op == '*' && small && !__builtin_mul_overflow(x, y, &r)) return int_value(r);
    if (op == '*') return mul_big(vm, a, b);
    if (op == '+' || op == '-') {
        struct wide p, q;
        widen(a, &p);
        widen(b, &q);
        if (op == '-' && q.n) q.neg = !q.neg;
        add_wide(&p, &q);
        return narrow(vm, &p);
    }
    if (b.kind != V_BIG && small_int(b) == 0)
        raise_error(vm, op == '/'   ? "division by zero"
                        : op == '%' ? "integer modulo by zero"
                                    : "integer division or modulo by zero");
    int64_t exact = (int64_t)1 << 53;
    if (op == '/' && small && x >= -exact && x <= exact && y >= -exact && y <= exact)
        return float_value((double)x / (double)y);
    if (op == '/') return float_value(divide_exactly(vm, a, b));
    if (small && !(x == INT64_MIN && y == -1)) {
        int64_t q = x / y, rest = x % y;
        if (rest && (rest < 0) != (y < 0)) rest += y, q--;
        return int_value(op == '%' ? rest : q);
    }
    struct value q, rest;
    divide_big(vm, a, b, &q, &rest);
    return op == '%' ? rest : q;
}

// op: + - * / % ^ (power) and f (floor division); both are numbers.
struct value arithmetic(struct vm *vm, char op, struct value a, struct value b) {
    if (op == '^') return power(vm, a, b);
    if (a.kind == V_FLOAT || b.kind == V_FLOAT)
        return float_arithmetic(vm, op, to_double(vm, a), to_double(vm, b));
    return int_arithmetic(vm, op, a, b);
}

struct value negate(struct vm *vm, struct value v) {
    if (v.kind == V_FLOAT) return float_value(-v.f);
    return arithmetic(vm, '-', int_value(0), v);
}

// The fewest decimal digits that read back as f, and the power of ten of the first. Returns how
// many.
static int shortest(double f, char digit[24], int *exp) {
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, f);
        if (strtod(text, NULL) == f) break;
    }
    const char *e = strchr(text, 'e');
    int n = 0;
    for (const char *c = text; c < e; c++)
        if (*c >= '0' && *c <= '9') digit[n++] = *c;
    *exp = atoi(e + 1);
    return n;
}

static void put_scientific(struct vm *vm, const char *digit, int n, int exp) {
    char text[16];
    put_char(vm, digit[0]);
    if (n > 1) put_char(vm, '.');
    put(vm, sv_n(digit + 1, (size_t)(n - 1)));
    snprintf(text, sizeof text, "e%c%02d", exp < 0 ? '-' : '+', abs(exp));
    puts_text(vm, text);
}

void put_float(struct vm *vm, double f) {
    char digit[24];
    int exp = 0, n = isfinite(f) ? shortest(f, digit, &exp) : 0;
    if (signbit(f) && !isnan(f)) put_char(vm, '-');
    if (!n) {
        puts_text(vm, isnan(f) ? "nan" : "inf");
    } else if (exp < -4 || exp >= 16) {
        put_scientific(vm, digit, n, exp);
    } else if (exp < 0) {
        puts_text(vm, "0.");
        put_fill(vm, '0', (size_t)(-exp - 1));
        put(vm, sv_n(digit, (size_t)n));
    } else {
        for (int i = 0; i < n || i <= exp; i++) {
            if (i == exp + 1) put_char(vm, '.');
            put_char(vm, i < n ? digit[i] : '0');
        }
        if (n <= exp + 1) puts_text(vm, ".0");
    }
}
