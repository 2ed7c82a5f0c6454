// mlxcel tokenize and detokenize, as programs: what they print, their batches, wrong usage.
#include "program.h"

#define DIR FIXTURES "/tokenizer/"

static void test_texts(void **state) {
    (void)state;
    check_command(MLXCEL " tokenize -m " DIR "spm_bpe --no-special --ids a", 0, "261\n");
    check_command(MLXCEL " tokenize -m " DIR "spm_bpe/tokenizer.model --ids a", 0, "1,261\n");
    check_command("printf a | " MLXCEL " tokenize -m " DIR "spm_bpe --ids -", 0, "1,261\n");
    check_command(MLXCEL " tokenize -m " DIR "spm_bpe a", 0,
                  "1\t\"<s>\"\n261\t\"\xe2\x96\x81"
                  "a\"\n");
    check_command(MLXCEL " detokenize -m " DIR "spm_bpe '1,261 [261]'", 0, "<s> a a\n");
    check_command(MLXCEL " detokenize -m " DIR "spm_bpe --no-special 1,261", 0, "a\n");
}

static void test_batches(void **state) {
    (void)state;
    check_command(
        "printf '%s\\n' '{\"text\":\"a\"}' '' '{\"text\":\"a\",\"add_special\":false}' '[]' "
        "'{\"text\":1}' '{\"text\":\"a\",\"add_special\":\"no\"}' | " MLXCEL " tokenize -m " DIR
        "spm_bpe --jsonl",
        0,
        "{\"ids\":[1,261]}\n{\"ids\":[261]}\n{\"error\":\"line 4: not a JSON object\"}\n"
        "{\"error\":\"line 5: key \\\"text\\\" is not a string\"}\n"
        "{\"error\":\"line 6: key \\\"add_special\\\" must be true or false, not a string\"}\n");
    check_command(
        "printf '%s\\n' '{\"ids\":[1,261]}' '{\"ids\":[1,261],\"skip_special\":true}' "
        "'{\"ids\":[-1]}' '{\"ids\":[99999999999]}' '{\"ids\":[1],\"skip_special\":1}' | " MLXCEL
        " detokenize -m " DIR "spm_bpe --jsonl",
        0,
        "{\"text\":\"<s> a\",\"pieces\":[\"<s>\",\" a\",\"\"]}\n"
        "{\"text\":\"a\",\"pieces\":[\"\",\"a\",\"\"]}\n"
        "{\"error\":\"line 3: ids[0] is -1, not a token id\"}\n"
        "{\"text\":\"\",\"pieces\":[\"\",\"\"]}\n"
        "{\"error\":\"line 5: key \\\"skip_special\\\" must be true or false, not a "
        "number\"}\n");
}

static void test_usage(void **state) {
    (void)state;
    check_command(MLXCEL " tokenize -m " DIR "spm_bpe 2>&1 </dev/null", 1,
                  "mlxcel: error: standard input: no text\n");
    check_command(MLXCEL " tokenize -m " DIR "spm_bpe --jsonl a 2>/dev/null", 2, "");
    check_command(MLXCEL " detokenize -m " DIR "spm_bpe 1,x 2>/dev/null", 2, "");
    check_command(MLXCEL " tokenize -m " FIXTURES " a 2>&1", 1,
                  "mlxcel: error: " FIXTURES
                  ": no tokenizer (looked for tokenizer.json, tokenizer.model, "
                  "*.tiktoken, vocab.json with merges.txt, vocab.txt): copy the published "
                  "checkpoint's there\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
