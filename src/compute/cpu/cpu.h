// Shared by the files of the CPU backend.
#ifndef COMPUTE_CPU_CPU_H
#define COMPUTE_CPU_CPU_H

#include "base/pool.h"
#include "compute/cpu/kernels.h"
#include "compute/ops.h"

// Splits the rows [0, n) over the threads when there is enough to do (cost: elements a row).
void cpu_rows(struct context *c, int64_t n, int64_t cost, void (*fn)(void *arg, int64_t row),
              void *arg);

void cpu_linear(struct context *c, int count, struct tensor y[], struct tensor x,
                const struct weight *const w[]);
void cpu_glu(struct context *c, struct tensor y, struct tensor x, const struct weight *gate,
             const struct weight *up, enum activation act);
void cpu_attention(struct context *c, struct tensor y, struct tensor q, const struct kv *kv,
                   const struct rows *rows, const struct attention_options *opt);
bool cpu_measure(struct device *d, struct device_speed *out, struct error *e);

#endif
