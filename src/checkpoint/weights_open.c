#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/json.h"
#include "base/mem.h"
#include "checkpoint/weights_internal.h"

enum { INDEX_MAX = 64 << 20 };

static const char index_name[] = "model.safetensors.index.json";

static bool open_file(struct weights *w, const char *name, struct error *e) {
    char *path = path_join(w->folder, name);
    w->file = mem_grow(w->file, &w->file_cap, w->files + 1, sizeof *w->file);
    bool ok = st_open(&w->file[w->files], path, e);
    if (ok) w->files++;
    free(path);
    return ok;
}

void weights_add(struct weights *w, size_t file, const struct st_tensor *t, bool indexed) {
    w->item = mem_grow(w->item, &w->cap, w->n + 1, sizeof *w->item);
    w->item[w->n] =
        (struct weights_item){.name = mem_text(t->name), .t = *t, .file = file, .indexed = indexed};
    map_set(&w->by_name, sv(t->name), (int64_t)w->n++);
}

// Every tensor of every file that the index did not already place.
static bool add_rest(struct weights *w, struct error *e) {
    for (size_t f = 0; f < w->files; f++) {
        for (size_t i = 0; i < w->file[f].n; i++) {
            const struct st_tensor *t = &w->file[f].tensor[i];
            int64_t old = map_get(&w->by_name, sv(t->name));
            if (old < 0)
                weights_add(w, f, t, false);
            else if (!w->item[old].indexed)
                return fail(
                    e,
                    "%s: tensor \"%.200s\" is also in %s (which is right? remove the other, "
                    "or add a %s)",
                    w->file[f].path, t->name, w->file[w->item[old].file].path, index_name);
        }
    }
    return true;
}

// --- with an index -----------------------------------------------------------------------------

// A shard is named by a plain file name: an index must not reach out of its folder.
static bool plain_name(struct sv s) {
    if (!s.n || sv_is(s, ".") || sv_is(s, "..")) return false;
    return !memchr(s.p, '/', s.n) && !memchr(s.p, '\\', s.n) && !memchr(s.p, 0, s.n);
}

static bool open_shard(struct weights *w, const char *name, struct error *e) {
    char *path = path_join(w->folder, name);
    bool there = file_named(path);
    if (!there)
        fail(e, "%s: is missing, though %s names it (finish the download)", path, index_name);
    free(path);
    return there && open_file(w, name, e);
}

// One entry of weight_map: opens its shard when it is the first there and takes the tensor.
static bool add_indexed(struct weights *w, struct map *opened, const char *tensor,
                        struct json_object *value, struct error *e) {
    struct sv shard = json_text(value);
    if (!json_object_is_type(value, json_type_string) || !plain_name(shard))
        return fail(e,
                    "%s/%s: weight_map names the file %.100s for tensor \"%.200s\", which is not a "
                    "plain file name in the folder",
                    w->folder, index_name, json_object_to_json_string(value), tensor);
    if (map_get(opened, shard) < 0) {
        if (!open_shard(w, shard.p, e)) return false;
        map_set(opened, shard, (int64_t)w->files - 1);
    }
    size_t f = (size_t)map_get(opened, shard);
    const struct st_tensor *t = st_find(&w->file[f], sv(tensor));
    if (!t)
        return fail(e,
                    "%s: tensor \"%.200s\" is not in it, though %s says so (download both again)",
                    w->file[f].path, tensor, index_name);
    weights_add(w, f, t, true);
    return true;
}

static bool read_index(struct weights *w, struct sv text, const char *path, struct error *e) {
    const char *foreign = st_foreign(text);
    if (foreign) return fail(e, "%s: %s", path, foreign);
    struct json_object *o = json_read(text, path, e);
    if (e->set) return false;
    struct json_object *all = json_at(o, "weight_map");
    bool ok = json_object_is_type(all, json_type_object);
    if (!ok)
        fail(e, "%s: has no weight_map object", path);
    else if (!(ok = json_object_object_length(all) > 0))
        fail(e, "%s: weight_map is empty: the checkpoint has no weights", path);
    struct map opened = {0};
    if (ok) {
        struct json_object_iterator it = json_object_iter_begin(all);
        struct json_object_iterator end = json_object_iter_end(all);
        for (; ok && !json_object_iter_equal(&it, &end); json_object_iter_next(&it))
            ok = add_indexed(w, &opened, json_object_iter_peek_name(&it),
                             json_object_iter_peek_value(&it), e);
    }
    map_free(&opened);
    json_object_put(o);
    return ok && add_rest(w, e);
}

// --- without one -------------------------------------------------------------------------------

enum pick { PICK_MODEL, PICK_WEIGHTS, PICK_ANY, PICKS };

static bool picked(struct sv name, enum pick p) {
    if (!sv_ends(name, sv(".safetensors"))) return false;
    if (p == PICK_MODEL) return sv_starts(name, sv("model"));
    if (p == PICK_WEIGHTS) return sv_starts(name, sv("weights"));
    return !sv_starts(name, sv("adapter")) && !sv_starts(name, sv("consolidated"));
}

// Five digits at s, or -1.
static int five_digits(const char *s) {
    int v = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9') return -1;
        v = v * 10 + (s[i] - '0');
    }
    return v;
}

// For "STEM-00001-of-00003.safetensors": all its siblings must be there.
static bool check_siblings(struct weights *w, const char *name, struct error *e) {
    static const char of_text[] = "-of-";
    const char *of = strstr(name, of_text);
    if (!of || of - name < 6 || of[-6] != '-' || five_digits(of - 5) < 0) return true;
    int count = five_digits(of + strlen(of_text));
    if (count < 0 || strcmp(of + strlen(of_text) + 5, ".safetensors") != 0) return true;
    for (int i = 1; i <= count; i++) {
        struct str sibling = {0};
        str_printf(&sibling, "%.*s%05d-of-%05d.safetensors", (int)(of - 5 - name), name, i, count);
        char *path = path_join(w->folder, sibling.p);
        if (!file_exists(path)) fail(e, "%s: is missing (finish the download)", path);
        free(path);
        str_free(&sibling);
        if (e->set) return false;
    }
    return true;
}

static bool no_weights(struct weights *w, const struct names *all, struct error *e) {
    static const struct {
        const char *end, *say;
    } other[] = {
        {".gguf", "turn it into a checkpoint folder with `mlxcel import`"},
        {".bin", "PyTorch pickles can run code and are not read; get the SafeTensors version"},
        {".pth", "PyTorch pickles can run code and are not read; get the SafeTensors version"},
        {".pt", "PyTorch pickles can run code and are not read; get the SafeTensors version"},
        {".npz", "NumPy archives are not read; get the SafeTensors version"},
        {".safetensors", "adapters and consolidated files alone are no checkpoint; get the "
                         "model*.safetensors files"},
    };
    for (size_t k = 0; k < sizeof other / sizeof *other; k++)
        for (size_t i = 0; i < all->n; i++)
            if (sv_ends(sv(all->name[i]), sv(other[k].end)))
                return fail(e, "%s: has no SafeTensors weights, only %.100s (%s)", w->folder,
                            all->name[i], other[k].say);
    return fail(e, "%s: has no weights (model.safetensors, or shards with a %s)", w->folder,
                index_name);
}

static bool open_listed(struct weights *w, struct error *e) {
    struct names all = {0};
    if (!dir_list(w->folder, &all, e)) return false;
    for (enum pick p = PICK_MODEL; p < PICKS && !w->files && !e->set; p++)
        for (size_t i = 0; i < all.n && !e->set; i++)
            if (picked(sv(all.name[i]), p) && check_siblings(w, all.name[i], e))
                open_file(w, all.name[i], e);
    if (!e->set && !w->files) no_weights(w, &all, e);
    names_free(&all);
    return !e->set && add_rest(w, e);
}

struct weights *weights_open(const char *path, struct config *c, struct error *e) {
    struct weights *w = mem_alloc(sizeof *w);
    if (c) w->quantization = quantization_read(c);
    struct sv dir = dir_exists(path) ? sv(path) : path_dir(path);
    w->folder = mem_textn(dir.p, dir.n);
    char *index = path_join(w->folder, index_name);
    struct str text = {0};
    bool ok;
    if (file_named(index))
        ok = file_read(index, INDEX_MAX, &text, e) && read_index(w, str_sv(&text), index, e);
    else
        ok = open_listed(w, e);
    str_free(&text);
    free(index);
    if (ok && (!c || config_ok(c, e))) return w;
    weights_close(w);
    return NULL;
}

void weights_close(struct weights *w) {
    if (!w) return;
    if (w->dummy) dummy_close(w);
    for (size_t i = 0; i < w->n; i++) free(w->item[i].name);
    for (size_t i = 0; i < w->files; i++) st_close(&w->file[i]);
    for (size_t i = 0; i < w->copies; i++) free(w->copy[i]);
    for (size_t i = 0; i < w->rooms; i++) munmap(w->room[i].p, w->room[i].bytes);
    free(w->room);
    free(w->conversion);
    free(w->turn);
    free(w->item);
    free(w->file);
    free(w->copy);
    map_free(&w->by_name);
    free(w->folder);
    free(w);
}
