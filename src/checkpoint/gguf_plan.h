// Which tensor of a GGUF file becomes which of the checkpoint, and in what form.
#ifndef CHECKPOINT_GGUF_PLAN_H
#define CHECKPOINT_GGUF_PLAN_H

#include "checkpoint/gguf_import.h"
#include "checkpoint/gguf_model.h"
#include "tensor/tensor.h"

enum gguf_form {
    GGUF_COPY,   // the bytes as they are
    GGUF_GROUPS, // .weight codes, .scales, .biases
    GGUF_DENSE   // expanded to `type`
};

struct gguf_job {
    const struct gguf_tensor *t;
    char *module, *name; // "model.layers.0.mlp.up_proj", and with ".weight" or ".bias"
    int64_t rows, cols;  // a vector has cols 1
    int64_t head;        // rows are turned within heads of this many; 0: they keep their order
    enum gguf_form form;
    int bits;        // of GGUF_GROUPS
    enum dtype type; // of what is written; of scales and biases for GGUF_GROUPS
};

struct gguf_plan {
    struct gguf_job *job;
    size_t n, cap;
};

// Checks every tensor: known, of the shape that the metadata says, of a type that can be kept, with
// finite scales. The caller frees p in any case.
bool gguf_plan_make(const struct gguf *g, const struct gguf_model *m, enum gguf_inexact inexact,
                    struct gguf_plan *p, struct error *e);
void gguf_plan_free(struct gguf_plan *p);

// Where row r of the written tensor lies in the file's.
int64_t gguf_source_row(const struct gguf_job *j, int64_t r);

#endif
