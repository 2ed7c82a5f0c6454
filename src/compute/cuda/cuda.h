// The CUDA backend's own names: what its files share. cuda.c has the device and its memory, the .cu
// files the ops, each with the signature of its entry in ops.h. Every op enqueues on the device's
// one stream; a launch that fails is noted in the context.
#ifndef COMPUTE_CUDA_CUDA_H
#define COMPUTE_CUDA_CUDA_H

#include <cuda_runtime_api.h>

#include "compute/ops.h"

struct blas; // cuBLASLt, where the machine has it

enum { ARRIVED = 4096 };
struct cuda {
    int index, processors;
    cudaStream_t stream;
    struct error err; // of what has no context: copies. Surfaces at the next read
    struct blas *blas;
    bool pins;                   // weights are loaded through pinned memory ...
    struct staging *staging;     // ... which is there while they are
    struct recording *recording; // kept steps
    int recordings;
    bool is_recording, is_single;    // a step, of one row
    int32_t *arrived;                // [ARRIVED] counters of blocks, zeros between launches
    bool pairs;                      // a launch may begin while the one before it ends
    bool hopper;                     // runs what is compiled for sm_90a ...
    void *encode_map;                // ... with the driver's cuTensorMapEncodeTiled
    size_t block_shared, all_shared; // shared memory of a block at most, and of a processor
};

// Notes a failed call.
bool cuda_ok(struct error *e, cudaError_t status, const char *what);

void cuda_upload(struct device *d, void *dst, const void *src, size_t size);
// Weights' way to the device (staging.c).
void cuda_load(struct device *d, void *dst, const void *src, size_t size);
bool cuda_loaded(struct device *d, struct error *e);
void cuda_drop_staging(struct cuda *cuda);

// cuBLASLt: NULL when the machine has none.
struct blas *blas_open(void);
void blas_close(struct blas *b);
// y [n, out] F32 or BF16 = x [n, in] w [out, in]^T, x and w both of BF16 or of F32, or y += that;
// ldw from row to row. x may have more rows. False: not done.
bool blas_product(struct blas *b, cudaStream_t s, struct tensor y, bool add, struct tensor x,
                  const void *w, int64_t ldw);
// y [n, heads, out] F32: each head of x [n, heads, in] BF16 by its matrix of w, [heads, out, in] or
// where they are columns [heads, in, out].
bool blas_heads(struct blas *b, cudaStream_t s, struct tensor y, struct tensor x, const void *w,
                bool columns);

void cuda_embed(struct context *c, struct tensor y, const struct weight *w, struct tensor ids);
void cuda_linear(struct context *c, int count, struct tensor y[], struct tensor x,
                 const struct weight *const w[]);
void cuda_glu(struct context *c, struct tensor y, struct tensor x, const struct weight *gate,
              const struct weight *up, enum activation act);
bool cuda_around(struct context *c, const struct around *a);
bool cuda_around_many(struct context *c, const struct around *a); // its part for many rows
bool cuda_narrows(const struct context *c, int64_t rows, const struct weight *w);
void cuda_act_mul(struct context *c, struct tensor y, struct tensor a, struct tensor b,
                  enum activation act);
void cuda_activate(struct context *c, struct tensor x, enum activation act);
void cuda_rms_norm(struct context *c, struct tensor y, struct tensor x, struct tensor w, float eps);
// y [n, width] BF16; rows of x begin at multiples of 16 bytes, and so long are those of y too
void cuda_rms_norm_narrow(struct context *c, struct tensor y, struct tensor x,
                          const struct rms *norm);
// to BF16 from F32, or the other way; both contiguous
void cuda_convert(struct context *c, struct tensor to, struct tensor from);
void cuda_layer_norm(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                     struct tensor b, float eps);
void cuda_add_to(struct context *c, struct tensor x, struct tensor y);
void cuda_copy_to(struct context *c, struct tensor to, struct tensor from);
void cuda_scale(struct context *c, struct tensor x, float by);
void cuda_soft_cap(struct context *c, struct tensor x, float cap);
void cuda_gather_rows(struct context *c, struct tensor y, struct tensor x, struct tensor rows);
void cuda_take_bands(struct context *c, struct tensor y, struct tensor x, int64_t period,
                     int64_t from, int64_t count);
void cuda_rope(struct context *c, struct tensor x, const struct rows *rows, const struct rope *r);
void cuda_kv_write(struct context *c, const struct kv *kv, const struct rows *rows, struct tensor k,
                   struct tensor v);
bool cuda_place_heads(struct context *c, const struct kv *kv, const struct rows *rows,
                      struct tensor q, struct tensor k, struct tensor v, const struct placing *p);
void cuda_attention(struct context *c, struct tensor y, struct tensor q, const struct kv *kv,
                    const struct rows *rows, const struct attention_options *opt);
bool cuda_placed_attention(struct context *c, struct tensor y, struct tensor q, struct tensor k,
                           struct tensor v, const struct placing *p, const struct kv *kv,
                           const struct rows *rows, const struct attention_options *opt);
void cuda_scale_rows(struct context *c, struct tensor x, struct tensor by);
void cuda_clamp(struct context *c, struct tensor x, float least, float most, float plus);
void cuda_join(struct context *c, struct tensor y, struct tensor a, struct tensor b);
void cuda_argmax(struct context *c, struct tensor y, struct tensor x);
void cuda_top_logits(struct context *c, const struct top_logits *to, struct tensor x,
                     struct tensor by);
void cuda_bound_ids(struct context *c, struct tensor y, struct tensor ids, int64_t limit);
void cuda_select_keys(struct context *c, struct tensor y, struct tensor q, struct tensor weights,
                      const struct kv *kv, const struct rows *rows);
void cuda_head_linear(struct context *c, struct tensor y, struct tensor x, const struct matrices *w,
                      bool columns);
bool cuda_head_linear_many(struct context *c, struct tensor y, struct tensor x,
                           const struct matrices *w, bool columns); // dry too; false: not done
void cuda_scale_columns(struct context *c, struct tensor x, struct tensor by);
void cuda_match_size(struct context *c, struct tensor x, struct tensor like, float least);
void cuda_cut_below(struct context *c, struct tensor x, float by);
void cuda_mix_streams(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                      int64_t in);
void cuda_route(struct context *c, const struct routes *r, struct tensor logits,
                const struct route_options *opt);
void cuda_expert_linear(struct context *c, struct tensor y, struct tensor x, const struct routes *r,
                        const struct matrices *w);
void cuda_expert_glu(struct context *c, struct tensor y, struct tensor x, const struct routes *r,
                     const struct matrices *gate, const struct matrices *up,
                     const struct gating *g);
void cuda_expert_sum(struct context *c, struct tensor y, struct tensor x, const struct routes *r);
void cuda_convolve(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                   struct tensor b, const struct rows *rows, struct tensor state);
bool cuda_convolve_many(struct context *c, int count, const struct convolution *v,
                        const struct rows *rows, struct tensor y[]);
void cuda_delta_gates(struct context *c, struct tensor beta, struct tensor g, struct tensor x,
                      int64_t each, struct tensor rate, struct tensor bias);
bool cuda_gated_norm(struct context *c, struct tensor y, struct tensor x, const struct rms *norm,
                     const struct norm_gate *gate);
void cuda_selective_scan(struct context *c, struct tensor y, const struct scan_inputs *in,
                         struct tensor a, struct tensor d, const struct rows *rows,
                         struct tensor state);
void cuda_ssd_scan(struct context *c, struct tensor y, const struct ssd_inputs *in,
                   const struct ssd *s, const struct rows *rows, struct tensor state);
void cuda_gated_lru(struct context *c, struct tensor y, const struct lru_inputs *in,
                    struct tensor rate, const struct rows *rows, struct tensor state);
void cuda_log_decay(struct context *c, struct tensor y, struct tensor x, struct tensor rate,
                    struct tensor bias);
void cuda_delta_rule(struct context *c, struct tensor y, const struct delta_inputs *in,
                     const struct delta *d, const struct rows *rows, struct tensor state);
// What around tells, of 2 and more rows of dense BF16 weights (dense_hopper.cu) and x [n, in] in
// BF16, normed before. False: not done.
bool dense_around(struct context *c, const struct around *a, struct tensor x);
// Whether it does products of w in a step of so many rows.
bool dense_takes(const struct context *c, int64_t rows, const struct weight *w);
// What around tells, of 2 and more rows (tiles_hopper.cu). False: not done.
bool tiles_around(struct context *c, const struct around *a);
// Whether it does products of w in a step of so many rows.
bool tiles_take(const struct context *c, int64_t rows, const struct weight *w);
// Experts' products of x [m, in], or where `rows` of the rows of x that the entries have; gated
// where there is `up`. False: not done.
bool tiles_experts(struct context *c, struct tensor y, struct tensor x, const struct routes *r,
                   const struct matrices *w, const struct matrices *up, const struct gating *g,
                   bool rows);
bool cuda_expert_glu_rows(struct context *c, struct tensor y, struct tensor x,
                          const struct routes *r, const struct matrices *gate,
                          const struct matrices *up, const struct gating *g);
void cuda_expert_sum_to(struct context *c, struct tensor to, struct tensor x,
                        const struct routes *r);
bool cuda_mixture(struct context *c, struct tensor y, bool add, struct tensor x,
                  const struct rms *norm, const struct mixture *m);
bool cuda_measure(struct device *d, struct device_speed *out, struct error *e);

#endif
