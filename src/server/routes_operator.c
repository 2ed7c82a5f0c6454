// What the operator asks for: properties, slots, metrics, adapters; and what browsers ask first.
#include <stdlib.h>

#include "base/json.h"
#include "server/cors.h"
#include "server/metrics.h"
#include "server/routes_native.h"
#include "server/settings.h"

static bool send_json(struct exchange *x, struct str *json) {
    bool sent = exchange_json(x, 200, json);
    str_free(json);
    return sent;
}

// A route that has to be turned on, or was turned off.
static bool needs(struct exchange *x, bool on, const char *what, const char *option) {
    return on || refuse(&x->refusal, 501, NULL,
                        "This server does not support %s. Start it with `%s`", what, option);
}

// --- properties ----------------------------------------------------------------------------------

static void add_text(struct str *s, const char *name, struct sv text) {
    json_member(s, name, text);
    str_addc(s, ',');
}

static void add_flag(struct str *s, const char *name, bool on) {
    str_printf(s, "\"%s\":%s,", name, on ? "true" : "false");
}

static void add_token(struct str *s, const char *name, const struct tokenizer *t, int32_t id) {
    add_text(s, name, id < 0 ? sv("") : tok_token(t, id));
}

// What a template is able to is what it looks at.
static void add_templates(struct str *s, const struct text_model *m) {
    static const struct {
        const char *name, *variable;
    } caps[] = {{"supports_tools", "tools"},
                {"supports_tool_calls", "tool_calls"},
                {"supports_preserve_reasoning", "reasoning_content"},
                {"supports_reasoning_effort", "reasoning_effort"}};
    struct sv plain = chat_source(m->chat, false), tools = chat_source(m->chat, true);
    add_text(s, "chat_template", plain);
    if (!sv_eq(plain, tools)) add_text(s, "chat_template_tool_use", tools);
    str_puts(s, "\"chat_template_caps\":{");
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        str_printf(s, "%s\"%s\":%s", i ? "," : "", caps[i].name,
                   sv_find(tools, sv(caps[i].variable), 0) >= 0 ? "true" : "false");
    str_puts(s, "},");
}

static void add_props(struct str *s, const struct service *v) {
    const struct server_options *o = v->o;
    const struct text_model *m = worker_model(v->worker);
    const struct engine_info *i = engine_info(m->engine);
    str_puts(s, "{\"default_generation_settings\":{\"params\":");
    settings_default(s, m, &o->defaults);
    str_printf(s, ",\"n_ctx\":%lld},\"total_slots\":%lld,", (long long)i->context,
               (long long)i->sequences);
    add_text(s, "model_alias", sv(o->name[0]));
    str_printf(s, "\"model_ftype\":\"%.2f bits per weight\",", i->bits_per_weight);
    add_text(s, "model_path", sv(o->model));
    str_puts(s, "\"modalities\":{\"vision\":false,\"video\":false,\"audio\":false},"
                "\"media_marker\":\"<__media__>\",");
    add_flag(s, "endpoint_slots", o->slots);
    add_flag(s, "endpoint_props", o->props);
    add_flag(s, "endpoint_metrics", o->metrics);
    add_flag(s, "ui", o->page);
    str_puts(s, "\"ui_settings\":{},");
    add_templates(s, m);
    add_token(s, "bos_token", m->tokenizer, tok_bos(m->tokenizer));
    add_token(s, "eos_token", m->tokenizer, tok_eos(m->tokenizer));
    str_puts(s, "\"build_info\":\"mlxcel-" MLXCEL_VERSION "\",\"is_sleeping\":false,"
                "\"cors_proxy_enabled\":false}");
}

bool route_props(struct exchange *x) {
    struct str json = {0};
    add_props(&json, x->service);
    return send_json(x, &json);
}

// There is none that can be changed, as in llama-server.
bool route_set_props(struct exchange *x) {
    struct str json = {0};
    if (!needs(x, x->service->o->props, "changing global properties", "--props"))
        return exchange_refuse(x);
    str_puts(&json, "{\"success\":true}");
    return send_json(x, &json);
}

// --- slots ---------------------------------------------------------------------------------------

static void add_slot(struct str *s, const struct place *p, size_t id, int64_t context) {
    str_printf(s, "{\"id\":%zu,\"n_ctx\":%lld,\"speculative\":false,\"is_processing\":%s", id,
               (long long)context, p->busy ? "true" : "false");
    if (p->number) {
        str_printf(s,
                   ",\"id_task\":%lld,\"n_prompt_tokens\":%lld,\"n_prompt_tokens_processed\":%lld,"
                   "\"n_prompt_tokens_cache\":%lld,\"params\":%s,\"next_token\":[{"
                   "\"has_next_token\":%s,\"n_remain\":%lld,\"n_decoded\":%lld}]",
                   (long long)p->number, (long long)p->prompt, (long long)(p->done - p->cached),
                   (long long)p->cached, p->about ? p->about : "{}", p->busy ? "true" : "false",
                   (long long)(p->busy ? p->left : -1), (long long)(p->busy ? p->made : 0));
    }
    str_addc(s, '}');
}

// With ?fail_on_no_slot=1, 503 says that none is free.
static bool check_free(struct exchange *x, const struct place *p, size_t n) {
    const char *fail = exchange_query(x, "fail_on_no_slot");
    if (!fail || !*fail) return true;
    for (size_t i = 0; i < n; i++)
        if (!p[i].busy) return true;
    return refuse(&x->refusal, 503, NULL, "no slot available");
}

bool route_slots(struct exchange *x) {
    struct str json = {0};
    size_t n;
    if (!needs(x, x->service->o->slots, "slots endpoint", "--slots")) return exchange_refuse(x);
    struct worker *w = x->service->worker;
    struct place *p = worker_places(w, &n);
    str_addc(&json, '[');
    for (size_t i = 0; i < n; i++) {
        if (i) str_addc(&json, ',');
        add_slot(&json, &p[i], i, engine_info(worker_model(w)->engine)->context);
    }
    str_addc(&json, ']');
    bool free_one = check_free(x, p, n);
    worker_places_free(w, p);
    if (free_one) return send_json(x, &json);
    str_free(&json);
    return exchange_refuse(x);
}

// --- metrics -------------------------------------------------------------------------------------

bool route_metrics(struct exchange *x) {
    struct service *s = x->service;
    if (!needs(x, s->o->metrics, "metrics endpoint", "--metrics")) return exchange_refuse(x);
    struct worker_stats now = worker_stats(s->worker);
    struct str text = {0}, started = {0};
    metrics_write(&text, &s->metrics, &now,
                  engine_info(worker_model(s->worker)->engine)->sequences);
    str_printf(&started, "%lld", (long long)s->started);
    exchange_header(x, "Process-Start-Time-Unix", started.p);
    bool sent = exchange_send(x, 200, "text/plain; version=0.0.4", str_sv(&text));
    str_free(&text);
    str_free(&started);
    return sent;
}

// --- adapters ------------------------------------------------------------------------------------

bool route_adapters(struct exchange *x) {
    struct str json = {0};
    str_puts(&json, "[]");
    return send_json(x, &json);
}

// Scales of adapters that are not there change nothing; one that is to have some can't get it.
bool route_set_adapters(struct exchange *x) {
    struct str json = {0};
    struct json_object *list = exchange_read_list(x);
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        if (json_number_at(json_object_array_get_idx(list, i), "scale", 0) != 0)
            refuse(&x->refusal, 400, NULL, "this server has no adapters to give a scale to");
    if (list) {
        json_object_put(list);
        exchange_drop_json(x);
    }
    if (x->refusal.status) return exchange_refuse(x);
    str_puts(&json, "{\"success\":true}");
    return send_json(x, &json);
}

// --- browsers ------------------------------------------------------------------------------------

bool route_preflight(struct exchange *x) {
    const struct cors *c = &x->service->o->cors;
    exchange_header(x, "Access-Control-Allow-Credentials", c->credentials ? "true" : "false");
    exchange_header(x, "Access-Control-Allow-Methods", c->methods);
    exchange_header(x, "Access-Control-Allow-Headers", c->headers);
    return exchange_send(x, 200, "text/html", sv(""));
}
