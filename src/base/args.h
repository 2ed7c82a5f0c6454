// The options of a program or of a subcommand. Each is described once, in a table; parsing,
// environment variables, defaults, ranges, error messages, --help and the man page all read it.
#ifndef BASE_ARGS_H
#define BASE_ARGS_H

#include <stdio.h>

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

enum arg_kind {
    ARG_FLAG,
    ARG_SWITCH, // on or off: of its names those with "--no-" turn it off
    ARG_TEXT,
    ARG_TEXTS, // may be given several times; the others keep the last
    ARG_INT,
    ARG_NUMBER,
    ARG_CHOICE,
    // What another program has and this one hasn't; `help` says why, in place of a list of it.
    ARG_REFUSED, // an error; its variables, if set, are like those of ARG_IGNORED
    ARG_IGNORED, // taken, and told that it changes nothing; "[on|off]": a value that may be missing
};

struct arg {
    // All its names with spaces between: "-n --max-tokens --n-predict". The first long one is the
    // name by which the getters know it; names after it are aliases.
    const char *names;
    enum arg_kind kind;
    // What help calls the value: "N"; of a choice, the words: "auto|cpu". Words after the N of an
    // ARG_INT, "N|auto", stand for the least.
    const char *value;
    // Variables with spaces between, the strongest first; NULL: none. One with "_NO_" turns a
    // switch off, whatever it holds.
    const char *env;
    const char *otherwise; // the default, as it would be typed ("on", "off"); NULL: none
    double least, most;    // ARG_INT, ARG_NUMBER: the range, both ends included
    const char *help;      // no full stop, no line breaks
};

#define ARG_REFUSES(names, env, why)                                                               \
    { names, ARG_REFUSED, NULL, env, NULL, 0, 0, why }
#define ARG_IGNORES(names, value, env, why)                                                        \
    { names, ARG_IGNORED, value, env, NULL, 0, 0, why }

struct arg_group {
    const char *title; // "Sampling options"; NULL: not listed
    const struct arg *arg;
    size_t n;
};

struct args;

struct command {
    const char *name, *alias;              // alias may be NULL
    bool alone;                            // a program by itself; else a subcommand of mlxcel
    const char *summary;                   // one line, no full stop
    const char *operands;                  // for the usage line: "[MODEL]"; NULL: takes none
    size_t operands_most;                  // SIZE_MAX: any number
    const char *about;                     // a paragraph for help and the man page, or NULL
    const char *examples;                  // lines, each a command with a comment; or NULL
    const struct arg_group *const *groups; // ends with NULL
    int (*run)(const struct args *a);      // returns the exit code
};

struct arg_value;

struct args {
    const struct command *command;
    struct arg_value *value; // one for each option of the command, in order of the table
    size_t n;
    struct sv *operand;
    size_t operands;
};

// Reads argv (without the program's and the command's name) against c's table, then the
// environment for what argv leaves out, then defaults. False when an argument is wrong.
bool args_parse(struct args *a, const struct command *c, int argc, char **argv, struct error *e);
void args_free(struct args *a);

// Values, by the option's name without dashes ("max-tokens"). A name that the command's table
// lacks, or one of another kind, is a fault of this program and ends it.
bool args_flag(const struct args *a, const char *name);
const char *args_text(const struct args *a, const char *name); // ARG_TEXT, ARG_CHOICE; NULL: unset
// The text of the first of two options of a command that was set.
const char *args_either(const struct args *a, const char *name, const char *other);
int64_t args_int(const struct args *a, const char *name);                         // 0 when unset
double args_number(const struct args *a, const char *name);                       // 0 when unset
size_t args_texts(const struct args *a, const char *name, const struct sv **out); // how many
// Of an ARG_TEXT that holds a JSON object, which the caller owns; NULL without an error: unset.
struct json_object *args_object(const struct args *a, const char *name, struct error *e);
bool args_given(const struct args *a, const char *name); // by argv or the environment
// What gave it: the name as typed ("-t", "--temp"), a variable, or an empty view.
struct sv args_given_by(const struct args *a, const char *name);

// The text of a flag's variable, named `from`: what llama.cpp and the usual conventions take for
// yes and for no.
bool args_flag_text(struct sv from, struct sv text, bool *out, struct error *e);

// The word of `words` (with spaces between) that is nearest to a mistyped one, or an empty view.
struct sv args_nearest(struct sv typed, const char *words);

// What the programs of a model share: its path, from the operand or --model, which this group has.
// NULL and an error when neither is given, or both.
extern const struct arg_group args_model_group;
const char *args_model(const struct args *a, struct error *e);
const char *args_model_option(const struct args *a, struct error *e); // operands are something else

// args_help.c
void args_help(FILE *f, const struct command *c);
void args_describe(struct str *s, const struct arg *arg); // "text (range) [default: x]"
bool args_listed(const struct arg *arg);                  // in help and manual
// What is not listed there, of groups that end with NULL, and why: a table in Markdown.
void args_others(FILE *f, const struct arg_group *const *groups);
void args_unread(FILE *f, const struct arg_group *g); // the same of variables without options

// Variables that stand for no option.
struct variable {
    const char *name, *help;
};

// A manual page of section 1, in mdoc; texts called `more_` are in mdoc too. NULL: nothing more.
struct manual {
    const char *name, *purpose, *see;     // see: the page to read next
    const struct command *const *command; // [commands]
    size_t commands;
    const struct variable *variable; // [variables]
    size_t variables;
    const char *description, *more_synopsis, *more_commands, *files, *more_exits;
};
void args_man(FILE *f, const struct manual *m); // args_man.c

// A warning for each option given that changes nothing. m, which may be NULL: and for each variable
// set that does not either, or whose name begins with "LLAMA_ARG_" or "MLXCEL_" and is neither an
// option's nor the manual's.
void args_warn(const struct args *a, const struct manual *m);

// The i-th name in a list with spaces between, or an empty view past the last.
struct sv args_word(const char *words, size_t i);

#endif
