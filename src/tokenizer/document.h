// A tokenizer.json in parts: its long lists, which are nearly all of a file of many megabytes, stay
// text for a reader that builds no tree; the rest is small.
#ifndef TOKENIZER_DOCUMENT_H
#define TOKENIZER_DOCUMENT_H

#include "base/json.h"

struct document {
    struct json_object *rest;  // the file without its model
    struct json_object *model; // the model without the two below; NULL: the file has none
    struct sv vocab, merges;   // the text of these members, empty when absent; views the file
};

// Reads a whole file. Fails when it isn't a JSON object, or its model is none.
bool document_read(struct document *d, struct sv json, const char *name, struct error *e);
void document_free(struct document *d);

#endif
