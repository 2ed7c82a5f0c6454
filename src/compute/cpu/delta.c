// Delta rules in chunks (compute/recurrent.h). Heads do not see each other, and neither do
// sequences: a task is one head through the rows of one run.
#include <string.h>

#include "compute/cpu/runs.h"

struct decay_job {
    const struct cpu_kernels *kernels;
    struct tensor y, x, rate, bias;
};

static void decay_row(void *arg, int64_t row) {
    const struct decay_job *j = arg;
    j->kernels->log_decay(at(j->y, row, 0), at(j->x, row, 0), j->rate.data, j->bias.data,
                          j->y.n[1]);
}

void cpu_log_decay(struct context *c, struct tensor y, struct tensor x, struct tensor rate,
                   struct tensor bias) {
    struct decay_job j = {c->dev->kernels, y, x, rate, bias};
    cpu_rows(c, y.n[0], 16 * y.n[1], decay_row, &j);
}

struct delta_job {
    const struct cpu_kernels *kernels;
    struct tensor y, state;
    const struct delta_inputs *in;
    const struct delta *d;
    const struct rows *rows;
    int64_t puts; // a row
    float *work;  // [threads, work_size]
};

// Where a head's state has what.
struct delta_head {
    float *s, *keys, *values, *decay;
};

static struct delta_head head_at(const struct delta_job *j, float *state, int64_t head) {
    const struct delta *d = j->d;
    struct delta_head h;
    h.s = state + head * (delta_state(d, j->puts) / d->heads);
    h.keys = h.s + d->k_width * d->v_width;
    h.values = h.keys + j->puts * DELTA_CHUNK * d->k_width;
    h.decay = h.values + j->puts * DELTA_CHUNK * d->v_width;
    return h;
}

// What a thread works in. By rows of the piece: scores of a and of r with the chunk's puts, a and r
// decayed one after the other, and what they read of S.
struct delta_work {
    float *a_scores, *r_scores, *x, *read, *row;
};

static int64_t work_size(const struct delta *d, int64_t puts) {
    return 2 * DELTA_CHUNK * (puts * DELTA_CHUNK + d->k_width + d->v_width) + 2 * d->k_width;
}

static struct delta_work work_at(const struct delta_job *j, float *p) {
    struct delta_work w;
    w.a_scores = p;
    w.r_scores = w.a_scores + j->puts * DELTA_CHUNK * DELTA_CHUNK;
    w.x = w.r_scores + j->puts * DELTA_CHUNK * DELTA_CHUNK;
    w.read = w.x + 2 * DELTA_CHUNK * j->d->k_width;
    w.row = w.read + 2 * DELTA_CHUNK * j->d->v_width;
    return w;
}

// Rows of a run that lie in one chunk: the rows [row, row + n) of the step, at place `from` in it.
struct delta_piece {
    int64_t row, from, n, head;
};

static void score_rows(const struct delta_job *j, const struct delta_piece *p,
                       const struct delta_head *h, const struct delta_work *w) {
    const struct delta *d = j->d;
    const struct delta_inputs *in = j->in;
    int64_t width = d->k_width, most = j->puts * DELTA_CHUNK;
    int64_t key = p->head / (d->heads / d->key_heads) * width, own = p->head * width;
    bool each = in->g.n[1] != d->heads, rule = in->beta.dims;
    for (int64_t i = 0; i < width && p->from == 0; i++) h->decay[i] = 1;
    for (int64_t t = 0; t < p->n; t++) {
        int64_t row = p->row + t;
        struct delta_row r = {
            .width = width,
            .before = (p->from + t) * j->puts,
            .count = (p->from + t + 1) * j->puts,
            .r = at(in->r, row, key),
            .k = at(in->k, row, key),
            .a = rule ? NULL : at(in->a, row, own),
            .b = rule ? NULL : at(in->b, row, own),
            .beta = rule ? *at(in->beta, row, p->head) : 0,
            .g = at(in->g, row, each ? own : p->head),
            .each = each,
            .keys = h->keys,
            .decay = h->decay,
            .a_scores = w->a_scores + t * most,
            .r_scores = w->r_scores + t * most,
            .a_decayed = w->x + 2 * t * width,
            .r_decayed = w->x + (2 * t + 1) * width,
            .work = w->row,
        };
        j->kernels->delta_row(&r);
    }
}

// From the first row on: what each reads, and so what it puts in, and its y.
static void solve_rows(const struct delta_job *j, const struct delta_piece *p,
                       const struct delta_head *h, const struct delta_work *w) {
    int64_t width = j->d->v_width, most = j->puts * DELTA_CHUNK;
    for (int64_t t = 0; t < p->n; t++) {
        int64_t before = (p->from + t) * j->puts, count = before + j->puts;
        const float *v = at(j->in->v, p->row + t, p->head * width);
        float *read = w->read + 2 * t * width, *put = h->values + before * width;
        struct delta_mix m = {before, width, read, w->a_scores + t * most, h->values, put};
        j->kernels->delta_mix(&m);
        if (j->puts == 1)
            j->kernels->add(put, v, width);
        else
            memcpy(put + width, v, (size_t)width * sizeof *put);
        float *y = at(j->y, p->row + t, p->head * width);
        m = (struct delta_mix){count, width, read + width, w->r_scores + t * most, h->values, y};
        j->kernels->delta_mix(&m);
    }
}

static void delta_task(void *arg, int task, int thread) {
    const struct delta_job *j = arg;
    const struct delta *d = j->d;
    struct run run = run_at(j->rows, task / d->heads, j->state);
    struct delta_piece p = {.head = task % d->heads};
    struct delta_head h = head_at(j, run.state, p.head);
    struct delta_work w = work_at(j, j->work + thread * work_size(d, j->puts));
    for (int64_t done = 0; done < run.n; done += p.n) {
        p.row = run.row + done;
        p.from = (run.index + done) % DELTA_CHUNK;
        p.n = DELTA_CHUNK - p.from < run.n - done ? DELTA_CHUNK - p.from : run.n - done;
        score_rows(j, &p, &h, &w);
        struct delta_read r = {2 * p.n, d->k_width, d->v_width, w.x, h.s, w.read};
        j->kernels->delta_read(&r);
        solve_rows(j, &p, &h, &w);
        if (p.from + p.n < DELTA_CHUNK) continue;
        struct delta_carry carry = {
            j->puts * DELTA_CHUNK, d->k_width, d->v_width, h.keys, h.values, h.decay, h.s};
        j->kernels->delta_carry(&carry);
    }
}

void cpu_delta_rule(struct context *c, struct tensor y, const struct delta_inputs *in,
                    const struct delta *d, const struct rows *rows, struct tensor state) {
    size_t mark = scratch_mark(c);
    int64_t threads = pool_threads(c->dev->pool), puts = in->beta.dims ? 1 : 2;
    struct tensor work = scratch_tensor(c, DT_F32, 2, (int64_t[]){threads, work_size(d, puts)});
    if (!c->dry && !c->err.set && rows->n > 0) {
        struct delta_job j = {c->dev->kernels, y, state, in, d, rows, puts, work.data};
        pool_run(c->dev->pool, (int)(rows->runs * d->heads), delta_task, &j);
    }
    scratch_release(c, mark);
}
