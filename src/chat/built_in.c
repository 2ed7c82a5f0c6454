// The chats of models whose checkpoints ship none.
#include <stdlib.h>

#include "base/file.h"
#include "chat/coded.h"

// The one conversation that modeling_GOT.py::chat builds: its system text, with the spaces that
// its source is indented by, stands in place of a request's; an image is 256 places, first.
static const char got[] =
    "<|im_start|>system\n"
    "        You should follow the instructions carefully and explain your answers in detail."
    "<|im_end|>"
    "{% for m in messages if m.role != 'system' %}"
    "{% if m.role not in ['user', 'assistant'] %}"
    "{{ raise_exception('GOT knows the roles system, user and assistant') }}{% endif %}"
    "{{ '<|im_start|>' + m.role + '\\n' }}"
    "{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content if part.type in ['image', 'image_url'] %}"
    "{{ '<img>' + '<imgpad>' * 256 + '</img>\\n' }}{% endfor %}"
    "{% for part in m.content if part.type == 'text' %}{{ part.text }}{% endfor %}"
    "{% endif %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

// Molmo's, with images where they stand. Its processor begins each prompt with BOS.
static const char jina_vlm[] =
    "{{ bos_token or eos_token }}"
    "{{ '' if always_start_with_space is defined and not always_start_with_space else ' ' }}"
    "{% for m in messages %}"
    "{% if m.role != ['user', 'assistant'][loop.index0 % 2] %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"
    "{% endif %}"
    "{{ m.role | capitalize + ': ' }}"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{{ '<|image|>' if part.type in ['image', 'image_url'] else part.text }}"
    "{{ ' ' if not loop.last }}{% endfor %}{% endif %}"
    "{{ ' ' if not loop.last }}{% endfor %}"
    "{{ ' Assistant:' if add_generation_prompt }}";

struct built_in built_in_chat(const char *dir, struct sv model_type) {
    static const struct {
        const char *model_type;
        struct built_in chat;
    } all[] = {
        {"kimi_k3", {&coded_kimi_k3, NULL}},
        {"deepseek_v32", {&coded_deepseek_v32, NULL}},
        {"deepseek_v4", {&coded_deepseek_v4, NULL}},
        {"GOT", {NULL, got}},
        {"jvlm", {NULL, jina_vlm}},
        {"jina_vlm", {NULL, jina_vlm}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (sv_is(model_type, all[i].model_type)) return all[i].chat;
    if (!sv_is(model_type, "kimi_linear")) return (struct built_in){0};
    // With a tiktoken vocabulary it is the text half of Kimi K3.
    char *path = path_join(dir, "tiktoken.model");
    struct built_in chat = {file_named(path) ? &coded_kimi_k3 : NULL, NULL};
    free(path);
    return chat;
}
