// Which products go to the kernels of tiles.cuh, and how those are launched.
#include "compute/cuda/tiles.cuh"

// Beyond so many rows, expanding a dense weight once for cuBLASLt costs less.
enum { TILES_ROWS = 512 };

template <class Form, bool EXPERTS>
static __global__ void __launch_bounds__(Form::THREADS, 1)
    tiles_kernel(const __grid_constant__ struct tiles f) {
    tiles_compute<Form, EXPERTS>(f);
}

// --- launching -----------------------------------------------------------------------------------

template <class Form, bool EXPERTS> static void launch_tiles(struct context *c, struct tiles f) {
    auto kernel = tiles_kernel<Form, EXPERTS>;
    const char *op = EXPERTS ? "experts" : "linear";
    const int out = 16 * Form::WARPS;
    size_t mark = scratch_mark(c);
    if (!allow_shared(c, op, kernel, Form::SIZE)) return;
    f.across = (int)ceil_div(f.n, Form::N);
    for (int i = 0; i < f.count; i++) {
        f.first[i] = f.down;
        f.down += (int)ceil_div(f.w[i].out * (f.gated ? 2 : 1), out);
    }
    int64_t tiles = (int64_t)f.down * f.across, most = c->dev->cuda->processors;
    if (EXPERTS) tiles = most; // how many there are is known on the device alone
    int splits =
        EXPERTS ? 1
                : cluster_blocks(c, kernel, tiles, f.shape.in / TILES_K, Form::THREADS, Form::SIZE);
    if (splits > 1) {
        int64_t parts[] = {tiles * splits, Form::N / 2 * Form::LANES};
        f.parts = (float4 *)scratch_tensor(c, DT_F32, 2, parts).data;
    }
    cudaLaunchAttribute attribute[2] = {};
    cudaLaunchConfig_t config =
        cluster_launch(attribute, dim3((unsigned)(tiles < most ? tiles : most)), splits,
                       Form::THREADS, Form::SIZE);
    config.stream = c->dev->cuda->stream;
    if (!c->err.set) cuda_ok(&c->err, cudaLaunchKernelEx(&config, kernel, f), op);
    scratch_release(c, mark);
}

// --- what they take ------------------------------------------------------------------------------

static bool takes(const struct context *c, const struct weight *w) {
    if (!c->dev->cuda->hopper || c->precision != PRECISION_NATIVE) return false;
    if (kind_of(w) != FOUR_BF16 || w->in % TILES_K || w->group > 128) return false;
    return sides_begin_at(w, (size_t)(2 * TILES_K / w->group));
}

bool tiles_take(const struct context *c, int64_t rows, const struct weight *w) {
    return rows > 1 && (rows <= TILES_ROWS || !c->dev->cuda->blas) && takes(c, w);
}

static bool takes_all(const struct context *c, const struct matrices *w) {
    for (int64_t i = 0; i < w->n; i++)
        if (!takes(c, &w->w[i]) || !same_kind(w->w, &w->w[i]) || w->w[i].bias.dims) return false;
    return true;
}

// False: not a function that the kernels have.
static bool gate_by(struct tiles *f, const struct gating &g) {
    f->gated = true, f->gating = g;
    return curve_of(&f->curve, g.act);
}

// x, or the rows of it that `list` has, for tiles.
static void tile(struct context *c, struct tiles *f, struct tensor x, const struct rms *norm,
                 const int32_t *list, int64_t n) {
    int64_t in = x.n[1], room[] = {ceil_div(n, 8) * 8, in};
    struct tensor to = scratch_tensor(c, DT_BF16, 2, room);
    struct tiled t = {};
    t.to = (uint4 *)to.data, t.rows = room[0];
    t.x = (const float *)x.data, t.ldx = x.stride[0], t.in = (int)in, t.list = list;
    t.aligned = ((uintptr_t)x.data | (size_t)x.stride[0] * 4) % 16 == 0;
    if (norm) {
        t.normed = true, t.eps = norm->eps;
        t.norm = (const float *)(norm->w.dims ? norm->w.data : NULL);
        t.aligned = t.aligned && (uintptr_t)t.norm % 16 == 0;
    }
    int64_t stages = in / TILES_K;
    f->x = t.to, f->n = (int)n, f->rows = (int)room[0];
    if (!c->err.set)
        launch(c, "linear", tile_kernel, dim3((unsigned)n), 32 * (int)(stages < 16 ? stages : 16),
               0, t);
}

bool tiles_around(struct context *c, const struct around *a) {
    int64_t n = a->x.n[0];
    struct tiles f = {};
    struct gating gating = {a->act, 0, 0};
    f.count = a->count, f.add = a->result == RESULT_ADDED, f.shape = shape_of(a->w[0]);
    if (a->x.type != DT_F32) return false;
    for (int i = 0; i < a->count; i++) {
        if (!tiles_take(c, n, a->w[i]) || !same_kind(a->w[0], a->w[i])) return false;
        const struct tensor *y = &a->y[a->result == RESULT_GATED ? 0 : i];
        f.w[i] = matrix_of(a->w[i], (float *)y->data, y->stride[0]);
    }
    if (a->result == RESULT_GATED) {
        f.count = 1;
        if (!gate_by(&f, gating)) return false;
    }
    size_t mark = scratch_mark(c);
    tile(c, &f, a->x, a->norm, NULL, n);
    if (n <= 16)
        launch_tiles<tiles_form<16>, false>(c, f);
    else if (n <= 32)
        launch_tiles<tiles_form<32>, false>(c, f);
    else if (n <= 64)
        launch_tiles<tiles_form<64>, false>(c, f);
    else
        launch_tiles<tiles_form<128>, false>(c, f);
    scratch_release(c, mark);
    return true;
}

bool tiles_experts(struct context *c, struct tensor y, struct tensor x, const struct routes *r,
                   const struct matrices *w, const struct matrices *up, const struct gating *g,
                   bool rows) {
    int64_t m = r->order.n[0], each = m / w->n;
    struct tiles f = {};
    if (m < 16 || r->ids.n[0] == 1 || !takes_all(c, w) ||
        (up && !(takes_all(c, up) && same_kind(w->w, up->w))))
        return false;
    if (up && !gate_by(&f, *g)) return false;
    f.shape = shape_of(w->w), f.count = 1;
    f.w[0].y = (float *)y.data, f.w[0].ldy = y.stride[0], f.w[0].out = w->w->out;
    f.start = (const int32_t *)r->start.data, f.experts = (int)w->n;
    f.expert[0] = w->on_device, f.expert[1] = up ? up->on_device : NULL;
    size_t mark = scratch_mark(c);
    tile(c, &f, x, NULL, rows ? (const int32_t *)r->row.data : NULL, m);
    if (each <= 8)
        launch_tiles<tiles_form<16>, true>(c, f);
    else if (each <= 16)
        launch_tiles<tiles_form<32>, true>(c, f);
    else if (each <= 96)
        launch_tiles<tiles_form<64>, true>(c, f);
    else
        launch_tiles<tiles_form<128>, true>(c, f);
    scratch_release(c, mark);
    return true;
}
