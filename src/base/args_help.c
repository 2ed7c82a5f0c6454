// --help, from the option tables.
#include <string.h>

#include "base/args.h"

enum { WIDTH = 80, COLUMN = 28 };

// Text with line breaks between words so that no line passes WIDTH; `at` is the column now.
static void wrap(FILE *f, struct sv text, int at, int indent) {
    bool first = true;
    for (size_t i = 0; i < text.n;) {
        size_t end = i;
        while (end < text.n && text.p[end] != ' ') end++;
        int len = (int)(end - i);
        if (!first && at + 1 + len > WIDTH) {
            fprintf(f, "\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            fputc(' ', f);
            at++;
        }
        fwrite(text.p + i, 1, (size_t)len, f);
        at += len;
        first = false;
        i = end < text.n ? end + 1 : end;
    }
    fputc('\n', f);
}

// "up to 1" and "at least 0" read better than a bound nobody meets.
static void add_range(struct str *s, const struct arg *arg) {
    bool bounded = arg->most < 1e9;
    if (bounded)
        str_printf(s, " (%.10g to %.10g)", arg->least, arg->most);
    else if (arg->least > 0)
        str_printf(s, " (at least %.10g)", arg->least);
}

void args_describe(struct str *s, const struct arg *arg) {
    str_puts(s, arg->help);
    if (arg->kind == ARG_INT || arg->kind == ARG_NUMBER) add_range(s, arg);
    if (arg->otherwise && *arg->otherwise) str_printf(s, " [default: %s]", arg->otherwise);
}

static void list_env(struct str *s, const char *env) {
    struct sv name;
    str_puts(s, " [env: ");
    for (size_t i = 0; (name = args_word(env, i)).n; i++)
        str_printf(s, "%s%.*s", i ? ", " : "", (int)name.n, name.p);
    str_addc(s, ']');
}

static void help_option(FILE *f, const struct arg *arg) {
    struct str left = {0}, right = {0};
    struct sv name;
    bool has_short = arg->names[0] == '-' && arg->names[1] != '-';
    str_puts(&left, has_short ? "  " : "      ");
    for (size_t i = 0; (name = args_word(arg->names, i)).n; i++)
        str_printf(&left, "%s%.*s", i ? ", " : "", (int)name.n, name.p);
    if (arg->value) str_printf(&left, " %s", arg->value);
    args_describe(&right, arg);
    if (arg->env) list_env(&right, arg->env);
    fputs(left.p, f);
    if (left.n + 2 > COLUMN)
        fprintf(f, "\n%*s", COLUMN, "");
    else
        fprintf(f, "%*s", (int)(COLUMN - left.n), "");
    wrap(f, str_sv(&right), COLUMN, COLUMN);
    str_free(&left);
    str_free(&right);
}

bool args_listed(const struct arg *arg) {
    return arg->kind != ARG_REFUSED && arg->kind != ARG_IGNORED;
}

static void list_code(FILE *f, const char *words) {
    struct sv word;
    for (size_t i = 0; words && (word = args_word(words, i)).n; i++)
        fprintf(f, "%s`%.*s`", i ? ", " : "", (int)word.n, word.p);
}

void args_others(FILE *f, const struct arg_group *const *groups) {
    fputs("| option | variable | given | why |\n|---|---|---|---|\n", f);
    for (size_t g = 0; groups[g]; g++) {
        for (size_t k = 0; k < groups[g]->n; k++) {
            const struct arg *arg = &groups[g]->arg[k];
            if (args_listed(arg)) continue;
            fputs("| ", f);
            list_code(f, arg->names);
            fputs(" | ", f);
            list_code(f, arg->env);
            fprintf(f, " | %s | %s |\n", arg->kind == ARG_REFUSED ? "refused" : "taken", arg->help);
        }
    }
}

void args_unread(FILE *f, const struct arg_group *g) {
    fputs("| variable | why |\n|---|---|\n", f);
    for (size_t k = 0; k < g->n; k++) {
        fputs("| ", f);
        list_code(f, g->arg[k].env);
        fprintf(f, " | %s |\n", g->arg[k].help);
    }
}

void args_help(FILE *f, const struct command *c) {
    const char *program = c->alone ? "" : "mlxcel ";
    fprintf(f, "%s%s: %s\n\nUsage: %s%s%s%s [options]\n", program, c->name, c->summary, program,
            c->name, c->operands ? " " : "", c->operands ? c->operands : "");
    if (c->alias) fprintf(f, "Also called: mlxcel %s\n", c->alias);
    if (c->about) {
        fputc('\n', f);
        wrap(f, sv(c->about), 0, 0);
    }
    for (size_t g = 0; c->groups[g]; g++) {
        if (!c->groups[g]->title) continue;
        fprintf(f, "\n%s:\n", c->groups[g]->title);
        for (size_t k = 0; k < c->groups[g]->n; k++)
            if (args_listed(&c->groups[g]->arg[k])) help_option(f, &c->groups[g]->arg[k]);
    }
    if (!c->examples) return;
    fputs("\nExamples:\n", f);
    for (const char *line = c->examples, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        fprintf(f, "  %.*s\n", (int)(end - line), line);
    }
}
