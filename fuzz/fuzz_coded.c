// A conversation from anywhere, {"messages", "tools", "kwargs", "generate", "go_on"}, through each
// of the chats that models ship in code: an error or a prompt whose plain spans are in order.
#include <stdint.h>
#include <stdlib.h>

#include "chat/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void render(const struct chat *c, struct json_object *o) {
    struct chat_prompt out = {0};
    struct error e = {0};
    struct json_object *kwargs = chat_kwargs(c, false, o, json_at(o, "kwargs"), &e);
    struct chat_options opt = {
        .add_generation_prompt = json_bool_at(o, "generate", false),
        .continue_final_message = json_bool_at(o, "go_on", false),
        .tools = json_at(o, "tools"),
        .kwargs = kwargs,
    };
    if (kwargs && chat_render(c, json_at(o, "messages"), &opt, &out, &e)) {
        size_t at = 0;
        for (size_t i = 0; i < out.spans; at = out.plain[i++].to)
            if (out.plain[i].from < at || out.plain[i].to <= out.plain[i].from) abort();
        if (at > out.text.n) abort();
    } else if (!e.set || out.text.n || out.spans) {
        abort();
    }
    chat_prompt_free(&out);
    json_object_put(kwargs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const types[] = {"kimi_k3", "deepseek_v32", "deepseek_v4", "GOT", "jvlm"};
    static struct chat *chats[sizeof types / sizeof *types];
    struct error e = {0};
    for (size_t i = 0; i < sizeof types / sizeof *types && !chats[i]; i++)
        chats[i] = chat_open("/nonexistent", sv(types[i]), &e);
    struct json_object *o = json_read(sv_n((const char *)data, size), "input", &e);
    if (json_object_is_type(json_at(o, "kwargs"), json_type_object) || !json_at(o, "kwargs"))
        for (size_t i = 0; o && i < sizeof types / sizeof *types; i++) render(chats[i], o);
    json_object_put(o);
    return 0;
}
