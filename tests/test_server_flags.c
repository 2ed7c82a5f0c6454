// mlxcel-server: the options and variables of llama-server that it hasn't, and what it says of
// them.
#include "server_client.h"

#define MODEL_TOOLS (FIXTURES "/tools")

// Starts with the options, and wants each line on standard error.
static void expect_taken(const char *const *options, const char *const *lines) {
    const char *args[24] = {"-m", MODEL};
    struct server s;
    for (size_t i = 0; options[i]; i++) args[i + 2] = options[i];
    if (!server_launch(&s, args)) fail_msg("%s: the server did not start", options[0]);
    for (size_t i = 0; lines[i]; i++) server_wait_for(&s, lines[i]);
    assert_int_equal(server_stop(&s), 0);
}

static void expect_wrong(const char *const *options, const char *line) {
    const char *args[24] = {"-m", MODEL};
    struct server s;
    for (size_t i = 0; options[i]; i++) args[i + 2] = options[i];
    assert_false(server_launch(&s, args));
    if (!server_says(&s, line)) fail_msg("%s: it does not say %s", options[0], line);
    assert_int_equal(server_end(&s), 2);
}

static void taken(void **state) {
    (void)state;
    expect_taken(ARGS("-fa", "on", "-ngl", "99", "-cb", "--no-mmap", "-ub", "64", "--cache-ram",
                      "0", "-kvu", "--spec-draft-n-max", "4", "-np", "-1", "-c", "2048"),
                 ARGS("warn: -fa changes nothing: ",
                      "mlxcel-server: info: --n-gpu-layers 99: a model is on one",
                      "-cb changes nothing: requests always run together",
                      "--no-mmap changes nothing: ", "-ub changes nothing: there is one size",
                      "--cache-ram changes nothing", "-kvu changes nothing",
                      "--spec-draft-n-max changes nothing: speculative", "4 answers at once"));
    // A value in brackets may be missing, and what follows is no value then.
    expect_taken(
        ARGS("-fa", "-ngl", "0", "-fa", "--flash-attn", "auto", "-dev", "none", "--warmup"),
        ARGS("--flash-attn changes nothing", "--warmup changes nothing", "on cpu"));
    expect_taken(ARGS("-c", "100", "--cache-tokens", "10"),
                 ARGS("warn: --ctx-size 100 is 25 tokens for each of 4 answers: each gets 512",
                      "warn: the cache is raised from 10 to 512 tokens", "is loaded"));
    expect_taken(ARGS("-ngl", "all", "--n-gpu-layers", "auto"), ARGS("is loaded"));
}

static void refused(void **state) {
    static const char *const wrong[][3] = {
        {"-ngl", "few", "-ngl \"few\": must be a whole number"},
        {"--reasoning-budget", "7", "thinking can't be cut off; 0 turns it off"},
        {"--rope-scale", "2", "error: --rope-scale: positions are as config.json has them"},
        {"--context-shift", "-v", "error: --context-shift: a context that is full"},
        {"-md", "x", "error: -md: speculative decoding is not in this build"},
        {"--tools", "all", "error: --tools: the server runs no tools"},
        {"--path", "x", "error: --path: the page is its own"},
        {"--ubatch-size", NULL, "--ubatch-size needs a value: --ubatch-size N"},
        {"--no-such", NULL, "unknown option --no-such"},
        {"--grammar", "root ::= (", "error: --grammar: "},
        {"--grammar", "root ::= nobody", "error: --grammar: "},
        {"--grammar-file", FIXTURES "/text/tokenizer.json", "error: --grammar-file: "},
        {"-j", "{\"type\": \"no\"}", "error: --json-schema: "},
        {"-j", "{", "error: --json-schema: "},
        {"-jf", FIXTURES "/none.json", "error: --json-schema-file: "},
        {"--host", "127.0.0.1,::1", "--host 127.0.0.1,::1: one address"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_wrong(ARGS(wrong[i][0], wrong[i][1]), wrong[i][2]);
}

// Variables that are set and change nothing are told of, in a line each, and no others.
static void variables(void **state) {
    static const char *const set[][3] = {
        {"LLAMA_ARG_UBATCH", "64", "LLAMA_ARG_UBATCH is set, and changes nothing: there is one"},
        {"LLAMA_ARG_HF_REPO", "a/b", "LLAMA_ARG_HF_REPO is set, and changes nothing: one model"},
        {"LLAMA_ARG_NO_KV_OFFLOAD", "1",
         "LLAMA_ARG_NO_KV_OFFLOAD is set, and changes nothing: the"},
        {"LLAMA_ARG_CTX_SIZES", "1", "LLAMA_ARG_CTX_SIZES is set, and changes nothing: no option"},
        {"LLAMA_SERVER_SLOTS_DEBUG", "1", "LLAMA_SERVER_SLOTS_DEBUG is set"},
        {"MLXCEL_KV_CACHE_BUDGET", "1", "MLXCEL_KV_CACHE_BUDGET is set, and changes nothing: --ca"},
        {"MLXCEL_API_KEYS", "1", "MLXCEL_API_KEYS is set, and changes nothing: no option"},
        {"MLXCEL_CPU_ISA", "best", NULL},
        {"MLXCEL_LOG_FORMAT", "text", NULL},
        {"MLXCEL_CUDA_PINNED_LOAD", "0", NULL},
        {"LLAMA_ARG_FLASH_ATTN", "", NULL},
        {"LLAMA_ARG_N_PARALLEL", "2", NULL},
        {"LLAMA_ARG_NO_SLOTS", "", NULL},
    };
    enum { SET = sizeof set / sizeof *set };
    struct server s;
    (void)state;
    for (size_t i = 0; i < SET; i++) setenv(set[i][0], set[i][1], 1);
    server_start(&s, ARGS("-m", MODEL));
    for (size_t i = 0; i < SET; i++) {
        unsetenv(set[i][0]);
        if (set[i][2])
            server_wait_for(&s, set[i][2]);
        else
            assert_false(server_says(&s, set[i][0]));
    }
    assert_int_equal(server_stop(&s), 0);
}

// The answer's form of the options excludes what a client asks for, which is told as such.
static void form(void **state) {
    struct server s;
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "--grammar", "root ::= \"yes\""));
    expect_refused(&s, TEXT, "{\"prompt\":\"a\",\"ignore_eos\":true}", "ignore_eos",
                   "this server's --grammar");
    expect_text_from(&s, TEXT, "{\"prompt\":\"a\"}", "yes", "stop");
    assert_int_equal(server_stop(&s), 0);
}

// What options say of thinking is what each request would say.
static void thinking(void **state) {
    static const struct {
        const char *option[2];
        bool thinks;
    } cases[] = {
        {{"--reasoning", "on"}, true},           {{"-rea", "off"}, false},
        {{"--reasoning-budget", "0"}, false},    {{"--reasoning-budget", "-1"}, true},
        {{"--reasoning-effort", "none"}, false}, {{"--reasoning-effort", "low"}, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct server s;
        struct answer a;
        server_start(&s, ARGS("-m", MODEL_TOOLS, cases[i].option[0], cases[i].option[1]));
        post(&s, &a, "/apply-template", "{" HI "}");
        bool effort = !strcmp(cases[i].option[1], "low");
        struct sv prompt = str_sv(&a.body);
        assert_int_equal(sv_find(prompt, sv("effort low"), 0) >= 0, effort);
        if ((sv_find(prompt, sv("<think>"), 0) < 0) != cases[i].thinks)
            fail_msg("%s %s: %s", cases[i].option[0], cases[i].option[1], prompt.p);
        answer_free(&a);
        assert_int_equal(server_stop(&s), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken), cmocka_unit_test(refused),  cmocka_unit_test(variables),
        cmocka_unit_test(form),  cmocka_unit_test(thinking),
    };
    return cmocka_run_group_tests_name("server flags", tests, NULL, NULL);
}
