// The weight map: index folders have their verdicts, matrices are checked against the shapes that
// the config asks for, and every refusal says what is wrong.
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "checkpoint/weights.h"
#include "compute/compute.h"

static char dir[] = "/tmp/mlxcel-weights-XXXXXX";

static void remove_tree(const char *path) {
    struct stat st;
    if (lstat(path, &st) != 0) return;
    if (S_ISDIR(st.st_mode)) {
        struct names all = {0};
        struct error e = {0};
        dir_list(path, &all, &e);
        for (size_t i = 0; i < all.n; i++) {
            char *sub = path_join(path, all.name[i]);
            remove_tree(sub);
            free(sub);
        }
        names_free(&all);
    }
    remove(path);
}

static void copy_tree(const char *from, const char *to) {
    struct error e = {0};
    if (dir_exists(from)) {
        struct names all = {0};
        assert_true(dir_make(to, &e) && dir_list(from, &all, &e));
        for (size_t i = 0; i < all.n; i++) {
            char *a = path_join(from, all.name[i]), *b = path_join(to, all.name[i]);
            copy_tree(a, b);
            free(a);
            free(b);
        }
        names_free(&all);
        return;
    }
    struct str data = {0};
    assert_true(file_read(from, 1 << 24, &data, &e) && file_write(to, str_sv(&data), &e));
    str_free(&data);
}

static char *fresh(const char *name) {
    struct error e = {0};
    char *path = path_join(dir, name);
    remove_tree(path);
    assert_true(dir_make(path, &e));
    return path;
}

static void put(const char *folder, const char *name, const struct st_tensor *t, size_t n) {
    struct error e = {0};
    char *path = path_join(folder, name);
    if (!st_write(path, t, n, &e)) fail_msg("%s", e.text);
    free(path);
}

static void put_text(const char *folder, const char *name, const char *text) {
    struct error e = {0};
    char *path = path_join(folder, name);
    assert_true(file_write(path, sv(text), &e));
    free(path);
}

static struct weights *open_ok(const char *path) {
    struct error e = {0};
    struct weights *w = weights_open(path, NULL, &e);
    if (!w) fail_msg("%s", e.text);
    return w;
}

// The folder must be refused with a message that holds each of the words.
static void refuses(const char *folder, const char *a, const char *b) {
    struct error e = {0};
    struct weights *w = weights_open(folder, NULL, &e);
    if (w) fail_msg("%s: was accepted", folder);
    if (!strstr(e.text, a) || !strstr(e.text, b))
        fail_msg("no \"%s\", \"%s\" in: %s", a, b, e.text);
}

static void test_index_verdicts(void **state) {
    (void)state;
    struct error e = {0};
    struct json_object *all = json_read_file(FIXTURES "/malformed/verdicts.json", 1 << 20, &e);
    size_t seen = 0;
    for (size_t i = 0; i < json_object_array_length(all); i++) {
        struct json_object *row = json_object_array_get_idx(all, i);
        struct sv name = json_text_at(row, "name"), verdict = json_text_at(row, "verdict");
        if (!sv_starts(name, sv("index-"))) continue;
        char *from = path_join(FIXTURES "/malformed", name.p), *to = path_join(dir, name.p);
        copy_tree(from, to);
        struct json_object *links = json_at(row, "links");
        if (links) {
            json_object_object_foreach(links, link, target) {
                char *path = path_join(to, link);
                assert_return_code(symlink(json_object_get_string(target), path), 0);
                free(path);
            }
        }
        struct error why = {0};
        struct weights *w = weights_open(to, NULL, &why);
        assert_int_equal(!w, why.set);
        if (sv_is(verdict, "refuse") && w) fail_msg("%s: was accepted", name.p);
        if (sv_is(verdict, "accept") && !w) fail_msg("%s: was refused: %s", name.p, why.text);
        if (!w && !strstr(why.text, name.p)) fail_msg("no path in: %s", why.text);
        weights_close(w);
        free(from);
        free(to);
        seen++;
    }
    json_object_put(all);
    assert_int_equal(seen, 23);
}

static void test_index_says_what(void **state) {
    (void)state;
    char *at = path_join(dir, "index-missing-shard");
    refuses(at, "model-00002-of-00002.safetensors", "is missing");
    free(at);
    at = path_join(dir, "index-symlink-dangling");
    refuses(at, "model-00001-of-00002.safetensors", "blobs/none");
    free(at);
    at = path_join(dir, "index-bad-shard");
    refuses(at, "model-00002-of-00002.safetensors", "truncated");
    free(at);
    at = path_join(dir, "index-missing-tensor");
    refuses(at, "model-00002-of-00002.safetensors", "\"b\"");
    free(at);
}

static float values[4096];

static void test_listed_files(void **state) {
    (void)state;
    struct st_tensor a = {.name = "a", .t = tensor_1d(DT_F32, 4, values)};
    struct st_tensor b = {.name = "b", .t = tensor_1d(DT_F32, 4, values)};
    char *at = fresh("listed");
    refuses(at, "has no weights", "model.safetensors");
    put_text(at, "m.gguf", "GGUF");
    refuses(at, "m.gguf", "mlxcel import");
    put_text(at, "pytorch_model.bin", "x");
    put(at, "adapter_model.safetensors", &a, 1);
    refuses(at, "only", "listed");
    put(at, "weights.00.safetensors", &a, 1);
    struct weights *w = open_ok(at);
    assert_true(weights_has(w, sv("a")) && weights_count(w) == 1);
    weights_close(w);
    put(at, "model-00001-of-00002.safetensors", &a, 1); // comes before weights*
    refuses(at, "model-00002-of-00002.safetensors", "is missing");
    put(at, "model-00002-of-00002.safetensors", &b, 1);
    char *inside = path_join(at, "config.json");
    w = open_ok(inside); // a file in the folder will do
    assert_int_equal(weights_count(w), 2);
    weights_close(w);
    put(at, "model-00002-of-00002.safetensors", &a, 1);
    refuses(at, "\"a\"", "model-00001-of-00002.safetensors");
    put_text(at, "model.safetensors", "version https://git-lfs.github.com/spec/v1\noid");
    remove_tree(inside);
    refuses(at, "model.safetensors", "git lfs pull");
    free(inside);
    free(at);
}

static void test_vectors_and_dense(void **state) {
    (void)state;
    char *at = fresh("dense");
    struct st_tensor t[] = {
        {.name = "norm.weight", .t = tensor_1d(DT_BF16, 8, values)},
        {.name = "p.weight", .t = tensor_2d(DT_F16, 4, 8, values)},
        {.name = "p.bias", .t = tensor_1d(DT_F16, 4, values)},
        {.name = "q.weight", .t = tensor_2d(DT_F8_E4M3, 4, 8, values)},
        {.name = "r.qweight", .t = tensor_2d(DT_I32, 4, 8, values)},
        {.name = "m.rotary_emb.inv_freq", .t = tensor_1d(DT_F32, 2, values)},
        {.name = "left.over", .t = tensor_1d(DT_F32, 2, values)},
    };
    put(at, "model.safetensors", t, sizeof t / sizeof *t);
    struct weights *w = open_ok(at);
    struct error e = {0};
    struct tensor v;
    struct weight m;
    assert_true(weights_vector(w, "norm.weight", 8, &v, &e) && v.type == DT_F32);
    uint16_t half;
    memcpy(&half, (const char *)values + 6, sizeof half); // element 3, as it was written
    assert_true(((float *)v.data)[3] == bf16_to_f32(half));
    assert_true(weights_matrix(w, "p", 4, 8, true, &m, &e));
    assert_int_equal(m.layout, WEIGHT_DENSE);
    assert_true(m.out == 4 && m.in == 8 && m.bias.n[0] == 4);
    assert_int_equal(weights_parameters(w), 8 + 32 + 4);
    struct error bad[6] = {0};
    assert_false(weights_vector(w, "norm.weight", 9, &v, &bad[0]));
    assert_non_null(
        strstr(bad[0].text, "\"norm.weight\" is [8] BF16, but the config asks for [9]"));
    assert_false(weights_matrix(w, "p", 8, 4, false, &m, &bad[1]));
    assert_non_null(strstr(bad[1].text, "[4, 8] F16, but the config asks for [8, 4]"));
    assert_false(weights_matrix(w, "q", 4, 8, false, &m, &bad[2]));
    assert_non_null(strstr(bad[2].text, "\"q.weight_scale_inv\" is missing"));
    assert_false(weights_matrix(w, "r", 4, 8, false, &m, &bad[3]));
    assert_non_null(strstr(bad[3].text, "\"r.scales\" is missing"));
    assert_false(weights_matrix(w, "none", 4, 8, false, &m, &bad[4]));
    assert_non_null(strstr(bad[4].text, "\"none.weight\" is missing"));
    const char *const ignored[] = {"*.qweight", NULL};
    assert_false(weights_check_unused(w, ignored, &bad[5]));
    assert_non_null(strstr(bad[5].text, ": \"left.over\"")); // and only that
    weights_find(w, sv("left.over"));
    assert_true(weights_check_unused(w, ignored, &e));
    assert_false(e.set);
    weights_close(w);
    free(at);
}

// Filters have a dimension of 1 where their publisher likes it.
static void test_tables(void **state) {
    (void)state;
    char *at = fresh("tables");
    struct st_tensor t[] = {
        {.name = "a", .t = tensor_nd(DT_BF16, 3, (int64_t[]){4, 1, 3}, values)},
        {.name = "b", .t = tensor_nd(DT_F32, 3, (int64_t[]){4, 3, 1}, values)},
        {.name = "c", .t = tensor_2d(DT_F16, 4, 3, values)},
        {.name = "d", .t = tensor_1d(DT_F32, 12, values)},
        {.name = "e", .t = tensor_2d(DT_U32, 4, 3, values)},
    };
    put(at, "model.safetensors", t, sizeof t / sizeof *t);
    struct weights *w = open_ok(at);
    struct error e = {0}, bad[4] = {0};
    struct tensor r;
    for (int i = 0; i < 3; i++) {
        assert_true(weights_table(w, t[i].name, 4, 3, &r, &e));
        assert_true(r.type == DT_F32 && r.dims == 2 && r.n[0] == 4 && r.n[1] == 3);
    }
    uint16_t half;
    assert_true(weights_table(w, "a", 4, 3, &r, &e));
    memcpy(&half, (const char *)values + 10, sizeof half); // element 5, as it was written
    assert_true(((float *)r.data)[5] == bf16_to_f32(half));
    assert_true(weights_table(w, "d", 12, 1, &r, &e) && weights_table(w, "d", 1, 12, &r, &e));
    assert_false(weights_table(w, "a", 3, 4, &r, &bad[0]));
    assert_non_null(strstr(bad[0].text, "\"a\" is [4, 1, 3] BF16, but the config asks for 3 by 4"));
    assert_false(weights_table(w, "d", 4, 3, &r, &bad[1]));
    assert_non_null(strstr(bad[1].text, "[12] F32, but the config asks for 4 by 3"));
    assert_false(weights_table(w, "e", 4, 3, &r, &bad[2]));
    assert_non_null(strstr(bad[2].text, "U32"));
    assert_false(weights_table(w, "f", 4, 3, &r, &bad[3]));
    assert_non_null(strstr(bad[3].text, "\"f\" is missing"));
    r = weights_make(w, 2, 3);
    assert_true(r.n[0] == 2 && r.n[1] == 3 && ((float *)r.data)[5] == 0);
    weights_close(w);
    free(at);
}

static void test_unwanted_bias_is_reported(void **state) {
    (void)state;
    char *at = fresh("bias");
    struct st_tensor t[] = {{.name = "p.weight", .t = tensor_2d(DT_F16, 4, 8, values)},
                            {.name = "p.bias", .t = tensor_1d(DT_F16, 4, values)}};
    put(at, "model.safetensors", t, 2);
    struct weights *w = open_ok(at);
    struct error e = {0};
    struct weight m;
    assert_true(weights_matrix(w, "p", 4, 8, false, &m, &e));
    assert_int_equal(m.bias.dims, 0);
    assert_false(weights_check_unused(w, NULL, &e));
    assert_non_null(strstr(e.text, "p.bias"));
    weights_close(w);
    free(at);
}

static void test_rename(void **state) {
    (void)state;
    char *at = fresh("rename");
    struct st_tensor t[] = {{.name = "a", .t = tensor_1d(DT_F32, 4, values)},
                            {.name = "b", .t = tensor_1d(DT_F32, 5, values)}};
    put(at, "model.safetensors", t, 2);
    struct weights *w = open_ok(at);
    struct error e = {0}, taken = {0}, absent = {0};
    assert_false(weights_rename(w, "a", "b", &taken));
    assert_true(weights_rename(w, "a", "c", &e));
    assert_false(weights_has(w, sv("a")));
    assert_false(weights_rename(w, "a", "d", &absent));
    assert_true(weights_rename(w, "b", "a", &e));
    assert_int_equal(weights_find(w, sv("a"))->t.n[0], 5);
    assert_int_equal(weights_find(w, sv("c"))->t.n[0], 4);
    assert_string_equal(weights_name(w, 0), "c");
    assert_true(weights_move(w, "a", "", &e)); // "a" alone begins so
    assert_false(weights_has(w, sv("a")));
    assert_int_equal(weights_find(w, sv(""))->t.n[0], 5);
    assert_true(weights_move(w, "c", "x.c", &e));
    assert_int_equal(weights_find(w, sv("x.c"))->t.n[0], 4);
    assert_true(weights_move(w, "none.", "", &e));
    assert_false(weights_move(w, "x.c", "", &taken));
    weights_close(w);
    free(at);
}

// A matrix published as [in, out] is checked as such, and a view of it is [out, in].
static void test_transposed(void **state) {
    (void)state;
    enum { IN = 3, OUT = 70 };
    char *at = fresh("transposed");
    uint16_t half[IN * OUT];
    float full[IN * OUT], bias[OUT];
    for (int i = 0; i < IN * OUT; i++) half[i] = (uint16_t)i, full[i] = (float)i;
    for (int i = 0; i < OUT; i++) bias[i] = (float)i;
    struct st_tensor t[] = {{.name = "p.weight", .t = tensor_2d(DT_BF16, IN, OUT, half)},
                            {.name = "p.bias", .t = tensor_1d(DT_F32, OUT, bias)},
                            {.name = "q.weight", .t = tensor_2d(DT_F32, IN, OUT, full)}};
    put(at, "model.safetensors", t, 3);
    struct weights *w = open_ok(at);
    struct error e = {0}, shape = {0};
    struct weight p, q;
    assert_false(weights_matrix_transposed(w, "p", IN, OUT, false, &p, &shape));
    assert_true(weights_matrix_transposed(w, "p", OUT, IN, true, &p, &e));
    assert_true(weights_matrix_transposed(w, "q", OUT, IN, false, &q, &e));
    struct weight rows = weight_rows(&p, 2, 66, 1);
    assert_true(q.out == OUT && q.in == IN && q.data.n[0] == OUT && q.data.n[1] == IN);
    assert_true(rows.out == 66 && ((float *)rows.bias.data)[0] == 2);
    const int64_t *step = q.data.stride;
    for (int o = 0; o < OUT; o++)
        for (int i = 0; i < IN; i++) {
            int64_t at_q = o * step[0] + i * step[1];
            int64_t at_p = o * rows.data.stride[0] + i * rows.data.stride[1];
            assert_true(((float *)q.data.data)[at_q] == full[i * OUT + o]);
            if (o < 66) assert_int_equal(((uint16_t *)rows.data.data)[at_p], half[i * OUT + o + 2]);
        }
    weights_close(w);
    free(at);
}

// The packed shapes alone are ambiguous: `in` decides what they mean.
static void test_affine_from_shapes(void **state) {
    (void)state;
    char *at = fresh("affine");
    struct st_tensor t[] = {
        {.name = "p.weight", .t = tensor_2d(DT_U32, 3, 32, values)},
        {.name = "p.scales", .t = tensor_2d(DT_BF16, 3, 4, values)},
        {.name = "p.biases", .t = tensor_2d(DT_BF16, 3, 4, values)},
        {.name = "odd.weight", .t = tensor_2d(DT_U32, 3, 33, values)}, // no whole bits an element
        {.name = "odd.scales", .t = tensor_2d(DT_BF16, 3, 4, values)},
        {.name = "ragged.weight", .t = tensor_2d(DT_U32, 3, 41, values)}, // 5 groups of 32.8
        {.name = "ragged.scales", .t = tensor_2d(DT_BF16, 3, 5, values)},
        {.name = "bare.weight", .t = tensor_2d(DT_U32, 3, 32, values)},
        {.name = "mx.weight", .t = tensor_2d(DT_U32, 3, 32, values)},
        {.name = "mx.scales", .t = tensor_2d(DT_U8, 3, 8, values)},
        {.name = "nv.weight", .t = tensor_2d(DT_U32, 3, 32, values)},
        {.name = "nv.scales", .t = tensor_2d(DT_U8, 3, 16, values)},
        {.name = "mx8.weight", .t = tensor_2d(DT_U32, 3, 32, values)},
        {.name = "mx8.scales", .t = tensor_2d(DT_U8, 3, 4, values)},
        {.name = "f8.weight", .t = tensor_2d(DT_F8_E4M3, 3, 200, values)},
        {.name = "f8.weight_scale_inv", .t = tensor_2d(DT_F32, 1, 2, values)},
        {.name = "f8w.weight", .t = tensor_2d(DT_F8_E4M3, 3, 200, values)},
        {.name = "f8w.weight_scale_inv", .t = tensor_2d(DT_F32, 3, 1, values)},
        {.name = "f8b.weight", .t = tensor_2d(DT_F8_E4M3, 3, 200, values)},
        {.name = "ints.weight", .t = tensor_2d(DT_U32, 3, 32, values)},
        {.name = "ints.scales", .t = tensor_2d(DT_I32, 3, 4, values)},
    };
    put(at, "model.safetensors", t, sizeof t / sizeof *t);
    struct weights *w = open_ok(at);
    struct error e = {0};
    struct weight m;
    static const int want[][3] = {{256, 4, 64}, {512, 2, 128}, {128, 8, 32}};
    for (int i = 0; i < 3; i++) {
        assert_true(weights_matrix(w, "p", 3, want[i][0], false, &m, &e));
        assert_int_equal(m.layout, WEIGHT_AFFINE);
        assert_int_equal(m.bits, want[i][1]);
        assert_int_equal(m.group, want[i][2]);
    }
    static const int64_t wrong[][2] = {{3, 64}, {3, 1024}, {3, 255}, {4, 256}, {3, 1}, {3, 384}};
    for (int i = 0; i < 6; i++) {
        struct error bad = {0};
        assert_false(weights_matrix(w, "p", wrong[i][0], wrong[i][1], false, &m, &bad));
        assert_non_null(strstr(bad.text, "model.safetensors: tensor \"p."));
    }
    struct error odd = {0}, ragged = {0}, bare = {0}, mx = {0}, nv = {0}, ints = {0};
    assert_false(weights_matrix(w, "odd", 3, 256, false, &m, &odd));
    assert_non_null(strstr(odd.text, "\"odd.weight\" is [3, 33] U32"));
    assert_false(weights_matrix(w, "ragged", 3, 164, false, &m, &ragged));
    assert_non_null(strstr(ragged.text, "\"ragged.scales\" is [3, 5] BF16"));
    assert_false(weights_matrix(w, "bare", 3, 256, false, &m, &bare));
    assert_non_null(strstr(bare.text, "\"bare.scales\" is missing"));
    assert_true(weights_matrix(w, "mx", 3, 256, false, &m, &e));
    assert_true(m.layout == WEIGHT_MXFP4 && m.bits == 4 && m.group == 32);
    assert_int_equal(m.scales.type, DT_F8_E8M0);
    assert_false(weights_matrix(w, "mx", 3, 128, false, &m, &mx));
    assert_non_null(strstr(mx.text, "\"mx.weight\" is [3, 32] U32"));
    assert_true(weights_matrix(w, "nv", 3, 256, false, &m, &e));
    assert_true(m.layout == WEIGHT_NVFP4 && m.bits == 4 && m.group == 16 && m.factor == 1);
    assert_true(weights_matrix(w, "mx8", 3, 128, false, &m, &e));
    assert_true(m.layout == WEIGHT_F8 && m.group == 32 && m.block_rows == 1);
    assert_false(weights_matrix(w, "nv", 3, 128, false, &m, &nv));
    assert_non_null(strstr(nv.text, "\"nv.scales\" is [3, 16] U8"));
    struct error f8 = {0};
    assert_true(weights_matrix(w, "f8", 3, 200, false, &m, &e));
    assert_true(m.layout == WEIGHT_F8 && m.group == 128 && m.scales.n[1] == 2);
    assert_false(weights_matrix(w, "f8", 3, 100, false, &m, &f8));
    assert_non_null(strstr(f8.text, "\"f8.weight\" is [3, 200] F8_E4M3"));
    f8 = (struct error){0};
    assert_false(weights_matrix(w, "f8w", 3, 200, false, &m, &f8));
    assert_non_null(strstr(f8.text, "scale_inv\" is [3, 1] F32, but the config asks for [1, 2]"));
    f8 = (struct error){0};
    assert_false(weights_matrix(w, "f8b", 3, 200, false, &m, &f8));
    assert_non_null(strstr(f8.text, "\"f8b.weight_scale_inv\" is missing"));
    assert_false(weights_matrix(w, "ints", 3, 256, false, &m, &ints));
    assert_non_null(strstr(ints.text, "only affine"));
    weights_close(w);
    free(at);
}

static void refused(const char *what, bool ok, struct error *e) {
    assert_false(ok);
    if (!strstr(e->text, what)) fail_msg("no %s in: %s", what, e->text);
    *e = (struct error){0};
}

// One matrix of a stack is a view of it: its rows, its part of the bias.
static void test_stacks(void **state) {
    (void)state;
    char *at = fresh("stacks");
    static float bias[12];
    for (int i = 0; i < 12; i++) bias[i] = (float)i;
    struct st_tensor t[] = {
        {.name = "d.weight", .t = tensor_nd(DT_F16, 3, (int64_t[]){2, 6, 8}, values)},
        {.name = "d.bias", .t = tensor_2d(DT_F32, 2, 6, bias)},
        {.name = "q.weight", .t = tensor_nd(DT_U32, 3, (int64_t[]){2, 6, 8}, values)},
        {.name = "q.scales", .t = tensor_nd(DT_F16, 3, (int64_t[]){2, 6, 1}, values)},
        {.name = "q.biases", .t = tensor_nd(DT_F16, 3, (int64_t[]){2, 6, 1}, values)},
        {.name = "m.weight", .t = tensor_nd(DT_U32, 3, (int64_t[]){2, 6, 4}, values)},
        {.name = "m.scales", .t = tensor_nd(DT_U8, 3, (int64_t[]){2, 6, 1}, values)},
    };
    put(at, "model.safetensors", t, sizeof t / sizeof *t);
    struct weights *w = open_ok(at);
    struct error e = {0};
    struct weight whole, each[3];
    assert_true(weights_stack(w, "d", 2, 6, 8, true, &whole, each, &e));
    assert_true(each[1].layout == WEIGHT_DENSE && each[1].out == 6 && each[1].in == 8);
    assert_ptr_equal(each[1].data.data, (const char *)whole.data.data + 6 * 8 * 2);
    assert_int_equal(((const float *)each[1].bias.data)[5], 11);
    assert_true(weights_stack(w, "q", 2, 6, 64, false, &whole, each, &e));
    assert_true(each[1].layout == WEIGHT_AFFINE && each[1].bits == 4 && each[1].group == 64);
    assert_ptr_equal(each[1].scales.data, (const char *)whole.scales.data + 6 * 2);
    assert_true(weights_stack(w, "m", 2, 6, 32, false, &whole, each, &e));
    assert_true(each[1].layout == WEIGHT_MXFP4 && each[0].scales.type == DT_F8_E8M0);
    assert_int_equal(weights_parameters(w), 2 * 6 * 8 + 2 * 6 + 2 * 6 * 64 + 2 * 6 * 32);
    assert_true(weights_check_unused(w, NULL, &e));
    refused("\"d.weight\" is [2, 6, 8] F16, but the config asks for [3, 6, 8]",
            weights_stack(w, "d", 3, 6, 8, false, &whole, each, &e), &e);
    refused("asks for [2, 8, 6]", weights_stack(w, "d", 2, 8, 6, false, &whole, each, &e), &e);
    refused("asks for 2 times 5 rows of 64 elements",
            weights_stack(w, "q", 2, 5, 64, false, &whole, each, &e), &e);
    refused("asks for [6, 8]", weights_matrix(w, "d", 6, 8, false, each, &e), &e);
    refused("\"q.bias\" is missing", weights_stack(w, "q", 2, 6, 64, true, &whole, each, &e), &e);
    weights_close(w);
    free(at);
}

// Other quantizers' layouts are published one by one; a stack of one is refused by name.
static void test_stacks_of_others(void **state) {
    (void)state;
    char *at = fresh("others");
    struct st_tensor t[] = {
        {.name = "f.weight", .t = tensor_nd(DT_F8_E4M3, 3, (int64_t[]){2, 32, 64}, values)},
        {.name = "f.weight_scale", .t = tensor_1d(DT_F32, 1, values + 1)},
        {.name = "a.qweight", .t = tensor_nd(DT_I32, 3, (int64_t[]){2, 64, 4}, values)},
        {.name = "a.qzeros", .t = tensor_nd(DT_I32, 3, (int64_t[]){2, 2, 4}, values)},
        {.name = "a.scales", .t = tensor_nd(DT_F16, 3, (int64_t[]){2, 2, 32}, values)},
        {.name = "c.weight_packed", .t = tensor_nd(DT_I32, 3, (int64_t[]){2, 32, 8}, values)},
        {.name = "c.weight_scale", .t = tensor_nd(DT_F16, 3, (int64_t[]){2, 32, 2}, values)},
        {.name = "n.weight", .t = tensor_nd(DT_U8, 3, (int64_t[]){2, 32, 32}, values)},
        {.name = "n.weight_scale", .t = tensor_nd(DT_F8_E4M3, 3, (int64_t[]){2, 32, 4}, values)},
        {.name = "n.weight_scale_2", .t = tensor_1d(DT_F32, 1, values + 1)},
        {.name = "b", .t = tensor_nd(DT_F8_E4M3, 3, (int64_t[]){2, 32, 64}, values)},
        {.name = "b_weight_scale", .t = tensor_1d(DT_F32, 1, values + 1)},
    };
    put(at, "model.safetensors", t, sizeof t / sizeof *t);
    struct weights *w = open_ok(at);
    struct error e = {0};
    struct weight whole, each[2];
    static const char *const names[][2] = {{"f", "\"f.weight\" is [2, 32, 64] F8_E4M3"},
                                           {"a", "\"a.qweight\" is [2, 64, 4] I32"},
                                           {"c", "\"c.weight_packed\" is [2, 32, 8] I32"},
                                           {"n", "\"n.weight\" is [2, 32, 32] U8"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        refused(names[i][1], weights_stack(w, names[i][0], 2, 32, 64, false, &whole, each, &e), &e);
    refused("\"b\" is [2, 32, 64] F8_E4M3",
            weights_bare_stack(w, "b", 2, 32, 64, false, false, &whole, each, &e), &e);
    weights_close(w);
    free(at);
}

// Llama 4's stacks [n, in, out]: what is beside the codes must be there, and fit.
static void test_turned_stacks(void **state) {
    (void)state;
    char *at = fresh("turned");
    static float scales[12], nan = NAN;
    for (int i = 0; i < 12; i++) scales[i] = (float)(i + 1);
    const int64_t codes[] = {2, 32, 6}, bytes[] = {2, 16, 6}, sixteenths[] = {2, 2, 6};
    struct st_tensor t[] = {
        {.name = "rows", .t = tensor_nd(DT_F8_E4M3, 3, codes, values)},
        {.name = "rows_scale", .t = tensor_nd(DT_F32, 3, (int64_t[]){2, 1, 6}, scales)},
        {.name = "one", .t = tensor_nd(DT_F8_E4M3, 3, codes, values)},
        {.name = "one_weight_scale", .t = tensor_1d(DT_F32, 1, scales)},
        {.name = "nv", .t = tensor_nd(DT_U8, 3, bytes, values)},
        {.name = "nv_weight_scale", .t = tensor_nd(DT_F8_E4M3, 3, sixteenths, values)},
        {.name = "nv_weight_scale_2", .t = tensor_1d(DT_F32, 1, scales)},
        {.name = "few", .t = tensor_nd(DT_F8_E4M3, 3, codes, values)},
        {.name = "few_scale", .t = tensor_nd(DT_F32, 3, (int64_t[]){2, 1, 5}, scales)},
        {.name = "flat", .t = tensor_nd(DT_F8_E4M3, 3, codes, values)},
        {.name = "flat_scale", .t = tensor_1d(DT_F32, 12, scales)},
        {.name = "bare", .t = tensor_nd(DT_F8_E4M3, 3, codes, values)},
        {.name = "nan", .t = tensor_nd(DT_F8_E4M3, 3, codes, values)},
        {.name = "nan_weight_scale", .t = tensor_1d(DT_F32, 1, &nan)},
        {.name = "v1", .t = tensor_nd(DT_U8, 3, bytes, values)},
        {.name = "v1_weight_scale", .t = tensor_nd(DT_F8_E4M3, 3, bytes, values)},
        {.name = "v2", .t = tensor_nd(DT_U8, 3, bytes, values)},
        {.name = "v2_weight_scale", .t = tensor_nd(DT_F8_E4M3, 3, sixteenths, values)},
        {.name = "v3", .t = tensor_nd(DT_U8, 3, bytes, values)},
    };
    put(at, "model.safetensors", t, sizeof t / sizeof *t);
    struct weights *w = open_ok(at);
    struct error e = {0};
    struct weight whole, each[2];
    assert_true(weights_bare_stack(w, "rows", 2, 6, 32, true, false, &whole, each, &e));
    assert_true(weights_bare_stack(w, "rows", 2, 6, 32, true, false, &whole, each, &e)); // again
    assert_true(each[1].layout == WEIGHT_F8 && each[1].block_rows == 1 && each[1].group == 32);
    assert_true(((const float *)each[1].scales.data)[5] == 12);
    weights_convert(w);
    const uint8_t *from = weights_find(w, sv("rows"))->t.data, *to = each[1].data.data;
    for (int o = 0; o < 6; o++)
        for (int i = 0; i < 32; i++) assert_int_equal(to[o * 32 + i], from[(32 + i) * 6 + o]);
    assert_true(weights_bare_stack(w, "one", 2, 6, 32, true, false, &whole, each, &e));
    assert_true(each[1].block_row == 6 && each[1].block_rows == 12 && each[1].scales.n[0] == 1);
    assert_true(weights_bare_stack(w, "nv", 2, 6, 32, true, false, &whole, each, &e));
    assert_true(each[1].layout == WEIGHT_NVFP4 && each[1].scales.n[1] == 2);
    assert_true(each[1].factor == 1 && each[1].data.n[1] == 4);
    static const char *const bad[][2] = {
        {"few", "\"few_scale\" is [2, 1, 5] F32"},    {"flat", "\"flat_scale\" is [12] F32"},
        {"bare", "\"bare_weight_scale\" is missing"}, {"nan", "\"nan_weight_scale\""},
        {"v1", "\"v1_weight_scale\" is [2, 16, 6]"},  {"v2", "\"v2_weight_scale_2\" is missing"},
        {"v3", "\"v3_weight_scale\" is missing"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(bad[i][1],
                weights_bare_stack(w, bad[i][0], 2, 6, 32, true, false, &whole, each, &e), &e);
    refused("\"rows\" is [2, 32, 6] F8_E4M3",
            weights_bare_stack(w, "rows", 2, 6, 64, true, false, &whole, each, &e), &e);
    refused("\"nv\" is [2, 16, 6] U8",
            weights_bare_stack(w, "nv", 2, 6, 64, true, false, &whole, each, &e), &e);
    weights_close(w);
    free(at);
}

static void test_bare_stacks(void **state) {
    (void)state;
    char *at = fresh("bare");
    struct st_tensor t[] = {
        {.name = "d", .t = tensor_nd(DT_F16, 3, (int64_t[]){2, 8, 6}, values)},
        {.name = "d_bias", .t = tensor_2d(DT_BF16, 2, 6, values)},
        {.name = "m_blocks", .t = tensor_nd(DT_U8, 4, (int64_t[]){2, 6, 2, 16}, values)},
        {.name = "m_scales", .t = tensor_nd(DT_U8, 3, (int64_t[]){2, 6, 2}, values)},
        {.name = "n_blocks", .t = tensor_nd(DT_U8, 4, (int64_t[]){2, 6, 2, 16}, values)},
        {.name = "n_scales", .t = tensor_nd(DT_U8, 3, (int64_t[]){2, 6, 3}, values)},
    };
    put(at, "model.safetensors", t, sizeof t / sizeof *t);
    struct weights *w = open_ok(at);
    struct error e = {0};
    struct weight whole, each[2];
    assert_true(weights_bare_stack(w, "d", 2, 6, 8, true, true, &whole, each, &e));
    assert_true(each[1].out == 6 && each[1].in == 8 && each[1].bias.n[0] == 6);
    assert_true(each[1].data.stride[0] == 1 && each[1].data.stride[1] == 6);
    assert_ptr_equal(each[1].data.data, (const char *)whole.data.data + 6 * 8 * 2);
    assert_true(weights_bare_stack(w, "d", 2, 8, 6, false, false, &whole, each, &e));
    assert_true(each[1].out == 8 && each[1].data.stride[1] == 1);
    assert_true(weights_bare_stack(w, "m", 2, 6, 64, true, false, &whole, each, &e));
    assert_true(each[1].layout == WEIGHT_MXFP4 && each[1].out == 6 && each[1].in == 64);
    assert_ptr_equal(each[1].data.data, (const char *)whole.data.data + 6 * 32);
    refused("\"m_blocks\" is [2, 6, 2, 16] U8",
            weights_bare_stack(w, "m", 2, 6, 32, true, false, &whole, each, &e), &e);
    refused("\"n_scales\" is [2, 6, 3] U8",
            weights_bare_stack(w, "n", 2, 6, 64, true, false, &whole, each, &e), &e);
    refused("\"d\" is [2, 8, 6] F16, but the config asks for [2, 6, 8]",
            weights_bare_stack(w, "d", 2, 8, 6, true, false, &whole, each, &e), &e);
    refused("\"x\" is missing", weights_bare_stack(w, "x", 2, 8, 6, true, false, &whole, each, &e),
            &e);
    weights_close(w);
    free(at);
}

// What weight.h says that row r, column k of an affine matrix means.
static float affine_element(const struct weight *m, int64_t r, int64_t k) {
    const uint32_t *row = (const uint32_t *)m->data.data + r * m->data.n[1];
    uint32_t code = 0;
    for (int b = 0; b < m->bits; b++) {
        int64_t at = k * m->bits + b;
        code |= (row[at / 32] >> (at % 32) & 1) << b;
    }
    int64_t g = r * (m->in / m->group) + k / m->group;
    return load_float(m->scales.data, m->scales.type, g) * (float)code +
           load_float(m->biases.data, m->biases.type, g);
}

static void test_affine_is_what_mlx_means(void **state) {
    (void)state;
    struct error e = {0};
    struct json_object *all = json_read_file(FIXTURES "/weights/affine.json", 1 << 20, &e);
    assert_non_null(all);
    for (size_t i = 0; i < json_object_array_length(all); i++) {
        struct json_object *row = json_object_array_get_idx(all, i);
        char *from = path_join(FIXTURES "/weights", json_text_at(row, "file").p);
        char *at = fresh("mlx"), *to = path_join(at, "model.safetensors");
        copy_tree(from, to);
        struct weights *w = open_ok(at);
        int64_t out = json_int_at(row, "out", 0), in = json_int_at(row, "in", 0);
        struct weight m;
        if (!weights_matrix(w, "p", out, in, false, &m, &e)) fail_msg("%s", e.text);
        assert_int_equal(m.bits, json_int_at(row, "bits", 0));
        assert_int_equal(m.group, json_int_at(row, "group", 0));
        assert_int_equal(weights_parameters(w), out * in);
        const float *want = weights_need(w, sv("dequantized"), &e)->t.data;
        for (int64_t k = 0; k < out * in; k++) {
            float got = affine_element(&m, k / in, k % in),
                  scale = load_float(m.scales.data, m.scales.type, 0);
            assert_true(fabsf(got - want[k]) <= 1e-5f * fabsf(scale) * (float)(1 << m.bits));
        }
        weights_close(w);
        free(from);
        free(at);
        free(to);
    }
    json_object_put(all);
}

// --- every published layout ----------------------------------------------------------------------

static void open_layout(const char *file, struct json_object *config, struct config **c,
                        struct weights **w) {
    struct error e = {0};
    char *from = path_join(FIXTURES "/layouts", file);
    char *at = fresh("layout"), *to = path_join(at, "model.safetensors");
    copy_tree(from, to);
    *c = config_read(sv(json_object_to_json_string_ext(config, JSON_C_TO_STRING_PLAIN)),
                     "config.json", &e);
    *w = weights_open(at, *c, &e);
    if (!*w) fail_msg("%s: %s", file, e.text);
    free(from);
    free(at);
    free(to);
}

static const float *reference(struct weights *w, const char *name) {
    struct error e = {0};
    const struct st_tensor *t = weights_need(w, sv(name), &e);
    if (t) return t->t.data;
    fail_msg("%s", e.text);
    return NULL;
}

// Within two roundings of the largest weight in f32.
static void check_rows(struct device *d, const char *file, const struct weight *m,
                       const float *want) {
    float *row = mem_array((size_t)m->in, sizeof *row), most = 0;
    struct context c;
    struct error e = {0};
    assert_true(context_open(&c, d, PRECISION_F32, 1 << 20, false, &e));
    for (int64_t i = 0; i < m->out * m->in; i++) most = fmaxf(most, fabsf(want[i]));
    for (int32_t r = 0; r < m->out; r++) {
        struct weight plain = *m; // an embedding is never reordered
        plain.order.dims = 0;
        scratch_release(&c, 0);
        memcpy(row, embed(&c, &plain, tensor_1d(DT_I32, 1, &r)).data, (size_t)m->in * sizeof *row);
        for (int64_t i = 0; i < m->in; i++) {
            int64_t at = m->order.dims ? ((const int32_t *)m->order.data)[i] : i;
            float off = fabsf(row[i] - want[r * m->in + at]);
            if (!(off <= 0x1p-22f * most)) fail_msg("%s: row %d, %lld", file, r, (long long)i);
        }
    }
    assert_false(c.err.set);
    context_close(&c);
    free(row);
}

// y [n, out] = x [n, in] w^T. In f32 within 1e-5 of the largest; with x rounded to 8 bits, which is
// half a step of 127 of the largest of each 32 elements, within 3 %.
static void check_product(struct device *d, enum precision p, const char *file,
                          const struct weight *m, const float *x, const float *want, int64_t n) {
    struct context c;
    struct error e = {0};
    assert_true(context_open(&c, d, p, 4 << 20, false, &e));
    float most = 0, tolerance = p == PRECISION_F32 ? 1e-5f : 0.03f;
    for (int64_t i = 0; i < n * m->out; i++) most = fmaxf(most, fabsf(want[i]));
    struct tensor in = scratch_tensor(&c, DT_F32, 2, (int64_t[]){n, m->in});
    memcpy(in.data, x, (size_t)(n * m->in) * sizeof *x);
    struct tensor y = linear(&c, in, m);
    if (c.err.set) fail_msg("%s: %s", file, c.err.text);
    for (int64_t i = 0; i < n * m->out; i++) {
        float got = ((const float *)y.data)[i];
        if (!(fabsf(got - want[i]) <= tolerance * most))
            fail_msg("%s: y[%lld] is %g, not %g (%s)", file, (long long)i, (double)got,
                     (double)want[i], d->name);
    }
    context_close(&c);
}

static void check_layout(struct device *d, struct json_object *row) {
    const char *file = json_text_at(row, "file").p;
    struct json_object *shape = json_at(row, "shape");
    size_t dims = json_object_array_length(shape);
    int64_t n[3] = {0, 0, 0};
    for (size_t i = 0; i < dims; i++)
        n[i + 3 - dims] = json_object_get_int64(json_object_array_get_idx(shape, i));
    struct config *c;
    struct weights *w;
    struct error e = {0};
    open_layout(file, json_at(row, "config"), &c, &w);
    const float *dequantized = reference(w, "ref.dequantized"), *x = reference(w, "ref.x");
    const float *y = reference(w, "ref.y");
    struct weight whole, each[8];
    bool bare = weights_has(w, sv("mlp.experts.gate_up_proj_blocks"));
    bool ok = bare ? weights_bare_stack(w, "mlp.experts.gate_up_proj", n[0], n[1], n[2], true, true,
                                        &whole, each, &e)
              : n[0] ? weights_stack(w, "layer", n[0], n[1], n[2], false, &whole, each, &e)
                     : weights_matrix(w, "layer", n[1], n[2], false, each, &e);
    if (!ok) fail_msg("%s: %s", file, e.text);
    assert_int_equal(weights_parameters(w) - tensor_count(weights_find(w, sv("ref.x"))->t) -
                         tensor_count(weights_find(w, sv("ref.y"))->t) - (bare ? n[0] * n[1] : 0),
                     2 * (n[0] ? n[0] : 1) * n[1] * n[2]); // with ref.dequantized
    weights_find(w, sv("ref.experts"));
    if (!weights_check_unused(w, NULL, &e)) fail_msg("%s: %s", file, e.text);
    weights_convert(w);
    check_rows(d, file, each, dequantized);
    if (!n[0]) {
        check_product(d, PRECISION_F32, file, each, x, y, 5);
        check_product(d, PRECISION_NATIVE, file, each, x, y, 5);
        check_product(d, PRECISION_NATIVE, file, each, x, y, 1);
    }
    for (int64_t i = 1; i < n[0]; i++) check_rows(d, file, &each[i], dequantized + i * n[1] * n[2]);
    weights_close(w);
    config_close(c);
}

static void test_published_layouts(void **state) {
    (void)state;
    struct error e = {0};
    struct json_object *all = json_read_file(FIXTURES "/layouts/layouts.json", 1 << 20, &e);
    assert_non_null(all);
    assert_true(json_object_array_length(all) > 25);
    for (int isa = ISA_PLAIN; isa < ISA_BEST; isa++) {
        if (!isa_supported((enum isa)isa)) continue;
        struct device *d = device_open(
            "cpu", &(struct device_options){.pool.threads = 1, .isa = (enum isa)isa}, &e);
        assert_non_null(d);
        for (size_t i = 0; i < json_object_array_length(all); i++)
            check_layout(d, json_object_array_get_idx(all, i));
        device_close(d);
    }
    json_object_put(all);
}

static int64_t exact(const struct st_tensor *t, int64_t i) {
    return ((const int64_t *)t->t.data)[i];
}

static void test_unaligned_is_copied(void **state) {
    (void)state;
    char *at = fresh("unaligned");
    struct str s = {0};
    const char *head = "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                       "\"b\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[3,19]}}";
    for (int i = 0; i < 8; i++) str_addc(&s, (char)(strlen(head) >> (8 * i) & 255));
    str_puts(&s, head);
    int64_t numbers[2] = {123456789012345, -7};
    str_add(&s, sv("abc"));
    str_add(&s, sv_n((const char *)numbers, sizeof numbers));
    char *path = path_join(at, "model.safetensors");
    struct error e = {0};
    assert_true(file_write(path, str_sv(&s), &e));
    struct weights *w = open_ok(at);
    const struct st_tensor *b = weights_need(w, sv("b"), &e);
    assert_int_equal((uintptr_t)b->t.data % 8, 0);
    assert_true(exact(b, 0) == numbers[0] && exact(b, 1) == numbers[1]);
    assert_true(weights_find(w, sv("b")) == b);
    assert_int_equal(weights_bytes(w), 19);
    weights_close(w);
    str_free(&s);
    free(path);
    free(at);
}

// What a matrix p of [32, 64] of these tensors is refused for, under this "quantization_config".
static void refuses_matrix(const char *config, const struct st_tensor *t, size_t n,
                           const char *why) {
    char *at = fresh("scales");
    put(at, "model.safetensors", t, n);
    struct error e = {0};
    struct str s = {0};
    str_printf(&s, "{\"quantization_config\": {%s}}", config);
    struct config *c = config_read(str_sv(&s), "config.json", &e);
    struct weights *w = weights_open(at, c, &e);
    struct weight m;
    bool ok = w && weights_matrix(w, "p", 32, 64, false, &m, &e);
    if (!why && !ok) fail_msg("%s", e.text);
    if (why) refused(why, ok, &e);
    weights_close(w);
    config_close(c);
    str_free(&s);
    free(at);
}

// One number that scales all codes must leave them finite.
static void test_scale_of_all(void **state) {
    (void)state;
    static const struct {
        const char *method;
        enum dtype type;
        int64_t rows, columns;
        float bad[4];
        float good;
    } all[] = {
        {"\"quant_method\": \"bitnet\"", DT_U8, 8, 64, {0, -1, 1e-45f, NAN}, 0.5f},
        {"\"quant_method\": \"modelopt\", \"quant_algo\": \"FP8\"",
         DT_F8_E4M3,
         32,
         64,
         {-1, 3e38f, INFINITY, NAN},
         0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < 5; k++) {
            float scale = k < 4 ? all[i].bad[k] : all[i].good;
            struct st_tensor t[] = {
                {.name = "p.weight",
                 .t = tensor_2d(all[i].type, all[i].rows, all[i].columns, values)},
                {.name = "p.weight_scale", .t = tensor_1d(DT_F32, 1, &scale)}};
            refuses_matrix(all[i].method, t, 2, k < 4 ? "\"p.weight_scale\"" : NULL);
        }
    static const float divisors[] = {1e-45f, 1e-37f, INFINITY, 448};
    for (size_t k = 0; k < 4; k++) {
        float divisor = divisors[k];
        struct st_tensor t[] = {
            {.name = "p.weight_packed", .t = tensor_2d(DT_U8, 32, 32, values)},
            {.name = "p.weight_scale", .t = tensor_2d(DT_F8_E4M3, 32, 4, values)},
            {.name = "p.weight_global_scale", .t = tensor_1d(DT_F32, 1, &divisor)}};
        refuses_matrix("\"quant_method\": \"compressed-tensors\","
                       " \"format\": \"nvfp4-pack-quantized\", \"config_groups\": {}",
                       t, 3, k < 3 ? "\"p.weight_global_scale\"" : NULL);
    }
}

// Scales of rows, blocks and converted groups are looked at when the weights are populated, others
// when asked: the first that is no finite number is an error that says where.
static void test_scales_are_numbers(void **state) {
    (void)state;
    enum { ROWS = 32, COLUMNS = 64 };
    struct error e = {0};
    static uint8_t zeros[ROWS * COLUMNS];
    static const struct {
        const char *codes, *scales, *more; // suffixes; what else of the scales' shape there is
        enum dtype of, type;
        int64_t columns, rows, groups; // of the codes; of the scales
        uint32_t good, bad[3];
    } all[] = {
        {".weight",
         ".scales",
         ".biases",
         DT_U32,
         DT_BF16,
         8,
         32,
         2,
         0xbf80,
         {0x7fc0, 0x7f80, 0x7b00}},
        {".weight",
         ".scales",
         ".biases",
         DT_U32,
         DT_F16,
         8,
         32,
         2,
         0x3c00,
         {0x7c00, 0xfc00, 0x7e00}},
        {".weight",
         ".scales",
         ".biases",
         DT_U32,
         DT_F32,
         8,
         32,
         2,
         0x3f800000,
         {0x7fc00000, 0xff800000, 0x7f000000}},
        {".weight", ".scales", NULL, DT_U32, DT_U8, 8, 32, 2, 0x7f, {0xff, 0xff, 0xff}},
        {".weight", ".scales", NULL, DT_U32, DT_U8, 8, 32, 4, 0x7e, {0x7f, 0xff, 0x7f}},
        {".weight",
         ".weight_scale",
         NULL,
         DT_F8_E4M3,
         DT_F32,
         64,
         32,
         1,
         0x3f800000,
         {0x7fc00000, 0x7f800000, 0x7f000000}},
        {".weight", ".weight_scale", NULL, DT_U8, DT_U8, 32, 32, 2, 0x7f, {0xff, 0xff, 0xff}},
        {".weight",
         ".weight_scale",
         NULL,
         DT_I8,
         DT_BF16,
         64,
         32,
         1,
         0x3f80,
         {0x7f80, 0xffff, 0x7fff}},
        {".weight_packed",
         ".weight_scale",
         NULL,
         DT_I32,
         DT_F16,
         8,
         32,
         2,
         0x3c00,
         {0x7c01, 0x7c00, 0xffff}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int k = -1; k < 4; k++) { // -1: good; 3: in what is beside the scales
            if (k == 3 && !all[i].more) continue;
            char codes[32], name[32], more[32], *at = fresh("numbers");
            uint8_t scales[ROWS * 4 * 4], beside[ROWS * 4 * 4];
            size_t size = dtype_size(all[i].type), n = (size_t)(all[i].rows * all[i].groups);
            for (size_t s = 0; s < n; s++) memcpy(scales + s * size, &all[i].good, size);
            memcpy(beside, scales, sizeof beside);
            if (k >= 0) memcpy((k < 3 ? scales : beside) + 17 * size, &all[i].bad[k % 3], size);
            snprintf(codes, sizeof codes, "p%s", all[i].codes);
            snprintf(name, sizeof name, "p%s", all[i].scales);
            snprintf(more, sizeof more, "p%s", all[i].more ? all[i].more : "");
            struct tensor shape = tensor_2d(all[i].type, all[i].rows, all[i].groups, scales);
            struct st_tensor t[3] = {
                {.name = codes, .t = tensor_2d(all[i].of, ROWS, all[i].columns, zeros)},
                {.name = name, .t = shape},
                {.name = more, .t = shape}};
            t[2].t.data = beside;
            put(at, "model.safetensors", t, all[i].more ? 3 : 2);
            struct weights *w = open_ok(at);
            struct weight m;
            if (!weights_matrix(w, "p", ROWS, COLUMNS, false, &m, &e)) fail_msg("%s", e.text);
            bool many = !strcmp(all[i].scales, ".scales") || all[i].type == DT_U8;
            bool ok = weights_populate(w, NULL, NULL, &e);
            assert_true(ok || !many);
            if (many) ok = weights_check_scales(w, true, &e);
            if (k >= 0) {
                if (!strstr(e.text, "its element 17 is ")) fail_msg("%zu: %s", i, e.text);
                refused(k < 3 ? name : more, ok, &e);
            } else if (!ok) {
                fail_msg("%s", e.text);
            }
            weights_close(w);
            free(at);
        }
}

// An error about what is missing names that, whichever it is.
static void test_what_is_missing(void **state) {
    (void)state;
    struct tensor words = tensor_2d(DT_I32, 8, 32, values), byte = tensor_2d(DT_U8, 32, 32, values);
    struct tensor zeros = tensor_2d(DT_I32, 2, 4, values), half = tensor_2d(DT_F16, 2, 32, values);
    struct tensor small = tensor_2d(DT_F8_E4M3, 32, 4, values),
                  one = tensor_1d(DT_F32, 1, values + 1);
    struct tensor eight = tensor_2d(DT_F8_E4M3, 32, 64, values);
    struct st_tensor gptq[] = {{.name = "p.qweight", .t = words},
                               {.name = "p.qzeros", .t = zeros},
                               {.name = "p.scales", .t = half}};
    const char *config = "\"quant_method\": \"gptq\", \"group_size\": 32";
    refuses_matrix(config, gptq, 3, NULL);
    refuses_matrix(config, gptq + 1, 2, "\"p.qweight\" is missing");
    refuses_matrix(config, gptq, 2, "\"p.scales\" is missing");
    struct st_tensor nv[] = {{.name = "p.weight_packed", .t = byte},
                             {.name = "p.weight_scale", .t = small},
                             {.name = "p.weight_global_scale", .t = one}};
    config = "\"quant_method\": \"compressed-tensors\", \"format\": \"nvfp4-pack-quantized\","
             " \"config_groups\": {}";
    refuses_matrix(config, nv, 3, NULL);
    refuses_matrix(config, nv, 2, "\"p.weight_global_scale\" is missing");
    refuses_matrix(config, nv + 1, 2, "\"p.weight_packed\" is missing");
    nv[0].name = "p.weight", nv[2].name = "p.weight_scale_2";
    config = "\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\"";
    refuses_matrix(config, nv, 3, NULL);
    refuses_matrix(config, nv, 2, "\"p.weight_scale_2\" is missing");
    struct st_tensor f8 = {.name = "p.weight", .t = eight};
    refuses_matrix("\"quant_method\": \"fbgemm_fp8\"", &f8, 1, "\"p.weight_scale\" is missing");
    refuses_matrix("\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]", &f8, 1,
                   "\"p.weight_scale_inv\" is missing");
}

// What the config says is there beside the codes must be.
static void test_parts_that_the_config_tells(void **state) {
    (void)state;
#define PACKED(more)                                                                               \
    "\"quant_method\": \"compressed-tensors\", \"format\": \"pack-quantized\","                    \
    " \"config_groups\": {\"group_0\": {\"weights\": {\"num_bits\": 4, \"strategy\": \"group\","   \
    " \"group_size\": 32" more "}}}"
    int64_t shape[2] = {32, 64};
    struct st_tensor t[] = {{.name = "p.weight_packed", .t = tensor_2d(DT_I32, 32, 8, values)},
                            {.name = "p.weight_scale", .t = tensor_2d(DT_F16, 32, 2, values)},
                            {.name = "p.weight_shape", .t = tensor_1d(DT_I64, 2, shape)}};
    refuses_matrix(PACKED(""), t, 3, NULL);
    refuses_matrix(PACKED(", \"symmetric\": false"), t, 3, "\"p.weight_zero_point\"");
    refuses_matrix(PACKED(", \"actorder\": \"group\""), t, 3, "\"p.weight_g_idx\"");
    shape[1] = 65;
    refuses_matrix(PACKED(""), t, 3, "says 32 x 65 where the config asks for 32 x 64");
#undef PACKED
    struct st_tensor q[] = {{.name = "p.qweight", .t = tensor_2d(DT_I32, 8, 32, values)},
                            {.name = "p.qzeros", .t = tensor_2d(DT_I32, 2, 4, values)},
                            {.name = "p.scales", .t = tensor_2d(DT_F16, 2, 32, values)}};
    refuses_matrix("\"quant_method\": \"gptq\", \"group_size\": 32", q, 3, NULL);
    refuses_matrix("\"quant_method\": \"gptq\", \"group_size\": 32, \"desc_act\": true", q, 3,
                   "\"p.g_idx\"");
}

static int setup(void **state) {
    (void)state;
    for (int i = 0; i < 4096; i++) values[i] = (float)i * 1.0009765625f; // no half is zero
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    remove_tree(dir);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index_verdicts),
        cmocka_unit_test(test_index_says_what),
        cmocka_unit_test(test_listed_files),
        cmocka_unit_test(test_vectors_and_dense),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_unwanted_bias_is_reported),
        cmocka_unit_test(test_rename),
        cmocka_unit_test(test_transposed),
        cmocka_unit_test(test_affine_from_shapes),
        cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_stacks_of_others),
        cmocka_unit_test(test_bare_stacks),
        cmocka_unit_test(test_turned_stacks),
        cmocka_unit_test(test_affine_is_what_mlx_means),
        cmocka_unit_test(test_published_layouts),
        cmocka_unit_test(test_unaligned_is_copied),
        cmocka_unit_test(test_scale_of_all),
        cmocka_unit_test(test_scales_are_numbers),
        cmocka_unit_test(test_what_is_missing),
        cmocka_unit_test(test_parts_that_the_config_tells),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
