// llama-server's routes beside its completions, for clients and for the operator.
#ifndef SERVER_ROUTES_NATIVE_H
#define SERVER_ROUTES_NATIVE_H

#include "server/exchange.h"

bool route_tokenize(struct exchange *x);
bool route_detokenize(struct exchange *x);
bool route_apply_template(struct exchange *x);
bool route_input_tokens(struct exchange *x); // of a chat

// routes_operator.c
bool route_props(struct exchange *x);
bool route_set_props(struct exchange *x);
bool route_slots(struct exchange *x);
bool route_slot_action(struct exchange *x); // x->rest: the slot's number
bool route_metrics(struct exchange *x);
bool route_adapters(struct exchange *x);
bool route_set_adapters(struct exchange *x);
bool route_preflight(struct exchange *x); // OPTIONS of any path

#endif
