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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_views)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
