// base/pool.h and base/cpus.h: threads share tasks out, sleep and wake, and run where they are
// told.
#include "check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"

static void count_task(void *arg, int task, int thread) {
    (void)thread;
    atomic_fetch_add((atomic_int *)arg + task, 1);
}

// Every task once, whether helpers spin, sleep or are just falling asleep.
static void test_tasks(void **state) {
    (void)state;
    static const int spins[] = {-1, 1, 20, 0};
    struct error e = {0};
    for (int threads = 1; threads <= 4; threads++) {
        struct pool *p =
            pool_open(&(struct pool_options){.threads = threads, .spin = spins[threads - 1]}, &e);
        assert_non_null(p);
        atomic_int seen[37] = {0};
        for (int run = 0; run < 2000; run++) {
            if (run % 500 == 499) usleep(3000);
            pool_run(p, 37, count_task, seen);
        }
        for (int i = 0; i < 37; i++) assert_int_equal(seen[i], 2000);
        pool_close(p);
    }
}

// One task holds the caller up until another thread has taken the other, and the other way round.
struct meeting {
    atomic_int here;
    atomic_int most; // the highest thread met
};

static void meet_task(void *arg, int task, int thread) {
    struct meeting *m = arg;
    (void)task;
    for (int old = m->most; old < thread && !atomic_compare_exchange_weak(&m->most, &old, thread);)
        continue;
    atomic_fetch_add(&m->here, 1);
    while (m->here % 2) usleep(10); // longer than any spin: the one that waits sleeps
    usleep(task ? 300 : 0);
}

static void test_together(void **state) {
    (void)state;
    struct error e = {0};
    struct pool *p = pool_open(&(struct pool_options){.threads = 2, .spin = 1}, &e);
    struct meeting m = {0};
    for (int run = 0; run < 50; run++) pool_run(p, 2, meet_task, &m);
    assert_int_equal(m.here, 100);
    assert_int_equal(m.most, 1);
    pool_close(p);
}

static void highest_task(void *arg, int task, int thread) {
    (void)task;
    for (int old = *(atomic_int *)arg;
         old < thread && !atomic_compare_exchange_weak((atomic_int *)arg, &old, thread);)
        continue;
    usleep(20);
}

// Threads beyond those of the run take no task, and come back when they are asked again.
static void test_fewer(void **state) {
    (void)state;
    struct error e = {0};
    struct pool *p = pool_open(&(struct pool_options){.threads = 2, .most = 4}, &e);
    assert_int_equal(pool_threads(p), 4);
    for (int round = 0; round < 20; round++) {
        atomic_int highest = 0;
        pool_use(p, false);
        assert_int_equal(pool_threads(p), 2);
        pool_run(p, 40, highest_task, &highest);
        assert_true(highest < 2);
        pool_use(p, true);
        for (int k = 0; k < 100 && highest < 2; k++) pool_run(p, 40, highest_task, &highest);
        assert_true(highest >= 2);
    }
    pool_close(p);
    assert_null(pool_open(&(struct pool_options){.threads = 3, .most = 2}, &e));
    assert_non_null(strstr(e.text, "--threads-batch"));
}

struct where {
    struct cpus got[2]; // of each thread
    atomic_int begun;
    int tasks;
};

// Each task is held until all have begun, so that no thread takes two.
static void where_task(void *arg, int task, int thread) {
    (void)task;
    struct where *w = arg;
    w->got[thread] = cpus_allowed();
    atomic_fetch_add(&w->begun, 1);
    while (atomic_load(&w->begun) < w->tasks) usleep(10);
}

static void test_pinned(void **state) {
    (void)state;
    struct error e = {0};
    struct cpus all = cpus_allowed();
    struct where one = {.tasks = 1}, two = {.tasks = 2};
    int list[CPUS_MOST], n = cpus_count(&all), cores = cpus_list(&all, list);
    assert_true(cores >= 1 && cores <= n);
    for (int i = 0; i < n; i++) assert_true(all.bit[list[i] / 64] >> (list[i] % 64) & 1);

    struct pool_options opt = {.threads = 1};
    opt.cpus.bit[list[n - 1] / 64] = (uint64_t)1 << (list[n - 1] % 64);
    struct pool *p = pool_open(&opt, &e);
    pool_run(p, 1, where_task, &one);
    assert_memory_equal(one.got, &opt.cpus, sizeof opt.cpus);
    pool_close(p);
    assert_true(cpus_pin(&all));

    opt.threads = 2; // for one CPU
    assert_null(pool_open(&opt, &e));
    assert_non_null(strstr(e.text, "2 threads for 1 CPU:"));
    e.set = false;
    opt = (struct pool_options){.threads = 1};
    opt.cpus.bit[CPUS_MOST / 64 - 1] = (uint64_t)1 << 63;
    assert_null(pool_open(&opt, &e));
    assert_non_null(strstr(e.text, "--cpu-mask"));
    if (n < 2) return;
    e.set = false;
    p = pool_open(&(struct pool_options){.threads = 2, .strict = true}, &e);
    pool_run(p, 2, where_task, &two);
    pool_close(p);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cpus_count(&two.got[i]), 1);
        assert_true(two.got[i].bit[list[i] / 64] >> (list[i] % 64) & 1);
    }
    assert_true(cpus_pin(&all));
}

static void test_sets(void **state) {
    (void)state;
    static const char *const bad_masks[] = {"", "0x", "xyz", "1,2", "-1"};
    static const char *const bad_ranges[] = {
        "", "-", "3", "a-b", "3-1", "0-1024", "0-1x", "1--2", "99999999999999999999-"};
    struct error e = {0};
    struct cpus c = {0};
    assert_true(cpus_add_mask(&c, "0xF0", &e));
    assert_true(cpus_add_mask(&c, "10000000000000001", &e));
    assert_true(c.bit[0] == 0xf1 && c.bit[1] == 1);
    assert_true(cpus_add_range(&c, "62-66", &e));
    assert_true(c.bit[0] == (0xf1 | (uint64_t)3 << 62) && c.bit[1] == 7);
    assert_int_equal(cpus_count(&c), 5 + 2 + 3);
    struct cpus all = cpus_allowed(), open = {0};
    assert_true(cpus_add_range(&open, "0-", &e) && cpus_within(&all, &open));
    struct cpus low = {0};
    assert_true(cpus_add_range(&low, "-1023", &e) && cpus_within(&all, &low));
    assert_false(cpus_within(&c, &(struct cpus){{0}}));
    for (size_t i = 0; i < sizeof bad_masks / sizeof *bad_masks; i++, e.set = false)
        assert_false(cpus_add_mask(&c, bad_masks[i], &e));
    for (size_t i = 0; i < sizeof bad_ranges / sizeof *bad_ranges; i++, e.set = false)
        assert_false(cpus_add_range(&c, bad_ranges[i], &e));
    char much[400];
    memset(much, 'f', sizeof much);
    much[sizeof much - 1] = '\0';
    assert_false(cpus_add_mask(&c, much, &e));
}

// --- control groups ------------------------------------------------------------------------------

static char *root;

static void put(const char *folder, const char *name, const char *text) {
    struct error e = {0};
    char *dir = path_join(root, folder), *path = path_join(dir, name);
    assert_true(dir_make(dir, &e) && file_write(path, sv(text), &e));
    free(path);
    free(dir);
}

static double quota(const char *own) {
    put("", "own", own);
    char *path = path_join(root, "own");
    double q = cpus_quota(root, path);
    free(path);
    return q;
}

static void test_quota(void **state) {
    (void)state;
    char folder[] = "/tmp/mlxcel-test-XXXXXX";
    root = mkdtemp(folder);
    assert_true(quota("0::/a/b\n") == 0);
    put("", "cpu.max", "max 100000\n");
    assert_true(quota("0::/\n") == 0);
    put("a", "cpu.max", "150000 100000\n");
    put("a/b", "cpu.max", "max 100000\n");
    assert_true(quota("0::/a/b\n") == 1.5); // that of the one above
    put("a/b", "cpu.max", "50000 100000\n");
    assert_true(quota("0::/a/b\n") == 0.5);
    assert_true(quota("0::/elsewhere/a\n") == 0);
    put("", "cpu.max", "300000 100000\n");
    assert_true(quota("0::/elsewhere/a\n") == 3); // the name is one outside of this container
    put("cpu/x", "cpu.cfs_quota_us", "250000\n");
    put("cpu/x", "cpu.cfs_period_us", "100000\n");
    assert_true(quota("4:memory:/x\n3:cpuacct,cpu:/x\n1:cpuset:/\n") == 2.5);
    put("cpu/x", "cpu.cfs_quota_us", "-1\n");
    assert_true(quota("3:cpu,cpuacct:/x\n") == 0);
    assert_true(quota("nonsense\n:\n::\n0:") == 3); // of a file in no known form, the root's
    assert_true(cpus_quota(root, "/nowhere") == 0);
    static const char *const made[] = {"cpu/x/cpu.cfs_quota_us",
                                       "cpu/x/cpu.cfs_period_us",
                                       "cpu/x",
                                       "cpu",
                                       "a/b/cpu.max",
                                       "a/b",
                                       "a/cpu.max",
                                       "a",
                                       "cpu.max",
                                       "own",
                                       ""};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        char *path = path_join(root, made[i]);
        assert_int_equal(remove(path), 0);
        free(path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks), cmocka_unit_test(test_together),
        cmocka_unit_test(test_fewer), cmocka_unit_test(test_pinned),
        cmocka_unit_test(test_sets),  cmocka_unit_test(test_quota),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
