// Health and models, as OpenAI, llama-server and Anthropic tell of them.
#include "server/routes.h"

#include <time.h>

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

static void add_anthropic_model(struct str *json, const struct service *s, const char *name) {
    const struct engine_info *i = engine_info(worker_model(s->worker)->engine);
    time_t at = (time_t)s->started;
    struct tm utc;
    char since[sizeof "2026-11-30T11:06:00Z"] = "";
    if (gmtime_r(&at, &utc)) strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &utc);
    str_puts(json, "{\"type\":\"model\",");
    json_member(json, "id", sv(name));
    str_addc(json, ',');
    json_member(json, "display_name", sv(name));
    str_printf(json,
               ",\"created_at\":\"%s\",\"max_input_tokens\":%lld,\"max_tokens\":%lld,"
               "\"capabilities\":null,\"lifecycle\":\"active\",\"deprecated_at\":null,"
               "\"retires_at\":null,\"line\":null}",
               since, (long long)i->context, (long long)i->context);
}

// Where a name stands; past the last: nowhere.
static size_t place(const struct server_options *o, const char *name) {
    size_t i = 0;
    while (i < o->names && !sv_is(sv(name), o->name[i])) i++;
    return i;
}

static void add_end(struct str *json, const char *key, const char *name) {
    str_printf(json, ",\"%s\":", key);
    if (name)
        json_quote(json, sv(name));
    else
        str_puts(json, "null");
}

// The names between after_id and before_id; there are never so many that a limit would be of use.
static void add_anthropic_models(struct str *json, const struct exchange *x) {
    const struct server_options *o = x->service->o;
    const char *after = exchange_query(x, "after_id"), *before = exchange_query(x, "before_id");
    size_t from = after ? place(o, after) + 1 : 0, to = before ? place(o, before) : o->names;
    str_puts(json, "{\"data\":[");
    for (size_t i = from; i < to; i++) {
        if (i > from) str_addc(json, ',');
        add_anthropic_model(json, x->service, o->name[i]);
    }
    str_puts(json, "],\"has_more\":false");
    add_end(json, "first_id", from < to ? o->name[from] : NULL);
    add_end(json, "last_id", from < to ? o->name[to - 1] : NULL);
    str_addc(json, '}');
}

static void add_models(struct str *json, const struct service *s) {
    str_puts(json, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < s->o->names; i++) {
        if (i) str_addc(json, ',');
        add_model(json, s, s->o->name[i]);
    }
    str_puts(json, "]}");
}

bool route_models(struct exchange *x) {
    struct str json = {0};
    if (exchange_is_anthropic(x))
        add_anthropic_models(&json, x);
    else
        add_models(&json, x->service);
    bool sent = exchange_json(x, 200, &json);
    str_free(&json);
    return sent;
}

static bool refuse_model(struct exchange *x) {
    const struct server_options *o = x->service->o;
    struct str names = {0};
    for (size_t i = 0; i < o->names; i++) str_printf(&names, i ? ", \"%s\"" : "\"%s\"", o->name[i]);
    x->refusal.code = "model_not_found";
    refuse(&x->refusal, 404, "model", "no such model: this server has %s", str_c(&names));
    str_free(&names);
    return exchange_refuse(x);
}

bool route_model(struct exchange *x) {
    struct str json = {0};
    const char *name = server_options_name(x->service->o, x->rest);
    if (!sv_is(x->rest, name)) return refuse_model(x);
    if (exchange_is_anthropic(x))
        add_anthropic_model(&json, x->service, name);
    else
        add_model(&json, x->service, name);
    bool sent = exchange_json(x, 200, &json);
    str_free(&json);
    return sent;
}
