#include "compute/device.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "compute/ops.h"

struct device *device_open(const char *name, const struct device_options *opt, struct error *e) {
    if (!strcmp(name, "cpu") || !strcmp(name, "auto")) return cpu_open(opt, e);
    fail(e, "device \"%s\" is not in this build (it has: cpu)", name);
    return NULL;
}

const char *device_wish(const char *word) {
    if (strcmp(word, "gpu") != 0) return word;
    log_say(LOG_WARN, "device gpu: this build has none, so the CPU computes");
    return "auto";
}

void device_close(struct device *d) {
    if (d) d->ops->close(d);
}

void *device_alloc(struct device *d, size_t size, const char *what, struct error *e) {
    void *p = d->ops->alloc(d, size ? size : 1);
    if (p) return p;
    size_t available, total;
    device_memory(d, &available, &total);
    fail(e, "%s: cannot allocate %.1f MiB for %s (%.1f of %.1f MiB are available)", d->name,
         (double)size / 0x1p20, what, (double)available / 0x1p20, (double)total / 0x1p20);
    return NULL;
}

void device_free(struct device *d, void *p) {
    if (p) d->ops->free(d, p);
}

void device_upload(struct device *d, void *dst, const void *src, size_t size) {
    if (size) d->ops->upload(d, dst, src, size);
}

void device_copy(struct device *d, void *dst, const void *src, size_t size) {
    if (size) d->ops->copy(d, dst, src, size);
}

void device_clear(struct device *d, void *dst, size_t size) {
    if (size) d->ops->clear(d, dst, size);
}

void device_memory(const struct device *d, size_t *available, size_t *total) {
    d->ops->memory(d, available, total);
}

bool device_measure(struct device *d, struct device_speed *out, struct error *e) {
    return d->ops->measure(d, out, e);
}

const char *isa_name(enum isa isa) {
    static const char *const names[] = {"plain", "avx2", "avx512", "best"};
    return names[isa];
}
