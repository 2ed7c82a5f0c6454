// The functions that every template can call.
#include "chat/jinja/value.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct value range_function(struct vm *vm, const struct value *at, const struct args *all) {
    int64_t n[3] = {0, 0, 1};
    (void)at;
    if (all->n < 1 || all->n > 3 || all->n_kw) raise_error(vm, "range takes 1 to 3 arguments");
    for (size_t i = 0; i < all->n; i++)
        n[all->n == 1 ? 1 : i] = to_int(vm, all->at[i], "an argument of range");
    if (n[2] == 0) raise_error(vm, "range() arg 3 must not be zero");
    struct value v = range_value(vm, n[0], n[1], n[2]);
    if (v.range->n > JINJA_RANGE)
        raise_error(vm, "range is over %d long (limit JINJA_RANGE)", JINJA_RANGE);
    return v;
}

static void add_pairs(struct vm *vm, struct dict *d, const struct args *all) {
    if (all->n > 1) raise_error(vm, "dict takes at most 1 argument (%zu given)", all->n);
    if (all->n && all->at[0].kind == V_DICT) {
        const struct dict *from = all->at[0].dict;
        for (size_t i = 0; i < from->n; i++) dict_set(vm, d, from->at[i].key, from->at[i].value);
    } else if (all->n) {
        struct iter it = iter_open(vm, all->at[0]);
        for (struct value x; iter_next(vm, &it, &x);) {
            struct items pair = to_items(vm, x);
            if (pair.n != 2) raise_error(vm, "dict needs pairs of a key and a value");
            dict_set(vm, d, pair.at[0], pair.at[1]);
        }
    }
    for (size_t i = 0; i < all->n_kw; i++)
        dict_set(vm, d, text_value(vm, all->kw[i].name), all->kw[i].value);
}

static struct value dict_function(struct vm *vm, const struct value *at, const struct args *all) {
    (void)at;
    struct dict *d = dict_new(vm);
    add_pairs(vm, d, all);
    return (struct value){.kind = V_DICT, .dict = d};
}

static struct value namespace_function(struct vm *vm, const struct value *at,
                                       const struct args *all) {
    (void)at;
    struct dict *d = dict_new(vm);
    add_pairs(vm, d, all);
    for (size_t i = 0; i < d->n; i++)
        if (d->at[i].key.kind == V_TEXT && sv_starts(sv_of(d->at[i].key), sv("_")))
            raise_error(vm, "a namespace cannot hold underscore-prefixed attributes");
    return (struct value){.kind = V_NAMESPACE, .space = d};
}

static struct value cycler_function(struct vm *vm, const struct value *at, const struct args *all) {
    (void)at;
    if (!all->n || all->n_kw) raise_error(vm, "at least one item has to be provided");
    struct cycler *c = vm_alloc(vm, 1, sizeof *c);
    for (size_t i = 0; i < all->n; i++) items_add(vm, &c->items, all->at[i]);
    return (struct value){.kind = V_CYCLER, .cycler = c};
}

static struct value joiner_function(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct joiner *j = vm_alloc(vm, 1, sizeof *j);
    j->separator = at[1].kind == V_MISSING ? text_value(vm, sv(", ")) : at[1];
    return (struct value){.kind = V_JOINER, .joiner = j};
}

static struct value raise_function(struct vm *vm, const struct value *at, const struct args *all) {
    (void)all;
    struct sv s = sv_cut(to_sv(vm, at[1]), 0, 1000);
    vm->raised = true;
    fail(vm->e, "%.*s", (int)s.n, s.p);
    longjmp(vm->fail, 1);
}

static struct value lipsum_function(struct vm *vm, const struct value *at, const struct args *all) {
    (void)at;
    (void)all;
    raise_error(vm, "lipsum() makes random text: a prompt can't hold that");
}

// `self` holds a template's blocks for those that extend it; a chat template is one file.
static struct value self_function(struct vm *vm, const struct value *at, const struct args *all) {
    (void)at;
    (void)all;
    raise_error(vm, "'TemplateReference' object is not callable");
}

// The clock: SOURCE_DATE_EPOCH in UTC when set, so that output can be reproduced.
static struct tm now(struct vm *vm) {
    const char *fixed = getenv("SOURCE_DATE_EPOCH");
    char *end = NULL;
    time_t t = fixed && *fixed ? (time_t)strtoll(fixed, &end, 10) : time(NULL);
    struct tm tm = {0};
    if (end && *end) raise_error(vm, "SOURCE_DATE_EPOCH is \"%.40s\": want seconds", fixed);
    if (end ? !gmtime_r(&t, &tm) : !localtime_r(&t, &tm)) raise_error(vm, "the clock fails");
    return tm;
}

// One directive at a time, since Python gives %f, %z and %Z (of a naive time) its own meaning.
static size_t directive(struct vm *vm, struct sv format, size_t i, const struct tm *tm) {
    char one[8] = "%", text[256];
    size_t n = 1;
    for (i++; i < format.n && n < sizeof one - 1; i++) {
        one[n++] = format.p[i];
        if (!memchr("-_0^#EO", format.p[i], 7)) break;
    }
    char last = one[n - 1];
    if (i >= format.n || n == sizeof one - 1) { // no directive: it stays as it is
        put(vm, sv_n(one, n));
        return i < format.n ? i + 1 : i;
    }
    if (last == 'f')
        puts_text(vm, "000000");
    else if (last != 'z' && last != 'Z')
        put(vm, sv_n(text, strftime(text, sizeof text, one, tm)));
    return i + 1;
}

static struct value strftime_function(struct vm *vm, const struct value *at,
                                      const struct args *all) {
    (void)all;
    if (at[1].kind != V_TEXT) raise_error(vm, "strftime_now needs a format");
    struct sv format = sv_of(at[1]);
    struct tm tm = now(vm);
    size_t mark = text_mark(vm);
    for (size_t i = 0; i < format.n;) {
        if (format.p[i] == '%')
            i = directive(vm, format, i, &tm);
        else
            put_char(vm, format.p[i++]);
    }
    return text_take(vm, mark);
}

static const struct builtin table[] = {
    {"range", NULL, 0, range_function},
    {"dict", NULL, 0, dict_function},
    {"namespace", NULL, 0, namespace_function},
    {"cycler", NULL, 0, cycler_function},
    {"joiner", "sep", 0, joiner_function},
    {"lipsum", "n html min max", 0, lipsum_function},
    {"self", NULL, 0, self_function},
    {"raise_exception", "message", 1, raise_function},
    {"strftime_now", "format", 1, strftime_function},
};

const struct builtin *find_global(struct sv name) {
    return find_builtin(table, sizeof table / sizeof *table, name);
}

const struct builtin *find_builtin(const struct builtin *builtins, size_t n, struct sv name) {
    for (size_t i = 0; i < n; i++)
        if (sv_is(name, builtins[i].name)) return &builtins[i];
    return NULL;
}
