// A request's body of any bytes, over the checkpoint of tests/fixtures/text. The first byte says
// which API it is for.
#include <stdlib.h>

#include "server/ask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct text_model *model(void) {
    static struct text_model m;
    struct engine_options opt = {
        .device = "cpu", .pool.threads = 1, .isa = ISA_BEST, .context = 4096};
    struct error e = {0};
    if (!m.engine && !text_open(&m, FIXTURES "/text", &opt, &e)) abort();
    return &m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    struct ask a;
    struct refusal r = {0};
    struct error e = {0};
    struct str json = {0};
    bool ok = ask_read(&a, data[0] & 1, sv_n((const char *)data + 1, size - 1), model(), NULL, &r);
    if (ok == (r.status != 0)) abort();
    if (ok && (!a.prompt.ids.n || a.stops > ASK_STOPS || !sampling_check(&a.sampling, &e))) abort();
    refusal_json(&json, &r);
    if (!utf8_valid(str_sv(&json))) abort();
    str_free(&json);
    ask_free(&a);
    return 0;
}
