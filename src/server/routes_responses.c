// OpenAI's Responses API: an answer to a conversation, and the answers that were stored.
#include "server/routes.h"

#include <stdlib.h>

#include "server/api_responses.h"
#include "server/ask_prompt.h"
#include "base/mem.h"
#include "server/responses_items.h"
#include "server/responses_store.h"

enum { LIST_MOST = 100 };

static bool start(struct exchange *x) {
    struct responses_ask q = {0};
    struct json_object *body = exchange_read_json(x);
    if (!body) return false;
    if (responses_ask_read(&q, body, x->service, &x->refusal))
        x->completion =
            completion_start(x->service, &api_responses, q.chat, x->client, &x->refusal);
    json_object_put(body);
    responses_ask_drop_chat(&q);
    if (x->completion)
        api_responses_begin(x->completion, &q);
    else
        responses_ask_free(&q);
    if (!x->completion) exchange_drop_json(x); // else the answer repeats some of it
    responses_ask_rename(&x->refusal);
    return x->completion != NULL;
}

bool route_response_create(struct exchange *x) {
    return start(x) ? exchange_answer(x) : exchange_refuse(x);
}

bool route_response_count(struct exchange *x) {
    struct responses_ask q = {0};
    struct ask a = {0};
    struct str json = {0};
    struct refusal *r = &x->refusal;
    const struct service *s = x->service;
    struct json_object *body = exchange_read_json(x);
    bool ok = body && responses_ask_read(&q, body, x->service, r) &&
              ask_counted(ask_chat(&a, q.chat, worker_model(s->worker), s->o, r), r);
    responses_ask_rename(r);
    if (ok)
        str_printf(&json, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}",
                   a.prompt.ids.n);
    ask_free(&a);
    responses_ask_free(&q);
    if (body) {
        json_object_put(body);
        exchange_drop_json(x);
    }
    ok = ok ? exchange_json(x, 200, &json) : exchange_refuse(x);
    str_free(&json);
    return ok;
}

// A summary that nobody but its maker can read needs a model that was trained to make it, and to go
// on from it.
bool route_response_compact(struct exchange *x) {
    refuse(&x->refusal, 501, NULL,
           "this server does not compact conversations: no model that it serves knows how; send "
           "fewer items, or a summary as a message");
    return exchange_refuse(x);
}

// --- stored ones ---------------------------------------------------------------------------------

static bool not_found(struct exchange *x, struct sv id) {
    refuse(&x->refusal, 404, NULL, "Response with id '%.*s' not found.", SHOW(id));
    return exchange_refuse(x);
}

static bool broken(struct exchange *x, const char *wanted, const struct error *e) {
    refuse(&x->refusal, 500, NULL, "the stored response can't be %s: %s", wanted, e->text);
    return exchange_refuse(x);
}

static bool send_stored(struct exchange *x, struct sv id) {
    struct str body = {0};
    struct error e = {0};
    const char *stream = exchange_query(x, "stream");
    enum stored is = responses_store_get(x->service->responses, id, NULL, &body, &e);
    if (is == STORED && stream && sv_is(sv(stream), "true")) {
        str_free(&body);
        refuse(&x->refusal, 400, "stream",
               "\"stream\": this response was not made in the background, so its events are gone; "
               "retrieve it whole, without \"stream\"");
        return exchange_refuse(x);
    }
    bool sent = is == STORED       ? exchange_json(x, 200, &body)
                : is == STORED_NOT ? not_found(x, id)
                                   : broken(x, "read", &e);
    str_free(&body);
    return sent;
}

// --- the items of one ----------------------------------------------------------------------------

struct lines {
    struct sv *line;
    size_t n, cap;
};

static void split(struct lines *l, struct sv text) {
    while (text.n) {
        ptrdiff_t end = sv_find(text, sv("\n"), 0);
        struct sv line = sv_cut(text, 0, end < 0 ? text.n : (size_t)end);
        text = sv_cut(text, line.n + 1, text.n);
        l->line = mem_grow(l->line, &l->cap, l->n + 1, sizeof *l->line);
        l->line[l->n++] = line;
    }
}

struct page {
    bool rising; // the oldest first
    size_t limit;
    const char *after; // an item's id, or NULL
};

static bool read_page(struct exchange *x, struct page *p) {
    const char *limit = exchange_query(x, "limit"), *order = exchange_query(x, "order");
    char *end = NULL;
    long n = limit ? strtol(limit, &end, 10) : 20;
    if (n < 1 || n > LIST_MOST || (end && *end))
        return refuse(&x->refusal, 400, "limit", "\"limit\" must be from 1 to %d", LIST_MOST);
    if (order && !sv_is(sv(order), "asc") && !sv_is(sv(order), "desc"))
        return refuse(&x->refusal, 400, "order", "\"order\" must be \"asc\" or \"desc\"");
    *p = (struct page){order && *order == 'a', (size_t)n, exchange_query(x, "after")};
    return true;
}

// An empty line past the last.
static struct sv item_at(const struct lines *l, const struct page *p, size_t i) {
    return i < l->n ? l->line[p->rising ? i : l->n - 1 - i] : sv("");
}

static bool find_first(struct exchange *x, const struct lines *l, const struct page *p,
                       size_t *first) {
    *first = 0;
    if (!p->after) return true;
    while (*first < l->n)
        if (sv_is(items_line_id(item_at(l, p, (*first)++)), p->after)) return true;
    return refuse(&x->refusal, 400, "after", "\"after\" is the id of no item of this response");
}

static void add_id(struct str *s, const char *name, struct sv line) {
    str_printf(s, ",\"%s\":", name);
    if (line.n)
        json_quote(s, items_line_id(line));
    else
        str_puts(s, "null");
}

static bool send_page(struct exchange *x, struct sv items) {
    struct lines l = {0};
    struct page p = {0};
    struct str json = {0};
    size_t first = 0;
    split(&l, items);
    bool ok = read_page(x, &p) && find_first(x, &l, &p, &first);
    if (ok) {
        size_t n = l.n - first < p.limit ? l.n - first : p.limit;
        str_puts(&json, "{\"object\":\"list\",\"data\":[");
        for (size_t i = 0; i < n; i++) {
            if (i) str_addc(&json, ',');
            str_add(&json, item_at(&l, &p, first + i));
        }
        str_addc(&json, ']');
        add_id(&json, "first_id", item_at(&l, &p, first));
        add_id(&json, "last_id", n ? item_at(&l, &p, first + n - 1) : sv(""));
        str_printf(&json, ",\"has_more\":%s}", first + n < l.n ? "true" : "false");
    }
    ok = ok ? exchange_json(x, 200, &json) : exchange_refuse(x);
    str_free(&json);
    free(l.line);
    return ok;
}

static bool send_items(struct exchange *x, struct sv id) {
    struct str items = {0};
    struct error e = {0};
    enum stored is = responses_store_get(x->service->responses, id, &items, NULL, &e);
    bool sent = is == STORED       ? send_page(x, str_sv(&items))
                : is == STORED_NOT ? not_found(x, id)
                                   : broken(x, "read", &e);
    str_free(&items);
    return sent;
}

// --- by path -------------------------------------------------------------------------------------

// Takes what comes behind an id: "/cancel".
static bool ends(struct sv *id, const char *with) {
    bool so = sv_ends(*id, sv(with));
    if (so) id->n -= sv(with).n;
    return so;
}

// Refuses ids when nothing is stored.
static bool stores(struct exchange *x) {
    const char *off = responses_store_off(x->service->responses);
    return !off || refuse(&x->refusal, 404, NULL, "this server stores no responses: %s", off);
}

bool route_response_get(struct exchange *x) {
    struct sv id = x->rest;
    if (!stores(x)) return exchange_refuse(x);
    return ends(&id, "/input_items") ? send_items(x, id) : send_stored(x, id);
}

bool route_response_drop(struct exchange *x) {
    struct error e = {0};
    struct str json = {0};
    if (!stores(x)) return exchange_refuse(x);
    enum stored is = responses_store_drop(x->service->responses, x->rest, &e);
    if (is == STORED_NOT) return not_found(x, x->rest);
    if (is == STORED_ERROR) return broken(x, "deleted", &e);
    str_puts(&json, "{\"id\":");
    json_quote(&json, x->rest);
    str_puts(&json, ",\"object\":\"response\",\"deleted\":true}");
    bool sent = exchange_json(x, 200, &json);
    str_free(&json);
    return sent;
}

// Only answers that are made in the background can be cancelled by name: others by leaving.
bool route_response_cancel(struct exchange *x) {
    struct sv id = x->rest;
    struct error e = {0};
    if (!ends(&id, "/cancel")) {
        refuse(&x->refusal, 404, NULL, "no route %s %s", x->method, x->path);
        return exchange_refuse(x);
    }
    if (!stores(x)) return exchange_refuse(x);
    enum stored is = responses_store_get(x->service->responses, id, NULL, NULL, &e);
    if (is == STORED_NOT) return not_found(x, id);
    if (is == STORED_ERROR) return broken(x, "read", &e);
    refuse(&x->refusal, 400, NULL, "Cannot cancel a synchronous response.");
    return exchange_refuse(x);
}
