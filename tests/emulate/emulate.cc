// Runs kernels on the processor: fibers, what they wait for, and shared memory.
//
// EMULATE_ORDER   in which order threads run that can: 0 in turn (default), 1 the last that became
//                 ready first, others: by chance, from that seed
// EMULATE_TRACE   1: says which kernels ran at the end, 2: and each launch
#include "emulate.h"

#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include <map>
#include <string>

#include "runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" char __executable_start;

dim3 gridDim, blockDim;

namespace emu {

enum {
    STACK = 128 << 10,
    DYNAMIC_AT = 1024 + 16, // dynamic shared memory is promised to begin at a multiple of 16 alone
    STATIC_MOST = 48 << 10,
    GAP = 64, // between variables
};

thread *me;

struct bulk {
    block *b;
    uint32_t barrier;
    int bytes;
    std::function<void()> copy;
};

struct cluster {
    std::vector<block> blocks;
    std::vector<thread> threads;
    std::vector<warp> warps;
    int phase, missing;                // threads that are to arrive yet
    queue waiting, at_phase, at_wgmma; // for the cluster, for mbarriers, for wgmma
    std::vector<bulk> copies;          // on their way
};

static cluster *now;
static std::vector<thread *> ready;
static size_t ready_first;
static void *scheduler_sp;
static int launch_number;
static size_t dynamic_size, static_size, block_size;
static std::vector<uint32_t> gaps; // where a variable in shared memory ends
static const void *kernel_now;
static const std::function<void()> *body_now;
static uint64_t chance;
static int order;

// --- errors --------------------------------------------------------------------------------------

static std::string name_of(const void *address) {
    static std::map<const void *, std::string> known;
    std::string &name = known[address];
    if (!name.empty()) return name;
    char command[400], line[1000] = "?";
    snprintf(command, sizeof command, "addr2line -sfCe /proc/%d/exe %#zx", getpid(),
             (size_t)((const char *)address - &__executable_start));
    if (FILE *f = popen(command, "r")) {
        if (fgets(line, sizeof line, f)) line[strcspn(line, "\n")] = 0;
        pclose(f);
    }
    return name = line;
}

void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "emulate: ");
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n  in %s, grid %u %u %u, blocks of %u, %zu bytes\n",
            name_of(kernel_now).c_str(), gridDim.x, gridDim.y, gridDim.z, blockDim.x, dynamic_size);
    if (me) {
        fprintf(stderr, "  block %u %u %u, thread %u, from:\n", blockIdx.x, blockIdx.y, blockIdx.z,
                threadIdx.x);
        void *at[40];
        int n = backtrace(at, 40);
        for (int i = 1; i < n; i++) fprintf(stderr, "    %s\n", name_of((char *)at[i] - 1).c_str());
    }
    fflush(NULL);
    _exit(1); // a test's handlers of signals are not for fibers
}

static void stuck(void) {
    fprintf(stderr, "emulate: threads wait for each other\n");
    for (const thread &t : now->threads)
        if (!t.done && (t.lane == 0 || t.lane == 31 || t.lane == 1))
            fprintf(stderr, "  block %u, thread %u: %s %d, mask %x\n", t.block->index.x, t.index.x,
                    t.what, t.barrier, t.mask);
    me = NULL;
    die("stuck");
}

// --- places that stand for what orders accesses
// ---------------------------------------------------

// Those of a block are in front of its shared memory: of barriers, of warps, and in the first block
// of the cluster. The next time is told from the last.
static void *order_of_barrier(block *b, int number) {
    return b->memory + (number * 2 + b->barrier[number].released % 2) * 8;
}
static void *order_of_warp(thread *t) {
    return t->block->memory + 256 + (t->index.x / 32 * 2 + t->warp->met % 2) * 8;
}
static void *order_of_cluster(int phase) { return now->blocks[0].memory + 768 + phase % 2 * 8; }

// Of launches: they began, the next was let begin, they are over.
enum { LAUNCHES = 16 };
static uint64_t began_order, next_order[LAUNCHES], over_order[LAUNCHES];

void let_next_begin(void) {
    if (me->block->lets_next) return;
    me->block->lets_next = true;
    watch::release(&next_order[launch_number % LAUNCHES]);
}

void wait_for_last(void) { watch::acquire(&over_order[(launch_number - 1) % LAUNCHES]); }

void all_over(void) {
    for (uint64_t &o : over_order) watch::acquire(&o);
}

// --- fibers --------------------------------------------------------------------------------------

// Leaves for `to`, noting where this one is left.
extern "C" void emulate_switch(void **from, void *to);
asm(R"(
.globl emulate_switch
emulate_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

static void make_ready(thread *t) {
    t->what = NULL;
    ready.push_back(t);
}

static void add(queue &q, thread *t) {
    t->next = NULL;
    q.last = (q.first ? q.last->next : q.first) = t;
}

static void make_all_ready(queue &q) {
    for (thread *t = q.first, *next; t; t = next) {
        next = t->next;
        make_ready(t);
    }
    q = {};
}

#if defined(__SANITIZE_ADDRESS__)
static const void *scheduler_stack;
static size_t scheduler_stack_size;
static void *scheduler_fake;
#endif

#if defined(WATCH_RACES)
static void *scheduler_fiber;

// Two sets of fibers take turns, so that a launch's know nothing of the one before.
enum { SET = 3072 };
static size_t first_fiber;

static void *fiber_at(size_t i) {
    static std::map<size_t, void *> fibers;
    void *&f = fibers[i];
    return f = f ? f : __tsan_create_fiber(0);
}
#endif

static void leave(void) {
    thread *t = me;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(t->done ? NULL : &t->fake_stack, scheduler_stack,
                                   scheduler_stack_size);
#endif
#if defined(WATCH_RACES)
    __tsan_switch_to_fiber(scheduler_fiber, __tsan_switch_to_fiber_no_sync);
#endif
    emulate_switch(&t->sp, scheduler_sp);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(t->fake_stack, &scheduler_stack, &scheduler_stack_size);
#endif
}

static void enter(thread *t) {
    me = t;
    t->block->begun = true;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&scheduler_fake, t->stack, STACK);
#endif
#if defined(WATCH_RACES)
    scheduler_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(t->fiber, __tsan_switch_to_fiber_no_sync);
#endif
    emulate_switch(&scheduler_sp, t->sp);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(scheduler_fake, NULL, NULL);
#endif
    me = NULL;
}

static void wait_for(const char *what) {
    me->what = what;
    leave();
}

static void finish(thread *t);

static bool follows; // the launch may begin while the one before ends

static void begin(void) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(NULL, &scheduler_stack, &scheduler_stack_size);
#endif
    watch::acquire(&began_order);
    if (follows) watch::acquire(&next_order[(launch_number - 1) % LAUNCHES]);
    watch::begin_ignoring(); // of what is the launch's
    (*body_now)();
    finish(me);
    me->done = true;
    leave();
    abort();
}

static char *stack_at(size_t i) {
    static std::vector<char *> stacks;
    while (i >= stacks.size()) {
        enum { MANY = 256 };
        char *p = (char *)mmap(NULL, (size_t)STACK * MANY, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) die("no memory for stacks");
        for (int k = 0; k < MANY; k++) stacks.push_back(p + (size_t)STACK * k);
    }
    return stacks[i];
}

static const uint64_t CANARY = 0x5ca1ab1e0ddba11u;

static void make_fiber(thread *t, size_t i) {
#if defined(WATCH_RACES)
    i += first_fiber;
    t->fiber = fiber_at(i);
#endif
    t->stack = stack_at(i);
    *(uint64_t *)t->stack = CANARY;
    void **top = (void **)(t->stack + STACK) - 2;
    *--top = NULL; // begin() never returns; with it, its stack is aligned as after a call
    *--top = (void *)begin;
    for (int k = 0; k < 6; k++) *--top = NULL;
    t->sp = top;
}

static thread *next_ready(void) {
    size_t count = ready.size() - ready_first, at = ready_first;
    if (order == 1) at = ready.size() - 1;
    if (order > 1) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        at = ready_first + (chance >> 33) % count;
    }
    thread *t = ready[at];
    if (order == 0) {
        ready_first++;
    } else {
        ready[at] = ready.back();
        ready.pop_back();
    }
    if (ready_first == ready.size() || ready_first == 4096) {
        ready.erase(ready.begin(), ready.begin() + (ptrdiff_t)ready_first);
        ready_first = 0;
    }
    return t;
}

// --- collectives of a warp -----------------------------------------------------------------------

static bool all_met(warp *w, uint32_t mask, const char *what) {
    uint32_t need = mask & w->live;
    if ((w->waiting & need) != need) return false;
    for (int i = 0; i < 32; i++) {
        if (!(need >> i & 1)) continue;
        if (w->lane[i]->mask != mask || strcmp(w->lane[i]->what, what) != 0)
            die("lanes of a warp wait for %s and %s, masks %x and %x", what, w->lane[i]->what, mask,
                w->lane[i]->mask);
    }
    return true;
}

static void do_together(warp *w, thread *t) {
    uint32_t need = t->mask & w->live;
    void *lanes[32] = {};
    for (int i = 0; i < 32; i++)
        if (need >> i & 1) lanes[i] = w->lane[i]->mine ? w->lane[i]->mine : w->lane[i];
    watch::begin_ignoring();
    t->act(lanes);
    watch::end_ignoring();
    w->waiting &= ~need, w->met++;
    for (int i = 0; i < 32; i++)
        if (need >> i & 1 && w->lane[i] != me) make_ready(w->lane[i]);
    t->what = NULL;
}

// Of the warp's collectives this alone orders accesses to memory. (What was read is read, where its
// value goes into a shuffle: a write after that is reported, but does no harm.)
static bool orders(const char *what) { return !strcmp(what, "syncwarp"); }

void meet(uint32_t mask, const char *what, void *mine, void (*act)(void **lanes)) {
    thread *t = me;
    if (!(mask >> t->lane & 1)) die("a lane is not in its own mask %x of %s", mask, what);
    t->mask = mask, t->mine = mine, t->act = act, t->what = what;
    t->warp->waiting |= 1u << t->lane;
    void *order = orders(what) ? order_of_warp(t) : NULL;
    if (order) watch::release(order);
    if (all_met(t->warp, mask, what))
        do_together(t->warp, t);
    else
        leave();
    if (order) watch::acquire(order);
}

// --- barriers ------------------------------------------------------------------------------------

static void release_barrier(block *b, int number) {
    auto &at = b->barrier[number];
    for (thread *t = at.waiting.first; t; t = t->next) t->value = at.value;
    make_all_ready(at.waiting);
    at.arrived = at.value = 0, at.released++;
}

int barrier(int number, int count, int value) {
    thread *t = me;
    auto &at = t->block->barrier[number];
    t->barrier = number;
    at.arrived++, at.value += value;
    void *order = order_of_barrier(t->block, number);
    watch::release(order);
    if (count % 32) die("a barrier of %d threads", count);
    add(at.waiting, t);
    if (at.arrived == (count ? count : t->block->live)) release_barrier(t->block, number);
    wait_for("barrier");
    watch::acquire(order);
    return t->value;
}

static void cluster_check(void) {
    if (now->missing) return;
    now->phase++;
    for (thread &t : now->threads) now->missing += !t.done;
    make_all_ready(now->waiting);
}

void cluster_arrive(void) {
    if (me->cluster_phase == now->phase) die("arrives at the cluster's barrier twice");
    me->cluster_phase = now->phase;
    watch::release(order_of_cluster(now->phase));
    now->missing--;
    cluster_check();
}

void cluster_wait(void) {
    if (me->cluster_phase == now->phase) {
        add(now->waiting, me);
        wait_for("cluster");
    }
    watch::acquire(order_of_cluster(me->cluster_phase));
}

uint32_t cluster_rank(void) { return (uint32_t)me->block->rank; }
uint32_t cluster_blocks(void) { return (uint32_t)now->blocks.size(); }

static void do_copies(thread *t, int until);

// A thread that ends has arrived everywhere.
static void finish(thread *t) {
    do_copies(t, INT32_MAX);
    if (*(uint64_t *)t->stack != CANARY) die("a thread's stack is too small");
    t->done = true;
    if (!t->block->lets_next) watch::release(&next_order[launch_number % LAUNCHES]);
    watch::release(&over_order[launch_number % LAUNCHES]);
    warp *w = t->warp;
    w->live &= ~(1u << t->lane);
    for (int i = 0; i < 32 && w->waiting; i++)
        if (w->waiting >> i & 1 && all_met(w, w->lane[i]->mask, w->lane[i]->what))
            do_together(w, w->lane[i]), make_ready(w->lane[i]);
    t->block->live--;
    auto &all = t->block->barrier[0];
    if (all.arrived && all.arrived == t->block->live) release_barrier(t->block, 0);
    if (t->cluster_phase != now->phase) now->missing--, cluster_check();
}

// --- shared memory -------------------------------------------------------------------------------

static uint32_t static_at(void) {
    return (uint32_t)((DYNAMIC_AT + dynamic_size + GAP + 127) / 128 * 128);
}

void *shared(slot &s, size_t size) {
    if (s.launch != launch_number) {
        s.launch = launch_number;
        s.at = static_at() + (uint32_t)static_size;
        static_size += (size + 15) / 16 * 16 + GAP;
        gaps.push_back(s.at + (uint32_t)size);
        if (static_size > STATIC_MOST) die("%zu bytes of variables in shared memory", static_size);
    }
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(me->block->memory + s.at, size);
#endif
    return me->block->memory + s.at;
}

// Nobody may have written behind a variable.
static void check_gaps(const block &b) {
    for (uint32_t at : gaps)
        for (int i = 0; i < 16; i++)
            if (b.memory[at + i] != (char)0xff) die("a write behind what ends at %#x", at);
}

void *dynamic(void) { return me->block->memory + DYNAMIC_AT; }

uint32_t shared_address(const void *p) {
    const char *at = (const char *)p;
    if (at < me->block->memory || at > me->block->memory + block_size)
        die("%p is not in shared memory", p);
    return (uint32_t)(at - me->block->memory);
}

enum { RANK_SHIFT = 24 };

uint32_t cluster_address(uint32_t at, uint32_t rank) {
    if (rank >= now->blocks.size()) die("block %u of a cluster of %zu", rank, now->blocks.size());
    return (at & ((1u << RANK_SHIFT) - 1)) | (rank + 1) << RANK_SHIFT;
}

static char *place(block *own, uint32_t at, size_t size, size_t align) {
    block *b = at >> RANK_SHIFT ? &now->blocks[(at >> RANK_SHIFT) - 1] : own;
    at &= (1u << RANK_SHIFT) - 1;
    if (at < DYNAMIC_AT || at + size > block_size) die("shared address %#x is out of bounds", at);
    if (at % align) die("shared address %#x is no multiple of %zu", at, align);
    if (!b->begun || b->live == 0) die("block %d has not begun or is over", b->rank);
    bool in_dynamic = at < DYNAMIC_AT + dynamic_size;
    if (in_dynamic ? at + size > DYNAMIC_AT + dynamic_size
                   : at < static_at() || at + size > static_at() + static_size + GAP)
        die("shared address %#x, %zu bytes, is out of bounds", at, size);
    return b->memory + at;
}

void *shared_place(uint32_t at, size_t size, size_t align) {
    return place(me->block, at, size, align);
}

// --- cp.async ------------------------------------------------------------------------------------

void copy_async(uint32_t to, const void *from, int bytes, int real) {
    if ((uintptr_t)from % (size_t)bytes) die("cp.async from %p", from);
    if (real < 0 || real > bytes) die("cp.async of %d bytes", real);
    char *at = place(me->block, to, (size_t)bytes, (size_t)bytes);
    memset(at, 0xff, (size_t)bytes);
    me->copies.push_back({at, (const char *)from, bytes, real, me->groups});
}

void copy_commit(void) { me->groups++; }

static void do_copies(thread *t, int until) {
    size_t n = 0;
    for (; n < t->copies.size() && t->copies[n].group < until; n++) {
        const copy &c = t->copies[n];
        memcpy(c.to, c.from, (size_t)c.real);
        memset(c.to + c.real, 0, (size_t)(c.bytes - c.real));
    }
    t->copies.erase(t->copies.begin(), t->copies.begin() + (ptrdiff_t)n);
}

void copy_wait(int pending) { do_copies(me, pending < 0 ? INT32_MAX : me->groups - pending); }

// --- mbarrier and bulk copies --------------------------------------------------------------------

struct mbarrier {
    int32_t bytes;
    uint32_t pending : 15, expected : 15, phase : 1, made : 1;
};
static_assert(sizeof(mbarrier) == 8, "as in shared memory");

static mbarrier *mbarrier_at(block *b, uint32_t at) {
    mbarrier *m = (mbarrier *)place(b, at, 8, 8);
    if (!m->made) die("no mbarrier at %#x", at);
    return m;
}

void mbarrier_init(uint32_t at, uint32_t count) {
    *(mbarrier *)place(me->block, at, 8, 8) = {0, count & 0x7fff, count & 0x7fff, 0, 1};
}

static void mbarrier_check(mbarrier *m) {
    if (m->pending || m->bytes) return;
    m->phase ^= 1, m->pending = m->expected;
    make_all_ready(now->at_phase);
}

void mbarrier_arrive(uint32_t at, uint32_t bytes) {
    mbarrier *m = mbarrier_at(me->block, at);
    if (!m->pending) die("more arrivals at an mbarrier than it has");
    watch::release(m);
    m->pending = (m->pending - 1) & 0x7fff, m->bytes += (int32_t)bytes;
    mbarrier_check(m);
}

void mbarrier_wait(uint32_t at, uint32_t parity) {
    while (mbarrier_at(me->block, at)->phase == (parity & 1)) {
        add(now->at_phase, me);
        wait_for("mbarrier");
    }
    watch::acquire(mbarrier_at(me->block, at));
}

void copy_bulk(uint32_t to, const void *from, int bytes, uint32_t at) {
    if ((uintptr_t)from % 16 || bytes % 16) die("cp.async.bulk of %d bytes from %p", bytes, from);
    char *into = place(me->block, to, (size_t)bytes, 16);
    memset(into, 0xff, (size_t)bytes);
    watch::release(mbarrier_at(me->block, at));
    watch::begin_ignoring();
    now->copies.push_back({me->block, at, bytes, [=] { memcpy(into, from, (size_t)bytes); }});
    watch::end_ignoring();
}

// st.async: arrives some time, as bulk copies do.
void store_async(uint32_t to, const float *from, int count, uint32_t at) {
    std::array<float, 4> v = {};
    for (int i = 0; i < count; i++) v[(size_t)i] = from[i];
    size_t bytes = (size_t)count * 4;
    char *into = place(me->block, to, bytes, bytes);
    if (to >> RANK_SHIFT != at >> RANK_SHIFT) die("st.async and its mbarrier in different blocks");
    memset(into, 0xff, bytes);
    watch::release(mbarrier_at(me->block, at));
    block *b = to >> RANK_SHIFT ? &now->blocks[(to >> RANK_SHIFT) - 1] : me->block;
    watch::begin_ignoring();
    now->copies.push_back({b, at, (int)bytes, [=] { memcpy(into, v.data(), bytes); }});
    watch::end_ignoring();
}

// Blocks of 16 bytes are out of order by bits 7 to 9 of their address.
static uint32_t swizzled(uint32_t at) { return at ^ (at >> 7 & 7) << 4; }

void copy_box(uint32_t to, const void *map, int k, int row, uint32_t at) {
    const struct map m = *(const struct map *)map;
    block *b = me->block;
    int pitch = m.box[0] * 2, bytes = pitch * m.box[1];
    place(b, to, (size_t)bytes, 128);
    memset(b->memory + to, 0xff, (size_t)bytes);
    watch::release(mbarrier_at(b, at));
    watch::begin_ignoring();
    now->copies.push_back({b, at, bytes, [=] {
                               for (int r = 0; r < m.box[1]; r++)
                                   for (int c = 0; c < m.box[0]; c++) {
                                       bool there = row + r >= 0 && row + r < m.size[1] &&
                                                    k + c >= 0 && k + c < m.size[0];
                                       uint32_t place = to + (uint32_t)(r * pitch + c * 2);
                                       if (m.swizzled) place = swizzled(place);
                                       uint16_t v = 0;
                                       if (there)
                                           memcpy(&v, m.data + (row + r) * m.step + (k + c) * 2, 2);
                                       memcpy(b->memory + place, &v, 2);
                                   }
                           }});
    watch::end_ignoring();
}

static bool bulk_copy(void) {
    if (now->copies.empty()) return false;
    size_t i = order > 1 ? (chance >> 40) % now->copies.size() : 0;
    watch::begin_ignoring();
    bulk b = now->copies[i];
    now->copies.erase(now->copies.begin() + (ptrdiff_t)i);
    if (b.b->live == 0) die("a bulk copy to a block that is over");
    b.copy();
    mbarrier *m = mbarrier_at(b.b, b.barrier);
    m->bytes -= b.bytes;
    mbarrier_check(m);
    watch::end_ignoring();
    return true;
}

// --- wgmma ---------------------------------------------------------------------------------------

// Element of an operand in shared memory: `line` of M or N, and k.
static float element(block *b, uint64_t desc, int line, int k, bool across, bool brain) {
    uint32_t at = (desc & 0x3fff) << 4, far = (desc >> 16 & 0x3fff) << 4;
    uint32_t groups = (desc >> 32 & 0x3fff) << 4;
    if (desc >> 62 != 1) die("wgmma: only the swizzle of 128 bytes is known here");
    uint32_t l = (uint32_t)line, c = (uint32_t)k;
    at += across ? l / 64 * far + c / 8 * groups + c % 8 * 128 + l % 64 * 2
                 : l / 8 * groups + l % 8 * 128 + c * 2;
    const uint16_t *from = (const uint16_t *)place(b, swizzled(at), 2, 2);
    watch::reads(from, 2);
    uint16_t v = *from;
    return brain ? ptx::of_brain(v) : ptx::of_half(v);
}

// By a warp: rows 16 (warp % 4) to + 15 of 64.
static void do_product(block *b, int warp, const product &p) {
    int n = (int)p.sums[0].size() * 2;
    float a[16][16];
    std::vector<float> all((size_t)n * 16);
    auto part = [&](uint32_t v, int e) {
        return p.brain ? ptx::brain_at(v, e) : ptx::half_at(v, e);
    };
    for (int r = 0; r < 16; r++)
        for (int k = 0; k < 16; k++)
            a[r][k] = p.a_in_memory ? element(b, p.a_place, warp % 4 * 16 + r, k, false, p.brain)
                                    : part(p.a[r % 8 * 4 + k % 8 / 2][r / 8 + k / 8 * 2], k % 2);
    for (int j = 0; j < n; j++)
        for (int k = 0; k < 16; k++)
            all[(size_t)(j * 16 + k)] = element(b, p.b_place, j, k, p.across, p.brain);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < n / 2; i++) {
            const float *x = a[lane / 4 + i % 4 / 2 * 8];
            const float *y = &all[(size_t)(i / 4 * 8 + lane % 4 * 2 + i % 2) * 16];
            float sum = 0, *to = p.sums[lane][(size_t)i];
            for (int k = 0; k < 16; k++) sum += x[k] * y[k];
            *to = p.add ? *to + sum : sum;
        }
}

void multiply(product *p) {
    meet(~0u, "wgmma", p, [](void **lanes) {
        product all = *(product *)lanes[0];
        warp *w = me->warp;
        for (int i = 0; i < 32; i++) {
            const product *q = (const product *)lanes[i];
            all.sums[i] = q->sums[i];
            memcpy(all.a[i], q->a[i], sizeof all.a[i]);
            if (q->a_place != all.a_place || q->b_place != all.b_place || q->add != all.add)
                die("wgmma: lane %d has other operands than lane 0", i);
        }
        all.group = w->groups;
        w->products.push_back(all);
    });
}

void multiply_commit(void) {
    meet(~0u, "wgmma.commit", NULL, [](void **) {
        me->warp->groups++;
        make_all_ready(now->at_wgmma);
    });
}

// A product is one of all four warps of a warpgroup: what is waited for is done for all of them, as
// soon as all have asked for it.
void multiply_wait(int pending) {
    warp *group = me->warp - me->index.x / 32 % 4;
    int until = me->warp->groups - pending;
    for (int i = 0; i < 4; i++)
        while (group[i].groups < until) {
            add(now->at_wgmma, me);
            wait_for("wgmma");
        }
    meet(~0u, "wgmma.wait", &until, [](void **lanes) {
        int until = *(int *)lanes[0], first = (int)me->index.x / 32 / 4 * 4;
        watch::end_ignoring(); // the shared memory that is read
        for (int i = 0; i < 4; i++) {
            warp *w = me->warp - me->index.x / 32 % 4 + i;
            size_t n = 0;
            for (; n < w->products.size() && w->products[n].group < until; n++)
                do_product(me->block, first + i, w->products[n]);
            w->products.erase(w->products.begin(), w->products.begin() + (ptrdiff_t)n);
        }
        watch::begin_ignoring();
    });
    meet(~0u, "syncwarp", NULL, [](void **) {}); // each lane's reads were this one's
}

// --- launches ------------------------------------------------------------------------------------

static void make_blocks(cluster *c, unsigned first, unsigned count) {
    unsigned size = blockDim.x, warps = (size + 31) / 32;
    c->blocks.assign(count, {});
    c->threads.assign((size_t)count * size, {});
    c->warps.assign((size_t)count * warps, {});
    c->phase = 1, c->missing = (int)(count * size);
    for (unsigned i = 0; i < count; i++) {
        block *b = &c->blocks[i];
        unsigned at = first + i;
        b->index = {at % gridDim.x, at / gridDim.x % gridDim.y, at / gridDim.x / gridDim.y};
        b->cluster = c, b->rank = (int)i, b->live = (int)size;
        b->memory = (char *)aligned_alloc(1024, (block_size + 1023) / 1024 * 1024);
        memset(b->memory, 0xff, block_size);
#if defined(__SANITIZE_ADDRESS__)
        ASAN_POISON_MEMORY_REGION(b->memory, DYNAMIC_AT);
        ASAN_POISON_MEMORY_REGION(b->memory + DYNAMIC_AT + dynamic_size,
                                  block_size - DYNAMIC_AT - dynamic_size);
#endif
        for (unsigned k = 0; k < size; k++) {
            thread *t = &c->threads[i * size + k];
            warp *w = &c->warps[i * warps + k / 32];
            t->index = {k, 0, 0}, t->block = b, t->warp = w, t->lane = (int)k % 32;
            w->lane[k % 32] = t, w->live |= 1u << k % 32;
            make_fiber(t, i * size + k);
            ready.push_back(t);
        }
    }
}

static void run_cluster(unsigned first, unsigned count) {
    static cluster c;
    now = &c;
    c.waiting = c.at_phase = c.at_wgmma = {};
    watch::begin_ignoring();
    make_blocks(&c, first, count);
    watch::end_ignoring();
    watch::release(&began_order);
    for (;;) {
        if (ready.empty() && !bulk_copy()) break;
        if (!ready.empty()) enter(next_ready());
    }
    for (const thread &t : c.threads)
        if (!t.done) stuck();
    for (block &b : c.blocks) {
#if defined(__SANITIZE_ADDRESS__)
        ASAN_UNPOISON_MEMORY_REGION(b.memory, block_size);
#endif
        check_gaps(b);
        watch::begin_ignoring();
        free(b.memory);
        watch::end_ignoring();
    }
    if (!c.copies.empty()) die("bulk copies of blocks that are over");
    now = NULL;
}

static int setting(const char *name) {
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

static std::map<std::string, int> *ran;

static void say_what_ran(void) {
    for (auto &k : *ran) fprintf(stderr, "emulate: %6d x %s\n", k.second, k.first.c_str());
}

void run_blocks(const void *kernel, dim3 blocks, dim3 threads, unsigned in_cluster, size_t size,
                bool early, const std::function<void()> &body) {
    static int trace = -1;
    if (trace < 0) {
        trace = setting("EMULATE_TRACE"), order = setting("EMULATE_ORDER");
        ready.reserve(1 << 14);
        chance = (uint64_t)order * 0x9e3779b97f4a7c15u;
        ran = new std::map<std::string, int>;
        if (trace) atexit(say_what_ran);
    }
    kernel_now = kernel, body_now = &body, gridDim = blocks, blockDim = threads;
    dynamic_size = size, static_size = 0, launch_number++;
    gaps.assign(1, DYNAMIC_AT + (uint32_t)size);
    follows = early;
#if defined(WATCH_RACES)
    first_fiber = in_cluster * threads.x <= SET ? (size_t)(launch_number % 2 * SET) : 0;
#endif
    if (!early) all_over();
    block_size = static_at() + STATIC_MOST + GAP;
    if (trace > 0) (*ran)[name_of(kernel)]++;
    if (trace > 1)
        fprintf(stderr, "emulate: %s, %u x %u x %u blocks, clusters of %u, %u threads, %zu bytes\n",
                name_of(kernel).c_str(), blocks.x, blocks.y, blocks.z, in_cluster, threads.x, size);
    if (threads.y != 1 || threads.z != 1 || threads.x == 0 || threads.x > 1024)
        die("blocks of %u x %u x %u threads", threads.x, threads.y, threads.z);
    unsigned all = blocks.x * blocks.y * blocks.z;
    if (!all || blocks.y > 65535 || blocks.z > 65535) die("such a grid can't be launched");
    if (blocks.x % in_cluster) die("a grid of no whole clusters of %u", in_cluster);
    for (unsigned b = 0; b < all; b += in_cluster) run_cluster(b, in_cluster);
}

size_t static_shared(void) { return static_size - (gaps.size() - 1) * GAP; }

} // namespace emu
