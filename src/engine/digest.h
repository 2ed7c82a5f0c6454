// Names for the beginnings of token lists: a chain of digests, one a page of tokens, each of all
// the tokens up to its end. Whoever does not know the seed can't make two beginnings with one name.
#ifndef ENGINE_DIGEST_H
#define ENGINE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct digest {
    uint64_t a, b;
};

struct digest digest_seed(void); // random
bool digest_same(struct digest x, struct digest y);
// The digest of `ids` after all that `before` is the digest of.
struct digest digest_next(struct digest before, const int32_t *ids, size_t n);

#endif
