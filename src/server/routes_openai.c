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

static void add_model(struct str *json, const struct service *s) {
    const struct engine_info *i = engine_info(worker_model(s->worker)->engine);
    str_puts(json, "{\"id\":");
    json_quote(json, sv(s->o->name));
    str_printf(json,
               ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"mlxcel\",\"meta\":"
               "{\"n_vocab\":%lld,\"n_ctx\":%lld,\"n_ctx_train\":%lld,\"n_embd\":%lld,"
               "\"n_params\":%lld,\"size\":%zu}}",
               (long long)s->started, (long long)i->vocab, (long long)i->context,
               (long long)i->model_context, (long long)i->hidden, (long long)i->parameters,
               i->weight_bytes);
}

bool route_models(struct exchange *x) {
    struct str json = {0};
    str_puts(&json, "{\"object\":\"list\",\"data\":[");
    add_model(&json, x->service);
    str_puts(&json, "]}");
    bool sent = exchange_json(x, 200, &json);
    str_free(&json);
    return sent;
}

bool route_model(struct exchange *x) {
    struct str json = {0};
    if (!sv_is(x->rest, x->service->o->name)) {
        x->refusal.code = "model_not_found";
        refuse(&x->refusal, 404, "model", "no such model: this server has \"%s\"",
               x->service->o->name);
        return exchange_refuse(x);
    }
    add_model(&json, x->service);
    bool sent = exchange_json(x, 200, &json);
    str_free(&json);
    return sent;
}
