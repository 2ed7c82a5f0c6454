// A vocabulary: token text <-> id, both ways, compact. Ids may have holes.
#ifndef TOKENIZER_VOCAB_H
#define TOKENIZER_VOCAB_H

#include "base/json.h"

enum { VOCAB_LIMIT = 1 << 22 }; // ids are below this

struct vocab_entry {
    size_t at; // in pool
    uint32_t n;
    bool used;
};

struct vocab {
    struct str pool;
    struct vocab_entry *entry; // [size], by id
    size_t size, cap;          // largest id + 1
    size_t n;                  // tokens
    int32_t *slot;             // [slots] hash table of ids, -1: free
    size_t slots;
};

void vocab_free(struct vocab *v);
// Adds a token. An id that is out of range or taken, or a token that is there, is an error.
bool vocab_add(struct vocab *v, struct sv token, int64_t id, struct error *e);
// Reads {"token": id, ...}.
bool vocab_read(struct vocab *v, struct json_object *object, struct error *e);
int32_t vocab_id(const struct vocab *v, struct sv token); // -1 when absent
// *token is the text of an id; false when no token has it.
bool vocab_token(const struct vocab *v, int32_t id, struct sv *token);

#endif
