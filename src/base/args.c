#include "base/args.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

struct arg_value {
    const struct arg *arg;
    bool given, set; // set: given, or there is a default; of a flag or a switch: it is on
    struct sv by;    // the name that was typed, or the variable
    struct sv text;
    int64_t i;
    double f;
    struct sv *texts;
    size_t n, cap;
};

struct sv args_word(const char *words, size_t i) {
    struct sv left = sv(words);
    for (;; i--) {
        left = sv_trim(left);
        ptrdiff_t end = sv_find(left, sv(" "), 0);
        struct sv word = end < 0 ? left : sv_cut(left, 0, (size_t)end);
        if (i == 0 || word.n == 0) return word;
        left = sv_cut(left, word.n, left.n);
    }
}

static bool has_word(const char *words, struct sv word) {
    struct sv one;
    for (size_t i = 0; (one = args_word(words, i)).n; i++)
        if (sv_eq(one, word)) return true;
    return false;
}

static bool is_long(struct sv name) { return sv_starts(name, sv("--")); }

// The name that errors and getters use: the first long one.
static struct sv main_name(const struct arg *arg) {
    struct sv name;
    for (size_t i = 0; (name = args_word(arg->names, i)).n; i++)
        if (is_long(name)) return name;
    return args_word(arg->names, 0);
}

static struct arg_value *find(const struct args *a, struct sv name) {
    for (size_t k = 0; k < a->n; k++)
        if (has_word(a->value[k].arg->names, name)) return &a->value[k];
    return NULL;
}

// --- near misses ---------------------------------------------------------------------------------

enum { TYPED_MAX = 48 };

// Edits (insert, delete, replace, swap neighbours) between two words of at most TYPED_MAX bytes.
static size_t edits(struct sv a, struct sv b) {
    size_t d[TYPED_MAX + 1][TYPED_MAX + 1];
    for (size_t i = 0; i <= a.n; i++) {
        for (size_t k = 0; k <= b.n; k++) {
            if (i == 0 || k == 0) {
                d[i][k] = i + k;
                continue;
            }
            size_t best = d[i - 1][k - 1] + (a.p[i - 1] != b.p[k - 1]);
            if (d[i - 1][k] + 1 < best) best = d[i - 1][k] + 1;
            if (d[i][k - 1] + 1 < best) best = d[i][k - 1] + 1;
            bool swap = i > 1 && k > 1 && a.p[i - 1] == b.p[k - 2] && a.p[i - 2] == b.p[k - 1];
            if (swap && d[i - 2][k - 2] + 1 < best) best = d[i - 2][k - 2] + 1;
            d[i][k] = best;
        }
    }
    return d[a.n][b.n];
}

// How far a word is from what was typed; SIZE_MAX when it isn't a plausible reading of it.
static size_t distance(struct sv typed, struct sv word) {
    if (typed.n > TYPED_MAX || word.n > TYPED_MAX) return SIZE_MAX;
    size_t n = edits(typed, word), longer = typed.n > word.n ? typed.n : word.n;
    if (n <= longer / 3) return n;
    return typed.n >= 5 && sv_starts(word, typed) ? n : SIZE_MAX; // the start of a longer name
}

static void nearer(struct sv typed, const char *words, struct sv *best, size_t *best_n) {
    struct sv word;
    for (size_t i = 0; (word = args_word(words, i)).n; i++) {
        size_t n = distance(typed, word);
        if (n < *best_n) *best = word, *best_n = n;
    }
}

struct sv args_nearest(struct sv typed, const char *words) {
    struct sv best = sv("");
    size_t best_n = SIZE_MAX;
    nearer(typed, words, &best, &best_n);
    return best;
}

// A word behind one dash is taken for a long name: "-temp" for "--temp".
static bool unknown(const struct args *a, struct sv name, struct error *e) {
    struct sv best = sv("");
    struct str typed = {0};
    size_t best_n = SIZE_MAX;
    if (!is_long(name)) str_addc(&typed, '-');
    str_add(&typed, name);
    for (size_t k = 0; name.n > 2 && k < a->n; k++)
        if (args_listed(a->value[k].arg))
            nearer(str_sv(&typed), a->value[k].arg->names, &best, &best_n);
    str_free(&typed);
    if (best.n)
        return fail(e, "unknown option %.*s; did you mean %.*s?", (int)name.n, name.p, (int)best.n,
                    best.p);
    bool alone = a->command->alone;
    return fail(e, "unknown option %.*s (\"%s%s%s\" lists them)", (int)name.n, name.p,
                alone ? "" : "mlxcel help ", a->command->name, alone ? " --help" : "");
}

// --- values --------------------------------------------------------------------------------------

static bool out_of_range(const struct arg *arg, struct sv from, struct sv text, struct error *e) {
    const char *kind = arg->kind == ARG_INT ? "a whole number" : "a number";
    int digits = arg->kind == ARG_INT ? 17 : 6; // a whole number exactly
    return fail(e, "%.*s \"%.*s\": must be %s from %.*g to %.*g", (int)from.n, from.p, (int)text.n,
                text.p, kind, digits, arg->least, digits, arg->most);
}

// What is behind the first bar of "N|auto|all".
static struct sv behind_bar(struct sv s) {
    ptrdiff_t bar = sv_find(s, sv("|"), 0);
    return bar < 0 ? sv("") : sv_cut(s, (size_t)bar + 1, s.n);
}

// Whether text is one of words with bars between.
static bool one_word(struct sv words, struct sv text) {
    for (; words.n; words = behind_bar(words)) {
        ptrdiff_t bar = sv_find(words, sv("|"), 0);
        if (sv_eq(sv_cut(words, 0, bar < 0 ? words.n : (size_t)bar), text)) return true;
    }
    return false;
}

static bool read_number(struct arg_value *v, struct sv from, struct sv text, struct error *e) {
    const struct arg *arg = v->arg;
    struct sv number = sv_trim(text);
    char buf[64], *end = buf;
    if (number.n == 0 || number.n >= sizeof buf) return out_of_range(arg, from, text, e);
    memcpy(buf, number.p, number.n);
    buf[number.n] = 0;
    errno = 0;
    if (arg->kind == ARG_INT && one_word(behind_bar(sv(arg->value)), number)) {
        v->i = (int64_t)arg->least;
        return true;
    }
    if (arg->kind == ARG_INT) {
        v->i = strtoll(buf, &end, 10);
        v->f = (double)v->i;
    } else {
        v->f = strtod(buf, &end);
    }
    bool good =
        *end == 0 && errno == 0 && isfinite(v->f) && v->f >= arg->least && v->f <= arg->most;
    return good || out_of_range(arg, from, text, e);
}

static bool read_choice(struct arg_value *v, struct sv from, struct sv text, struct error *e) {
    if (one_word(sv(v->arg->value), text)) return true;
    return fail(e, "%.*s \"%.*s\": must be one of %s", (int)from.n, from.p, (int)text.n, text.p,
                v->arg->value);
}

// from: what to call the source of the value in an error, an option or a variable.
static bool store(struct arg_value *v, struct sv from, struct sv text, struct error *e) {
    v->set = true;
    v->text = text;
    switch (v->arg->kind) {
    case ARG_INT:
    case ARG_NUMBER: return read_number(v, from, text, e);
    case ARG_CHOICE: return read_choice(v, from, text, e);
    case ARG_TEXTS:
        v->texts = mem_grow(v->texts, &v->cap, v->n + 1, sizeof *v->texts);
        v->texts[v->n++] = text;
        return true;
    case ARG_SWITCH: v->set = sv_is(text, "on"); return true;
    case ARG_FLAG:
    case ARG_TEXT:
    case ARG_REFUSED:
    case ARG_IGNORED: break;
    }
    return true;
}

static bool on_or_off(const struct arg *arg) {
    return arg->kind == ARG_FLAG || arg->kind == ARG_SWITCH;
}

bool args_flag_text(struct sv from, struct sv text, bool *out, struct error *e) {
    const char *yes = "1 true yes on enabled", *no = "0 false no off disabled";
    *out = has_word(yes, text);
    return *out || has_word(no, text) ||
           fail(e, "%.*s \"%.*s\": must be 1 or 0", (int)from.n, from.p, (int)text.n, text.p);
}

static bool store_flag_text(struct arg_value *v, struct sv from, struct sv text, struct error *e) {
    bool yes;
    v->given = v->arg->kind == ARG_SWITCH;
    if (v->given && sv_find(from, sv("_NO_"), 0) >= 0) return true;
    if (!args_flag_text(from, text, &yes, e)) return false;
    if (yes) v->given = v->set = true;
    return true;
}

static bool read_environment(struct arg_value *v, struct error *e) {
    struct sv name;
    for (size_t i = 0; v->arg->env && (name = args_word(v->arg->env, i)).n; i++) {
        char *key = mem_textn(name.p, name.n);
        const char *text = getenv(key);
        free(key);
        if (!text || !*text) continue;
        v->by = name;
        if (on_or_off(v->arg)) return store_flag_text(v, name, sv(text), e);
        v->given = true;
        return store(v, name, sv(text), e);
    }
    return true;
}

// --- the command line ----------------------------------------------------------------------------

static bool refuse(const struct arg_value *v, struct sv name, struct error *e) {
    return fail(e, "%.*s: %s", (int)name.n, name.p, v->arg->help);
}

// Whether an option that is ignored has the next argument as its value: one in brackets may be
// missing.
static bool takes_next(const char *value, int argc, char **argv, int at) {
    struct sv words = sv(value);
    if (!sv_starts(words, sv("["))) return words.n;
    return at + 1 < argc && one_word(sv_cut(words, 1, words.n - 1), sv(argv[at + 1]));
}

// One option whose name is known; *at moves past a value that is its own argument.
static bool option(struct arg_value *v, struct sv name, const struct sv *joined, int argc,
                   char **argv, int *at, struct error *e) {
    if (v->arg->kind == ARG_REFUSED) return refuse(v, name, e);
    v->given = v->set = true;
    v->by = name;
    if (on_or_off(v->arg)) {
        if (v->arg->kind == ARG_SWITCH) v->set = !sv_starts(name, sv("--no-"));
        if (!joined) return true;
        return fail(e, "%.*s takes no value", (int)name.n, name.p);
    }
    if (v->arg->kind == ARG_IGNORED && !takes_next(v->arg->value, argc, argv, *at)) return true;
    if (joined) return store(v, name, *joined, e);
    if (*at + 1 >= argc)
        return fail(e, "%.*s needs a value: %.*s %s", (int)name.n, name.p, (int)name.n, name.p,
                    v->arg->value);
    return store(v, name, sv(argv[++*at]), e);
}

// "--name", "--name=value", and the same of a short name: "-n", "-n=5".
static bool named(struct args *a, struct sv arg, int argc, char **argv, int *at, struct error *e) {
    ptrdiff_t eq = sv_find(arg, sv("="), 0);
    struct sv name = eq < 0 ? arg : sv_cut(arg, 0, (size_t)eq);
    struct sv joined = eq < 0 ? sv("") : sv_cut(arg, (size_t)eq + 1, arg.n);
    struct arg_value *v = find(a, name);
    if (!v) return unknown(a, name, e);
    return option(v, name, eq < 0 ? NULL : &joined, argc, argv, at, e);
}

static bool begins_number(struct sv s) {
    size_t i = s.n && (s.p[0] == '-' || s.p[0] == '.') ? 1 : 0;
    return i < s.n && s.p[i] >= '0' && s.p[i] <= '9';
}

// "-vq": several flags behind one dash.
static bool flags(struct args *a, struct sv arg, int argc, char **argv, int *at, struct error *e) {
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 1; i < arg.n; i++) {
            char name[] = {'-', arg.p[i], 0};
            struct arg_value *v = find(a, sv(name));
            if (!v || v->arg->kind != ARG_FLAG) return unknown(a, arg, e);
            if (pass && !option(v, args_word(v->arg->names, 0), NULL, argc, argv, at, e))
                return false;
        }
    }
    return true;
}

// "-n5" too, but only of numbers: llama.cpp has words behind one dash ("-fa on", "-cnv"), which
// must not pass for -f and -c with a value.
static bool short_options(struct args *a, struct sv arg, int argc, char **argv, int *at,
                          struct error *e) {
    if (arg.n == 2 || find(a, arg) || sv_find(arg, sv("="), 0) >= 0)
        return named(a, arg, argc, argv, at, e);
    struct arg_value *v = find(a, sv_cut(arg, 0, 2));
    struct sv rest = sv_cut(arg, 2, arg.n);
    if (v && (v->arg->kind == ARG_INT || v->arg->kind == ARG_NUMBER) && begins_number(rest))
        return option(v, sv_cut(arg, 0, 2), &rest, argc, argv, at, e);
    return flags(a, arg, argc, argv, at, e);
}

static bool operand(struct args *a, struct sv text, struct error *e) {
    if (a->operands < a->command->operands_most) {
        a->operand[a->operands++] = text;
        return true;
    }
    bool alone = a->command->alone;
    return fail(e, "unexpected argument \"%.*s\" (\"%s%s%s\" shows the usage)", (int)text.n, text.p,
                alone ? "" : "mlxcel help ", a->command->name, alone ? " --help" : "");
}

static void collect(struct args *a, const struct command *c, size_t operands) {
    *a = (struct args){.command = c};
    for (size_t g = 0; c->groups[g]; g++) a->n += c->groups[g]->n;
    a->value = mem_array(a->n, sizeof *a->value);
    a->operand = mem_array(operands, sizeof *a->operand);
    size_t at = 0;
    for (size_t g = 0; c->groups[g]; g++)
        for (size_t k = 0; k < c->groups[g]->n; k++) a->value[at++].arg = &c->groups[g]->arg[k];
}

bool args_parse(struct args *a, const struct command *c, int argc, char **argv, struct error *e) {
    collect(a, c, (size_t)argc);
    bool options = true, ok = true;
    for (int at = 0; ok && at < argc; at++) {
        struct sv arg = sv(argv[at]);
        if (options && sv_is(arg, "--"))
            options = false;
        else if (options && is_long(arg))
            ok = named(a, arg, argc, argv, &at, e);
        else if (options && arg.n > 1 && arg.p[0] == '-')
            ok = short_options(a, arg, argc, argv, &at, e);
        else
            ok = operand(a, arg, e);
    }
    for (size_t k = 0; ok && k < a->n; k++) {
        struct arg_value *v = &a->value[k];
        if (!v->given && args_listed(v->arg)) ok = read_environment(v, e);
        if (ok && !v->given && !v->set && v->arg->otherwise)
            ok = store(v, main_name(v->arg), sv(v->arg->otherwise), e);
    }
    return ok;
}

void args_free(struct args *a) {
    for (size_t k = 0; k < a->n; k++) free(a->value[k].texts);
    free(a->value);
    free(a->operand);
    *a = (struct args){0};
}

// --- what changes nothing ------------------------------------------------------------------------

static bool typed(struct sv by) { return sv_starts(by, sv("-")); }

// The option of a variable: "LLAMA_ARG_NO_X" is of who has LLAMA_ARG_X.
static const struct arg *arg_of_variable(const struct args *a, struct sv name) {
    struct str plain = {0};
    const struct arg *found = NULL;
    ptrdiff_t no = sv_find(name, sv("_NO_"), 0);
    str_add(&plain, sv_cut(name, 0, no < 0 ? name.n : (size_t)no));
    if (no >= 0) str_add(&plain, sv_cut(name, (size_t)no + 3, name.n));
    for (size_t k = 0; k < a->n && !found; k++) {
        const struct arg *arg = a->value[k].arg;
        if (!arg->env) continue;
        if (has_word(arg->env, name) || (!args_listed(arg) && has_word(arg->env, str_sv(&plain))))
            found = arg;
    }
    str_free(&plain);
    return found;
}

static bool in_manual(const struct manual *m, struct sv name) {
    for (size_t i = 0; i < m->variables; i++)
        if (sv_is(name, m->variable[i].name)) return true;
    return false;
}

static void warn_variable(const struct args *a, const struct manual *m, struct sv name) {
    const struct arg *arg = arg_of_variable(a, name);
    bool ours = sv_starts(name, sv("LLAMA_ARG_")) || sv_starts(name, sv("MLXCEL_"));
    if (arg ? args_listed(arg) : !ours || in_manual(m, name)) return;
    log_say(LOG_WARN, "%.*s is set, and changes nothing: %s", (int)name.n, name.p,
            arg ? arg->help : "no option has this variable");
}

void args_warn(const struct args *a, const struct manual *m) {
    for (size_t k = 0; k < a->n; k++) {
        const struct arg_value *v = &a->value[k];
        if (v->arg->kind == ARG_IGNORED && v->given && typed(v->by))
            log_say(LOG_WARN, "%.*s changes nothing: %s", (int)v->by.n, v->by.p, v->arg->help);
    }
    for (char **p = environ; m && *p; p++) {
        struct sv entry = sv(*p);
        ptrdiff_t eq = sv_find(entry, sv("="), 0);
        struct sv name = sv_cut(entry, 0, eq < 0 ? entry.n : (size_t)eq);
        if (name.n + 1 < entry.n) warn_variable(a, m, name); // empty is not set
    }
}

// --- getters -------------------------------------------------------------------------------------

static const struct arg_value *need(const struct args *a, const char *name, bool right_kind(int)) {
    for (size_t k = 0; k < a->n; k++) {
        struct sv known = main_name(a->value[k].arg);
        if (sv_is(sv_cut(known, 2, known.n), name) && right_kind((int)a->value[k].arg->kind))
            return &a->value[k];
    }
    fprintf(stderr, "mlxcel: fault: %s has no option \"%s\" of that kind\n", a->command->name,
            name);
    abort();
}

static bool is_flag(int kind) { return kind == ARG_FLAG || kind == ARG_SWITCH; }
static bool is_text(int kind) { return kind == ARG_TEXT || kind == ARG_CHOICE; }
static bool is_texts(int kind) { return kind == ARG_TEXTS; }
static bool is_int(int kind) { return kind == ARG_INT; }
static bool is_number(int kind) { return kind == ARG_NUMBER; }
static bool is_any(int kind) { return kind != ARG_REFUSED && kind != ARG_IGNORED; }

bool args_flag(const struct args *a, const char *name) { return need(a, name, is_flag)->set; }

const char *args_text(const struct args *a, const char *name) {
    const struct arg_value *v = need(a, name, is_text);
    return v->set ? v->text.p : NULL; // all come from argv, the environment or the table: C strings
}

const char *args_either(const struct args *a, const char *name, const char *other) {
    const char *text = args_text(a, name);
    return text ? text : args_text(a, other);
}

struct json_object *args_object(const struct args *a, const char *name, struct error *e) {
    const char *text = args_text(a, name);
    struct str option = {0};
    str_printf(&option, "--%s", name);
    struct json_object *o = text ? json_read(sv(text), option.p, e) : NULL;
    if (o && !json_object_is_type(o, json_type_object)) {
        fail(e, "%s must be a JSON object, not %s", option.p, json_kind(o));
        json_object_put(o);
        o = NULL;
    }
    str_free(&option);
    return o;
}

int64_t args_int(const struct args *a, const char *name) { return need(a, name, is_int)->i; }

double args_number(const struct args *a, const char *name) { return need(a, name, is_number)->f; }

size_t args_texts(const struct args *a, const char *name, const struct sv **out) {
    const struct arg_value *v = need(a, name, is_texts);
    *out = v->texts;
    return v->n;
}

bool args_given(const struct args *a, const char *name) { return need(a, name, is_any)->given; }

struct sv args_given_by(const struct args *a, const char *name) {
    const struct arg_value *v = need(a, name, is_any);
    return v->given ? v->by : sv("");
}

static const struct arg model_args[] = {
    {"-m --model", ARG_TEXT, "PATH", "LLAMA_ARG_MODEL", NULL, 0, 0,
     "the checkpoint: its folder, or a file in it"},
};
const struct arg_group args_model_group = {"Model", model_args, 1};

const char *args_model_option(const struct args *a, struct error *e) {
    const char *path = args_text(a, "model");
    if (path && *path) return path;
    fail(e, "no model: pass a checkpoint's folder with -m PATH, or set LLAMA_ARG_MODEL");
    return NULL;
}

const char *args_model(const struct args *a, struct error *e) {
    if (!a->operands) return args_model_option(a, e);
    const char *path = a->operand[0].p;
    if (sv_starts(args_given_by(a, "model"), sv("-")))
        fail(e, "two models, \"%s\" and --model \"%s\": give one", path, args_text(a, "model"));
    else if (!*path)
        fail(e, "the model's path is empty: pass a checkpoint's folder");
    return e->set ? NULL : path;
}
