// A vocabulary: token text <-> id, both ways, compact. Ids may have holes.
#ifndef TOKENIZER_VOCAB_H
#define TOKENIZER_VOCAB_H

#include "base/error.h"
#include "base/str.h"

enum { VOCAB_LIMIT = 1 << 22 }; // ids are below this
#define VOCAB_UNUSED UINT32_MAX

struct vocab_entry {
    uint32_t at, n; // in pool; n VOCAB_UNUSED: a hole
};

struct vocab_slot { // holds what a lookup needs, so that it touches little memory
    uint32_t hash, at, n;
    int32_t id; // -1: free
};

struct vocab {
    struct str pool;
    struct vocab_entry *entry; // [size], by id
    size_t size, cap;          // largest id + 1
    size_t n;                  // ids that have a token
    struct vocab_slot *slot;   // [slots] hash table
    size_t slots;
};

void vocab_free(struct vocab *v);
// Adds a token. An id that is out of range or taken, or a token that is there, is an error.
bool vocab_add(struct vocab *v, struct sv token, int64_t id, struct error *e);
// Adds a token with the next id. One that is there already leaves its text to the new id.
bool vocab_append(struct vocab *v, struct sv token, struct error *e);
// Reads the text of a JSON object {"token": id, ...}.
bool vocab_read(struct vocab *v, struct sv object, struct error *e);
int32_t vocab_id(const struct vocab *v, struct sv token); // -1 when absent
// The same in steps, for many tokens at a time: the first two fetch memory and don't wait for it.
uint32_t vocab_hash(struct sv token);
void vocab_fetch(const struct vocab *v, uint32_t hash);
void vocab_fetch_text(const struct vocab *v, uint32_t hash);
int32_t vocab_find(const struct vocab *v, struct sv token, uint32_t hash);
// The ids of the tokens <0x00> to <0xFF>, -1 for those that aren't there.
void vocab_bytes(const struct vocab *v, int32_t byte[256]);
// *token is the text of an id; false when no token has it.
bool vocab_token(const struct vocab *v, int32_t id, struct sv *token);

#endif
