// mlxcel template, as a program: prompts and ids, its batches, what it refuses.
#include "program.h"

#define COMMAND     MLXCEL " template "
#define TEXT        "-m " FIXTURES "/text "
#define SMALL       "--template \"$f\" "
#define HI          "'[{\"role\":\"user\",\"content\":\"Hi\"}]' "
#define IN(text)    "printf '%s\\n' " text "| " COMMAND
#define ALSO_ERRORS "2>&1"

// The command after it has a template file in $f, which is gone afterwards.
#define WITH_FILE(source, command)                                                                 \
    "f=$(mktemp); printf %s '" source "' >\"$f\"; " command "; code=$?; rm \"$f\"; exit $code"

static void test_prompts(void **state) {
    (void)state;
    check_command(IN(HI) TEXT, 0, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    check_command(IN(HI) TEXT "-", 0, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    // A file in the folder stands for it.
    check_command(IN(HI) TEXT "-m " FIXTURES "/text/tokenizer.json", 0,
                  "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    // An object says by itself how it ends.
    check_command(IN("'{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' ") TEXT, 0,
                  "<|im_start|>user\nHi<|im_end|>\n");
    check_command(IN("'{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
                     "\"continue_final_message\":true}' ") TEXT,
                  0, "<|im_start|>user\nHi");
    // A template's file, with the checkpoint's tokens or none; the messages in a file.
    check_command(WITH_FILE("{{ messages[0].content }}{{ eos_token }}", IN(HI) SMALL), 0, "Hi");
    check_command(WITH_FILE("{{ messages[0].content }}{{ eos_token }}", IN(HI) SMALL TEXT), 0,
                  "Hi<|im_end|>");
    check_command(WITH_FILE("[{\"role\":\"user\",\"content\":\"Hi\"}]", COMMAND TEXT "\"$f\""), 0,
                  "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

// The same as tokenize gives for the text without the tokens that it adds.
static void test_ids(void **state) {
    (void)state;
    struct program p;
    program_start_at(&p, "/bin/sh",
                     ARGS("-c", IN(HI) TEXT "| " MLXCEL " tokenize " TEXT "--ids --no-special"));
    assert_int_equal(program_finish(&p), 0);
    assert_true(p.out_text.n > 10);
    check_command(IN(HI) TEXT "--ids", 0, p.out_text.p);
    program_free(&p);
    check_command(WITH_FILE("{{ messages[0].content }}", IN(HI) SMALL TEXT "--ids"), 0, "72,105\n");
}

static void test_batches(void **state) {
    (void)state;
    check_command(
        IN("'{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"tools\":null,"
           "\"documents\":null,\"kwargs\":{\"add_generation_prompt\":true}}' '' '[]' "
           "'{\"messages\":[]}' "
           "'{\"template\":\"{{ messages[0].content }}{{ eos_token }}{{ x }}{{ tools }}"
           "{{ documents }}{{ continue_final_message is defined }}\","
           "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"tools\":[1],"
           "\"documents\":[2],\"kwargs\":{\"x\":1.0,\"continue_final_message\":false}}' "
           "'{\"template\":1}' '{\"template\":\"{{\"}' "
           "'{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
           "\"add_generation_prompt\":1}' ") TEXT "--jsonl",
        0,
        "{\"text\":\"<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n\"}\n"
        "{\"error\":\"line 3: not a JSON object\"}\n"
        "{\"error\":\"messages is empty: give at least one message\"}\n"
        "{\"text\":\"Hi<|im_end|>1.0[1][2]False\"}\n"
        "{\"error\":\"template must be a template's source, not a number\"}\n"
        "{\"error\":\"chat template \\\"default\\\": line 1: unexpected 'end of template'\"}\n"
        "{\"error\":\"add_generation_prompt must be true or false, not a number\"}\n");
    // No template for all, and a template's own refusal.
    check_command(
        IN("'{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' "
           "'{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
           "\"template\":\"{{ raise_exception(1) }}\"}' "
           // A template decides whether it needs a content.
           "'{\"messages\":[{\"role\":\"user\"}],\"template\":\"{{ messages[0].role }}\"}' ") "--jsonl",
        0,
        "{\"error\":\"no template: give one as \\\"template\\\", or for all lines with -m or "
        "--template\"}\n{\"error\":\"1\"}\n{\"text\":\"user\"}\n");
    check_command(IN("'{\"template\":\"{{ messages[0].content }}\","
                     "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' ") TEXT
                  "--jsonl --ids",
                  0, "{\"text\":\"Hi\",\"ids\":[72,105]}\n");
}

// What a request says of thinking becomes variables of the template; kwargs are variables as they
// are.
#define SHOW                                                                                       \
    "{{ enable_thinking }} {{ reasoning_effort }} {{ 1 if not thinking is defined else thinking }}"
#define CALL "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
#define CALLS                                                                                      \
    "'" CALL "}' '" CALL ",\"reasoning_effort\":\"none\"}' "                                       \
    "'" CALL ",\"kwargs\":{\"enable_thinking\":3}}' '" CALL ",\"kwargs\":[]}' "
static void test_thinking(void **state) {
    (void)state;
    check_command(WITH_FILE(SHOW, IN(HI) SMALL), 0, "  1");
    check_command(WITH_FILE(SHOW, IN(HI) SMALL "--reasoning-effort high"), 0, "True high True");
    check_command(WITH_FILE(SHOW, IN(HI) SMALL "--chat-template-kwargs '{\"thinking\":2}'"), 0,
                  "  2");
    check_command(WITH_FILE(SHOW, IN(CALLS) SMALL "--jsonl --reasoning-effort low"), 0,
                  "{\"text\":\"True low True\"}\n{\"text\":\"False  False\"}\n"
                  "{\"text\":\"3 low True\"}\n"
                  "{\"error\":\"kwargs must be an object, not an array\"}\n");
    check_command(COMMAND TEXT "--jsonl --chat-template-kwargs 3 </dev/null 2>&1", 1,
                  "mlxcel: error: --chat-template-kwargs must be a JSON object, not a number\n");
}

static void test_raw(void **state) {
    (void)state;
    check_command(
        IN("'{\"template\":\"{{ n + 1 }}\",\"context\":{\"n\":9007199254740993}}' "
           "'{\"template\":\"a\"}' '{\"template\":\"{{ raise_exception(1) }}\",\"context\":{}}' "
           "'{\"context\":{}}' '{\"template\":\"\",\"context\":[]}' '{' ") "--raw",
        0,
        "{\"text\":\"9007199254740994\"}\n{\"text\":\"a\"}\n{\"error\":\"1\"}\n"
        "{\"error\":\"template must be a template's source, not null\"}\n"
        "{\"error\":\"context must be an object, not an array\"}\n"
        "{\"error\":\"line 6: JSON ends too early (is it truncated?)\"}\n");
    check_command(
        "echo '{\"template\":\"{{ strftime_now(\\\"%Y\\\") }}\"}' | SOURCE_DATE_EPOCH=0 " COMMAND
        "--raw --jsonl",
        0, "{\"text\":\"1970\"}\n");
}

static void test_refusals(void **state) {
    (void)state;
    check_command(IN("'[{}]' ") TEXT ALSO_ERRORS, 1,
                  "mlxcel: error: standard input: messages[0].role is missing\n");
    check_command(IN("'[' ") TEXT ALSO_ERRORS, 1,
                  "mlxcel: error: standard input: JSON ends too early (is it truncated?)\n");
    check_command(IN("") TEXT ALSO_ERRORS, 1, "mlxcel: error: standard input: no messages\n");
    check_command(
        IN(HI) "-m " FIXTURES "/tokenizer/spm_bpe " ALSO_ERRORS, 1,
        "mlxcel: error: " FIXTURES
        "/tokenizer/spm_bpe: this checkpoint has no chat template: send the prompt as plain text, or give a template file\n");
    check_command(WITH_FILE("{{", IN(HI) "--template \"$f\" 2>/dev/null"), 1, "");
    check_command(IN(HI) "--template /no/such 2>/dev/null", 1, "");
    check_command(IN(HI) "-m /no/such 2>/dev/null", 1, "");
    check_command(COMMAND TEXT "/no/such 2>/dev/null", 1, "");
    check_command(
        IN(HI) ALSO_ERRORS, 2,
        "mlxcel: error: no template: pass a checkpoint with -m PATH, or --template FILE\n");
    check_command(COMMAND TEXT "--jsonl x " ALSO_ERRORS, 2,
                  "mlxcel: error: --jsonl reads from standard input: leave the file out\n");
    check_command(COMMAND "--raw x 2>/dev/null", 2, "");
    check_command(COMMAND "--raw --ids 2>/dev/null", 2, "");
    check_command(COMMAND "--template x --ids " ALSO_ERRORS, 2,
                  "mlxcel: error: --ids needs a tokenizer: pass a checkpoint with -m PATH\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts),  cmocka_unit_test(test_ids),
        cmocka_unit_test(test_batches),  cmocka_unit_test(test_raw),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_thinking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
