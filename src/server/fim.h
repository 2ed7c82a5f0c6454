// Filling in the middle: the tokens by which a model is asked for what stands between a prefix and
// a suffix, and the prompt that they make.
#ifndef SERVER_FIM_H
#define SERVER_FIM_H

#include "base/json.h"
#include "engine/text.h"
#include "server/refusal.h"

struct fim {
    int32_t prefix, suffix, middle; // -1: the model has none
    int32_t repo, file, pad;        // likewise; a model may do without them
};

struct fim fim_of(const struct text_model *m);

// Appends the prompt of /infill's body o. suffix_first: the suffix stands before the prefix.
// What of input_extra does not fit the context beside the rest and `answer` tokens is left out from
// its beginning. False with a refusal: the body is wrong, or the model can't fill in.
bool fim_prompt(struct json_object *o, bool suffix_first, int64_t answer,
                const struct text_model *m, struct ids *out, struct refusal *r);

#endif
