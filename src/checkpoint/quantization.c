#include "checkpoint/quantization.h"

#include <stdio.h>

static const char not_read[] = "is a layout that this engine does not read (use an unquantized "
                               "version of the model, or one in MLX, AWQ, GPTQ, FP8, NVFP4 or "
                               "compressed-tensors layout)";

static void refuse(struct config *c, const char *key) { config_fail(c, key, not_read); }

static bool text_is(struct config *c, const char *key, const char *a, const char *b) {
    struct sv s = config_text(c, key, a);
    return sv_is(s, a) || sv_is(s, b);
}

// --- MLX -----------------------------------------------------------------------------------------

static const struct {
    const char *name;
    enum scheme scheme;
    int bits, group;
} modes[] = {
    {"mxfp4", SCHEME_MXFP4, 4, 32}, {"mxfp8", SCHEME_MXFP8, 8, 32}, {"nvfp4", SCHEME_NVFP4, 4, 16}};

static void check_affine(struct config *c, const struct quantization *q) {
    if (q->bits < 1 || q->bits > 8 || q->bits == 7)
        config_fail(c, "bits", "must be 1, 2, 3, 4, 5, 6 or 8");
    else if (q->group != 32 && q->group != 64 && q->group != 128)
        config_fail(c, "group_size", "must be 32, 64 or 128");
}

// A single layer's object says what differs from `all`.
static struct quantization read_mlx(struct config *c, const struct quantization *all) {
    struct quantization q = {.scheme = SCHEME_AFFINE, .bits = all->bits, .group = all->group};
    struct sv mode = config_text(c, "mode", "affine");
    bool known = sv_is(mode, "affine");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (!sv_is(mode, modes[i].name)) continue;
        known = true;
        q = (struct quantization){
            .scheme = modes[i].scheme, .bits = modes[i].bits, .group = modes[i].group};
    }
    if (!known) config_fail(c, "mode", "must be affine, mxfp4, mxfp8 or nvfp4");
    int64_t bits = config_int(c, "bits", q.bits), group = config_int(c, "group_size", q.group);
    if (q.scheme != SCHEME_AFFINE && (bits != q.bits || group != q.group))
        config_fail(c, "mode", "has %lld bits and groups of %lld", (long long)q.bits,
                    (long long)q.group);
    q.bits = bits;
    q.group = group;
    if (q.scheme == SCHEME_AFFINE) check_affine(c, &q);
    return q;
}

// --- others --------------------------------------------------------------------------------------

// The rows and the columns of a block that shares a scale.
static void read_block(struct config *c, const char *key, struct quantization *q) {
    enum { MOST = 1 << 16 };
    bool two = config_list(c, key) == 2;
    q->rows = two ? config_list_int(c, key, 0) : 0;
    q->columns = two ? config_list_int(c, key, 1) : 0;
    if (q->rows < 1 || q->columns < 1 || q->rows > MOST || q->columns > MOST)
        config_fail(c, key, "must be the rows and the columns of a block, each from 1 to %d", MOST);
}

// What shares a scale: so many columns, which are cut into groups that kernels read; -1: all of a
// row.
static void read_group(struct config *c, struct quantization *q) {
    int64_t group = config_int(c, "group_size", 128);
    if (group != -1 && (group < 32 || group % 32))
        config_fail(c, "group_size", "must be a multiple of 32, or -1 for a whole row");
    q->group = group > 0 ? group : 0;
}

static void read_fp8(struct config *c, struct quantization *q) {
    q->scheme = SCHEME_F8;
    if (!text_is(c, "fmt", "e4m3", "float8_e4m3fn")) refuse(c, "fmt");
    if (!config_list(c, "weight_block_size")) return; // then it is one of AutoFP8's
    read_block(c, "weight_block_size", q);
    q->inverse = true;
}

static void read_awq(struct config *c, struct quantization *q) {
    *q = (struct quantization){.scheme = SCHEME_AWQ, .bits = config_int(c, "bits", 4)};
    read_group(c, q);
    if (q->bits != 4) config_fail(c, "bits", "must be 4 for AWQ");
    if (!text_is(c, "version", "gemm", "GEMM")) refuse(c, "version");
    if (!config_bool(c, "zero_point", true)) config_fail(c, "zero_point", "must be true for AWQ");
}

static void read_gptq(struct config *c, struct quantization *q) {
    *q = (struct quantization){.scheme = SCHEME_GPTQ, .bits = config_int(c, "bits", 4)};
    read_group(c, q);
    q->reordered = config_bool(c, "desc_act", false);
    if (q->bits != 2 && q->bits != 3 && q->bits != 4 && q->bits != 8)
        config_fail(c, "bits", "must be 2, 3, 4 or 8 for GPTQ");
    q->plain_zeros = sv_is(config_text(c, "checkpoint_format", "gptq"), "gptq_v2");
    if (!text_is(c, "checkpoint_format", "gptq", "gptq_v2")) refuse(c, "checkpoint_format");
}

// AutoRound's codes, in AutoGPTQ's layout or AutoAWQ's.
static void read_auto_round(struct config *c, struct quantization *q) {
    static const char gptq[] = "auto_round:auto_gptq", awq[] = "auto_round:auto_awq";
    if (!text_is(c, "packing_format", gptq, awq)) refuse(c, "packing_format");
    (sv_is(config_text(c, "packing_format", gptq), awq) ? read_awq : read_gptq)(c, q);
}

static void read_bitnet(struct config *c, struct quantization *q) {
    *q = (struct quantization){.scheme = SCHEME_BITNET, .bits = 2};
    q->multiplies = sv_is(config_text(c, "linear_class", "bitlinear"), "autobitlinear");
    if (!text_is(c, "linear_class", "bitlinear", "autobitlinear")) refuse(c, "linear_class");
    if (q->multiplies && !text_is(c, "quantization_mode", "offline", "offline"))
        refuse(c, "quantization_mode");
}

static void read_modelopt(struct config *c, struct quantization *q) {
    struct sv algorithm = config_text(c, "quant_algo", "");
    if (sv_is(algorithm, "NVFP4"))
        *q = (struct quantization){.scheme = SCHEME_MODELOPT_NV, .bits = 4, .group = 16};
    else if (sv_is(algorithm, "FP8"))
        q->scheme = SCHEME_F8;
    else if (sv_is(algorithm, "FP8_PER_CHANNEL_PER_TOKEN"))
        *q = (struct quantization){.scheme = SCHEME_F8, .rows = 1};
    else if (sv_is(algorithm, "FP8_PB_WO"))
        *q = (struct quantization){.scheme = SCHEME_F8, .rows = 128, .columns = 128};
    else
        refuse(c, "quant_algo");
}

// "weights" of a group of compressed-tensors' targets.
static void read_weights(struct config *c, struct sv format, struct quantization *q) {
    struct sv strategy = config_text(c, "strategy", "tensor"), type = config_text(c, "type", "int");
    q->bits = config_int(c, "num_bits", 8);
    bool floats = sv_is(type, "float");
    q->symmetric = config_bool(c, "symmetric", true);
    if (sv_is(format, "nvfp4-pack-quantized")) {
        *q = (struct quantization){.scheme = SCHEME_PACKED_NV, .bits = 4, .group = 16};
    } else if (sv_is(format, "mxfp4-pack-quantized")) {
        *q = (struct quantization){.scheme = SCHEME_PACKED_MX, .bits = 4, .group = 32};
    } else if (floats) {
        *q = (struct quantization){.scheme = SCHEME_F8};
        if (sv_is(strategy, "channel")) q->rows = 1;
        if (sv_is(strategy, "block")) read_block(c, "block_structure", q);
        if (config_int(c, "num_bits", 8) != 8) config_fail(c, "num_bits", "must be 8 for floats");
    } else if (sv_is(format, "pack-quantized")) {
        q->scheme = SCHEME_PACKED;
        if (sv_is(strategy, "group")) read_group(c, q);
        q->reordered = sv_is(config_text(c, "actorder", ""), "group");
        if (q->bits != 2 && q->bits != 4 && q->bits != 8)
            config_fail(c, "num_bits", "must be 2, 4 or 8");
    } else {
        q->scheme = SCHEME_INT8;
        if (q->bits != 8) config_fail(c, "num_bits", "must be 8 in %.*s", (int)format.n, format.p);
        if (!q->symmetric) config_fail(c, "symmetric", "must be true for int8");
    }
}

static void read_compressed(struct config *c, struct quantization *q) {
    static const char *const formats[] = {
        "pack-quantized",       "int-quantized",        "float-quantized", "naive-quantized",
        "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mixed-precision"};
    struct sv format = config_text(c, "format", "");
    bool known = false;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        known = known || sv_is(format, formats[i]);
    if (!known) refuse(c, "format");
    struct config *sparse = config_child(c, "sparsity_config");
    if (sparse && !text_is(sparse, "format", "dense", "")) refuse(sparse, "format");
    struct config *transforms = config_child(c, "transform_config");
    if (transforms && config_has(transforms, "config_groups"))
        refuse(transforms, "config_groups"); // rotations that run beside the products
    struct config *groups = config_child(c, "config_groups");
    bool found = false;
    for (int i = 0; groups && i < 8; i++) {
        char name[24];
        snprintf(name, sizeof name, "group_%d", i);
        struct config *one = config_child(groups, name);
        struct config *weights = one ? config_child(one, "weights") : NULL;
        if (!weights) continue;
        struct quantization more = {0};
        read_weights(weights, config_text(one, "format", format.p), found ? &more : q);
        if (found) { // what is certain of all groups
            q->symmetric = q->symmetric || more.symmetric;
            q->reordered = q->reordered && more.reordered;
        }
        found = true;
    }
    if (!found && !config_has(c, "config_groups"))
        config_fail(c, "config_groups", "must say how weights are quantized");
}

static void read_method(struct config *c, struct quantization *q) {
    struct sv method = config_text(c, "quant_method", "");
    if (sv_is(method, "mxfp4"))
        *q = (struct quantization){SCHEME_MXFP4, 4, 32, .experts_only = true};
    else if (sv_is(method, "fp8"))
        read_fp8(c, q);
    else if (sv_is(method, "fbgemm_fp8"))
        *q = (struct quantization){.scheme = SCHEME_F8, .rows = 1};
    else if (sv_is(method, "awq"))
        read_awq(c, q);
    else if (sv_is(method, "gptq"))
        read_gptq(c, q);
    else if (sv_is(method, "auto-round"))
        read_auto_round(c, q);
    else if (sv_is(method, "bitnet"))
        read_bitnet(c, q);
    else if (sv_is(method, "modelopt"))
        read_modelopt(c, q);
    else if (sv_is(method, "compressed-tensors"))
        read_compressed(c, q);
    else
        refuse(c, "quant_method");
    q->experts_apart = !q->experts_only;
    q->exceptions = c;
}

// MLX writes the same object under both names, beside another's where it converted one.
struct quantization quantization_read(struct config *c) {
    struct quantization q = {0}, usual = {.bits = 4, .group = 64};
    struct config *mlx = config_child(c, "quantization");
    struct config *other = config_child(c, "quantization_config");
    if (!other) other = config_child(c, "compression_config"); // its name in 2024
    if (!mlx && other && config_has(other, "quant_method")) {
        read_method(other, &q);
    } else if (mlx || other) {
        q = read_mlx(mlx ? mlx : other, &usual);
        q.exceptions = mlx ? mlx : other;
    }
    return q;
}

// --- one matrix ----------------------------------------------------------------------------------

// What follows "re:", a regular expression that begins where the name does: letters, \., . and .*
// Others match nothing. Only the last .* need be tried again: what an earlier one could take more
// of, the last one can.
static bool plain_expression_matches(struct sv name, struct sv re) {
    bool whole = sv_ends(re, sv("$"));
    re = sv_cut(re, 0, re.n - whole);
    size_t i = 0, k = 0, star = SIZE_MAX, from = 0;
    for (;;) {
        if (k == re.n && (!whole || i == name.n)) return true;
        bool more = k + 1 < re.n, escaped = more && re.p[k] == '\\';
        if (more && re.p[k] == '.' && re.p[k + 1] == '*') {
            star = k += 2;
            from = i;
        } else if (k < re.n && i < name.n &&
                   (escaped ? re.p[k + 1] == name.p[i] : re.p[k] == '.' || re.p[k] == name.p[i])) {
            i++;
            k += escaped ? 2 : 1;
        } else if (star != SIZE_MAX && from < name.n) {
            i = ++from;
            k = star;
        } else {
            return false;
        }
    }
}

// The same with one choice of several, (a|b|c), somewhere in it.
static bool expression_matches(struct sv name, struct sv re) {
    ptrdiff_t open = sv_find(re, sv("("), 0), close = sv_find(re, sv(")"), 0);
    if (open < 0 || close < open) return plain_expression_matches(name, re);
    struct str one = {0};
    bool found = false;
    for (size_t from = (size_t)open + 1, end = (size_t)close; from <= end && !found;) {
        ptrdiff_t bar = sv_find(sv_cut(re, 0, end), sv("|"), from);
        size_t to = bar < 0 ? end : (size_t)bar;
        str_clear(&one);
        str_add(&one, sv_cut(re, 0, (size_t)open));
        str_add(&one, sv_cut(re, from, to));
        str_add(&one, sv_cut(re, end + 1, re.n));
        found = plain_expression_matches(name, str_sv(&one));
        from = to + 1;
    }
    str_free(&one);
    return found;
}

// A whole name, its first parts or its last; or what is longer by a prefix that is not named here.
static bool matches(struct sv name, struct sv pattern) {
    if (sv_starts(pattern, sv("re:")))
        return expression_matches(name, sv_cut(pattern, 3, pattern.n));
    if (name.n <= pattern.n)
        return sv_ends(pattern, name) &&
               (name.n == pattern.n || pattern.p[pattern.n - name.n - 1] == '.');
    return (sv_ends(name, pattern) && name.p[name.n - pattern.n - 1] == '.') ||
           (sv_starts(name, pattern) && name.p[pattern.n] == '.');
}

// Quantizers other than MLX's leave embeddings, heads and routers alone, and what the config lists.
static bool left_alone(struct config *c, const char *name) {
    static const char *const lists[] = {"modules_to_not_convert", "ignore", "ignored_layers",
                                        "exclude_modules"};
    struct sv s = sv(name);
    if (sv_find(s, sv("embed"), 0) >= 0 || sv_ends(s, sv("lm_head")) || sv_ends(s, sv(".gate")) ||
        sv_ends(s, sv(".router")))
        return true;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (size_t i = 0; i < config_list(c, lists[l]); i++)
            if (matches(s, config_list_text(c, lists[l], i))) return true;
    return false;
}

// A row is a whole number of groups, and what is packed along outputs a whole number of words.
static bool fits(const struct quantization *q, int64_t out, int64_t in) {
    bool grouped = q->scheme != SCHEME_F8 && q->scheme != SCHEME_DENSE;
    int64_t of = q->group ? q->group : 32;
    if (grouped && in % of) return false;
    switch (q->scheme) {
    case SCHEME_AWQ:
    case SCHEME_GPTQ: return out * q->bits % 32 == 0;
    case SCHEME_BITNET: return out % 4 == 0;
    default: return true;
    }
}

struct quantization quantization_of(const struct quantization *q, const char *name, bool stack,
                                    int64_t out, int64_t in) {
    struct quantization dense = {0}, one = *q;
    struct config *c = q->exceptions;
    if (q->scheme == SCHEME_DENSE) return dense;
    if (q->experts_only) return stack && fits(q, out, in) ? one : dense;
    if (q->scheme <= SCHEME_NVFP4) {
        if (config_is_object(c, name))
            one = read_mlx(config_child(c, name), q);
        else if (!config_bool(c, name, true))
            return dense;
    } else if (left_alone(c, name)) {
        return dense;
    }
    return fits(&one, out, in) ? one : dense;
}
