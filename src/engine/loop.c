#include "engine/loop.h"

bool loop_check(const struct loop *l, struct error *e) {
    if (l->most < 0 || l->most > LOOP_SIZE_MOST)
        return fail(e, "max_pattern_size is %lld; it must be from 0 to %d", (long long)l->most,
                    LOOP_SIZE_MOST);
    if (l->least < 1 || l->least > l->most)
        return fail(e, "min_pattern_size is %lld; it must be from 1 to max_pattern_size, %lld",
                    (long long)l->least, (long long)l->most);
    if (l->count < 2 || l->count > LOOP_COUNT_MOST)
        return fail(e, "min_count is %lld; it must be from 2 to %d", (long long)l->count,
                    LOOP_COUNT_MOST);
    return true;
}

static bool repeats(const int32_t *ids, size_t n, size_t size, size_t count) {
    if (size > n / count) return false;
    const int32_t *from = ids + n - size * count;
    for (size_t i = 0; i < size * (count - 1); i++)
        if (from[i] != from[i + size]) return false;
    return true;
}

bool loop_ends(const struct loop *l, const int32_t *ids, size_t n) {
    for (int64_t size = l->least; l->most && size <= l->most; size++)
        if (repeats(ids, n, (size_t)size, (size_t)l->count)) return true;
    return false;
}
