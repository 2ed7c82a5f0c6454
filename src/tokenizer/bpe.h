// Byte-pair encoding: a piece of text becomes single characters, and then the pair of neighbours
// with the lowest rank merges, again and again, until no pair has a merge.
#ifndef TOKENIZER_BPE_H
#define TOKENIZER_BPE_H

#include "base/json.h"
#include "tokenizer/ids.h"
#include "tokenizer/vocab.h"

struct bpe_merge {
    int32_t left, right; // left < 0: a free slot
    int32_t rank, id;
};

struct bpe {
    struct bpe_merge *merge; // [slots] hash table by (left, right)
    size_t slots, n;
    bool byte_fallback, fuse_unk, ignore_merges;
    bool has_unk;
    struct str unk;            // the token for what is not in the vocabulary
    struct str prefix, suffix; // put before a character that isn't first, behind the last
    uint64_t *pairs;           // bits of what characters tokens have side by side; NULL: not cut
    int shift;                 // of a hash to such a bit
    int32_t byte[256];         // <0x00> to <0xFF>, -1 where the vocabulary has none
    int32_t latin[0x180];      // the tokens of the first characters of Unicode, or -1
};

// Working memory of one encoding at a time.
struct bpe_work;

// model is the object of tokenizer.json without its merges, which are the text of a JSON list; its
// vocabulary is read already.
bool bpe_read(struct bpe *b, const struct vocab *v, struct json_object *model, struct sv merges,
              struct error *e);
// bpe_merges.c: its merges alone.
bool bpe_read_merges(struct bpe *b, const struct vocab *v, struct sv list, struct error *e);
// What a model that is built otherwise needs: adds one merge, and looks up what the vocabulary has
// for single bytes and characters.
void bpe_merge_put(struct bpe *b, struct bpe_merge merge);
void bpe_reserve(struct bpe *b, size_t merges);                         // room for so many
void bpe_merge_fetch(const struct bpe *b, int32_t left, int32_t right); // a put will follow
void bpe_index(struct bpe *b, const struct vocab *v);
void bpe_free(struct bpe *b);

// The bytes at the start of a piece that can be encoded by themselves: no merge crosses between two
// characters that no token has side by side, and so a long text falls apart.
size_t bpe_part(const struct bpe *b, struct sv piece);

struct bpe_work *bpe_work_open(void);
void bpe_work_close(struct bpe_work *w);
// Appends the ids of one piece, valid UTF-8 and not empty. Fails only where the unknown token is
// needed and the vocabulary has none of that name.
bool bpe_encode(const struct bpe *b, const struct vocab *v, struct bpe_work *w, struct sv piece,
                struct ids *out, struct error *e);

#endif
