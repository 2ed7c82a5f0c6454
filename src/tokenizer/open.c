// Opening a tokenizer: which file, and the settings beside it.
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "tokenizer/parts.h"
#include "tokenizer/settings.h"

bool tok_read_stages(struct tokenizer *t, struct json_object *j, bool given, struct error *e) {
    struct json_object *added = json_at(j, "added_tokens");
    return norm_read(&t->normalizer, json_at(j, "normalizer"), e) &&
           pre_read(&t->pretokenizer, json_at(j, "pre_tokenizer"), e) &&
           post_read(&t->postprocessor, json_at(j, "post_processor"), e) &&
           decode_read(&t->decoder, json_at(j, "decoder"), e) &&
           added_read(&t->added, added, given, &t->model.vocab, &t->normalizer, e);
}

// Settings may name tokens that the tokenizer.json hasn't marked as such.
static bool add_tokens(struct tokenizer *t, struct json_object *stages, const char *dir,
                       struct json_object *settings, struct error *e) {
    struct token_list list;
    tokens_open(&list, json_at(stages, "added_tokens"), &t->model.vocab);
    bool ok = settings_added(&list, dir, settings, e);
    json_object_object_add(stages, "added_tokens", json_object_get(list.array));
    tokens_close(&list);
    return ok;
}

// dir NULL: without settings.
static bool read_json(struct tokenizer *t, struct sv json, const char *name, const char *dir,
                      struct json_object *settings, struct error *e) {
    struct document d;
    bool ok = document_read(&d, json, name, e) &&
              ((model_read(&t->model, &d, e) && (!dir || add_tokens(t, d.rest, dir, settings, e)) &&
                tok_read_stages(t, d.rest, false, e)) ||
               fail_in(e, "%s", name));
    document_free(&d);
    return ok;
}

struct tokenizer *tok_read(struct sv json, const char *name, struct error *e) {
    struct tokenizer *t = tok_new();
    if (read_json(t, json, name, NULL, NULL, e)) return t;
    tok_close(t);
    return NULL;
}

static bool is_json(const char *file) {
    return sv_ends(path_name(file), sv(".json")) && !sv_is(path_name(file), "vocab.json");
}

static bool read_file(struct tokenizer *t, const char *file, const char *dir,
                      struct json_object *settings, struct error *e) {
    if (!is_json(file)) return slow_read(t, file, dir, settings, e);
    struct str json = {0};
    bool ok = file_read(file, TOKENIZER_LIMIT, &json, e) &&
              read_json(t, str_sv(&json), file, dir, settings, e);
    str_free(&json);
    return ok;
}

// A folder's own file, or the slow kinds.
static char *choose(const char *dir, struct json_object *settings, struct error *e) {
    char *file = path_join(dir, "tokenizer.json");
    if (file_named(file)) return file;
    free(file);
    file = slow_find(dir, settings);
    if (!file)
        fail(e,
             "%s: no tokenizer (looked for tokenizer.json, tokenizer.model, *.tiktoken, "
             "vocab.json with merges.txt, vocab.txt): copy the published checkpoint's there",
             dir);
    return file;
}

struct tokenizer *tok_open(const char *path, struct error *e) {
    bool folder = dir_exists(path);
    char *dir = folder ? mem_text(path) : mem_textn(path_dir(path).p, path_dir(path).n);
    struct json_object *settings = settings_read(dir, e);
    char *file = !settings ? NULL : folder ? choose(dir, settings, e) : mem_text(path);
    struct tokenizer *t = tok_new();
    bool ok = file && read_file(t, file, dir, settings, e);
    if (ok) {
        t->added.split_special = json_bool_at(settings, "split_special_tokens", false);
        t->bos = tok_id(t, settings_role(settings, "bos"));
        t->eos = tok_id(t, settings_role(settings, "eos"));
    }
    json_object_put(settings);
    free(file);
    free(dir);
    if (ok) return t;
    tok_close(t);
    return NULL;
}
