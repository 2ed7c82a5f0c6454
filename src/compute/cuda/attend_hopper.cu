// Attention of prompts on Hopper's own tensor core instructions: a block takes ROWS rows of one
// head, 64 each of its first two warpgroups; a third fetches tiles of keys and values for both,
// STAGES ahead. While a warpgroup's softmax of one tile is under way, the tensor cores multiply the
// weights of the tile before by its values. Rows of several sequences in a block are taken one
// sequence after another.
#include "compute/cuda/attend_hopper.cuh"

static __host__ __device__ constexpr int shared_bytes(int d) {
    return tile_bytes(ROWS, d) + 2 * STAGES * tile_bytes(keys_of(d), d) + 1024;
}

// `tiles` tiles of a segment, from key t0 on; the first is tile `at` of all that the block fetches.
template <int D, bool BRAIN>
static __device__ __forceinline__ void attend_segment(struct attended<D> &r, const struct attend &a,
                                                      const struct block &b, uint32_t q, int at,
                                                      int tiles, int32_t t0, const int32_t first[2],
                                                      const int32_t last[2]) {
    constexpr int KEYS = keys_of(D), SIZE = tile_bytes(KEYS, D);
    float s[KEYS / 2], keep[2];
    uint32_t p[KEYS / 16][4];
    wait_full(b.k_gate, at);
    hold(s);
    wgmma_begin();
    begin_scores<D, BRAIN>(s, q, b.k + at % STAGES * SIZE);
    wgmma_wait<0>();
    hold(s);
    release(b.k_gate, at);
    soften<D>(r, s, a, t0, first, last, keep);
    rescale<D>(r, keep);
    pack_weights<KEYS, BRAIN>(p, s);
    for (int end = at + tiles - 1; at < end; at++) {
        t0 += KEYS;
        wait_full(b.k_gate, at + 1);
        hold(s);
        hold_all<D>(r);
        wgmma_begin();
        begin_scores<D, BRAIN>(s, q, b.k + (at + 1) % STAGES * SIZE);
        wait_full(b.v_gate, at);
        wgmma_begin();
        begin_values<D, BRAIN>(r, p, b.v + at % STAGES * SIZE);
        wgmma_wait<1>();
        hold(s);
        release(b.k_gate, at + 1);
        soften<D>(r, s, a, t0, first, last, keep);
        wgmma_wait<0>();
        hold_all<D>(r);
        release(b.v_gate, at);
        rescale<D>(r, keep);
        pack_weights<KEYS, BRAIN>(p, s);
    }
    wait_full(b.v_gate, at);
    hold_all<D>(r);
    wgmma_begin();
    begin_values<D, BRAIN>(r, p, b.v + at % STAGES * SIZE);
    wgmma_wait<0>();
    hold_all<D>(r);
    release(b.v_gate, at);
}

// Tiles of which a warpgroup needs nothing. None of a warp's lanes may still wait when one releases
// a tile: it could miss two turns of the gate. Elsewhere products bring them together.
static __device__ __forceinline__ int pass_by(const struct block &b, int at, int tiles) {
    for (int end = at + tiles; at < end; at++) {
        wait_full(b.k_gate, at);
        __syncwarp();
        release(b.k_gate, at);
        wait_full(b.v_gate, at);
        __syncwarp();
        release(b.v_gate, at);
    }
    return at;
}

template <int D, bool BRAIN>
static __device__ __forceinline__ void consume(const struct attend &a, const struct block &b) {
    constexpr int KEYS = keys_of(D);
    int group = same(threadIdx.x / GROUP), tile = 0;
    uint32_t q = b.q + group * tile_bytes(64, D);
    stage_queries<D, BRAIN, 4>(a, b, q, group * 64, threadIdx.x / 32 % 4);
    asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
    int mine[2] = {(int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4, 0};
    mine[1] = mine[0] + 8;
    struct attended<D> r = {};
    r.top[0] = r.top[1] = -INFINITY;
    for (int from = 0; from < b.count;) {
        struct segment s = segment_at(*b.rows, from, b.count);
        from = same(s.to);
        int32_t t0 = s.first / KEYS * KEYS, low[2], high[2];
        seen_in(b, s, mine, low, high);
        // What the warpgroup sees: rows follow each other in their sequence's order.
        int own = max(s.from, group * 64), end = min(s.to, group * 64 + 64);
        int all = (s.last - t0) / KEYS + 1, before = all, after = 0;
        if (own < end) {
            before = (b.rows->first[own] - t0) / KEYS;
            after = all - 1 - (b.rows->last[end - 1] - t0) / KEYS;
        }
        before = same(before), after = same(after);
        int tiles = same(all) - before - after;
        tile = pass_by(b, tile, before);
        if (tiles) attend_segment<D, BRAIN>(r, a, b, q, tile, tiles, t0 + before * KEYS, low, high);
        tile = pass_by(b, tile + tiles, after);
    }
    write_rows<D, D>(r, a, b, b.head * D, mine);
}

template <int D, bool BRAIN>
static __global__ void __launch_bounds__(THREADS, 1)
    hopper_kernel(const __grid_constant__ struct attend a, const __grid_constant__ struct maps m) {
    extern __shared__ uint4 memory[];
    __shared__ struct block_rows rows;
    __shared__ struct gate gates[2][STAGES];
    struct block b;
    b.q = (shared_at(memory) + 1023) / 1024 * 1024;
    b.k = b.q + tile_bytes(ROWS, D), b.v = b.k + STAGES * tile_bytes(keys_of(D), D);
    b.k_gate = gates[0], b.v_gate = gates[1], b.rows = &rows;
    // The last rows of a prompt see the most keys: they go first.
    b.row = (int64_t)(gridDim.y - 1 - blockIdx.y) * ROWS, b.head = blockIdx.x;
    b.count = (int)(a.n - b.row < ROWS ? a.n - b.row : ROWS);
    wait_for_input();
    read_rows(rows, a, b.row, b.count);
    gates_open(gates[0], 2 * STAGES);
    __syncthreads();
    if (same(threadIdx.x / GROUP) == 2) {
        leave_registers<40>();
        produce<D>(a, m, b);
    } else {
        take_registers<232>();
        consume<D, BRAIN>(a, b);
    }
}

template <int D, bool BRAIN>
static bool launch_hopper(struct context *c, const struct attend *a, int64_t slots) {
    auto kernel = hopper_kernel<D, BRAIN>;
    dim3 grid((unsigned)a->heads, (unsigned)ceil_div(a->n, ROWS));
    struct maps m = {};
    m.rows = rows_of_map<D>(a);
    if (m.rows &&
        (!map_of(c, &m.k, a, a->k, slots, m.rows) || !map_of(c, &m.v, a, a->v, slots, m.rows)))
        return false;
    if (allow_shared(c, "attention", kernel, shared_bytes(D)))
        launch(c, "attention", kernel, grid, THREADS, shared_bytes(D), *a, m);
    return true;
}

template <int D>
static bool launch_hopper(struct context *c, const struct attend *a, int64_t slots) {
    return a->type == DT_BF16 ? launch_hopper<D, true>(c, a, slots)
                              : launch_hopper<D, false>(c, a, slots);
}

bool attend_hopper(struct context *c, const struct attend *a, int64_t pages) {
    int64_t slots = pages * a->kv_heads * a->page;
    bool shifts = !(a->page & (a->page - 1)), fits = ceil_div(a->n, ROWS) <= 65535;
    if (!shifts || !fits || slots > INT32_MAX) return false;
    if (a->k_width == 64) return launch_hopper<64>(c, a, slots);
    if (a->k_width == 128) return launch_hopper<128>(c, a, slots);
    return a->k_width == 256 && launch_hopper<256>(c, a, slots);
}
