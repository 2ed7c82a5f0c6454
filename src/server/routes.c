#include "server/routes.h"

#include <string.h>

#include "server/api_responses.h"
#include "server/api_native.h"
#include "server/routes_native.h"

static const struct route routes[] = {
    {"GET", "", true, NULL, route_enter},
    {"GET", "/", true, NULL, route_page},
    {"GET", "/index.html", true, NULL, route_page},
    {"GET", "/health", true, NULL, route_health},
    {"GET", "/v1/health", true, NULL, route_health},
    {"GET", "/v1/models", false, NULL, route_models},
    {"GET", "/models", false, NULL, route_models},
    {"GET", "/v1/models/", false, NULL, route_model},
    {"GET", "/models/", false, NULL, route_model},
    {"POST", "/v1/completions", false, &api_completions, exchange_complete},
    {"POST", "/v1/chat/completions", false, &api_chat, exchange_complete},
    {"POST", "/chat/completions", false, &api_chat, exchange_complete},
    {"POST", "/v1/responses", false, &api_responses, route_response_create},
    {"POST", "/responses", false, &api_responses, route_response_create},
    {"GET", "/v1/responses/", false, &api_responses, route_response_get},
    {"GET", "/responses/", false, &api_responses, route_response_get},
    {"DELETE", "/v1/responses/", false, &api_responses, route_response_drop},
    {"DELETE", "/responses/", false, &api_responses, route_response_drop},
    {"POST", "/v1/responses/input_tokens", false, &api_responses, route_response_count},
    {"POST", "/responses/input_tokens", false, &api_responses, route_response_count},
    {"POST", "/v1/responses/compact", false, &api_responses, route_response_compact},
    {"POST", "/responses/compact", false, &api_responses, route_response_compact},
    {"POST", "/v1/responses/", false, &api_responses, route_response_cancel},
    {"POST", "/responses/", false, &api_responses, route_response_cancel},
    {"POST", "/v1/messages", false, &api_messages, exchange_complete},
    {"POST", "/v1/messages/count_tokens", false, &api_messages, route_count_tokens},
    {"POST", "/v1/chat/completions/input_tokens", false, &api_chat, route_input_tokens},
    {"POST", "/chat/completions/input_tokens", false, &api_chat, route_input_tokens},
    {"POST", "/completion", false, &api_native, exchange_complete},
    {"POST", "/completions", false, &api_native, exchange_complete},
    {"POST", "/infill", false, &api_infill, exchange_complete},
    {"POST", "/tokenize", false, &api_native, route_tokenize},
    {"POST", "/detokenize", false, &api_native, route_detokenize},
    {"POST", "/apply-template", false, &api_native, route_apply_template},
    {"GET", "/props", false, &api_native, route_props},
    {"POST", "/props", false, &api_native, route_set_props},
    {"GET", "/slots", false, &api_native, route_slots},
    {"POST", "/slots/", false, &api_native, route_slot_action},
    {"GET", "/metrics", false, &api_native, route_metrics},
    {"GET", "/lora-adapters", false, &api_native, route_adapters},
    {"POST", "/lora-adapters", false, &api_native, route_set_adapters},
};
enum { ROUTES = sizeof routes / sizeof *routes };

static void allow(struct exchange *x, const char *method) {
    struct str s = {0};
    str_printf(&s, "%s%s%s", x->allow, *x->allow ? ", " : "", method);
    if (s.n < sizeof x->allow) memcpy(x->allow, str_c(&s), s.n + 1);
    str_free(&s);
}

// Browsers ask before they ask, of any path and without a key.
static const struct route preflight = {"OPTIONS", "", true, NULL, route_preflight};

bool routes_find(struct exchange *x, const char *method) {
    struct sv asked = str_sv(&x->whole_path);
    if (!strcmp(method, "OPTIONS")) {
        x->route = &preflight;
        return true;
    }
    if (!strcmp(method, "HEAD")) method = "GET"; // libmicrohttpd leaves the body out
    for (size_t i = 0; i < ROUTES; i++) {
        struct sv path = sv(routes[i].path);
        bool more = path.n > 1 && sv_ends(path, sv("/")) && sv_starts(asked, path);
        if (!more && !sv_eq(asked, path)) continue;
        if (strcmp(method, routes[i].method) != 0) {
            allow(x, routes[i].method);
            continue;
        }
        x->route = &routes[i];
        x->rest = sv_cut(asked, path.n, asked.n);
        return true;
    }
    if (*x->allow)
        return refuse(&x->refusal, 405, NULL, "%s takes %s, not %s", x->path, x->allow, x->method);
    return refuse(&x->refusal, 404, NULL, "no route %s %s", x->method, x->path);
}
