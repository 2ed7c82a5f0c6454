#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *or_die(void *p, size_t size) {
    if (p) return p;
    fprintf(stderr, "mlxcel: out of memory (%zu bytes asked for)\n", size);
    exit(1);
}

bool size_mul(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }

bool size_add(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }

static size_t product(size_t count, size_t size) {
    size_t total;
    if (!size_mul(count, size, &total)) or_die(NULL, SIZE_MAX);
    return total ? total : 1;
}

void *mem_alloc(size_t size) { return mem_array(1, size); }

void *mem_array(size_t count, size_t size) {
    size_t total = product(count, size);
    return or_die(calloc(1, total), total);
}

void *mem_resize(void *p, size_t count, size_t size) {
    size_t total = product(count, size);
    return or_die(realloc(p, total), total);
}

char *mem_textn(const char *s, size_t n) {
    char *copy = mem_array(n + 1, 1);
    if (n) memcpy(copy, s, n);
    return copy;
}

char *mem_text(const char *s) { return s ? mem_textn(s, strlen(s)) : NULL; }

void *mem_grow(void *p, size_t *cap, size_t need, size_t size) {
    if (need <= *cap) return p;
    size_t bigger = *cap + *cap / 2 + 8;
    *cap = bigger > need ? bigger : need;
    return mem_resize(p, *cap, size);
}
