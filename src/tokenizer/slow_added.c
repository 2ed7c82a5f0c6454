// Added tokens where no tokenizer.json lists them: tokenizer_config.json's added_tokens_decoder,
// added_tokens.json, and the special tokens that have a role.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "tokenizer/parts.h"

static struct json_object *new_text(struct sv text) {
    return json_object_new_string_len(text.p, (int)text.n);
}

void slow_add(struct json_object *list, struct sv text, int64_t id, bool special) {
    struct json_object *t = json_object_new_object();
    json_object_object_add(t, "content", new_text(text));
    json_object_object_add(t, "id", json_object_new_int64(id));
    json_object_object_add(t, "special", json_object_new_boolean(special));
    json_object_object_add(t, "normalized", json_object_new_boolean(false));
    json_object_array_add(list, t);
}

static bool listed(struct json_object *list, struct sv text) {
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (sv_eq(json_text_at(json_object_array_get_idx(list, i), "content"), text)) return true;
    return false;
}

// {"12": {"content": ..., flags}}
static bool add_decoder(struct json_object *list, struct json_object *decoder, struct error *e) {
    if (decoder && !json_object_is_type(decoder, json_type_object))
        return fail(e, "tokenizer_config.json: key \"added_tokens_decoder\" is not an object");
    if (!decoder) return true;
    json_object_object_foreach(decoder, key, value) {
        char *end;
        long long id = strtoll(key, &end, 10);
        if (end == key || *end || !json_object_is_type(value, json_type_object))
            return fail(e, "tokenizer_config.json: added_tokens_decoder: \"%.20s\" is no token",
                        key);
        struct json_object *token = NULL;
        if (json_object_deep_copy(value, &token, NULL) != 0)
            return fail(e, "tokenizer_config.json: added_tokens_decoder can't be copied");
        json_object_object_add(token, "id", json_object_new_int64(id));
        json_object_array_add(list, token);
    }
    return true;
}

// {"token": id}
static bool add_map(struct json_object *list, struct json_object *map, const char *name,
                    struct error *e) {
    if (!json_object_is_type(map, json_type_object)) return fail(e, "%s: not an object", name);
    json_object_object_foreach(map, key, id) {
        if (!json_object_is_type(id, json_type_int))
            return fail(e, "%s: the id of \"%.60s\" is not a whole number", name, key);
        if (!listed(list, sv(key))) slow_add(list, sv(key), json_object_get_int64(id), true);
    }
    return true;
}

static bool add_file(struct json_object *list, const char *dir, struct error *e) {
    char *path = path_join(dir, "added_tokens.json");
    bool ok = true;
    if (file_named(path)) {
        struct json_object *map = json_read_file(path, TOKENIZER_LIMIT, e);
        ok = map && add_map(list, map, path, e);
        json_object_put(map);
    }
    free(path);
    return ok;
}

static int64_t next_id(struct json_object *list, const struct vocab *v) {
    int64_t next = (int64_t)v->size;
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        int64_t id = json_int_at(json_object_array_get_idx(list, i), "id", 0);
        if (id >= next) next = id + 1;
    }
    return next;
}

// A token with a role: its text, or an object with it. One that has no id yet gets the next.
static void add_role(struct json_object *list, struct json_object *token, const struct vocab *v) {
    if (json_object_is_type(token, json_type_object)) token = json_at(token, "content");
    struct sv text = json_text(token);
    if (!text.n || listed(list, text)) return;
    int32_t id = vocab_id(v, text);
    slow_add(list, text, id >= 0 ? id : next_id(list, v), true);
}

static void add_roles(struct json_object *list, struct json_object *config, const struct vocab *v) {
    static const char *const roles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        add_role(list, json_at(config, roles[i]), v);
    struct json_object *more = json_at(config, "additional_special_tokens");
    for (size_t i = 0;
         json_object_is_type(more, json_type_array) && i < json_object_array_length(more); i++)
        add_role(list, json_object_array_get_idx(more, i), v);
}

static bool add_role_file(struct json_object *list, const char *dir, const struct vocab *v,
                          struct error *e) {
    char *path = path_join(dir, "special_tokens_map.json");
    bool ok = true;
    if (file_named(path)) {
        struct json_object *map = json_read_file(path, TOKENIZER_LIMIT, e);
        if (map) add_roles(list, map, v);
        ok = map != NULL;
        json_object_put(map);
    }
    free(path);
    return ok;
}

struct json_object *slow_added(const char *dir, struct json_object *config, const struct vocab *v,
                               struct error *e) {
    struct json_object *list = json_object_new_array();
    struct json_object *map = json_at(config, "special_tokens_for_this_case");
    bool ok = add_decoder(list, json_at(config, "added_tokens_decoder"), e) &&
              add_file(list, dir, e) && (!map || add_map(list, map, "tokenizer_config.json", e));
    if (ok) add_roles(list, config, v);
    ok = ok && add_role_file(list, dir, v, e);
    if (ok) return list;
    json_object_put(list);
    return NULL;
}
