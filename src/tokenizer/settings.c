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

static struct sv text_of(struct json_object *token) {
    if (json_object_is_type(token, json_type_object)) token = json_at(token, "content");
    return json_text(token);
}

static struct json_object *role_of(struct json_object *settings, const char *role) {
    char key[40];
    snprintf(key, sizeof key, "%s_token", role);
    return json_at(settings, key);
}

// A role's token is a text, or an object with it.
static bool check_roles(struct json_object *settings, const char *dir, struct error *e) {
    for (size_t i = 0; i < ROLES; i++) {
        struct json_object *role = role_of(settings, roles[i]);
        bool has_text = json_object_is_type(role, json_type_object) && json_at(role, "content");
        struct json_object *text = has_text ? json_at(role, "content") : role;
        if (text && !json_object_is_type(text, json_type_string))
            return fail(e, "%s/tokenizer_config.json: key \"%s_token\" is %.60s, not a token", dir,
                        roles[i], json_object_to_json_string(role));
    }
    return true;
}

struct json_object *settings_read(const char *dir, struct error *e) {
    struct json_object *o = read_object(dir, "tokenizer_config.json", e), *map = NULL;
    if (!o && !e->set) o = json_object_new_object();
    if (o && !json_at(o, "added_tokens_decoder"))
        map = read_object(dir, "special_tokens_map.json", e);
    if (map) {
        bool listed = json_object_object_get_ex(o, "additional_special_tokens", NULL) ||
                      json_object_object_get_ex(o, "extra_special_tokens", NULL);
        json_object_object_foreach(map, key, value) {
            if (!listed || strcmp(key, "additional_special_tokens") != 0)
                json_object_object_add(o, key, json_object_get(value));
        }
    }
    json_object_put(map);
    if (!e->set && check_roles(o, dir, e)) return o;
    json_object_put(o);
    return NULL;
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

static const char *const flags[] = {"lstrip", "rstrip", "single_word", "normalized"};

// Adds a token, or gives one that is there the flags of `like` (NULL: none). Once special, a token
// stays so.
static void put(struct token_list *l, struct sv text, int64_t id, bool special,
                struct json_object *like) {
    int64_t i = index_of(l, text);
    struct json_object *token = i < 0 ? json_object_new_object() : at(l, (size_t)i);
    if (i < 0) {
        if (id < 0) id = vocab_id(l->v, text);
        if (id < 0) id = l->next > (int64_t)l->v->size ? l->next : (int64_t)l->v->size;
        json_object_object_add(token, "content", json_object_new_string_len(text.p, (int)text.n));
        json_object_object_add(token, "id", json_object_new_int64(id));
    }
    for (size_t k = 0; k < 4; k++)
        set_bool(token, flags[k], json_bool_at(like, flags[k], k == 3 && !special));
    set_bool(token, "special", special || json_bool_at(token, "special", false));
    if (i < 0) append(l, token);
}

void tokens_add(struct token_list *l, struct sv text, int64_t id, bool special) {
    if (index_of(l, text) < 0) put(l, text, id, special, NULL);
}

static int by_id(const void *a, const void *b) {
    struct json_object *const *x = a, *const *y = b;
    int64_t i = json_int_at(*x, "id", -1), k = json_int_at(*y, "id", -1);
    return (i > k) - (i < k);
}

// Moves the tokens of `more`, by id, to the list. Those with a name are special.
static void merge(struct token_list *l, struct token_list *more, const struct map *named) {
    json_object_array_sort(more->array, by_id);
    for (size_t i = 0; i < json_object_array_length(more->array); i++) {
        struct json_object *token = at(more, i);
        struct sv text = json_text_at(token, "content");
        put(l, text, json_int_at(token, "id", -1),
            json_bool_at(token, "special", false) || map_get(named, text) >= 0, token);
    }
    tokens_close(more);
}

// {"12": {"content": ..., flags}}
static bool add_decoder(struct token_list *l, struct json_object *decoder, const struct map *named,
                        struct error *e) {
    if (!json_object_is_type(decoder, json_type_object))
        return fail(e, "tokenizer_config.json: key \"added_tokens_decoder\" is not an object");
    struct token_list more;
    tokens_open(&more, NULL, l->v);
    json_object_object_foreach(decoder, key, value) {
        char *end;
        long long id = strtoll(key, &end, 10);
        struct sv text = json_text_at(value, "content");
        if (end == key || *end || id < 0 || !text.n)
            fail(e, "tokenizer_config.json: added_tokens_decoder: \"%.20s\" is no token", key);
        else
            put(&more, text, id, json_bool_at(value, "special", false), value);
    }
    merge(l, &more, named);
    return !e->set;
}

// {"token": id}
static bool add_map(struct token_list *l, struct json_object *map, const char *name,
                    const struct map *named, struct error *e) {
    struct token_list more;
    tokens_open(&more, NULL, l->v);
    json_object_object_foreach(map, key, id) {
        if (!json_object_is_type(id, json_type_int))
            fail(e, "%s: the id of \"%.60s\" is not a whole number", name, key);
        else if (index_of(l, sv(key)) < 0)
            tokens_add(&more, sv(key), json_object_get_int64(id), true);
    }
    merge(l, &more, named);
    return !e->set;
}

// Without added_tokens_decoder: what added_tokens.json has, and what is in the list already.
static bool add_file(struct token_list *l, const char *dir, const struct map *named,
                     struct error *e) {
    struct json_object *map = read_object(dir, "added_tokens.json", e);
    for (size_t i = 0; i < json_object_array_length(l->array); i++)
        if (map_get(named, json_text_at(at(l, i), "content")) >= 0)
            set_bool(at(l, i), "special", true);
    bool ok = map ? add_map(l, map, "added_tokens.json", named, e) : !e->set;
    json_object_put(map);
    return ok;
}

// --- roles ---------------------------------------------------------------------------------------

// Calls for each token with a role: the seven, those that a model has made up ("image_token"), and
// those that have none but are special.
enum visit { NAMES, TOKENS };

struct visitor {
    struct token_list *l;
    size_t known; // tokens of the list that are left as they are
    struct map named;
};

static void visit_role(struct visitor *w, enum visit what, struct json_object *role) {
    struct sv text = text_of(role);
    if (!text.n) return;
    if (what == NAMES) {
        map_put(&w->named, text, 0);
        return;
    }
    int64_t i = index_of(w->l, text);
    if (i >= 0 && (size_t)i < w->known) return;
    put(w->l, text, -1, true, json_object_is_type(role, json_type_object) ? role : NULL);
}

static bool is_role_key(const char *key) {
    for (size_t i = 0; i < ROLES; i++)
        if (sv_starts(sv(key), sv(roles[i])) && strcmp(key + strlen(roles[i]), "_token") == 0)
            return true;
    return false;
}

static void visit_named(struct visitor *w, enum visit what, struct json_object *settings) {
    struct json_object *more = json_at(settings, "extra_special_tokens");
    if (!json_object_is_type(more, json_type_object)) more = NULL;
    for (size_t i = 0; i < ROLES; i++) visit_role(w, what, role_of(settings, roles[i]));
    json_object_object_foreach(settings, key, value) {
        bool own = sv_ends(sv(key), sv("_token")) && !is_role_key(key) && !json_at(more, key);
        if (own && json_object_is_type(value, json_type_string)) visit_role(w, what, value);
    }
    if (!more) return;
    struct json_object_iterator i = json_object_iter_begin(more), end = json_object_iter_end(more);
    for (; !json_object_iter_equal(&i, &end); json_object_iter_next(&i))
        visit_role(w, what, json_object_iter_peek_value(&i));
}

// "extra_special_tokens" is the newer name; the older one counts where that is no list.
static void visit_others(struct visitor *w, struct json_object *settings) {
    struct json_object *more = json_at(settings, "extra_special_tokens");
    bool list = json_object_is_type(more, json_type_array) && json_object_array_length(more);
    if (!list) more = json_at(settings, "additional_special_tokens");
    if (!json_object_is_type(more, json_type_array)) return;
    for (size_t i = 0; i < json_object_array_length(more); i++)
        visit_role(w, TOKENS, json_object_array_get_idx(more, i));
}

bool settings_added(struct token_list *l, const char *dir, struct json_object *settings,
                    struct error *e) {
    struct json_object *decoder = json_at(settings, "added_tokens_decoder");
    struct json_object *map = json_at(settings, "special_tokens_for_this_case");
    struct visitor w = {.l = l};
    visit_named(&w, NAMES, settings);
    bool ok = decoder ? add_decoder(l, decoder, &w.named, e) : add_file(l, dir, &w.named, e);
    if (ok && json_object_is_type(map, json_type_object))
        ok = add_map(l, map, "tokenizer_config.json", &w.named, e);
    w.known = json_object_array_length(l->array);
    if (ok) visit_named(&w, TOKENS, settings);
    if (ok) visit_others(&w, settings);
    map_free(&w.named);
    return ok;
}
