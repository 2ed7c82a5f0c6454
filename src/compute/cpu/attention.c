// Attention over pages: a running softmax (Milakov and Gimelshein 2018; FlashAttention) that goes
// page by page, so its rounding does not depend on how a prompt was cut into chunks.
#include "compute/cpu/cpu.h"

#include <math.h>

struct attention_job {
    const struct cpu_kernels *kernels;
    struct tensor y, q;
    const struct kv *kv;
    const struct rows *rows;
    const struct attention_options *opt;
    float *work; // a page of scores a thread
};

static const char *page_of(struct tensor cache, int64_t page, int64_t head) {
    return (const char *)cache.data +
           (size_t)((page * cache.n[1] + head) * cache.n[2] * cache.n[3]) * dtype_size(cache.type);
}

static void one_head(const struct attention_job *j, int64_t row, int64_t head, float *s) {
    const struct kv *kv = j->kv;
    int64_t size = kv->k.n[2], k_width = kv->k.n[3], v_width = kv->v.n[3];
    int64_t kv_head = head / (j->q.n[1] / kv->k.n[1]);
    int64_t last = ((const int32_t *)j->rows->index.data)[row];
    int64_t first = j->opt->window > 0 && last >= j->opt->window ? last - j->opt->window + 1 : 0;
    const int32_t *table = (const int32_t *)kv->table.data +
                           ((const int32_t *)j->rows->seq.data)[row] * kv->table.n[1];
    const float *q = (const float *)j->q.data + row * j->q.stride[0] + head * k_width;
    float *acc = (float *)j->y.data + row * j->y.stride[0] + head * v_width;
    for (int64_t i = 0; i < v_width; i++) acc[i] = 0;

    float top = -INFINITY, sum = 0;
    for (int64_t p = first / size; p <= last / size; p++) {
        int64_t from = p * size < first ? first - p * size : 0;
        int64_t to = last - p * size + 1 < size ? last - p * size + 1 : size;
        j->kernels->scores(s, q, page_of(kv->k, table[p], kv_head), kv->k.type, k_width, from, to,
                           j->opt->scale);
        float was = top;
        for (int64_t t = from; t < to; t++) top = s[t] > top ? s[t] : top;
        float keep = expf(was - top);
        sum *= keep;
        for (int64_t t = from; t < to; t++) sum += s[t] = expf(s[t] - top);
        j->kernels->accumulate(acc, s, page_of(kv->v, table[p], kv_head), kv->v.type, v_width, from,
                               to, keep);
    }
    for (int64_t i = 0; i < v_width; i++) acc[i] /= sum;
}

static void attention_task(void *arg, int task, int thread) {
    const struct attention_job *j = arg;
    int64_t heads = j->q.n[1];
    one_head(j, task / heads, task % heads, j->work + thread * j->kv->k.n[2]);
}

void cpu_attention(struct context *c, struct tensor y, struct tensor q, const struct kv *kv,
                   const struct rows *rows, const struct attention_options *opt) {
    size_t mark = scratch_mark(c);
    struct tensor work =
        scratch_tensor(c, DT_F32, 2, (int64_t[]){pool_threads(c->dev->pool), kv->k.n[2]});
    struct attention_job j = {c->dev->kernels, y, q, kv, rows, opt, work.data};
    if (!c->dry && !c->err.set) pool_run(c->dev->pool, (int)(q.n[0] * q.n[1]), attention_task, &j);
    scratch_release(c, mark);
}
