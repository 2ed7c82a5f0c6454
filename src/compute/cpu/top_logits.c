// The best of each row of logits, and sums over the others.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cpu/cpu.h"

// A key is greater the better a candidate is: its value in an order of bits, then, for the first of
// equals, its index's complement.
static uint64_t key_of(float value, int64_t index) {
    uint32_t bits;
    value += 0.0f; // -0 is 0
    memcpy(&bits, &value, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | 1u << 31;
    return (uint64_t)bits << 32 | (uint32_t)~index;
}

static float value_of(uint64_t key) {
    uint32_t bits = (uint32_t)(key >> 32);
    float value;
    bits = bits >> 31 ? bits & ~(1u << 31) : ~bits;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int32_t index_of(uint64_t key) { return (int32_t) ~(uint32_t)key; }

// Moves the k greatest to the front: Hoare's selection.
static void select_greatest(uint64_t *key, int64_t n, int64_t k) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        uint64_t pivot = key[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (key[i] > pivot) i++;
            while (key[j] < pivot) j--;
            if (i > j) break;
            uint64_t t = key[i];
            key[i++] = key[j];
            key[j--] = t;
        }
        if (k - 1 <= j)
            high = j;
        else if (k - 1 >= i)
            low = i;
        else
            return;
    }
}

static int falling(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

static int by_index(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

// Blocks of a row are passed over where nothing is above what k elements before are at least.
enum { BLOCK = 32, ROOM = 4 * TOP_LOGITS_MOST };

// Of n <= BLOCK elements: whether any is above, or NaN.
static bool any_above(const float *x, int64_t n, float least) {
    int any = 0;
    for (int64_t i = 0; i < n; i++) any |= !(x[i] <= least);
    return any;
}

static uint64_t key_at(const float *x, int64_t i, bool *bad) {
    *bad = *bad || isnan(x[i]);
    return key_of(isnan(x[i]) ? -INFINITY : x[i], i);
}

// key [ROOM]: the best k, best first. Returns whether an element is NaN.
static bool find_best(uint64_t *key, const float *x, int64_t width, int64_t k) {
    bool bad = false;
    int64_t held = 0;
    float least = -INFINITY; // what k of those before are not below
    for (; held < k; held++) key[held] = key_at(x, held, &bad);
    for (int64_t at = k; at < width; at += BLOCK) {
        int64_t n = width - at < BLOCK ? width - at : BLOCK;
        if (!any_above(x + at, n, least)) continue;
        for (int64_t i = at; i < at + n; i++)
            if (!(x[i] <= least)) key[held++] = key_at(x, i, &bad);
        if (held <= ROOM - BLOCK && least > -INFINITY) continue;
        select_greatest(key, held, k);
        held = k;
        least = value_of(key[k - 1]);
    }
    select_greatest(key, held, k);
    qsort(key, (size_t)k, sizeof *key, falling);
    return bad;
}

struct top_job {
    const struct cpu_kernels *kernels;
    const struct top_logits *to;
    struct tensor x, by;
};

// best [k]: the indices that are left out, which this sorts.
static void sum_others(const struct top_job *j, const float *x, int32_t *best, int64_t k,
                       float least, float by, float *out) {
    enum { CHUNK = 1024 };
    float part[CHUNK];
    double sum = 0, with_by = 0;
    int64_t next = 0;
    qsort(best, (size_t)k, sizeof *best, by_index);
    for (int64_t at = 0; at < j->x.n[1]; at += CHUNK) {
        int64_t n = j->x.n[1] - at < CHUNK ? j->x.n[1] - at : CHUNK;
        for (int64_t i = 0; i < n; i++) part[i] = isnan(x[at + i]) ? -INFINITY : x[at + i];
        for (; next < k && best[next] < at + n; next++) part[best[next] - at] = -INFINITY;
        sum += (double)j->kernels->exp_sum(part, n, least, 1);
        if (by != 1) with_by += (double)j->kernels->exp_sum(part, n, least, by);
    }
    out[0] = (float)sum;
    out[1] = by != 1 ? (float)with_by : out[0];
}

static void top_row(void *arg, int64_t row) {
    const struct top_job *j = arg;
    const struct top_logits *to = j->to;
    const float *x = (const float *)j->x.data + row * j->x.stride[0];
    int64_t k = to->value.n[1];
    uint64_t key[ROOM] = {0};
    int32_t best[TOP_LOGITS_MOST];
    float *value = (float *)to->value.data + row * k, *others = (float *)to->others.data + row * 3;
    int32_t *index = (int32_t *)to->index.data + row * k;
    others[2] = (float)find_best(key, x, j->x.n[1], k);
    for (int64_t i = 0; i < k; i++) {
        value[i] = value_of(key[i]);
        index[i] = best[i] = index_of(key[i]);
    }
    others[0] = others[1] = 0;
    if (k < j->x.n[1] && isfinite(value[k - 1]))
        sum_others(j, x, best, k, value[k - 1], ((const float *)j->by.data)[row], others);
}

void cpu_top_logits(struct context *c, const struct top_logits *to, struct tensor x,
                    struct tensor by) {
    if (c->dry) return;
    struct top_job j = {c->dev->kernels, to, x, by};
    cpu_rows(c, x.n[0], 4 * x.n[1], top_row, &j);
}
