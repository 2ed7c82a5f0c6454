#include "tokenizer/postprocessor.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tokenizer/fields.h"
#include "tokenizer/vocab.h"

enum {
    TEXT = -1,         // in a list of ids: those of the text
    COPIES_LIMIT = 16, // of the text in the result: templates in a row multiply
    IDS_LIMIT = 1 << 16,
};

// What the steps have made so far, in parts: a template makes one for each of its entries, and what
// the next step does depends on how many there are.
struct parts {
    struct ids *p;
    size_t n, cap;
    bool special; // special tokens are added
};

static struct ids *add_part(struct parts *parts) {
    parts->p = mem_grow(parts->p, &parts->cap, parts->n + 1, sizeof *parts->p);
    parts->p[parts->n] = (struct ids){0};
    return &parts->p[parts->n++];
}

static void free_parts(struct parts *parts) {
    for (size_t i = 0; i < parts->n; i++) ids_free(&parts->p[i]);
    free(parts->p);
    parts->p = NULL;
    parts->n = parts->cap = 0;
}

static bool check_size(const struct parts *parts, struct error *e) {
    size_t ids = 0, copies = 0;
    for (size_t i = 0; i < parts->n; i++) {
        ids += parts->p[i].n;
        for (size_t k = 0; k < parts->p[i].n; k++) copies += parts->p[i].id[k] == TEXT;
    }
    if (copies > COPIES_LIMIT)
        return fail(e, "%zu copies of the text are over the limit of %d", copies, COPIES_LIMIT);
    return ids <= IDS_LIMIT ||
           fail(e, "%zu special tokens are over the limit of %d", ids, IDS_LIMIT);
}

// special_tokens: {name: {"ids": [...]}}
static bool add_special(struct ids *out, struct json_object *table, struct sv name,
                        struct error *e) {
    struct json_object *entry = json_at(table, name.p);
    if (!entry) return fail(e, "\"%.60s\" is not in special_tokens", name.p);
    struct json_object *list = field_array(entry, "ids", e);
    if (!list) return fail_in(e, "special_tokens: \"%.60s\"", name.p);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *id = json_object_array_get_idx(list, i);
        int64_t value = json_object_is_type(id, json_type_int) ? json_object_get_int64(id) : -1;
        if (value < 0 || value >= VOCAB_LIMIT)
            return fail(e, "special_tokens: id %.60s of \"%.60s\" is not one",
                        json_object_to_json_string(id), name.p);
        ids_push(out, (int32_t)value);
    }
    return true;
}

// {"SpecialToken": {"id": name}}, or {"Sequence": {"id": "A"}}, which is the part before it; B is
// the second one.
static bool add_entry(struct parts *made, const struct parts *before, struct json_object *entry,
                      struct json_object *table, struct error *e) {
    struct json_object *special = json_at(entry, "SpecialToken");
    struct sv name, which = json_text_at(json_at(entry, "Sequence"), "id");
    size_t k = sv_is(which, "A") ? 0 : sv_is(which, "B") ? 1 : before->n;
    if (!special && k < before->n) {
        ids_add(add_part(made), before->p[k].id, before->p[k].n);
        return true;
    }
    if (!special)
        return fail(e, "%.60s is neither a SpecialToken nor Sequence A",
                    json_object_to_json_string(entry));
    struct ids ids = {0};
    bool ok = field_text(special, "id", &name, e) && add_special(&ids, table, name, e);
    if (ok && made->special) ids_add(add_part(made), ids.id, ids.n);
    ids_free(&ids);
    return ok;
}

// The template for a text, or for two where an earlier step has made two parts.
static bool template(struct parts *parts, struct json_object *j, struct error *e) {
    const char *key = parts->n == 2 ? "pair" : "single";
    if (parts->n != 1 && parts->n != 2)
        return fail(e, "has no template for the %zu parts made before it", parts->n);
    struct json_object *list = field_array(j, key, e);
    struct parts made = {.special = parts->special};
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < json_object_array_length(list); i++)
        ok = (add_entry(&made, parts, json_object_array_get_idx(list, i),
                        json_at(j, "special_tokens"), e) &&
              check_size(&made, e)) ||
             fail_in(e, "%s[%zu]", key, i);
    free_parts(parts);
    *parts = made;
    return ok;
}

// ["[SEP]", 102]
static bool read_pair(struct json_object *j, const char *key, int32_t *out, struct error *e) {
    struct json_object *pair = field_array(j, key, e);
    if (!pair) return false;
    struct json_object *id =
        json_object_array_length(pair) == 2 ? json_object_array_get_idx(pair, 1) : NULL;
    int64_t value = json_object_is_type(id, json_type_int) ? json_object_get_int64(id) : -1;
    if (value < 0 || value >= VOCAB_LIMIT)
        return fail(e, "key \"%s\" is %.60s, not a token and its id", key,
                    json_object_to_json_string(pair));
    *out = (int32_t)value;
    return true;
}

// [CLS] first part [SEP] second part [SEP] ...; RoBERTa has a [SEP] before the others, too.
static bool bert(struct parts *parts, struct json_object *j, bool roberta, struct error *e) {
    int32_t cls = -1, sep = -1;
    if (!read_pair(j, "cls", &cls, e) || !read_pair(j, "sep", &sep, e)) return false;
    for (size_t i = 0; parts->special && i < parts->n; i++) {
        struct ids made = {0};
        if (i == 0 || roberta) ids_push(&made, i ? sep : cls);
        ids_add(&made, parts->p[i].id, parts->p[i].n);
        ids_push(&made, sep);
        ids_free(&parts->p[i]);
        parts->p[i] = made;
    }
    return check_size(parts, e);
}

static bool run_step(struct parts *parts, struct json_object *j, struct error *e) {
    struct sv type;
    if (!field_type(j, &type, e)) return false;
    if (sv_is(type, "ByteLevel")) return true; // changes offsets only
    if (sv_is(type, "TemplateProcessing")) return template(parts, j, e);
    if (sv_is(type, "BertProcessing")) return bert(parts, j, false, e);
    if (sv_is(type, "RobertaProcessing")) return bert(parts, j, true, e);
    if (!sv_is(type, "Sequence"))
        return fail(e, "type \"%.*s\" is not supported", (int)type.n, type.p);
    struct json_object *list = field_array(j, "processors", e);
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        if (!run_step(parts, json_object_array_get_idx(list, i), e))
            return fail_in(e, "processors[%zu]", i);
    return list != NULL;
}

static bool run_all(struct ids *out, bool special, struct json_object *j, struct error *e) {
    struct parts parts = {.special = special};
    ids_push(add_part(&parts), TEXT);
    bool ok = run_step(&parts, j, e) || fail_in(e, "post_processor");
    for (size_t i = 0; ok && i < parts.n; i++) ids_add(out, parts.p[i].id, parts.p[i].n);
    free_parts(&parts);
    return ok;
}

bool post_read(struct postprocessor *p, struct json_object *j, struct error *e) {
    p->any = j != NULL;
    return !j || (run_all(&p->around, true, j, e) && run_all(&p->plain, false, j, e));
}

void post_free(struct postprocessor *p) {
    ids_free(&p->around);
    ids_free(&p->plain);
    *p = (struct postprocessor){0};
}

void post_run(const struct postprocessor *p, bool special, struct ids *ids) {
    if (!p->any) return;
    const struct ids *list = special ? &p->around : &p->plain;
    struct ids made = {0};
    for (size_t i = 0; i < list->n; i++) {
        if (list->id[i] == TEXT)
            ids_add(&made, ids->id, ids->n);
        else
            ids_push(&made, list->id[i]);
    }
    ids_free(ids);
    *ids = made;
}
