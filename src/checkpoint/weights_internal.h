// What weights.c (asking for tensors) and weights_open.c (finding the files) share.
#ifndef CHECKPOINT_WEIGHTS_INTERNAL_H
#define CHECKPOINT_WEIGHTS_INTERNAL_H

#include "checkpoint/weights.h"

struct weights_item {
    char *name; // may differ from t.name after a rename
    struct st_tensor t;
    size_t file;
    bool indexed; // the index says that it is in this file
    bool used;
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
};

#endif
