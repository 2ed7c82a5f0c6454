#include "server/refusal.h"

#include <string.h>

#include "base/json.h"

bool refuse(struct refusal *r, unsigned status, const char *param, const char *fmt, ...) {
    if (r->status) return false;
    va_list args;
    va_start(args, fmt);
    vfail(&r->why, fmt, args);
    va_end(args);
    r->status = status;
    r->param = param;
    return false;
}

void refusal_rename(struct refusal *r, const char *from, const char *to) {
    if (!r->param || strcmp(r->param, from) != 0) return;
    struct str name = {0}, text = {0};
    str_printf(&name, "\"%s\"", from);
    for (struct sv rest = sv(r->why.text); rest.n;) {
        ptrdiff_t at = sv_find(rest, str_sv(&name), 0);
        str_add(&text, sv_cut(rest, 0, at < 0 ? rest.n : (size_t)at));
        if (at >= 0) str_printf(&text, "\"%s\"", to);
        rest = at < 0 ? sv("") : sv_cut(rest, (size_t)at + name.n, rest.n);
    }
    r->param = to;
    r->why = (struct error){0};
    fail(&r->why, "%s", str_c(&text));
    str_free(&name);
    str_free(&text);
}

static const char *type(unsigned status) {
    switch (status) {
    case 429: return "rate_limit_error";
    case 500: return "server_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    case 504: return "timeout_error";
    default: return "invalid_request_error";
    }
}

static void add_text(struct str *out, const char *name, const char *text) {
    if (text)
        json_member(out, name, sv(text));
    else
        str_printf(out, "\"%s\":null", name);
}

void refusal_json(struct str *out, const struct refusal *r) {
    str_puts(out, "{\"error\":{");
    add_text(out, "message", r->why.text);
    str_printf(out, ",\"type\":\"%s\",", type(r->status));
    add_text(out, "param", r->param);
    str_addc(out, ',');
    if (r->status == 503) // llama-server's clients look for the number
        str_puts(out, "\"code\":503");
    else
        add_text(out, "code", r->code);
    str_puts(out, "}}");
}

static const char *native_type(const struct refusal *r) {
    if (r->tokens) return "exceed_context_size_error";
    switch (r->status) {
    case 401: return "authentication_error";
    case 404: return "not_found_error";
    default: return type(r->status);
    }
}

void refusal_native(struct str *out, const struct refusal *r) {
    str_printf(out, "{\"error\":{\"code\":%u,", r->status);
    add_text(out, "message", r->why.text);
    str_printf(out, ",\"type\":\"%s\"", native_type(r));
    if (r->tokens)
        str_printf(out, ",\"n_prompt_tokens\":%lld,\"n_ctx\":%lld", (long long)r->tokens,
                   (long long)r->context);
    str_puts(out, "}}");
}
