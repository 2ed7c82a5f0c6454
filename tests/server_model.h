// Checkpoints whose answers depend on all that was before: a family's random weights with a
// tokenizer whose ids are bytes, and a template of plain text.
#ifndef TESTS_SERVER_MODEL_H
#define TESTS_SERVER_MODEL_H

#include "server_client.h"

enum { MODEL_DIR = 64 };

static inline void model_link(const char *dir, const char *name, const char *from) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(symlink(from, path), 0);
}

// case: of FIXTURES, as "llama/base".
static inline void model_make(char dir[MODEL_DIR], const char *of) {
    static const char config[] =
        "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"chat_template\":\"{% for m in messages "
        "%}{{ m['role'] + ': ' + m['content'] + '\\n' }}{% endfor %}\"}";
    char from[256], path[128];
    strcpy(dir, "/tmp/test_server.XXXXXX");
    assert_non_null(mkdtemp(dir));
    static const char *const files[] = {"config.json", "model.safetensors"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(from, sizeof from, FIXTURES "/%s/%s", of, files[i]);
        model_link(dir, files[i], from);
    }
    model_link(dir, "tokenizer.json", FIXTURES "/text/tokenizer.json");
    snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(config, f);
    fclose(f);
}

static inline void model_remove(const char *dir) {
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json"};
    for (size_t i = 0; i < 4; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    rmdir(dir);
}

#endif
