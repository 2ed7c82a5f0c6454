// What the subcommands share: option groups, exit codes, signals, output, opening a model.
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/args.h"
#include "base/json.h"
#include "engine/engine.h"
#include "tokenizer/ids.h"

enum { CLI_OK = 0, CLI_ERROR = 1, CLI_USAGE = 2 }; // a signal's is 128 + its number

extern const struct command command_generate, command_run, command_logits, command_inspect,
    command_arch, command_import, command_bench, command_tokenize, command_detokenize,
    command_template;

// options.c
extern const struct arg_group engine_options_group, prompt_options, template_options,
    sampling_options, common_options, refused_options, refused_chat_options;
// sampling_options without the temperature, whose -t is another option in bench.
extern const struct arg_group untempered_options;

// Print one line, "mlxcel: error: ...", and return the exit code.
int cli_error(const struct error *e);
int cli_usage(const struct error *e);

// Standard output, flushed so that a stream is seen at once. What can't be written is an error;
// a reader that went away ends the process by SIGPIPE.
bool cli_write(struct sv text, struct error *e);
bool cli_finish(struct error *e); // flushes; tells of a write that failed late

enum { CLI_INPUT_MAX = 64 << 20 };
bool cli_read(struct str *out, struct error *e); // all of standard input
// Appends the ids in a text, "1,2,3" or "1 2 3", also in brackets.
bool cli_ids(const char *text, struct ids *out, struct error *e);

// From signals_catch on, SIGINT and SIGTERM are only noted. twice_ends: the same one again ends the
// process, however long a step takes.
void signals_catch(bool twice_ends);
void signals_release(void); // back to the default
int signals_got(void);      // the signal's number, 0: none
void signals_clear(void);
bool signals_wait(int fd); // until fd can be read: true, or a signal was noted: false

struct load_progress {
    bool shown;
    int percent;
};
// Options that the command line gives, with a progress line on a terminal.
void cli_engine_options(const struct args *a, struct engine_options *opt, struct load_progress *p);
void cli_progress_clear(struct load_progress *p);

// False with a message when a value is out of range. Without --seed it is random.
bool cli_sampling(const struct args *a, struct sampling *s, struct error *e);
void cli_few_samplers(const struct args *a, struct sampling *s); // sampling_options alone

// "1.5 GiB", "12.0 MiB", "100 bytes"
void add_bytes(struct str *s, size_t n);
void add_ids(struct str *s, const struct ids *ids); // "1,2,3"
void add_json_key(struct str *s, const char *key);  // , "key":  (no comma at an object's start)

#endif
