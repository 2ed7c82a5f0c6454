// What the tests of ops share: a device with what a test puts on it, random numbers that every
// machine draws alike, and the rounding of the float types in double precision.
#ifndef TESTS_MACHINE_H
#define TESTS_MACHINE_H

#include "check.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "compute/compute.h"

static uint64_t random_state = 1;

static inline uint32_t random_bits(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

static inline double uniform(void) { return random_bits() / (double)0x80000000u; } // [0, 1)

static inline float noise(void) { // near enough to normal, of variance 1
    return (float)(sqrt(3.0) * 2 * (uniform() + uniform() - 1) / sqrt(2.0));
}

// --- machines: one device and context at a time, with what a test puts on it ---------------------

// What is tested, "cpu" unless a test program was given --device NAME.
static const char *test_device = "cpu";

enum { TEST_SKIPPED = 77 }; // as CTest is told

// Reads --device. Ends the program where this build or machine has no such device.
static inline void test_options(int argc, char **argv) {
    struct error e = {0};
    if (argc != 3 || strcmp(argv[1], "--device") != 0) return;
    test_device = argv[2];
    struct device *d =
        device_open(test_device, &(struct device_options){.pool.threads = 1, .isa = ISA_BEST}, &e);
    if (!d) {
        print_message("skipped: %s\n", e.text);
        exit(TEST_SKIPPED);
    }
    print_message("device: %s\n", d->name);
    device_close(d);
}

static inline bool on_cpu(void) { return !strcmp(test_device, "cpu"); }

struct machine {
    struct device *dev;
    struct context c;
    enum isa isa;
    int threads;
    void *held[512];
    int count;
};

static inline void machine_open(struct machine *m, enum isa isa, int threads, enum precision p) {
    struct error e = {0};
    *m = (struct machine){.isa = isa, .threads = threads};
    m->dev =
        device_open(test_device, &(struct device_options){.pool.threads = threads, .isa = isa}, &e);
    if (!m->dev) print_message("%s\n", e.text);
    assert_non_null(m->dev);
    assert_true(context_open(&m->c, m->dev, p, on_cpu() ? 8 << 20 : 1 << 28, false, &e));
}

static inline void machine_clear(struct machine *m) {
    if (m->c.err.set) print_message("%s\n", m->c.err.text);
    assert_false(m->c.err.set);
    while (m->count) device_free(m->dev, m->held[--m->count]);
    scratch_release(&m->c, 0);
}

static inline void machine_close(struct machine *m) {
    machine_clear(m);
    context_close(&m->c);
    device_close(m->dev);
}

static inline void *put(struct machine *m, const void *data, size_t size) {
    struct error e = {0};
    assert_true(m->count < 512);
    void *p = device_alloc(m->dev, size, "a test", &e);
    assert_non_null(p);
    device_upload(m->dev, p, data, size);
    return m->held[m->count++] = p;
}

static inline struct tensor put_f32(struct machine *m, const float *x, int dims, const int64_t *n) {
    struct tensor t = tensor_nd(DT_F32, dims, n, NULL);
    t.data = put(m, x, tensor_bytes(t));
    return t;
}

static inline struct tensor put_i32(struct machine *m, const int32_t *x, int64_t n) {
    return tensor_1d(DT_I32, n, put(m, x, (size_t)n * sizeof *x));
}

static inline struct matrices put_matrices(struct machine *m, const struct weight *w, int64_t n) {
    return (struct matrices){n, w, put(m, w, (size_t)n * sizeof *w)};
}

static inline float *get(struct machine *m, struct tensor t) {
    float *out = mem_array((size_t)tensor_count(t), sizeof *out);
    read_f32(&m->c, t, out);
    assert_false(m->c.err.set);
    return out;
}

static inline float *noise_array(int64_t n) {
    float *x = mem_array((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = noise();
    return x;
}

static inline void one_machine(enum isa isa, int threads, enum precision p,
                               void (*check)(struct machine *m)) {
    struct machine m;
    random_state = 1;
    machine_open(&m, isa, threads, p);
    check(&m);
    machine_close(&m);
}

// An emulator is slow, and what threads do is tested without one. Where TSan watches the threads,
// which is slower still, one thread shows nothing, and a few of many shapes show what all do.
#if defined(__SANITIZE_THREAD__)
#define TSAN_WATCHES
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN_WATCHES
#endif
#endif
#if defined(EMULATED)
enum { LEAST_THREADS = 1, MOST_THREADS = 1, WATCHED = 0 };
#elif defined(TSAN_WATCHES)
enum { LEAST_THREADS = 3, MOST_THREADS = 3, WATCHED = 1 };
#else
enum { LEAST_THREADS = 1, MOST_THREADS = 3, WATCHED = 0 };
#endif

// Runs a check on every instruction set of this machine, with one thread and with three; or on the
// device that is tested.
static inline void each_machine(enum precision p, void (*check)(struct machine *m)) {
    if (!on_cpu()) one_machine(ISA_BEST, 1, p, check);
    for (int isa = ISA_PLAIN; isa < ISA_BEST && on_cpu(); isa++) {
        if (!isa_supported((enum isa)isa)) continue;
        for (int threads = LEAST_THREADS; threads <= MOST_THREADS; threads += 2)
            one_machine((enum isa)isa, threads, p, check);
    }
}

static inline void expect_near(const char *what, int64_t at, double got, double want,
                               double tolerance) {
    if (fabs(got - want) <= tolerance) return;
    print_message("%s: element %lld is %.9g, not %.9g (tolerance %.3g)\n", what, (long long)at, got,
                  want, tolerance);
    assert_true(false);
}

// The same, bit for bit; on a GPU, where the kernel depends on the number of rows, but for the
// order of sums: `tolerance` of the greatest.
static inline void expect_same(const char *what, const float *got, const float *want, int64_t n,
                               double tolerance) {
    float most = 0;
    if (on_cpu()) assert_memory_equal(got, want, (size_t)n * sizeof *got);
    for (int64_t i = 0; i < n && !on_cpu(); i++) most = fmaxf(most, fabsf(want[i]));
    for (int64_t i = 0; i < n && !on_cpu(); i++)
        expect_near(what, i, got[i], want[i], tolerance * (double)most);
}

// expect_same's tolerance of products: on a GPU in native precision the kernels of one row, of few
// and of many round differently, the most x and w to bf16. That is 2^-8 of each of many products,
// which mostly cancel: 2^-7 of the greatest is more than five deviations.
static inline double rows_tolerance(const struct machine *m) {
    return m->c.precision == PRECISION_F32 ? 1e-5 : 0x1p-7;
}

// --- rounding ------------------------------------------------------------------------------------

static inline double half_value(uint16_t h) {
    int exp = h >> 10 & 31, man = h & 1023;
    double v = exp ? ldexp(man + 1024, exp - 25) : ldexp(man, -24);
    return h & 0x8000 ? -v : v;
}

static inline double brain_value(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

// n values rounded to `type`: their bytes in *data (owned by the caller), what they then are in
// values.
static inline void *round_to(enum dtype type, const double *x, int64_t n, double *values) {
    float *wide = mem_array((size_t)n, sizeof *wide);
    uint16_t *narrow = (uint16_t *)wide; // filled from the front while wide is read ahead of it
    for (int64_t i = 0; i < n; i++) {
        float f = (float)x[i];
        if (type == DT_F32) {
            wide[i] = f;
            values[i] = f;
        } else {
            narrow[i] = type == DT_F16 ? f32_to_f16(f) : f32_to_bf16(f);
            values[i] = type == DT_F16 ? half_value(narrow[i]) : brain_value(narrow[i]);
        }
    }
    return wide;
}

#endif
