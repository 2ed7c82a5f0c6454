// Shared by the files of the CPU backend.
#ifndef COMPUTE_CPU_CPU_H
#define COMPUTE_CPU_CPU_H

#include "base/pool.h"
#include "compute/cpu/kernels.h"
#include "compute/ops.h"

// Splits the rows [0, n) over the threads when there is enough to do (cost: elements a row).
void cpu_rows(struct context *c, int64_t n, int64_t cost, void (*fn)(void *arg, int64_t row),
              void *arg);

// The product y = x w^T. Where the context's precision and w allow it, x is rounded for it: to bf16
// by the kernel, or to 8 bits in scratch, once for all weights of a kind, unless it is in an order
// of columns that is w's alone.
struct matmul cpu_product(struct context *c, struct tensor y, struct tensor x,
                          const struct weight *w, bool alone, struct q8 *rounded[Q8_KINDS]);

void cpu_linear(struct context *c, int count, struct tensor y[], struct tensor x,
                const struct weight *const w[]);
void cpu_glu(struct context *c, struct tensor y, struct tensor x, const struct weight *gate,
             const struct weight *up, enum activation act);
void cpu_attention(struct context *c, struct tensor y, struct tensor q, const struct kv *kv,
                   const struct rows *rows, const struct attention_options *opt);
// Attention to the tokens of opt->selected.
void cpu_attention_selected(struct context *c, struct tensor y, struct tensor q,
                            const struct kv *kv, const struct rows *rows,
                            const struct attention_options *opt);
// How a cache's elements stand within a page (struct kept): keys that are no values stand across.
static inline bool keys_across(const struct kv *kv) { return kv->v.n[3] > 0; }
// A head's keys, or values, of a page from token `slot` on.
struct kept cpu_kept(const struct kv *kv, int64_t page, int64_t head, int64_t slot, bool keys);
// What a step says of the cache.
void cpu_attend_layout(const struct kv *kv, struct attend *a);
void cpu_kv_write(struct context *c, const struct kv *kv, const struct rows *rows, struct tensor k,
                  struct tensor v);
void cpu_select_keys(struct context *c, struct tensor y, struct tensor q, struct tensor weights,
                     const struct kv *kv, const struct rows *rows);
void cpu_head_linear(struct context *c, struct tensor y, struct tensor x, const struct matrices *w,
                     bool columns);
void cpu_route(struct context *c, const struct routes *r, struct tensor logits,
               const struct route_options *opt);
void cpu_expert_linear(struct context *c, struct tensor y, struct tensor x, const struct routes *r,
                       const struct matrices *w);
void cpu_expert_glu(struct context *c, struct tensor y, struct tensor x, const struct routes *r,
                    const struct matrices *gate, const struct matrices *up, const struct gating *g);
void cpu_expert_sum(struct context *c, struct tensor y, struct tensor x, const struct routes *r);
void cpu_convolve(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                  struct tensor b, const struct rows *rows, struct tensor state);
void cpu_selective_scan(struct context *c, struct tensor y, const struct scan_inputs *in,
                        struct tensor a, struct tensor d, const struct rows *rows,
                        struct tensor state);
void cpu_ssd_scan(struct context *c, struct tensor y, const struct ssd_inputs *in,
                  const struct ssd *s, const struct rows *rows, struct tensor state);
void cpu_gated_lru(struct context *c, struct tensor y, const struct lru_inputs *in,
                   struct tensor rate, const struct rows *rows, struct tensor state);
void cpu_log_decay(struct context *c, struct tensor y, struct tensor x, struct tensor rate,
                   struct tensor bias);
void cpu_delta_rule(struct context *c, struct tensor y, const struct delta_inputs *in,
                    const struct delta *d, const struct rows *rows, struct tensor state);
void cpu_top_logits(struct context *c, const struct top_logits *to, struct tensor x,
                    struct tensor by);
bool cpu_measure(struct device *d, struct device_speed *out, struct error *e);

#endif
