// A GGUF file becomes a checkpoint folder as Hugging Face and mlx-lm publish them:
// model.safetensors, config.json, tokenizer.json, tokenizer_config.json, generation_config.json.
//
// Tensors keep their bits where they can: F32, F16 and BF16 are copied, block types become MLX
// affine groups of 32 (gguf_quant.h says which are exact). llama's query and key rows, which GGUF
// stores with rotation pairs side by side, go back to halves.
#ifndef CHECKPOINT_GGUF_IMPORT_H
#define CHECKPOINT_GGUF_IMPORT_H

#include "base/error.h"

// What to do with a tensor that no affine layout holds exactly (Q2_K, Q6_K).
enum gguf_inexact { GGUF_AS_AFFINE, GGUF_AS_BF16, GGUF_AS_F16, GGUF_AS_F32 };

struct gguf_import_options {
    bool force; // write into a folder that has files (of the same names they are replaced)
    bool quiet; // no progress, even on a terminal
    enum gguf_inexact inexact;
};

// The folder appears when it is complete: everything is written beside it first. Says on stderr how
// many tensors lost precision, and how much.
bool gguf_import(const char *file, const char *dir, const struct gguf_import_options *opt,
                 struct error *e);

#endif
