// A Responses API request's body of any bytes: what becomes of it is a chat's body and items that
// are as they would be when they come back from the store.
#include <stdlib.h>

#include "server/responses_ask.h"
#include "server/responses_items.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct service *service(void) {
    static struct service s;
    struct responses_store_options none = {0};
    struct error e = {0};
    if (!s.responses) s.responses = responses_store_open(&none, &e);
    return &s;
}

// Each line is an item, which reading leaves as it is.
static void check_items(struct sv lines) {
    while (lines.n) {
        struct refusal r = {0};
        struct error e = {0};
        struct str again = {0};
        ptrdiff_t end = sv_find(lines, sv("\n"), 0);
        if (end < 0) abort();
        struct sv line = sv_cut(lines, 0, (size_t)end + 1);
        struct json_object *list = json_object_new_array();
        json_object_array_add(list, json_read(line, "an item", &e));
        struct json_object *same = items_read(list, &r);
        if (!same || !items_line_id(line).n) abort();
        items_add_line(&again, json_object_array_get_idx(same, 0));
        if (!sv_eq(str_sv(&again), line)) abort();
        str_free(&again);
        json_object_put(same);
        json_object_put(list);
        lines = sv_cut(lines, line.n, lines.n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct responses_ask q = {0};
    struct refusal r = {0};
    struct error e = {0};
    struct json_object *o = json_read(sv_n((const char *)data, size), "the body", &e);
    if (json_object_is_type(o, json_type_object)) {
        bool ok = responses_ask_read(&q, o, service(), &r);
        if (ok == (r.status != 0)) abort();
        if (ok && (!json_at(q.chat, "messages") || q.store)) abort();
        if (ok) check_items(str_sv(&q.items));
        responses_ask_free(&q);
    }
    json_object_put(o);
    return 0;
}
