// The post-processor of tokenizer.json: puts special tokens around the ids of a text. A list of
// templates, each around what the one before it made.
#ifndef TOKENIZER_POSTPROCESSOR_H
#define TOKENIZER_POSTPROCESSOR_H

#include "base/json.h"
#include "tokenizer/ids.h"

struct post_item {
    struct ids special; // what a special token stands for
    bool text;          // the text's ids go here
    size_t template;    // which template it belongs to
};

struct postprocessor {
    struct post_item *item;
    size_t n, cap;
    size_t templates;
    size_t copies; // of the text in the result
};

bool post_read(struct postprocessor *p, struct json_object *j, struct error *e);
void post_free(struct postprocessor *p);
// Replaces the ids of a text by what the templates make of them; without `special`, they add no
// special tokens.
void post_run(const struct postprocessor *p, bool special, struct ids *ids);

#endif
