#include "cli/jsonl.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

bool jsonl_next(struct jsonl *r) {
    json_object_put(r->object);
    r->object = NULL;
    r->error.set = false;
    for (ssize_t n; (n = getline(&r->text, &r->room, stdin)) >= 0;) {
        char what[32];
        struct sv line = sv_trim(sv_n(r->text, (size_t)n));
        r->line++;
        if (!line.n) continue;
        snprintf(what, sizeof what, "line %zu", r->line);
        r->object = json_read(line, what, &r->error);
        if (r->object && !json_object_is_type(r->object, json_type_object))
            fail(&r->error, "%s: not a JSON object", what);
        return true;
    }
    return false;
}

void jsonl_close(struct jsonl *r) {
    json_object_put(r->object);
    free(r->text);
    *r = (struct jsonl){0};
}

void jsonl_flag(struct jsonl *r, const char *key, bool *out) {
    struct json_object *v = json_at(r->object, key);
    if (!v || r->error.set) return;
    if (!json_object_is_type(v, json_type_boolean))
        fail(&r->error, "line %zu: key \"%s\" must be true or false, not %s", r->line, key,
             json_kind(v));
    *out = json_object_get_boolean(v);
}

bool jsonl_answer(const struct jsonl *r, struct sv body, struct error *e) {
    struct str s = {0};
    str_addc(&s, '{');
    if (r->error.set) {
        str_puts(&s, "\"error\":");
        json_quote(&s, sv(r->error.text));
    } else {
        str_add(&s, body);
    }
    str_puts(&s, "}\n");
    bool ok = cli_write(str_sv(&s), e);
    str_free(&s);
    return ok;
}
