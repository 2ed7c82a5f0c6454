// Attention of prompts to latents (DeepSeek's), of which the leading VALUES elements are the
// values: a block takes LATENT_ROWS rows of one head through tiles of latents, which are all heads'
// and serve as keys and as values. Sums are wider than a warpgroup's registers: two have half of
// the columns each, and both compute all scores. While one's softmax is under way, the tensor cores
// have the other's products.
#include "compute/cuda/attend_hopper.cuh"

enum { WIDTH = 576, VALUES_WIDTH = 512, LATENT_ROWS = 64 };
enum { KEYS = keys_of(WIDTH), SIZE = tile_bytes(KEYS, WIDTH) };
enum { SHARED = tile_bytes(LATENT_ROWS, WIDTH) + STAGES * SIZE + 1024 };

static __device__ __forceinline__ void produce_latents(const struct attend &a, const struct maps &m,
                                                       const struct block &b) {
    int shift = 31 - __clz((int)a.page), tile = 0;
    for (int from = 0; from < b.count;) {
        struct segment s = segment_at(*b.rows, from, b.count);
        from = s.to;
        const int32_t *table = a.table + s.seq * a.pages;
        for (int32_t t0 = s.first / KEYS * KEYS; t0 <= s.last; t0 += KEYS, tile++) {
            int stage = tile % STAGES, parity = (tile / STAGES & 1) ^ 1;
            struct gate *g = b.k_gate + stage;
            uint32_t to = b.k + stage * SIZE;
            barrier_wait(&g->empty, parity);
            if (m.rows && t0 >= s.first && t0 + KEYS - 1 <= s.last)
                fetch_whole<WIDTH>(to, &g->full, &m.k, m.rows, a, table, 0, shift, t0);
            else
                fetch_part<WIDTH>(to, &g->full, a.k, a, table, 0, shift, t0, s.first, s.last);
        }
    }
}

template <bool BRAIN>
static __device__ __forceinline__ void consume_latents(const struct attend &a,
                                                       const struct block &b) {
    const int half = VALUES_WIDTH / 2, far = tile_bytes(KEYS, PANEL);
    int group = same(threadIdx.x / GROUP), tile = 0, warp = threadIdx.x / 32;
    stage_queries<WIDTH, BRAIN, 8>(a, b, b.q, 0, warp);
    asm volatile("bar.sync 1, 256;" ::: "memory");
    int mine[2] = {warp % 4 * 16 + (int)threadIdx.x % 32 / 4, 0};
    mine[1] = mine[0] + 8;
    struct attended<WIDTH> r = {};
    r.top[0] = r.top[1] = -INFINITY;
    for (int from = 0; from < b.count;) {
        struct segment s = segment_at(*b.rows, from, b.count);
        from = same(s.to);
        int32_t t0 = s.first / KEYS * KEYS, low[2], high[2];
        seen_in(b, s, mine, low, high);
        for (int end = tile + same((s.last - t0) / KEYS) + 1; tile < end; tile++, t0 += KEYS) {
            float score[KEYS / 2], keep[2];
            uint32_t p[KEYS / 16][4], k = b.k + tile % STAGES * SIZE;
            wait_full(b.k_gate, tile);
            hold(score);
            wgmma_begin();
            begin_scores<WIDTH, BRAIN>(score, b.q, k);
            wgmma_wait<0>();
            hold(score);
            soften<WIDTH>(r, score, a, t0, low, high, keep);
            rescale<WIDTH>(r, keep);
            pack_weights<KEYS, BRAIN>(p, score);
            hold_all<WIDTH>(r);
            wgmma_begin();
            begin_values<WIDTH, BRAIN>(r, p, k + group * half / PANEL * far);
            wgmma_wait<0>();
            hold_all<WIDTH>(r);
            release(b.k_gate, tile);
        }
    }
    write_rows<WIDTH, VALUES_WIDTH / 2>(r, a, b, b.head * VALUES_WIDTH + group * half, mine);
}

template <bool BRAIN>
static __global__ void __launch_bounds__(THREADS, 1)
    latent_kernel(const __grid_constant__ struct attend a, const __grid_constant__ struct maps m) {
    extern __shared__ uint4 memory[];
    __shared__ struct block_rows rows;
    __shared__ struct gate gates[STAGES];
    struct block b;
    b.q = (shared_at(memory) + 1023) / 1024 * 1024;
    b.k = b.v = b.q + tile_bytes(LATENT_ROWS, WIDTH);
    b.k_gate = b.v_gate = gates, b.rows = &rows;
    // The last rows of a prompt see the most keys: they go first.
    b.row = (int64_t)(gridDim.y - 1 - blockIdx.y) * LATENT_ROWS, b.head = blockIdx.x;
    b.count = (int)(a.n - b.row < LATENT_ROWS ? a.n - b.row : LATENT_ROWS);
    wait_for_input();
    read_rows(rows, a, b.row, b.count);
    gates_open(gates, STAGES);
    __syncthreads();
    if (same(threadIdx.x / GROUP) == 2) {
        leave_registers<40>();
        produce_latents(a, m, b);
    } else {
        take_registers<232>();
        consume_latents<BRAIN>(a, b);
    }
}

bool attend_latents(struct context *c, const struct attend *a, int64_t pages) {
    int64_t slots = pages * a->page;
    bool shifts = !(a->page & (a->page - 1)), fits = ceil_div(a->n, LATENT_ROWS) <= 65535;
    if (!shifts || !fits || slots > INT32_MAX || a->kv_heads != 1) return false;
    if (a->k_width != WIDTH || a->v_width != VALUES_WIDTH) return false;
    auto kernel = a->type == DT_BF16 ? latent_kernel<true> : latent_kernel<false>;
    struct maps m = {};
    m.rows = rows_of_map<WIDTH>(a);
    if (m.rows && !map_of(c, &m.k, a, a->k, slots, m.rows)) return false;
    dim3 grid((unsigned)a->heads, (unsigned)ceil_div(a->n, LATENT_ROWS));
    if (allow_shared(c, "attention", kernel, SHARED))
        launch(c, "attention", kernel, grid, THREADS, SHARED, *a, m);
    return true;
}
