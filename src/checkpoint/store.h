// Where a model's weights live on a device. On a device whose addresses are host addresses the
// mapped file is the weight; elsewhere the store owns a copy.
#ifndef CHECKPOINT_STORE_H
#define CHECKPOINT_STORE_H

#include "compute/device.h"
#include "tensor/weight.h"

struct store_copy {
    const char *from; // host
    char *to;         // device
    size_t size;
};

struct store {
    struct device *dev;
    struct store_copy *copy;
    size_t n, cap;
    void **block; // of device memory, each of one copy or of many
    size_t blocks, block_cap;
    char *room; // what is left of a block
    size_t left;
    size_t bytes; // of all copies
    // Told of the bytes that went there, of `total`, unless it is NULL; for who opened the store.
    void (*progress)(void *arg, size_t done, size_t total);
    void *progress_arg;
    size_t total;
};

void store_open(struct store *s, struct device *dev);
void store_close(struct store *s);

// Each replaces host data by data on the device, which is there after device_loaded; until then the
// host's must stay as it is. What views a tensor that was stored before views
// its copy. `what` names it in errors.
bool store_tensor(struct store *s, struct tensor *t, const char *what, struct error *e);
bool store_weight(struct store *s, struct weight *w, const char *what, struct error *e);
// n weights, and the list of them: *out is on the device, owned by the store, or w itself.
bool store_list(struct store *s, struct weight *w, int64_t n, const struct weight **out,
                const char *what, struct error *e);

#endif
