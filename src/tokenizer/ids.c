#include "tokenizer/ids.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void ids_push(struct ids *s, int32_t id) { ids_add(s, &id, 1); }

void ids_add(struct ids *s, const int32_t *id, size_t n) {
    if (!n) return;
    s->id = mem_grow(s->id, &s->cap, s->n + n, sizeof *s->id);
    memcpy(s->id + s->n, id, n * sizeof *id);
    s->n += n;
}

void ids_free(struct ids *s) {
    free(s->id);
    *s = (struct ids){0};
}
