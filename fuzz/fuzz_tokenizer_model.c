// tokenizer.model and tiktoken files of any bytes: what is accepted must encode a text and decode
// any ids, and streaming must give what decoding gives. The first byte says which kind follows, and
// whether its pieces get other ids; bytes behind the last one of 0xff are the text.
#include <stdlib.h>

#include "round_trip.h"
#include "tokenizer/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_model(struct tokenizer *t, struct sv file, int kind, struct error *e) {
    static const struct spm_layout layouts[] = {{"", 0, ""}, {"<s> <pad> <unk>", 2, "<mask> a"}};
    if (kind & 1) {
        struct json_object *stages = json_read(
            sv("{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"decoder\":{\"type\":\"ByteLevel\"}}"),
            "stages", e);
        bool ok = tiktoken_read(&t->model, file, e) && tok_read_stages(t, stages, true, e);
        json_object_put(stages);
        return ok;
    }
    if (!model_read_spm(&t->model, file, &layouts[kind >> 1 & 1], e)) return false;
    norm_spm(&t->normalizer, &t->model.spm);
    decode_spm(&t->decoder, &t->model.spm);
    return added_read(&t->added, NULL, true, &t->model.vocab, &t->normalizer, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    struct sv file = sv_n((const char *)data + 1, size - 1);
    size_t end = file.n;
    while (end && (unsigned char)file.p[end - 1] != 0xff) end--;
    struct sv text = sv_cut(file, end, file.n);
    if (end) file.n = end - 1;
    struct error e = {0};
    struct tokenizer *t = tok_new();
    if (read_model(t, file, data[0], &e)) {
        round_trip(t, text, true);
        round_trip(t, sv("Hello  w\xc3\xb6rld\n\xe4\xbd\xa0 a b ab 12 <x> \xff"), true);
    } else if (!e.set) {
        abort();
    }
    tok_close(t);
    return 0;
}
