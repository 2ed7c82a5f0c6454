// The op table: everything a model computes with.
//
// Ops are eager on a context: each enqueues on the context's stream and returns a view of scratch
// memory, valid until the mark before it is released. The first error sticks to the context and
// later ops do nothing (they return tensors of the right shape), so forward code reads as the
// paper does, with one check at the end. No op waits for the device but read_*. What changes from
// step to step (ids, positions, page tables) is read from device memory, never passed as a host
// number, so a step can be captured and replayed.
//
// A context that is `dry` checks shapes and measures scratch but computes nothing: the engine runs
// one to know what a step will need, and to have every dimension checked, before it loads.
//
// Shapes are in brackets. n is the number of rows of the step (ragged: the tokens of many
// sequences end to end).
#ifndef COMPUTE_COMPUTE_H
#define COMPUTE_COMPUTE_H

#include "compute/device.h"
#include "tensor/weight.h"

// Decides what a fast path may do. Dot products and reductions accumulate in f32 in both.
enum precision {
    PRECISION_NATIVE, // activations may be rounded where a test shows what it costs
    PRECISION_F32,    // every op in f32
};

struct context {
    struct device *dev;
    enum precision precision;
    bool dry;
    struct error err;
    char *scratch; // device memory, owned by the context
    size_t size, used, peak;
};

// scratch bytes are allocated at once; a dry context allocates none and has no limit.
bool context_open(struct context *c, struct device *d, enum precision p, size_t scratch, bool dry,
                  struct error *e);
void context_close(struct context *c);

size_t scratch_mark(const struct context *c);
void scratch_release(struct context *c, size_t mark);
// A tensor in scratch, uninitialized. Every op's result comes from here.
struct tensor scratch_tensor(struct context *c, enum dtype t, int dims, const int64_t *n);

// --- one step's rows ---------------------------------------------------------------------------

// The rows of one sequence follow each other, in its order: a run.
struct rows {
    int64_t n, runs;
    struct tensor ids;   // [n] I32 token ids
    struct tensor pos;   // [n] I32 position for rotary embeddings
    struct tensor index; // [n] I32 place in its sequence: where its key goes, how far it sees
    struct tensor seq;   // [n] I32 row of the page tables and of fixed state
    struct tensor run;   // [runs + 1] I32 the first row of each run, then n
    // [n] I32 tokens that the row's whole sequence has, for rotations that depend on it
    struct tensor length;
};

// --- paged keys and values ---------------------------------------------------------------------

// One layer's cache. Token t of sequence s lives in page table[s, t / page], slot t % page.
// Entries of `table` that no live token needs are -1. How a page's elements stand is the backend's
// own: only kv_write writes them, and only attention and select_keys read them.
struct kv {
    struct tensor k;     // [pages, kv_heads, page, width] F32, F16, BF16 or I8
    struct tensor v;     // the same shape but for its width, which may be 0, and its type
    struct tensor table; // [seqs, pages of the longest sequence] I32
    // Of I8, which is in blocks of KV_BLOCK elements of a token, whose last may be short: each
    // block's scale, [pages, kv_heads, page, blocks] BF16. Else dims 0.
    struct tensor k_scale, v_scale;
};
enum { KV_BLOCK = 32 };
static inline int64_t kv_blocks(int64_t width) { return (width + KV_BLOCK - 1) / KV_BLOCK; }

// --- ops ---------------------------------------------------------------------------------------

// Rows of an embedding table: w [vocab, width], ids [n] I32 -> [n, width] F32. Ids must be in
// range; the engine checks them on the host before they are uploaded.
struct tensor embed(struct context *c, const struct weight *w, struct tensor ids);

// ids [n] I32: those at or over limit become 0 -> [n]. For a table that covers only some ids.
struct tensor bound_ids(struct context *c, struct tensor ids, int64_t limit);

// x [n, in], F32 or what glu or attention made in BF16 -> [n, out] = x w^T + bias
struct tensor linear(struct context *c, struct tensor x, const struct weight *w);
// Several products of the same x at once (q, k, v): y[i] = linear(x, w[i]). count <= LINEAR_MAX.
enum { LINEAR_MAX = 4 };
void linear_many(struct context *c, struct tensor x, int count, const struct weight *const w[],
                 struct tensor y[]);
// to [n, out] += x w^T + bias; returns to.
struct tensor linear_to(struct context *c, struct tensor to, struct tensor x,
                        const struct weight *w);

// x of a product, normed first: rms_norm(x, w, eps).
struct rms {
    struct tensor w;
    float eps;
};
// linear_many and glu of a normed x.
void normed_linear(struct context *c, struct tensor x, const struct rms *norm, int count,
                   const struct weight *const w[], struct tensor y[]);

enum activation {
    ACT_SILU,
    ACT_GELU,       // x Phi(x), exactly
    ACT_GELU_TANH,  // its approximation by tanh ("gelu_new", "gelu_pytorch_tanh", "gelu_fast")
    ACT_QUICK_GELU, // x sigmoid(1.702 x)
    ACT_RELU_SQUARED,
    ACT_SIGMOID, // of gates
    ACT_NONE,    // x
};
// The gated half of an MLP: x [n, in] -> [n, width] = act(x gate^T) * (x up^T), of which only
// products may be made: it may be in BF16.
struct tensor glu(struct context *c, struct tensor x, const struct weight *gate,
                  const struct weight *up, enum activation act);
struct tensor normed_glu(struct context *c, struct tensor x, const struct rms *norm,
                         const struct weight *gate, const struct weight *up, enum activation act);
// act(a) * b, elementwise, [n, width]
struct tensor act_mul(struct context *c, struct tensor a, struct tensor b, enum activation act);
// x [n, width] = act(x); returns x.
struct tensor activate(struct context *c, struct tensor x, enum activation act);

// Norms over the last dimension of x [..., width]; w, b [width] F32, or one for each head of x
// [n, heads, width]: [heads, width]. w or b with dims 0: none.
// -> x / sqrt(mean(x^2) + eps) * w
struct tensor rms_norm(struct context *c, struct tensor x, struct tensor w, float eps);
// -> (x - mean(x)) / sqrt(variance(x) + eps) * w + b
struct tensor layer_norm(struct context *c, struct tensor x, struct tensor w, struct tensor b,
                         float eps);

// x [n, width] += y [n, width]; returns x.
struct tensor add_to(struct context *c, struct tensor x, struct tensor y);

// to [n, width] = from [n, width]; returns to.
struct tensor copy_to(struct context *c, struct tensor to, struct tensor from);

// x [n, width] *= by; returns x.
struct tensor scale(struct context *c, struct tensor x, float by);
// x [n, width] = cap * tanh(x / cap); returns x.
struct tensor soft_cap(struct context *c, struct tensor x, float cap);

// x [n, width], rows [m] I32 -> [m, width]
struct tensor gather_rows(struct context *c, struct tensor x, struct tensor rows);

// Of each `period` columns of x [n, m * period], those from `from` on: -> [n, m * count]
struct tensor take_bands(struct context *c, struct tensor x, int64_t period, int64_t from,
                         int64_t count);

// Rotates x [n, heads, width] in place by rows->pos and returns it. Of the leading 2 * pairs
// elements, i pairs with i + pairs (the "NeoX" order of most Hugging Face checkpoints) or, where
// interleaved, 2 i with 2 i + 1. cos and sin are multiplied by scale (yarn's attention factor).
struct rope {
    struct tensor inv_freq;  // [pairs] F32 radians a position
    struct tensor long_freq; // [pairs] of rows whose sequence is longer than `longest`, or dims 0
    int64_t longest;
    float scale;
    bool interleaved;
};
struct tensor rope(struct context *c, struct tensor x, const struct rows *rows,
                   const struct rope *r);

// Makes queries, keys and values ready for attention: q and k [n, heads, width] are normed by head
// where there is a norm, and turned where there is a rotation; then k and v are written to the
// cache. Returns q, which may be in place.
struct placing {
    struct tensor q_norm, k_norm; // as w of rms_norm
    bool normed;
    float eps;
    const struct rope *rope; // NULL: none
};
struct tensor place_heads(struct context *c, const struct kv *kv, const struct rows *rows,
                          struct tensor q, struct tensor k, struct tensor v,
                          const struct placing *p);

// Writes k [n, kv_heads, k_width], v [n, kv_heads, v_width] to each row's place in the cache. A
// cache whose v_width is 0 takes a v of 0 dims.
void kv_write(struct context *c, const struct kv *kv, const struct rows *rows, struct tensor k,
              struct tensor v);

// Causal attention of q [n, heads, k_width] over the cache: row i sees the tokens t <= index of its
// own sequence with t > index - window (window 0: all) and t >= index - index % chunk (chunk 0:
// all). heads is a multiple of kv_heads; head h reads kv head h / (heads / kv_heads). -> [n, heads
// * v_width]
struct attention_options {
    float scale;
    int64_t window, chunk;
    // Scores are multiplied by 1 + tuning * ln(1 + floor((index + 1) / tuning_floor)); 0: they are
    // not
    float tuning, tuning_floor;
    float soft_cap;      // a score becomes soft_cap * tanh(score / soft_cap); 0: it stays
    struct tensor sinks; // [heads] F32: a score for a token that has no value; dims 0: none
    int64_t v_width;     // of a cache without values: so many leading elements of a key are one
    const struct weight *reader; // the product that alone reads the result, which may be in BF16;
                                 // NULL: it is not
    // [n, top] I32 of select_keys: a row sees these tokens alone, and nothing but scale and v_width
    // of the above applies; dims 0: none
    struct tensor selected;
};
struct tensor attention(struct context *c, struct tensor q, const struct kv *kv,
                        const struct rows *rows, const struct attention_options *opt);
// attention(place_heads(q, k, v))
struct tensor placed_attention(struct context *c, struct tensor q, struct tensor k, struct tensor v,
                               const struct placing *p, const struct kv *kv,
                               const struct rows *rows, const struct attention_options *opt);

// An indexer's choice: of the tokens that each row sees, the `top` with the highest score, the sum
// over the heads of weights [n, heads] times max(0, q [n, heads, width] . k), k in a cache of one
// head without values. Fills chosen [n, top] I32 in rising order, where a row sees fewer with -1
// after them, and returns it.
struct tensor select_keys(struct context *c, struct tensor q, struct tensor weights,
                          const struct kv *kv, const struct rows *rows, struct tensor chosen);
// a [n, heads, a_width], b [n, heads, b_width] -> [n, heads, a_width + b_width]
struct tensor join(struct context *c, struct tensor a, struct tensor b);
// x [n, width] *= by [width], a column each; returns x.
struct tensor scale_columns(struct context *c, struct tensor x, struct tensor by);
// Gives each row of x [n, width] the root mean square of that of like [n, width]; one whose mean of
// squares is below least counts as having that. Returns x.
struct tensor match_size(struct context *c, struct tensor x, struct tensor like, float least);
// x [n, width] = max(x - (mean + by * deviation), 0), those of the row: of values that are normally
// distributed, a known share stays. Returns x.
struct tensor cut_below(struct context *c, struct tensor x, float by);
// x [n, in * width] is `in` streams side by side, w [n, out * in] a matrix a row that mixes them:
// -> y [n, out * width], stream i = sum over k of w[i * in + k] * stream k of x
struct tensor mix_streams(struct context *c, struct tensor x, struct tensor w, int64_t in);
// x [n, width] *= by [n, 1], a row each; returns x.
struct tensor scale_rows(struct context *c, struct tensor x, struct tensor by);
// x [n, width] = min(max(x, least), most) + plus; returns x.
struct tensor clamp(struct context *c, struct tensor x, float least, float most, float plus);
// linear in f32 whatever the context's precision: for routers, whose choice must not depend on it.
struct tensor linear_f32(struct context *c, struct tensor x, const struct weight *w);

// One matrix of every head or expert, all of the same shape and layout.
struct matrices {
    int64_t n;
    const struct weight *w;         // [n]
    const struct weight *on_device; // the same list in the device's memory (store_list)
};
// x [n, heads, in], a matrix a head -> [n, heads, out] in f32, but for many rows on a GPU, whose
// tensor cores take bf16. columns: they are [in, out].
struct tensor head_linear(struct context *c, struct tensor x, const struct matrices *w,
                          bool columns);

// --- experts -----------------------------------------------------------------------------------

// How a router's logits [n, experts] become a choice of `top` experts a row, and their weights.
enum route_score {
    ROUTE_SOFTMAX,     // over all experts
    ROUTE_SIGMOID,     // of each logit
    ROUTE_TOP_SOFTMAX, // the choice is by the logits; weights are the softmax over the chosen
};
enum group_score { GROUP_BEST, GROUP_BEST_TWO }; // a group's best score, or the sum of its best two
struct route_options {
    enum route_score score;
    int64_t top;
    bool normalize;     // weights are divided by their sum
    float scale;        // then multiplied by this
    struct tensor bias; // [experts] F32, added to the scores for the choice alone; dims 0: none
    // Only experts of the top_groups best of `groups` equal groups are chosen from; 0: of all.
    int64_t groups, top_groups;
    enum group_score group_score;
};

// The step's rows by expert: m = n * top entries, sorted by expert and then by row, so that a
// product reads each expert's weights once.
struct routes {
    struct tensor ids;     // [n, top] I32, best first
    struct tensor weights; // [n, top] F32
    struct tensor order;   // [m] I32: an entry's place in ids and weights
    struct tensor row;     // [m] I32: an entry's row
    struct tensor place;   // [n, top] I32: where an entry is in order
    struct tensor start;   // [experts + 1] I32: expert e has the entries [start[e], start[e + 1])
};
struct routes route(struct context *c, struct tensor logits, const struct route_options *opt);

// x [m, in], an entry a row -> [m, out]: each with its expert's matrix
struct tensor expert_linear(struct context *c, struct tensor x, const struct routes *r,
                            const struct matrices *w);
// What is multiplied in a gated MLP: act(gate) * (up + plus). Where limit > 0, gate is first
// bounded to at most limit, and up to +-limit.
struct gating {
    enum activation act;
    float limit, plus;
};
// x [m, in] -> [m, width], gated
struct tensor expert_glu(struct context *c, struct tensor x, const struct routes *r,
                         const struct matrices *gate, const struct matrices *up,
                         const struct gating *g);
// The same of x [n, in]: each entry has its row of it.
struct tensor expert_glu_rows(struct context *c, struct tensor x, const struct routes *r,
                              const struct matrices *gate, const struct matrices *up,
                              const struct gating *g);
// x [m, width] -> [n, width]: each row's entries, weighted, or where r->weights has dims 0 as they
// are
struct tensor expert_sum(struct context *c, struct tensor x, const struct routes *r);
// to [n, width] += expert_sum(x); returns to.
struct tensor expert_sum_to(struct context *c, struct tensor to, struct tensor x,
                            const struct routes *r);

// A mixture of experts: a router chooses for each row. Beside them a shared expert may serve every
// row.
struct mixture {
    const struct weight *router; // [experts, hidden], a product in f32 (linear_f32)
    struct route_options route;
    struct matrices gate, up, down;
    struct gating gating;
    bool weigh_input; // an expert's input is multiplied by its weight, not its output
    // glu and linear of the shared expert, whose output is multiplied by the sigmoid of another
    // product [1, hidden]. NULL: there is none
    const struct weight *shared_gate, *shared_up, *shared_down, *shared_weight;
};
// x [n, hidden], normed first unless norm is NULL -> [n, hidden]; where `to` [n, hidden] has dims,
// which may be x, added to it, which is then the result.
struct tensor mixture(struct context *c, struct tensor x, const struct rms *norm,
                      const struct mixture *m, struct tensor to);

// to [n] I32 = of each row of x [n, width] the first of its greatest elements; NaN counts as the
// least, and where a row has one the result is -1 - the choice. Returns to.
struct tensor argmax(struct context *c, struct tensor to, struct tensor x);

// What a sampler needs to know of each row of x [n, width]: its best k elements, and how much the
// others weigh. NaN counts as -INFINITY.
enum { TOP_LOGITS_MOST = 256 };
struct top_logits {
    struct tensor value; // [n, k] F32, best first, of equals the first in the row; k <= width
    struct tensor index; // [n, k] I32: where in the row
    // [n, 3] F32: over the others the sum of exp(x - least), least the last of value, and of
    // exp((x - least) * by[row]), 0 where least is not finite; then 1 where an element is NaN.
    struct tensor others;
};
void top_logits(struct context *c, const struct top_logits *to, struct tensor x, struct tensor by);

// Wait for the device, then copy a contiguous tensor to the host.
void read_f32(struct context *c, struct tensor t, float *out);
void read_i32(struct context *c, struct tensor t, int32_t *out);

// --- recorded steps ----------------------------------------------------------------------------

// Where launching a step's ops one by one takes longer than they do, a device records them: the ops
// between step_record and step_recorded, which then run, and run again with step_replay. They read
// and write the same memory each time, so a step is known by the scratch that it began with, by
// what its shapes depend on, and which of several that is. On a device that records nothing,
// step_replay is always false and the two others do nothing: the ops simply run. step_recorded is
// false where there is no memory to keep the step in: then none of its ops ran, and they are to be
// called again.
struct recording_key {
    const char *scratch;
    int64_t rows;
    int which;
};
bool step_replay(struct context *c, int64_t rows, int which);
void step_record(struct context *c, int64_t rows);
bool step_recorded(struct context *c, int64_t rows, int which);

#endif
