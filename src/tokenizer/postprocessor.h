// The post-processor of tokenizer.json: puts special tokens around the ids of a text. What its
// templates make of one another is worked out when they are read.
#ifndef TOKENIZER_POSTPROCESSOR_H
#define TOKENIZER_POSTPROCESSOR_H

#include "base/json.h"
#include "tokenizer/ids.h"

struct postprocessor {
    bool any;                 // else ids stay as they are
    struct ids around, plain; // with and without special tokens; -1: the text's ids go here
};

bool post_read(struct postprocessor *p, struct json_object *j, struct error *e);
void post_free(struct postprocessor *p);
// Replaces the ids of a text by what the post-processor makes of them; without `special`, it adds
// no special tokens.
void post_run(const struct postprocessor *p, bool special, struct ids *ids);

#endif
