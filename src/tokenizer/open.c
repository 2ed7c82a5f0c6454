// Opening a tokenizer: which file, and the settings beside it.
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "tokenizer/parts.h"

bool tok_read_stages(struct tokenizer *t, struct json_object *j, struct error *e) {
    return norm_read(&t->normalizer, json_at(j, "normalizer"), e) &&
           pre_read(&t->pretokenizer, json_at(j, "pre_tokenizer"), e) &&
           post_read(&t->postprocessor, json_at(j, "post_processor"), e) &&
           decode_read(&t->decoder, json_at(j, "decoder"), e) &&
           added_read(&t->added, json_at(j, "added_tokens"), &t->model.vocab, &t->normalizer, e);
}

static bool read_json(struct tokenizer *t, struct sv json, const char *name, struct error *e) {
    struct document d;
    bool ok =
        document_read(&d, json, name, e) &&
        ((model_read(&t->model, &d, e) && tok_read_stages(t, d.rest, e)) || fail_in(e, "%s", name));
    document_free(&d);
    return ok;
}

struct tokenizer *tok_read(struct sv json, const char *name, struct error *e) {
    struct tokenizer *t = tok_new();
    if (read_json(t, json, name, e)) return t;
    tok_close(t);
    return NULL;
}

// "bos_token" is the token's text or an object with its "content".
static bool read_config_token(const struct tokenizer *t, struct json_object *config,
                              const char *key, int32_t *id, struct error *e) {
    struct json_object *j = json_at(config, key);
    if (json_object_is_type(j, json_type_object)) j = json_at(j, "content");
    if (!j) return true;
    if (!json_object_is_type(j, json_type_string))
        return fail(e, "key \"%s\" is %.60s, not a token", key, json_object_to_json_string(j));
    *id = tok_id(t, json_text(j));
    return true;
}

static bool is_json(const char *file) {
    return sv_ends(path_name(file), sv(".json")) && !sv_is(path_name(file), "vocab.json");
}

static bool read_file(struct tokenizer *t, const char *file, struct json_object *config,
                      struct error *e) {
    if (!is_json(file)) return slow_read(t, file, config, e);
    struct str json = {0};
    bool ok = file_read(file, TOKENIZER_LIMIT, &json, e) && read_json(t, str_sv(&json), file, e);
    str_free(&json);
    return ok;
}

// A folder's own file, or the slow kinds.
static char *choose(const char *dir, struct json_object *config, struct error *e) {
    char *file = path_join(dir, "tokenizer.json");
    if (file_named(file)) return file;
    free(file);
    file = slow_find(dir, config);
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
    char *settings = path_join(dir, "tokenizer_config.json"), *file = NULL;
    struct json_object *config = NULL;
    struct tokenizer *t = tok_new();
    bool ok =
        !file_named(settings) || (config = json_read_file(settings, TOKENIZER_LIMIT, e)) != NULL;
    ok = ok && (file = folder ? choose(dir, config, e) : mem_text(path)) != NULL;
    ok = ok && read_file(t, file, config, e);
    ok = ok && ((read_config_token(t, config, "bos_token", &t->bos, e) &&
                 read_config_token(t, config, "eos_token", &t->eos, e)) ||
                fail_in(e, "%s", settings));
    json_object_put(config);
    free(settings);
    free(file);
    free(dir);
    if (ok) return t;
    tok_close(t);
    return NULL;
}
