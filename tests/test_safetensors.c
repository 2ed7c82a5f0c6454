// The JSON pull reader and SafeTensors files: every malformed and odd file has its verdict, damaged
// headers never harm, and what is written reads back.
#include "check.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/jread.h"
#include "base/json.h"
#include "base/mem.h"
#include "checkpoint/safetensors.h"

static bool json_valid(struct sv text) {
    struct error e = {0};
    struct jread j;
    jread_open(&j, text, "t", &e);
    enum jtoken t;
    do t = jread_next(&j);
    while (t != J_END && t != J_ERROR);
    assert_int_equal(jread_next(&j), t); // it stays there
    jread_close(&j);
    assert_int_equal(e.set, t == J_ERROR);
    return t == J_END;
}

static void test_jread_tokens(void **state) {
    (void)state;
    struct error e = {0};
    struct jread j;
    jread_open(&j,
               sv(" {\"a\\n\\ud83d\\ude00\" : [1, -9223372036854775808, 18446744073709551615,"
                  " 1.0, -0, 18446744073709551616, true, false, null, {}], \"b\": \"\xc3\xa9\"}\n"),
               "t", &e);
    assert_int_equal(jread_next(&j), J_OBJECT);
    assert_int_equal(jread_next(&j), J_KEY);
    assert_true(sv_is(j.text, "a\n\xf0\x9f\x98\x80"));
    assert_int_equal(jread_next(&j), J_ARRAY);
    assert_int_equal(jread_next(&j), J_INT);
    assert_true(j.i == 1);
    assert_int_equal(jread_next(&j), J_INT);
    assert_true(j.i == INT64_MIN);
    assert_int_equal(jread_next(&j), J_UINT);
    assert_true(j.u == UINT64_MAX);
    const char *fractions[] = {"1.0", "-0", "18446744073709551616"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(jread_next(&j), J_NUMBER);
        assert_true(sv_is(j.text, fractions[i]));
    }
    enum jtoken rest[] = {J_TRUE, J_FALSE, J_NULL, J_OBJECT, J_OBJECT_END, J_ARRAY_END};
    for (int i = 0; i < 6; i++) assert_int_equal(jread_next(&j), rest[i]);
    assert_int_equal(jread_next(&j), J_KEY);
    assert_int_equal(jread_next(&j), J_STRING);
    assert_true(sv_is(j.text, "\xc3\xa9"));
    assert_int_equal(jread_next(&j), J_OBJECT_END);
    assert_int_equal(jread_next(&j), J_END);
    jread_close(&j);
    jread_open(&j, sv("{\"skip\": [[1, {\"x\": 2}], 3], \"k\": 4}"), "t", &e);
    assert_int_equal(jread_next(&j), J_OBJECT);
    assert_int_equal(jread_next(&j), J_KEY);
    assert_true(jread_skip(&j, J_KEY));
    assert_int_equal(jread_next(&j), J_KEY);
    assert_true(sv_is(j.text, "k"));
    jread_close(&j);
    assert_false(e.set);
}

static void test_jread_strict(void **state) {
    (void)state;
    const char *good[] = {
        "0",   "-1.5e+3",           "\"\"",    "[]", "{}", " [ ] ", "[1,[2]]", "{\"a\":{}}", "null",
        "1E5", "\"\\u0000\\/\\b\"", "\"\x7f\""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!json_valid(sv(good[i]))) fail_msg("refuses %s", good[i]);
    const char *bad[] = {"",
                         " ",
                         "01",
                         "+1",
                         "1.",
                         ".5",
                         "1e",
                         "-",
                         "[1,]",
                         "[,1]",
                         "{,}",
                         "{\"a\"}",
                         "{\"a\":}",
                         "{a:1}",
                         "[1 2]",
                         "[1}",
                         "{\"a\":1]",
                         "]",
                         "nul",
                         "True",
                         "NaN",
                         "Infinity",
                         "\"\\x\"",
                         "\"\\u12\"",
                         "\"a",
                         "\"\t\"",
                         "\"\xff\"",
                         "\"\xc0\x80\"",
                         "\"\\ud800\"",
                         "1 1",
                         "\"\\udc00\"",
                         "\"\\ud800\\u0041\"",
                         "\"\xed\xa0\x80\"",
                         "{} {}",
                         "\xef\xbb\xbf{}",
                         "{\"a\":1,}",
                         "/**/1",
                         "'a'",
                         "nullx",
                         "\"\\"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (json_valid(sv(bad[i]))) fail_msg("accepts %s", bad[i]);
    assert_false(json_valid(sv_n("{}\0", 3)));
    struct str nest = {0};
    for (int i = 0; i < JREAD_DEPTH; i++) str_addc(&nest, '[');
    for (int i = 0; i < JREAD_DEPTH; i++) str_addc(&nest, ']');
    assert_true(json_valid(str_sv(&nest)));
    str_clear(&nest);
    for (int i = 0; i <= JREAD_DEPTH; i++) str_addc(&nest, '[');
    for (int i = 0; i <= JREAD_DEPTH; i++) str_addc(&nest, ']');
    assert_false(json_valid(str_sv(&nest)));
    str_free(&nest);
}

// Reads every byte that f hands out.
static unsigned touch(const struct st_file *f) {
    unsigned sum = 0;
    for (size_t i = 0; i < f->n; i++) {
        const unsigned char *p = f->tensor[i].t.data;
        size_t bytes = f->tensor[i].unusable ? 0 : tensor_bytes(f->tensor[i].t);
        for (size_t k = 0; k < bytes; k++) sum += p[k];
    }
    return sum;
}

static void test_verdicts(void **state) {
    (void)state;
    struct error e = {0};
    struct json_object *all = json_read_file(FIXTURES "/malformed/verdicts.json", 1 << 20, &e);
    assert_false(e.set);
    size_t seen = 0;
    for (size_t i = 0; i < json_object_array_length(all); i++) {
        struct json_object *row = json_object_array_get_idx(all, i);
        struct sv name = json_text_at(row, "name"), verdict = json_text_at(row, "verdict");
        if (!sv_ends(name, sv(".safetensors"))) continue; // the folders: test_weights
        char *path = path_join(FIXTURES "/malformed", name.p);
        struct st_file f;
        struct error why = {0};
        bool ok = st_open(&f, path, &why);
        assert_int_equal(ok, !why.set);
        if (sv_is(verdict, "refuse") && ok) fail_msg("%s: was accepted", name.p);
        if (sv_is(verdict, "accept") && !ok) fail_msg("%s: was refused: %s", name.p, why.text);
        if (!ok && !strstr(why.text, name.p)) fail_msg("no file name in: %s", why.text);
        if (ok) touch(&f), st_close(&f);
        free(path);
        seen++;
    }
    json_object_put(all);
    assert_true(seen >= 70);
}

static void open_fixture(struct st_file *f, const char *name) {
    struct error e = {0};
    char *path = path_join(FIXTURES "/malformed", name);
    if (!st_open(f, path, &e)) fail_msg("%s", e.text);
    free(path);
}

static void test_odd_but_legal(void **state) {
    (void)state;
    struct st_file f;
    open_fixture(&f, "escaped-name.safetensors");
    assert_non_null(st_find(&f, sv("a.b/c")));
    assert_null(st_find(&f, sv("a")));
    st_close(&f);
    open_fixture(&f, "unsorted.safetensors");
    assert_string_equal(f.tensor[0].name, "a"); // in the order of the data
    assert_true(st_find(&f, sv("b")) == &f.tensor[1]);
    st_close(&f);
    open_fixture(&f, "scalar.safetensors");
    assert_int_equal(f.tensor[0].t.dims, 0);
    assert_int_equal(tensor_bytes(f.tensor[0].t), 4);
    st_close(&f);
    open_fixture(&f, "metadata-only.safetensors");
    assert_true(sv_starts(f.metadata, sv("{\"format\"")) && sv_ends(f.metadata, sv("}")));
    st_close(&f);
}

static char dir[] = "/tmp/mlxcel-st-XXXXXX";

static char *put(const char *name, const void *p, size_t n) {
    struct error e = {0};
    char *path = path_join(dir, name);
    assert_true(file_write(path, sv_n(p, n), &e));
    return path;
}

// A file with this header and `data` zero bytes.
static bool opens(const char *header, size_t data, struct st_file *f, struct error *e) {
    struct str s = {0};
    size_t n = strlen(header);
    for (int i = 0; i < 8; i++) str_addc(&s, (char)(n >> (8 * i) & 255));
    str_puts(&s, header);
    while (data--) str_addc(&s, 0);
    char *path = put("h.safetensors", s.p, s.n);
    bool ok = st_open(f, path, e);
    unlink(path);
    free(path);
    str_free(&s);
    return ok;
}

static void test_unusable_only_when_asked(void **state) {
    (void)state;
    struct st_file f;
    struct error e = {0};
    assert_true(opens("{\"a\":{\"dtype\":\"F4\",\"shape\":[2,2],\"data_offsets\":[0,2]},"
                      "\"b\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,2],\"data_offsets\":[2,4]},"
                      "\"c\":{\"dtype\":\"U8\",\"shape\":[1,1,1,2],\"data_offsets\":[4,6]}}",
                      6, &f, &e));
    assert_non_null(st_need(&f, sv("c"), &e));
    assert_null(st_need(&f, sv("a"), &e));
    assert_non_null(strstr(e.text, "\"a\" has dtype F4"));
    struct error b = {0}, z = {0};
    assert_null(st_need(&f, sv("b"), &b));
    assert_non_null(strstr(b.text, "dimensions"));
    assert_null(st_need(&f, sv("z"), &z));
    assert_non_null(strstr(z.text, "missing"));
    st_close(&f);
}

static void test_impossible_shapes(void **state) {
    (void)state;
    const char *headers[] = {
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[0,4611686018427387904,4],\"data_offsets\":[0,0]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[0,2305843009213693952,4],\"data_offsets\":[0,0]}}",
        "{\"a\":{\"dtype\":\"F4\",\"shape\":[7],\"data_offsets\":[0,3]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}",
    };
    static const size_t sizes[] = {0, 0, 3, 4, 4};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct st_file f;
        struct error e = {0};
        assert_false(opens(headers[i], sizes[i], &f, &e));
        assert_non_null(strstr(e.text, "tensor \"a\""));
    }
}

// Opens path, which may hold anything, and reads all that it hands out.
static bool survives(const char *path) {
    struct st_file f;
    struct error e = {0};
    bool ok = st_open(&f, path, &e);
    assert_int_equal(ok, !e.set);
    if (ok) touch(&f), st_close(&f);
    return ok;
}

static void test_damaged_files(void **state) {
    (void)state;
    struct str good = {0};
    struct error e = {0};
    assert_true(file_read(FIXTURES "/weights/tiny.safetensors", 1 << 20, &good, &e));
    size_t header = 8 + (unsigned char)good.p[0] + ((size_t)(unsigned char)good.p[1] << 8);
    assert_true(header < good.n);
    char *path = put("damaged.safetensors", good.p, good.n);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    static const unsigned char flips[] = {0x01, 0x10, 0x80, 0xff};
    int accepted = 0;
    for (size_t at = 0; at < header; at++) {
        for (size_t k = 0; k <= sizeof flips; k++) { // the last round puts the byte back
            unsigned char flip = k < sizeof flips ? flips[k] : 0;
            fseek(file, (long)at, SEEK_SET);
            fputc((unsigned char)good.p[at] ^ flip, file);
            fflush(file);
            if (flip) accepted += survives(path);
        }
    }
    assert_true(accepted > 0); // a changed letter of a name is legal
    assert_true(survives(path));
    for (size_t n = good.n; n-- > 0;) {
        assert_return_code(truncate(path, (off_t)n), 0);
        assert_false(survives(path));
    }
    fclose(file);
    free(path);
    str_free(&good);
}

static void test_write_reads_back(void **state) {
    (void)state;
    struct error e = {0};
    uint8_t bytes[3] = {1, 2, 3};
    float floats[2] = {0.5f, -2};
    uint16_t halves[4] = {1, 2, 3, 4};
    int64_t none[2] = {0, 7};
    struct st_tensor t[] = {
        {.name = "by\"tes", .t = tensor_1d(DT_U8, 3, bytes)},
        {.name = "halves", .t = tensor_2d(DT_BF16, 2, 2, halves)},
        {.name = "empty", .t = tensor_nd(DT_F32, 2, none, NULL)},
        {.name = "floats", .t = tensor_1d(DT_F32, 2, floats)},
    };
    char *path = path_join(dir, "w.safetensors");
    assert_true(st_write(path, t, 4, &e));
    struct st_file f;
    if (!st_open(&f, path, &e)) fail_msg("%s", e.text);
    assert_int_equal(f.n, 4);
    for (int i = 0; i < 4; i++) {
        const struct st_tensor *got = st_need(&f, sv(t[i].name), &e);
        assert_non_null(got);
        assert_true(tensor_same_shape(got->t, t[i].t) && got->t.type == t[i].t.type);
        size_t n = tensor_bytes(t[i].t);
        if (n) assert_memory_equal(got->t.data, t[i].t.data, n);
        assert_int_equal((uintptr_t)got->t.data % dtype_size(got->t.type), 0);
    }
    st_close(&f);
    free(path);
}

static void test_writer_checks(void **state) {
    (void)state;
    struct st_entry entry[] = {{.name = "a", .type = DT_U8, .dims = 1, .n = {4}},
                               {.name = "b", .type = DT_F32, .dims = 1, .n = {1}}};
    struct error e = {0};
    char *path = path_join(dir, "x.safetensors");
    struct st_writer *w = st_writer_open(path, entry, 2, "{\"format\":\"mlx\"}", &e);
    assert_non_null(w);
    assert_true(st_writer_add(w, "ab", 2, &e)); // a tensor may come in pieces
    assert_true(st_writer_add(w, "cd", 2, &e));
    struct error over = {0}, early = {0};
    assert_false(st_writer_add(w, "12345", 5, &over));
    assert_true(st_writer_add(w, "1234", 4, &e));
    assert_false(file_exists(path));
    assert_true(st_writer_finish(w, &e));
    struct st_file f;
    assert_true(st_open(&f, path, &e));
    assert_true(sv_is(f.metadata, "{\"format\":\"mlx\"}"));
    assert_memory_equal(st_find(&f, sv("a"))->t.data, "abcd", 4);
    st_close(&f);
    unlink(path);
    w = st_writer_open(path, entry, 2, NULL, &e);
    assert_true(st_writer_add(w, "abcd", 4, &e));
    assert_false(st_writer_finish(w, &early)); // b is missing: nothing is left behind
    assert_false(file_exists(path));
    w = st_writer_open(path, entry, 2, NULL, &e);
    assert_true(st_writer_add(w, "abcd", 4, &e));
    st_writer_abort(w);
    struct error device = {0};
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_null(st_writer_open(path, entry, 2, NULL, &device)); // is not replaced
    assert_non_null(strstr(device.text, "not a regular file"));
    unlink(path);
    struct names left = {0};
    assert_true(dir_list(dir, &left, &e));
    for (size_t i = 0; i < left.n; i++) assert_null(strstr(left.name[i], "tmp"));
    names_free(&left);
    free(path);
}

static int setup(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    struct names all = {0};
    struct error e = {0};
    dir_list(dir, &all, &e);
    for (size_t i = 0; i < all.n; i++) {
        char *path = path_join(dir, all.name[i]);
        unlink(path);
        free(path);
    }
    names_free(&all);
    return rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jread_tokens),
        cmocka_unit_test(test_jread_strict),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_odd_but_legal),
        cmocka_unit_test(test_unusable_only_when_asked),
        cmocka_unit_test(test_impossible_shapes),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_write_reads_back),
        cmocka_unit_test(test_writer_checks),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
