// --jsonl: a batch of requests on standard input, one JSON object a line, and one answer a line in
// the same order.
#ifndef CLI_JSONL_H
#define CLI_JSONL_H

#include "base/json.h"

struct jsonl {
    struct json_object *object; // of the current line; the reader owns it
    struct error error;         // what is wrong with the current line, if anything
    size_t line;                // its number, from 1
    char *text;
    size_t room;
};

// The next line that is not blank. False at the end of the input. A line that is no JSON object
// sets `error`: its answer is that.
bool jsonl_next(struct jsonl *r);
void jsonl_close(struct jsonl *r);

// A switch of the line's object, and *out as it is where there is none. One that is no boolean sets
// `error`.
void jsonl_flag(struct jsonl *r, const char *key, bool *out);

// Writes one answer: {body}, or {"error": ...} where the line's error is set.
bool jsonl_answer(const struct jsonl *r, struct sv body, struct error *e);

#endif
