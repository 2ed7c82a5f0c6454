// The CPU's limits, measured with all threads: reading and copying memory beyond the caches, and
// arithmetic in registers. Each is the best of some passes, since what disturbs one only slows it.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "compute/cpu/cpu.h"
#include "compute/cpu/peak.h"

enum { LEAST_PASSES = 3, STREAMS = 4, AHEAD = 64 /* words */ };
static const double LEAST_SECONDS = 0.3; // of all passes of a kind

// --- memory ------------------------------------------------------------------------------------

// Several times the last cache, so that none of a pass is still there in the next; but no more than
// a quarter of what memory is free.
static size_t buffer_size(const struct device *d) {
    enum { LEAST = 256 << 20, MOST = 1 << 30 };
    size_t available, total, size = LEAST;
    device_memory(d, &available, &total);
#if defined(_SC_LEVEL3_CACHE_SIZE)
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (cache > 0 && (size_t)cache * 4 > size) size = (size_t)cache * 4;
#endif
    if (size > MOST) size = MOST;
    return size < available / 4 ? size : available / 4;
}

struct sweep {
    char *buffer;
    size_t size, piece; // piece: of one task, a multiple of 64 * STREAMS
    uint64_t *sink;     // [tasks]
};

// A few streams at once, each fetched some way ahead, keep more reads in flight than one does.
static void read_piece(void *arg, int task, int thread) {
    (void)thread;
    struct sweep *s = arg;
    size_t n = s->piece / STREAMS / sizeof(uint64_t);
    const uint64_t *p = (const uint64_t *)(const void *)(s->buffer + (size_t)task * s->piece);
    uint64_t sum[STREAMS][8] = {{0}};
    for (size_t i = 0; i < n; i += 8) {
        for (size_t k = 0; k < STREAMS; k++) {
            __builtin_prefetch(p + k * n + i + AHEAD);
            for (size_t j = 0; j < 8; j++) sum[k][j] += p[k * n + i + j];
        }
    }
    for (size_t k = 0; k < STREAMS; k++)
        for (size_t j = 0; j < 8; j++) s->sink[task] += sum[k][j];
}

static void copy_piece(void *arg, int task, int thread) {
    (void)thread;
    struct sweep *s = arg;
    size_t half = s->piece / 2;
    char *p = s->buffer + (size_t)task * s->piece;
    memcpy(p, p + half, half);
}

// Bytes a second.
static double sweep(struct device *d, struct sweep *s, int tasks, void (*fn)(void *, int, int)) {
    double best = 0;
    s->piece = s->size / (size_t)tasks / (64 * STREAMS) * (64 * STREAMS);
    s->sink = mem_array((size_t)tasks, sizeof *s->sink);
    double first = clock_now();
    for (int pass = 0; pass < LEAST_PASSES || clock_now() - first < LEAST_SECONDS; pass++) {
        double began = clock_now();
        pool_run(d->pool, tasks, fn, s);
        double speed = (double)s->piece * tasks / (clock_now() - began);
        if (speed > best) best = speed;
    }
    free(s->sink);
    return best;
}

// --- arithmetic --------------------------------------------------------------------------------

// What any compiler makes of a multiply-add over an array, for machines without loops of their own.
static double plain_f32(int64_t rounds, float *sink) {
    enum { WIDTH = 32 };
    float acc[WIDTH];
    for (int i = 0; i < WIDTH; i++) acc[i] = (float)i;
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < WIDTH; i++) acc[i] = acc[i] * 0.75f + 0.25f;
    for (int i = 1; i < WIDTH; i++) acc[0] += acc[i];
    *sink = acc[0];
    return 2.0 * WIDTH * (double)rounds;
}

static struct peak_loops loops_of(enum isa isa) {
#if defined(__x86_64__)
    if (isa == ISA_AVX2) return peak_avx2;
    if (isa == ISA_AVX512) return peak_avx512;
    if (isa == ISA_AVX512_BF16) return (struct peak_loops){.bf16 = peak_avx512_bf16.bf16};
#elif defined(__aarch64__)
    if (isa == ISA_NEON) return peak_neon;
    if (isa == ISA_DOTPROD) return (struct peak_loops){peak_neon.f32, peak_dotprod.int8, NULL};
#endif
    (void)isa;
    return (struct peak_loops){.f32 = plain_f32};
}

struct burn {
    double (*loop)(int64_t rounds, float *sink);
    int64_t rounds;
    double *ops; // [tasks]
    float *sink; // [tasks]
};

static void burn_task(void *arg, int task, int thread) {
    (void)thread;
    struct burn *b = arg;
    b->ops[task] = b->loop(b->rounds, &b->sink[task]);
}

// Operations a second, with one task a thread. The rounds of a pass grow until it takes a while:
// one that was held up says too early that they do, the next one that it was not so.
static double burn(struct device *d, double (*loop)(int64_t rounds, float *sink)) {
    if (!loop) return 0;
    int threads = pool_threads(d->pool);
    struct burn b = {.loop = loop, .rounds = 1 << 16};
    b.ops = mem_array((size_t)threads, sizeof *b.ops);
    b.sink = mem_array((size_t)threads, sizeof *b.sink);
    double best = 0, first = clock_now();
    for (int pass = 0; pass < LEAST_PASSES || clock_now() - first < LEAST_SECONDS; pass++) {
        double ops = 0, began = clock_now();
        pool_run(d->pool, threads, burn_task, &b);
        double seconds = clock_now() - began;
        for (int i = 0; i < threads; i++) ops += b.ops[i];
        if (ops / seconds > best) best = ops / seconds;
        if (seconds < 0.02) b.rounds *= 2;
    }
    free(b.ops);
    free(b.sink);
    return best;
}

bool cpu_measure(struct device *d, struct device_speed *out, struct error *e) {
    struct sweep s = {.size = buffer_size(d)};
    s.buffer = device_alloc(d, s.size, "measuring memory", e);
    if (!s.buffer) return false;
    memset(s.buffer, 1, s.size); // memory that nobody wrote to is one page of zeros, in a cache
    enum { PIECES = 16 };        // a thread: when another program takes one's time, the rest go on
    *out = (struct device_speed){.read = sweep(d, &s, PIECES * pool_threads(d->pool), read_piece)};
    out->copy = sweep(d, &s, pool_threads(d->pool), copy_piece);
    device_free(d, s.buffer);
    for (int isa = ISA_PLAIN; isa < ISA_BEST; isa++) {
        bool own = isa == (int)d->isa;
        // The plain C is as slow as it is, and says nothing of a machine that has better.
        if (!isa_supported((enum isa)isa) || (isa == ISA_PLAIN && !own)) continue;
        struct peak_loops loops = loops_of((enum isa)isa);
        struct device_peak peak = {.bf16 = burn(d, loops.bf16)};
        if (isa == ISA_AVX512_BF16) { // its other loops are AVX-512's
            peak.f32 = out->of_isa[ISA_AVX512].f32;
            peak.int8 = out->of_isa[ISA_AVX512].int8;
        } else {
            peak.f32 = burn(d, loops.f32);
            peak.int8 = burn(d, loops.int8);
        }
        out->of_isa[isa] = peak;
        if (own) out->f32 = peak.f32, out->int8 = peak.int8, out->bf16 = peak.bf16;
    }
    return true;
}
