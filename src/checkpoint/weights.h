// The weight map of a checkpoint: every tensor of its SafeTensors files by name, and the matrices
// and vectors that a model asks for, checked against the shapes that its config says.
//
// Tensors are views of the mapped files (host memory); one whose data is not aligned for its dtype
// (legal in old files) is copied once. Every error names the tensor, the file, and what was found
// and wanted.
#ifndef CHECKPOINT_WEIGHTS_H
#define CHECKPOINT_WEIGHTS_H

#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"
#include "tensor/weight.h"

struct weights;

// path: the checkpoint folder, or a file in it; c: its config, for what the shapes of quantized
// matrices do not show (quantization.h); NULL: nothing. With a model.safetensors.index.json, the
// shards that it names (plain file names in the folder; links are followed) must be there and hold
// what it says; where two shards hold a name, the index decides. Without one, the first that there
// are of model*.safetensors, weights*.safetensors, *.safetensors (adapters and consolidated
// duplicates left out); a name in two files is then an error, and so is a missing "-0000i-of-0000n"
// shard.
struct weights *weights_open(const char *path, struct config *c, struct error *e);
// Random weights for any shape, always the same: every vector and matrix that is asked for is there
// and takes the layout that the config says (quantization with its exceptions for single layers, or
// else dtype). Vectors are ones. A tensor that nobody asks for, like a head that may be tied, is
// not there. The config must outlive w. Nothing is in memory before weights_populate.
struct weights *weights_open_dummy(struct config *c, struct error *e);
void weights_close(struct weights *w); // NULL is fine

size_t weights_count(const struct weights *w);
const char *weights_name(const struct weights *w, size_t i);  // i < weights_count
bool weights_has(const struct weights *w, struct sv name);    // does not mark it used
bool weights_has_matrix(struct weights *w, const char *name); // NAME.weight, or packed codes
// An absent `from` or an existing `to` is an error.
bool weights_rename(struct weights *w, const char *from, const char *to, struct error *e);

// Every name that begins with `from` begins with `to` instead.
bool weights_move(struct weights *w, const char *from, const char *to, struct error *e);

// The tensor, marked used; NULL when absent. It may be unusable (see struct st_tensor).
const struct st_tensor *weights_find(struct weights *w, struct sv name);
// As weights_find, but absent or unusable is an error.
const struct st_tensor *weights_need(struct weights *w, struct sv name, struct error *e);

// A vector [n], published in F32, F16 or BF16, as F32: vectors are few and small, and every op
// takes them so.
bool weights_vector(struct weights *w, const char *name, int64_t n, struct tensor *out,
                    struct error *e);

// A small table NAME [rows, columns] in a float type, as F32. Where it is published with dimensions
// of 1 besides, as filters are ([channels, 1, taps]), those are dropped.
bool weights_table(struct weights *w, const char *name, int64_t rows, int64_t columns,
                   struct tensor *out, struct error *e);
// A table of the caller's, all zeros, that lives as long as w.
struct tensor weights_make(struct weights *w, int64_t rows, int64_t columns);

// The matrix NAME [out, in], in the layout that its tensors' names, types and shapes say
// (quantization.h lists them): NAME.weight dense in F32, F16 or BF16, MLX's codes with NAME.scales,
// whose bits (1 2 3 4 5 6 8) and group (32 64 128) follow from the shapes, MXFP4, MXFP8 and NVFP4,
// F8_E4M3 with a scale for all, a row or a block; or codes packed by compressed-tensors, ModelOpt,
// AWQ, GPTQ or BitNet. Those that no kernel reads are converted to affine codes: result's memory
// is then written by weights_populate or weights_convert. want_bias: NAME.bias [out] is needed too,
// and given as F32; without it a NAME.bias is left unused (weights_check_unused then reports it).
bool weights_matrix(struct weights *w, const char *name, int64_t out, int64_t in, bool want_bias,
                    struct weight *result, struct error *e);

// As weights_matrix, but a dense NAME.weight is [in, out] (GPT-2's Conv1D): result views it so.
bool weights_matrix_transposed(struct weights *w, const char *name, int64_t out, int64_t in,
                               bool want_bias, struct weight *result, struct error *e);
// A copy of an F32 vector with 1 added to each element; it lives as long as w.
struct tensor weights_plus_one(struct weights *w, struct tensor t);
// n matrices [out, in] in one tensor NAME.weight [n, out, in], dense or in one of MLX's layouts
// (other quantizers publish each expert apart), with a NAME.bias [n, out]. each [n] views whole,
// which is all of them as one matrix.
bool weights_stack(struct weights *w, const char *name, int64_t n, int64_t out, int64_t in,
                   bool want_bias, struct weight *whole, struct weight *each, struct error *e);
// The same in tensors that are no module's: NAME [n, out, in] (columns: [n, in, out]) in a float
// type, or MXFP4 as NAME_blocks [n, out, in / 32, 16] and NAME_scales; with columns also F8_E4M3
// with NAME_scale of each output or one NAME_weight_scale, and NVFP4 as bytes [n, in / 2, out] with
// NAME_weight_scale [n, in / 16, out] and NAME_weight_scale_2, which are turned when the weights
// are populated; and NAME_bias [n, out].
bool weights_bare_stack(struct weights *w, const char *name, int64_t n, int64_t out, int64_t in,
                        bool columns, bool want_bias, struct weight *whole, struct weight *each,
                        struct error *e);

// Whether w makes experts up, and its config's quantizer publishes each in tensors of its own.
bool weights_experts_apart(const struct weights *w);

// Tensors whose names begin so are no part of the model.
void weights_ignore(struct weights *w, const char *prefix);

// Refuses tensors that were never asked for. ignored: patterns that end with NULL, or NULL; a *
// at the front, the end or both of a pattern matches anything. Known leftovers which every
// implementation recomputes ("*rotary_emb.inv_freq"), and scales for activations and caches that
// are not quantized here, are always ignored.
bool weights_check_unused(const struct weights *w, const char *const *ignored, struct error *e);

// Reads the mapped files into memory (or fills a dummy), so that the first token does not wait for
// the disk, and checks the scales that are few. progress is called with the bytes done and in all,
// and may be NULL.
bool weights_populate(const struct weights *w,
                      void (*progress)(void *arg, size_t done, size_t total), void *arg,
                      struct error *e);

// What weights_populate ends with: for who leaves the reading of files (and of scales) to later.
void weights_convert(const struct weights *w);

// Scales of quantized matrices that are no finite numbers, or so large that they make such weights,
// are an error that names the first. many: also those of small groups that are computed with where
// the file is mapped, which are a tenth of it, and would take longer to read than the rest of
// loading does.
bool weights_check_scales(const struct weights *w, bool many, struct error *e);

size_t weights_bytes(const struct weights *w); // of all tensors, as they are computed with
// Elements of the tensors that were asked for; a quantized matrix counts its codes.
int64_t weights_parameters(const struct weights *w);

#endif
