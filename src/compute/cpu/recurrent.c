// Convolutions and recurrences over the runs of a step. Channels do not see each other, so threads
// take bands of them, or heads, through all rows of a run.
#include <math.h>
#include <string.h>

#include "compute/cpu/runs.h"

// Channels [from, from + n) of a band.
struct band {
    int64_t from, n;
};

static struct band band_at(int64_t i, int64_t size, int64_t channels) {
    int64_t from = i * size;
    return (struct band){from, channels - from < size ? channels - from : size};
}

// --- convolutions --------------------------------------------------------------------------------

enum { CONVOLVE_BAND = 512, SCAN_BAND = 64, LRU_BAND = 128 }; // channels

struct convolve_job {
    const struct cpu_kernels *kernels;
    struct tensor y, x, w, b, state;
    const struct rows *rows;
};

// x of the run at `place` in it; those before it are in the state.
static float *input(const struct convolve_job *j, const struct run *run, int64_t place,
                    int64_t channel) {
    int64_t channels = j->x.n[1], kept = j->w.n[0] - 1;
    if (place >= 0) return at(j->x, run->row + place, channel);
    return run->state + (kept + place) * channels + channel;
}

static void convolve_run(const struct convolve_job *j, const struct run *run, struct band b) {
    int taps = (int)j->w.n[0];
    const float *bias = j->b.dims ? (const float *)j->b.data + b.from : NULL;
    const float *x[CONVOLVE_TAPS];
    for (int64_t t = 0; t < run->n; t++) {
        for (int k = 0; k < taps; k++) x[k] = input(j, run, t - (taps - 1) + k, b.from);
        j->kernels->convolve(at(j->y, run->row + t, b.from), x, at(j->w, 0, b.from), bias, taps,
                             b.n, j->w.n[1]);
    }
    for (int k = 0; k < taps - 1; k++) // the oldest first: none is overwritten before it moves
        memmove(run->state + k * j->x.n[1] + b.from, input(j, run, run->n - (taps - 1) + k, b.from),
                (size_t)b.n * sizeof(float));
}

static void convolve_band(void *arg, int64_t i) {
    const struct convolve_job *j = arg;
    struct band b = band_at(i, CONVOLVE_BAND, j->x.n[1]);
    for (int64_t r = 0; r < j->rows->runs; r++) {
        struct run run = run_at(j->rows, r, j->state);
        convolve_run(j, &run, b);
    }
}

void cpu_convolve(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                  struct tensor b, const struct rows *rows, struct tensor state) {
    struct convolve_job j = {c->dev->kernels, y, x, w, b, state, rows};
    int64_t bands = (x.n[1] + CONVOLVE_BAND - 1) / CONVOLVE_BAND;
    cpu_rows(c, bands, x.n[0] * w.n[0] * CONVOLVE_BAND, convolve_band, &j);
}

// --- selective scans -----------------------------------------------------------------------------

struct scan_job {
    const struct cpu_kernels *kernels;
    struct tensor y, a, d, state;
    const struct scan_inputs *in;
    const struct rows *rows;
};

static void scan_band(void *arg, int64_t i) {
    const struct scan_job *j = arg;
    const struct scan_inputs *in = j->in;
    struct band b = band_at(i, SCAN_BAND, j->y.n[1]);
    for (int64_t r = 0; r < j->rows->runs; r++) {
        struct run run = run_at(j->rows, r, j->state);
        struct scan s = {
            .rows = run.n,
            .channels = b.n,
            .states = j->a.n[0],
            .y = at(j->y, run.row, b.from),
            .x = at(in->x, run.row, b.from),
            .delta = at(in->delta, run.row, b.from),
            .b = at(in->b, run.row, 0),
            .c = at(in->c, run.row, 0),
            .ld_y = j->y.stride[0],
            .ld_x = in->x.stride[0],
            .ld_delta = in->delta.stride[0],
            .ld_b = in->b.stride[0],
            .ld_c = in->c.stride[0],
            .a = at(j->a, 0, b.from),
            .d = (const float *)j->d.data + b.from,
            .h = run.state + b.from,
            .ld_h = j->a.n[1],
        };
        j->kernels->scan(&s);
    }
}

void cpu_selective_scan(struct context *c, struct tensor y, const struct scan_inputs *in,
                        struct tensor a, struct tensor d, const struct rows *rows,
                        struct tensor state) {
    struct scan_job j = {c->dev->kernels, y, a, d, state, in, rows};
    int64_t bands = (y.n[1] + SCAN_BAND - 1) / SCAN_BAND;
    cpu_rows(c, bands, 8 * y.n[0] * a.n[0] * SCAN_BAND, scan_band, &j);
}

// --- gated linear recurrences --------------------------------------------------------------------

struct lru_job {
    const struct cpu_kernels *kernels;
    struct tensor y, rate, state;
    const struct lru_inputs *in;
    const struct rows *rows;
};

static void lru_band(void *arg, int64_t i) {
    const struct lru_job *j = arg;
    const struct lru_inputs *in = j->in;
    struct band b = band_at(i, LRU_BAND, j->y.n[1]);
    for (int64_t r = 0; r < j->rows->runs; r++) {
        struct run run = run_at(j->rows, r, j->state);
        struct lru l = {
            .rows = run.n,
            .channels = b.n,
            .y = at(j->y, run.row, b.from),
            .x = at(in->x, run.row, b.from),
            .gate = at(in->gate, run.row, b.from),
            .input = at(in->input, run.row, b.from),
            .rate = (const float *)j->rate.data + b.from,
            .ld_y = j->y.stride[0],
            .ld_x = in->x.stride[0],
            .ld_gate = in->gate.stride[0],
            .ld_input = in->input.stride[0],
            .h = run.state + b.from,
            .first = run.index == 0,
        };
        j->kernels->lru(&l);
    }
}

void cpu_gated_lru(struct context *c, struct tensor y, const struct lru_inputs *in,
                   struct tensor rate, const struct rows *rows, struct tensor state) {
    struct lru_job j = {c->dev->kernels, y, rate, state, in, rows};
    int64_t bands = (y.n[1] + LRU_BAND - 1) / LRU_BAND;
    cpu_rows(c, bands, 32 * y.n[0] * LRU_BAND, lru_band, &j);
}

// --- state space duality -------------------------------------------------------------------------

enum { SSD_HEADS = 4 }; // of one group, which a task takes together: they share the scores

struct ssd_job {
    const struct cpu_kernels *kernels;
    struct tensor y, state;
    const struct ssd_inputs *in;
    const struct ssd *s;
    const struct rows *rows;
    int64_t blocks; // of heads, a group
    float *work;    // [threads, work_size]
};

// Where a sequence's state has what (compute/recurrent.h).
struct ssd_state {
    float *h, *x, *b, *dt, *decay;
};

static struct ssd_state state_of(const struct ssd *s, float *p) {
    struct ssd_state st;
    st.h = p;
    st.x = st.h + s->heads * s->states * s->width;
    st.b = st.x + s->heads * SSD_CHUNK * s->width;
    st.dt = st.b + SSD_CHUNK * s->groups * s->states;
    st.decay = st.dt + s->heads * SSD_CHUNK;
    return st;
}

// The scores, the mix, and the chunk's x times dt.
static int64_t ssd_work(int64_t width) { return SSD_CHUNK * (2 * SSD_CHUNK + 1 + width); }

// Rows of a run that lie in one chunk, by their place in it.
struct piece {
    struct run run;
    int64_t row; // of the step, at place 0: negative when the chunk began before the run
    int64_t from, to;
    struct ssd_state state;
    const float *b[SSD_CHUNK], *c[SSD_CHUNK];
};

static void point_group(const struct ssd_job *j, struct piece *p, int64_t group) {
    int64_t states = j->s->states, column = group * states;
    for (int64_t t = 0; t < p->to; t++) {
        p->b[t] = t < p->from ? p->state.b + t * j->s->groups * states + column
                              : at(j->in->b, p->row + t, column);
        p->c[t] = t < p->from ? NULL : at(j->in->c, p->row + t, column);
    }
}

static float step_size(const struct ssd_job *j, int64_t row, int64_t head) {
    float x = *at(j->in->dt, row, head) + ((const float *)j->s->dt_bias.data)[head];
    float dt = fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
    return fminf(fmaxf(dt, j->s->dt_least), j->s->dt_most);
}

// Takes the rows' steps in: what each row takes of h and of the rows before it. dt [SSD_CHUNK], of
// each row, decays with every later one: products, since differences of sums of logarithms cancel.
static void mix_rows(const struct ssd_job *j, const struct piece *p, int64_t head,
                     const float *scores, float *mix, float *decays) {
    float *dt = p->state.dt + head * SSD_CHUNK, *decay = p->state.decay + head;
    float a = ((const float *)j->s->a.data)[head];
    if (p->from == 0) *decay = 1;
    for (int64_t t = p->from; t < p->to; t++) {
        dt[t] = step_size(j, p->row + t, head);
        float keep = expf(dt[t] * a);
        for (int64_t k = 0; k < t; k++) dt[k] *= keep;
        for (int64_t k = 0; k <= t; k++) mix[t * SSD_CHUNK + k] = scores[t * SSD_CHUNK + k] * dt[k];
        decays[t] = *decay *= keep;
    }
}

static void ssd_head(const struct ssd_job *j, const struct piece *p, int64_t head, float *work) {
    const struct ssd *s = j->s;
    float *scores = work, *mix = scores + SSD_CHUNK * SSD_CHUNK;
    float *decays = mix + SSD_CHUNK * SSD_CHUNK, *scaled = decays + SSD_CHUNK;
    float *kept = p->state.x + head * SSD_CHUNK * s->width;
    const float *x[SSD_CHUNK];
    float *y[SSD_CHUNK];
    for (int64_t t = 0; t < p->to; t++) {
        bool before = t < p->from;
        x[t] = before ? kept + t * s->width : at(j->in->x, p->row + t, head * s->width);
        y[t] = before ? NULL : at(j->y, p->row + t, head * s->width);
    }
    mix_rows(j, p, head, scores, mix, decays);
    struct ssd_rows r = {
        .from = p->from,
        .to = p->to,
        .width = s->width,
        .states = s->states,
        .y = y,
        .x = x,
        .b = p->b,
        .c = p->c,
        .mix = mix,
        .decay = decays,
        .d = ((const float *)s->d.data)[head],
        .h = p->state.h + head * s->states * s->width,
    };
    j->kernels->ssd_rows(&r);
    if (p->to < SSD_CHUNK) {
        for (int64_t t = p->from; t < p->to; t++)
            memcpy(kept + t * s->width, x[t], (size_t)s->width * sizeof(float));
        return;
    }
    const float *dt = p->state.dt + head * SSD_CHUNK;
    for (int64_t t = 0; t < SSD_CHUNK; t++)
        for (int64_t i = 0; i < s->width; i++) scaled[t * s->width + i] = dt[t] * x[t][i];
    j->kernels->ssd_carry(&r, scaled, p->state.decay[head]);
}

static struct piece piece_at(const struct ssd_job *j, const struct run *run, int64_t done) {
    struct piece p = {.run = *run, .from = (run->index + done) % SSD_CHUNK};
    p.row = run->row + done - p.from;
    int64_t left = run->n - done, room = SSD_CHUNK - p.from;
    p.to = p.from + (left < room ? left : room);
    p.state = state_of(j->s, run->state);
    return p;
}

static void ssd_task(void *arg, int task, int thread) {
    const struct ssd_job *j = arg;
    const struct ssd *s = j->s;
    int64_t each = s->heads / s->groups, tasks = j->blocks * s->groups;
    struct run run = run_at(j->rows, task / tasks, j->state);
    int64_t group = task % tasks / j->blocks, block = task % j->blocks;
    int64_t first = group * each + block * SSD_HEADS, end = (group + 1) * each;
    if (end > first + SSD_HEADS) end = first + SSD_HEADS;
    float *work = j->work + thread * ssd_work(s->width);
    for (int64_t done = 0; done < run.n;) {
        struct piece p = piece_at(j, &run, done);
        point_group(j, &p, group);
        struct ssd_rows r = {.from = p.from, .to = p.to, .states = s->states, .b = p.b, .c = p.c};
        j->kernels->ssd_scores(&r, work);
        for (int64_t head = first; head < end; head++) ssd_head(j, &p, head, work);
        done += p.to - p.from;
    }
}

// The b of a run's last rows, whose chunk is not over. When all heads are done, since they read
// those of the chunk before it.
static void keep_b(const struct ssd_job *j, const struct run *run) {
    size_t width = (size_t)(j->s->groups * j->s->states);
    float *b = state_of(j->s, run->state).b;
    int64_t end = (run->index + run->n) % SSD_CHUNK, n = end < run->n ? end : run->n;
    for (int64_t t = end - n; t < end; t++)
        memcpy(b + (size_t)t * width, at(j->in->b, run->row + run->n - end + t, 0),
               width * sizeof(float));
}

void cpu_ssd_scan(struct context *c, struct tensor y, const struct ssd_inputs *in,
                  const struct ssd *s, const struct rows *rows, struct tensor state) {
    size_t mark = scratch_mark(c);
    int64_t threads = pool_threads(c->dev->pool);
    struct tensor work = scratch_tensor(c, DT_F32, 2, (int64_t[]){threads, ssd_work(s->width)});
    if (!c->dry && !c->err.set && rows->n > 0) {
        struct ssd_job j = {c->dev->kernels, y, state, in, s, rows, .work = work.data};
        j.blocks = (s->heads / s->groups + SSD_HEADS - 1) / SSD_HEADS;
        pool_run(c->dev->pool, (int)(rows->runs * j.blocks * s->groups), ssd_task, &j);
        for (int64_t i = 0; i < rows->runs; i++) {
            struct run run = run_at(rows, i, state);
            keep_b(&j, &run);
        }
    }
    scratch_release(c, mark);
}
