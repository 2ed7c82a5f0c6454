// The built program: options, exit codes, output, signals.
#include "program.h"

#include <sys/stat.h>

#include "base/json.h"
#include "checkpoint/safetensors.h"

static bool has(const struct str *text, const char *part) {
    return sv_find(str_sv(text), sv(part), 0) >= 0;
}

static struct json_object *parse(const struct program *p) {
    struct error e = {0};
    struct json_object *o = json_read(str_sv(&p->out_text), "output", &e);
    assert_string_equal(e.text, "");
    return o;
}

// One line that begins "mlxcel: error: ", nothing on standard output, this exit code.
static void expect_error(int code, const char *part, const char *input, const char *const *args) {
    struct program p;
    assert_int_equal(program_run(&p, input, args), code);
    assert_int_equal(p.out_text.n, 0);
    if (!has(&p.err_text, part)) fail_msg("\"%s\" is not in: %s", part, str_c(&p.err_text));
    assert_true(sv_starts(str_sv(&p.err_text), sv("mlxcel: error: ")));
    assert_int_equal(sv_find(str_sv(&p.err_text), sv("\n"), 0), p.err_text.n - 1);
    program_free(&p);
}

static void expect_text(const char *text, const char *input, const char *const *args) {
    struct program p;
    assert_int_equal(program_run(&p, input, args), 0);
    assert_string_equal(str_c(&p.out_text), text);
    assert_string_equal(str_c(&p.err_text), "");
    program_free(&p);
}

static struct json_object *expect_json(const char *input, const char *const *args) {
    struct program p;
    assert_int_equal(program_run(&p, input, args), 0);
    struct json_object *o = parse(&p);
    program_free(&p);
    return o;
}

// --- help ----------------------------------------------------------------------------------------

static void test_help(void **state) {
    (void)state;
    struct program p;
    assert_int_equal(program_run(&p, "", ARGS("--version")), 0);
    assert_true(sv_starts(str_sv(&p.out_text), sv("mlxcel " MLXCEL_VERSION "\n")));
    assert_true(has(&p.out_text, MLXCEL_FEATURES));
    program_free(&p);

    static const char *const commands[] = {"generate", "run", "logits", "inspect", "arch"};
    struct program overview, man;
    assert_int_equal(program_run(&overview, "", ARGS("help")), 0);
    assert_int_equal(program_run(&man, "", ARGS("--man")), 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct program by_help, by_option;
        assert_true(has(&overview.out_text, commands[i]));
        assert_true(has(&man.out_text, commands[i]));
        assert_int_equal(program_run(&by_help, "", ARGS("help", commands[i])), 0);
        assert_int_equal(program_run(&by_option, "", ARGS(commands[i], "--help")), 0);
        assert_true(has(&by_help.out_text, "Usage: mlxcel "));
        assert_true(has(&by_help.out_text, "--verbose"));
        assert_string_equal(by_help.out_text.p, by_option.out_text.p);
        program_free(&by_help);
        program_free(&by_option);
    }
    assert_true(has(&man.out_text, ".It Ev MLXCEL_DEVICE\n"));
    assert_true(has(&man.out_text, ".Ss mlxcel serve\n"));
    assert_true(sv_starts(str_sv(&man.out_text), sv(".Dd ")));
    assert_false(has(&man.out_text, "Mdocdate")); // which would be read as today
    assert_false(has(&man.out_text, "draft"));    // what isn't in this build isn't listed
    program_free(&overview);
    program_free(&man);

    assert_int_equal(program_run(&p, "", (const char *const[]){NULL}), 2);
    assert_int_equal(p.out_text.n, 0);
    assert_true(has(&p.err_text, "Usage:"));
    program_free(&p);
}

// The server is a program of its own, which this build may not have.
static void test_serve(void **state) {
    struct program p;
    (void)state;
    assert_int_equal(program_run(&p, "", ARGS("serve", "-m", "/no/such")), 1);
    assert_true(has(&p.err_text, "mlxcel-server"));
    program_free(&p);
    if (!strstr(MLXCEL_FEATURES, "+microhttpd")) return;
    assert_int_equal(program_run(&p, "", ARGS("serve", "--man")), 0);
    assert_true(has(&p.out_text, "\n.Dt MLXCEL-SERVER 1\n"));
    static const char *const routes[] = {"/v1/responses", "count_tokens", "/infill", "/slots"};
    for (size_t i = 0; i < 4; i++) assert_true(has(&p.out_text, routes[i]));
    assert_true(has(&p.out_text, "\n.It Ev LLAMA_API_KEY\n"));
    assert_false(has(&p.out_text, "lora")); // what isn't in this build isn't listed
    program_free(&p);
}

// The table in the documentation is what the program prints.
static void test_llama_options(void **state) {
    struct program p;
    struct str text = {0};
    struct error e = {0};
    (void)state;
    assert_int_equal(program_run(&p, "", ARGS("serve", "--llama-options")), 0);
    assert_true(file_read(FIXTURES "/../../docs/llama-server.md", 1 << 20, &text, &e));
    if (!sv_ends(str_sv(&text), str_sv(&p.out_text)))
        fail_msg(
            "docs/llama-server.md does not end with what mlxcel-server --llama-options prints");
    program_free(&p);
    str_free(&text);
}

static void test_mlxcel_variables(void **state) {
    struct program p;
    struct str text = {0};
    struct error e = {0};
    (void)state;
    assert_int_equal(program_run(&p, "", ARGS("serve", "--mlxcel-variables")), 0);
    assert_true(file_read(FIXTURES "/../../docs/variables.md", 1 << 20, &text, &e));
    if (!sv_ends(str_sv(&text), str_sv(&p.out_text)))
        fail_msg(
            "docs/variables.md does not end with what mlxcel-server --mlxcel-variables prints");
    program_free(&p);
    str_free(&text);
}

static void test_usage_errors(void **state) {
    (void)state;
#define WRONG(part, ...) expect_error(2, part, "", ARGS(__VA_ARGS__))
    WRONG("unknown command generat; did you mean generate?", "generat");
    WRONG("unknown option --no-such", "--no-such");
    WRONG("unknown option --temprature; did you mean --temperature?", "generate", "--temprature");
    WRONG("unknown option --xyzzy (\"mlxcel help generate\" lists them)", "generate", "--xyzzy=1");
    WRONG("unknown option -Z", "generate", "-Z");
    WRONG("--samplers: there is no sampler \"best\"", "generate", "m", "-p", "a", "--samplers",
          "top_k;best");
    WRONG("--sampling-seq: there is no sampler with the letter 'z'", "generate", "m", "-p", "a",
          "--sampling-seq", "kz");
    WRONG("--logit-bias \"5\" must be a token id", "generate", "m", "-p", "a", "-l", "5");
    WRONG("--logit-bias \"-1+1\" must be", "generate", "m", "-p", "a", "-l", "-1+1");
    WRONG("--loop-detection is \"1,2\"", "generate", "m", "-p", "a", "--loop-detection", "1,2");
    WRONG("--loop-detection: min_count is 1", "generate", "m", "-p", "a", "--loop-detection",
          "1,2,1");
    WRONG("--top-p \"1.5\": must be a number from 0 to 1", "generate", "--top-p", "1.5");
    WRONG("--top-k \"1.5\": must be a whole number", "generate", "--top-k=1.5");
    WRONG("-n \"12x\": must be a whole number from -1 to", "generate", "-n12x");
    WRONG("--temp \"nan\": must be a number", "generate", "--temp", "nan");
    WRONG("-n \"99999999999999999999\"", "generate", "-n", "99999999999999999999");
    WRONG("-ctk \"q4_0\": must be one of f16|fp16|bf16|f32|q8_0|int8", "generate", "-ctk", "q4_0");
    WRONG("--precision \"f16\": must be one of native|f32", "generate", "--precision", "f16");
    WRONG("--json takes no value", "generate", "--json=1");
    WRONG("--prompt needs a value: --prompt TEXT", "generate", "--prompt");
    WRONG("unexpected argument \"b\"", "generate", "a", "b");
    WRONG("two models, \"a\" and --model \"b\"", "generate", "a", "-m", "b", "-p", "x");
    WRONG("--prompt is empty", "generate", MODEL, "-p", "");
    WRONG("CPU mask \"zz\": is not hexadecimal", "generate", MODEL, "-p", "x", "-C", "zz");
    WRONG("--cpu-mask 0: has no CPU in it", "logits", MODEL, "--ids", "1", "-C", "0");
    WRONG("CPU range \"4-1\": is not FIRST-LAST", "bench", MODEL, "-Cr", "4-1");
    WRONG("--prompt is empty", "run", MODEL, "--raw", "-p", "");
    WRONG("--seed \"-5\": must be a whole number from -1 to 9007199254740991", "generate", MODEL,
          "-p", "x", "--seed", "-5");
    WRONG("--batch \"4097\": must be a whole number from 1 to 4096", "inspect", MODEL, "--batch",
          "4097");
    WRONG("LoRA adapters are not in this build", "generate", "-m", MODEL, "--adapter", "x");
    WRONG("-ngl \"few\": must be a whole number", "generate", "-m", MODEL, "-ngl", "few");
    WRONG("--rope-scale: positions are as", "generate", "-m", MODEL, "--rope-scale", "2");
    WRONG("no model: pass a checkpoint's folder with -m PATH", "generate", "-p", "x");
    WRONG("exclude each other", "generate", "-m", MODEL, "-p", "x", "-f", "y");
    WRONG("--json needs a prompt", "run", MODEL, "--json");
    WRONG("no token ids", "logits", "-m", MODEL);
    WRONG("\"x\" is not a token id", "logits", "-m", MODEL, "--ids", "1,x");
    WRONG("no token ids", "logits", "-m", MODEL, "--ids", ",");
#undef WRONG
}

// llama.cpp's words behind one dash are not -f, -c, -n or -s with a value; numbers may hang on.
static void test_one_dash(void **state) {
    (void)state;
    static const char *const unknown[] = {"-fx", "-cx", "-n-x", "-nope",
                                          "-sx", "-px", "-mx",  "-vx"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        char say[32];
        snprintf(say, sizeof say, "unknown option %s", unknown[i]);
        expect_error(2, say, "", ARGS("generate", MODEL, "-p", "Hi", unknown[i], "on"));
    }
    expect_error(2, "unknown option -temp; did you mean --temp?", "",
                 ARGS("generate", MODEL, "-p", "Hi", "-temp", "0.5"));
    static const char *const refused[] = {"-cnv", "-no-cnv", "-e", "-hf", "-md", "--lora", "-np"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char say[32];
        snprintf(say, sizeof say, "error: %s: ", refused[i]);
        expect_error(2, say, "", ARGS("generate", MODEL, "-p", "Hi", refused[i], "on"));
    }
    expect_text("Hello,\n", "", ARGS("generate", MODEL, "-p", "Hi", "-n2"));
    expect_text("Hello,\n", "",
                ARGS("generate", MODEL, "-fa", "-p", "Hi", "-n2", "-ngl", "99", "-q"));
    expect_text("Hello,\n", "",
                ARGS("generate", MODEL, "-p", "Hi", "-n2", "-ctk", "int8", "-ctv", "q8_0"));
    expect_text("Hello,\n", "", ARGS("generate", MODEL, "-p=Hi", "-n=2", "-qv", "--jinja"));
    expect_text("Hello,\n", "",
                ARGS("generate", ("-m=" FIXTURES "/text"), "-p=Hi", "-n=2", "-t.0"));
}

// Missing is 1 everywhere, and said with the same words.
static void test_missing_model(void **state) {
    (void)state;
    const char *say = "/no/such: no such checkpoint: give its folder, or a file in it";
    expect_error(1, say, "", ARGS("generate", "-m", "/no/such", "-p", "x"));
    expect_error(1, say, "", ARGS("generate", "/no/such", "-p", "x"));
    expect_error(1, say, "", ARGS("run", "/no/such"));
    expect_error(1, say, "", ARGS("logits", "/no/such", "--ids", "1"));
    expect_error(1, say, "", ARGS("inspect", "/no/such"));
    expect_error(1, say, "", ARGS("bench", "/no/such"));
    expect_error(1, say, "", ARGS("tokenize", "-m", "/no/such", "x"));
    expect_error(1, say, "", ARGS("detokenize", "-m", "/no/such", "1"));
    expect_error(1, "does not download", "", ARGS("generate", "-m", "owner/name", "-p", "x"));
}

static void test_hints(void **state) {
    (void)state;
    struct program a, b;
    expect_error(2, "mlxcel run PATH", "", ARGS("chat"));
    expect_error(2, "downloads are not in this build", "", ARGS("pull", "x"));
    expect_error(2, "mlxcel import", "", ARGS("convert"));
    expect_error(2, "quantizing is not in this build", "", ARGS("quantize"));
    expect_error(2, "the version is mlxcel --version", "", ARGS("-v"));
    assert_int_equal(program_run(&a, "", ARGS("version")), 0);
    assert_int_equal(program_run(&b, "", ARGS("--version")), 0);
    assert_string_equal(a.out_text.p, b.out_text.p);
    program_free(&a);
    program_free(&b);
}

static void expect_told(const char *part, const char *const *args) {
    struct program p;
    assert_int_equal(program_run(&p, "", args), 0);
    if (part && !has(&p.err_text, part)) fail_msg("\"%s\" is not in: %s", part, str_c(&p.err_text));
    if (!part) assert_string_equal(str_c(&p.err_text), "");
    program_free(&p);
}

// What is accepted but doesn't do what one might think.
static void test_told(void **state) {
    (void)state;
#define TOLD(part, ...)                                                                            \
    expect_told(part, ARGS("generate", MODEL, "-p", "Hi", "-n", "1", __VA_ARGS__))
    TOLD("-t is the temperature here; threads: --threads", "-t", "8");
    TOLD(NULL, "--temp", "8");
    TOLD(NULL, "-t", "2");
    TOLD("--seed changes nothing at temperature 0", "-v", "--seed", "1");
    TOLD("--top-k changes nothing at temperature 0", "-v", "--top-k", "1");
    TOLD(NULL, "--seed", "1");
    TOLD("device gpu: this ", "--device", "gpu"); // has none: build or machine
#undef TOLD
    expect_told("the context of 32 tokens is full (-c, --ctx-size)",
                ARGS("generate", MODEL, "-p", "Hi", "--ignore-eos", "-c", "32"));
    setenv("MLXCEL_LOG", "loud", 1);
    expect_error(2, "MLXCEL_LOG \"loud\": must be one of error|warn|info|debug", "",
                 ARGS("generate", MODEL, "-p", "Hi"));
    unsetenv("MLXCEL_LOG");
}

static void test_environment(void **state) {
    (void)state;
    setenv("LLAMA_ARG_MODEL", MODEL, 1);
    setenv("LLAMA_ARG_N_PREDICT", "2", 1);
    expect_text("Hello,\n", "", ARGS("generate", "-p", "Hi"));
    expect_text("Hello\n", "", ARGS("generate", "-p", "Hi", "-n", "1")); // the option wins
    setenv("LLAMA_ARG_N_PREDICT", "two", 1);
    expect_error(2, "LLAMA_ARG_N_PREDICT \"two\": must be a whole number", "",
                 ARGS("generate", "-p", "Hi"));
    setenv("LLAMA_ARG_N_PREDICT", "", 1); // empty counts as unset
    expect_text(GREETING "\n", "", ARGS("generate", "-p", "Hi"));
    setenv("MLXCEL_DEVICE", "abacus", 1);
    expect_error(1, "device \"abacus\" is ", "", ARGS("generate", "-p", "Hi"));
    setenv("MLXCEL_DEVICE", "gpu", 1); // a wish: without one it is the CPU
    expect_text(GREETING "\n", "", ARGS("generate", "-p", "Hi", "-q"));
    unsetenv("MLXCEL_DEVICE");
    unsetenv("LLAMA_ARG_N_PREDICT");
    unsetenv("LLAMA_ARG_MODEL");
}

// --- generate ------------------------------------------------------------------------------------

static void test_prompts(void **state) {
    (void)state;
    char file[] = "/tmp/mlxcel-cli-XXXXXX";
    int fd = mkstemp(file);
    assert_int_equal(write(fd, "Hi\n", 3), 3);
    close(fd);
    expect_text(GREETING "\n", "", ARGS("generate", "-m", MODEL, "-p", "Hi"));
    expect_text(GREETING "\n", "",
                ARGS("gen", ("--model=" FIXTURES "/text"), "--prompt=Hi", "-vq"));
    expect_text(GREETING "\n", "",
                ARGS("generate", "-m", (FIXTURES "/text/config.json"), "-f", file));
    expect_text(GREETING "\n", "", ARGS("run", MODEL, "-p", "Hi"));
    expect_error(1, "standard input: the prompt is empty", "\n", ARGS("generate", MODEL));
    expect_error(1, "standard input: the prompt is empty", "", ARGS("generate", MODEL, "--raw"));
    expect_text("", "", ARGS("generate", MODEL, "-p", "Hi", "-n", "0"));
    expect_error(1, "no-such-file", "", ARGS("generate", "-m", MODEL, "-f", "/no-such-file"));

    expect_text(GREETING "\n", "",
                ARGS("generate", "-m", MODEL, "-p", "\xff\xc3(\x01")); // not UTF-8

    // The same prompt by each way has as many tokens: the line break at a file's end isn't one.
    static const char *const way[][3] = {{"-p", "Hi"}, {"-p", "-"}, {"-f", NULL}, {NULL}};
    for (int i = 0; i < 4; i++) {
        const char *value = i == 2 ? file : way[i][1];
        struct json_object *o =
            expect_json("Hi\n", (const char *const[]){"generate", "-m", MODEL, "--json", way[i][0],
                                                      value, NULL});
        assert_int_equal(json_int_at(json_at(o, "usage"), "prompt_tokens", 0), 21);
        json_object_put(o);
    }
    unlink(file);
}

static void test_json(void **state) {
    (void)state;
    struct json_object *o =
        expect_json("", ARGS("generate", "-m", MODEL, "-p", "Hi", "--json", "-sys", "Be brief."));
    assert_true(sv_is(json_text_at(o, "text"), GREETING));
    assert_true(sv_is(json_text_at(o, "finish_reason"), "stop"));
    assert_true(sv_is(json_text_at(o, "model"), MODEL));
    assert_int_equal(json_object_array_length(json_at(o, "ids")), 13);
    struct json_object *usage = json_at(o, "usage"), *timings = json_at(o, "timings");
    assert_int_equal(json_int_at(usage, "prompt_tokens", 0), 21 + 19);
    assert_int_equal(json_int_at(usage, "completion_tokens", 0), 13);
    assert_int_equal(json_int_at(usage, "total_tokens", 0), 40 + 13);
    assert_int_equal(json_int_at(timings, "prompt_n", 0), 40);
    assert_true(json_number_at(timings, "prompt_per_second", 0) > 0);
    assert_true(json_number_at(timings, "predicted_per_second", 0) > 0);
    json_object_put(o);

    // Cut within a character: still valid JSON, and the text says that something is missing.
    o = expect_json("", ARGS("generate", "-m", MODEL, "-p", "Hi", "--json", "-n", "4"));
    assert_true(sv_is(json_text_at(o, "text"), "Hello, w\xef\xbf\xbd"));
    assert_true(sv_is(json_text_at(o, "finish_reason"), "length"));
    json_object_put(o);

    o = expect_json("", ARGS("generate", "-m", MODEL, "-p", "Hi", "--raw", "--json", "-n", "0"));
    assert_int_equal(json_int_at(json_at(o, "usage"), "prompt_tokens", 0), 2);
    assert_int_equal(json_object_array_length(json_at(o, "ids")), 0);
    json_object_put(o);
}

static void test_stops(void **state) {
    (void)state;
    expect_text("Hello, w\xc3\xb6\n", "",
                ARGS("generate", "-m", MODEL, "-p", "Hi", "--stop", "no", "--stop", "rld"));
    expect_text(GREETING GREETING "\n", "",
                ARGS("generate", "-m", MODEL, "-p", "Hi", "--ignore-eos", "-n", "25"));
    struct json_object *o = expect_json(
        "", ARGS("generate", "-m", MODEL, "-p", "Hi", "--ignore-eos", "-c", "32", "--json"));
    assert_int_equal(json_int_at(json_at(o, "usage"), "total_tokens", 0), 32);
    assert_true(sv_is(json_text_at(o, "finish_reason"), "length"));
    json_object_put(o);
    expect_error(1, "--ctx-size", "", ARGS("generate", "-m", MODEL, "-p", "Hi", "-c", "8"));
}

static struct str sampled(const char *seed) {
    struct program p;
    assert_int_equal(program_run(&p, "",
                                 ARGS("generate", "-m", MODEL, "-p", "Hi", "--ignore-eos", "-n",
                                      "20", "-t", "20", "--seed", seed)),
                     0);
    str_free(&p.err_text);
    return p.out_text;
}

static void test_seed(void **state) {
    (void)state;
    struct str a = sampled("7"), again = sampled("7"), b = sampled("8"), c = sampled("-1"),
               d = sampled("-1");
    assert_string_equal(a.p, again.p);
    assert_string_not_equal(a.p, b.p);
    assert_string_not_equal(c.p, d.p);
    struct str *all[] = {&a, &again, &b, &c, &d};
    for (int i = 0; i < 5; i++) str_free(all[i]);
}

static void test_stats(void **state) {
    (void)state;
    struct program p;
    assert_int_equal(program_run(&p, "", ARGS("generate", "-m", MODEL, "-p", "Hi", "--stats")), 0);
    assert_string_equal(p.out_text.p, GREETING "\n");
    static const char *const want[] = {"load",       "prompt", "21 tokens",
                                       "generation", "tok/s",  "first token"};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) assert_true(has(&p.err_text, want[i]));
    program_free(&p);
}

// --- what goes wrong -----------------------------------------------------------------------------

static void test_signals(void **state) {
    (void)state;
    static const char *const endless[] = {"generate", "-m",           MODEL, "-p",
                                          "Hi",       "--ignore-eos", NULL};
    struct program p;
    program_start(&p, endless);
    program_read(&p, GREETING);
    kill(p.pid, SIGINT);
    assert_int_equal(program_finish(&p), 130);
    assert_true(WIFEXITED(p.status));
    assert_true(sv_ends(str_sv(&p.out_text), sv("\n")));
    assert_true(utf8_valid(str_sv(&p.out_text)));
    assert_string_equal(str_c(&p.err_text), "");
    program_free(&p);

    program_start(&p, ARGS("generate", "-m", MODEL, "-p", "Hi", "--ignore-eos", "--json", "-v"));
    while (!has(&p.err_text, "loaded in")) program_take(&p.err, &p.err_text);
    usleep(100000);
    kill(p.pid, SIGTERM);
    assert_int_equal(program_finish(&p), 143);
    struct json_object *o = parse(&p);
    assert_true(sv_is(json_text_at(o, "finish_reason"), "cancelled"));
    json_object_put(o);
    program_free(&p);
}

static void test_reader_goes_away(void **state) {
    (void)state;
    struct program p;
    program_start(&p, ARGS("generate", "-m", MODEL, "-p", "Hi", "--ignore-eos"));
    program_read(&p, "Hello");
    close(p.out);
    p.out = -1;
    assert_int_equal(program_finish(&p), 128 + SIGPIPE);
    assert_string_equal(str_c(&p.err_text), "");
    program_free(&p);
}

static void test_output_fails(void **state) {
    (void)state;
    static const char generate[] = "\"$0\" generate -m \"$1\" -p Hi >";
    struct program p;
    struct str command = {0};
    str_printf(&command, "%s&-", generate);
    program_start_at(&p, "/bin/sh", ARGS("-c", command.p, MLXCEL, MODEL));
    assert_int_equal(program_finish(&p), 1);
    assert_string_equal(p.err_text.p, "mlxcel: error: standard output: Bad file descriptor\n");
    program_free(&p);
    str_clear(&command);
    str_printf(&command, "%s/dev/full", generate);
    program_start_at(&p, "/bin/sh", ARGS("-c", command.p, MLXCEL, MODEL));
    assert_int_equal(program_finish(&p), 1);
    assert_string_equal(p.err_text.p, "mlxcel: error: standard output: No space left on device\n");
    program_free(&p);
    program_start_at(&p, "/bin/sh", ARGS("-c", "\"$0\" help generate >/dev/full", MLXCEL));
    assert_int_equal(program_finish(&p), 1);
    assert_true(has(&p.err_text, "No space left on device"));
    program_free(&p);
    str_free(&command);
}

static void test_broken_model(void **state) {
    (void)state;
    struct error e = {0};
    char dir[] = "/tmp/mlxcel-cli-XXXXXX";
    assert_non_null(mkdtemp(dir));
    expect_error(1, "config.json", "", ARGS("generate", "-m", dir, "-p", "Hi"));
    model_copy(dir, "tokenizer.json");
    expect_error(1, "vocab.txt): copy the published checkpoint's there", "",
                 ARGS("generate", "-m", dir, "-p", "Hi"));
    model_copy(dir, NULL);
    char *weights = path_join(dir, "model.safetensors");
    struct str data = {0};
    assert_true(file_read(weights, 1 << 20, &data, &e));
    assert_true(file_write(weights, sv_cut(str_sv(&data), 0, data.n / 2), &e));
    expect_error(1, "model.safetensors", "", ARGS("generate", "-m", dir, "-p", "Hi"));
    expect_error(1, "model.safetensors", "", ARGS("inspect", "-m", dir));
    free(weights);
    str_free(&data);
    folder_remove(dir);
}

// What gives nonsense without being an error is told.
static void expect_warning(const char *part, const char *const *args) {
    struct program p;
    assert_int_equal(program_run(&p, "", args), 0);
    if (!has(&p.err_text, part)) fail_msg("no \"%s\" in: %s", part, str_c(&p.err_text));
    program_free(&p);
}

// The form of an answer, from the command line or a file.
static void test_form(void **state) {
    (void)state;
#define FORMED(...) ARGS("generate", MODEL, "-p", "Hi", "-n", "60", __VA_ARGS__)
    static const char grammar[] = "root ::= \"[\" [q] \"]\"", schema[] = "{\"const\":[1,null]}";
    struct error e = {0};
    char dir[] = "/tmp/mlxcel-form-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *grammar_file = path_join(dir, "g"), *schema_file = path_join(dir, "s");
    assert_true(file_write(grammar_file, sv(grammar), &e) &&
                file_write(schema_file, sv(schema), &e));
    expect_text("[q]\n", "", FORMED("--grammar", grammar));
    expect_text("[q]\n", "", FORMED("--grammar-file", grammar_file));
    expect_text("[1,null]\n", "", FORMED("-j", schema));
    expect_text("[1,null]\n", "", FORMED("--json-schema-file", schema_file, "--temp", "9"));
    expect_text("[q]\n", "", FORMED("--raw", "--grammar", grammar));
    expect_error(2, "exclude each other", "", FORMED("--grammar", grammar, "-j", schema));
    expect_error(2, "exclude each other", "", FORMED("-j", schema, "-jf", schema_file));
    expect_error(2, "--ignore-eos excludes", "", FORMED("-j", schema, "--ignore-eos"));
    expect_error(2, "--json-schema", "", FORMED("-j", "{"));
    expect_error(2, "--grammar-file", "", FORMED("--grammar-file", "/no/such"));
    expect_error(1, "#/not", "", FORMED("-j", "{\"not\":{}}"));
    free(grammar_file);
    free(schema_file);
    folder_remove(dir);
}

// The first of the known answer's tokens is 259, and the answer has 13.
static void test_samplers(void **state) {
    (void)state;
#define SAMPLED(...) ARGS("generate", MODEL, "-p", "Hi", "-n", "60", __VA_ARGS__)
    expect_text(GREETING GREETING "\n", "", SAMPLED("--ignore-eos", "--loop-detection", "13,13,2"));
    expect_text(GREETING "\n", "",
                SAMPLED("--temp", "50", "--seed", "1", "--samplers", "top_k", "--top-k", "1"));
    expect_text(GREETING "\n", "", SAMPLED("--temp", "50", "--sampling-seq", "km", "--min-p", "1"));
    struct json_object *o = expect_json("", SAMPLED("--json", "-l", "259-inf", "-l", "5+90"));
    assert_int_equal(json_object_get_int(json_object_array_get_idx(json_at(o, "ids"), 0)), 5);
    json_object_put(o);
    // Whatever goes on with the answer's second beginning costs more than it has.
    o = expect_json("", SAMPLED("--json", "--ignore-eos", "--dry-multiplier", "90"));
    assert_int_equal(json_object_get_int(json_object_array_get_idx(json_at(o, "ids"), 14)), 44);
    assert_true(json_object_get_int(json_object_array_get_idx(json_at(o, "ids"), 15)) != 260);
    json_object_put(o);
    o = expect_json("", SAMPLED("--json", "--ignore-eos", "--dry-multiplier", "90",
                                "--dry-sequence-breaker", ","));
    assert_int_equal(json_object_get_int(json_object_array_get_idx(json_at(o, "ids"), 15)), 260);
    json_object_put(o);
}

// Two bytes of the tensor, the first ones, in dir's model.safetensors become these.
static void damage(const char *dir, const char *tensor, const char *bytes) {
    struct error e = {0};
    struct st_file f;
    struct str data = {0};
    char *weights = path_join(dir, "model.safetensors");
    assert_true(st_open(&f, weights, &e));
    size_t at = (size_t)((unsigned char *)st_find(&f, sv(tensor))->t.data - f.map.p);
    st_close(&f);
    assert_true(file_read(weights, 1 << 20, &data, &e));
    memcpy(data.p + at, bytes, 2);
    assert_true(file_write(weights, str_sv(&data), &e));
    str_free(&data);
    free(weights);
}

static void test_warnings(void **state) {
    (void)state;
    char dir[] = "/tmp/mlxcel-cli-XXXXXX";
    assert_non_null(mkdtemp(dir));
    model_copy(dir, NULL);
    damage(dir, "model.norm.weight", "\x00\x7e"); // an F16 NaN
    expect_warning("NaN: its weights are damaged",
                   ARGS("generate", "-m", dir, "-p", "Hi", "-n", "3"));
    expect_warning("made for 65536", ARGS("generate", "-m", MODEL, "-p", "Hi", "-c", "70000"));
    folder_remove(dir);
}

// Which scale it was is told too.
static void test_damaged_scales(void **state) {
    (void)state;
    static const char *const files[] = {"config.json", "model.safetensors"};
    struct error e = {0};
    struct str data = {0};
    char dir[] = "/tmp/mlxcel-cli-XXXXXX";
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < 2; i++) {
        char *from = path_join(FIXTURES "/llama/base-q4", files[i]), *to = path_join(dir, files[i]);
        assert_true(file_read(from, 1 << 20, &data, &e) && file_write(to, str_sv(&data), &e));
        free(from);
        free(to);
    }
    const char *name = "model.layers.1.mlp.down_proj.scales";
    damage(dir, name, "\xc0\x7f"); // a BF16 NaN
    expect_warning(name, ARGS("logits", "-m", dir, "--ids", "1,2", "--greedy", "2"));
    str_free(&data);
    folder_remove(dir);
}

// --- the other commands --------------------------------------------------------------------------

static const int32_t greeting_ids[] = {259, 44,  260, 195, 182, 261, 33,
                                       32,  240, 159, 152, 128, 263};

static void check_logits_file(const char *path, const char *chunk) {
    struct program p;
    struct error e = {0};
    struct st_file f;
    assert_int_equal(
        program_run(&p, "",
                    ARGS("logits", "-m", MODEL, "--ids", "262, 10,259", "-q", "--greedy", "12",
                         "--chunk", chunk, "--out", path, "--precision", "f32")),
        0);
    assert_string_equal(str_c(&p.out_text), "");
    program_free(&p);
    assert_true(st_open(&f, path, &e));
    const struct st_tensor *logits = st_need(&f, sv("logits"), &e);
    const struct st_tensor *greedy = st_need(&f, sv("greedy_ids"), &e);
    assert_false(e.set);
    assert_int_equal(logits->t.type, DT_F32);
    assert_int_equal(logits->t.n[0], 3);
    assert_int_equal(logits->t.n[1], 264);
    assert_int_equal(greedy->t.type, DT_I32);
    assert_memory_equal(greedy->t.data, greeting_ids + 1, 12 * sizeof(int32_t));
    const float *row = logits->t.data;
    assert_float_equal(row[264 + 259], 8, 1e-3); // after a line break comes "Hello"
    assert_float_equal(row[264 + 258], 0, 1e-4);
    assert_float_equal(row[2 * 264 + 44], 8, 1e-3);
    st_close(&f);
}

static void test_logits(void **state) {
    (void)state;
    char path[] = "/tmp/mlxcel-logits-XXXXXX";
    close(mkstemp(path));
    check_logits_file(path, "0");
    check_logits_file(path, "1");
    unlink(path);
    expect_text("0\t10\t259:7.99974\t0:0\ngreedy\t259\t44\n", "",
                ARGS("logits", "-m", MODEL, "--ids", "10", "--top", "2", "--greedy", "2"));
    struct json_object *o =
        expect_json("", ARGS("logits", "-m", MODEL, "--ids", "10,44", "--top", "0", "--json"));
    struct json_object *rows = json_at(o, "rows");
    assert_int_equal(json_object_array_length(rows), 2);
    struct json_object *second = json_at(json_object_array_get_idx(rows, 1), "logits");
    assert_int_equal(json_object_array_length(second), 264);
    assert_float_equal(json_object_get_double(json_object_array_get_idx(second, 260)), 8, 1e-3);
    json_object_put(o);
    expect_error(1, "/no/such/dir/x", "",
                 ARGS("logits", "-m", MODEL, "--ids", "1", "--out", "/no/such/dir/x"));
    expect_error(1, "264", "", ARGS("logits", "-m", MODEL, "--ids", "1,264"));
}

static void test_inspect(void **state) {
    (void)state;
    struct json_object *o = expect_json("", ARGS("inspect", "-m", MODEL, "--json", "--batch", "2"));
    assert_true(sv_is(json_text_at(o, "family"), "llama"));
    assert_int_equal(json_int_at(o, "context", 0), 8192); // not the model's 65536
    assert_int_equal(json_int_at(o, "model_context", 0), 65536);
    assert_int_equal(json_int_at(o, "batch", 0), 2);
    assert_true(json_bool_at(o, "tokenizer", false));
    assert_true(json_bool_at(o, "chat_template", false));
    assert_true(json_bool_at(o, "fits", false));
    int64_t total = json_int_at(o, "weights_bytes", 0) + json_int_at(o, "kv_cache_bytes", 0) +
                    json_int_at(o, "scratch_bytes", 0);
    assert_int_equal(json_int_at(o, "total_bytes", 0), total);
    assert_true(json_int_at(o, "weights_bytes", 0) > 70000);
    json_object_put(o);

    // What can't fit is told, and isn't an error.
    struct program p;
    assert_int_equal(
        program_run(&p, "", ARGS("inspect", MODEL, "-n", "1000000000", "--batch", "4096")), 0);
    assert_true(has(&p.out_text, "DOES NOT FIT"));
    assert_true(has(&p.out_text, "Llama (llama), 1 layer,"));
    program_free(&p);
}

static void test_tokens(void **state) {
    (void)state;
    expect_text("72,105\n", "", ARGS("tokenize", "-m", MODEL, "--ids", "Hi"));
    expect_text("72,105\n", "Hi", ARGS("tokenize", "-m", MODEL, "--ids"));
    expect_text("72,105\n", "Hi", ARGS("tokenize", "-m", MODEL, "--ids", "-"));
    expect_text("Hello, w\n", "", ARGS("detokenize", "-m", MODEL, "259", "44,", "[260]"));
    expect_text("Hello, w\n", "259, 44\n260\n", ARGS("detokenize", "-m", MODEL, "-"));
    expect_text("Hello, w\n", "259 44 260", ARGS("detokenize", "-m", MODEL));
    expect_error(2, "\"x\" is not a token id", "", ARGS("detokenize", "-m", MODEL, "1", "x"));
    expect_error(1, "\"x\" is not a token id", "1,x\n", ARGS("detokenize", "-m", MODEL));
    expect_error(1, "no token ids", " \n", ARGS("detokenize", "-m", MODEL));
}

static void test_arch(void **state) {
    (void)state;
    struct json_object *o = expect_json("", ARGS("arch", "--json"));
    bool llama = false;
    for (size_t i = 0; i < json_object_array_length(o); i++) {
        struct json_object *f = json_object_array_get_idx(o, i);
        llama |= sv_is(json_text_at(f, "id"), "llama");
        assert_true(json_text_at(f, "name").n > 0);
        assert_true(json_object_array_length(json_at(f, "model_types")) > 0);
    }
    assert_true(llama);
    json_object_put(o);
    struct program p;
    assert_int_equal(program_run(&p, "", ARGS("supported")), 0);
    assert_true(has(&p.out_text, "llama "));
    program_free(&p);
}

int main(void) {
    static const char *const ours[] = {"LLAMA_ARG_MODEL",    "LLAMA_ARG_N_PREDICT", "MLXCEL_DEVICE",
                                       "LLAMA_ARG_CTX_SIZE", "LLAMA_ARG_TOP_K",     "MLXCEL_LOG"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) unsetenv(ours[i]);
    setenv("LLAMA_ARG_THREADS", "1", 1); // the model is too small for more
    signal(SIGPIPE, SIG_IGN); // of this process: the program must not depend on what it inherits
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_llama_options),
        cmocka_unit_test(test_mlxcel_variables),
        cmocka_unit_test(test_mlxcel_variables),
        cmocka_unit_test(test_usage_errors),
        cmocka_unit_test(test_serve),
        cmocka_unit_test(test_one_dash),
        cmocka_unit_test(test_missing_model),
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_reader_goes_away),
        cmocka_unit_test(test_output_fails),
        cmocka_unit_test(test_broken_model),
        cmocka_unit_test(test_samplers),
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_damaged_scales),
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_inspect),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_arch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
