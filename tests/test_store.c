// Where weights live on a device that has memory of its own (one made up here).
#include "check.h"

#include <string.h>

#include "base/mem.h"
#include "checkpoint/store.h"
#include "compute/ops.h"

static void *make(struct device *d, size_t size) {
    (void)d;
    return mem_alloc(size);
}

static void drop(struct device *d, void *p) {
    (void)d;
    free(p);
}

static void copy(struct device *d, void *to, const void *from, size_t size) {
    (void)d;
    memcpy(to, from, size);
}

static const struct ops far_ops = {.alloc = make, .free = drop, .upload = copy};

// Views of a stored tensor view its copy, whatever their strides; others are copied.
static void test_views(void **state) {
    (void)state;
    struct device far = {.ops = &far_ops, .name = "far"};
    float host[24], other[6] = {7};
    for (int i = 0; i < 24; i++) host[i] = (float)i;
    struct store s;
    struct error e = {0};
    store_open(&s, &far);
    struct weight whole = {WEIGHT_DENSE, 8, 3, .data = tensor_2d(DT_F32, 8, 3, host)};
    struct weight odd = weight_rows(&whole, 1, 4, 2), turned = weight_transposed(&odd);
    odd.bias = tensor_1d(DT_F32, 4, other);
    assert_true(store_weight(&s, &whole, "all", &e) && store_weight(&s, &odd, "odd", &e));
    assert_true(store_weight(&s, &turned, "turned", &e));
    assert_int_equal(s.bytes, sizeof host + 4 * sizeof *other);
    assert_ptr_not_equal(whole.data.data, host);
    assert_ptr_equal(odd.data.data, (float *)whole.data.data + 3);
    assert_ptr_equal(turned.data.data, odd.data.data);
    assert_true(((const float *)odd.data.data)[odd.data.stride[0] * 3 + 2] == 23);
    assert_true(((const float *)odd.bias.data)[0] == 7);
    struct tensor last = tensor_1d(DT_F32, 6, other); // reaches beyond what was stored of it
    assert_true(store_tensor(&s, &last, "last", &e));
    assert_int_equal(s.bytes, sizeof host + 10 * sizeof *other);
    store_close(&s);
}

// A device of so much memory, which takes weights by a way of its own.
static size_t memory_left;
static size_t loaded;

static void *make_some(struct device *d, size_t size) {
    if (size > memory_left) return NULL;
    memory_left -= size;
    return make(d, size);
}

static void load(struct device *d, void *to, const void *from, size_t size) {
    copy(d, to, from, size);
    loaded += size;
}

static void tell_memory(const struct device *d, size_t *available, size_t *total) {
    (void)d;
    *available = memory_left;
    *total = (size_t)1 << 30;
}

static const struct ops small_ops = {
    .alloc = make_some, .free = drop, .upload = copy, .load = load, .memory = tell_memory};

struct told {
    size_t calls, last;
};

static void tell(void *arg, size_t done, size_t total) {
    struct told *t = arg;
    assert_true(done > t->last || done == total);
    assert_true(done <= total);
    t->calls++;
    t->last = done;
}

// Small copies share a block, aligned; each is told of, and no more than all there is.
static void test_blocks(void **state) {
    (void)state;
    struct device small = {.ops = &small_ops, .name = "small"};
    static char host[3][1000];
    struct store s;
    struct error e = {0};
    struct told told = {0};
    loaded = 0;
    memory_left = 100 << 20;
    store_open(&s, &small);
    s.progress = tell;
    s.progress_arg = &told;
    s.total = 2500; // fewer than will come
    char *at[3];
    for (int i = 0; i < 3; i++) {
        memset(host[i], 'a' + i, sizeof host[i]);
        struct tensor t = tensor_1d(DT_U8, sizeof host[i], host[i]);
        assert_true(store_tensor(&s, &t, "a text", &e));
        at[i] = t.data;
    }
    assert_int_equal(s.blocks, 1);
    assert_true(at[1] - at[0] >= 1000 && at[2] - at[1] >= 1000);
    assert_int_equal((at[1] - at[0]) % 256 + (at[2] - at[1]) % 256, 0);
    for (int i = 0; i < 3; i++) assert_memory_equal(at[i], host[i], sizeof host[i]);
    assert_int_equal(loaded, 3000);
    assert_int_equal(told.calls, 3);
    assert_int_equal(told.last, 2500);
    store_close(&s);
}

// Memory that is not there is an error with numbers, and what was stored is given back.
static void test_full(void **state) {
    (void)state;
    struct device small = {.ops = &small_ops, .name = "small"};
    char host[100] = "";
    struct store s;
    struct error e = {0};
    memory_left = 70 << 20;
    store_open(&s, &small);
    struct tensor some = tensor_1d(DT_U8, 100, host), all = tensor_1d(DT_U8, 20 << 20, host);
    assert_true(store_tensor(&s, &some, "a little", &e));
    assert_false(store_tensor(&s, &all, "layer 7", &e));
    assert_string_equal(e.text,
                        "small: cannot allocate 20.0 MiB for layer 7 (6.0 of 1024.0 MiB are "
                        "available)");
    store_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_views), cmocka_unit_test(test_blocks),
                                       cmocka_unit_test(test_full)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
