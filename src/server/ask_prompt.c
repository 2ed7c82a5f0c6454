#include "server/ask_prompt.h"

#include <stdlib.h>

#include "base/mem.h"
#include "server/body.h"

enum { PROMPTS_MOST = 128 };

static bool add_text(struct json_object *v, const char *name, bool special, bool plain,
                     const struct text_model *m, struct ids *out, struct refusal *r) {
    struct error e = {0};
    bool ok = plain ? tok_encode_plain(m->tokenizer, json_text(v), special, out, &e)
                    : tok_encode(m->tokenizer, json_text(v), special, out, &e);
    return ok || refuse(r, 400, name, "%s", e.text);
}

static bool add_id(struct json_object *v, const char *name, size_t at, const struct text_model *m,
                   struct ids *out, struct refusal *r) {
    int64_t vocab = engine_info(m->engine)->vocab;
    int64_t id = json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : -1;
    if (id < 0 || id >= vocab)
        return refuse(r, 400, name, "element %zu of \"%s\" is no token id: those are 0 to %lld", at,
                      name, (long long)vocab - 1);
    ids_push(out, (int32_t)id);
    return true;
}

bool ask_ids(struct json_object *v, const char *name, bool special, bool plain,
             const struct text_model *m, struct ids *out, struct refusal *r) {
    if (json_object_is_type(v, json_type_string))
        return add_text(v, name, special, plain, m, out, r);
    if (!json_object_is_type(v, json_type_array))
        return body_wrong_kind(r, name, "a string or a list of token ids", v);
    for (size_t i = 0; i < json_object_array_length(v); i++) {
        struct json_object *one = json_object_array_get_idx(v, i);
        bool text = json_object_is_type(one, json_type_string);
        if (text ? !add_text(one, name, special && i == 0, plain, m, out, r)
                 : !add_id(one, name, i, m, out, r))
            return false;
    }
    return true;
}

bool ask_check_length(size_t tokens, const char *param, const struct text_model *m,
                      struct refusal *r) {
    size_t context = (size_t)engine_info(m->engine)->context;
    if (!tokens) return refuse(r, 400, param, "the prompt has no tokens");
    if (tokens < context) return true;
    r->code = "context_length_exceeded";
    r->tokens = (int64_t)tokens;
    r->context = (int64_t)context;
    return refuse(r, 400, param,
                  "the prompt has %zu tokens, which exceeds the available context size of %zu "
                  "tokens, with the answer (--ctx-size, --parallel)",
                  tokens, context);
}

bool ask_counted(bool read, struct refusal *r) {
    if (read || !r->tokens) return read;
    *r = (struct refusal){0};
    return true;
}

// Text may also come as {"prompt_string": ...}, beside media if the model takes some.
static bool unwrap(struct json_object **v, struct refusal *r) {
    struct json_object *o = *v, *media = json_at(o, "multimodal_data");
    if (!json_object_is_type(o, json_type_object)) return true;
    if (media && !(json_object_is_type(media, json_type_array) && !json_object_array_length(media)))
        return refuse(r, 400, "prompt", "\"multimodal_data\": this model takes text alone");
    *v = json_at(o, "prompt_string");
    return *v ||
           refuse(r, 400, "prompt", "\"prompt_string\" is missing in an object of \"prompt\"");
}

static bool read_one(struct ask *a, struct json_object *v, struct ids *ids, struct str *echoed,
                     const struct text_model *m, struct refusal *r) {
    if (!unwrap(&v, r) || !ask_ids(v, "prompt", true, false, m, ids, r)) return false;
    if (a->echo && json_object_is_type(v, json_type_string))
        str_add(echoed, json_text(v));
    else if (a->echo)
        tok_decode(m->tokenizer, ids->id, ids->n, false, echoed);
    return ask_check_length(ids->n, "prompt", m, r);
}

static bool is_id(struct json_object *v) {
    return json_object_is_type(v, json_type_int) || json_object_is_type(v, json_type_double);
}

// A list with a number in it is one prompt, and so is one that is empty; another one is a list of
// prompts.
static size_t count_prompts(struct json_object *v) {
    size_t n = json_object_is_type(v, json_type_array) ? json_object_array_length(v) : 0;
    for (size_t i = 0; i < n; i++)
        if (is_id(json_object_array_get_idx(v, i))) return 0;
    return n;
}

bool ask_prompts(struct ask *a, struct json_object *o, const struct text_model *m,
                 struct refusal *r) {
    struct json_object *v;
    if (!json_object_object_get_ex(o, "prompt", &v))
        return refuse(r, 400, "prompt", "\"prompt\" is missing");
    size_t n = count_prompts(v);
    if (n > PROMPTS_MOST)
        return refuse(r, 400, "prompt", "\"prompt\" is a list of %zu prompts; it may have %d", n,
                      PROMPTS_MOST);
    struct json_object *first = n ? json_object_array_get_idx(v, 0) : v;
    if (!read_one(a, first, &a->prompt.ids, &a->echoed, m, r)) return false;
    a->more = mem_array(n, sizeof *a->more);
    for (size_t i = 1; i < n; i++) {
        struct more_prompt *p = &a->more[a->mores++];
        if (!read_one(a, json_object_array_get_idx(v, i), &p->ids, &p->echoed, m, r)) return false;
    }
    return true;
}

const struct ids *ask_prompt(const struct ask *a, size_t i) {
    return i ? &a->more[i - 1].ids : &a->prompt.ids;
}

struct sv ask_echoed(const struct ask *a, size_t i) {
    return str_sv(i ? &a->more[i - 1].echoed : &a->echoed);
}
