// What weights.c (asking for tensors), weights_open.c (finding the files) and weights_dummy.c
// (making tensors up) share.
#ifndef CHECKPOINT_WEIGHTS_INTERNAL_H
#define CHECKPOINT_WEIGHTS_INTERNAL_H

#include "checkpoint/weights.h"

struct weights_item {
    char *name; // may differ from t.name after a rename
    struct st_tensor t;
    size_t file;
    bool indexed; // the index says that it is in this file
    bool used;
    bool ignored;  // weights_ignore
    int64_t codes; // of a quantized matrix once it was asked for: its elements
};

struct weights {
    char *folder;
    struct st_file *file;
    size_t files, file_cap;
    struct weights_item *item;
    size_t n, cap;
    struct map by_name;
    void **copy; // data that had to be aligned
    size_t copies, copy_cap;
    struct dummy *dummy; // NULL: the tensors are those of files
};

// Takes a tensor of a file in; its name is copied.
void weights_add(struct weights *w, size_t file, const struct st_tensor *t, bool indexed);

// What is asked of a dummy is made, unless it was before.
bool dummy_vector(struct weights *w, const char *name, int64_t n, struct error *e);
bool dummy_table(struct weights *w, const char *name, int64_t rows, int64_t columns,
                 struct error *e);
bool dummy_stack(struct weights *w, const char *name, int64_t n, int64_t rows, int64_t columns,
                 struct error *e);
// n: 0, or how many matrices are stacked.
bool dummy_matrix(struct weights *w, const char *name, int64_t n, int64_t out, int64_t in,
                  bool want_bias, struct error *e);
void dummy_populate(const struct weights *w, void (*progress)(void *arg, size_t done, size_t total),
                    void *arg);
void dummy_close(struct weights *w);

#endif
