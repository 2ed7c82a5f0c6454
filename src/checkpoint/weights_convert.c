// Matrices whose codes no kernel reads as they are published become affine ones, and stacks that
// are published as [in, out] are turned, in memory of their own: blocks of outputs, spread over
// threads, when the weights are populated.
#include <sys/mman.h>

#include "base/mem.h"
#include "base/pool.h"
#include "checkpoint/weights_internal.h"

enum { BLOCK = 64 }; // outputs of a task

void weights_convert_later(struct weights *w, const struct conversion *c) {
    w->conversion =
        mem_grow(w->conversion, &w->conversion_cap, w->conversions + 1, sizeof *w->conversion);
    w->conversion[w->conversions++] = *c;
}

// Where output o of eight is in a word of AWQ's: its codes are 0 2 4 6 1 3 5 7.
static int awq_shift(int64_t o) { return (int)(4 * (o % 8 / 2 + o % 2 * 4)); }

// The codes of column c for n outputs from o on; what is above their bits may be left.
static void column(const struct conversion *v, int64_t c, int64_t o, int64_t n, uint32_t *code) {
    const uint32_t *words = v->codes.data;
    const uint8_t *bytes = v->codes.data;
    int64_t out = v->to.out, in = v->to.in, ld = v->codes.n[1], quarter = out / 4;
    switch (v->codes_are) {
    case CODES_ROWS:
        for (int64_t i = 0; i < n; i++) code[i] = code_at(words + (o + i) * ld, 1, v->bits, c);
        break;
    case CODES_DOWN:
        for (int64_t i = 0; i < n; i++) code[i] = code_at(words + o + i, ld, v->bits, c);
        break;
    case CODES_AWQ:
        for (int64_t i = o; i < o + n; i++) code[i - o] = words[c * ld + i / 8] >> awq_shift(i);
        break;
    case CODES_SIGNED:
        for (int64_t i = 0; i < n; i++) code[i] = bytes[(o + i) * in + c] ^ 128u;
        break;
    case CODES_PAIRS:
        for (int64_t i = o; i < o + n; i++)
            code[i - o] = (uint32_t)bytes[i % quarter * in + c] >> (i / quarter * 2);
        break;
    }
}

// Rows [o, o + n) of the affine codes. Eight bits at most, so that 64 hold what is left of a word
// and one more code.
static void convert_codes(const struct conversion *v, int64_t o, int64_t n) {
    uint32_t code[BLOCK], mask = (1u << v->bits) - 1;
    uint64_t left[BLOCK] = {0};
    int have = 0;
    const int32_t *order = v->to.order.dims ? v->to.order.data : NULL;
    int64_t words = v->to.data.n[1];
    uint32_t *to = (uint32_t *)v->to.data.data + o * words;
    for (int64_t k = 0; k < v->to.in; k++) {
        column(v, order ? order[k] : k, o, n, code);
        for (int64_t i = 0; i < n; i++) left[i] |= (uint64_t)(code[i] & mask) << have;
        have += v->bits;
        if (have < 32) continue;
        for (int64_t i = 0; i < n; i++) {
            to[i * words] = (uint32_t)left[i];
            left[i] >>= 32;
        }
        to++;
        have -= 32;
    }
}

static int zero_of(const struct conversion *v, int64_t o, int64_t g) {
    if (v->zeros_are == ZEROS_ONE) return v->zero;
    const uint32_t *words = v->zeros.data;
    int64_t ld = v->zeros.n[1];
    uint32_t zero = v->zeros_are == ZEROS_AWQ    ? words[g * ld + o / 8] >> awq_shift(o)
                    : v->zeros_are == ZEROS_DOWN ? code_at(words + g, ld, v->bits, o)
                                                 : code_at(words + g * ld, 1, v->bits, o);
    return (int)((zero + v->zeros_add) & ((1u << v->bits) - 1));
}

static void convert_scales(const struct conversion *v, int64_t o) {
    int64_t each = v->to.scales.n[1], groups = v->to.in / v->group;
    float *scales = (float *)v->to.scales.data + o * each;
    float *biases = (float *)v->to.biases.data + o * each;
    for (int64_t k = 0; k < each; k++) {
        int64_t g = k * v->to.group / v->group;
        int64_t at = v->rows_first ? o * groups + g : g * v->to.out + o;
        float scale =
            load_float(v->scales.data, v->scales.type, tensor_count(v->scales) == 1 ? 0 : at);
        scales[k] = v->divides ? 1 / scale : scale;
        biases[k] = -scales[k] * (float)zero_of(v, o, g);
    }
}

static int blocks_of(const struct conversion *v) { return (int)((v->to.out + BLOCK - 1) / BLOCK); }

static void convert_block(void *arg, int task, int thread) {
    (void)thread;
    const struct conversion *v = arg;
    int64_t from = (int64_t)task * BLOCK, n = v->to.out - from < BLOCK ? v->to.out - from : BLOCK;
    if (v->codes.data != v->to.data.data) convert_codes(v, from, n);
    for (int64_t o = from; o < from + n; o++) convert_scales(v, o);
}

// --- turned stacks -----------------------------------------------------------------------------

bool weights_turn(struct weights *w, struct weights_item *it, enum dtype type, struct tensor *out,
                  struct error *e) {
    const int64_t *n = it->t.t.n;
    *out = tensor_2d(type, n[0] * n[2], n[1], weights_room(w, it->t.bytes, it->name, e));
    if (e->set) return false;
    w->turn = mem_grow(w->turn, &w->turn_cap, w->turns + 1, sizeof *w->turn);
    w->turn[w->turns++] = (struct turn){it->t.t.data, out->data, n[0], n[1], n[2]};
    w->converted_bytes += it->t.bytes;
    it->converted = true;
    return true;
}

static int blocks_in(const struct turn *t) { return (int)((t->columns + BLOCK - 1) / BLOCK); }

// A block of columns of one matrix: as many lines of a cache are written to at a time.
static void turn_block(void *arg, int task, int thread) {
    (void)thread;
    const struct turn *t = arg;
    int64_t matrix = task / blocks_in(t), from = (int64_t)(task % blocks_in(t)) * BLOCK;
    int64_t to = from + BLOCK < t->columns ? from + BLOCK : t->columns;
    const uint8_t *in = t->from + matrix * t->rows * t->columns;
    uint8_t *out = t->to + matrix * t->rows * t->columns;
    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t c = from; c < to; c++) out[c * t->rows + r] = in[r * t->columns + c];
}

// --- all of them -------------------------------------------------------------------------------

static void run(struct pool *pool, int tasks, void (*fn)(void *arg, int task, int thread),
                void *arg) {
    if (pool)
        pool_run(pool, tasks, fn, arg);
    else
        for (int k = 0; k < tasks; k++) fn(arg, k, 0);
}

void weights_convert(const struct weights *w) {
    if (!w->conversions && !w->turns) return;
    struct error none = {0};
    struct pool *pool = pool_open(&(struct pool_options){0}, &none);
    for (size_t i = 0; i < w->conversions; i++) {
        struct conversion *v = &w->conversion[i];
        if (v->codes.data != v->to.data.data) // no file's pages
            madvise(v->to.data.data, tensor_bytes(v->to.data), MADV_HUGEPAGE);
        run(pool, blocks_of(v), convert_block, v);
    }
    for (size_t i = 0; i < w->turns; i++) {
        struct turn *t = &w->turn[i];
        madvise(t->to, (size_t)(t->n * t->rows * t->columns), MADV_HUGEPAGE);
        run(pool, (int)t->n * blocks_in(t), turn_block, t);
    }
    pool_close(pool);
}
