// Health and models, as OpenAI and llama-server tell of them.
#include "server/routes.h"

bool route_health(struct exchange *x) {
    struct str json = {0};
    if (!exchange_ready(x)) return exchange_refuse(x);
    str_puts(&json, "{\"status\":\"ok\"}");
    bool sent = exchange_json(x, 200, &json);
    str_free(&json);
    return sent;
}

// By one of its names; all of them are its "aliases".
static void add_model(struct str *json, const struct service *s, const char *name) {
    const struct engine_info *i = engine_info(worker_model(s->worker)->engine);
    str_puts(json, "{\"id\":");
    json_quote(json, sv(name));
    for (size_t k = 0; k < s->o->names; k++) {
        str_puts(json, k ? "," : ",\"aliases\":[");
        json_quote(json, sv(s->o->name[k]));
    }
    str_printf(json,
               "],\"object\":\"model\",\"created\":%lld,\"owned_by\":\"mlxcel\",\"meta\":"
               "{\"n_vocab\":%lld,\"n_ctx\":%lld,\"n_ctx_train\":%lld,\"n_embd\":%lld,"
               "\"n_params\":%lld,\"size\":%zu}}",
               (long long)s->started, (long long)i->vocab, (long long)i->context,
               (long long)i->model_context, (long long)i->hidden, (long long)i->parameters,
               i->weight_bytes);
}

bool route_models(struct exchange *x) {
    struct str json = {0};
    str_puts(&json, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < x->service->o->names; i++) {
        if (i) str_addc(&json, ',');
        add_model(&json, x->service, x->service->o->name[i]);
    }
    str_puts(&json, "]}");
    bool sent = exchange_json(x, 200, &json);
    str_free(&json);
    return sent;
}

bool route_model(struct exchange *x) {
    struct str json = {0};
    const char *name = server_options_name(x->service->o, x->rest);
    if (!sv_is(x->rest, name)) {
        x->refusal.code = "model_not_found";
        refuse(&x->refusal, 404, "model", "no such model: this server has \"%s\"", name);
        return exchange_refuse(x);
    }
    add_model(&json, x->service, name);
    bool sent = exchange_json(x, 200, &json);
    str_free(&json);
    return sent;
}
