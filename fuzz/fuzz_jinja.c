// A template from anywhere, rendered with a small conversation under tight limits: an error or
// text, soon, and no memory misused. A first line of JSON, when there is one, is the context.
#include <stdint.h>

#include "chat/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char talk[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"h\\u00e9 <b>\", \"n\": 1.5}, {\"role\":"
    " \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\","
    " \"arguments\": {\"a\": [1, true, null]}}}]}], \"tools\": null, \"bos_token\": \"<s>\","
    " \"n\": 7, \"s\": \" a,b \", \"l\": [3, 1, 2], \"d\": {\"b\": 2, \"a\": 1}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct jinja_limits tight = {
        .steps = 200000, .memory = 4 << 20, .output = 1 << 20, .depth = 300};
    struct sv text = sv_n((const char *)data, size);
    struct error e = {0}, ignored = {0};
    struct str out = {0};
    ptrdiff_t end = size && data[0] == '{' ? sv_find(text, sv("\n"), 0) : -1;
    struct json_object *own =
        end > 0 ? json_read(sv_cut(text, 0, (size_t)end), "context", &ignored) : NULL;
    if (own) text = sv_cut(text, (size_t)end + 1, text.n);
    struct json_object *context = own ? own : json_read(sv(talk), "context", &e);
    struct jinja *t = jinja_compile(text, &e);
    if (t && json_object_is_type(context, json_type_object))
        jinja_render_within(t, context, &tight, &out, NULL, &e);
    jinja_free(t);
    json_object_put(context);
    str_free(&out);
    return 0;
}
