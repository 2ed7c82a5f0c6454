#include "checkpoint/gguf_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/gguf_quant.h"

enum size { VECTOR, HIDDEN, INTER, QUERY, KEY, HEAD, VOCAB };
enum when { ALWAYS, UNTIED, ATTN_BIAS, MLP_BIAS, QWEN2, QWEN3 };

struct part {
    const char *gguf, *module, *kind;
    enum size rows, cols;
    enum when when;
    bool turned; // in llama
};

static const struct part outer_parts[] = {
    {"token_embd.weight", "model.embed_tokens", "weight", VOCAB, HIDDEN, ALWAYS, false},
    {"output_norm.weight", "model.norm", "weight", HIDDEN, VECTOR, ALWAYS, false},
    {"output.weight", "lm_head", "weight", VOCAB, HIDDEN, UNTIED, false},
};

static const struct part layer_parts[] = {
    {"attn_norm.weight", "input_layernorm", "weight", HIDDEN, VECTOR, ALWAYS, false},
    {"attn_q.weight", "self_attn.q_proj", "weight", QUERY, HIDDEN, ALWAYS, true},
    {"attn_k.weight", "self_attn.k_proj", "weight", KEY, HIDDEN, ALWAYS, true},
    {"attn_v.weight", "self_attn.v_proj", "weight", KEY, HIDDEN, ALWAYS, false},
    {"attn_output.weight", "self_attn.o_proj", "weight", HIDDEN, QUERY, ALWAYS, false},
    {"attn_q.bias", "self_attn.q_proj", "bias", QUERY, VECTOR, ATTN_BIAS, true},
    {"attn_k.bias", "self_attn.k_proj", "bias", KEY, VECTOR, ATTN_BIAS, true},
    {"attn_v.bias", "self_attn.v_proj", "bias", KEY, VECTOR, ATTN_BIAS, false},
    {"attn_output.bias", "self_attn.o_proj", "bias", HIDDEN, VECTOR, ATTN_BIAS, false},
    {"attn_q.bias", "self_attn.q_proj", "bias", QUERY, VECTOR, QWEN2, false},
    {"attn_k.bias", "self_attn.k_proj", "bias", KEY, VECTOR, QWEN2, false},
    {"attn_v.bias", "self_attn.v_proj", "bias", KEY, VECTOR, QWEN2, false},
    {"attn_q_norm.weight", "self_attn.q_norm", "weight", HEAD, VECTOR, QWEN3, false},
    {"attn_k_norm.weight", "self_attn.k_norm", "weight", HEAD, VECTOR, QWEN3, false},
    {"ffn_norm.weight", "post_attention_layernorm", "weight", HIDDEN, VECTOR, ALWAYS, false},
    {"ffn_gate.weight", "mlp.gate_proj", "weight", INTER, HIDDEN, ALWAYS, false},
    {"ffn_up.weight", "mlp.up_proj", "weight", INTER, HIDDEN, ALWAYS, false},
    {"ffn_down.weight", "mlp.down_proj", "weight", HIDDEN, INTER, ALWAYS, false},
    {"ffn_gate.bias", "mlp.gate_proj", "bias", INTER, VECTOR, MLP_BIAS, false},
    {"ffn_up.bias", "mlp.up_proj", "bias", INTER, VECTOR, MLP_BIAS, false},
    {"ffn_down.bias", "mlp.down_proj", "bias", HIDDEN, VECTOR, MLP_BIAS, false},
};

static bool wanted(const struct gguf_model *m, enum when when) {
    switch (when) {
    case ALWAYS: return true;
    case UNTIED: return !m->tied;
    case ATTN_BIAS: return m->attn_bias;
    case MLP_BIAS: return m->mlp_bias;
    case QWEN2: return m->arch == GGUF_QWEN2;
    case QWEN3: return m->arch == GGUF_QWEN3;
    }
    return false;
}

static int64_t size_of(const struct gguf_model *m, enum size s) {
    switch (s) {
    case VECTOR: return 1;
    case HIDDEN: return m->hidden;
    case INTER: return m->inter;
    case QUERY: return m->heads * m->head_dim;
    case KEY: return m->kv_heads * m->head_dim;
    case HEAD: return m->head_dim;
    case VOCAB: return m->vocab;
    }
    return 0;
}

static bool copied(uint32_t type, enum dtype *out) {
    *out = type == GGUF_TYPE_F32 ? DT_F32 : type == GGUF_TYPE_F16 ? DT_F16 : DT_BF16;
    return type == GGUF_TYPE_F32 || type == GGUF_TYPE_F16 || type == GGUF_TYPE_BF16;
}

// How the tensor is written.
static bool choose_form(const struct gguf *g, struct gguf_job *j, enum gguf_inexact inexact,
                        struct error *e) {
    static const enum dtype dense[] = {
        [GGUF_AS_BF16] = DT_BF16, [GGUF_AS_F16] = DT_F16, [GGUF_AS_F32] = DT_F32};
    const struct gguf_tensor *t = j->t;
    int shown = t->name.n < 80 ? (int)t->name.n : 80;
    bool f16;
    j->form = GGUF_COPY;
    if (copied(t->type, &j->type)) return true;
    j->bits = gguf_affine_bits(t->type);
    if (!j->bits)
        return fail(e,
                    "%s: tensor \"%.*s\" has type %s, which cannot be imported (use a file in F16, "
                    "BF16, Q8_0, Q4_0, Q4_1 or a K-quant)",
                    g->path, shown, t->name.p, gguf_type_name(t->type));
    if (t->dims != 2)
        return fail(e, "%s: tensor \"%.*s\": a vector cannot have type %s", g->path, shown,
                    t->name.p, gguf_type_name(t->type));
    if (!gguf_scan(t->type, t->data, t->size, &f16))
        return fail(e, "%s: tensor \"%.*s\" (%s) holds a scale that is not finite", g->path, shown,
                    t->name.p, gguf_type_name(t->type));
    bool groups = inexact == GGUF_AS_AFFINE || gguf_affine_exact(t->type);
    j->form = groups ? GGUF_GROUPS : GGUF_DENSE;
    j->type = groups ? (f16 ? DT_F16 : DT_F32) : dense[inexact];
    return true;
}

static bool add_job(const struct gguf *g, const struct gguf_model *m, enum gguf_inexact inexact,
                    const struct part *part, const char *source, const char *module,
                    struct gguf_plan *p, struct error *e) {
    const struct gguf_tensor *t = gguf_tensor(g, source);
    if (!t) return fail(e, "%s: tensor \"%s\" is missing", g->path, source);
    p->job = mem_grow(p->job, &p->cap, p->n + 1, sizeof *p->job);
    struct gguf_job *j = &p->job[p->n++];
    struct str name = {0};
    str_printf(&name, "%s.%s", module, part->kind);
    *j = (struct gguf_job){.t = t, .module = mem_text(module), .name = name.p};
    j->rows = size_of(m, part->rows);
    j->cols = size_of(m, part->cols);
    j->head = part->turned && m->arch == GGUF_LLAMA ? m->head_dim : 0;
    bool matrix = part->cols != VECTOR;
    uint64_t n0 = (uint64_t)(matrix ? j->cols : j->rows), n1 = (uint64_t)(matrix ? j->rows : 1);
    if (t->n[0] != n0 || t->n[1] != n1 || t->dims != 1 + matrix)
        return fail(e,
                    "%s: tensor \"%s\" is [%llu, %llu] in %d dimensions; the metadata says "
                    "[%llu, %llu]",
                    g->path, source, (unsigned long long)t->n[0], (unsigned long long)t->n[1],
                    t->dims, (unsigned long long)n0, (unsigned long long)n1);
    return choose_form(g, j, inexact, e);
}

// Every tensor of the file must have found a place.
static bool check_unused(const struct gguf *g, const struct gguf_plan *p, struct error *e) {
    bool *used = mem_array(g->n_tensors, sizeof *used);
    for (size_t i = 0; i < p->n; i++) used[p->job[i].t - g->tensor] = true;
    const struct gguf_tensor *factors = gguf_tensor(g, "rope_freqs.weight");
    if (factors) used[factors - g->tensor] = true; // in config.json
    size_t i = 0;
    while (i < g->n_tensors && used[i]) i++;
    free(used);
    if (i == g->n_tensors) return true;
    struct sv name = g->tensor[i].name;
    return fail(e,
                "%s: tensor \"%.*s\" has no place in this architecture; the file is not imported",
                g->path, name.n < 80 ? (int)name.n : 80, name.p);
}

bool gguf_plan_make(const struct gguf *g, const struct gguf_model *m, enum gguf_inexact inexact,
                    struct gguf_plan *p, struct error *e) {
    *p = (struct gguf_plan){0};
    size_t outer = sizeof outer_parts / sizeof *outer_parts;
    for (size_t i = 0; i < outer && !e->set; i++)
        if (wanted(m, outer_parts[i].when))
            add_job(g, m, inexact, &outer_parts[i], outer_parts[i].gguf, outer_parts[i].module, p,
                    e);
    struct str source = {0}, module = {0};
    for (int64_t l = 0; l < m->layers && !e->set; l++) {
        for (size_t i = 0; i < sizeof layer_parts / sizeof *layer_parts && !e->set; i++) {
            const struct part *part = &layer_parts[i];
            if (!wanted(m, part->when)) continue;
            str_clear(&source);
            str_clear(&module);
            str_printf(&source, "blk.%lld.%s", (long long)l, part->gguf);
            str_printf(&module, "model.layers.%lld.%s", (long long)l, part->module);
            add_job(g, m, inexact, part, source.p, module.p, p, e);
        }
    }
    str_free(&source);
    str_free(&module);
    return !e->set && check_unused(g, p, e);
}

void gguf_plan_free(struct gguf_plan *p) {
    for (size_t i = 0; i < p->n; i++) {
        free(p->job[i].module);
        free(p->job[i].name);
    }
    free(p->job);
    *p = (struct gguf_plan){0};
}

int64_t gguf_source_row(const struct gguf_job *j, int64_t r) {
    if (!j->head) return r;
    int64_t half = j->head / 2, in_head = r % j->head;
    return r - in_head + in_head % half * 2 + in_head / half;
}
