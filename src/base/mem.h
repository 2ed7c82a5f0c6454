// Host memory for the small things: names, lists, tables. Running out of it ends the process with
// a message, since nothing can go on. What can be large (weights, state, scratch) is a buffer
// (compute/device.h), whose allocation can be refused.
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEM_NEVER_NULL __attribute__((returns_nonnull))

MEM_NEVER_NULL void *mem_alloc(size_t size);               // zeroed
MEM_NEVER_NULL void *mem_array(size_t count, size_t size); // zeroed; the product is checked
MEM_NEVER_NULL void *mem_resize(void *p, size_t count, size_t size);
char *mem_text(const char *s); // a copy of s, NULL for NULL
char *mem_textn(const char *s, size_t n);

// Room for at least `need` elements: grows *cap (in elements) by half again. Returns the array.
void *mem_grow(void *p, size_t *cap, size_t need, size_t size);

// Checked arithmetic on sizes from input: false when the result does not fit.
bool size_mul(size_t a, size_t b, size_t *out);
bool size_add(size_t a, size_t b, size_t *out);

#endif
