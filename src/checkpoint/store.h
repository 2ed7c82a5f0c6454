// Where a model's weights live on a device. On a device whose addresses are host addresses the
// mapped file is the weight, unless it has to be turned; elsewhere the store owns a copy.
#ifndef CHECKPOINT_STORE_H
#define CHECKPOINT_STORE_H

#include "compute/device.h"
#include "tensor/weight.h"

struct store {
    struct device *dev;
    void **owned; // device memory
    size_t n, cap;
    size_t bytes; // of device memory that the store owns
};

void store_open(struct store *s, struct device *dev);
void store_close(struct store *s);

// Each replaces host data by data on the device. `what` names it in errors.
bool store_tensor(struct store *s, struct tensor *t, const char *what, struct error *e);
bool store_weight(struct store *s, struct weight *w, const char *what, struct error *e);

#endif
