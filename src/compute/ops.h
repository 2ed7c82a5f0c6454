// What a backend implements. The front of each op (compute.c) has checked every shape and type and
// has made the result's tensor; a backend computes, and reports a failure through c->err. An entry
// that is NULL runs the composition which defines it. Entries marked "dry too" are also called on a
// dry context: they reserve the scratch memory that they work in, and return before any data is
// touched.
#ifndef COMPUTE_OPS_H
#define COMPUTE_OPS_H

#include "compute/recurrent.h"

enum result { RESULT_IS, RESULT_ADDED, RESULT_GATED };
struct around {
    struct tensor x;
    const struct rms *norm;
    int count;
    const struct weight *const *w;
    struct tensor *y; // [count], or one where gated
    enum result result;
    enum activation act;
};

struct ops {
    void (*embed)(struct context *c, struct tensor y, const struct weight *w, struct tensor ids);
    void (*bound_ids)(struct context *c, struct tensor y, struct tensor ids, int64_t limit);
    // count weights over the same x; dry too
    void (*linear)(struct context *c, int count, struct tensor y[], struct tensor x,
                   const struct weight *const w[]);
    void (*glu)(struct context *c, struct tensor y, struct tensor x, const struct weight *gate,
                const struct weight *up, enum activation act); // dry too; may be NULL
    // Products of a row, with what is around them: x is normed first unless norm is NULL, and what
    // comes out is y, added to y, or for two matrices of the same shape act(y[0]) * y[1] in y[0].
    // False: not done, the composition is run. May be NULL
    bool (*around)(struct context *c, const struct around *a);
    // Whether in a step of so many rows a product of w takes an x that only products read in BF16;
    // it is then made so. May be NULL: never
    bool (*narrows)(const struct context *c, int64_t rows, const struct weight *w);
    void (*act_mul)(struct context *c, struct tensor y, struct tensor a, struct tensor b,
                    enum activation act);
    void (*activate)(struct context *c, struct tensor x, enum activation act);
    void (*rms_norm)(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                     float eps);
    void (*layer_norm)(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                       struct tensor b, float eps);
    void (*add_to)(struct context *c, struct tensor x, struct tensor y);
    void (*copy_to)(struct context *c, struct tensor to, struct tensor from);
    void (*scale)(struct context *c, struct tensor x, float by);
    void (*soft_cap)(struct context *c, struct tensor x, float cap);
    void (*gather_rows)(struct context *c, struct tensor y, struct tensor x, struct tensor rows);
    void (*take_bands)(struct context *c, struct tensor y, struct tensor x, int64_t period,
                       int64_t from, int64_t count);
    void (*rope)(struct context *c, struct tensor x, const struct rows *rows, const struct rope *r);
    bool mixed_cache; // a cache may be of I8, and keys of another type than values
    void (*kv_write)(struct context *c, const struct kv *kv, const struct rows *rows,
                     struct tensor k, struct tensor v);
    // may be NULL
    bool (*place_heads)(struct context *c, const struct kv *kv, const struct rows *rows,
                        struct tensor q, struct tensor k, struct tensor v,
                        const struct placing *p); // in place; false: not done
    // dry too
    void (*attention)(struct context *c, struct tensor y, struct tensor q, const struct kv *kv,
                      const struct rows *rows, const struct attention_options *opt);
    // place_heads, then attention; false: not done. May be NULL
    bool (*placed_attention)(struct context *c, struct tensor y, struct tensor q, struct tensor k,
                             struct tensor v, const struct placing *p, const struct kv *kv,
                             const struct rows *rows, const struct attention_options *opt);
    // dry too
    void (*select_keys)(struct context *c, struct tensor y, struct tensor q, struct tensor weights,
                        const struct kv *kv, const struct rows *rows);
    void (*join)(struct context *c, struct tensor y, struct tensor a, struct tensor b);
    // dry too
    void (*head_linear)(struct context *c, struct tensor y, struct tensor x,
                        const struct matrices *w, bool columns);
    void (*scale_columns)(struct context *c, struct tensor x, struct tensor by);
    void (*match_size)(struct context *c, struct tensor x, struct tensor like, float least);
    void (*cut_below)(struct context *c, struct tensor x, float by);
    void (*mix_streams)(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                        int64_t in);
    void (*scale_rows)(struct context *c, struct tensor x, struct tensor by);
    void (*clamp)(struct context *c, struct tensor x, float least, float most, float plus);
    // Adds to y where `add`, else sets it. False: not done. May be NULL
    bool (*mixture)(struct context *c, struct tensor y, bool add, struct tensor x,
                    const struct rms *norm, const struct mixture *m);
    // dry too
    void (*route)(struct context *c, const struct routes *r, struct tensor logits,
                  const struct route_options *opt);
    // dry too
    void (*expert_linear)(struct context *c, struct tensor y, struct tensor x,
                          const struct routes *r, const struct matrices *w);
    // dry too; may be NULL
    void (*expert_glu)(struct context *c, struct tensor y, struct tensor x, const struct routes *r,
                       const struct matrices *gate, const struct matrices *up,
                       const struct gating *g);
    // of x [n, in]; false: not done. May be NULL
    bool (*expert_glu_rows)(struct context *c, struct tensor y, struct tensor x,
                            const struct routes *r, const struct matrices *gate,
                            const struct matrices *up, const struct gating *g);
    void (*expert_sum)(struct context *c, struct tensor y, struct tensor x, const struct routes *r);
    void (*expert_sum_to)(struct context *c, struct tensor to, struct tensor x,
                          const struct routes *r); // may be NULL
    void (*convolve)(struct context *c, struct tensor y, struct tensor x, struct tensor w,
                     struct tensor b, const struct rows *rows, struct tensor state);
    // may be NULL; false: not done
    bool (*convolve_many)(struct context *c, int count, const struct convolution *v,
                          const struct rows *rows, struct tensor y[]);
    void (*delta_gates)(struct context *c, struct tensor beta, struct tensor g, struct tensor x,
                        int64_t each, struct tensor rate, struct tensor bias); // may be NULL
    // y of F32 or BF16. May be NULL; false: not done
    bool (*gated_norm)(struct context *c, struct tensor y, struct tensor x, const struct rms *norm,
                       const struct norm_gate *gate);
    void (*selective_scan)(struct context *c, struct tensor y, const struct scan_inputs *in,
                           struct tensor a, struct tensor d, const struct rows *rows,
                           struct tensor state);
    // dry too
    void (*ssd_scan)(struct context *c, struct tensor y, const struct ssd_inputs *in,
                     const struct ssd *s, const struct rows *rows, struct tensor state);
    void (*gated_lru)(struct context *c, struct tensor y, const struct lru_inputs *in,
                      struct tensor rate, const struct rows *rows, struct tensor state);
    void (*log_decay)(struct context *c, struct tensor y, struct tensor x, struct tensor rate,
                      struct tensor bias);
    // dry too
    void (*delta_rule)(struct context *c, struct tensor y, const struct delta_inputs *in,
                       const struct delta *d, const struct rows *rows, struct tensor state);
    void (*argmax)(struct context *c, struct tensor y, struct tensor x);
    // dry too
    void (*top_logits)(struct context *c, const struct top_logits *to, struct tensor x,
                       struct tensor by);
    void (*read)(struct context *c, void *host, const void *data, size_t size);

    // Recorded steps; NULL where the device has none. replay: whether there is one, which then
    // runs.
    bool (*replay)(struct context *c, const struct recording_key *key);
    void (*record)(struct context *c, int64_t rows);
    // and runs it; false: there is no memory to keep it in, so nothing ran
    bool (*recorded)(struct context *c, const struct recording_key *key);
    void (*forget)(struct device *d); // drops all

    void *(*alloc)(struct device *d, size_t size); // zeroed, 64-byte aligned, or NULL
    void (*free)(struct device *d, void *p);
    void (*upload)(struct device *d, void *dst, const void *src, size_t size);
    // NULL where upload does that
    void (*load)(struct device *d, void *dst, const void *src, size_t size);
    bool (*loaded)(struct device *d, struct error *e);
    void (*copy)(struct device *d, void *dst, const void *src, size_t size);
    void (*clear)(struct device *d, void *dst, size_t size);
    void (*memory)(const struct device *d, size_t *available, size_t *total);
    bool (*measure)(struct device *d, struct device_speed *out, struct error *e);
    void (*close)(struct device *d);
};

struct device *cpu_open(const struct device_options *opt, struct error *e);
int cuda_devices(void); // that the driver lets us use
struct device *cuda_open(int index, struct error *e);

#endif
