// Which paths there are, and what answers them.
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include "server/exchange.h"

// Sets the exchange's route and rest by x->whole_path. False with a refusal.
bool routes_find(struct exchange *x, const char *method);

// routes_models.c
bool route_health(struct exchange *x);
bool route_models(struct exchange *x);
bool route_model(struct exchange *x);

bool route_count_tokens(struct exchange *x); // api_anthropic.c
bool route_page(struct exchange *x);         // page.c
bool route_enter(struct exchange *x);        // page.c

// routes_responses.c
bool route_response_create(struct exchange *x);
bool route_response_get(struct exchange *x); // it, or its items
bool route_response_drop(struct exchange *x);
bool route_response_cancel(struct exchange *x);
bool route_response_count(struct exchange *x); // the tokens of its input
bool route_response_compact(struct exchange *x);

#endif
