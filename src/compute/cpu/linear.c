// Products with weights: tiles of outputs and rows, split over the threads.
#include "compute/cpu/cpu.h"

struct linear_job {
    const struct cpu_kernels *kernels;
    struct matmul product[LINEAR_MAX];
    int64_t first_task[LINEAR_MAX + 1]; // of each product
    int64_t outputs;                    // of a task
    int64_t rows, step, bands;          // x is cut into bands of `step` rows
    float *work;                        // work_size floats a thread
    int64_t work_size;
    bool gated; // the last step of glu: act(product 0) * product 1
    enum activation act;
};

static void linear_task(void *arg, int task, int thread) {
    const struct linear_job *j = arg;
    int i = 0;
    while (task >= j->first_task[i + 1]) i++;
    const struct matmul *m = &j->product[i];
    int64_t at = (task - j->first_task[i]) / j->bands, band = (task - j->first_task[i]) % j->bands;
    struct tile t = {.r0 = band * j->step, .o0 = at * j->outputs};
    t.r1 = t.r0 + j->step < j->rows ? t.r0 + j->step : j->rows;
    t.o1 = t.o0 + j->outputs < m->w->out ? t.o0 + j->outputs : m->w->out;
    float *work = j->work + thread * j->work_size;
    j->kernels->matmul(m, &t, work);
    if (!j->gated) return;
    const struct matmul *up = &j->product[1];
    j->kernels->matmul(up, &t, work);
    for (int64_t r = t.r0; r < t.r1; r++) {
        float *y = m->y + r * m->ldy + t.o0;
        j->kernels->act_mul(y, y, up->y + r * up->ldy + t.o0, t.o1 - t.o0, j->act);
    }
}

struct quantize_job {
    const struct cpu_kernels *kernels;
    struct tensor x;
    struct q8 *q;
    enum q8_kind kind;
};

static void quantize_row(void *arg, int64_t row) {
    const struct quantize_job *j = arg;
    j->kernels->quantize(j->q + row * (j->x.n[1] / 32),
                         (const float *)j->x.data + row * j->x.stride[0], j->x.n[1], j->kind);
}

static struct q8 *round_rows(struct context *c, struct tensor x, const struct weight *w) {
    int64_t blocks = x.n[0] * (x.n[1] / 32);
    struct tensor room =
        scratch_tensor(c, DT_U8, 2, (int64_t[]){blocks, (int64_t)sizeof(struct q8)});
    if (c->dry || c->err.set) return NULL;
    struct quantize_job j = {c->dev->kernels, x, room.data, q8_kind_of(w)};
    cpu_rows(c, x.n[0], 2 * x.n[1], quantize_row, &j);
    return j.q;
}

struct order_job {
    struct tensor y, x;
    const int32_t *order;
};

static void order_row(void *arg, int64_t row) {
    const struct order_job *j = arg;
    float *y = (float *)j->y.data + row * j->y.stride[0];
    const float *x = (const float *)j->x.data + row * j->x.stride[0];
    for (int64_t i = 0; i < j->y.n[1]; i++) y[i] = x[j->order[i]];
}

// The columns of x [rows, in] in the order in which w's come: x, or a copy in scratch.
static struct tensor ordered(struct context *c, struct tensor x, const struct weight *w) {
    if (!w->order.dims) return x;
    struct order_job j = {scratch_tensor(c, DT_F32, 2, x.n), x, w->order.data};
    if (!c->dry && !c->err.set) cpu_rows(c, x.n[0], x.n[1], order_row, &j);
    return j.y;
}

static bool rounds_for(const struct context *c, const struct weight *w) {
    bool known = w->layout == WEIGHT_MXFP4 || (w->layout == WEIGHT_AFFINE && w->bits > 1) ||
                 (w->layout == WEIGHT_NVFP4 && w->in % 32 == 0);
    known = known && w->in * w->bits >= 128; // kernels read 16 bytes at a time
    return known && c->precision == PRECISION_NATIVE && c->dev->kernels->quantize;
}

static bool in_bf16(const struct context *c, const struct weight *w) {
    return c->dev->isa == ISA_AVX512_BF16 && c->precision == PRECISION_NATIVE &&
           w->layout == WEIGHT_DENSE && w->data.type == DT_BF16 && w->data.stride[1] == 1;
}

// Tasks of as many outputs as leave each thread several; where the outputs are too few for that,
// x is cut into bands of rows as well, not too short, since every band decodes the weights again.
static void cut_tasks(struct linear_job *j, int count, const struct weight *const w[],
                      int64_t outputs, int64_t threads) {
    enum { TASKS = 6, LEAST_OUTPUTS = 32, MOST_OUTPUTS = 256, LEAST_ROWS = 48 };
    j->outputs = outputs / (TASKS * threads) / LEAST_OUTPUTS * LEAST_OUTPUTS;
    if (j->outputs < LEAST_OUTPUTS) j->outputs = LEAST_OUTPUTS;
    if (j->outputs > MOST_OUTPUTS) j->outputs = MOST_OUTPUTS;
    j->bands = TASKS * threads * j->outputs / (outputs > 0 ? outputs : 1);
    if (j->bands > j->rows / LEAST_ROWS) j->bands = j->rows / LEAST_ROWS;
    if (j->bands < 1 || threads == 1) j->bands = 1;
    j->step = (j->rows + j->bands - 1) / j->bands;
    j->bands = (j->rows + j->step - 1) / j->step;
    for (int i = 0; i < count; i++)
        j->first_task[i + 1] =
            j->first_task[i] + (w[i]->out + j->outputs - 1) / j->outputs * j->bands;
}

struct matmul cpu_product(struct context *c, struct tensor y, struct tensor x,
                          const struct weight *w, bool alone, struct q8 *rounded[Q8_KINDS]) {
    struct q8 *own = NULL, **q = alone ? &own : &rounded[q8_kind_of(w)];
    bool rounds = rounds_for(c, w);
    if (rounds && !*q) *q = round_rows(c, x, w);
    return (struct matmul){w,           x.data,      rounds ? *q : NULL, y.data,
                           x.stride[0], y.stride[0], in_bf16(c, w)};
}

// Fills j's products and runs them.
static void run_products(struct context *c, struct linear_job *j, int count, struct tensor y[],
                         struct tensor x, const struct weight *const w[]) {
    int64_t threads = pool_threads(c->dev->pool);
    j->kernels = c->dev->kernels;
    j->rows = x.n[0];
    j->work_size = matmul_work(x.n[1]);
    struct tensor work = scratch_tensor(c, DT_F32, 2, (int64_t[]){threads, j->work_size});
    j->work = work.data;
    struct q8 *rounded[Q8_KINDS] = {NULL};
    int64_t outputs = 0;
    for (int i = 0; i < count; i++) {
        j->product[i] =
            cpu_product(c, y[i], ordered(c, x, w[i]), w[i], w[i]->order.dims > 0, rounded);
        outputs += w[i]->out;
    }
    if (c->dry || c->err.set || x.n[0] == 0) return;
    cut_tasks(j, count, w, outputs, threads);
    pool_run(c->dev->pool, (int)j->first_task[j->gated ? 1 : count], linear_task, j);
}

void cpu_linear(struct context *c, int count, struct tensor y[], struct tensor x,
                const struct weight *const w[]) {
    size_t mark = scratch_mark(c);
    struct linear_job j = {0};
    run_products(c, &j, count, y, x, w);
    scratch_release(c, mark);
}

void cpu_glu(struct context *c, struct tensor y, struct tensor x, const struct weight *gate,
             const struct weight *up, enum activation act) {
    size_t mark = scratch_mark(c);
    struct linear_job j = {.gated = true, .act = act};
    struct tensor pair[2] = {y, scratch_tensor(c, DT_F32, 2, y.n)};
    run_products(c, &j, 2, pair, x, (const struct weight *const[]){gate, up});
    scratch_release(c, mark);
}
