// SafeTensors files of any bytes: what is accepted must lie inside them.
#include <stdlib.h>

#include "checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned char sink; // so that every byte is really read

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct st_file f;
    struct error e = {0};
    bool ok = st_read(&f, sv_n((const char *)data, size), "fuzz", &e);
    if (ok == e.set) abort();
    if (!ok) return 0;
    for (size_t i = 0; i < f.n; i++) {
        const struct st_tensor *t = st_need(&f, sv(f.tensor[i].name), &e);
        const unsigned char *p = t ? t->t.data : NULL;
        if (t && tensor_bytes(t->t) != t->bytes) abort();
        for (size_t k = 0; t && k < t->bytes; k++) sink = p[k];
    }
    st_close(&f);
    return 0;
}
