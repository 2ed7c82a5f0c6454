// Answers that go in circles.
#include "check.h"

#include "engine/loop.h"

static size_t first_end(struct loop l, const char *text) {
    int32_t ids[64];
    for (size_t n = 0; text[n]; n++) {
        ids[n] = (unsigned char)text[n];
        if (loop_ends(&l, ids, n + 1)) return n + 1;
    }
    return 0;
}

static void test_ends(void **state) {
    (void)state;
    struct loop l = {1, 3, 4};
    assert_int_equal(first_end(l, "abaaab"), 0);
    assert_int_equal(first_end(l, "abbbbb"), 5);
    assert_int_equal(first_end(l, "xabababab"), 9);
    assert_int_equal(first_end(l, "xababab"), 0);
    assert_int_equal(first_end(l, "xyzxyzxyzxyz"), 12);
    assert_int_equal(first_end(l, "wxyzwxyzwxyzwxyzwxyz"), 0); // longer than 3
    assert_int_equal(first_end((struct loop){2, 3, 2}, "aaaa"), 4);
    assert_int_equal(first_end((struct loop){2, 3, 3}, "aaaaa"), 0);
    assert_int_equal(first_end((struct loop){0}, "aaaaaaaaaaaaaaaaa"), 0);
}

static void test_check(void **state) {
    (void)state;
    static const struct loop bad[] = {{1, -1, 2}, {0, 3, 2},    {4, 3, 2},
                                      {1, 3, 1},  {1, 1025, 2}, {1, 3, INT64_MAX}};
    struct error e = {0};
    assert_true(loop_check(&(struct loop){1, 20, 12}, &e));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e.set = false;
        assert_false(loop_check(&bad[i], &e));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
