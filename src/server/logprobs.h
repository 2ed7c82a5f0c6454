// The chances of an answer's tokens, as the OpenAI API tells them.
#ifndef SERVER_LOGPROBS_H
#define SERVER_LOGPROBS_H

#include "engine/text.h"
#include "server/worker.h"

struct logprobs {
    struct logged *token; // [n] that were not written yet
    size_t n, cap;
    struct chance *chance; // their own and the likeliest, as in struct job_news
    size_t chances, chance_cap;
};

void logprobs_free(struct logprobs *l);
// A token that begins at character `at` of the answer, with news->chance[*from] and what follows;
// *from moves on.
void logprobs_add(struct logprobs *l, int32_t id, size_t at, const struct job_news *news,
                  size_t *from);
void logprobs_drop(struct logprobs *l); // the token that was added last
// Writes the tokens that begin before character `end`, in the form of chats or of completions, and
// forgets them; "null" when there are none.
void logprobs_write(struct str *out, struct logprobs *l, const struct tokenizer *t, bool chat,
                    size_t end);
// The same in the form of chats, as elements of a list: nothing when there are none.
void logprobs_write_list(struct str *out, struct logprobs *l, const struct tokenizer *t,
                         size_t end);
// The same as llama-server has it: a list. drawn: probabilities of what was drawn from, not
// logarithms of the model's.
void logprobs_write_native(struct str *out, struct logprobs *l, const struct tokenizer *t,
                           bool drawn, size_t end);

#endif
