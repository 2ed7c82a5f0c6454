// A request's body of any bytes, over the checkpoint of tests/fixtures/text. The first byte says
// which API it is for: "0" completions, "1" chats, "2" messages.
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
    static const struct server_options opt; // none
    if (!size) return 0;
    struct ask a = {0};
    struct refusal r = {0};
    struct error e = {0};
    struct str json = {0};
    static const struct api *const apis[] = {&api_completions, &api_chat, &api_messages};
    const struct api *api = apis[(uint8_t)(data[0] - '0') % 3];
    struct json_object *o = json_read(sv_n((const char *)data + 1, size - 1), "the body", &e);
    if (!json_object_is_type(o, json_type_object)) {
        json_object_put(o);
        return 0;
    }
    bool ok = api->read(&a, o, model(), &opt, &r);
    json_object_put(o);
    if (ok == (r.status != 0)) abort();
    if (ok && (!a.prompt.ids.n || a.stops > ASK_STOPS || !sampling_check(&a.sampling, &e))) abort();
    api->refusal(&json, &r);
    if (!utf8_valid(str_sv(&json))) abort();
    str_free(&json);
    ask_free(&a);
    return 0;
}
