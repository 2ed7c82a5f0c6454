// OpenAI's Responses API: an answer as items of output, whole or as the events of their making, and
// stored before it is told.
#ifndef SERVER_API_RESPONSES_H
#define SERVER_API_RESPONSES_H

#include "server/completion.h"
#include "server/responses_ask.h"

// Its `read` takes the chat of a responses_ask.
extern const struct api api_responses;

// To be called once c has started. Takes what q holds.
void api_responses_begin(struct completion *c, struct responses_ask *q);

#endif
