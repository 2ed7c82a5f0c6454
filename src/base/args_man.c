// The manual page, in mdoc, from the option tables.
#include <string.h>

#include "base/args.h"
#include "base/map.h"

enum { WIDTH = 72 };
// A word of running text in mdoc: a backslash is an escape.
static void roff_word(FILE *f, struct sv word) {
    for (size_t i = 0; i < word.n; i++) {
        if (word.p[i] == '\\' || word.p[i] == '-') fputc('\\', f);
        fputc(word.p[i] == '\\' ? 'e' : word.p[i], f);
    }
}

// A line that stands as it is. A dot or a quote at its start would be a request.
static void roff_line(FILE *f, struct sv line) {
    if (line.n && (line.p[0] == '.' || line.p[0] == '\'')) fputs("\\&", f);
    roff_word(f, line);
    fputc('\n', f);
}

// Running text: lines of a reasonable length, and a new one for each sentence, as mdoc wants it.
static void roff_text(FILE *f, struct sv text) {
    size_t at = 0;
    while (text.n) {
        ptrdiff_t space = sv_find(text, sv(" "), 0);
        struct sv word = sv_cut(text, 0, space < 0 ? text.n : (size_t)space);
        if (at && at + word.n > WIDTH) at = 0, fputc('\n', f);
        if (at) fputc(' ', f);
        if (!at && word.n && (word.p[0] == '.' || word.p[0] == '\'')) fputs("\\&", f);
        roff_word(f, word);
        at += word.n + 1;
        text = sv_cut(text, word.n + 1, text.n);
        if (text.n && sv_ends(word, sv("."))) at = 0, fputc('\n', f);
    }
    fputc('\n', f);
}

static void man_option(FILE *f, const struct arg *arg) {
    struct sv name;
    fputs(".It", f);
    for (size_t i = 0; (name = args_word(arg->names, i)).n; i++) {
        // Fl writes the first dash itself.
        fprintf(f, "%s Fl ", i ? " ," : "");
        roff_word(f, sv_cut(name, 1, name.n));
    }
    if (arg->value) {
        fputs(" Ar ", f);
        roff_word(f, sv(arg->value));
    }
    fputc('\n', f);
    struct str text = {0};
    args_describe(&text, arg);
    str_addc(&text, '.');
    roff_text(f, str_sv(&text));
    str_free(&text);
}

static void man_group(FILE *f, const struct arg_group *g) {
    fprintf(f, ".Pp\n%s:\n.Bl -tag -width Ds\n", g->title);
    for (size_t k = 0; k < g->n; k++)
        if (args_listed(&g->arg[k])) man_option(f, &g->arg[k]);
    fputs(".El\n", f);
}

// The first of the commands before `end` that has the group too, or NULL.
static const struct command *listed_by(const struct arg_group *g,
                                       const struct command *const *commands, size_t end) {
    for (size_t c = 0; c < end; c++)
        for (size_t k = 0; commands[c]->groups[k]; k++)
            if (commands[c]->groups[k] == g) return commands[c];
    return NULL;
}

static void man_command(FILE *f, const struct command *const *commands, size_t at) {
    const struct command *c = commands[at];
    if (!c->alone) {
        fprintf(f, ".Ss mlxcel %s\n", c->name);
        roff_text(f, sv(c->summary));
        fputs(".Pp\n", f);
    }
    if (c->alias) fprintf(f, "Also called\n.Cm %s .\n", c->alias);
    if (c->about) roff_text(f, sv(c->about));
    for (size_t g = 0; c->groups[g]; g++) {
        const struct arg_group *group = c->groups[g];
        if (!group->title) continue;
        const struct command *other = listed_by(group, commands, at);
        if (other)
            fprintf(f, ".Pp\n%s: as for\n.Cm %s .\n", group->title, other->name);
        else
            man_group(f, group);
    }
}

static void man_environment(FILE *f, const struct manual *m) {
    const struct command *const *commands = m->command;
    size_t n = m->commands;
    struct map seen = {0};
    fputs(".Sh ENVIRONMENT\nAn option wins over its variable.\n.Bl -tag -width Ds\n", f);
    for (size_t c = 0; c < n; c++) {
        for (size_t g = 0; commands[c]->groups[g]; g++) {
            for (size_t k = 0; k < commands[c]->groups[g]->n; k++) {
                const struct arg *arg = &commands[c]->groups[g]->arg[k];
                struct sv env, name;
                if (!args_listed(arg)) continue;
                for (size_t i = 0; arg->env && (env = args_word(arg->env, i)).n; i++) {
                    if (!map_put(&seen, env, 1)) continue;
                    size_t first = 0;
                    while (!sv_starts(name = args_word(arg->names, first), sv("--"))) first++;
                    fprintf(f, ".It Ev %.*s\n.Fl ", (int)env.n, env.p);
                    roff_line(f, sv_cut(name, 1, name.n));
                }
            }
        }
    }
    for (size_t i = 0; i < m->variables; i++) {
        fprintf(f, ".It Ev %s\n", m->variable[i].name);
        roff_text(f, sv(m->variable[i].help));
    }
    fputs(".El\n", f);
    map_free(&seen);
}

static void man_examples(FILE *f, const struct command *const *commands, size_t n) {
    fputs(".Sh EXAMPLES\n.Bd -literal\n", f);
    for (size_t c = 0; c < n; c++) {
        for (const char *line = commands[c]->examples, *end; line && *line; line = end + 1) {
            end = strchr(line, '\n');
            roff_line(f, sv_n(line, (size_t)(end - line)));
        }
    }
    fputs(".Ed\n", f);
}

static void man_synopsis(FILE *f, const struct command *c) {
    fputs(".Nm\n", f);
    if (!c->alone) fprintf(f, ".Cm %s\n", c->name);
    if (c->operands) {
        fputs(".Ar ", f);
        roff_line(f, sv(c->operands));
    }
    fputs(".Op Ar options\n", f);
}

void args_man(FILE *f, const struct manual *m) {
    fprintf(f, ".Dd %s\n.Dt ", MLXCEL_DATE);
    for (const char *p = m->name; *p; p++) fputc(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p, f);
    fprintf(f, " 1\n.Os \"%s %s\"\n.Sh NAME\n.Nm %s\n.Nd %s\n.Sh SYNOPSIS\n", m->name,
            MLXCEL_VERSION, m->name, m->purpose);
    for (size_t c = 0; c < m->commands; c++) man_synopsis(f, m->command[c]);
    if (m->more_synopsis) fputs(m->more_synopsis, f);
    fputs(".Sh DESCRIPTION\n", f);
    if (m->description) fputs(m->description, f);
    for (size_t c = 0; c < m->commands; c++) man_command(f, m->command, c);
    if (m->more_commands) fputs(m->more_commands, f);
    man_environment(f, m);
    if (m->files) fputs(m->files, f);
    fputs(".Sh EXIT STATUS\n.Bl -tag -width Ds\n"
          ".It 0\nDone.\n.It 1\nAn error; one line on standard error says which.\n"
          ".It 2\nThe command line is wrong.\n",
          f);
    if (m->more_exits) fputs(m->more_exits, f);
    fputs(".El\n", f);
    man_examples(f, m->command, m->commands);
    fprintf(f, ".Sh SEE ALSO\n.Xr %s 1\n", m->see);
}
