// What a request's JSON asks for, whatever its API, and OpenAI's bodies of completions and chat
// completions, checked field by field. A field that would change the answer and that this server
// can't honour is refused by its name; one that would not is ignored.
#ifndef SERVER_ASK_H
#define SERVER_ASK_H

#include "engine/text.h"
#include "server/api.h"
#include "server/defaults.h"

enum { ASK_STOPS = 16, ASK_STOP_BYTES = 1024, ASK_STOP_IDS = 256, ASK_BIASES = 65536 };
enum { ASK_MOST = 1000000000 }; // of tokens, and of counts of them

struct more_prompt {
    struct ids ids;
    struct str echoed;
};

struct ask {
    const struct defaults *defaults; // where the request says nothing; NULL: the checkpoint's alone
    bool (*unwanted)(void *waiting); // whether nobody waits for the answer any more; NULL: never
    void *waiting;
    bool stream, include_usage;
    bool logprobs;          // tell each token's, and those of `tops` of the likeliest
    bool echo;              // the prompt comes before the answer
    bool one_call;          // of the tools it may call only one
    bool must_call;         // one at least, at once
    bool formed;            // an answer that is no call has a form of its own
    bool uncached;          // nothing of the caches is used, nor left there
    bool keep_ids;          // each choice gets its ids
    bool end_chances;       // the token that ends an answer has chances too
    bool drawn;             // chances are those that the sampler drew from
    bool timings, progress; // llama-server's: in each event; while the prompt is computed
    size_t choices;         // answers to make, to each prompt
    int64_t tops;
    struct str echoed;
    struct text_prompt prompt; // of a chat, or its ids alone
    struct more_prompt *more;  // [mores] others, of completions
    size_t mores;
    struct json_object *tools; // that the model is told of, or NULL; owned
    // Of these, those that it may call and in no other way than their schemas say; NULL: all, as it
    // likes. Owned.
    struct json_object *callable;
    int64_t priority;         // lower ones go first (struct request)
    int64_t max_new;          // -1: as many as the context holds
    struct sampling sampling; // its arrays are the ask's
    struct loop loop;
    struct ids stop_ids; // that end the answer
    struct str stop[ASK_STOPS];
    size_t stops;
    int64_t indent;  // ends before a line that begins with less white space, 0: off
    int64_t most_ms; // ends at a line's end when so long has passed, 0: off
    struct json_object
        *fields;         // llama-server's: those of the answer that are wanted, or NULL; owned
    struct str settings; // JSON: what was understood
};

void ask_free(struct ask *a);

// What completions of every API of ours have: limits, sampling, stops, and llama-server's fields
// that its OpenAI routes take too. False with a refusal.
bool ask_common(struct ask *a, struct json_object *o, const struct text_model *m,
                struct refusal *r);

// For struct api: the bodies of chat/completions and completions. They may change o, and a may keep
// a part of it. False with a refusal, or without one when a->unwanted has ended it.
bool ask_chat(struct ask *a, struct json_object *o, const struct text_model *m,
              const struct server_options *opt, struct refusal *r);
// The text that the template makes of a chat's body.
bool ask_chat_text(struct json_object *o, const struct text_model *m,
                   const struct server_options *opt, struct str *out, struct refusal *r);
bool ask_text(struct ask *a, struct json_object *o, const struct text_model *m,
              const struct server_options *opt, struct refusal *r);

#endif
