// The parts of the allocator one by one: names, pages, sizes, and what a long sequence holds.
#include "check.h"

#include <stdlib.h>

#include "engine/state_parts.h"

// Against OpenSSL: openssl mac -macopt hexkey:0001..0f -macopt size:16 -in BYTES SIPHASH, where the
// bytes are 0, 1, 2, ...
static void test_digest(void **unused) {
    (void)unused;
    static const struct digest key = {0x0706050403020100, 0x0f0e0d0c0b0a0908},
                               want[4] = {{0xe6a825ba047f81a3, 0x930255c71472f66d},
                                          {0xaf8f9c2dc16481f8, 0x7955cd7b7c6e0f7d},
                                          {0x61f55862baa9623b, 0xb49714f364e2830f},
                                          {0x58f35e9066b226d6, 0x25c13285f64d6382}};
    static const int32_t ids[3] = {0x03020100, 0x07060504, 0x0b0a0908};
    for (size_t n = 0; n < 4; n++) {
        struct digest got = digest_next(key, ids, n);
        assert_true(got.a == want[n].a && got.b == want[n].b);
    }
    assert_false(digest_same(digest_seed(), digest_seed()));
}

static struct digest name(uint64_t i) { return (struct digest){i, 7}; }

// What was idle longest is used first, after what is free; a name belongs to one page.
static void test_pages(void **unused) {
    (void)unused;
    struct pages p;
    pages_open(&p, 3);
    int32_t a = pages_take(&p), b = pages_take(&p), c = pages_take(&p);
    assert_int_equal(pages_take(&p), -1);
    pages_name(&p, a, name(1));
    pages_name(&p, b, name(2));
    pages_name(&p, c, name(2));
    assert_int_equal(pages_find(&p, name(2)), b);
    pages_drop(&p, b);
    pages_drop(&p, a);
    pages_drop(&p, c); // its name is b's: nothing to keep
    assert_int_equal(p.free, 1);
    assert_int_equal(p.idle, 2);
    pages_keep(&p, b); // used again: now a is idle longest
    pages_drop(&p, b);
    assert_int_equal(pages_take(&p), c);
    assert_int_equal(pages_take(&p), a);
    assert_int_equal(pages_find(&p, name(1)), -1);
    assert_int_equal(pages_find(&p, name(2)), b);
    pages_name(&p, c, name(2)); // an idle page's name goes to who has the same in use
    assert_int_equal(pages_find(&p, name(2)), c);
    assert_int_equal(p.free, 1);
    pages_forget(&p, c);
    assert_int_equal(pages_find(&p, name(2)), -1);
    pages_drop(&p, c);
    assert_int_equal(p.free, 2);
    pages_close(&p);
    pages_open(&p, 0);
    assert_int_equal(pages_take(&p), -1);
    assert_int_equal(pages_find(&p, name(1)), -1);
    pages_close(&p);
}

static void test_sizes(void **unused) {
    (void)unused;
    static const struct state_decl layer[] = {
        {.paged = {{.heads = 2, .k_width = 8, .v_width = 4}, {.heads = 1, .k_width = 6}}},
        {.paged = {{.heads = 1, .k_width = 8, .v_width = 8, .window = 40}}},
        {.fixed = {10, 33}}, // each begins at a multiple of 16 floats
        {.shared = true},
    };
    struct state_plan p = {.layer = layer,
                           .layers = 4,
                           .context = 1000,
                           .sequences = 3,
                           .tokens = 1500,
                           .chunk = 64,
                           .snapshots = 5,
                           .k_type = DT_F16,
                           .v_type = DT_F16};
    size_t row = (16 + 48) * 4;
    assert_int_equal(state_fixed_bytes(&p), (3 + 5) * row);
    assert_int_equal(state_bytes_per_token(&p), (2 * 12 + 6) * 2);
    size_t pages = 47, windows = 2 * 3 * 5; // (40 + 64) / 32, cut at both ends, and again as many
    assert_int_equal(state_bytes(&p),
                     8 * row + (pages * (2 * 12 + 6) + windows * 16) * PAGE_TOKENS * 2);
    p.tokens = 10; // never less than one sequence needs, nor more than all do
    assert_int_equal(state_bytes(&p),
                     8 * row + (32 * (2 * 12 + 6) + windows * 16) * PAGE_TOKENS * 2);
    p.tokens = 1 << 30;
    assert_int_equal(state_bytes(&p),
                     8 * row + (96 * (2 * 12 + 6) + windows * 16) * PAGE_TOKENS * 2);
}

// Windows, chunks and fixed state: memory does not depend on the context, nor pages on how far a
// sequence has come.
static void test_endless(void **unused) {
    (void)unused;
    static const struct state_decl layer[] = {
        {.paged = {{.heads = 1, .k_width = 4, .v_width = 4, .window = 100}}},
        {.fixed = {64}},
        {.paged = {{.heads = 1, .k_width = 4, .v_width = 4, .chunk = 128}}},
    };
    struct state_plan p = {.layer = layer,
                           .layers = 3,
                           .context = 2000,
                           .sequences = 1,
                           .tokens = 2000,
                           .chunk = 8,
                           .snapshots = 2,
                           .k_type = DT_F16,
                           .v_type = DT_F16};
    size_t bytes = state_bytes(&p);
    p.context = p.tokens = 50000;
    assert_int_equal(state_bytes(&p), bytes);
    struct error e = {0};
    struct device *dev = device_open("cpu", &(struct device_options){.pool.threads = 1}, &e);
    struct state s;
    int64_t known;
    assert_true(state_open(&s, dev, &p, &e));
    assert_int_equal(state_begin(&s, 0, NULL, 0, 10, &known), 0);
    for (int64_t at = 0; at < 50000; at += 5) {
        assert_true(state_advance(&s, 0, at, at + 5));
        for (int64_t g = 0; g < s.groups; g++) {
            const struct pages *pages = &s.group[g].pages;
            int64_t used = pages->count - pages_left(pages);
            assert_true(used <= 6 && (used >= 4 || at < 95 || s.group[g].chunk));
        }
    }
    state_release(&s, 0);
    for (int64_t g = 0; g < s.groups; g++)
        assert_int_equal(s.group[g].pages.free, s.group[g].pages.count);
    state_close(&s);
    device_close(dev);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digest),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_endless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
