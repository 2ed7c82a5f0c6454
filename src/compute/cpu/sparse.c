// Attention to a few tokens that an indexer chose (DeepSeek V3.2), and the choice. Each row is for
// itself: no two see the same.
#include "compute/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- the choice ----------------------------------------------------------------------------------

struct scored {
    float score;
    int32_t token;
};

struct select_job {
    const struct cpu_kernels *kernels;
    struct tensor y, q, weights;
    const struct kv *kv;
    const struct rows *rows;
    float *work;         // work_size floats a thread
    struct scored *best; // top a thread
    int64_t work_size;
};

// Of two, the one to let go first: of equals, the later token.
static bool worse(struct scored a, struct scored b) {
    return a.score < b.score || (a.score == b.score && a.token > b.token);
}

static void swap(struct scored *a, struct scored *b) {
    struct scored was = *a;
    *a = *b;
    *b = was;
}

// A heap whose first is the worst of the n kept.
static void sift_up(struct scored *heap, int64_t i) {
    for (; i > 0 && worse(heap[i], heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&heap[i], &heap[(i - 1) / 2]);
}

static void sift_down(struct scored *heap, int64_t n) {
    for (int64_t i = 0, kid; (kid = 2 * i + 1) < n; i = kid) {
        if (kid + 1 < n && worse(heap[kid + 1], heap[kid])) kid++;
        if (!worse(heap[kid], heap[i])) return;
        swap(&heap[kid], &heap[i]);
    }
}

static void keep_best(struct scored *heap, int64_t *n, int64_t top, struct scored next) {
    if (isnan(next.score)) next.score = -INFINITY;
    if (*n < top) {
        heap[*n] = next;
        sift_up(heap, (*n)++);
    } else if (worse(heap[0], next)) {
        heap[0] = next;
        sift_down(heap, top);
    }
}

static int by_token(const void *a, const void *b) {
    int32_t x = ((const struct scored *)a)->token, y = ((const struct scored *)b)->token;
    return (x > y) - (x < y);
}

// The scores of a page's first `count` tokens go through the heap.
static void score_page(const struct select_job *j, int64_t row, int64_t page, int64_t first,
                       int64_t count, float *dots, struct scored *best, int64_t *n) {
    const struct tensor k = j->kv->k;
    int64_t size = k.n[2], width = k.n[3], heads = j->q.n[1];
    struct weight w = {WEIGHT_DENSE, .out = count, .in = width};
    w.data = tensor_2d(k.type, count, width,
                       (char *)k.data + (size_t)(page * size * width) * dtype_size(k.type));
    struct matmul m = {.w = &w, .ldx = width, .ldy = size, .y = dots};
    m.x = (const float *)j->q.data + row * j->q.stride[0];
    j->kernels->matmul(&m, &(struct tile){0, heads, 0, count}, dots + heads * size);
    const float *weight = (const float *)j->weights.data + row * j->weights.stride[0];
    for (int64_t t = 0; t < count; t++) {
        float score = 0;
        for (int64_t h = 0; h < heads; h++) {
            float dot = dots[h * size + t];
            score += weight[h] * (dot < 0 ? 0 : dot);
        }
        keep_best(best, n, j->y.n[1], (struct scored){score, (int32_t)(first + t)});
    }
}

static void select_task(void *arg, int task, int thread) {
    const struct select_job *j = arg;
    int64_t row = task, top = j->y.n[1], size = j->kv->k.n[2];
    int32_t *y = (int32_t *)j->y.data + row * top;
    int64_t seen = (int64_t)((const int32_t *)j->rows->index.data)[row] + 1;
    for (int64_t i = 0; i < top; i++) y[i] = i < seen ? (int32_t)i : -1;
    if (seen <= top) return;
    int64_t seq = ((const int32_t *)j->rows->seq.data)[row], n = 0;
    const int32_t *table = (const int32_t *)j->kv->table.data + seq * j->kv->table.n[1];
    struct scored *best = j->best + thread * top;
    for (int64_t t = 0; t < seen; t += size)
        score_page(j, row, table[t / size], t, seen - t < size ? seen - t : size,
                   j->work + thread * j->work_size, best, &n);
    qsort(best, (size_t)top, sizeof *best, by_token);
    for (int64_t i = 0; i < top; i++) y[i] = best[i].token;
}

void cpu_select_keys(struct context *c, struct tensor y, struct tensor q, struct tensor weights,
                     const struct kv *kv, const struct rows *rows) {
    size_t mark = scratch_mark(c);
    int64_t threads = pool_threads(c->dev->pool), heads = q.n[1];
    struct select_job j = {c->dev->kernels, y, q, weights, kv, rows, .work_size = 0};
    j.work_size = heads * kv->k.n[2] + matmul_work(q.n[2]);
    int64_t best = threads * y.n[1] * (int64_t)sizeof *j.best;
    j.work = scratch_tensor(c, DT_F32, 2, (int64_t[]){threads, j.work_size}).data;
    j.best = scratch_tensor(c, DT_U8, 1, &best).data;
    if (!c->dry && !c->err.set && rows->n > 0)
        pool_run(c->dev->pool, (int)rows->n, select_task, &j);
    scratch_release(c, mark);
}

// --- attention -----------------------------------------------------------------------------------

struct selected_job {
    const struct cpu_kernels *kernels;
    struct tensor y, q;
    const struct kv *kv;
    const struct rows *rows;
    const struct attention_options *opt;
    float *work; // work_size floats a thread
    int64_t *limits;
    int64_t work_size, v_width;
};

static void copy_elements(char *to, const char *from, int64_t n, size_t size, int64_t step) {
    if (step == 1) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)i * size, from + (size_t)(i * step) * size, size);
}

// Some tokens' keys or values, side by side as rows.
static void gather(struct kept to, const struct kv *kv, const int32_t *table, int64_t head,
                   bool keys, const int32_t *token, int64_t count) {
    struct tensor t = keys ? kv->k : kv->v;
    size_t size = dtype_size(t.type);
    int64_t step = keys && keys_across(kv) ? t.n[2] : 1, blocks = kv_blocks(t.n[3]);
    for (int64_t i = 0; i < count; i++) {
        struct kept k = cpu_kept(kv, table[token[i] / t.n[2]], head, token[i] % t.n[2], keys);
        copy_elements(to.p + (size_t)(i * t.n[3]) * size, k.p, t.n[3], size, step);
        if (t.type == DT_I8)
            copy_elements((char *)(to.scale + i * blocks), (const char *)k.scale, blocks,
                          sizeof *k.scale, step);
    }
}

// Room for a step's tokens in floats, their scales first.
static int64_t gathered_size(int64_t width) { return ATTEND_TOKENS * (width + kv_blocks(width)); }

static struct kept gathered_at(float *p, struct tensor cache) {
    float *elements = p + ATTEND_TOKENS * kv_blocks(cache.n[3]);
    return (struct kept){.p = (char *)elements, .scale = (uint16_t *)p, .next = (char *)elements};
}

// One row's heads that share a kv head.
static void selected_task(void *arg, int task, int thread) {
    const struct selected_job *j = arg;
    const struct kv *kv = j->kv;
    int64_t heads = kv->k.n[1], row = task / heads, head = task % heads;
    int64_t group = j->q.n[1] / heads, width = kv->k.n[3], top = j->opt->selected.n[1];
    const int32_t *token = (const int32_t *)j->opt->selected.data + row * top;
    int64_t seq = ((const int32_t *)j->rows->seq.data)[row];
    const int32_t *table = (const int32_t *)kv->table.data + seq * kv->table.n[1];
    float *q = j->work + thread * j->work_size;
    struct attend_piece piece = {.k = gathered_at(q + group * width, kv->k)};
    float *after = q + group * width + gathered_size(width);
    piece.v = kv->v.n[3] ? gathered_at(after, kv->v) : piece.k;
    int64_t *limits = j->limits + thread * 2 * group;
    struct attend a = {.queries = group, .v_width = j->v_width, .q = q};
    a.piece = &piece, a.pieces = 1;
    cpu_attend_layout(kv, &a);
    a.across = false;
    a.from = limits, a.to = limits + group;
    a.acc = after + gathered_size(kv->v.n[3]), a.top = a.acc + group * j->v_width;
    a.sum = a.top + group, a.work = a.sum + group;
    const float *from = (const float *)j->q.data + row * j->q.stride[0] + head * group * width;
    for (int64_t i = 0; i < group * width; i++) q[i] = from[i] * j->opt->scale;
    memset(a.acc, 0, (size_t)(group * j->v_width) * sizeof *a.acc);
    for (int64_t m = 0; m < group; m++)
        a.top[m] = -INFINITY, a.sum[m] = 0, limits[m] = 0, limits[group + m] = top;
    for (; a.at < top && token[a.at] >= 0; a.at += a.count) {
        for (a.count = 0; a.count < ATTEND_TOKENS && a.at + a.count < top; a.count++)
            if (token[a.at + a.count] < 0) break;
        gather(piece.k, kv, table, head, true, token + a.at, a.count);
        if (kv->v.n[3]) gather(piece.v, kv, table, head, false, token + a.at, a.count);
        piece.count = piece.room = a.count;
        j->kernels->attend(&a);
    }
    float *y = (float *)j->y.data + row * j->y.stride[0] + head * group * j->v_width;
    for (int64_t m = 0; m < group; m++)
        for (int64_t i = 0; i < j->v_width; i++)
            y[m * j->v_width + i] = a.acc[m * j->v_width + i] / a.sum[m];
}

void cpu_attention_selected(struct context *c, struct tensor y, struct tensor q,
                            const struct kv *kv, const struct rows *rows,
                            const struct attention_options *opt) {
    size_t mark = scratch_mark(c);
    int64_t threads = pool_threads(c->dev->pool), group = q.n[1] / kv->k.n[1];
    struct selected_job j = {c->dev->kernels, y, q, kv, rows, opt, .v_width = y.n[1] / q.n[1]};
    j.work_size = group * (q.n[2] + j.v_width + 2) + gathered_size(q.n[2]) +
                  gathered_size(kv->v.n[3]) + attend_work(group, q.n[2], j.v_width);
    j.work = scratch_tensor(c, DT_F32, 2, (int64_t[]){threads, j.work_size}).data;
    j.limits = scratch_tensor(c, DT_I64, 2, (int64_t[]){threads, 2 * group}).data;
    if (!c->dry && !c->err.set && rows->n > 0)
        pool_run(c->dev->pool, (int)(rows->n * kv->k.n[1]), selected_task, &j);
    scratch_release(c, mark);
}
