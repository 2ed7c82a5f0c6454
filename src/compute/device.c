#include "compute/device.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "compute/ops.h"

#if defined(HAVE_CUDA)
static int gpus(void) { return cuda_devices(); }

// "cuda" or "cuda:N", or as llama.cpp has it "CUDA0"
static bool read_name(const char *name, int *index) {
    char *end = NULL;
    *index = 0;
    if (strncasecmp(name, "cuda", 4) != 0) return false;
    if (!name[4]) return true;
    const char *digits = name + (name[4] == ':' ? 5 : 4);
    if (*digits < '0' || *digits > '9' || strlen(digits) > 3) return false;
    *index = (int)strtol(digits, &end, 10);
    return !*end;
}

static struct device *open_gpu(const char *name, struct error *e) {
    int index;
    if (read_name(name, &index)) return cuda_open(index, e);
    fail(e, "device \"%s\" is unknown (this build has: cpu, cuda, cuda:N, auto)", name);
    return NULL;
}
#else
static int gpus(void) { return 0; }

static struct device *open_gpu(const char *name, struct error *e) {
    fail(e, "device \"%s\" is not in this build (it has: cpu)", name);
    return NULL;
}
#endif

struct device *device_open(const char *name, const struct device_options *opt, struct error *e) {
    if (!strcmp(name, "cpu")) return cpu_open(opt, e);
    if (strcmp(name, "auto") != 0) return open_gpu(name, e);
    return gpus() ? open_gpu("cuda", e) : cpu_open(opt, e);
}

const char *device_wish(const char *word) {
    if (!strcmp(word, "none")) return "cpu"; // llama.cpp's word for no GPU
    if (strcmp(word, "gpu") != 0) return word;
#if defined(HAVE_CUDA)
    if (!gpus()) log_say(LOG_WARN, "device gpu: this machine has none, so the CPU computes");
#else
    log_say(LOG_WARN, "device gpu: this build has none, so the CPU computes");
#endif
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

void device_load(struct device *d, void *dst, const void *src, size_t size) {
    if (size) (d->ops->load ? d->ops->load : d->ops->upload)(d, dst, src, size);
}

bool device_loaded(struct device *d, struct error *e) {
    return !d->ops->loaded || d->ops->loaded(d, e);
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

bool device_mixed_cache(const struct device *d) { return d->ops->mixed_cache; }

bool device_measure(struct device *d, struct device_speed *out, struct error *e) {
    return d->ops->measure(d, out, e);
}

const char *isa_name(enum isa isa) {
    static const char *const names[] = {"plain", "avx2",    "avx512", "avx512-bf16",
                                        "neon",  "dotprod", "best"};
    return names[isa];
}
