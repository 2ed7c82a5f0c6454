// Experts: the router's choice, and products in which every row has its expert's weights.
#include "compute/cpu/cpu.h"

#include <math.h>
#include <string.h>

// --- the choice ----------------------------------------------------------------------------------

struct route_job {
    const struct routes *r;
    struct tensor logits;
    const struct route_options *opt;
    float *score, *choice; // [n, experts]: an expert's score, and what it is chosen by
};

static void softmax(float *y, const float *x, int64_t n) {
    float top = x[0], sum = 0;
    for (int64_t i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    for (int64_t i = 0; i < n; i++) sum += y[i] = expf(x[i] - top);
    for (int64_t i = 0; i < n; i++) y[i] /= sum;
}

static void score_experts(enum route_score kind, float *score, const float *logit, int64_t n) {
    switch (kind) {
    case ROUTE_SOFTMAX: softmax(score, logit, n); break;
    case ROUTE_SIGMOID:
        for (int64_t i = 0; i < n; i++) score[i] = 1 / (1 + expf(-logit[i]));
        break;
    case ROUTE_TOP_SOFTMAX: memcpy(score, logit, (size_t)n * sizeof *score); break;
    }
}

// The first of the largest; takes it out. What is NaN is taken last.
static int32_t take_best(float *x, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i]))) best = i;
    x[best] = NAN;
    return (int32_t)best;
}

static float group_value(const float *x, int64_t n, enum group_score kind) {
    float best = -INFINITY, second = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] > best) {
            second = best;
            best = x[i];
        } else if (x[i] > second) {
            second = x[i];
        }
    }
    return kind == GROUP_BEST ? best : best + second;
}

// Takes out the experts of all but the best groups.
static void limit_groups(float *choice, int64_t experts, const struct route_options *opt) {
    int64_t each = experts / opt->groups;
    for (int64_t worse = opt->groups - opt->top_groups; worse > 0; worse--) {
        int64_t least = -1;
        float lowest = INFINITY;
        for (int64_t g = 0; g < opt->groups; g++) {
            float value = group_value(choice + g * each, each, opt->group_score);
            bool out = isnan(choice[g * each]);
            if (!out && value <= lowest) {
                lowest = value;
                least = g;
            }
        }
        for (int64_t i = 0; i < each && least >= 0; i++) choice[least * each + i] = NAN;
    }
}

static void weigh(float *weight, int64_t top, const struct route_options *opt) {
    if (opt->score == ROUTE_TOP_SOFTMAX) softmax(weight, weight, top);
    float sum = 0;
    for (int64_t i = 0; i < top; i++) sum += weight[i];
    float by = opt->scale / (opt->normalize ? sum + 1e-20f : 1); // they may all have gone to 0
    for (int64_t i = 0; i < top; i++) weight[i] *= by;
}

static void route_row(void *arg, int64_t row) {
    const struct route_job *j = arg;
    int64_t experts = j->logits.n[1], top = j->opt->top;
    float *score = j->score + row * experts, *choice = j->choice + row * experts;
    int32_t *id = (int32_t *)j->r->ids.data + row * top;
    float *weight = (float *)j->r->weights.data + row * top;
    score_experts(j->opt->score, score, (const float *)j->logits.data + row * j->logits.stride[0],
                  experts);
    const float *bias = j->opt->bias.dims ? j->opt->bias.data : NULL;
    for (int64_t i = 0; i < experts; i++) choice[i] = score[i] + (bias ? bias[i] : 0);
    if (j->opt->groups) limit_groups(choice, experts, j->opt);
    for (int64_t i = 0; i < top; i++) {
        id[i] = take_best(choice, experts);
        weight[i] = score[id[i]];
    }
    weigh(weight, top, j->opt);
}

// Sorts the entries by expert, by counting.
static void sort_entries(const struct routes *r) {
    const int32_t *id = r->ids.data;
    int32_t *start = r->start.data, *order = r->order.data, *row = r->row.data;
    int32_t *place = r->place.data, m = (int32_t)r->order.n[0], top = (int32_t)r->ids.n[1];
    int64_t experts = r->start.n[0] - 1;
    memset(start, 0, (size_t)(experts + 1) * sizeof *start);
    for (int32_t i = 0; i < m; i++) start[id[i] + 1]++;
    for (int64_t e = 0; e < experts; e++) start[e + 1] += start[e];
    for (int32_t i = 0; i < m; i++) {
        int32_t at = start[id[i]]++;
        order[at] = i;
        row[at] = i / top;
        place[i] = at;
    }
    memmove(start + 1, start, (size_t)experts * sizeof *start); // each had run to its own end
    start[0] = 0;
}

void cpu_route(struct context *c, const struct routes *r, struct tensor logits,
               const struct route_options *opt) {
    size_t mark = scratch_mark(c);
    struct tensor score = scratch_tensor(c, DT_F32, 2, logits.n);
    struct tensor choice = scratch_tensor(c, DT_F32, 2, logits.n);
    if (!c->dry && !c->err.set) {
        struct route_job j = {r, logits, opt, score.data, choice.data};
        cpu_rows(c, logits.n[0], logits.n[1] * (8 + opt->top), route_row, &j);
        sort_entries(r);
    }
    scratch_release(c, mark);
}

// --- products ------------------------------------------------------------------------------------

struct expert_job {
    const struct cpu_kernels *kernels;
    const struct matrices *w[2];
    struct matmul product[2]; // with the first expert's weight
    int count;                // of products
    const int32_t *start;     // [experts + 1]
    int32_t *active;          // the experts that have entries
    int64_t outputs, tiles;   // of a task; of an expert
    float *work;              // work_size floats a thread
    int64_t work_size;
    const struct gating *gating; // of two products
};

static void gate_tile(const struct expert_job *j, const struct tile *t) {
    const struct matmul *a = &j->product[0], *b = &j->product[1];
    const struct gating *g = j->gating;
    float limit = g->limit > 0 ? g->limit : INFINITY;
    int64_t n = t->o1 - t->o0;
    for (int64_t r = t->r0; r < t->r1; r++) {
        float *y = a->y + r * a->ldy + t->o0, *up = b->y + r * b->ldy + t->o0;
        if (g->limit > 0) j->kernels->clamp(y, n, -INFINITY, limit, 0);
        if (g->limit > 0 || g->plus != 0) j->kernels->clamp(up, n, -limit, limit, g->plus);
        j->kernels->act_mul(y, y, up, n, g->act);
    }
}

static void expert_task(void *arg, int task, int thread) {
    const struct expert_job *j = arg;
    int32_t expert = j->active[task / j->tiles];
    struct tile t = {.r0 = j->start[expert], .r1 = j->start[expert + 1]};
    t.o0 = task % j->tiles * j->outputs;
    for (int i = 0; i < j->count; i++) {
        struct matmul m = j->product[i];
        m.w = &j->w[i]->w[expert];
        t.o1 = t.o0 + j->outputs < m.w->out ? t.o0 + j->outputs : m.w->out;
        j->kernels->matmul(&m, &t, j->work + thread * j->work_size);
    }
    if (j->gating) gate_tile(j, &t);
}

// Tasks of as many outputs of one expert as leave each thread several.
static int cut_tasks(struct expert_job *j, int64_t threads) {
    enum { TASKS = 6, LEAST_OUTPUTS = 32, MOST_OUTPUTS = 256 };
    int64_t experts = j->w[0]->n, out = j->w[0]->w[0].out;
    int32_t active = 0;
    for (int32_t e = 0; e < experts; e++)
        if (j->start[e + 1] > j->start[e]) j->active[active++] = e;
    j->outputs = active * out / (TASKS * threads) / LEAST_OUTPUTS * LEAST_OUTPUTS;
    if (j->outputs < LEAST_OUTPUTS) j->outputs = LEAST_OUTPUTS;
    if (j->outputs > MOST_OUTPUTS) j->outputs = MOST_OUTPUTS;
    j->tiles = (out + j->outputs - 1) / j->outputs;
    return (int)(active * j->tiles);
}

static bool any_ordered(const struct matrices *w) {
    for (int64_t e = 0; e < w->n; e++)
        if (w->w[e].order.dims) return true;
    return false;
}

// The columns of each entry's row in the order in which those of its expert's matrix come.
static struct tensor order_entries(struct context *c, struct tensor x, const struct routes *r,
                                   const struct matrices *w) {
    struct tensor y = scratch_tensor(c, DT_F32, 2, x.n);
    const int32_t *start = r->start.data;
    for (int64_t e = 0; e < w->n && !c->dry && !c->err.set; e++) {
        const int32_t *order = w->w[e].order.dims ? w->w[e].order.data : NULL;
        for (int64_t row = start[e]; row < start[e + 1]; row++) {
            float *to = (float *)y.data + row * y.stride[0];
            const float *from = (const float *)x.data + row * x.stride[0];
            for (int64_t i = 0; i < x.n[1]; i++) to[i] = from[order ? order[i] : i];
        }
    }
    return y;
}

static void run_experts(struct context *c, struct expert_job *j, struct tensor y[], struct tensor x,
                        const struct routes *r) {
    int64_t threads = pool_threads(c->dev->pool);
    j->kernels = c->dev->kernels;
    j->work_size = matmul_work(x.n[1]);
    j->work = scratch_tensor(c, DT_F32, 2, (int64_t[]){threads, j->work_size}).data;
    j->active = scratch_tensor(c, DT_I32, 1, &j->w[0]->n).data;
    struct q8 *rounded[Q8_KINDS] = {NULL};
    for (int i = 0; i < j->count; i++) {
        bool ordered = any_ordered(j->w[i]);
        struct tensor in = ordered ? order_entries(c, x, r, j->w[i]) : x;
        j->product[i] = cpu_product(c, y[i], in, j->w[i]->w, ordered, rounded);
    }
    if (c->dry || c->err.set || x.n[0] == 0) return;
    j->start = r->start.data;
    pool_run(c->dev->pool, cut_tasks(j, threads), expert_task, j);
}

void cpu_expert_linear(struct context *c, struct tensor y, struct tensor x, const struct routes *r,
                       const struct matrices *w) {
    size_t mark = scratch_mark(c);
    struct expert_job j = {.w = {w}, .count = 1};
    run_experts(c, &j, &y, x, r);
    scratch_release(c, mark);
}

void cpu_expert_glu(struct context *c, struct tensor y, struct tensor x, const struct routes *r,
                    const struct matrices *gate, const struct matrices *up,
                    const struct gating *g) {
    size_t mark = scratch_mark(c);
    struct expert_job j = {.w = {gate, up}, .count = 2, .gating = g};
    run_experts(c, &j, (struct tensor[]){y, scratch_tensor(c, DT_F32, 2, y.n)}, x, r);
    scratch_release(c, mark);
}

struct sum_job {
    const struct cpu_kernels *kernels;
    struct tensor y, x;
    const struct routes *r;
};

static void sum_row(void *arg, int64_t row) {
    const struct sum_job *j = arg;
    int64_t top = j->r->ids.n[1], width = j->y.n[1];
    const int32_t *place = (const int32_t *)j->r->place.data + row * top;
    const float *weight = j->r->weights.dims ? (const float *)j->r->weights.data + row * top : NULL;
    float *y = (float *)j->y.data + row * j->y.stride[0];
    memset(y, 0, (size_t)width * sizeof *y);
    for (int64_t i = 0; i < top; i++)
        j->kernels->add_scaled(y, (const float *)j->x.data + place[i] * j->x.stride[0], width,
                               weight ? weight[i] : 1);
}

void cpu_expert_sum(struct context *c, struct tensor y, struct tensor x, const struct routes *r) {
    struct sum_job j = {c->dev->kernels, y, x, r};
    cpu_rows(c, y.n[0], r->ids.n[1] * y.n[1], sum_row, &j);
}
