// A GGUF file becomes a checkpoint folder as Hugging Face and mlx-lm publish them:
// model.safetensors, config.json, tokenizer.json, tokenizer_config.json, generation_config.json.
//
// Tensors keep their bits where they can: F32, F16 and BF16 are copied, block types become MLX
// affine groups of 32 (gguf_quant.h says which are exact). llama's query and key rows, which GGUF
// stores with rotation pairs side by side, go back to halves.
#ifndef CHECKPOINT_GGUF_IMPORT_H
#define CHECKPOINT_GGUF_IMPORT_H

#include <stddef.h>

#include "base/error.h"

// What to do with a tensor that no affine layout holds exactly (Q2_K, Q6_K).
enum gguf_inexact { GGUF_AS_AFFINE, GGUF_AS_BF16, GGUF_AS_F16, GGUF_AS_F32 };

struct gguf_import_options {
    bool force; // write into a folder that has files; those of the same names are replaced
    enum gguf_inexact inexact;
    // Called after each tensor with bytes read so far; false stops the import. NULL: none.
    bool (*progress)(void *arg, size_t done, size_t total);
    void *arg;
};

struct gguf_import_report {
    size_t tensors, bytes; // of the file
    size_t inexact;        // tensors that lost precision
    double largest;        // of their errors, over the largest weight of its group of 32
};

// The folder appears when it is complete: everything is written beside it first.
bool gguf_import(const char *file, const char *dir, const struct gguf_import_options *opt,
                 struct gguf_import_report *report, struct error *e);

#endif
