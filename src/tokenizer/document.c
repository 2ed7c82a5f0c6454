#include "tokenizer/document.h"

#include "base/jread.h"

// Puts a member, whose key is read, behind the others.
static bool keep(struct jread *j, struct str *members) {
    str_addc(members, members->n ? ',' : '{');
    json_quote(members, j->text);
    str_addc(members, ':');
    size_t from = j->at;
    if (!jread_skip(j, J_KEY)) return false;
    str_add(members, sv_cut(j->in, from, j->at));
    return true;
}

static struct json_object *parse(struct str *members, const char *name, struct error *e) {
    str_puts(members, members->n ? "}" : "{}");
    return json_read(str_sv(members), name, e);
}

// The members of the model: the cursor is behind its opening brace.
static bool read_model(struct document *d, struct jread *j, struct str *members) {
    enum jtoken t;
    while ((t = jread_next(j)) == J_KEY) {
        struct sv *list = sv_is(j->text, "vocab")    ? &d->vocab
                          : sv_is(j->text, "merges") ? &d->merges
                                                     : NULL;
        if (!(list ? jread_pass(j, list) : keep(j, members))) return false;
    }
    return t == J_OBJECT_END;
}

static bool read_members(struct document *d, struct jread *j, struct str *rest, struct str *model,
                         bool *has_model) {
    enum jtoken t = jread_next(j);
    if (t == J_ERROR) return false;
    if (t != J_OBJECT) return fail(j->e, "%s: not a JSON object", j->what);
    while ((t = jread_next(j)) == J_KEY) {
        if (!sv_is(j->text, "model")) {
            if (!keep(j, rest)) return false;
            continue;
        }
        t = jread_next(j);
        *has_model = t == J_OBJECT;
        if (t == J_OBJECT ? !read_model(d, j, model) : !jread_skip(j, t)) return false;
        if (t != J_OBJECT && t != J_NULL) return fail(j->e, "%s: model: not an object", j->what);
    }
    return t == J_OBJECT_END && jread_next(j) == J_END;
}

bool document_read(struct document *d, struct sv json, const char *name, struct error *e) {
    *d = (struct document){0};
    struct jread j;
    struct str rest = {0}, model = {0};
    bool has_model = false;
    jread_open(&j, json, name, e);
    bool ok = read_members(d, &j, &rest, &model, &has_model);
    ok = ok && (d->rest = parse(&rest, name, e)) != NULL;
    ok = ok && (!has_model || (d->model = parse(&model, name, e)) != NULL);
    jread_close(&j);
    str_free(&rest);
    str_free(&model);
    return ok;
}

void document_free(struct document *d) {
    json_object_put(d->rest);
    json_object_put(d->model);
    *d = (struct document){0};
}
