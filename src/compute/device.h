// Devices and their memory. A device owns whatever device_alloc gave out until device_free.
#ifndef COMPUTE_DEVICE_H
#define COMPUTE_DEVICE_H

#include "base/pool.h"
#include "tensor/tensor.h"

struct ops;
struct cuda;

enum isa { ISA_PLAIN, ISA_AVX2, ISA_AVX512, ISA_AVX512_BF16, ISA_NEON, ISA_DOTPROD, ISA_BEST };

struct device_options {
    struct pool_options pool; // CPU
    enum isa isa;             // CPU: the kernels to use; ISA_BEST picks what the machine has
};

struct device {
    const struct ops *ops;
    char name[64];     // "cpu (avx512, 2 threads)"
    bool host;         // its addresses are host addresses
    struct pool *pool; // CPU
    enum isa isa;      // CPU: that of the kernels
    const struct cpu_kernels *kernels;
    struct cuda *cuda; // CUDA
};

// name: "cpu"; "cuda" or "cuda:N" (the Nth, from 0); "auto": a GPU where this build and machine
// have one, else the CPU. An unknown device, or one this build or machine lacks, is an error.
struct device *device_open(const char *name, const struct device_options *opt, struct error *e);
// A name for device_open of what a user wishes: "gpu" is "auto", but tells when there is no GPU.
const char *device_wish(const char *word);
void device_close(struct device *d); // NULL is fine

// Memory for weights, state and scratch: 64-byte aligned, zeroed. A refusal names `what` and the
// sizes; size 0 gives a valid address.
void *device_alloc(struct device *d, size_t size, const char *what, struct error *e);
void device_free(struct device *d, void *p);
// Host bytes to device memory, before any op is enqueued that reads them.
void device_upload(struct device *d, void *dst, const void *src, size_t size);
// The same of a model's weights, by the fastest way there is: src stays as it is until
// device_loaded, which waits until all are there, gives back what memory they went through, and
// tells what failed.
void device_load(struct device *d, void *dst, const void *src, size_t size);
bool device_loaded(struct device *d, struct error *e);
// Within the device's memory, in order with the ops: copies to where nothing overlaps, or zeroes.
void device_copy(struct device *d, void *dst, const void *src, size_t size);
void device_clear(struct device *d, void *dst, size_t size);
// Bytes that can be allocated now (host: what the system says is available), and in all.
void device_memory(const struct device *d, size_t *available, size_t *total);
bool device_mixed_cache(const struct device *d); // a cache may be of I8, and keys unlike values

// Operations a second from registers, a multiply-add counting as two; 0 where no kernel here
// computes in that type.
struct device_peak {
    double f32, int8, bf16;
};

// What the device can do at best, measured: a second or two.
struct device_speed {
    double read, copy; // bytes a second of memory beyond the caches; a copied byte counts as two
    double f32, int8, bf16;              // of device_peak; on a GPU bf16 is that of a large product
    struct device_peak of_isa[ISA_BEST]; // CPU: of each instruction set that the machine has
};
bool device_measure(struct device *d, struct device_speed *out, struct error *e);

const char *isa_name(enum isa isa);
bool isa_supported(enum isa isa); // by this machine

#endif
