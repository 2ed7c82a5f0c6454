// SipHash-2-4 with 128 bits (Aumasson and Bernstein), keyed with the digest before.
#include "engine/digest.h"

#include "base/random.h"

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static void rounds(uint64_t v[4], int count) {
    for (int i = 0; i < count; i++) {
        v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
        v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
    }
}

static void take(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    rounds(v, 2);
    v[0] ^= word;
}

struct digest digest_next(struct digest before, const int32_t *ids, size_t n) {
    uint64_t v[4] = {before.a ^ 0x736f6d6570736575u, before.b ^ 0x646f72616e646f6du ^ 0xee,
                     before.a ^ 0x6c7967656e657261u, before.b ^ 0x7465646279746573u};
    uint64_t last = (uint64_t)(n * sizeof *ids) << 56; // the bytes, as 8-byte little-endian words
    for (size_t i = 0; i + 1 < n; i += 2)
        take(v, (uint32_t)ids[i] | (uint64_t)(uint32_t)ids[i + 1] << 32);
    take(v, n % 2 ? last | (uint32_t)ids[n - 1] : last);
    struct digest out;
    v[2] ^= 0xee;
    rounds(v, 4);
    out.a = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    rounds(v, 4);
    out.b = v[0] ^ v[1] ^ v[2] ^ v[3];
    return out;
}

bool digest_same(struct digest x, struct digest y) { return x.a == y.a && x.b == y.b; }

struct digest digest_seed(void) {
    struct digest d;
    random_fill(&d, sizeof d);
    return d;
}
