// What the subcommands share: option groups, exit codes, signals, output, opening a model.
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/args.h"
#include "engine/engine.h"

enum { CLI_OK = 0, CLI_ERROR = 1, CLI_USAGE = 2 }; // a signal's is 128 + its number

extern const struct command command_generate, command_run, command_logits, command_inspect,
    command_arch, command_import, command_bench, command_tokenize, command_detokenize;

// Variables that stand for no option.
struct variable {
    const char *name, *help;
};
const struct variable *cli_variables(size_t *n);

// options.c
extern const struct arg_group model_options, engine_options_group, prompt_options, sampling_options,
    common_options, refused_options;

// Print one line, "mlxcel: error: ...", and return the exit code.
int cli_error(const struct error *e);
int cli_usage(const struct error *e);

// A whole manual page in mdoc: the commands, their options, environment variables, exit codes.
void cli_man(FILE *f, const struct command *const *commands, size_t n, const char *version);

// Standard output, flushed so that a stream is seen at once. What can't be written is an error;
// a reader that went away ends the process by SIGPIPE.
bool cli_write(struct sv text, struct error *e);
bool cli_finish(struct error *e); // flushes; tells of a write that failed late

// From signals_catch on, SIGINT and SIGTERM are only noted. twice_ends: the same one again ends the
// process, however long a step takes.
void signals_catch(bool twice_ends);
void signals_release(void); // back to the default
int signals_got(void);      // the signal's number, 0: none
void signals_clear(void);
bool signals_wait(int fd); // until fd can be read: true, or a signal was noted: false

// The folder or file of -m. Missing is a usage error; a name that only a download could make a
// folder is told so.
const char *cli_model(const struct args *a, struct error *e);
// The same where operands are something else.
const char *cli_model_option(const struct args *a, struct error *e);

struct load_progress {
    bool shown;
    int percent;
};
// Options that the command line gives, with a progress line on a terminal.
void cli_engine_options(const struct args *a, struct engine_options *opt, struct load_progress *p);
void cli_progress_clear(struct load_progress *p);

// False with a message when a value is out of range. Without --seed it is random.
bool cli_sampling(const struct args *a, struct sampling *s, struct error *e);

// "1.5 GiB", "12.0 MiB", "100 bytes"
void add_bytes(struct str *s, size_t n);
void add_json_key(struct str *s, const char *key); // , "key":  (no comma at an object's start)

#endif
