// The instructions of inline PTX, each a function named for it. Operands in braces are arrays: of
// pointers where they are written to.
#ifndef EMULATE_PTX_H
#define EMULATE_PTX_H

namespace ptx {

template <class T, class... R> std::array<T *, 1 + sizeof...(R)> places(T &first, R &...rest) {
    return {&first, &rest...};
}
template <class T, class... R> std::array<T, 1 + sizeof...(R)> values(T first, R... rest) {
    return {first, (T)rest...};
}
template <class T> T value(T v) { return v; }
template <class T> T value(T *p) { return *p; }

struct nowhere {};

static inline uint32_t cluster_ctarank() { return emu::cluster_rank(); }
static inline uint32_t cluster_nctarank() { return emu::cluster_blocks(); }

// --- plain ---------------------------------------------------------------------------------------

template <class T, class V> void mov_u32(T &to, V v) { to = (T)v; }
static inline void mov_b64(uint64_t &to, std::array<uint32_t, 2> v) {
    to = (uint64_t)v[1] << 32 | v[0];
}
template <class A, class B> void setp_ne_b32(bool &p, A a, B b) { p = (uint32_t)a != (uint32_t)b; }
static inline void ex2_approx_ftz_f32(float &y, float x) {
    y = fabsf(x) < 0x1p-126f ? 1.0f : exp2f(x);
    if (y < 0x1p-126f) y = 0;
}
static inline void lop3_b32(uint32_t &y, uint32_t a, uint32_t b, uint32_t c, int table) {
    y = 0;
    for (int i = 0; i < 8; i++)
        if (table >> i & 1) y |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
}
static inline void ld_global_nc_v4_u32(std::array<uint32_t *, 4> to, const void *from) {
    const uint4 v = *(const uint4 *)from;
    *to[0] = v.x, *to[1] = v.y, *to[2] = v.z, *to[3] = v.w;
}
static inline void ld_global_nc_u16(uint16_t &to, const void *from) {
    to = *(const uint16_t *)from;
}
template <class... A> void prefetch_global_L2(A...) {}
template <class... A> void prefetch_tensormap(A...) {}
template <class... A> void setmaxnreg_inc_sync_aligned_u32(A...) {}
template <class... A> void setmaxnreg_dec_sync_aligned_u32(A...) {}
static inline void createpolicy_fractional_L2_evict_first_b64(uint64_t &to, double) { to = 0; }
static inline void griddepcontrol_wait() { emu::wait_for_last(); }
static inline void griddepcontrol_launch_dependents() { emu::let_next_begin(); }

// --- shared memory and clusters ------------------------------------------------------------------

template <class T> T &in_shared(uint32_t at) {
    return *(T *)emu::shared_place(at, sizeof(T), alignof(T));
}
static inline void st_shared_b32(uint32_t at, uint32_t v) { in_shared<uint32_t>(at) = v; }
static inline void st_shared_cluster_f32(uint32_t at, float v) { in_shared<float>(at) = v; }
static inline void ld_shared_cluster_f32(float &v, uint32_t at) { v = in_shared<float>(at); }
static inline void mapa_shared_cluster_u32(uint32_t &to, uint32_t at, uint32_t rank) {
    to = emu::cluster_address(at, rank);
}
static inline void barrier_cluster_arrive_release_aligned() { emu::cluster_arrive(); }
static inline void barrier_cluster_arrive_relaxed_aligned() { emu::cluster_arrive(); }
static inline void barrier_cluster_wait_acquire_aligned() { emu::cluster_wait(); }
static inline void bar_sync(int number, int count) { emu::barrier(number, count, 0); }

static inline void cp_async_cg_shared_global(uint32_t to, const void *from, int bytes, int real) {
    emu::copy_async(to, from, bytes, real);
}
static inline void cp_async_cg_shared_global(uint32_t to, const void *from, int bytes) {
    emu::copy_async(to, from, bytes, bytes);
}
static inline void cp_async_ca_shared_global(uint32_t to, const void *from, int bytes, int real) {
    emu::copy_async(to, from, bytes, real);
}
static inline void cp_async_ca_shared_global(uint32_t to, const void *from, int bytes) {
    emu::copy_async(to, from, bytes, bytes);
}
static inline void cp_async_commit_group() { emu::copy_commit(); }
static inline void cp_async_wait_group(int pending) { emu::copy_wait(pending); }
static inline void cp_async_wait_all() { emu::copy_wait(-1); }

static inline void fence_mbarrier_init_release_cluster() {}
static inline void fence_proxy_async_shared_cta() {}
static inline void mbarrier_init_shared_cta_b64(uint32_t at, int count) {
    emu::mbarrier_init(at, (uint32_t)count);
}
static inline void mbarrier_arrive_shared_cta_b64(nowhere, uint32_t at) {
    emu::mbarrier_arrive(at, 0);
}
static inline void mbarrier_arrive_expect_tx_shared_cta_b64(nowhere, uint32_t at, int bytes) {
    emu::mbarrier_arrive(at, (uint32_t)bytes);
}
static inline void mbarrier_try_wait_parity_shared_cta_b64(bool &done, uint32_t at, int parity) {
    emu::mbarrier_wait(at, (uint32_t)parity);
    done = true;
}
template <class T, size_t N> void st_async_floats(uint32_t to, std::array<T, N> v, uint32_t at) {
    float f[N];
    for (size_t i = 0; i < N; i++) f[i] = (float)v[i];
    emu::store_async(to, f, (int)N, at);
}
template <class V>
void st_async_shared_cluster_mbarrier_complete_tx_bytes_v4_f32(uint32_t to, V v, uint32_t at) {
    st_async_floats(to, v, at);
}
template <class V>
void st_async_shared_cluster_mbarrier_complete_tx_bytes_v2_f32(uint32_t to, V v, uint32_t at) {
    st_async_floats(to, v, at);
}
static inline void cp_async_bulk_shared_cluster_global_mbarrier_complete_tx_bytes(uint32_t to,
                                                                                  const void *from,
                                                                                  int bytes,
                                                                                  uint32_t at) {
    emu::copy_bulk(to, from, bytes, at);
}
template <class... Hint>
void cp_async_bulk_tensor_2d_shared_cluster_global_mbarrier_complete_tx_bytes(
    uint32_t to, const void *map, std::array<int, 2> from, uint32_t at, Hint...) {
    emu::copy_box(to, map, from[0], from[1], at);
}

// --- tensor cores --------------------------------------------------------------------------------

static inline float of_brain(uint32_t v) { return __uint_as_float(v << 16); }
static inline float of_half(uint32_t v) {
    __half_raw h;
    h.x = (unsigned short)v;
    return __half2float(__half(h));
}

// d [16, 8] = a [16, K] b [K, 8] + c. An operand's register has EACH elements, all of one row (of
// a) or column (of b): of row lane / 4 (+ 8 in a's odd registers), from EACH * (lane % 4) on (+ K /
// 2 in the second half of the registers).
template <int EACH, class T, T (*A_OF)(uint32_t, int), T (*B_OF)(uint32_t, int), size_t A, size_t B,
          class D, class C>
void multiply(D d, std::array<uint32_t, A> a, std::array<uint32_t, B> b, C c) {
    struct part {
        std::array<uint32_t, A> a;
        std::array<uint32_t, B> b;
        T sum[4];
    } p = {a, b, {(T)value(c[0]), (T)value(c[1]), (T)value(c[2]), (T)value(c[3])}};
    emu::meet(~0u, "mma", &p, [](void **lanes) {
        const int K = 4 * EACH * (int)B;
        T x[16][K], y[8][K];
        for (int i = 0; i < 32; i++) {
            const part *q = (const part *)lanes[i];
            int g = i / 4, t = i % 4;
            for (int e = 0; e < EACH; e++) {
                for (int r = 0; r < (int)A; r++)
                    x[g + r % 2 * 8][r / 2 * 4 * EACH + EACH * t + e] = A_OF(q->a[r], e);
                for (int r = 0; r < (int)B; r++)
                    y[g][r * 4 * EACH + EACH * t + e] = B_OF(q->b[r], e);
            }
        }
        for (int i = 0; i < 32; i++)
            for (int e = 0; e < 4; e++) {
                const T *u = x[i / 4 + e / 2 * 8], *v = y[i % 4 * 2 + e % 2];
                T sum = 0;
                for (int k = 0; k < K; k++) sum += u[k] * v[k];
                ((part *)lanes[i])->sum[e] += sum;
            }
    });
    for (int e = 0; e < 4; e++) *d[e] = p.sum[e];
}

static inline float brain_at(uint32_t v, int e) { return of_brain(v >> (16 * e) & 0xffff); }
static inline float half_at(uint32_t v, int e) { return of_half(v >> (16 * e) & 0xffff); }
static inline float float_at(uint32_t v, int) { return __uint_as_float(v & 0xffffe000u); }
static inline int32_t signed_at(uint32_t v, int e) { return (int8_t)(v >> (8 * e)); }
static inline int32_t unsigned_at(uint32_t v, int e) { return (uint8_t)(v >> (8 * e)); }

template <class D, class A, class B, class C>
void mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(D d, A a, B b, C c) {
    multiply<2, float, brain_at, brain_at>(d, a, b, c);
}
template <class D, class A, class B, class C>
void mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(D d, A a, B b, C c) {
    multiply<2, float, half_at, half_at>(d, a, b, c);
}
template <class D, class A, class B, class C>
void mma_sync_aligned_m16n8k8_row_col_f32_tf32_tf32_f32(D d, A a, B b, C c) {
    multiply<1, float, float_at, float_at>(d, a, b, c);
}
template <class D, class A, class B, class C>
void mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32(D d, A a, B b, C c) {
    multiply<4, int32_t, signed_at, signed_at>(d, a, b, c);
}
template <class D, class A, class B, class C>
void mma_sync_aligned_m16n8k32_row_col_s32_u8_s8_s32(D d, A a, B b, C c) {
    multiply<4, int32_t, unsigned_at, signed_at>(d, a, b, c);
}

// Lane 8 i + r has the address of row r of matrix i.
template <bool ACROSS> void load_matrices(std::array<uint32_t *, 4> to, uint32_t at) {
    struct part {
        uint16_t row[8];
        uint32_t out[4];
    } p;
    memcpy(p.row, emu::shared_place(at, 16, 16), 16);
    emu::meet(~0u, "ldmatrix", &p, [](void **lanes) {
        for (int i = 0; i < 32; i++)
            for (int m = 0; m < 4; m++) {
                uint32_t v[2];
                for (int e = 0; e < 2; e++) {
                    int r = ACROSS ? i % 4 * 2 + e : i / 4, c = ACROSS ? i / 4 : i % 4 * 2 + e;
                    v[e] = ((part *)lanes[m * 8 + r])->row[c];
                }
                ((part *)lanes[i])->out[m] = v[1] << 16 | v[0];
            }
    });
    for (int m = 0; m < 4; m++) *to[m] = p.out[m];
}
static inline void ldmatrix_sync_aligned_m8n8_x4_shared_b16(std::array<uint32_t *, 4> to,
                                                            uint32_t at) {
    load_matrices<false>(to, at);
}
static inline void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(std::array<uint32_t *, 4> to,
                                                                  uint32_t at) {
    load_matrices<true>(to, at);
}
static inline void movmatrix_sync_aligned_m8n8_trans_b16(uint32_t &to, uint32_t from) {
    struct part {
        uint32_t in, out;
    } p = {from, 0};
    emu::meet(~0u, "movmatrix", &p, [](void **lanes) {
        auto element = [&](int r, int c) {
            return ((part *)lanes[r * 4 + c / 2])->in >> (c % 2 * 16) & 0xffff;
        };
        for (int i = 0; i < 32; i++)
            ((part *)lanes[i])->out =
                element(i % 4 * 2 + 1, i / 4) << 16 | element(i % 4 * 2, i / 4);
    });
    to = p.out;
}

static inline void wgmma_fence_sync_aligned() {}
static inline void wgmma_commit_group_sync_aligned() { emu::multiply_commit(); }
static inline void wgmma_wait_group_sync_aligned(int pending) { emu::multiply_wait(pending); }

template <size_t N>
void wgmma(bool brain, std::array<float *, N> d, const uint32_t *a, uint64_t a_place,
           uint64_t b_place, bool add, bool across) {
    emu::product p;
    p.sums[emu::me->lane].assign(d.begin(), d.end());
    for (int i = 0; i < 4; i++) p.a[emu::me->lane][i] = a ? a[i] : 0;
    p.a_place = a_place, p.b_place = b_place, p.a_in_memory = !a, p.brain = brain;
    p.add = add, p.across = across;
    emu::multiply(&p);
}
template <size_t N>
void wgmma_mma_async_sync_aligned_m64k16_f32_bf16_bf16(std::array<float *, N> d,
                                                       std::array<uint32_t, 4> a, uint64_t b,
                                                       bool add, int, int, int across) {
    wgmma(true, d, a.data(), 0, b, add, across);
}
template <size_t N>
void wgmma_mma_async_sync_aligned_m64k16_f32_bf16_bf16(std::array<float *, N> d, uint64_t a,
                                                       uint64_t b, bool add, int, int, int,
                                                       int across) {
    wgmma(true, d, NULL, a, b, add, across);
}
template <size_t N>
void wgmma_mma_async_sync_aligned_m64k16_f32_f16_f16(std::array<float *, N> d,
                                                     std::array<uint32_t, 4> a, uint64_t b,
                                                     bool add, int, int, int across) {
    wgmma(false, d, a.data(), 0, b, add, across);
}
template <size_t N>
void wgmma_mma_async_sync_aligned_m64k16_f32_f16_f16(std::array<float *, N> d, uint64_t a,
                                                     uint64_t b, bool add, int, int, int,
                                                     int across) {
    wgmma(false, d, NULL, a, b, add, across);
}

} // namespace ptx

#endif
