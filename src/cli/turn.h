// One turn of a conversation, as `generate` and `run` have it: messages to ids, ids to an answer
// that streams to standard output and that a signal ends.
#ifndef CLI_TURN_H
#define CLI_TURN_H

#include "base/json.h"
#include "chat/reply.h"
#include "cli/cli.h"
#include "engine/answer.h"
#include "engine/constraint_args.h"

struct turn_options {
    struct sampling sampling;
    struct loop loop;
    struct constraint_args form;
    int64_t max_new; // -1: as many as the context holds
    bool raw;        // the contents of the messages and nothing else
    bool labels;     // without a template, say who speaks: "User: ...", "Assistant:"
    bool ignore_eos;
    bool reasoning;        // show it
    const struct sv *stop; // [stops]
    size_t stops;
    struct json_object *kwargs; // --chat-template-kwargs, or NULL
    const char *effort;         // --reasoning-effort, or NULL
};

// The views in opt are a's. On failure there is nothing to free.
bool turn_read_options(const struct args *a, struct turn_options *opt, struct error *e);
void turn_free_options(struct turn_options *opt);
// Opens the model with a progress line on a terminal; *seconds is how long it took. opt gets what
// hangs on the model.
bool turn_open(const struct args *a, const char *path, struct turn_options *opt,
               struct text_model *m, double *seconds, struct error *e);

// Conversations are JSON arrays of {role, content}, as the template takes them. A new one begins
// with the system message if the command line has one. The caller owns it.
struct json_object *turn_messages(const struct args *a);
void turn_add(struct json_object *messages, const char *role, struct sv content);

struct turn {
    struct ids prompt;
    struct answer answer;
    struct reply *reply;
    struct reply_message said; // the whole answer's reasoning and text
    bool dim, line_open;       // what is on the terminal: reasoning; a line that has not ended
};

// Answers the conversation. stream: to standard output, piece by piece. A signal (signals_got)
// ends it early with FINISH_CANCELLED, which is not a failure. t must be closed in any case.
bool turn_run(struct turn *t, struct text_model *m, const struct turn_options *opt,
              struct json_object *messages, bool stream, struct error *e);
void turn_close(struct turn *t);
void turn_remember(const struct turn *t, struct json_object *messages); // adds the answer
// One line on standard error when the context ended the answer.
void turn_tell_end(const struct turn *t, const struct text_model *m);

// Seconds of the prompt (to the first token) and of the rest, and the tokens made in the rest.
void turn_times(const struct turn *t, double *prompt, double *rest, size_t *rest_tokens);
void turn_print_stats(const struct turn *t, double load_seconds); // on standard error

#endif
