#include "nn/moe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

enum { GATE, UP, DOWN, NAME = 128 };

static void expert_name(char out[NAME], const struct moe_names *names, int64_t expert, int matrix) {
    const char *const leaf[] = {names->gate, names->up, names->down};
    snprintf(out, NAME, "%s%lld.%s", names->each, (long long)expert, leaf[matrix]);
}

static void bind_each(struct moe *m, int64_t hidden, const struct moe_names *names,
                      struct binder *b) {
    char name[NAME];
    for (int64_t i = 0; i < m->spec.experts; i++)
        for (int k = 0; k < MOE_MATRICES; k++) {
            int64_t out = k == DOWN ? hidden : m->spec.width,
                    in = k == DOWN ? m->spec.width : hidden;
            expert_name(name, names, i, k);
            bind_matrix(b, name, out, in, m->spec.bias, &m->matrix[k][i]);
        }
}

static void bind_stacks(struct moe *m, int64_t hidden, const struct moe_names *names,
                        struct binder *b) {
    for (int k = 0; k < MOE_MATRICES; k++) {
        struct stack_shape s = {m->spec.experts, m->spec.width, hidden, m->spec.bias};
        if (k == DOWN) s.out = hidden, s.in = m->spec.width;
        bind_stack(b, names->stack[k], &s, &m->whole[k], m->matrix[k]);
    }
}

// The bias of an interleaved pair as two lists.
static void part_bias(const struct moe *m, int64_t expert, const struct tensor *both) {
    int64_t width = m->spec.width;
    for (int k = GATE; k <= UP; k++) {
        float *to = m->biases + (k * m->spec.experts + expert) * width;
        for (int64_t i = 0; i < width; i++) to[i] = ((const float *)both->data)[2 * i + k];
        m->matrix[k][expert].bias = tensor_1d(DT_F32, width, to);
    }
}

static void bind_fused(struct moe *m, int64_t hidden, const struct moe_names *names,
                       struct binder *b) {
    int64_t width = m->spec.width, n = m->spec.experts, step = names->interleaved ? 2 : 1;
    bool bias = m->spec.bias;
    bind_bare_stack(b, names->gate_up, &(struct stack_shape){n, 2 * width, hidden, bias},
                    names->fused_columns, &m->whole[GATE], m->matrix[GATE]);
    bind_bare_stack(b, names->all_down, &(struct stack_shape){n, hidden, width, bias},
                    names->fused_columns, &m->whole[DOWN], m->matrix[DOWN]);
    if (b->err->set) return;
    if (bias && names->interleaved) m->biases = mem_array((size_t)(2 * n * width), sizeof(float));
    for (int64_t i = 0; i < n; i++) {
        struct weight both = m->matrix[GATE][i];
        m->matrix[GATE][i] = weight_rows(&both, 0, width, step);
        m->matrix[UP][i] = weight_rows(&both, names->interleaved ? 1 : width, width, step);
        if (m->biases) part_bias(m, i, &both.bias);
    }
}

static bool is_fused(const struct moe_names *names, const struct binder *b) {
    return names->gate_up && bind_has_stack(b, names->gate_up);
}

static bool is_each(const struct moe_names *names, const struct binder *b) {
    char name[NAME];
    if (names->each && weights_experts_apart(b->weights)) return true;
    for (int k = 0; k < MOE_MATRICES && names->each; k++) {
        expert_name(name, names, 0, k);
        if (bind_has(b, name)) return true;
    }
    return false;
}

void moe_bind(struct moe *m, const struct moe_spec *spec, int64_t hidden,
              const struct moe_names *names, struct binder *b) {
    m->spec = *spec;
    for (int k = 0; k < MOE_MATRICES; k++)
        m->matrix[k] = mem_array((size_t)spec->experts, sizeof *m->matrix[k]);
    bind_matrix(b, names->router, spec->experts, hidden, spec->router_bias, &m->router);
    if (spec->choice_bias) bind_bare(b, names->choice_bias, spec->experts, &m->choice_bias);
    if (is_fused(names, b))
        bind_fused(m, hidden, names, b);
    else if (is_each(names, b))
        bind_each(m, hidden, names, b);
    else
        bind_stacks(m, hidden, names, b);
    if (spec->shared.width) mlp_bind(&m->shared, &spec->shared, hidden, &names->shared, b);
    if (spec->shared_gate) bind_matrix(b, names->shared_gate, 1, hidden, false, &m->shared_gate);
}

void moe_close(struct moe *m) {
    for (int k = 0; k < MOE_MATRICES; k++) free(m->matrix[k]);
    free(m->biases);
}

bool moe_store(struct moe *m, struct store *s, const char *what, struct error *e) {
    if (!store_weight(s, &m->router, what, e)) return false;
    if (m->choice_bias.dims && !store_tensor(s, &m->choice_bias, what, e)) return false;
    for (int k = 0; k < MOE_MATRICES; k++)
        if (!store_weight(s, &m->whole[k], what, e)) return false;
    for (int k = 0; k < MOE_MATRICES; k++)
        if (!store_list(s, m->matrix[k], m->spec.experts, &m->on_device[k], what, e)) return false;
    return mlp_store(&m->shared, s, what, e) && store_weight(s, &m->shared_gate, what, e);
}

void moe_cost(struct moe *m, int64_t rows, size_t *bytes, int64_t *elements) {
    struct weight *every[MLP_WEIGHTS + 2] = {NULL};
    int n = m->spec.shared.width ? mlp_weights(&m->shared, every) : 0;
    every[n++] = &m->router;
    if (m->spec.shared_gate) every[n++] = &m->shared_gate;
    for (int i = 0; i < n; i++) {
        *bytes += weight_bytes(every[i]);
        *elements += every[i]->out * every[i]->in;
    }
    size_t all = 0;
    for (int k = 0; k < MOE_MATRICES; k++) {
        for (int64_t i = 0; i < m->spec.experts; i++) all += weight_bytes(&m->matrix[k][i]);
        *elements += m->spec.route.top * m->matrix[k]->out * m->matrix[k]->in;
    }
    double missed = 1 - (double)m->spec.route.top / (double)m->spec.experts;
    *bytes += (size_t)((double)all * (1 - pow(missed, (double)rows)));
}

struct tensor moe_forward(struct context *c, const struct moe *m, struct input in,
                          struct tensor to) {
    const struct moe_spec *s = &m->spec;
    struct mixture k = {.router = &m->router, .route = s->route, .gating = s->gating};
    struct matrices *const w[] = {&k.gate, &k.up, &k.down};
    for (int i = 0; i < MOE_MATRICES; i++)
        *w[i] = (struct matrices){s->experts, m->matrix[i], m->on_device[i]};
    k.route.bias = m->choice_bias;
    k.weigh_input = s->weigh_input;
    if (s->shared.width)
        k.shared_gate = &m->shared.gate, k.shared_up = &m->shared.up,
        k.shared_down = &m->shared.down;
    if (s->shared_gate) k.shared_weight = &m->shared_gate;
    struct rms norm;
    bool normed = input_rms(&in, &norm);
    return mixture(c, normed ? in.x : input_forward(c, in), normed ? &norm : NULL, &k, to);
}
