// One answer of the model, from the worker's tokens to an API's JSON, whole or as server-sent
// events.
#ifndef SERVER_COMPLETION_H
#define SERVER_COMPLETION_H

#include "server/api.h"
#include "server/ask.h"
#include "server/logprobs.h"
#include "server/service.h"

// One of the answers.
struct choice {
    size_t index;
    struct reply_message said; // of a whole answer, or what the API adds to it
    struct logprobs logprobs;
    struct ids ids; // where the ask keeps them: those that the API has not taken yet
    size_t tokens;  // made
    int64_t told;   // tokens of the prompt whose computing the client knows of
    size_t calls;   // of tools, whole ones
    bool lines;     // a line break came
    enum finish finish;

    // completion.c's.
    struct text_stream *text;
    struct reply *reply; // of a chat
    struct str piece;    // of the text, of one wait
    int64_t indent;      // white space of the line that begins; -1: it has other text
};

struct completion {
    const struct service *service;
    const struct api *api;
    const struct tokenizer *tokenizer;
    const char *model; // its name
    char id[40];
    int64_t created; // seconds since 1970
    struct ask ask;
    struct choice *choice; // [choices] to the first prompt, then to the next
    size_t choices;
    size_t prompt, tokens; // tokens of the prompts, and made
    size_t thought;        // of those made, of reasoning with its marks
    double began, first;   // on clock_now; first token, 0: none yet
    void *own;             // the API's
    struct refusal failed; // by the API's `whole`: there is none, for this reason

    // completion.c's.
    int client; // while it starts: its socket, -1: none
    struct job *job;
    size_t open; // choices that are not finished
    struct job_news news;
    bool opened, ended; // the first and the last event were written
    double moved, told; // the latest token, the latest event
};

// Reads a request's body, which it may change, and hands it to the worker, which is READY. The
// service must outlive the completion. What takes long watches the client's socket; -1: none. NULL
// with a refusal.
struct completion *completion_start(const struct service *s, const struct api *api,
                                    struct json_object *body, int client, struct refusal *r);
void completion_close(struct completion *c); // the request is cancelled if it runs; NULL is fine
bool completion_keeps(const struct completion *c);     // a part of the body
int64_t completion_cached(const struct completion *c); // tokens of prompts that the caches held
struct job_facts completion_facts(const struct completion *c, const struct choice *ch);
// Where a stream is to tell of its prompts: whether more of a choice's was computed than was told,
// which counts as told then. f: how far it is.
bool completion_progress(const struct completion *c, struct choice *ch, struct job_facts *f);
// The number of the prompt that a choice answers.
size_t completion_prompt(const struct completion *c, const struct choice *ch);
// Of an answer that ended: "stop", "length", "tool_calls".
const char *completion_finish(const struct choice *ch);
// Characters of the answer that were given out: chances of tokens before them may be told.
size_t completion_shown(const struct choice *ch);
struct sv completion_stop(const struct choice *ch); // the stop string that ended it, or empty

enum completion_news {
    COMPLETION_MORE, // there is text in out
    COMPLETION_END,  // all was given out
    COMPLETION_GONE, // the client closed its connection
    COMPLETION_LOST, // the server stops, or its engine failed
    COMPLETION_LATE, // it takes longer than the server's options allow
};

bool completion_client_gone(int client); // its socket is closed; -1: never

// Both wait, and meanwhile watch the client's socket `client`; -1: none.
// The whole answer, as one JSON object: COMPLETION_END when it is in out.
enum completion_news completion_whole(struct completion *c, int client, struct str *out);
// The next events, at least one: COMPLETION_MORE until they were all given out.
enum completion_news completion_events(struct completion *c, int client, struct str *out);

#endif
