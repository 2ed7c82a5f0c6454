// GGUF files of any bytes: whatever is accepted must convert without a read outside them.
#include <stdlib.h>

#include "base/mem.h"
#include "checkpoint/gguf_plan.h"
#include "checkpoint/gguf_quant.h"
#include "checkpoint/gguf_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned char sink; // so that every byte is really read

static void read_rows(const struct gguf_job *j) {
    size_t n = j->form == GGUF_COPY ? 0 : (size_t)j->cols, groups = n / GGUF_GROUP;
    uint8_t *code = mem_alloc(n);
    float *scale = mem_array(groups, sizeof *scale), *bias = mem_array(groups, sizeof *bias);
    float *value = mem_array(n, sizeof *value);
    for (int64_t r = 0; n && r < j->rows; r++) {
        int64_t from = gguf_source_row(j, r);
        if (from < 0 || from >= j->rows) abort();
        const unsigned char *row = j->t->data + (size_t)from * j->t->row;
        gguf_affine(j->t->type, row, n, code, scale, bias);
        gguf_floats(j->t->type, row, n, value);
    }
    for (size_t i = 0; !n && i < j->t->size; i++) sink = j->t->data[i];
    free(code);
    free(scale);
    free(bias);
    free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct error e = {0};
    struct gguf g;
    struct gguf_model m;
    struct gguf_plan p = {0};
    struct gguf_tokenizer t = {0};
    bool ok =
        gguf_parse("fuzz", sv_n((const char *)data, size), &g, &e) && gguf_model_read(&g, &m, &e);
    if (ok) {
        struct error tokens = {0}; // the two do not wait for each other
        gguf_tokenizer_read(&g, m.vocab, &t, &tokens);
        ok = gguf_plan_make(&g, &m, GGUF_AS_AFFINE, &p, &e);
        for (size_t i = 0; ok && i < p.n; i++) read_rows(&p.job[i]);
        json_object_put(gguf_config(&m));
    }
    if (ok == e.set) abort();
    gguf_tokenizer_free(&t);
    gguf_plan_free(&p);
    gguf_close(&g);
    return 0;
}
