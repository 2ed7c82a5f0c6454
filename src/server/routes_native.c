#include "server/routes_native.h"

#include "base/json.h"
#include "server/ask_prompt.h"
#include "server/body.h"

// Sends what is in json, or the refusal, and frees both json and the body o, which may be NULL.
static bool reply(struct exchange *x, struct json_object *o, struct str *json) {
    if (o) {
        json_object_put(o);
        exchange_drop_json(x);
    }
    bool sent = x->refusal.status ? exchange_refuse(x) : exchange_json(x, 200, json);
    str_free(json);
    return sent;
}

// --- tokens --------------------------------------------------------------------------------------

// A token's bytes, as text where they are some.
static void add_piece(struct str *s, const struct tokenizer *t, int32_t id) {
    struct str bytes = {0};
    tok_bytes(t, id, &bytes);
    str_printf(s, "{\"id\":%d,\"piece\":", id);
    if (utf8_valid(str_sv(&bytes))) {
        json_quote(s, str_sv(&bytes));
    } else {
        for (size_t i = 0; i < bytes.n; i++)
            str_printf(s, i ? ",%d" : "[%d", (unsigned char)bytes.p[i]);
        str_addc(s, ']');
    }
    str_addc(s, '}');
    str_free(&bytes);
}

static bool tokenize(struct json_object *o, const struct text_model *m, struct str *out,
                     struct refusal *r) {
    bool special = false, parse = true, pieces = false;
    struct json_object *content = json_at(o, "content");
    struct ids ids = {0};
    if (!content && (json_at(o, "prompt") || json_at(o, "messages"))) // vLLM's
        return refuse(r, 400, "content", "\"content\" is missing: the text is given by that name");
    if (!body_flag(o, "add_special", &special, r) || !body_flag(o, "parse_special", &parse, r) ||
        !body_flag(o, "with_pieces", &pieces, r))
        return false;
    bool ok = !content || ask_ids(content, "content", special, !parse, m, &ids, r);
    str_puts(out, "{\"tokens\":[");
    for (size_t i = 0; i < ids.n && ok; i++) {
        if (i) str_addc(out, ',');
        if (pieces)
            add_piece(out, m->tokenizer, ids.id[i]);
        else
            str_printf(out, "%d", ids.id[i]);
    }
    str_puts(out, "]}");
    ids_free(&ids);
    return ok;
}

bool route_tokenize(struct exchange *x) {
    struct str json = {0};
    struct json_object *o = exchange_read_json(x);
    if (o) tokenize(o, worker_model(x->service->worker), &json, &x->refusal);
    return reply(x, o, &json);
}

static bool detokenize(struct json_object *o, const struct text_model *m, struct str *out,
                       struct refusal *r) {
    struct json_object *list = json_at(o, "tokens");
    struct ids ids = {0};
    struct str text = {0};
    if (list && !json_object_is_type(list, json_type_array))
        return body_wrong_kind(r, "tokens", "a list of token ids", list);
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        if (!json_object_is_type(json_object_array_get_idx(list, i), json_type_int))
            return body_wrong_kind(r, "tokens", "a list of token ids",
                                   json_object_array_get_idx(list, i));
    bool ok = !list || ask_ids(list, "tokens", false, false, m, &ids, r);
    tok_decode(m->tokenizer, ids.id, ids.n, false, &text);
    str_puts(out, "{\"content\":");
    json_quote(out, str_sv(&text));
    str_addc(out, '}');
    ids_free(&ids);
    str_free(&text);
    return ok;
}

bool route_detokenize(struct exchange *x) {
    struct str json = {0};
    struct json_object *o = exchange_read_json(x);
    if (o) detokenize(o, worker_model(x->service->worker), &json, &x->refusal);
    return reply(x, o, &json);
}

// --- chats ---------------------------------------------------------------------------------------

bool route_apply_template(struct exchange *x) {
    struct str json = {0}, text = {0};
    struct json_object *o = exchange_read_json(x);
    const struct service *s = x->service;
    if (o && ask_chat_text(o, worker_model(s->worker), s->o, &text, &x->refusal)) {
        str_puts(&json, "{\"prompt\":");
        json_quote(&json, str_sv(&text));
        str_addc(&json, '}');
    }
    str_free(&text);
    return reply(x, o, &json);
}

bool route_input_tokens(struct exchange *x) {
    struct str json = {0};
    struct ask a = {0};
    struct json_object *o = exchange_read_json(x);
    const struct service *s = x->service;
    struct refusal *r = &x->refusal;
    if (o && ask_counted(ask_chat(&a, o, worker_model(s->worker), s->o, r), r))
        str_printf(&json, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}",
                   a.prompt.ids.n);
    ask_free(&a);
    return reply(x, o, &json);
}
