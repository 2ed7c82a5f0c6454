// A growing list of token ids.
#ifndef TOKENIZER_IDS_H
#define TOKENIZER_IDS_H

#include <stddef.h>
#include <stdint.h>

struct ids {
    int32_t *id;
    size_t n, cap;
};

void ids_push(struct ids *s, int32_t id);
void ids_add(struct ids *s, const int32_t *id, size_t n);
void ids_free(struct ids *s);

#endif
