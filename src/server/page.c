#include "server/page.h"

#include "server/routes.h"

bool route_page(struct exchange *x) {
    if (x->service->o->page) return exchange_page(x, sv_n(page_html, page_size), page_policy);
    refuse(&x->refusal, 404, NULL, "no page here (--no-webui)");
    return exchange_refuse(x);
}
