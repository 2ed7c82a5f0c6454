#include "checkpoint/config.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "checkpoint/config_effects.h"
#include "checkpoint/quantization.h"
#include "checkpoint/safetensors.h"

enum { CONFIG_MAX = 16 << 20, DIM_MAX = 1 << 24 };

struct config {
    struct json_object *o; // owned by the root
    struct config *root;
    char *what, *prefix; // prefix: "rope_scaling." in a child
    struct error err;    // of the root
    struct map read;     // key -> 0
    struct config **child;
    char **child_key;
    size_t children, cap, key_cap;
};

static struct config *make(struct json_object *o, const char *what, const char *prefix) {
    struct config *c = mem_alloc(sizeof *c);
    *c = (struct config){.o = o, .what = mem_text(what), .prefix = mem_text(prefix)};
    c->root = c;
    return c;
}

static void drop(struct config *c) {
    for (size_t i = 0; i < c->children; i++) drop(c->child[i]), free(c->child_key[i]);
    free(c->child);
    free(c->child_key);
    map_free(&c->read);
    free(c->what);
    free(c->prefix);
    free(c);
}

void config_close(struct config *c) {
    if (!c) return;
    json_object_put(c->o);
    drop(c);
}

struct config *config_read(struct sv text, const char *what, struct error *e) {
    const char *foreign = st_foreign(text);
    if (foreign) {
        fail(e, "%s: %s", what, foreign);
        return NULL;
    }
    struct json_object *o = json_read(text, what, e);
    if (e->set) return NULL;
    if (json_object_is_type(o, json_type_object)) return make(o, what, "");
    fail(e, "%s: is not a JSON object", what);
    json_object_put(o);
    return NULL;
}

static struct config *read_path(const char *path, struct error *e) {
    struct str text = {0};
    struct config *c = NULL;
    if (file_read(path, CONFIG_MAX, &text, e)) c = config_read(str_sv(&text), path, e);
    str_free(&text);
    return c;
}

// The path of the file `name` in the folder path, or in the folder of the file path.
static char *beside(const char *path, const char *name) {
    if (dir_exists(path)) return path_join(path, name);
    struct sv dir = path_dir(path);
    char *folder = mem_textn(dir.p, dir.n);
    char *out = path_join(folder, name);
    free(folder);
    return out;
}

struct config *config_open_beside(const char *path, const char *name, struct error *e) {
    char *file = beside(path, name);
    struct config *c = file_named(file) ? read_path(file, e) : NULL;
    free(file);
    return c;
}

// "owner/name": one slash, neither first nor last, and no path.
static bool is_repository(const char *s) {
    const char *slash = strchr(s, '/');
    return slash && slash != s && slash[1] && !strchr(slash + 1, '/') && s[0] != '.' &&
           s[0] != '~' && !sv_ends(sv(s), sv(".gguf"));
}

bool checkpoint_there(const char *path, struct error *e) {
    struct stat st;
    if (stat(path, &st) == 0) return true;
    if (errno == ENOENT && is_repository(path))
        return fail(e,
                    "%s: no such checkpoint, and this build does not download: fetch the "
                    "repository (hf download %s --local-dir DIR) and give DIR",
                    path, path);
    if (errno == ENOENT && sv_ends(sv(path), sv(".gguf")))
        return fail(e,
                    "%s: no such file; of a GGUF file `mlxcel import` makes a folder that is read "
                    "here",
                    path);
    if (errno == ENOENT)
        return fail(e, "%s: no such checkpoint: give its folder, or a file in it", path);
    return fail(e, "%s: %s", path, strerror(errno));
}

// What to do with a GGUF file, also where a checkpoint is beside it: it may be another model.
static bool refuse_gguf(const char *path, const char *is, struct error *e) {
    return fail(e,
                "%s: %s a GGUF file, and models are read from a folder with config.json and "
                "SafeTensors: give the folder of the published model, or make one with `mlxcel "
                "import FILE.gguf DIR` and give DIR",
                path, is);
}

static bool holds_gguf(const char *path) {
    struct names all = {0};
    struct error why = {0};
    bool found = false;
    if (dir_exists(path)) dir_list(path, &all, &why);
    for (size_t i = 0; i < all.n; i++) found |= sv_ends(sv(all.name[i]), sv(".gguf"));
    names_free(&all);
    return found;
}

struct config *config_open(const char *path, struct error *e) {
    if (!checkpoint_there(path, e)) return NULL;
    if (!dir_exists(path) && sv_ends(sv(path), sv(".gguf"))) {
        refuse_gguf(path, "is", e);
        return NULL;
    }
    struct config *c = config_open_beside(path, "config.json", e);
    if (c || e->set) return c;
    if (holds_gguf(path))
        refuse_gguf(path, "has no config.json, only", e);
    else
        fail(e, "%s: has no config.json (give a checkpoint folder as published)", path);
    return NULL;
}

const char *config_what(const struct config *c) { return c->root->what; }

bool config_ok(const struct config *c, struct error *e) {
    const struct error *stuck = &c->root->err;
    return !stuck->set || fail(e, "%s", stuck->text);
}

static struct json_object *at(struct config *c, const char *key) {
    map_put(&c->read, sv(key), 0);
    return json_at(c->o, key);
}

// "FILE: key "KEY" is VALUE" and what is wrong with that.
static void wrong(struct config *c, const char *key, struct json_object *v, const char *why) {
    const char *text = v ? json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN) : "null";
    fail(&c->root->err, "%s: key \"%s%s\" is %.80s%s%s", c->root->what, c->prefix, key, text,
         strlen(text) > 80 ? "..." : "", why);
}

bool config_fail(struct config *c, const char *key, const char *fmt, ...) {
    struct error why = {0};
    va_list args;
    va_start(args, fmt);
    vfail(&why, fmt, args);
    va_end(args);
    struct str tail = {0};
    str_printf(&tail, ": %s", why.text);
    wrong(c, key, json_at(c->o, key), tail.p);
    str_free(&tail);
    return false;
}

bool config_has(struct config *c, const char *key) { return at(c, key) != NULL; }

bool config_mentions(const struct config *c, const char *key) {
    return json_object_object_get_ex(c->o, key, NULL);
}

bool config_is_text(struct config *c, const char *key) {
    return json_object_is_type(at(c, key), json_type_string);
}

bool config_is_object(struct config *c, const char *key) {
    return json_object_is_type(at(c, key), json_type_object);
}

// --- values ------------------------------------------------------------------------------------

static bool number_of(struct json_object *v, double *out) {
    if (json_object_is_type(v, json_type_int) || json_object_is_type(v, json_type_double)) {
        *out = json_object_get_double(v);
        return true;
    }
    struct sv text = json_text(v);
    char *end = NULL;
    if (!text.n || memchr(text.p, 0, text.n)) return false;
    *out = strtod(text.p, &end);
    return *end == 0;
}

static bool int_of(struct json_object *v, int64_t *out) {
    if (json_object_is_type(v, json_type_int)) {
        *out = json_object_get_int64(v);
        return *out < 0 || json_object_get_uint64(v) <= INT64_MAX;
    }
    struct sv text = json_text(v);
    if (text.n && !memchr(text.p, 0, text.n)) {
        char *end = NULL;
        errno = 0;
        long long i = strtoll(text.p, &end, 10);
        if (*end == 0 && errno == 0) {
            *out = i;
            return true;
        }
    }
    double d;
    if (!number_of(v, &d) || !(fabs(d) <= 0x1p53) || d != trunc(d)) return false;
    *out = (int64_t)d;
    return true;
}

static bool bool_of(struct json_object *v, bool *out) {
    struct sv text = json_text(v);
    int64_t i;
    if (json_object_is_type(v, json_type_boolean))
        *out = json_object_get_boolean(v);
    else if (sv_is(text, "true") || sv_is(text, "True"))
        *out = true;
    else if (sv_is(text, "false") || sv_is(text, "False"))
        *out = false;
    else if (json_object_is_type(v, json_type_int) && int_of(v, &i) && (i == 0 || i == 1))
        *out = i == 1;
    else
        return false;
    return true;
}

int64_t config_int(struct config *c, const char *key, int64_t otherwise) {
    struct json_object *v = at(c, key);
    int64_t i = otherwise;
    if (v && !int_of(v, &i)) {
        wrong(c, key, v, ", but must be a whole number");
        return otherwise;
    }
    return i;
}

int64_t config_need_int(struct config *c, const char *key) {
    if (!at(c, key)) {
        fail(&c->root->err, "%s: key \"%s%s\" is missing", c->root->what, c->prefix, key);
        return 0;
    }
    return config_int(c, key, 0);
}

int64_t config_dim(struct config *c, const char *key, int64_t otherwise) {
    int64_t i = otherwise ? config_int(c, key, otherwise) : config_need_int(c, key);
    if (i >= 1 && i <= DIM_MAX) return i;
    if (json_at(c->o, key)) wrong(c, key, json_at(c->o, key), ", but must be in 1 .. 16777216");
    return otherwise ? otherwise : 1;
}

double config_number(struct config *c, const char *key, double otherwise) {
    struct json_object *v = at(c, key);
    double d = otherwise;
    if (!v) return otherwise;
    if (number_of(v, &d) && isfinite(d)) return d;
    wrong(c, key, v, ", but must be a finite number");
    return otherwise;
}

bool config_bool(struct config *c, const char *key, bool otherwise) {
    struct json_object *v = at(c, key);
    bool b = otherwise;
    if (v && !bool_of(v, &b)) wrong(c, key, v, ", but must be true or false");
    return b;
}

bool config_truth(struct config *c, const char *key, bool otherwise) {
    bool number = json_object_is_type(at(c, key), json_type_int);
    return number ? config_int(c, key, 0) != 0 : config_bool(c, key, otherwise);
}

struct sv config_text(struct config *c, const char *key, const char *otherwise) {
    struct json_object *v = at(c, key);
    if (json_object_is_type(v, json_type_string)) return json_text(v);
    if (v) wrong(c, key, v, ", but must be a string");
    return sv(otherwise);
}

struct config *config_child(struct config *c, const char *key) {
    struct json_object *v = at(c, key);
    if (!v) return NULL;
    if (!json_object_is_type(v, json_type_object)) {
        wrong(c, key, v, ", but must be an object");
        return NULL;
    }
    for (size_t i = 0; i < c->children; i++)
        if (!strcmp(c->child_key[i], key)) return c->child[i];
    struct str prefix = {0};
    str_printf(&prefix, "%s%s.", c->prefix, key);
    c->child = mem_grow(c->child, &c->cap, c->children + 1, sizeof *c->child);
    c->child_key = mem_grow(c->child_key, &c->key_cap, c->children + 1, sizeof *c->child_key);
    struct config *kid = make(v, c->root->what, prefix.p);
    kid->root = c->root;
    c->child_key[c->children] = mem_text(key);
    c->child[c->children++] = kid;
    str_free(&prefix);
    return kid;
}

// --- lists -------------------------------------------------------------------------------------

size_t config_list(struct config *c, const char *key) {
    struct json_object *v = at(c, key);
    if (json_object_is_type(v, json_type_array)) return json_object_array_length(v);
    return v ? 1 : 0;
}

static struct json_object *item(struct config *c, const char *key, size_t i) {
    struct json_object *v = at(c, key);
    return json_object_is_type(v, json_type_array) ? json_object_array_get_idx(v, i) : v;
}

static void wrong_item(struct config *c, const char *key, size_t i, const char *must) {
    struct str name = {0};
    str_printf(&name, "%s[%zu]", key, i);
    wrong(c, name.p, item(c, key, i), must);
    str_free(&name);
}

int64_t config_list_int(struct config *c, const char *key, size_t i) {
    int64_t v = 0;
    if (!int_of(item(c, key, i), &v)) wrong_item(c, key, i, ", but must be a whole number");
    return v;
}

bool config_list_holds(struct config *c, const char *key, int64_t value) {
    for (size_t i = 0; i < config_list(c, key); i++)
        if (config_list_int(c, key, i) == value) return true;
    return false;
}

double config_list_number(struct config *c, const char *key, size_t i) {
    double d = 0;
    if (number_of(item(c, key, i), &d) && isfinite(d)) return d;
    wrong_item(c, key, i, ", but must be a finite number");
    return 0;
}

// Infinity, where it is not written so: {"__float__": "Infinity"}.
double config_list_bound(struct config *c, const char *key, size_t i) {
    struct json_object *v = item(c, key, i), *inner = json_at(v, "__float__");
    double d = 0;
    if (number_of(inner ? inner : v, &d) && !isnan(d)) return d;
    wrong_item(c, key, i, ", but must be a number");
    return 0;
}

struct sv config_list_text(struct config *c, const char *key, size_t i) {
    struct json_object *v = item(c, key, i);
    if (!json_object_is_type(v, json_type_string)) wrong_item(c, key, i, ", but must be a string");
    return json_text(v);
}

// --- keys that nobody asked about --------------------------------------------------------------

static bool neutral(const struct config_effect *k, struct json_object *v) {
    double d;
    switch (json_object_get_type(v)) {
    case json_type_null: return true;
    case json_type_boolean:
        return k->neutral & (json_object_get_boolean(v) ? NEUTRAL_TRUE : NEUTRAL_FALSE);
    case json_type_int:
    case json_type_double:
        d = json_object_get_double(v);
        return (d == 0 && k->neutral & NEUTRAL_ZERO) || (d == 1 && k->neutral & NEUTRAL_ONE);
    case json_type_string: return k->text && sv_is(json_text(v), k->text);
    case json_type_array: // neutral when every element is
        for (size_t i = 0; i < json_object_array_length(v); i++)
            if (json_object_is_type(json_object_array_get_idx(v, i), json_type_array) ||
                !neutral(k, json_object_array_get_idx(v, i)))
                return false;
        return true;
    case json_type_object: return json_object_object_length(v) == 0;
    }
    return false;
}

static bool check_level(struct config *c, const char *model_type) {
    for (const struct config_effect *k = config_effects; k->key; k++) {
        struct json_object *v = json_at(c->o, k->key);
        if (!v || map_get(&c->read, sv(k->key)) >= 0 || neutral(k, v)) continue;
        struct str why = {0};
        str_printf(&why, ", which this engine does not support for model_type \"%s\"", model_type);
        wrong(c, k->key, v, why.p);
        str_free(&why);
        return false;
    }
    for (size_t i = 0; i < c->children; i++)
        if (!check_level(c->child[i], model_type)) return false;
    return true;
}

bool config_check_unread(struct config *c, struct error *e) {
    quantization_read(c);
    if (config_ok(c, e)) {
        struct sv type = json_text_at(c->o, "model_type");
        check_level(c, type.n ? type.p : json_text_at(c->root->o, "model_type").p);
    }
    return config_ok(c, e);
}
