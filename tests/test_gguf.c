// GGUF files: the parser under hostile bytes, and imports against the gguf package's own
// dequantization (tools/make_gguf_fixtures.py).
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "checkpoint/gguf_import.h"
#include "checkpoint/gguf_plan.h"
#include "checkpoint/gguf_tokenizer.h"
#include "checkpoint/safetensors.h"

// --- a place to write --------------------------------------------------------------------------

static char place[] = "/tmp/mlxcel-gguf-XXXXXX";

static int setup(void **state) {
    (void)state;
    log_set(LOG_ERROR);
    return mkdtemp(place) ? 0 : -1;
}

// Removes what a test left: files, and folders of files.
static int teardown(void **state) {
    (void)state;
    struct error e = {0};
    struct names names = {0};
    dir_list(place, &names, &e);
    for (size_t i = 0; i < names.n; i++) {
        char *path = path_join(place, names.name[i]);
        struct names inner = {0};
        if (dir_exists(path)) dir_list(path, &inner, &e);
        for (size_t k = 0; k < inner.n; k++) {
            char *file = path_join(path, inner.name[k]);
            remove(file);
            free(file);
        }
        remove(path);
        names_free(&inner);
        free(path);
    }
    names_free(&names);
    return remove(place);
}

static char *fixture(const char *name) { return path_join(FIXTURES "/gguf", name); }

static struct str load(const char *name) {
    struct error e = {0};
    struct str bytes = {0};
    char *path = fixture(name);
    assert_true(file_read(path, 1 << 20, &bytes, &e));
    free(path);
    return bytes;
}

// --- imports -----------------------------------------------------------------------------------

struct imported {
    char *dir;
    struct gguf_import_report report;
    struct st_file have, want;
    struct json_object *config, *tokenizer, *tokenizer_config, *generation;
};

static struct json_object *read_json(const char *dir, const char *name) {
    struct error e = {0};
    char *path = path_join(dir, name);
    struct json_object *o = json_read_file(path, 1 << 24, &e);
    assert_false(e.set);
    free(path);
    return o;
}

static struct imported import_fixture(const char *name, enum gguf_inexact inexact) {
    struct imported m = {0};
    struct error e = {0};
    struct str gguf = {0}, tensors = {0};
    str_printf(&gguf, "%s/gguf/%s.gguf", FIXTURES, name);
    str_printf(&tensors, "%s/gguf/%s.safetensors", FIXTURES, name);
    struct str to = {0};
    static int made;
    str_printf(&to, "%s/%s-%d", place, name, made++);
    m.dir = to.p;
    struct gguf_import_options opt = {.inexact = inexact};
    gguf_import(gguf.p, m.dir, &opt, &m.report, &e);
    assert_string_equal(e.text, "");
    char *path = path_join(m.dir, "model.safetensors");
    assert_true(st_open(&m.have, path, &e));
    assert_true(st_open(&m.want, tensors.p, &e));
    free(path);
    m.config = read_json(m.dir, "config.json");
    m.tokenizer = read_json(m.dir, "tokenizer.json");
    m.tokenizer_config = read_json(m.dir, "tokenizer_config.json");
    m.generation = read_json(m.dir, "generation_config.json");
    str_free(&gguf);
    str_free(&tensors);
    return m;
}

static void imported_free(struct imported *m) {
    st_close(&m->have);
    st_close(&m->want);
    json_object_put(m->config);
    json_object_put(m->tokenizer);
    json_object_put(m->tokenizer_config);
    json_object_put(m->generation);
    free(m->dir);
}

static float float_at(struct tensor t, int64_t i) {
    float f;
    uint16_t h;
    const char *p = t.data;
    if (t.type == DT_F32) return memcpy(&f, p + i * 4, sizeof f), f;
    memcpy(&h, p + i * 2, sizeof h);
    return t.type == DT_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

// The bits that config.json gives the module, and that the shapes must bear out.
static int config_bits(const struct imported *m, const char *module) {
    struct json_object *all = json_at(m->config, "quantization"), *own = json_at(all, module);
    assert_int_equal(json_int_at(own ? own : all, "group_size", 0), 32);
    assert_string_equal(json_text_at(own ? own : all, "mode").p, "affine");
    return (int)json_int_at(own ? own : all, "bits", 0);
}

// A tensor of the wanted name as f32 [count], from whatever form it was written in. Counts the
// tensors of the file that it took.
static float *expand(const struct imported *m, const char *name, int64_t count, size_t *taken) {
    struct error e = {0};
    float *out = mem_array((size_t)count, sizeof *out);
    struct str module = {0}, scales = {0}, biases = {0};
    str_add(&module, sv_cut(sv(name), 0, strlen(name) - (sv_ends(sv(name), sv("weight")) ? 7 : 5)));
    str_printf(&scales, "%s.scales", module.p);
    str_printf(&biases, "%s.biases", module.p);
    const struct st_tensor *w = st_need(&m->have, sv(name), &e);
    const struct st_tensor *s = st_find(&m->have, str_sv(&scales));
    const struct st_tensor *b = st_find(&m->have, str_sv(&biases));
    assert_string_equal(e.text, "");
    bool groups = s && b && sv_ends(sv(name), sv(".weight"));
    if (!groups) assert_int_equal(tensor_count(w->t), count);
    *taken += groups ? 3 : 1;
    for (int64_t i = 0; i < count && !groups; i++) out[i] = float_at(w->t, i);
    int bits = groups ? config_bits(m, module.p) : 0;
    if (groups) {
        assert_int_equal(w->t.type, DT_U32);
        assert_int_equal(tensor_count(w->t) * 32, count * bits);
        assert_int_equal(tensor_count(s->t) * 32, count);
        assert_int_equal(tensor_count(b->t) * 32, count);
    }
    for (int64_t i = 0; i < count && groups; i++) {
        uint32_t word;
        memcpy(&word, (const char *)w->t.data + i * bits / 32 * 4, sizeof word);
        float code = (float)(word >> i * bits % 32 & ((1u << bits) - 1));
        out[i] = float_at(s->t, i / 32) * code + float_at(b->t, i / 32);
    }
    str_free(&module);
    str_free(&scales);
    str_free(&biases);
    return out;
}

// Each wanted tensor is there, equal; where it may differ, within half a step of 255 in the range
// of its group (`step`), or within `relative` of each value.
static void compare(const struct imported *m, const char *const *inexact, float step,
                    float relative) {
    size_t taken = 0;
    for (size_t k = 0; k < m->want.n; k++) {
        const struct st_tensor *want = &m->want.tensor[k];
        bool exact = true;
        for (int i = 0; inexact && inexact[i]; i++)
            exact = exact && strcmp(inexact[i], want->name) != 0;
        int64_t n = tensor_count(want->t);
        float *have = expand(m, want->name, n, &taken);
        float low = 0, high = 0;
        for (int64_t i = 0; i < n; i++) {
            float w = float_at(want->t, i);
            if (i % 32 == 0) {
                low = high = w;
                for (int64_t g = i; g < i + 32 && g < n; g++) {
                    low = fminf(low, float_at(want->t, g));
                    high = fmaxf(high, float_at(want->t, g));
                }
            }
            float room = exact ? 0 : step * (high - low) + relative * fabsf(w) + 1e-8f;
            if (!(fabsf(have[i] - w) <= room)) // NaN fails, too
                fail_msg("%s[%lld]: %g, not %g", want->name, (long long)i, (double)have[i],
                         (double)w);
        }
        free(have);
    }
    assert_int_equal(taken, m->have.n);
}

static const char *const inexact_names[] = {"model.layers.0.self_attn.q_proj.weight",
                                            "model.layers.0.mlp.up_proj.weight", NULL};

static void test_blocks(void **state) {
    (void)state;
    struct imported m = import_fixture("blocks", GGUF_AS_AFFINE);
    compare(&m, inexact_names, 1.001f / 510, 0);
    assert_int_equal(m.report.inexact, 2);
    assert_true(m.report.largest > 0.001 && m.report.largest < 0.004);
    assert_int_equal(config_bits(&m, "model.layers.0.self_attn.k_proj"), 4); // Q4_0
    assert_int_equal(config_bits(&m, "model.layers.0.mlp.gate_proj"), 4);    // Q4_K
    assert_int_equal(config_bits(&m, "model.layers.1.self_attn.k_proj"), 8); // Q3_K
    struct error e = {0};
    const char *f16 = "model.layers.1.self_attn.v_proj.scales";
    const char *f32 = "model.layers.1.mlp.down_proj.biases"; // -128 d overflows f16
    assert_int_equal(st_need(&m.have, sv(f16), &e)->t.type, DT_F16);
    assert_int_equal(st_need(&m.have, sv(f32), &e)->t.type, DT_F32);
    imported_free(&m);
}

static void test_inexact_forms(void **state) {
    (void)state;
    struct imported m = import_fixture("blocks", GGUF_AS_BF16);
    compare(&m, inexact_names, 0, 1.f / 256);
    assert_int_equal(m.report.inexact, 2);
    imported_free(&m);
    m = import_fixture("blocks", GGUF_AS_F16);
    compare(&m, inexact_names, 0, 1.f / 2048);
    imported_free(&m);
    m = import_fixture("blocks", GGUF_AS_F32);
    compare(&m, NULL, 0, 0);
    assert_int_equal(m.report.inexact, 0);
    imported_free(&m);
}

static const char *printed(struct json_object *o) {
    return json_object_to_json_string_ext(o,
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

static void test_smollm(void **state) {
    (void)state;
    struct imported m = import_fixture("blocks", GGUF_AS_F32);
    struct json_object *c = m.config;
    assert_string_equal(json_text_at(c, "model_type").p, "llama");
    assert_string_equal(printed(json_at(c, "architectures")), "[\"LlamaForCausalLM\"]");
    const char *const keys[] = {
        "hidden_size",         "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim",          "vocab_size",        "max_position_embeddings",
        "bos_token_id",        "eos_token_id"};
    const int64_t values[] = {256, 32, 2, 2, 1, 4, 16, 512, 12, 13};
    for (int i = 0; i < 10; i++) assert_int_equal(json_int_at(c, keys[i], -1), values[i]);
    assert_string_equal(printed(json_at(c, "rope_theta")), "100000.0");
    assert_string_equal(printed(json_at(c, "rms_norm_eps")), "1e-05");
    assert_true(json_bool_at(c, "tie_word_embeddings", false));
    assert_string_equal(printed(json_at(m.tokenizer, "pre_tokenizer")),
                        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
                        "\"individual_digits\":true},{\"type\":\"ByteLevel\",\"add_prefix_space\":"
                        "false,\"trim_offsets\":true,\"use_regex\":true}]}");
    struct json_object *model = json_at(m.tokenizer, "model");
    struct json_object *added = json_at(m.tokenizer, "added_tokens");
    assert_int_equal(json_object_object_length(json_at(model, "vocab")), 15); // [PAD15] left out
    assert_int_equal(json_int_at(json_at(model, "vocab"), "hell", -1), 10);
    assert_string_equal(printed(json_at(model, "merges")), "[\"h e\",\"l l\",\"he ll\"]");
    assert_int_equal(json_object_array_length(added), 4);
    struct json_object *last = json_object_array_get_idx(added, 3);
    assert_string_equal(json_text_at(last, "content").p, "<note>");
    assert_false(json_bool_at(last, "special", true));
    assert_true(json_bool_at(json_object_array_get_idx(added, 2), "special", false));
    assert_string_equal(json_text_at(m.tokenizer_config, "chat_template").p,
                        "{% for m in messages %}{{ m['content'] }}{% endfor %}");
    assert_string_equal(json_text_at(m.tokenizer_config, "eos_token").p, "<|im_end|>");
    assert_null(json_at(m.tokenizer_config, "pad_token")); // 99 is no token
    assert_string_equal(printed(json_at(m.generation, "eos_token_id")), "[13,11]");
    imported_free(&m);
}

static void test_llama3(void **state) {
    (void)state;
    struct imported m = import_fixture("llama3", GGUF_AS_AFFINE);
    compare(&m, NULL, 0, 0);
    assert_string_equal(printed(json_at(m.config, "rope_scaling")),
                        "{\"rope_type\":\"llama3\",\"factor\":8.0,"
                        "\"original_max_position_embeddings\":8192,\"low_freq_factor\":1.0,"
                        "\"high_freq_factor\":4.0}");
    assert_false(json_bool_at(m.config, "tie_word_embeddings", true));
    assert_string_equal(json_text_at(m.config, "torch_dtype").p, "float16");
    assert_null(json_at(m.config, "quantization"));
    struct json_object *model = json_at(m.tokenizer, "model");
    assert_true(json_bool_at(model, "ignore_merges", false));
    struct json_object *post = json_at(json_at(m.tokenizer, "post_processor"), "processors");
    struct json_object *single = json_at(json_object_array_get_idx(post, 1), "single");
    assert_string_equal(printed(single),
                        "[{\"SpecialToken\":{\"id\":\"<|begin_of_text|>\",\"type_id\":0}},"
                        "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]");
    assert_string_equal(printed(json_at(m.generation, "eos_token_id")), "[13,12]");
    imported_free(&m);
}

static void test_qwen(void **state) {
    (void)state;
    struct imported m = import_fixture("qwen2", GGUF_AS_AFFINE);
    compare(&m, NULL, 0, 0); // query and key rows keep their order; biases
    assert_string_equal(json_text_at(m.config, "model_type").p, "qwen2");
    assert_string_equal(printed(json_at(m.tokenizer, "normalizer")), "{\"type\":\"NFC\"}");
    assert_false(json_bool_at(m.tokenizer_config, "add_bos_token", true));
    imported_free(&m);
    m = import_fixture("qwen3", GGUF_AS_AFFINE);
    compare(&m, NULL, 0, 0);
    assert_string_equal(json_text_at(m.config, "model_type").p, "qwen3");
    assert_string_equal(json_text_at(m.config, "torch_dtype").p, "bfloat16");
    struct json_object *rope = json_at(m.config, "rope_scaling");
    assert_string_equal(json_text_at(rope, "rope_type").p, "yarn");
    assert_int_equal(json_int_at(rope, "original_max_position_embeddings", 0), 32768);
    assert_true(json_number_at(rope, "factor", 0) == 4);
    assert_string_equal(printed(json_at(m.tokenizer_config, "chat_template")),
                        "[{\"name\":\"tools\",\"template\":\"T\"},"
                        "{\"name\":\"default\",\"template\":\"D\"}]");
    imported_free(&m);
}

static void test_pieces(void **state) {
    (void)state;
    struct imported m = import_fixture("pieces", GGUF_AS_AFFINE);
    compare(&m, NULL, 0, 0);
    struct json_object *model = json_at(m.tokenizer, "model");
    assert_true(json_bool_at(model, "byte_fallback", false));
    assert_string_equal(json_text_at(model, "unk_token").p, "<unk>");
    assert_string_equal(printed(json_at(model, "merges")),
                        "[\"h e\",\"l l\",\"he ll\",\"\xe2\x96\x81 h\",\"\xe2\x96\x81 hell\","
                        "\"\xe2\x96\x81he ll\","
                        "\"\xe2\x96\x81h e\",\"\xe2\x96\x81 he\"]");
    assert_int_equal(json_object_array_length(json_at(m.tokenizer, "added_tokens")), 3);
    assert_true(json_bool_at(m.tokenizer_config, "add_bos_token", false));
    assert_null(json_at(m.tokenizer, "pre_tokenizer"));
    imported_free(&m);
}

// --- refusals ----------------------------------------------------------------------------------

// Imports bytes and expects an error that holds `part`; nothing may be left behind.
static void expect_refused(struct sv bytes, const char *part) {
    struct error e = {0};
    struct gguf_import_options opt = {0};
    struct gguf_import_report report;
    struct names left = {0};
    char *file = path_join(place, "bad.gguf"), *dir = path_join(place, "bad");
    assert_true(file_write(file, bytes, &e));
    assert_false(gguf_import(file, dir, &opt, &report, &e));
    if (!strstr(e.text, part)) fail_msg("\"%s\" is not in: %s", part, e.text);
    assert_false(dir_exists(dir));
    struct error list = {0};
    dir_list(place, &left, &list);
    for (size_t i = 0; i < left.n; i++) assert_null(strstr(left.name[i], "bad.tmp"));
    names_free(&left);
    remove(file);
    free(file);
    free(dir);
}

// The fixture with `from` overwritten by `to`, of the same length, at its `nth` place.
static void expect_edit_refused(const char *name, struct sv from, struct sv to, int nth,
                                const char *part) {
    struct str bytes = load(name);
    ptrdiff_t at = -1;
    for (int i = 0; i <= nth; i++) at = sv_find(str_sv(&bytes), from, (size_t)(at + 1));
    assert_true(at >= 0 && from.n == to.n);
    memcpy(bytes.p + at, to.p, to.n);
    expect_refused(str_sv(&bytes), part);
    str_free(&bytes);
}

static void test_refusals(void **state) {
    (void)state;
    const char *b = "blocks.gguf", *l = "llama3.gguf";
    expect_edit_refused(b, sv("llama"), sv("gemma"), 0, "\"general.architecture\" is \"gemma\"");
    expect_edit_refused(b, sv("llama.block_count"), sv("llama.block_cover"), 0, "block_cover");
    expect_edit_refused(b, sv("smollm"), sv("yollym"), 0, "\"tokenizer.ggml.pre\" is \"yollym\"");
    expect_edit_refused(b, sv("gpt2"), sv("bert"), 0, "\"tokenizer.ggml.model\" is \"bert\"");
    expect_edit_refused(b, sv("h e"), sv("h z"), 0, "merge 0");
    expect_edit_refused(b, sv("hell"), sv("he\xff\xff"), 0, "not valid UTF-8");
    expect_edit_refused(b, sv("blk.1.ffn_up.weight"), sv("blk.7.ffn_up.weight"), 0,
                        "\"blk.1.ffn_up.weight\" is missing");
    expect_edit_refused(l, sv("output.weight"), sv("outfit.weight"), 0, "\"outfit.weight\"");
    // The rotation factors, none of which Llama 3's rule gives: the last is 8.0.
    expect_edit_refused(l, sv_n("\0\0\0\x41", 4), sv_n("\0\0\0\x42", 4), 0, "rope_freqs.weight");
    // Type (after the two dimensions): Q8_0 becomes IQ4_XS, or F32 of the wrong size.
    struct sv shape = sv_n("\0\1\0\0\0\0\0\0\20\0\0\0\0\0\0\0\10\0\0\0", 20);
    struct sv iq4 = sv_n("\0\1\0\0\0\0\0\0\20\0\0\0\0\0\0\0\27\0\0\0", 20);
    struct sv wide = sv_n("\0\1\0\0\0\0\0\0\21\0\0\0\0\0\0\0\10\0\0\0", 20);
    expect_edit_refused(b, shape, iq4, 0, "type IQ4_XS");
    expect_edit_refused(b, shape, wide, 0, "tensor");
    struct str bytes = load("pieces.gguf"); // a scale of the last block that is not finite
    memcpy(bytes.p + bytes.n - 18, "\0\x7c", 2);
    expect_refused(str_sv(&bytes), "not finite");
    str_free(&bytes);
    expect_refused(sv("{\"not\": \"gguf\"}"), "not a GGUF file");
    expect_refused(sv(""), "not a GGUF file");
}

static void test_folder(void **state) {
    (void)state;
    struct error e = {0};
    struct gguf_import_options opt = {0};
    struct gguf_import_report report;
    char *dir = path_join(place, "full"), *other = path_join(dir, "other.txt");
    char *config = path_join(dir, "config.json"), *file = fixture("qwen2.gguf");
    assert_true(dir_make(dir, &e));
    assert_true(file_write(other, sv("mine"), &e));
    assert_false(gguf_import(file, dir, &opt, &report, &e));
    assert_non_null(strstr(e.text, "not empty"));
    e = (struct error){0};
    opt.force = true;
    assert_true(gguf_import(file, dir, &opt, &report, &e));
    assert_true(file_exists(config));
    assert_true(file_exists(other)); // what is not in the way stays
    remove(other);
    free(config);
    free(other);
    free(dir);
    dir = path_join(place, "empty"); // an empty folder is taken as it is
    assert_true(dir_make(dir, &e));
    opt.force = false;
    assert_true(gguf_import(file, dir, &opt, &report, &e));
    free(dir);
    free(file);
}

static bool stop_at_third(void *arg, size_t done, size_t total) {
    int *calls = arg;
    assert_true(done <= total);
    return ++*calls < 3;
}

static void test_stopped(void **state) {
    (void)state;
    struct error e = {0};
    int calls = 0;
    struct gguf_import_options opt = {.progress = stop_at_third, .arg = &calls};
    struct gguf_import_report report;
    struct names before = {0}, after = {0};
    char *dir = path_join(place, "stopped"), *file = fixture("qwen2.gguf");
    dir_list(place, &before, &e);
    assert_false(gguf_import(file, dir, &opt, &report, &e));
    assert_string_equal(e.text, "the import was stopped");
    assert_int_equal(calls, 3);
    dir_list(place, &after, &e);
    assert_int_equal(before.n, after.n); // neither the folder nor what was half made
    names_free(&before);
    names_free(&after);
    free(dir);
    free(file);
}

// --- hostile bytes -----------------------------------------------------------------------------

// Everything but writing, on bytes in memory of exactly their size. True when they were accepted.
static bool take_apart(struct sv bytes, struct error *e) {
    char *exact = mem_alloc(bytes.n);
    memcpy(exact, bytes.p, bytes.n);
    struct gguf g;
    struct gguf_model m;
    struct gguf_plan p = {0};
    struct gguf_tokenizer t = {0};
    bool ok = gguf_parse("hostile.gguf", sv_n(exact, bytes.n), &g, e) &&
              gguf_model_read(&g, &m, e) && gguf_plan_make(&g, &m, GGUF_AS_AFFINE, &p, e) &&
              gguf_tokenizer_read(&g, m.vocab, &t, e);
    assert_true(ok != e->set);
    if (!ok) assert_true(strlen(e->text) > 10 && !strchr(e->text, '\n'));
    gguf_tokenizer_free(&t);
    gguf_plan_free(&p);
    gguf_close(&g);
    free(exact);
    return ok;
}

static void test_truncated(void **state) {
    (void)state;
    struct str bytes = load("llama3.gguf");
    for (size_t n = 0; n < bytes.n; n += n < 5000 ? 1 : 61) {
        struct error e = {0};
        if (take_apart(sv_n(bytes.p, n), &e)) fail_msg("%zu of %zu bytes pass", n, bytes.n);
    }
    struct error e = {0};
    assert_true(take_apart(str_sv(&bytes), &e));
    str_free(&bytes);
}

static void test_corrupted(void **state) {
    (void)state;
    struct str bytes = load("llama3.gguf");
    uint64_t random = 1;
    for (int i = 0; i < 4000; i++) {
        struct str copy = {0};
        struct error e = {0};
        str_add(&copy, str_sv(&bytes));
        for (int k = 0; k < 3; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            copy.p[(random >> 40) % 3000] = (char)(i % 3 ? random >> 33 : 0xff);
        }
        take_apart(str_sv(&copy), &e);
        str_free(&copy);
    }
    str_free(&bytes);
}

static void put(struct str *s, uint64_t v, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) str_addc(s, (char)(v >> 8 * i & 255));
}

static void put_text(struct str *s, const char *text) {
    put(s, strlen(text), 8);
    str_puts(s, text);
}

static struct str header(uint32_t version, uint64_t tensors, uint64_t keys) {
    struct str s = {0};
    str_puts(&s, "GGUF");
    put(&s, version, 4);
    put(&s, tensors, 8);
    put(&s, keys, 8);
    return s;
}

static void expect_bad(struct str *s, const char *part) {
    struct error e = {0};
    struct gguf g;
    assert_false(gguf_parse("hostile.gguf", str_sv(s), &g, &e));
    if (!strstr(e.text, part)) fail_msg("\"%s\" is not in: %s", part, e.text);
    gguf_close(&g);
    str_free(s);
}

static void put_tensor(struct str *s, const char *name, uint64_t a, uint64_t b, uint32_t type,
                       uint64_t offset) {
    put_text(s, name);
    put(s, 2, 4);
    put(s, a, 8);
    put(s, b, 8);
    put(s, type, 4);
    put(s, offset, 8);
}

static void test_hostile_keys(void **state) {
    (void)state;
    struct str s = header(1, 0, 0);
    expect_bad(&s, "version 1");
    s = header(0x03000000, 0, 0);
    expect_bad(&s, "big-endian");
    s = header(3, 0, UINT64_MAX);
    expect_bad(&s, "ends too early");
    s = header(3, 0, 1); // a key of 2^63 bytes
    put(&s, 1ull << 63, 8);
    expect_bad(&s, "ends too early");
    s = header(3, 0, 1); // an array whose size overflows
    put_text(&s, "k");
    put(&s, GGUF_ARRAY, 4);
    put(&s, GGUF_U64, 4);
    put(&s, (1ull << 61) + 1, 8);
    put(&s, 0, 8);
    expect_bad(&s, "ends too early");
    s = header(3, 0, 1);
    put_text(&s, "k");
    put(&s, 99, 4);
    expect_bad(&s, "type 99");
    s = header(3, 0, 1); // arrays of arrays of arrays ...
    put_text(&s, "k");
    put(&s, GGUF_ARRAY, 4);
    for (int i = 0; i < 100000; i++) put(&s, GGUF_ARRAY, 4), put(&s, 1, 8);
    expect_bad(&s, "deep");
    s = header(3, 0, 2);
    for (int i = 0; i < 2; i++) put_text(&s, "k"), put(&s, GGUF_U8, 4), put(&s, 1, 1);
    expect_bad(&s, "twice");
    s = header(3, 0, 1);
    put_text(&s, "general.alignment");
    put(&s, GGUF_U32, 4);
    put(&s, 24, 4);
    expect_bad(&s, "alignment");
}

static void test_hostile_tensors(void **state) {
    (void)state;
    struct str s = header(3, UINT64_MAX, 0);
    expect_bad(&s, "ends too early");
    s = header(3, 1, 0);
    put_tensor(&s, "t", 1ull << 62, 4, GGUF_TYPE_F32, 0);
    expect_bad(&s, "overflows");
    s = header(3, 1, 0);
    put_tensor(&s, "t", 32, 0, GGUF_TYPE_Q8_0, 0);
    expect_bad(&s, "dimension is 0");
    s = header(3, 1, 0);
    put_tensor(&s, "t", 33, 1, GGUF_TYPE_Q8_0, 0);
    expect_bad(&s, "whole blocks");
    s = header(3, 1, 0);
    put_tensor(&s, "t", 32, 1, 77, 0);
    expect_bad(&s, "type 77");
    s = header(3, 1, 0);
    put_tensor(&s, "t", 32, 1, GGUF_TYPE_F32, UINT64_MAX - 31);
    put(&s, 0, 8);
    expect_bad(&s, "past the end");
    s = header(3, 1, 0);
    put_tensor(&s, "t", 1, 1, GGUF_TYPE_F32, 4);
    for (int i = 0; i < 16; i++) put(&s, 0, 8);
    expect_bad(&s, "alignment");
    s = header(3, 2, 0);
    for (int i = 0; i < 2; i++) put_tensor(&s, "t", 1, 1, GGUF_TYPE_F32, 0);
    expect_bad(&s, "twice");
    s = header(3, 1, 0);
    put_text(&s, "t");
    put(&s, 5, 4);
    expect_bad(&s, "5 dimensions");
}

static void test_values(void **state) {
    (void)state;
    struct str s = header(2, 0, 4);
    put_text(&s, "nested"); // [["a"], []]
    put(&s, GGUF_ARRAY, 4);
    put(&s, GGUF_ARRAY, 4);
    put(&s, 2, 8);
    put(&s, GGUF_TEXT, 4), put(&s, 1, 8), put_text(&s, "a");
    put(&s, GGUF_I16, 4), put(&s, 0, 8);
    put_text(&s, "minus");
    put(&s, GGUF_I8, 4), put(&s, 0xfe, 1);
    put_text(&s, "huge");
    put(&s, GGUF_U64, 4), put(&s, UINT64_MAX, 8);
    put_text(&s, "list");
    put(&s, GGUF_ARRAY, 4), put(&s, GGUF_U16, 4), put(&s, 2, 8), put(&s, 0x70006, 4);
    struct error e = {0};
    struct gguf g;
    int64_t v, *list;
    struct sv *texts;
    size_t n;
    assert_true(gguf_parse("values.gguf", str_sv(&s), &g, &e));
    assert_true(gguf_int(&g, "minus", 0, &v, &e) && v == -2);
    assert_true(gguf_int(&g, "absent", 7, &v, &e) && v == 7);
    assert_true(gguf_ints(&g, "list", &list, &n, &e) && n == 2 && list[0] == 6 && list[1] == 7);
    free(list);
    assert_false(gguf_texts(&g, "nested", &texts, &n, &e));
    assert_string_equal(e.text, "values.gguf: key \"nested\" is not an array of texts");
    e = (struct error){0};
    assert_false(gguf_int(&g, "huge", 0, &v, &e));
    e = (struct error){0};
    assert_false(gguf_int(&g, "list", 0, &v, &e));
    gguf_close(&g);
    str_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),          cmocka_unit_test(test_hostile_keys),
        cmocka_unit_test(test_hostile_tensors), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_inexact_forms),   cmocka_unit_test(test_smollm),
        cmocka_unit_test(test_llama3),          cmocka_unit_test(test_qwen),
        cmocka_unit_test(test_pieces),          cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_folder),          cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_truncated),       cmocka_unit_test(test_corrupted),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
