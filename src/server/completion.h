// One answer of the OpenAI API, whole or as server-sent events, from the worker's tokens.
#ifndef SERVER_COMPLETION_H
#define SERVER_COMPLETION_H

#include "server/ask.h"
#include "server/options.h"
#include "server/worker.h"

struct completion;

// What a log line tells of it.
struct completion_facts {
    const char *id;        // "chatcmpl-..."
    size_t prompt, tokens; // tokens of the prompt, and made
    double first;          // seconds to the first token; 0: none yet
    enum finish finish;    // FINISH_NOT: not over, or ended by the server
};

// Reads the body of a request (chat: of chat/completions) and hands it to the worker, which is
// READY. o must outlive the completion. NULL with a refusal.
struct completion *completion_start(struct worker *w, bool chat, struct sv body,
                                    const struct server_options *o, struct refusal *r);
void completion_close(struct completion *c); // the request is cancelled if it runs; NULL is fine
bool completion_keeps(const struct completion *c); // a part of the body's JSON
bool completion_streams(const struct completion *c);
struct completion_facts completion_facts(const struct completion *c);

enum completion_news {
    COMPLETION_MORE, // there is text in out
    COMPLETION_END,  // all was given out
    COMPLETION_GONE, // the client closed its connection
    COMPLETION_LOST, // the server stops, or its engine failed
};

// Both wait, and meanwhile watch the client's socket `client`; -1: none.
// The whole answer, as one JSON object: COMPLETION_END when it is in out.
enum completion_news completion_whole(struct completion *c, int client, struct str *out);
// The next events, at least one: COMPLETION_MORE until they were all given out.
enum completion_news completion_events(struct completion *c, int client, struct str *out);

#endif
