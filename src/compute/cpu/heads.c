// A matrix for each head: what latent attention puts queries into, and takes values out with.
#include "compute/cpu/cpu.h"

#include <string.h>

struct heads_job {
    const struct cpu_kernels *kernels;
    const struct matrices *w;
    struct tensor y, x;
    bool columns;
    int64_t outputs, tiles; // of a task; of a head
    float *work;            // work_size floats a thread
    int64_t work_size;
};

// y = x w^T for one tile of a head's outputs
static void rows_task(void *arg, int task, int thread) {
    const struct heads_job *j = arg;
    int64_t head = task / j->tiles, in = j->x.n[2], out = j->y.n[2];
    struct matmul m = {.w = &j->w->w[head], .ldx = j->x.stride[0], .ldy = j->y.stride[0]};
    m.x = (const float *)j->x.data + head * in;
    m.y = (float *)j->y.data + head * out;
    struct tile t = {.r1 = j->x.n[0], .o0 = task % j->tiles * j->outputs};
    t.o1 = t.o0 + j->outputs < out ? t.o0 + j->outputs : out;
    j->kernels->matmul(&m, &t, j->work + thread * j->work_size);
}

// y = x w for a head: each of w's rows is decoded once, and added to every row of y.
static void columns_task(void *arg, int task, int thread) {
    const struct heads_job *j = arg;
    int64_t in = j->x.n[2], out = j->y.n[2];
    const float *x = (const float *)j->x.data + task * in;
    float *y = (float *)j->y.data + task * out, *row = j->work + thread * j->work_size;
    for (int64_t r = 0; r < j->x.n[0]; r++)
        memset(y + r * j->y.stride[0], 0, (size_t)out * sizeof *y);
    for (int64_t i = 0; i < in; i++) {
        j->kernels->dequantize_row(&j->w->w[task], i, row);
        for (int64_t r = 0; r < j->x.n[0]; r++)
            j->kernels->add_scaled(y + r * j->y.stride[0], row, out, x[r * j->x.stride[0] + i]);
    }
}

void cpu_head_linear(struct context *c, struct tensor y, struct tensor x, const struct matrices *w,
                     bool columns) {
    enum { OUTPUTS = 128 };
    size_t mark = scratch_mark(c);
    struct heads_job j = {c->dev->kernels, w, y, x, columns, .outputs = OUTPUTS};
    j.tiles = columns ? 1 : (y.n[2] + OUTPUTS - 1) / OUTPUTS;
    j.work_size = columns ? y.n[2] : matmul_work(x.n[2]);
    int64_t threads = pool_threads(c->dev->pool);
    j.work = scratch_tensor(c, DT_F32, 2, (int64_t[]){threads, j.work_size}).data;
    if (!c->dry && !c->err.set && x.n[0] > 0)
        pool_run(c->dev->pool, (int)(w->n * j.tiles), columns ? columns_task : rows_task, &j);
    scratch_release(c, mark);
}
