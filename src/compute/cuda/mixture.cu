// What mixture.cuh takes, and how its kernels are launched.
#include "compute/cuda/mixture.cuh"

typedef four_format<2, 3> halves_format; // more do not fit compute capability 8.0
typedef four_format<1, 2> digits_format;
typedef sums_format<2, 2, 3> sums;

enum { MIXTURE_WARPS = 16 };

static bool sides_begin_at(const struct stack &s, int k, size_t align) {
    const struct matrix &m = s.m[k];
    return rows_begin_at(m.scales, m.ld_scales, align) &&
           rows_begin_at(m.biases, m.ld_biases, align) && s.scales[k] % (int64_t)align == 0 &&
           s.biases[k] % (int64_t)align == 0;
}

static bool is_like(const struct weight *first, const struct weight *w) {
    return same_kind(first, w) && !w->bias.dims;
}

// False: the matrices are not all as far from each other, or not of a kind.
static bool stack_of(const struct matrices *m, struct stack *s) {
    const struct weight *w = m->w;
    auto apart = [&](const struct tensor weight::*t, int64_t i) {
        return (const char *)(w[i].*t).data - (const char *)(w[0].*t).data;
    };
    if (kind_of(w) != FOUR_BF16) return false;
    s->m[0] = matrix_of(w, NULL, 0);
    s->data[0] = s->scales[0] = s->biases[0] = 0;
    if (m->n > 1) {
        s->data[0] = apart(&weight::data, 1), s->scales[0] = apart(&weight::scales, 1);
        s->biases[0] = apart(&weight::biases, 1);
    }
    for (int64_t i = 0; i < m->n; i++) {
        bool fits = apart(&weight::data, i) == i * s->data[0] &&
                    apart(&weight::scales, i) == i * s->scales[0] &&
                    apart(&weight::biases, i) == i * s->biases[0];
        if (!fits || !is_like(w, &w[i])) return false;
    }
    return true;
}

// The shared expert's: parts are so many rows and columns behind each other.
static bool add_shared(const struct weight *first, const struct weight *w, int64_t rows,
                       int64_t columns, struct stack *s) {
    struct weight part = *w;
    part.in = first->in;
    if (!is_like(first, &part)) return false;
    s->m[1] = matrix_of(w, NULL, 0);
    s->data[1] = rows * s->m[1].ld * 4 + columns / 2;
    s->scales[1] = (rows * s->m[1].ld_scales + columns / w->group) * 2;
    s->biases[1] = (rows * s->m[1].ld_biases + columns / w->group) * 2;
    return true;
}

// False: it does not fit.
static bool find_experts(const struct mixture *m, struct mixture_row *f) {
    const struct matrices *const w[] = {&m->gate, &m->up, &m->down};
    for (int k = GATE; k <= DOWN; k++)
        if (w[k]->n != f->choosing.experts || !stack_of(w[k], &f->w[k])) return false;
    const struct weight *gate = m->gate.w, *down = m->down.w;
    if (!same_kind(gate, m->up.w) || gate->in != f->hidden || down->out != f->hidden) return false;
    if (gate->out != m->up.w->out || gate->out != down->in) return false;
    f->width = (int)gate->out;
    f->group_shift[0] = shape_of(gate).group_shift, f->group_shift[1] = shape_of(down).group_shift;
    f->entries = f->choosing.top;
    if (!m->shared_down) return true;
    const struct weight *const shared[] = {m->shared_gate, m->shared_up, m->shared_down};
    int64_t width = shared[DOWN]->in, parts = width / f->width;
    if (parts * f->width != width || parts > ENTRIES_MOST - ROUTE_TOP_MOST) return false;
    if (shared[GATE]->out != width || shared[UP]->out != width) return false;
    for (int k = GATE; k <= DOWN; k++)
        if (!add_shared(w[k]->w, shared[k], k == DOWN ? 0 : f->width, k == DOWN ? f->width : 0,
                        &f->w[k]))
            return false;
    f->entries += (int)parts;
    return m->gating.limit <= 0 && m->gating.plus == 0;
}

static bool find_sides(struct mixture_row *f) {
    f->wide = true;
    for (int k = GATE; k <= UP; k++)
        for (int i = 0; i < (f->entries > f->choosing.top ? 2 : 1); i++) {
            if (!sides_begin_at(f->w[k], i, 4)) return false;
            f->wide = f->wide && sides_begin_at(f->w[k], i, 16);
        }
    return true;
}

static bool find_router(const struct mixture *m, struct router *r) {
    r->w = *m->router;
    if (m->shared_down && m->shared_weight) r->shared_gate = *m->shared_weight;
    return r->w.in % 8 == 0 && !r->w.order.dims && !r->shared_gate.order.dims &&
           (uintptr_t)r->x.x % 16 == 0 && (uintptr_t)r->x.norm % 16 == 0;
}

// Which of the kernels a router's weights have: that of their kind, as most come, 8 bits with BF16
// scales; or 0, the one for all.
static int router_kind(const struct weight *w) {
    int kind = kind_of(w);
    bool eight = kind == 8 && w->scales.type == DT_BF16 && w->biases.type == DT_BF16;
    return eight || kind == FOUR_BF16 || kind == DENSE_BF16 ? kind : 0;
}

static void launch_router(struct context *c, const struct router &r) {
    int kind = router_kind(&r.w);
    bool shared = r.shared_gate.out > 0;
    if (shared && router_kind(&r.shared_gate) != kind) kind = 0;
    auto kernel = kind == FOUR_BF16    ? router_kernel<FOUR_BF16>
                  : kind == 8          ? router_kernel<8>
                  : kind == DENSE_BF16 ? router_kernel<DENSE_BF16>
                                       : router_kernel<0>;
    launch(c, "route", kernel, dim3((unsigned)(r.w.out + shared)), ROUTER_THREADS, 0, r);
}

// EACH: experts a lane.
template <int EACH>
static void launch_mixture(struct context *c, const struct mixture_row &f, size_t halves_size,
                           size_t sums_size) {
    unsigned processors = (unsigned)c->dev->cuda->processors;
    auto halves = halves_kernel<halves_format, MIXTURE_WARPS, EACH>;
    auto last = sums_kernel<digits_format, sums, MIXTURE_WARPS, EACH>;
    if (!allow_shared(c, "experts", halves, halves_size)) return;
    if (!allow_shared(c, "experts", last, sums_size)) return;
    launch(c, "experts", halves, dim3(processors), MIXTURE_WARPS * 32, halves_size, f);
    unsigned tiles = (unsigned)ceil_div(f.hidden, MIXTURE_WARPS / sums::SPLIT * sums::ROWS);
    launch(c, "experts", last, dim3(tiles < 2 * processors ? tiles : 2 * processors),
           MIXTURE_WARPS * 32, sums_size, f);
}

bool cuda_mixture(struct context *c, struct tensor y, bool add, struct tensor x,
                  const struct rms *norm, const struct mixture *m) {
    int64_t experts = m->router->out;
    if (c->precision != PRECISION_NATIVE || x.n[0] != 1) return false;
    if (experts > 512 || m->route.top > ROUTE_TOP_MOST) return false;
    struct router r = {};
    struct mixture_row f = {};
    r.x.x = (const float *)x.data;
    if (norm) r.x.normed = true, r.x.eps = norm->eps;
    if (norm && norm->w.dims) r.x.norm = (const float *)norm->w.data;
    f.choosing = choosing_of(&m->route, experts), f.hidden = (int)x.n[1], f.x = r.x;
    f.weigh_input = m->weigh_input, f.gating = m->gating;
    f.gated = m->shared_down && m->shared_weight;
    if (!find_router(m, &r) || !find_experts(m, &f) || !find_sides(&f)) return false;
    size_t memory = (size_t)(experts + f.choosing.groups) * sizeof(float);
    size_t blocks = (size_t)ceil_div((int64_t)f.entries * f.width / 32, sums::PASS) * sums::PASS;
    size_t sums_size = blocks * 72 + memory;
    size_t halves_size = (size_t)MIXTURE_WARPS * halves_format::DEPTH * halves_format::STAGE +
                         halves_format::x_bytes(f.hidden) + memory;
    size_t most = c->dev->cuda->block_shared - 1024; // with what kernels have of their own
    if (halves_size > most || sums_size > most) return false;
    int64_t logits[] = {experts + 2}, halves[] = {f.entries, f.width};
    size_t mark = scratch_mark(c);
    f.logits = r.logits = (float *)scratch_tensor(c, DT_F32, 1, logits).data;
    f.halves = (float *)scratch_tensor(c, DT_F32, 2, halves).data;
    f.y = (float *)y.data, f.add = add;
    scratch_release(c, mark);
    if (c->err.set) return true;
    launch_router(c, r);
    if (experts <= 128)
        launch_mixture<4>(c, f, halves_size, sums_size);
    else
        launch_mixture<16>(c, f, halves_size, sums_size);
    return true;
}
