// Attention over pages. Rows that follow each other in one sequence, and the heads that share a kv
// head, go through the keys together, so a page is read once for all of them.
//
// The softmax is a running one (Milakov and Gimelshein 2018; FlashAttention) over spans of a fixed
// number of tokens, whose results are then merged in order. Where a span starts, and the order in
// it, depend on a token's place in its sequence alone: however a prompt was cut into chunks, and
// whether one thread takes all spans or each takes one, every row gets the same bits.
#include "compute/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { SPAN_TOKENS = 1024, BLOCK_QUERIES = 64, BLOCK_ROWS = 32, SPLIT_FLOATS = 4 << 20 };

struct attention_job {
    const struct cpu_kernels *kernels;
    struct tensor y, q;
    const struct kv *kv;
    const struct rows *rows;
    const struct attention_options *opt;
    int64_t v_width;
    int64_t group;      // heads a kv head
    int64_t block_rows; // at most
    int64_t blocks;
    const int32_t *block; // [blocks + 1] first row of each
    float *work;          // work_size floats a thread
    int64_t work_size;
    int64_t *limits;  // 2 * queries a thread
    int64_t spans;    // of the longest sequence
    float *parts;     // where spans are split over threads: [rows * heads, spans, v_width + 2]
    int64_t per_part; // v_width + 2: the state of one query over one span
};

// The running softmax of a block's queries.
struct state {
    float *acc, *top, *sum; // [queries, v_width], [queries], [queries]
};

struct block {
    int64_t row, rows, queries, kv_head;
    const int32_t *table;
};

static int64_t last_seen(const struct attention_job *j, int64_t row) {
    return ((const int32_t *)j->rows->index.data)[row];
}

static int64_t first_seen(const struct attention_job *j, int64_t row) {
    int64_t last = last_seen(j, row), window = j->opt->window, chunk = j->opt->chunk;
    int64_t first = window > 0 && last >= window ? last - window + 1 : 0;
    int64_t begin = chunk > 0 ? last - last % chunk : 0;
    return begin > first ? begin : first;
}

static float scale_of(const struct attention_job *j, int64_t row) {
    const struct attention_options *o = j->opt;
    if (o->tuning == 0) return o->scale;
    float steps = floorf(((float)last_seen(j, row) + 1) / o->tuning_floor);
    return o->scale * (1 + o->tuning * log1pf(steps));
}

static struct block block_at(const struct attention_job *j, int64_t i, int64_t kv_head) {
    int64_t row = j->block[i], rows = j->block[i + 1] - row;
    int64_t seq = ((const int32_t *)j->rows->seq.data)[row];
    return (struct block){
        .row = row,
        .rows = rows,
        .queries = rows * j->group,
        .kv_head = kv_head,
        .table = (const int32_t *)j->kv->table.data + seq * j->kv->table.n[1],
    };
}

// The block's queries, scaled, in the order row, head, and the tokens [from, to) that each sees.
static void load_queries(const struct attention_job *j, const struct block *b, float *q,
                         int64_t *from, int64_t *to) {
    int64_t width = j->q.n[2], each = j->group * width;
    for (int64_t r = 0; r < b->rows; r++) {
        const float *x = (const float *)j->q.data + (b->row + r) * j->q.stride[0];
        float scale = scale_of(j, b->row + r);
        for (int64_t i = 0; i < each; i++) q[r * each + i] = x[b->kv_head * each + i] * scale;
        for (int64_t h = 0; h < j->group; h++) {
            from[r * j->group + h] = first_seen(j, b->row + r);
            to[r * j->group + h] = last_seen(j, b->row + r) + 1;
        }
    }
}

static void clear_state(const struct state *s, int64_t queries, int64_t v_width) {
    memset(s->acc, 0, (size_t)(queries * v_width) * sizeof *s->acc);
    for (int64_t m = 0; m < queries; m++) {
        s->top[m] = -INFINITY;
        s->sum[m] = 0;
    }
}

// The page of a token, or where it is behind every window, and may have none, that of the last.
static int64_t page_of(const struct kv *kv, const int32_t *table, int64_t token, int64_t last) {
    int32_t page = table[token / kv->k.n[2]];
    return page < 0 ? table[last / kv->k.n[2]] : page;
}

// The pieces of `count` tokens from `at` on, at most ATTEND_TOKENS; last: the last token that any
// query sees. Returns how many pieces there are.
static int64_t pieces_of(const struct kv *kv, const int32_t *table, int64_t head, int64_t at,
                         int64_t count, int64_t last, struct attend_piece *piece) {
    int64_t size = kv->k.n[2], n = 0;
    for (int64_t t = at; t < at + count; t += piece[n++].count) {
        int64_t left = at + count - t, room = size - t % size;
        int64_t page = page_of(kv, table, t, last), then = t + ATTEND_TOKENS;
        int64_t next = then <= last ? page_of(kv, table, then, last) : page;
        piece[n] = (struct attend_piece){.count = left < room ? left : room, .room = room};
        piece[n].k = cpu_kept(kv, page, head, t % size, true);
        piece[n].k.next = cpu_kept(kv, next, head, then % size, true).p;
        piece[n].v = cpu_kept(kv, page, head, t % size, false);
        piece[n].v.next = cpu_kept(kv, next, head, then % size, false).p;
    }
    return n;
}

void cpu_attend_layout(const struct kv *kv, struct attend *a) {
    bool values = kv->v.n[3] > 0;
    a->k_width = kv->k.n[3];
    a->k_type = kv->k.type;
    a->v_type = values ? kv->v.type : kv->k.type;
    a->ldv = values ? kv->v.n[3] : kv->k.n[3];
    a->across = keys_across(kv);
    a->page = kv->k.n[2];
}

// Takes the block through one span of tokens.
static void attend_span(const struct attention_job *j, const struct block *b, int64_t span,
                        const float *q, const struct state *s, const int64_t *from,
                        const int64_t *to, float *work) {
    int64_t last = last_seen(j, b->row + b->rows - 1);
    struct attend_piece piece[ATTEND_TOKENS];
    struct attend a = {.queries = b->queries, .v_width = j->v_width, .q = q, .piece = piece};
    cpu_attend_layout(j->kv, &a);
    a.soft_cap = j->opt->soft_cap;
    a.acc = s->acc, a.top = s->top, a.sum = s->sum;
    a.from = from, a.to = to;
    a.work = work;
    clear_state(s, b->queries, a.v_width);
    int64_t end = (span + 1) * SPAN_TOKENS;
    if (end > last + 1) end = last + 1;
    a.at = span * SPAN_TOKENS;
    if (a.at < from[0] / ATTEND_TOKENS * ATTEND_TOKENS)
        a.at = from[0] / ATTEND_TOKENS * ATTEND_TOKENS;
    for (; a.at < end; a.at += ATTEND_TOKENS) {
        a.count = end - a.at < ATTEND_TOKENS ? end - a.at : ATTEND_TOKENS;
        a.pieces = pieces_of(j->kv, b->table, b->kv_head, a.at, a.count, last, piece);
        j->kernels->attend(&a);
    }
}

// Adds one query's state over a later span (acc, top, sum) to its total.
static void merge(float *total_acc, float *total_top, float *total_sum, const float *acc, float top,
                  float sum, int64_t width) {
    if (top == -INFINITY && sum == 0) return; // it saw nothing there
    if (*total_top == -INFINITY && *total_sum == 0) {
        memcpy(total_acc, acc, (size_t)width * sizeof *acc);
        *total_top = top;
        *total_sum = sum;
        return;
    }
    float highest = top > *total_top ? top : *total_top;
    float keep = expf(*total_top - highest), take = expf(top - highest);
    for (int64_t i = 0; i < width; i++) total_acc[i] = total_acc[i] * keep + acc[i] * take;
    *total_sum = *total_sum * keep + sum * take;
    *total_top = highest;
}

// The result of query m. A sink adds to the sum alone.
static void finish(const struct attention_job *j, const struct block *b, int64_t m,
                   const float *acc, float top, float sum) {
    int64_t head = b->kv_head * j->group + m % j->group, width = j->y.n[1] / j->q.n[1];
    float *y = (float *)j->y.data + (b->row + m / j->group) * j->y.stride[0] + head * width;
    float keep = 1;
    if (j->opt->sinks.dims) {
        float sink = ((const float *)j->opt->sinks.data)[head];
        if (sink > top) {
            keep = expf(top - sink);
            sum = sum * keep + 1;
        } else {
            sum += expf(sink - top);
        }
    }
    for (int64_t i = 0; i < width; i++) y[i] = acc[i] * keep / sum;
}

static struct state state_at(float *p, int64_t queries, int64_t v_width) {
    return (struct state){p, p + queries * v_width, p + queries * (v_width + 1)};
}

static int64_t first_span(const struct attention_job *j, const struct block *b) {
    return first_seen(j, b->row) / SPAN_TOKENS;
}

static int64_t last_span(const struct attention_job *j, const struct block *b) {
    return last_seen(j, b->row + b->rows - 1) / SPAN_TOKENS;
}

// All spans of a block, on one thread.
static void block_task(void *arg, int task, int thread) {
    const struct attention_job *j = arg;
    int64_t kv_heads = j->kv->k.n[1], v_width = j->v_width;
    // The last blocks of a prompt see the most tokens: they are handed out first.
    struct block b = block_at(j, j->blocks - 1 - task / kv_heads, task % kv_heads);
    float *q = j->work + thread * j->work_size;
    int64_t *from = j->limits + thread * 2 * j->block_rows * j->group, *to = from + b.queries;
    struct state span = state_at(q + b.queries * j->q.n[2], b.queries, v_width);
    struct state total = state_at(span.sum + b.queries, b.queries, v_width);
    load_queries(j, &b, q, from, to);
    clear_state(&total, b.queries, v_width);
    for (int64_t i = first_span(j, &b); i <= last_span(j, &b); i++) {
        attend_span(j, &b, i, q, &span, from, to, total.sum + b.queries);
        for (int64_t m = 0; m < b.queries; m++)
            merge(total.acc + m * v_width, total.top + m, total.sum + m, span.acc + m * v_width,
                  span.top[m], span.sum[m], v_width);
    }
    for (int64_t m = 0; m < b.queries; m++)
        finish(j, &b, m, total.acc + m * v_width, total.top[m], total.sum[m]);
}

static float *part_of(const struct attention_job *j, const struct block *b, int64_t m,
                      int64_t span) {
    int64_t query = (b->row + m / j->group) * j->q.n[1] + b->kv_head * j->group + m % j->group;
    return j->parts + (query * j->spans + span) * j->per_part;
}

// One span of a block, into `parts`.
static void span_task(void *arg, int task, int thread) {
    const struct attention_job *j = arg;
    int64_t kv_heads = j->kv->k.n[1], v_width = j->v_width, i = task % j->spans;
    struct block b = block_at(j, task / j->spans / kv_heads, task / j->spans % kv_heads);
    if (i < first_span(j, &b) || i > last_span(j, &b)) return;
    float *q = j->work + thread * j->work_size;
    int64_t *from = j->limits + thread * 2 * j->block_rows * j->group, *to = from + b.queries;
    struct state span = state_at(q + b.queries * j->q.n[2], b.queries, v_width);
    load_queries(j, &b, q, from, to);
    attend_span(j, &b, i, q, &span, from, to, span.sum + b.queries);
    for (int64_t m = 0; m < b.queries; m++) {
        float *part = part_of(j, &b, m, i);
        memcpy(part, span.acc + m * v_width, (size_t)v_width * sizeof *part);
        part[v_width] = span.top[m];
        part[v_width + 1] = span.sum[m];
    }
}

static void merge_task(void *arg, int task, int thread) {
    (void)thread;
    const struct attention_job *j = arg;
    int64_t kv_heads = j->kv->k.n[1], v_width = j->v_width;
    struct block b = block_at(j, task / kv_heads, task % kv_heads);
    for (int64_t m = 0; m < b.queries; m++) {
        float *total = part_of(j, &b, m, first_span(j, &b));
        for (int64_t i = first_span(j, &b) + 1; i <= last_span(j, &b); i++) {
            const float *part = part_of(j, &b, m, i);
            merge(total, total + v_width, total + v_width + 1, part, part[v_width],
                  part[v_width + 1], v_width);
        }
        finish(j, &b, m, total, total[v_width], total[v_width + 1]);
    }
}

// Cuts the rows into blocks: rows of one sequence at consecutive places.
static void cut_blocks(struct attention_job *j, int32_t *block) {
    const int32_t *seq = j->rows->seq.data, *index = j->rows->index.data;
    int32_t n = (int32_t)j->rows->n, from = 0;
    for (int32_t r = 0; r < n; r++) {
        if (index[r] / SPAN_TOKENS >= j->spans) j->spans = index[r] / SPAN_TOKENS + 1;
        bool joins = r > 0 && seq[r] == seq[r - 1] && index[r] == index[r - 1] + 1 &&
                     r - from < j->block_rows;
        if (joins) continue;
        block[j->blocks++] = from = r;
    }
    block[j->blocks] = n;
    j->block = block;
}

// The most rows, of n, whose spans may be split over the threads: where there are so few that their
// blocks, some of which may be of much longer sequences than others, don't keep all threads busy to
// the end, and as long as the parts stay small. spans: of the longest sequence that there can be.
static int64_t split_rows(const struct attention_job *j, int64_t n, int64_t threads,
                          int64_t spans) {
    enum { TASKS = 16 }; // a thread
    if (threads == 1 || spans < 2) return 0;
    int64_t few = (TASKS * threads + j->kv->k.n[1] - 1) / j->kv->k.n[1];
    int64_t small = SPLIT_FLOATS / (j->q.n[1] * spans * j->per_part);
    int64_t most = few < small ? few : small;
    if (most < 1) most = 1; // a single row of a long sequence must not be left to one thread
    return n < most ? n : most;
}

static int64_t block_rows(int64_t group) {
    int64_t rows = BLOCK_QUERIES / group;
    return rows < 1 ? 1 : rows > BLOCK_ROWS ? BLOCK_ROWS : rows;
}

void cpu_attention(struct context *c, struct tensor y, struct tensor q, const struct kv *kv,
                   const struct rows *rows, const struct attention_options *opt) {
    if (opt->selected.dims) {
        cpu_attention_selected(c, y, q, kv, rows, opt);
        return;
    }
    size_t mark = scratch_mark(c);
    int64_t threads = pool_threads(c->dev->pool), n = rows->n, kv_heads = kv->k.n[1];
    struct attention_job j = {c->dev->kernels, y, q, kv, rows, opt, .group = q.n[1] / kv_heads};
    j.v_width = y.n[1] / q.n[1];
    j.block_rows = block_rows(j.group);
    j.per_part = j.v_width + 2;
    int64_t queries = j.block_rows * j.group;
    int64_t spans = (kv->table.n[1] * kv->k.n[2] + SPAN_TOKENS - 1) / SPAN_TOKENS;
    j.work_size = queries * (q.n[2] + 2 * j.per_part) + attend_work(queries, q.n[2], j.v_width);
    struct tensor work = scratch_tensor(c, DT_F32, 2, (int64_t[]){threads, j.work_size});
    struct tensor limits = scratch_tensor(c, DT_I64, 2, (int64_t[]){threads, 2 * queries});
    struct tensor block = scratch_tensor(c, DT_I32, 1, (int64_t[]){n + 1});
    int64_t split = split_rows(&j, n, threads, spans);
    bool splits = n <= split;
    struct tensor parts = {0};
    if (splits || c->dry)
        parts = scratch_tensor(c, DT_F32, 2, (int64_t[]){split * q.n[1], spans * j.per_part});
    if (!c->dry && !c->err.set && n > 0) {
        j.work = work.data;
        j.limits = limits.data;
        j.parts = parts.data;
        cut_blocks(&j, block.data);
        int64_t tasks = j.blocks * kv_heads;
        if (splits && j.spans > 1) {
            pool_run(c->dev->pool, (int)(tasks * j.spans), span_task, &j);
            pool_run(c->dev->pool, (int)tasks, merge_task, &j);
        } else {
            pool_run(c->dev->pool, (int)tasks, block_task, &j);
        }
    }
    scratch_release(c, mark);
}
