// The public library, through its own header alone.
#include "check.h"

#include "mlxcel.h"

#define MODEL    FIXTURES "/text" // answers "Hello, wörld! 😀" (tools/make_text_fixture.py)
#define GREETING "Hello, w\xc3\xb6rld! \xf0\x9f\x98\x80"

struct result {
    char text[256];
    size_t n, pieces;
    enum mlxcel_finish finish;
    size_t ids, prompt;
};

static struct mlxcel *open_model(void) {
    struct mlxcel_error e = {0};
    struct mlxcel *m = mlxcel_open(MODEL, NULL, &e);
    assert_string_equal(e.text, "");
    assert_non_null(m);
    return m;
}

static void answer(struct mlxcel *m, const struct mlxcel_request *r, struct result *out) {
    struct mlxcel_error e = {0};
    struct mlxcel_piece p;
    *out = (struct result){0};
    struct mlxcel_generation *g = mlxcel_generate_start(m, r, &e);
    assert_non_null(g);
    while (mlxcel_generate_next(g, &p, &e)) {
        assert_true(out->n + p.size < sizeof out->text);
        memcpy(out->text + out->n, p.text, p.size);
        out->n += p.size;
        out->pieces += p.size > 0;
    }
    assert_string_equal(e.text, "");
    out->finish = mlxcel_generate_finish(g);
    mlxcel_generate_ids(g, &out->ids);
    out->prompt = mlxcel_generate_prompt_size(g);
    mlxcel_generate_close(g);
}

static void test_answers(void **state) {
    (void)state;
    struct mlxcel *m = open_model();
    struct mlxcel_message talk[] = {{"system", "Be brief."}, {"user", "Hi"}};
    struct mlxcel_request r = {.messages = talk + 1, .message_count = 1};
    struct result one, two;
    answer(m, &r, &one);
    assert_string_equal(one.text, GREETING);
    assert_int_equal(one.finish, MLXCEL_STOP);
    assert_int_equal(one.ids, 13); // with the end token
    assert_true(one.pieces > 5);   // it streams
    r.messages = talk;
    r.message_count = 2;
    answer(m, &r, &two);
    assert_true(two.prompt > one.prompt);

    r = (struct mlxcel_request){.prompt = "line\n", .max_tokens = 2};
    answer(m, &r, &one);
    assert_string_equal(one.text, "Hello,");
    assert_int_equal(one.finish, MLXCEL_LENGTH);

    const char *stop[] = {"rld", "never"};
    r = (struct mlxcel_request){.prompt = "line\n", .stop = stop, .stop_count = 2};
    answer(m, &r, &one);
    assert_string_equal(one.text, "Hello, w\xc3\xb6");
    assert_int_equal(one.finish, MLXCEL_STOP);
    mlxcel_close(m);
}

static void test_seed(void **state) {
    (void)state;
    struct mlxcel *m = open_model();
    struct mlxcel_request r = {
        .prompt = "x\n", .max_tokens = 30, .temperature = 20, .seed = 5, .ignore_eos = true};
    struct result a, b, c;
    answer(m, &r, &a);
    answer(m, &r, &b);
    assert_memory_equal(a.text, b.text, sizeof a.text);
    r.seed = 6;
    answer(m, &r, &c);
    assert_memory_not_equal(a.text, c.text, sizeof a.text);
    mlxcel_close(m);
}

static void test_cancel(void **state) {
    (void)state;
    struct mlxcel *m = open_model();
    struct mlxcel_error e = {0};
    struct mlxcel_request r = {.prompt = "x\n", .ignore_eos = true};
    struct mlxcel_generation *g = mlxcel_generate_start(m, &r, &e);
    struct mlxcel_piece p;
    for (int i = 0; i < 3; i++) assert_true(mlxcel_generate_next(g, &p, &e));
    assert_int_equal(mlxcel_generate_finish(g), MLXCEL_RUNNING);
    assert_null(mlxcel_generate_start(m, &r, &e)); // one at a time
    assert_non_null(strstr(e.text, "close that first"));
    mlxcel_generate_cancel(g);
    while (mlxcel_generate_next(g, &p, &e)) continue;
    assert_int_equal(mlxcel_generate_finish(g), MLXCEL_CANCELLED);
    mlxcel_generate_close(g);

    g = mlxcel_generate_start(m, &r, &e); // and closing in the middle is fine too
    assert_true(mlxcel_generate_next(g, &p, &e));
    mlxcel_generate_close(g);
    struct result after;
    r.ignore_eos = false;
    answer(m, &r, &after);
    assert_string_equal(after.text, GREETING);
    mlxcel_close(m);
}

static void test_tokens(void **state) {
    (void)state;
    struct mlxcel *m = open_model();
    struct mlxcel_error e = {0};
    const char *text = "the <|im_end|>\xc3\xb6";
    int32_t ids[32];
    int64_t n = mlxcel_tokenize(m, text, strlen(text), false, ids, 32, &e);
    assert_int_equal(n, 5); // the, space, <|im_end|>, two bytes
    assert_int_equal(mlxcel_tokenize(m, text, strlen(text), false, NULL, 0, &e), n);
    char back[64];
    int64_t size = mlxcel_detokenize(m, ids, (size_t)n, back, sizeof back, &e);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(back, text, (size_t)size);
    ids[1] = 1 << 20;
    assert_int_equal(mlxcel_detokenize(m, ids, (size_t)n, back, sizeof back, &e), -1);
    assert_non_null(strstr(e.text, "token 1 is 1048576"));
    mlxcel_close(m);
}

static void test_refusals(void **state) {
    (void)state;
    struct mlxcel_error e = {0};
    assert_null(mlxcel_open(FIXTURES "/no-such-model", NULL, &e));
    assert_non_null(strstr(e.text, "no-such-model"));
    assert_null(mlxcel_open(MODEL, &(struct mlxcel_options){.device = "abacus"}, NULL));

    struct mlxcel *m = open_model();
    assert_int_equal(mlxcel_get_info(m).vocabulary, 264);
    assert_string_equal(mlxcel_get_info(m).family, "llama");
    struct mlxcel_message no_text = {"user", NULL};
    int32_t bad = 264;
    const struct mlxcel_request wrong[] = {
        {0},
        {.prompt = "a", .messages = &no_text, .message_count = 1},
        {.messages = &no_text, .message_count = 1},
        {.ids = &bad, .id_count = 1},
        {.ids = &bad, .id_count = 0},
        {.prompt = "a", .top_p = 2},
        {.prompt = "a", .temperature = -1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct mlxcel_error why = {0};
        assert_null(mlxcel_generate_start(m, &wrong[i], &why));
        assert_true(why.text[0] != 0);
    }
    mlxcel_generate_close(NULL);
    mlxcel_close(m);
    mlxcel_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),  cmocka_unit_test(test_seed),
        cmocka_unit_test(test_cancel),   cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
