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
    struct tensor y, q, values;
    const struct kv *kv;
    const struct rows *rows;
    const struct attention_options *opt;
    float *work; // work_size floats a thread
    int64_t *limits;
    int64_t work_size;
};

// Some tokens' rows of a cache, side by side.
static void gather(void *to, struct tensor cache, const int32_t *table, int64_t head,
                   const int32_t *token, int64_t count) {
    size_t bytes = (size_t)cache.n[3] * dtype_size(cache.type);
    for (int64_t i = 0; i < count; i++) {
        int64_t page = table[token[i] / cache.n[2]], slot = token[i] % cache.n[2];
        int64_t row = (page * cache.n[1] + head) * cache.n[2] + slot;
        memcpy((char *)to + (size_t)i * bytes, (const char *)cache.data + (size_t)row * bytes,
               bytes);
    }
}

// One row's heads that share a kv head.
static void selected_task(void *arg, int task, int thread) {
    const struct selected_job *j = arg;
    struct tensor k = j->kv->k, v = j->values;
    int64_t row = task / k.n[1], head = task % k.n[1], group = j->q.n[1] / k.n[1];
    int64_t top = j->opt->selected.n[1], width = j->y.n[1] / j->q.n[1];
    const int32_t *token = (const int32_t *)j->opt->selected.data + row * top;
    int64_t seq = ((const int32_t *)j->rows->seq.data)[row];
    const int32_t *table = (const int32_t *)j->kv->table.data + seq * j->kv->table.n[1];
    struct attend a = {.queries = group, .k_width = k.n[3], .v_width = v.n[3], .type = k.type};
    float *q = j->work + thread * j->work_size, *keys = q + group * k.n[3];
    float *values = keys + ATTEND_TOKENS * k.n[3];
    a.acc = values + ATTEND_TOKENS * v.n[3], a.top = a.acc + group * v.n[3], a.sum = a.top + group;
    a.work = a.sum + group;
    a.q = q, a.k = keys, a.v = values;
    a.from = j->limits + thread * 2 * group, a.to = a.from + group;
    const float *from = (const float *)j->q.data + row * j->q.stride[0] + head * group * k.n[3];
    for (int64_t i = 0; i < group * k.n[3]; i++) q[i] = from[i] * j->opt->scale;
    memset(a.acc, 0, (size_t)(group * v.n[3]) * sizeof *a.acc);
    for (int64_t m = 0; m < group; m++) a.top[m] = -INFINITY, a.sum[m] = 0, a.from[m] = 0;
    for (int64_t t = 0; t < top && token[t] >= 0; t += a.count) {
        for (a.count = 0; a.count < ATTEND_TOKENS && t + a.count < top;)
            if (token[t + a.count++] < 0) break;
        if (token[t + a.count - 1] < 0) a.count--;
        gather(keys, k, table, head, token + t, a.count);
        gather(values, v, table, head, token + t, a.count);
        for (int64_t m = 0; m < group; m++) a.to[m] = a.count;
        j->kernels->attend(&a);
    }
    float *y = (float *)j->y.data + row * j->y.stride[0] + head * group * width;
    for (int64_t m = 0; m < group; m++)
        for (int64_t i = 0; i < width; i++) y[m * width + i] = a.acc[m * v.n[3] + i] / a.sum[m];
}

void cpu_attention_selected(struct context *c, struct tensor y, struct tensor q,
                            const struct kv *kv, const struct rows *rows,
                            const struct attention_options *opt) {
    size_t mark = scratch_mark(c);
    struct tensor values = kv->v.n[3] ? kv->v : kv->k;
    int64_t threads = pool_threads(c->dev->pool), group = q.n[1] / kv->k.n[1];
    int64_t k_width = kv->k.n[3], v_width = values.n[3];
    struct selected_job j = {c->dev->kernels, y, q, values, kv, rows, opt, .work_size = 0};
    j.work_size = (group + ATTEND_TOKENS) * (k_width + v_width) + 2 * group +
                  attend_work(group, k_width, v_width);
    j.work = scratch_tensor(c, DT_F32, 2, (int64_t[]){threads, j.work_size}).data;
    j.limits = scratch_tensor(c, DT_I64, 2, (int64_t[]){threads, 2 * group}).data;
    if (!c->dry && !c->err.set && rows->n > 0)
        pool_run(c->dev->pool, (int)(rows->n * kv->k.n[1]), selected_task, &j);
    scratch_release(c, mark);
}
