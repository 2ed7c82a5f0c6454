#include "checkpoint/gguf_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const struct arch_names {
    const char *gguf, *model_type, *class_name;
} arch_names[] = {
    [GGUF_LLAMA] = {"llama", "llama", "LlamaForCausalLM"},
    [GGUF_QWEN2] = {"qwen2", "qwen2", "Qwen2ForCausalLM"},
    [GGUF_QWEN3] = {"qwen3", "qwen3", "Qwen3ForCausalLM"},
};
enum { ARCHS = sizeof arch_names / sizeof *arch_names };

// The keys after "llama." that are read below, or that do not change what the model computes.
static const char *const known_keys[] = {
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "expert_used_count",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_log_multiplier",
    "tensor_data_layout",
    "vocab_size",
};

// "llama.block_count"
struct key {
    char text[96];
};

static struct key arch_key(const struct gguf_model *m, const char *name) {
    struct key k;
    snprintf(k.text, sizeof k.text, "%s.%s", arch_names[m->arch].gguf, name);
    return k;
}

static bool read_arch(const struct gguf *g, struct gguf_model *m, struct error *e) {
    struct sv arch;
    if (!gguf_text(g, "general.architecture", sv(""), &arch, e)) return false;
    for (int i = 0; i < ARCHS; i++) {
        m->arch = (enum gguf_arch)i;
        if (sv_is(arch, arch_names[i].gguf)) return true;
    }
    return fail(e,
                "%s: key \"general.architecture\" is \"%.*s\"; llama, qwen2 and qwen3 can be "
                "imported (use the checkpoint as published on the hub for others)",
                g->path, arch.n < 64 ? (int)arch.n : 64, arch.p);
}

static bool check_keys(const struct gguf *g, const struct gguf_model *m, struct error *e) {
    struct key prefix = arch_key(m, "");
    for (size_t i = 0; i < g->n_keys; i++) {
        if (!sv_starts(g->key[i], sv(prefix.text))) continue;
        struct sv name = sv_cut(g->key[i], strlen(prefix.text), g->key[i].n);
        size_t k = 0, n = sizeof known_keys / sizeof *known_keys;
        while (k < n && !sv_is(name, known_keys[k])) k++;
        if (k == n)
            return fail(e,
                        "%s: key \"%.*s\" is not one that is known to keep its meaning in a "
                        "config.json; the file is not imported",
                        g->path, g->key[i].n < 80 ? (int)g->key[i].n : 80, g->key[i].p);
    }
    return true;
}

// A size; 0 as `otherwise` means that it must be there. An array (one per layer) must repeat one
// number.
static int64_t read_size(const struct gguf *g, const struct gguf_model *m, const char *name,
                         int64_t otherwise, struct error *e) {
    struct key k = arch_key(m, name);
    const char *key = k.text;
    const struct gguf_value *v = gguf_value(g, key);
    int64_t size = otherwise, *list;
    size_t n;
    if (v && v->array) {
        if (!gguf_ints(g, key, &list, &n, e)) return 0;
        size = n ? list[0] : 0;
        for (size_t i = 1; i < n; i++)
            if (list[i] != size)
                fail(e, "%s: key \"%s\" differs from layer to layer", g->path, key);
        free(list);
    } else if (!gguf_int(g, key, otherwise, &size, e)) {
        return 0;
    }
    if (!v && !otherwise) fail(e, "%s: key \"%s\" is missing", g->path, key);
    if (size < 1 || size > INT32_MAX)
        fail(e, "%s: key \"%s\" is %lld; a size from 1 to 2^31 is needed", g->path, key,
             (long long)size);
    return size;
}

static double read_number(const struct gguf *g, const struct gguf_model *m, const char *name,
                          double otherwise, struct error *e) {
    struct key k = arch_key(m, name);
    double v;
    gguf_number(g, k.text, otherwise, &v, e);
    if (!isfinite(v)) fail(e, "%s: key \"%s\" is not finite", g->path, k.text);
    return v;
}

// A number that only has a meaning here when it is `neutral`.
static bool need_neutral(const struct gguf *g, const struct gguf_model *m, const char *name,
                         double neutral, struct error *e) {
    double v = read_number(g, m, name, neutral, e);
    if (!e->set && v != neutral)
        fail(e, "%s: key \"%s.%s\" is %g; only %g can be imported", g->path,
             arch_names[m->arch].gguf, name, v, neutral);
    return !e->set;
}

static bool is_multiple(int64_t a, int64_t of) { return of > 0 && a % of == 0; }

static bool read_sizes(const struct gguf *g, struct gguf_model *m, struct error *e) {
    m->layers = read_size(g, m, "block_count", 0, e);
    m->hidden = read_size(g, m, "embedding_length", 0, e);
    m->inter = read_size(g, m, "feed_forward_length", 0, e);
    m->context = read_size(g, m, "context_length", 0, e);
    m->heads = read_size(g, m, "attention.head_count", 0, e);
    if (e->set) return false;
    m->kv_heads = read_size(g, m, "attention.head_count_kv", m->heads, e);
    struct key k = arch_key(m, "attention.key_length");
    if (!gguf_value(g, k.text) && !is_multiple(m->hidden, m->heads))
        return fail(e, "%s: embedding_length %lld is not a multiple of head_count %lld", g->path,
                    (long long)m->hidden, (long long)m->heads);
    int64_t share = m->heads > 0 ? m->hidden / m->heads : 0;
    m->head_dim = read_size(g, m, "attention.key_length", share, e);
    int64_t value = read_size(g, m, "attention.value_length", m->head_dim, e);
    int64_t turned = read_size(g, m, "rope.dimension_count", m->head_dim, e);
    if (e->set) return false;
    if (!is_multiple(m->heads, m->kv_heads))
        return fail(e, "%s: head_count %lld is not a multiple of head_count_kv %lld", g->path,
                    (long long)m->heads, (long long)m->kv_heads);
    if (value != m->head_dim || turned != m->head_dim || m->head_dim % 2)
        return fail(e,
                    "%s: heads of %lld (keys), %lld (values), %lld (rope.dimension_count): only "
                    "one even number for all three can be imported",
                    g->path, (long long)m->head_dim, (long long)value, (long long)turned);
    return true;
}

// The factor by which Llama 3's scaling divides the frequency of pair i of n.
static double llama3_factor(const struct gguf_rope *r, int64_t i, int64_t n) {
    double wavelength = 2 * M_PI * pow(r->theta, (double)i / (double)n);
    double turns = (double)r->original / wavelength; // in the original context
    if (turns > 4) return 1;                         // high_freq_factor
    if (turns < 1) return r->factor;                 // low_freq_factor
    double smooth = (turns - 1) / 3;
    return 1 / ((1 - smooth) / r->factor + smooth);
}

// rope_freqs.weight holds Llama 3's scaling as one factor a pair: finds the parameters that give
// these factors, to the rounding of the f32 arithmetic that made them.
static bool read_rope_factors(const struct gguf *g, struct gguf_model *m, struct error *e) {
    const struct gguf_tensor *t = gguf_tensor(g, "rope_freqs.weight");
    if (!t) return true;
    if (m->rope.kind != GGUF_ROPE_PLAIN)
        return fail(e, "%s: has both rope_freqs.weight and rope.scaling.type", g->path);
    int64_t n = m->head_dim / 2;
    if (t->type != GGUF_TYPE_F32 || t->dims != 1 || t->n[0] != (uint64_t)n)
        return fail(e, "%s: tensor \"rope_freqs.weight\" is not [%lld] F32", g->path, (long long)n);
    float *f = mem_array((size_t)n, sizeof *f);
    memcpy(f, t->data, t->size);
    struct gguf_rope r = m->rope;
    r.kind = GGUF_ROPE_LLAMA3;
    r.factor = (double)f[n - 1]; // the slowest pair gets the whole factor
    bool found = false, plain = true;
    for (int64_t i = 0; i < n; i++) plain = plain && f[i] == 1;
    for (r.original = 512; r.original <= 1 << 20 && !found && !plain; r.original *= 2) {
        found = true;
        for (int64_t i = 0; i < n && found; i++) {
            double want = llama3_factor(&r, i, n);
            found = fabs((double)f[i] - want) <= 1e-4 * want;
        }
        if (found) m->rope = r;
    }
    free(f);
    if (found || plain) return true;
    return fail(e,
                "%s: tensor \"rope_freqs.weight\" holds factors that Llama 3's rope scaling does "
                "not give; no other can be imported",
                g->path);
}

static bool read_yarn(const struct gguf *g, struct gguf_model *m, struct error *e) {
    m->rope.kind = GGUF_ROPE_YARN;
    m->rope.original = read_size(g, m, "rope.scaling.original_context_length", m->context, e);
    m->rope.beta_fast = read_number(g, m, "rope.scaling.yarn_beta_fast", 32, e);
    m->rope.beta_slow = read_number(g, m, "rope.scaling.yarn_beta_slow", 1, e);
    return need_neutral(g, m, "rope.scaling.yarn_ext_factor", 1, e) &&
           need_neutral(g, m, "rope.scaling.yarn_attn_factor", 1, e) &&
           need_neutral(g, m, "rope.scaling.yarn_log_multiplier", 0, e);
}

static bool read_rope(const struct gguf *g, struct gguf_model *m, struct error *e) {
    struct key k = arch_key(m, "rope.scaling.type");
    struct sv type;
    m->rope.theta = read_number(g, m, "rope.freq_base", 10000, e);
    double factor = read_number(g, m, "rope.scale_linear", 1, e); // the older name
    m->rope.factor = read_number(g, m, "rope.scaling.factor", factor, e);
    need_neutral(g, m, "rope.scaling.attn_factor", 1, e);
    if (!gguf_text(g, k.text, sv("linear"), &type, e)) return false;
    if (e->set) return false;
    if (m->rope.theta <= 0 || m->rope.factor <= 0)
        return fail(e, "%s: rope.freq_base is %g and rope.scaling.factor %g; both must be positive",
                    g->path, m->rope.theta, m->rope.factor);
    if (sv_is(type, "yarn")) {
        if (!read_yarn(g, m, e)) return false;
    } else if (sv_is(type, "linear") && m->rope.factor != 1) {
        m->rope.kind = GGUF_ROPE_LINEAR;
    } else if (!sv_is(type, "linear") && !sv_is(type, "none")) {
        return fail(e, "%s: key \"%s\" is \"%.*s\"; none, linear and yarn can be imported", g->path,
                    k.text, type.n < 64 ? (int)type.n : 64, type.p);
    }
    return read_rope_factors(g, m, e);
}

static bool read_attention(const struct gguf *g, struct gguf_model *m, struct error *e) {
    struct key k = arch_key(m, "attention.causal"),
               window = arch_key(m, "attention.sliding_window");
    bool causal;
    if (!gguf_bool(g, k.text, true, &causal, e)) return false;
    if (!causal) return fail(e, "%s: key \"%s\" is false: not a generator", g->path, k.text);
    if (!gguf_int(g, window.text, 0, &m->window, e)) return false;
    if (m->window < 0 || (m->window && m->window < m->context && m->arch != GGUF_LLAMA))
        return fail(e, "%s: key \"%s\" is %lld; a window can be imported for llama only", g->path,
                    window.text, (long long)m->window);
    if (m->window >= m->context) m->window = 0;
    m->eps = read_number(g, m, "attention.layer_norm_rms_epsilon", 0, e);
    if (!e->set && m->eps <= 0)
        fail(e, "%s: attention.layer_norm_rms_epsilon is missing or not positive", g->path);
    return !e->set;
}

bool gguf_model_read(const struct gguf *g, struct gguf_model *m, struct error *e) {
    *m = (struct gguf_model){0};
    int64_t parts;
    if (!gguf_int(g, "split.count", 1, &parts, e)) return false;
    if (parts > 1)
        return fail(e, "%s: is one of %lld parts; merge them first (llama-gguf-split --merge)",
                    g->path, (long long)parts);
    if (!read_arch(g, m, e) || !check_keys(g, m, e) || !need_neutral(g, m, "expert_count", 0, e) ||
        !read_sizes(g, m, e) || !read_attention(g, m, e) || !read_rope(g, m, e))
        return false;
    const struct gguf_tensor *embed = gguf_tensor(g, "token_embd.weight");
    if (!embed) return fail(e, "%s: tensor \"token_embd.weight\" is missing", g->path);
    m->vocab = (int64_t)embed->n[1];
    if (read_size(g, m, "vocab_size", m->vocab, e) != m->vocab)
        fail(e, "%s: vocab_size does not agree with token_embd.weight, which has %lld rows",
             g->path, (long long)m->vocab);
    m->tied = !gguf_tensor(g, "output.weight");
    m->attn_bias = m->arch == GGUF_LLAMA && gguf_tensor(g, "blk.0.attn_q.bias");
    m->mlp_bias = m->arch == GGUF_LLAMA && gguf_tensor(g, "blk.0.ffn_up.bias");
    return !e->set;
}

struct json_object *gguf_json_float(double v) {
    char text[40];
    bool whole = v == floor(v) && fabs(v) < 1e15;
    if (whole) snprintf(text, sizeof text, "%.1f", v);
    for (int digits = 1; digits <= 17 && !whole; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtof(text, NULL) == (float)v) break;
    }
    return json_object_new_double_s(v, text);
}

static void put_int(struct json_object *o, const char *key, int64_t v) {
    json_object_object_add(o, key, json_object_new_int64(v));
}

static void put_text(struct json_object *o, const char *key, const char *v) {
    json_object_object_add(o, key, json_object_new_string(v));
}

static void put_bool(struct json_object *o, const char *key, bool v) {
    json_object_object_add(o, key, json_object_new_boolean(v));
}

static struct json_object *rope_scaling(const struct gguf_rope *r) {
    static const char *const names[] = {NULL, "linear", "yarn", "llama3"};
    if (r->kind == GGUF_ROPE_PLAIN) return NULL;
    struct json_object *o = json_object_new_object();
    put_text(o, "rope_type", names[r->kind]);
    json_object_object_add(o, "factor", gguf_json_float(r->factor));
    if (r->original) put_int(o, "original_max_position_embeddings", r->original);
    if (r->kind == GGUF_ROPE_LLAMA3) {
        json_object_object_add(o, "low_freq_factor", gguf_json_float(1));
        json_object_object_add(o, "high_freq_factor", gguf_json_float(4));
    }
    if (r->kind == GGUF_ROPE_YARN) {
        json_object_object_add(o, "beta_fast", gguf_json_float(r->beta_fast));
        json_object_object_add(o, "beta_slow", gguf_json_float(r->beta_slow));
    }
    return o;
}

struct json_object *gguf_config(const struct gguf_model *m) {
    bool mistral = m->window > 0;
    struct json_object *o = json_object_new_object(), *classes = json_object_new_array();
    json_object_array_add(
        classes,
        json_object_new_string(mistral ? "MistralForCausalLM" : arch_names[m->arch].class_name));
    json_object_object_add(o, "architectures", classes);
    put_text(o, "model_type", mistral ? "mistral" : arch_names[m->arch].model_type);
    put_int(o, "hidden_size", m->hidden);
    put_int(o, "intermediate_size", m->inter);
    put_int(o, "num_hidden_layers", m->layers);
    put_int(o, "num_attention_heads", m->heads);
    put_int(o, "num_key_value_heads", m->kv_heads);
    put_int(o, "head_dim", m->head_dim);
    put_text(o, "hidden_act", "silu");
    json_object_object_add(o, "rms_norm_eps", gguf_json_float(m->eps));
    put_int(o, "vocab_size", m->vocab);
    put_int(o, "max_position_embeddings", m->context);
    json_object_object_add(o, "rope_theta", gguf_json_float(m->rope.theta));
    json_object_object_add(o, "rope_scaling", rope_scaling(&m->rope));
    put_bool(o, "tie_word_embeddings", m->tied);
    if (m->arch != GGUF_QWEN2) put_bool(o, "attention_bias", m->attn_bias);
    if (m->arch == GGUF_LLAMA && !mistral) put_bool(o, "mlp_bias", m->mlp_bias);
    if (mistral) put_int(o, "sliding_window", m->window);
    if (m->arch != GGUF_LLAMA) put_bool(o, "use_sliding_window", false);
    return o;
}
