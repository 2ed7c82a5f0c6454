// Products with weights: the outputs are split over the threads.
#include "compute/cpu/cpu.h"

enum { TASK_OUTPUTS = 32 };

struct linear_job {
    const struct cpu_kernels *kernels;
    struct matmul product[LINEAR_MAX];
    int64_t first_task[LINEAR_MAX + 1]; // of each product
    float *work;                        // a row a thread
    int64_t work_width;
};

static void linear_task(void *arg, int task, int thread) {
    const struct linear_job *j = arg;
    int i = 0;
    while (task >= j->first_task[i + 1]) i++;
    const struct matmul *m = &j->product[i];
    int64_t from = (task - j->first_task[i]) * TASK_OUTPUTS, to = from + TASK_OUTPUTS;
    if (to > m->w->out) to = m->w->out;
    j->kernels->matmul(m, from, to, j->work + thread * j->work_width);
}

void cpu_linear(struct context *c, int count, struct tensor y[], struct tensor x,
                const struct weight *const w[]) {
    size_t mark = scratch_mark(c);
    int threads = pool_threads(c->dev->pool);
    struct tensor work = scratch_tensor(c, DT_F32, 2, (int64_t[]){threads, x.n[1]});
    struct linear_job j = {.kernels = c->dev->kernels, .work = work.data, .work_width = x.n[1]};
    for (int i = 0; i < count; i++) {
        j.product[i] =
            (struct matmul){w[i], x.data, y[i].data, x.n[0], x.stride[0], y[i].stride[0]};
        j.first_task[i + 1] = j.first_task[i] + (w[i]->out + TASK_OUTPUTS - 1) / TASK_OUTPUTS;
    }
    if (!c->dry && !c->err.set) pool_run(c->dev->pool, (int)j.first_task[count], linear_task, &j);
    scratch_release(c, mark);
}
