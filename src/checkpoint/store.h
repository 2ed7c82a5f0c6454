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
    size_t bytes; // of device memory that the store owns
};

void store_open(struct store *s, struct device *dev);
void store_close(struct store *s);

// Each replaces host data by data on the device. What views a tensor that was stored before views
// its copy. `what` names it in errors.
bool store_tensor(struct store *s, struct tensor *t, const char *what, struct error *e);
bool store_weight(struct store *s, struct weight *w, const char *what, struct error *e);
// n weights, and the list of them: *out is on the device, owned by the store, or w itself.
bool store_list(struct store *s, struct weight *w, int64_t n, const struct weight **out,
                const char *what, struct error *e);

#endif
