// tokenizer/: files that are wrong, damaged or hostile end in an error that says so.
#include "check.h"

#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "tokenizer/tokenizer.h"

__attribute__((format(printf, 1, 2))) static void complain(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vprint_error(fmt, args);
    va_end(args);
    print_error("\n");
    assert_true(false);
}

#define MODEL                                                                                      \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"

static void test_malformed(void **state) {
    (void)state;
    static const struct {
        const char *json, *says; // says: a part of the message
    } bad[] = {
        {"", "too early"},
        {"[]", "not a JSON object"},
        {"{}", "model: is missing"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"mer", "no end"},
        {"{\"model\":7}", "model: not an object"},
        {"{\"model\":{\"type\":\"Foo\",\"vocab\":[]}}", "model: type \"Foo\" is not supported"},
        {"{\"model\":{\"type\":\"BPE\",\"merges\":[]}}", "\"vocab\" is missing"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}}",
         "\"vocab\" is a list, not an object"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", "\"merges\" is missing"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":{}}}", "not an array"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "id -1, outside"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999},\"merges\":[]}}", "outside"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1e3},\"merges\":[]}}",
         "not a whole number"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"1\"},\"merges\":[]}}",
         "not a whole number"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":3,\"b\":3},\"merges\":[]}}",
         "the id is taken"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a c\"]}}",
         "merges[0]: token \"c\" is not in model.vocab"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}}",
         "merges[0]: its result \"ab\" is not in"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}",
         "is not two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a a\"]}}",
         "is not two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}",
         "is not two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",1]]}}",
         "is not two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[null]}}",
         "is not two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[],\"dropout\":0.5}}",
         "dropout 0.5"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[],\"fuse_unk\":1}}",
         "not true or false"},
        {"{\"normalizer\":{\"type\":\"Foo\"}," MODEL "}",
         "normalizer: type \"Foo\" is not supported"},
        {"{\"normalizer\":[]," MODEL "}", "normalizer: [ ] is not an object"},
        {"{\"normalizer\":{}," MODEL "}", "\"type\" is missing"},
        {"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},null]}," MODEL
         "}",
         "normalizers[1]: null is not an object"},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}," MODEL
         "}",
         "regular expression"},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{},\"content\":\"\"}," MODEL "}",
         "neither"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"x\"}," MODEL
         "}",
         "behavior \"x\" is not supported"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":7}," MODEL "}",
         "not an array"},
        {"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"ab\"}," MODEL "}",
         "one character"},
        {"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":\"never\",\"add_prefix_space\":true}," MODEL
         "}",
         "contradict"},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<x>\"}}]}," MODEL
         "}",
         "\"<x>\" is not in special_tokens"},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"B\"}}]}," MODEL
         "}",
         "neither a SpecialToken nor Sequence A"},
        {"{\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":-1,\"stop\":0}," MODEL "}",
         "outside"},
        {"{\"decoder\":{\"type\":\"Foo\"}," MODEL "}", "decoder: type \"Foo\" is not supported"},
        {"{\"added_tokens\":{}," MODEL "}", "not an array"},
        {"{\"added_tokens\":[{\"id\":9}]," MODEL "}",
         "added_tokens[0]: key \"content\" is missing"},
        {"{\"added_tokens\":[{\"id\":-5,\"content\":\"x\"}]," MODEL "}", "outside"},
        {"{\"added_tokens\":[{\"id\":2000000000,\"content\":\"x\"}]," MODEL "}", "outside"},
        {"{\"added_tokens\":[{\"id\":5,\"content\":\"x\",\"special\":\"yes\"}]," MODEL "}",
         "not true or false"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error e = {0};
        struct tokenizer *t = tok_read(sv(bad[i].json), "tokenizer.json", &e);
        if (t || !strstr(e.text, bad[i].says) || strncmp(e.text, "tokenizer.json: ", 16) != 0)
            complain("%s\ngave \"%s\", not \"%s\"", bad[i].json, e.text, bad[i].says);
    }
    struct error e = {0};
    assert_null(tok_open("/nonexistent/tokenizer.json", &e));
    assert_non_null(strstr(e.text, "/nonexistent/tokenizer.json: No such file"));
}

// Damaged files of the other kinds: an error that names the file, whatever byte is wrong or
// missing.
static void test_damaged(void **state) {
    (void)state;
    static const char *const files[] = {"spm_unigram/tokenizer.model", "spm_bpe/tokenizer.model",
                                        "tiktoken/qwen.tiktoken"};
    char dir[] = "/tmp/mlxcel-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        char from[256], to[256];
        struct error e = {0};
        struct str file = {0};
        snprintf(from, sizeof from, FIXTURES "/tokenizer/%s", files[k]);
        snprintf(to, sizeof to, "%s/%s", dir, strrchr(from, '/') + 1);
        assert_true(file_read(from, 1 << 20, &file, &e));
        for (size_t cut = file.n / 7 + 3; cut < file.n; cut += file.n / 7) {
            assert_true(file_write(to, sv_cut(str_sv(&file), 0, cut), &e));
            struct error why = {0};
            struct tokenizer *t = tok_open(to, &why);
            if (!t) assert_int_equal(strncmp(why.text, to, strlen(to)), 0);
            assert_true(t || why.set);
            tok_close(t);
        }
        assert_int_equal(remove(to), 0);
        str_free(&file);
    }
    assert_int_equal(rmdir(dir), 0);
}

// Settings that are wrong, and classes that do what is not known here.
static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *file, *config, *says;
    } bad[] = {
        {"tokenizer.json", "[]", "tokenizer_config.json: not a JSON object"},
        {"tokenizer.json", "{\"eos_token\":5}", "key \"eos_token\" is 5, not a token"},
        {"tokenizer.json", "{\"added_tokens_decoder\":[]}", "is not an object"},
        {"tokenizer.json", "{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}",
         "added_tokens_decoder: \"x\" is no token"},
        {"vocab.txt", "{\"tokenizer_class\":\"BertJapaneseTokenizer\"}", "is not known here"},
        {"tokenizer.model", "{\"tokenizer_class\":\"MarianTokenizer\"}", "is not known here"},
        {"x.tiktoken", "{\"tokenizer_class\":\"OtherTokenizer\"}", "is not known here"},
    };
    char dir[] = "/tmp/mlxcel-test-XXXXXX", file[64], config[64];
    assert_non_null(mkdtemp(dir));
    snprintf(config, sizeof config, "%s/tokenizer_config.json", dir);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error e = {0}, why = {0};
        snprintf(file, sizeof file, "%s/%s", dir, bad[i].file);
        assert_true(file_write(file, sv("{" MODEL "}"), &e));
        assert_true(file_write(config, sv(bad[i].config), &e));
        struct tokenizer *t = tok_open(dir, &why);
        if (t || !strstr(why.text, bad[i].says))
            complain("%s gave \"%s\", not \"%s\"", bad[i].config, why.text, bad[i].says);
        assert_int_equal(remove(file), 0);
    }
    assert_int_equal(remove(config), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void test_deep(void **state) {
    (void)state;
    struct str json = {0};
    str_puts(&json, "{\"decoder\":");
    for (int i = 0; i < 1000; i++) str_puts(&json, "{\"type\":\"Sequence\",\"decoders\":[");
    struct error e = {0};
    assert_null(tok_read(str_sv(&json), "tokenizer.json", &e));
    assert_true(e.set);
    str_clear(&json); // many in a row
    str_puts(&json, "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[");
    for (int i = 0; i < 1000; i++)
        str_puts(&json, i ? ",{\"type\":\"Fuse\"}" : "{\"type\":\"Fuse\"}");
    str_puts(&json, "]}," MODEL "}");
    struct error many = {0};
    assert_null(tok_read(str_sv(&json), "tokenizer.json", &many));
    assert_non_null(strstr(many.text, "more than 64 decoders"));
    str_free(&json);
}

// Steps that multiply text, and a pattern that backtracks without end, end in an error.
static void test_explosions(void **state) {
    (void)state;
    static const char grow[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":"
                               "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}";
    struct str json = {0};
    str_puts(&json, "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 50; i++) str_printf(&json, i ? ",%s" : "%s", grow);
    str_puts(&json, "]}," MODEL "}");
    struct error e = {0};
    struct ids ids = {0};
    struct tokenizer *t = tok_read(str_sv(&json), "tokenizer.json", &e);
    assert_non_null(t);
    assert_false(tok_encode(t, sv("a"), true, &ids, &e));
    assert_non_null(strstr(e.text, "Replace makes more than"));
    tok_close(t);
    struct error slow = {0};
    t = tok_read(sv("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a+)+$\"},"
                    "\"behavior\":\"Isolated\"}," MODEL "}"),
                 "tokenizer.json", &slow);
    assert_non_null(t);
    assert_false(
        tok_encode(t, sv("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"), true, &ids, &slow));
    assert_non_null(strstr(slow.text, "retry-limit"));
    tok_close(t);
    ids_free(&ids);
    str_free(&json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed),  cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_deep),
        cmocka_unit_test(test_explosions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
