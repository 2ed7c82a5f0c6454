#include "server/cors.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const struct arg cors_args[] = {
    {"--cors-origins", ARG_TEXT, "ORIGIN", "LLAMA_ARG_CORS_ORIGINS", "*", 0, 0,
     "what Access-Control-Allow-Origin says; *: any page, which is named by its own origin where "
     "credentials are allowed; localhost: pages of this machine; several with commas between: as "
     "--allowed-origins"},
    {"--cors-methods", ARG_TEXT, "LIST", "LLAMA_ARG_CORS_METHODS", "GET, POST, DELETE, OPTIONS", 0,
     0, "Access-Control-Allow-Methods of an answer to OPTIONS"},
    {"--cors-headers", ARG_TEXT, "LIST", "LLAMA_ARG_CORS_HEADERS", "*", 0, 0,
     "Access-Control-Allow-Headers of an answer to OPTIONS"},
    {"--cors-credentials --no-cors-credentials", ARG_SWITCH, NULL,
     "LLAMA_ARG_CORS_CREDENTIALS LLAMA_ARG_NO_CORS_CREDENTIALS", "on", 0, 0,
     "pages may send credentials"},
    {"--allowed-origins", ARG_TEXT, "LIST", "MLXCEL_ALLOWED_ORIGINS", NULL, 0, 0,
     "instead of --cors-origins: only pages of these origins, as https://app.example.com, with "
     "commas between"},
};
const struct arg_group cors_arg_group = {"Web pages", cors_args,
                                         sizeof cors_args / sizeof *cors_args};

// scheme://host[:port], without anything behind it
static bool is_origin(struct sv s) {
    struct sv rest = sv("");
    if (sv_starts(s, sv("http://"))) rest = sv_cut(s, 7, s.n);
    if (sv_starts(s, sv("https://"))) rest = sv_cut(s, 8, s.n);
    for (size_t i = 0; i < rest.n; i++)
        if (strchr("/?#@ ", rest.p[i])) return false;
    return rest.n > 0;
}

static bool read_allowed(struct cors *c, struct sv list, const char *option, struct error *e) {
    while (list.n) {
        ptrdiff_t comma = sv_find(list, sv(","), 0);
        struct sv part = sv_cut(list, 0, comma < 0 ? list.n : (size_t)comma), one = sv_trim(part);
        list = sv_cut(list, part.n + 1, list.n);
        if (!is_origin(one))
            return fail(e, "%s: \"%.*s\" is no origin; one is https://host or http://host:port",
                        option, (int)one.n, one.p);
        c->allowed = mem_resize(c->allowed, c->n + 1, sizeof *c->allowed);
        c->allowed[c->n++] = one;
    }
    return true;
}

bool cors_read(struct cors *c, const struct args *a, struct error *e) {
    const char *allowed = args_text(a, "allowed-origins");
    *c = (struct cors){
        .origins = args_text(a, "cors-origins"),
        .methods = args_text(a, "cors-methods"),
        .headers = args_text(a, "cors-headers"),
        .credentials = args_flag(a, "cors-credentials"),
    };
    if (!allowed)
        return !strchr(c->origins, ',') || read_allowed(c, sv(c->origins), "--cors-origins", e);
    if (args_given(a, "cors-origins"))
        return fail(e, "--allowed-origins and --cors-origins exclude each other");
    return read_allowed(c, sv(allowed), "--allowed-origins", e);
}

void cors_free(struct cors *c) { free(c->allowed); }

// Of this machine, at any port.
static bool is_local(struct sv origin) {
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
    if (!is_origin(origin)) return false;
    struct sv rest = sv_cut(origin, (size_t)sv_find(origin, sv("//"), 0) + 2, origin.n);
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct sv host = sv(hosts[i]);
        if (sv_starts(rest, host) && (rest.n == host.n || rest.p[host.n] == ':')) return true;
    }
    return false;
}

bool cors_varies(const struct cors *c) {
    if (!c->origins) return false;
    return c->allowed || !strcmp(c->origins, "localhost") ||
           (!strcmp(c->origins, "*") && c->credentials);
}

const char *cors_origin(const struct cors *c, const char *origin) {
    if (!c->origins) return NULL;
    if (!cors_varies(c)) return c->origins;
    if (!origin) return NULL;
    for (size_t i = 0; i < c->n; i++)
        if (sv_is(c->allowed[i], origin)) return origin;
    if (c->allowed) return NULL;
    return !strcmp(c->origins, "*") || is_local(sv(origin)) ? origin : NULL;
}
