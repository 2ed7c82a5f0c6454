#include "tokenizer/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

enum { SETTINGS_LIMIT = 64 << 20 };

static const char *const roles[] = {"bos", "eos", "unk", "sep", "pad", "cls", "mask"};
enum { ROLES = sizeof roles / sizeof *roles };

// A file of the folder that may be missing: NULL then, and on failure.
static struct json_object *read_object(const char *dir, const char *name, struct error *e) {
    char *path = path_join(dir, name);
    struct json_object *o = file_named(path) ? json_read_file(path, SETTINGS_LIMIT, e) : NULL;
    if (o && !json_object_is_type(o, json_type_object)) {
        fail(e, "%s: not a JSON object", path);
        json_object_put(o);
        o = NULL;
    }
    free(path);
    return o;
}

struct json_object *settings_read(const char *dir, struct error *e) {
    struct json_object *o = read_object(dir, "tokenizer_config.json", e), *map = NULL;
    if (!o && !e->set) o = json_object_new_object();
    if (o && !json_at(o, "added_tokens_decoder"))
        map = read_object(dir, "special_tokens_map.json", e);
    if (map) {
        json_object_object_foreach(map, key, value) {
            json_object_object_add(o, key, json_object_get(value));
        }
    }
    json_object_put(map);
    if (!e->set) return o;
    json_object_put(o);
    return NULL;
}

static struct sv text_of(struct json_object *token) {
    if (json_object_is_type(token, json_type_object)) token = json_at(token, "content");
    return json_text(token);
}

static struct json_object *role_of(struct json_object *settings, const char *role) {
    char key[40];
    snprintf(key, sizeof key, "%s_token", role);
    return json_at(settings, key);
}

struct sv settings_role(struct json_object *settings, const char *role) {
    return text_of(role_of(settings, role));
}

// --- the list ------------------------------------------------------------------------------------

static struct json_object *at(const struct token_list *l, size_t i) {
    return json_object_array_get_idx(l->array, i);
}

static int64_t index_of(const struct token_list *l, struct sv text) {
    return map_get(&l->at, text);
}

// Takes a token that is not there yet.
static void append(struct token_list *l, struct json_object *token) {
    int64_t id = json_int_at(token, "id", -1);
    if (id >= l->next) l->next = id + 1;
    map_put(&l->at, json_text_at(token, "content"), (int64_t)json_object_array_length(l->array));
    json_object_array_add(l->array, token);
}

void tokens_open(struct token_list *l, struct json_object *array, const struct vocab *v) {
    *l = (struct token_list){.array = json_object_new_array(), .v = v};
    bool is = json_object_is_type(array, json_type_array);
    for (size_t i = 0; is && i < json_object_array_length(array); i++)
        tokens_take(l, json_object_array_get_idx(array, i));
}

void tokens_close(struct token_list *l) {
    json_object_put(l->array);
    map_free(&l->at);
    *l = (struct token_list){0};
}

void tokens_take(struct token_list *l, struct json_object *token) {
    append(l, json_object_get(token));
}

static void set_bool(struct json_object *token, const char *key, bool value) {
    json_object_object_add(token, key, json_object_new_boolean(value));
}

void tokens_add(struct token_list *l, struct sv text, int64_t id, bool special) {
    if (index_of(l, text) >= 0) return;
    if (id < 0) id = vocab_id(l->v, text);
    if (id < 0) id = l->next > (int64_t)l->v->size ? l->next : (int64_t)l->v->size;
    struct json_object *token = json_object_new_object();
    json_object_object_add(token, "content", json_object_new_string_len(text.p, (int)text.n));
    json_object_object_add(token, "id", json_object_new_int64(id));
    set_bool(token, "special", special);
    set_bool(token, "normalized", !special);
    append(l, token);
}

static int by_id(const void *a, const void *b) {
    struct json_object *const *x = a, *const *y = b;
    int64_t i = json_int_at(*x, "id", -1), k = json_int_at(*y, "id", -1);
    return (i > k) - (i < k);
}

// Moves the tokens of `more` to the list, by id.
static void merge(struct token_list *l, struct token_list *more) {
    json_object_array_sort(more->array, by_id);
    for (size_t i = 0; i < json_object_array_length(more->array); i++) tokens_take(l, at(more, i));
    tokens_close(more);
}

// {"12": {"content": ..., flags}}
static bool add_decoder(struct token_list *l, struct json_object *decoder, struct error *e) {
    if (!json_object_is_type(decoder, json_type_object))
        return fail(e, "tokenizer_config.json: key \"added_tokens_decoder\" is not an object");
    struct token_list more;
    tokens_open(&more, NULL, l->v);
    json_object_object_foreach(decoder, key, value) {
        char *end;
        long long id = strtoll(key, &end, 10);
        struct sv text = json_text_at(value, "content");
        struct json_object *token = NULL;
        bool good = end != key && !*end && text.n;
        if (good && (index_of(l, text) >= 0 || index_of(&more, text) >= 0)) continue;
        if (!good || json_object_deep_copy(value, &token, NULL) != 0) {
            fail(e, "tokenizer_config.json: added_tokens_decoder: \"%.20s\" is no token", key);
            continue;
        }
        json_object_object_add(token, "id", json_object_new_int64(id));
        append(&more, token);
    }
    merge(l, &more);
    return !e->set;
}

// {"token": id}
static bool add_map(struct token_list *l, struct json_object *map, const char *name,
                    struct error *e) {
    struct token_list more;
    tokens_open(&more, NULL, l->v);
    json_object_object_foreach(map, key, id) {
        if (!json_object_is_type(id, json_type_int))
            fail(e, "%s: the id of \"%.60s\" is not a whole number", name, key);
        else if (index_of(l, sv(key)) < 0)
            tokens_add(&more, sv(key), json_object_get_int64(id), true);
    }
    merge(l, &more);
    return !e->set;
}

static bool add_file(struct token_list *l, const char *dir, struct error *e) {
    struct json_object *map = read_object(dir, "added_tokens.json", e);
    bool ok = map ? add_map(l, map, "added_tokens.json", e) : !e->set;
    json_object_put(map);
    return ok;
}

// A token with a role is special, whatever else the settings say of it. Those before `first` come
// from the tokenizer's own file, which knows better.
static void add_role(struct token_list *l, size_t first, struct json_object *role) {
    static const char *const flags[] = {"lstrip", "rstrip", "single_word", "normalized"};
    struct sv text = text_of(role);
    if (!text.n) return;
    bool is_new = index_of(l, text) < 0;
    tokens_add(l, text, -1, true);
    size_t i = (size_t)index_of(l, text);
    if (i < first) return;
    set_bool(at(l, i), "special", true);
    for (size_t k = 0; is_new && json_object_is_type(role, json_type_object) && k < 4; k++)
        if (json_at(role, flags[k]))
            set_bool(at(l, i), flags[k], json_bool_at(role, flags[k], false));
}

// {"image_token": "<image>"}: roles that a model has made up.
static void add_own_roles(struct token_list *l, size_t first, struct json_object *settings) {
    json_object_object_foreach(settings, key, value) {
        bool own = sv_ends(sv(key), sv("_token"));
        for (size_t i = 0; own && i < ROLES; i++) own = value != role_of(settings, roles[i]);
        if (own) add_role(l, first, value);
    }
}

static void add_more(struct token_list *l, size_t first, struct json_object *more) {
    if (json_object_is_type(more, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(more); i++)
            add_role(l, first, json_object_array_get_idx(more, i));
    } else if (json_object_is_type(more, json_type_object)) {
        struct json_object_iterator i = json_object_iter_begin(more),
                                    end = json_object_iter_end(more);
        for (; !json_object_iter_equal(&i, &end); json_object_iter_next(&i))
            add_role(l, first, json_object_iter_peek_value(&i));
    }
}

bool settings_added(struct token_list *l, const char *dir, struct json_object *settings,
                    struct error *e) {
    size_t first = json_object_array_length(l->array);
    struct json_object *decoder = json_at(settings, "added_tokens_decoder");
    struct json_object *map = json_at(settings, "special_tokens_for_this_case");
    if (!(decoder ? add_decoder(l, decoder, e) : add_file(l, dir, e))) return false;
    if (json_object_is_type(map, json_type_object) && !add_map(l, map, "tokenizer_config.json", e))
        return false;
    for (size_t i = 0; i < ROLES; i++) add_role(l, first, role_of(settings, roles[i]));
    add_own_roles(l, first, settings);
    add_more(l, first, json_at(settings, "additional_special_tokens"));
    add_more(l, first, json_at(settings, "extra_special_tokens"));
    return true;
}
