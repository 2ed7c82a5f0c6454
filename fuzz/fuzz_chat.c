// A request of any bytes for chat_render, over templates as published: an error or text, soon, and
// no memory misused. The first byte picks the template, the second the options and whether contents
// are checked before; the rest is JSON:
// the messages, or an object with messages, tools, documents and kwargs.
#include <stdlib.h>

#include "base/file.h"
#include "chat/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEMPLATES_MOST = 32 };

struct templates {
    struct chat *at[TEMPLATES_MOST];
    size_t n;
};

static const struct templates *templates(void) {
    static struct templates all;
    if (all.n) return &all;
    struct error e = {0};
    struct names names = {0};
    if (!dir_list(FIXTURES "/chat/templates", &names, &e)) abort();
    for (size_t i = 0; i < names.n && all.n < TEMPLATES_MOST; i++) {
        char *path = path_join(FIXTURES "/chat/templates", names.name[i]);
        struct str source = {0};
        if (!file_read(path, 1 << 20, &source, &e)) abort();
        if (!(all.at[all.n++] = chat_of_template(str_sv(&source), &e))) abort();
        str_free(&source);
        free(path);
    }
    names_free(&names);
    return &all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct templates *all = templates();
    struct error e = {0};
    struct chat_prompt out = {0};
    if (size < 3) return 0;
    struct json_object *o = json_read(sv_n((const char *)data + 2, size - 2), "request", &e);
    bool call = json_object_is_type(o, json_type_object);
    struct chat_options opt = {
        .add_generation_prompt = data[1] & 1,
        .continue_final_message = data[1] & 2,
        .tools = call ? json_at(o, "tools") : NULL,
        .documents = call ? json_at(o, "documents") : NULL,
        .kwargs = call ? json_at(o, "kwargs") : NULL,
    };
    struct json_object *messages = call ? json_at(o, "messages") : o;
    if (o && (data[1] & 4 || chat_check_contents(messages, &e)) &&
        chat_render(all->at[data[0] % all->n], messages, &opt, &out, &e) == e.set)
        abort();
    if (!utf8_valid(str_sv(&out.text)) || out.spans || (e.set && out.text.n)) abort();
    chat_prompt_free(&out);
    json_object_put(o);
    return 0;
}
