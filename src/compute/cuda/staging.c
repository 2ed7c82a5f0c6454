// Weights on their way to the device: threads copy them from where they are mapped, which also
// reads their files, into a part of a ring of pinned memory, while those before it are on the bus.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "compute/cuda/cuda.h"

enum { PARTS = 4, PART = 16 << 20, PIECE = 256 << 10, ALIGN = 64 };

struct piece {
    char *to;
    const char *from;
    size_t n;
};

struct staging {
    struct pool *pool;
    char *memory;            // [PARTS][PART], pinned
    cudaEvent_t sent[PARTS]; // the part can be written to again
    int part;                // which is being gathered, but not written to before it is sent
    size_t used;
    struct piece *piece; // from host memory to the part, a thread each
    struct piece *range; // from the part to the device
    size_t pieces, piece_cap, ranges, range_cap;
};

static void staging_close(struct staging *s) {
    if (!s) return;
    for (int i = 0; i < PARTS; i++)
        if (s->sent[i]) cudaEventDestroy(s->sent[i]);
    if (s->memory) cudaFreeHost(s->memory);
    pool_close(s->pool);
    free(s->piece);
    free(s->range);
    free(s);
}

static struct staging *staging_open(struct error *e) {
    struct staging *s = mem_alloc(sizeof *s);
    s->pool = pool_open(&(struct pool_options){0}, e);
    cudaError_t status = cudaHostAlloc((void **)&s->memory, (size_t)PARTS * PART, 0);
    for (int i = 0; i < PARTS && status == cudaSuccess; i++)
        status = cudaEventCreateWithFlags(&s->sent[i], cudaEventDisableTiming);
    if (s->pool && cuda_ok(e, status, "pinning memory")) return s;
    staging_close(s);
    return NULL;
}

// Whether there is pinned memory. Where it can't be had, loading goes on without.
static bool ready(struct cuda *cuda) {
    struct error why = {0};
    if (!cuda->pins || cuda->staging) return cuda->pins;
    cuda->staging = staging_open(&why);
    cuda->pins = cuda->staging != NULL;
    if (!cuda->pins)
        log_say(LOG_WARN, "weights go to the device more slowly, as memory cannot be pinned: %s",
                why.text);
    return cuda->pins;
}

static void copy_piece(void *arg, int task, int thread) {
    (void)thread;
    const struct piece *p = (const struct piece *)arg + task;
    memcpy(p->to, p->from, p->n);
}

static void send(struct device *d) {
    struct cuda *cuda = d->cuda;
    struct staging *s = cuda->staging;
    cuda_ok(&cuda->err, cudaEventSynchronize(s->sent[s->part]), "a copy to the device");
    pool_run(s->pool, (int)s->pieces, copy_piece, s->piece);
    for (size_t i = 0; i < s->ranges; i++)
        cuda_upload(d, s->range[i].to, s->range[i].from, s->range[i].n);
    cuda_ok(&cuda->err, cudaEventRecord(s->sent[s->part], cuda->stream), "marking a copy");
    s->part = (s->part + 1) % PARTS;
    s->used = s->pieces = s->ranges = 0;
}

// Puts bytes for the device into the part, which has room for them.
static void gather(struct staging *s, struct piece range) {
    char *at = s->memory + (size_t)s->part * PART + s->used;
    for (size_t done = 0, n; done < range.n; done += n) {
        n = range.n - done < PIECE ? range.n - done : PIECE;
        s->piece = mem_grow(s->piece, &s->piece_cap, s->pieces + 1, sizeof *s->piece);
        s->piece[s->pieces++] = (struct piece){at + done, range.from + done, n};
    }
    range.from = at;
    s->range = mem_grow(s->range, &s->range_cap, s->ranges + 1, sizeof *s->range);
    s->range[s->ranges++] = range;
    s->used += (range.n + ALIGN - 1) / ALIGN * ALIGN;
}

void cuda_load(struct device *d, void *dst, const void *src, size_t size) {
    struct cuda *cuda = d->cuda;
    if (!ready(cuda)) {
        cuda_upload(d, dst, src, size);
        return;
    }
    struct staging *s = cuda->staging;
    for (size_t at = 0, n; at < size; at += n) {
        n = size - at < PART - s->used ? size - at : PART - s->used;
        gather(s, (struct piece){(char *)dst + at, (const char *)src + at, n});
        if (s->used == PART) send(d);
    }
}

void cuda_drop_staging(struct cuda *cuda) {
    staging_close(cuda->staging);
    cuda->staging = NULL;
}

bool cuda_loaded(struct device *d, struct error *e) {
    struct cuda *cuda = d->cuda;
    if (cuda->staging) send(d);
    cuda_ok(&cuda->err, cudaStreamSynchronize(cuda->stream), "loading weights");
    cuda_drop_staging(cuda);
    return !cuda->err.set || fail(e, "%s: %s", d->name, cuda->err.text);
}
