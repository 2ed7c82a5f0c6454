// A hash map from text to a number (an index into the caller's own array). Keys are copied.
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/str.h"

struct map_slot;

struct map {
    struct map_slot *slot;
    size_t n, cap; // cap is 0 or a power of two
};

void map_free(struct map *m);
// Adds key -> value. False (and no change) when the key is already there.
bool map_put(struct map *m, struct sv key, int64_t value);
void map_set(struct map *m, struct sv key, int64_t value); // adds or replaces
int64_t map_get(const struct map *m, struct sv key);       // -1 when absent

#endif
