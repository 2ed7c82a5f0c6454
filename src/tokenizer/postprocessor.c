#include "tokenizer/postprocessor.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tokenizer/fields.h"
#include "tokenizer/vocab.h"

enum { COPIES_LIMIT = 16 }; // of the text in the result: templates in a row multiply

static struct post_item *add_item(struct postprocessor *p) {
    p->item = mem_grow(p->item, &p->cap, p->n + 1, sizeof *p->item);
    struct post_item *item = &p->item[p->n++];
    *item = (struct post_item){.template = p->templates};
    return item;
}

static bool end_template(struct postprocessor *p, struct error *e) {
    size_t copies = 0;
    for (size_t i = 0; i < p->n; i++)
        copies += p->item[i].template == p->templates && p->item[i].text;
    p->copies = p->templates ? p->copies * copies : copies;
    p->templates++;
    if (p->copies <= COPIES_LIMIT) return true;
    return fail(e, "%zu copies of the text are over the limit of %d", p->copies, COPIES_LIMIT);
}

// special_tokens: {name: {"ids": [...]}}
static bool read_special(struct post_item *item, struct json_object *table, struct sv name,
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
        ids_push(&item->special, (int32_t)value);
    }
    return true;
}

// [{"SpecialToken": {"id": name}} or {"Sequence": {"id": "A"}}, ...]
static bool read_template(struct postprocessor *p, struct json_object *j, struct error *e) {
    struct json_object *list = field_array(j, "single", e);
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *part = json_object_array_get_idx(list, i);
        struct json_object *special = json_at(part, "SpecialToken");
        struct sv name;
        if (!special && sv_is(json_text_at(json_at(part, "Sequence"), "id"), "A")) {
            add_item(p)->text = true;
            continue;
        }
        if (!special)
            return fail(e, "single[%zu] is %.60s, neither a SpecialToken nor Sequence A", i,
                        json_object_to_json_string(part));
        if (!field_text(special, "id", &name, e) ||
            !read_special(add_item(p), json_at(j, "special_tokens"), name, e))
            return fail_in(e, "single[%zu]", i);
    }
    return list && end_template(p, e);
}

// ["[SEP]", 102]
static bool read_pair(struct postprocessor *p, struct json_object *j, const char *key,
                      struct error *e) {
    struct json_object *pair = field_array(j, key, e);
    if (!pair) return false;
    struct json_object *id =
        json_object_array_length(pair) == 2 ? json_object_array_get_idx(pair, 1) : NULL;
    int64_t value = json_object_is_type(id, json_type_int) ? json_object_get_int64(id) : -1;
    if (value < 0 || value >= VOCAB_LIMIT)
        return fail(e, "key \"%s\" is %.60s, not a token and its id", key,
                    json_object_to_json_string(pair));
    ids_push(&add_item(p)->special, (int32_t)value);
    return true;
}

// [CLS] text [SEP]
static bool read_bert(struct postprocessor *p, struct json_object *j, struct error *e) {
    if (!read_pair(p, j, "cls", e)) return false;
    add_item(p)->text = true;
    if (!read_pair(p, j, "sep", e)) return false;
    return end_template(p, e);
}

static bool read_any(struct postprocessor *p, struct json_object *j, struct error *e) {
    struct sv type;
    if (!field_type(j, &type, e)) return false;
    if (sv_is(type, "ByteLevel")) return true; // changes offsets only
    if (sv_is(type, "TemplateProcessing")) return read_template(p, j, e);
    if (sv_is(type, "BertProcessing") || sv_is(type, "RobertaProcessing"))
        return read_bert(p, j, e);
    if (!sv_is(type, "Sequence"))
        return fail(e, "type \"%.*s\" is not supported", (int)type.n, type.p);
    struct json_object *list = field_array(j, "processors", e);
    if (!list) return false;
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (!read_any(p, json_object_array_get_idx(list, i), e))
            return fail_in(e, "processors[%zu]", i);
    return true;
}

bool post_read(struct postprocessor *p, struct json_object *j, struct error *e) {
    return !j || read_any(p, j, e) || fail_in(e, "post_processor");
}

void post_free(struct postprocessor *p) {
    for (size_t i = 0; i < p->n; i++) ids_free(&p->item[i].special);
    free(p->item);
    *p = (struct postprocessor){0};
}

void post_run(const struct postprocessor *p, bool special, struct ids *ids) {
    for (size_t t = 0, i = 0; t < p->templates; t++) {
        struct ids made = {0};
        for (; i < p->n && p->item[i].template == t; i++) {
            const struct post_item *item = &p->item[i];
            if (item->text)
                ids_add(&made, ids->id, ids->n);
            else if (special)
                ids_add(&made, item->special.id, item->special.n);
        }
        ids_free(ids);
        *ids = made;
    }
}
