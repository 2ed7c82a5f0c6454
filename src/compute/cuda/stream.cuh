// Products of one row, bound by reading weights. A warp takes an output or two at a time and
// streams their rows through a ring of its own in shared memory, so that tens of kilobytes of each
// processor are always on their way. The rings are filled before a kernel waits for its input:
// memory is busy while the kernel before ends. x is staged once a block:
// - for 4-bit codes in fixed point of 16 bits a block of 32, as two digits of 8 bits that meet the
//   codes in dp4a; sums of a block are exact, and x is closer than it would be in bf16;
// - for dense weights in bf16, which is multiplied in f32.
#ifndef COMPUTE_CUDA_STREAM_CUH
#define COMPUTE_CUDA_STREAM_CUH

#include "compute/cuda/product.cuh"

// What a lane's copies of two rows begin at. `side`: those of its share of scales or biases.
struct row_pair {
    const char *codes[2], *side;
};

// `size` bytes of 16, the rest zeros.
static __device__ __forceinline__ void copy_some16(char *to, const char *from, int size) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_at(to)),
                 "l"(from), "r"(size));
}

static __device__ __forceinline__ void copy_some4(char *to, const char *from, int size) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_at(to)), "l"(from),
                 "r"(size));
}

static __device__ __forceinline__ int at_most(int a, int b) { return a < b ? a : b; }
static __device__ __forceinline__ int at_least(int a, int b) { return a > b ? a : b; }

// Rows of a matrix and what is alike in all of a launch.
struct stream_shape {
    int in, group_shift;
    bool wide; // rows of scales begin at multiples of 16 bytes, not just of 4
};

// A dot product of 32 codes and 32 digits; two words of codes meet one uint4 of digits.
struct digits {
    uint4 high[2], low[2];
};

static __device__ __forceinline__ int dot32(uint4 codes, const struct digits &x) {
    const uint32_t w[4] = {codes.x, codes.y, codes.z, codes.w};
    int high = 0;
    uint32_t low = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t even = w[i] & 0x0f0f0f0fu, odd = w[i] >> 4 & 0x0f0f0f0fu;
        uint4 h = x.high[i / 2], l = x.low[i / 2];
        high = __dp4a((int)even, (int)(i % 2 ? h.z : h.x), high);
        low = __dp4a(even, i % 2 ? l.z : l.x, low);
        high = __dp4a((int)odd, (int)(i % 2 ? h.w : h.y), high);
        low = __dp4a(odd, i % 2 ? l.w : l.y, low);
    }
    return high * 256 + (int)low;
}

// Affine codes of 4 bits with BF16 scales and biases. Two rows at a time, BLOCKS of 32 elements a
// lane in a stage.
template <int BLOCKS, int RING> struct four_format {
    static const int ROWS = 2, STEP = 1024 * BLOCKS, DEPTH = RING;
    static const int CODES = 512 * BLOCKS, SIDE = 64 * BLOCKS, PIECES = SIDE / 16;
    static const int STAGE = ROWS * (CODES + 2 * SIDE);

    // x: four planes of digits, 16 bytes a block of 32 elements each, then each block's scale and
    // sum.
    static __host__ __device__ size_t x_bytes(int in) {
        return (size_t)((in + STEP - 1) / STEP) * STEP / 32 * 72;
    }

    // Codes, and of a lane the array that it copies of: scales of the rows, then biases.
    static __device__ __forceinline__ struct row_pair pair(const struct matrix &a,
                                                           const struct matrix &b, int64_t ra,
                                                           int64_t rb) {
        struct row_pair p;
        int which = threadIdx.x % 32 / PIECES;
        const struct matrix &m = which % ROWS ? b : a;
        int64_t row = which % ROWS ? rb : ra;
        p.codes[0] = (const char *)a.data + ra * a.ld * 4;
        p.codes[1] = (const char *)b.data + rb * b.ld * 4;
        p.side = which / ROWS % 2 ? (const char *)m.biases + row * m.ld_biases * 2
                                  : (const char *)m.scales + row * m.ld_scales * 2;
        return p;
    }

    static __device__ __forceinline__ void issue(char *to, const struct row_pair &p,
                                                 const struct stream_shape &s, int k) {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int b = 0; b < BLOCKS; b++) {
                int at = (b * 32 + lane) * 16;
                copy_some16(to + r * CODES + at, p.codes[r] + k / 2 + at,
                            k + at * 2 < s.in ? 16 : 0);
            }
        if (lane >= 2 * ROWS * PIECES) return;
        char *side = to + ROWS * CODES + lane / PIECES * SIDE;
        const char *from = p.side + (k >> s.group_shift) * 2;
        int left = (s.in - k) >> s.group_shift << 1;
        if (s.wide) {
            int at = lane % PIECES * 16;
            copy_some16(side + at, from + at, at_least(at_most(left - at, 16), 0));
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int at = (lane % PIECES + i * PIECES) * 4;
                copy_some4(side + at, from + at, at_least(at_most(left - at, 4), 0));
            }
        }
    }

    static __device__ __forceinline__ float side_at(const char *stage, int array, int group) {
        uint32_t v = *(const uint16_t *)(stage + ROWS * CODES + array * SIDE + group * 2);
        return __uint_as_float(v << 16);
    }

    static __device__ __forceinline__ void dot(float sum[2], const char *stage, const char *x,
                                               const struct stream_shape &s, int k) {
        int lane = threadIdx.x % 32, blocks = (s.in + STEP - 1) / STEP * STEP / 32;
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            int own = b * 32 + lane, at = k / 32 + own, group = own >> (s.group_shift - 5);
            const uint4 *plane = (const uint4 *)x + at;
            struct digits d = {{plane[0], plane[blocks]}, {plane[2 * blocks], plane[3 * blocks]}};
            float2 scale = ((const float2 *)(x + (size_t)blocks * 64))[at];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                int t = dot32(*(const uint4 *)(stage + r * CODES + own * 16), d);
                sum[r] = fmaf(side_at(stage, r, group), scale.x * (float)t, sum[r]);
                sum[r] = fmaf(side_at(stage, ROWS + r, group), scale.y, sum[r]);
            }
        }
    }

    // Eight elements at 8 * unit; four lanes side by side have a block.
    static __device__ __forceinline__ void put(char *x, int in, int unit, const float v[8]) {
        int blocks = (in + STEP - 1) / STEP * STEP / 32, block = unit / 4, word = unit % 4;
        uint32_t top = 0; // of positive floats, and of NaN, the bits are in order
#pragma unroll
        for (int i = 0; i < 8; i++) top = max(top, __float_as_uint(v[i]) & 0x7fffffffu);
        top = max(top, __shfl_xor_sync(~0u, top, 1));
        top = max(top, __shfl_xor_sync(~0u, top, 2));
        float size = __uint_as_float(top), by = top ? 32767.0f / size : 0.0f;
        uint32_t q[8];
        int sum = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) { // rounded by the addition; the low 16 bits are the number
            q[i] = __float_as_uint(fmaf(v[i], by, 12582912.0f));
            sum += (int)(int16_t)q[i];
        }
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        uint2 high, low; // even elements, then odd ones, as codes come
        high.x = __byte_perm(__byte_perm(q[0], q[2], 0x51), __byte_perm(q[4], q[6], 0x51), 0x5410);
        high.y = __byte_perm(__byte_perm(q[1], q[3], 0x51), __byte_perm(q[5], q[7], 0x51), 0x5410);
        low.x = __byte_perm(__byte_perm(q[0], q[2], 0x40), __byte_perm(q[4], q[6], 0x40), 0x5410);
        low.y = __byte_perm(__byte_perm(q[1], q[3], 0x40), __byte_perm(q[5], q[7], 0x40), 0x5410);
        uint2 *plane = (uint2 *)x + (word / 2 * blocks + block) * 2 + word % 2;
        plane[0] = high;
        plane[4 * blocks] = low;
        float scale = size / 32767.0f;
        if (word == 0)
            ((float2 *)(x + (size_t)blocks * 64))[block] = make_float2(scale, scale * (float)sum);
    }
};

// Eight elements of BF16.
static __device__ __forceinline__ void widen(float to[8], uint4 v) {
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        to[2 * i] = __uint_as_float(w[i] << 16);
        to[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
    }
}

// Dense BF16. ITEM rows at a time, BLOCKS of 8 elements a lane in a stage.
template <int ITEM, int BLOCKS, int RING> struct dense_format {
    static const int ROWS = ITEM, STEP = 256 * BLOCKS, DEPTH = RING;
    static const int CODES = 512 * BLOCKS, STAGE = ROWS * CODES;

    static __host__ __device__ size_t x_bytes(int in) {
        return (size_t)((in + STEP - 1) / STEP) * STEP * 2;
    }

    static __device__ __forceinline__ struct row_pair pair(const struct matrix &a,
                                                           const struct matrix &b, int64_t ra,
                                                           int64_t rb) {
        struct row_pair p = {
            {(const char *)a.data + ra * a.ld * 2, (const char *)b.data + rb * b.ld * 2}, NULL};
        return p;
    }

    static __device__ __forceinline__ void issue(char *to, const struct row_pair &p,
                                                 const struct stream_shape &s, int k) {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int b = 0; b < BLOCKS; b++) {
                int at = (b * 32 + lane) * 16;
                copy_some16(to + r * CODES + at, p.codes[r] + k * 2 + at,
                            k + at / 2 < s.in ? 16 : 0);
            }
    }

    static __device__ __forceinline__ void dot(float sum[2], const char *stage, const char *x,
                                               const struct stream_shape &s, int k) {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            int at = (b * 32 + lane) * 16;
            float u[8], v[8];
            widen(u, *(const uint4 *)(x + k * 2 + at));
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                widen(v, *(const uint4 *)(stage + r * CODES + at));
#pragma unroll
                for (int i = 0; i < 8; i++) sum[r] = fmaf(u[i], v[i], sum[r]);
            }
        }
    }

    static __device__ __forceinline__ void put(char *x, int in, int unit, const float v[8]) {
        *(uint4 *)(x + (size_t)unit * 16) =
            make_uint4(pack(v[0], v[1]), pack(v[2], v[3]), pack(v[4], v[5]), pack(v[6], v[7]));
    }
};

// A row of x, normed first where there is a norm.
struct stream_x {
    const float *x;
    bool normed;
    const float *norm; // [in] or NULL
    float eps;
};

// From memory that the launch before may have written; elsewhere all are `other`.
static __device__ __forceinline__ void load_eight(float to[8], const float *from, bool there,
                                                  float other) {
    float4 a = make_float4(other, other, other, other), b = a;
    if (there) a = __ldcg((const float4 *)from);
    if (there) b = __ldcg((const float4 *)from + 1);
    to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w;
    to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}

// What a launch has of a block: warps, registers a thread, and units of 8 elements of x that a
// thread holds at once; a row that is normed has no more.
template <int W, int R, int H> struct stream_block {
    static const int WARPS = W, THREADS = W * 32, REGISTERS = R, HELD = H, MOST = 8 * H * W * 32;
};

// The norm's weights of a thread's units, which need not wait for x.
template <class Block> struct held_norm { float w[Block::HELD][8]; };

template <class Block>
static __device__ __forceinline__ struct held_norm<Block> hold_norm(const struct stream_x &x,
                                                                    int in) {
    struct held_norm<Block> n;
#pragma unroll
    for (int i = 0; i < Block::HELD; i++) {
        int at = ((int)threadIdx.x + i * Block::THREADS) * 8;
        load_eight(n.w[i], x.norm + at, x.norm && at < in, 1);
    }
    return n;
}

// By a block.
template <class Format, class Block>
static __device__ __forceinline__ void stage_row(char *to, const struct stream_x &x, int in,
                                                 const struct held_norm<Block> &norm) {
    const int HELD = Block::HELD, THREADS = Block::THREADS;
    int units = (in + Format::STEP - 1) / Format::STEP * Format::STEP / 8;
    for (int base = 0; base < units; base += HELD * THREADS) {
        int u0 = base + (int)threadIdx.x;
        float v[HELD][8], sum = 0;
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            int at = (u0 + i * THREADS) * 8;
            load_eight(v[i], x.x + at, at < in, 0);
        }
        if (x.normed) {
#pragma unroll
            for (int i = 0; i < HELD * 8; i++) sum += v[i / 8][i % 8] * v[i / 8][i % 8];
            float by = 1.0f / sqrtf(block_sum(sum) / (float)in + x.eps);
#pragma unroll
            for (int i = 0; i < HELD * 8; i++) v[i / 8][i % 8] *= by * norm.w[i / 8][i % 8];
        }
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (u0 + i * THREADS < units) Format::put(to, in, u0 + i * THREADS, v[i]);
    }
}

// The ring of a warp: what comes next, item by item (a row or two), stage by stage.
template <class Format, class Pair> struct feeder {
    char *ring;
    int item, step, end, k, slot;
    struct row_pair pair;

    __device__ __forceinline__ void begin(const Pair &at) {
        if (item < end) pair = at(item);
    }

    __device__ __forceinline__ void next(const struct stream_shape &s, const Pair &at) {
        k += Format::STEP;
        if (k >= s.in) k = 0, item += step, begin(at);
    }

    __device__ __forceinline__ void feed(const struct stream_shape &s, const Pair &at) {
        if (item < end) {
            Format::issue(ring + slot * Format::STAGE, pair, s, k);
            next(s, at);
        }
        asm volatile("cp.async.commit_group;");
        slot = slot + 1 == Format::DEPTH ? 0 : slot + 1;
    }
};

// A warp's items: at(item) gives the rows, x_of(item) the staged x, done(item, sums) takes the sums
// of its rows, which all lanes have. ready() is called once the ring is full.
template <class Format, class Pair, class Ready, class X, class Done>
static __device__ __forceinline__ void stream_items(char *ring, int first, int step, int end,
                                                    const struct stream_shape &s, const Pair &at,
                                                    const Ready &ready, const X &x_of,
                                                    const Done &done) {
    struct feeder<Format, Pair> f = {
        ring, first, step, end, 0, 0
    };
    f.begin(at);
#pragma unroll
    for (int i = 0; i + 1 < Format::DEPTH; i++) f.feed(s, at);
    ready();
    int slot = 0;
    for (int item = first; item < end; item += step) {
        float sum[2] = {0, 0};
        const char *x = x_of(item);
        for (int k = 0; k < s.in; k += Format::STEP) {
            asm volatile("cp.async.wait_group %0;" ::"n"(Format::DEPTH - 2));
            __syncwarp();
            f.feed(s, at);
            Format::dot(sum, ring + slot * Format::STAGE, x, s, k);
            slot = slot + 1 == Format::DEPTH ? 0 : slot + 1;
        }
#pragma unroll
        for (int r = 0; r < Format::ROWS; r++) sum[r] = warp_sum(sum[r]);
        done(item, sum);
    }
}

#endif
