#include "server/page.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "server/routes.h"

bool route_page(struct exchange *x) {
    if (x->service->o->page) return exchange_page(x, sv_n(page_html, page_size), page_policy);
    refuse(&x->refusal, 404, NULL, "no page here (--no-webui)");
    return exchange_refuse(x);
}

// /llm to /llm/, where the page asks for what is beside it. Proxies may have put more before /llm.
bool route_enter(struct exchange *x) {
    struct str to = {0};
    char *prefix = mem_textn(x->service->o->prefix.p, x->service->o->prefix.n);
    str_add(&to, path_name(prefix));
    str_addc(&to, '/');
    exchange_header(x, "Location", to.p);
    bool sent = exchange_send(x, 308, "text/html", sv(""));
    str_free(&to);
    free(prefix);
    return sent;
}
