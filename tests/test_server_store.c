// The store of responses by itself: what it keeps, what goes, and that nothing else does, whatever
// happens to the process and the disk.
#include "store_folder.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "server/responses_store.h"

#include <sqlite3.h>

enum { THREADS = 4, EACH = 25, KILLS = 8, BIG = 200000, LIMIT = 150000 };

static struct responses_store *open_store(int64_t entries, int64_t bytes, int64_t ttl) {
    struct error e = {0};
    struct responses_store_options o = {file, entries, bytes, ttl};
    struct responses_store *s = responses_store_open(&o, &e);
    if (!s)
        fail_msg("%s", e.text);
    else
        assert_null(responses_store_off(s));
    return s;
}

static struct responses_store *open_roomy(void) { return open_store(10000, 1 << 30, 0); }

static void put(struct responses_store *s, const char *id, const char *items, const char *body) {
    struct error e = {0};
    if (!responses_store_put(s, id, (int64_t)time(NULL), sv(items), sv(body), &e))
        fail_msg("%s: %s", id, e.text);
}

static bool has(struct responses_store *s, const char *id) {
    struct error e = {0};
    enum stored is = responses_store_get(s, sv(id), NULL, NULL, &e);
    if (is == STORED_ERROR) fail_msg("%s: %s", id, e.text);
    return is == STORED;
}

static void keeps(void **state) {
    struct responses_store *s = open_roomy();
    struct str items = {0}, body = {0};
    struct error e = {0};
    struct stat st;
    (void)state;
    put(s, "a", "{\"id\":\"1\"}\n", "{\"x\":\"\xc3\xbc\\u0000'\"}");
    responses_store_close(s);
    s = open_roomy();
    assert_int_equal(responses_store_get(s, sv("a"), &items, &body, &e), STORED);
    assert_string_equal(items.p, "{\"id\":\"1\"}\n");
    assert_string_equal(body.p, "{\"x\":\"\xc3\xbc\\u0000'\"}");
    assert_false(has(s, "b"));
    assert_false(has(s, "a' OR 1"));
    assert_int_equal(responses_store_get(s, sv_n("a\0b", 3), NULL, NULL, &e), STORED_NOT);
    assert_int_equal(responses_store_drop(s, sv("b"), &e), STORED_NOT);
    assert_int_equal(responses_store_drop(s, sv("a"), &e), STORED);
    assert_int_equal(responses_store_drop(s, sv("a"), &e), STORED_NOT);
    assert_false(e.set);
    put(s, "c", "", "{}"); // an id that is there already is refused, and nothing else is
    assert_false(responses_store_put(s, "c", 0, sv(""), sv("{}"), &e));
    put(s, "d", "", "{}");
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    responses_store_close(s);
    str_free(&items);
    str_free(&body);
}

// What is deleted can't be read from the file either.
static void forgets(void **state) {
    struct responses_store *s = open_roomy();
    struct error e = {0};
    struct str bytes = {0};
    (void)state;
    put(s, "a", "", "{\"secret\":\"xyzzy\"}");
    assert_int_equal(responses_store_drop(s, sv("a"), &e), STORED);
    responses_store_close(s);
    assert_true(file_read(file, 1 << 24, &bytes, &e));
    assert_true(sv_find(str_sv(&bytes), sv("xyzzy"), 0) < 0);
    str_free(&bytes);
}

static void limits(void **state) {
    static const char item[] = "{\"id\":\"123456\"}\n"; // 16 bytes, and 4 of the body
    static const char *const ids[] = {"a", "b", "c", "d"};
    struct responses_store *s = open_store(3, 1000, 0);
    (void)state;
    for (size_t i = 0; i < 4; i++) put(s, ids[i], item, "{\"\"}");
    assert_false(has(s, "a"));
    assert_true(has(s, "b") && has(s, "c") && has(s, "d"));
    responses_store_close(s);
    s = open_store(100, 60, 0);
    put(s, "e", item, "{\"\"}");
    assert_true(has(s, "c") && has(s, "d") && has(s, "e") && !has(s, "b"));
    put(s, "f", item, "{\"more\": 12345678901234567890}"); // 46 bytes: the others must go
    assert_true(has(s, "f") && !has(s, "e"));
    put(s, "g", item, "{\"more\": 1234567890123456789012345678901234567890}"); // too large itself
    assert_true(!has(s, "g"));
    responses_store_close(s);
    s = open_store(100, 0, 0);
    put(s, "h", item, "{\"\"}");
    assert_false(has(s, "h"));
    responses_store_close(s);
}

static void lives(void **state) {
    struct responses_store *s = open_store(100, 1000, 100);
    struct error e = {0};
    (void)state;
    assert_true(responses_store_put(s, "old", (int64_t)time(NULL) - 101, sv(""), sv("{}"), &e));
    assert_true(responses_store_put(s, "new", (int64_t)time(NULL) - 50, sv(""), sv("{}"), &e));
    assert_true(!has(s, "old") && has(s, "new"));
    assert_int_equal(responses_store_drop(s, sv("old"), &e), STORED_NOT);
    responses_store_close(s);
    s = open_store(100, 1000, 0);
    assert_false(has(s, "old")); // it went when it was put
    responses_store_close(s);
    s = open_store(100, 1000, 20);
    assert_false(has(s, "new"));
    responses_store_close(s);
}

static void off(void **state) {
    struct responses_store_options o = {file, 0, 0, 0};
    struct error e = {0};
    struct responses_store *s = responses_store_open(&o, &e);
    (void)state;
    assert_non_null(strstr(responses_store_off(s), "--responses-store-max-entries"));
    responses_store_close(s);
    assert_false(file_named(file));
}

static void expect_wrong(const char *message) {
    struct responses_store_options o = {file, 10, 1000, 0};
    struct error e = {0};
    assert_null(responses_store_open(&o, &e));
    if (!strstr(e.text, message)) fail_msg("\"%s\" does not say \"%s\"", e.text, message);
    assert_non_null(strstr(e.text, "--responses-store-file"));
}

static void wrong_files(void **state) {
    struct error e = {0};
    struct str text = {0};
    sqlite3 *db;
    (void)state;
    for (int i = 0; i < 5000; i++) str_puts(&text, "This is a text.\n");
    assert_true(file_write(file, str_sv(&text), &e));
    expect_wrong("not a database");
    assert_int_equal(remove(file), 0);
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    sqlite3_exec(db, "CREATE TABLE mine (a)", NULL, NULL, NULL);
    sqlite3_close(db);
    expect_wrong("another program's");
    assert_int_equal(remove(file), 0);
    free(file);
    file = path_join(dir, "none/r.db");
    expect_wrong("No such file");
    free(file);
    file = mem_text(dir);
    expect_wrong("Is a directory");
    free(file);
    file = path_join(dir, "r.db");
    assert_int_equal(mkfifo(file, 0600), 0);
    expect_wrong("not a regular file");
    assert_int_equal(remove(file), 0);
    str_free(&text);
}

// Those of the process are in no file.
static void in_memory(void **state) {
    struct responses_store_options o = {":memory:", 10, 1000, 0};
    struct error e = {0};
    (void)state;
    remove(o.file); // versions before left one
    struct responses_store *s = responses_store_open(&o, &e);
    assert_non_null(s);
    put(s, "a", "", "{}");
    assert_true(has(s, "a"));
    assert_false(file_named(o.file));
    responses_store_close(s);
}

static void cut(const char *path) { assert_int_equal(truncate(path, 0), 0); }

static void cut_half(const char *path) { assert_int_equal(truncate(path, 5000), 0); }

static void replace_by_other(const char *path) {
    char *to = path_join(dir, "other.db");
    assert_int_equal(rename(to, path), 0);
    free(to);
}

// Makes a store that replace_by_other can put in the place, with an answer "other".
static void make_other(void) {
    struct responses_store_options o = {NULL, 100, 100000, 0};
    struct error e = {0};
    char *to = path_join(dir, "other.db");
    o.file = to;
    struct responses_store *s = responses_store_open(&o, &e);
    assert_non_null(s);
    put(s, "other", "", "{}");
    responses_store_close(s);
    free(to);
}

static void break_file(const char *end, void (*how)(const char *path)) {
    struct str path = {0};
    str_printf(&path, "%s%s", file, end);
    how(path.p);
    str_free(&path);
}

// A store whose file somebody takes away, or cuts, while it is in use: what was in it is lost, but
// nothing is that is put there from now on.
static void taken_away(void **state) {
    static const struct {
        void (*how)(const char *path);
        const char *end;
    } cases[] = {
        {file_remove, ""}, {replace_by_other, ""}, {cut, ""}, {file_remove, "-wal"}, {NULL, NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_other();
        struct responses_store *s = open_roomy();
        for (int j = 0; j < 300; j++) { // more than the log holds
            char id[16];
            struct str body = {0};
            snprintf(id, sizeof id, "old-%d", j);
            for (int k = 0; k < 20000; k++) str_addc(&body, 'x');
            put(s, id, "", str_c(&body));
            str_free(&body);
        }
        if (cases[i].how) {
            break_file(cases[i].end, cases[i].how);
        } else { // all of it
            break_file("", file_remove);
            break_file("-wal", file_remove);
            break_file("-shm", file_remove);
        }
        put(s, "new", "", "{}");
        assert_true(has(s, "new"));
        assert_int_equal(has(s, "other"), cases[i].how == replace_by_other);
        responses_store_close(s);
        s = open_roomy();
        assert_true(has(s, "new"));
        assert_int_equal(has(s, "other"), cases[i].how == replace_by_other);
        responses_store_close(s);
        folder_each(dir, file_remove);
    }
}

// One that can't be opened again is an error of each call.
static void cut_short(void **state) {
    struct responses_store *s = open_roomy();
    struct str body = {0};
    struct error e = {0};
    (void)state;
    for (int k = 0; k < 30000; k++) str_addc(&body, 'x');
    for (int j = 0; j < 300; j++) {
        char id[16];
        snprintf(id, sizeof id, "old-%d", j);
        put(s, id, "", str_c(&body));
    }
    break_file("", cut_half);
    assert_false(responses_store_put(s, "new", 0, sv(""), sv("{}"), &e));
    assert_true(e.set);
    responses_store_close(s);
    str_free(&body);
}

// Without an option, the place is the user's; it is made when it is first needed, and what can't be
// made is no end of the world.
static void usual_place(void **state) {
    struct responses_store_options o = {NULL, 10, 1000, 0};
    struct error e = {0};
    (void)state;
    setenv("XDG_STATE_HOME", "/dev/null/x", 1);
    struct responses_store *s = responses_store_open(&o, &e);
    assert_non_null(s);
    assert_non_null(strstr(responses_store_off(s), "--responses-store-file"));
    assert_false(responses_store_put(s, "a", 0, sv(""), sv("{}"), &e));
    setenv("XDG_STATE_HOME", dir, 1);
    char *place = path_join(dir, "mlxcel"), *there = path_join(place, "responses.db");
    assert_false(file_named(place));
    assert_null(responses_store_off(s));
    assert_true(file_exists(there));
    responses_store_close(s);
    assert_int_equal(remove(there), 0);
    assert_int_equal(remove(place), 0);
    unsetenv("XDG_STATE_HOME");
    free(there);
    free(place);
}

// --- faults --------------------------------------------------------------------------------------

static void let_files_grow(rlim_t most) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

// A disk that takes no more refuses what is too much for it and nothing else.
static void full_disk(void **state) {
    struct responses_store *s = open_roomy();
    struct error e = {0};
    struct str big = {0};
    (void)state;
    while (big.n < BIG) str_puts(&big, "0123456789");
    signal(SIGXFSZ, SIG_IGN);
    put(s, "before", "", "{}");
    for (int i = 0; i < 3; i++) {
        struct error why = {0};
        let_files_grow(LIMIT);
        bool stored = responses_store_put(s, "big", 0, sv(""), str_sv(&big), &why);
        let_files_grow(RLIM_INFINITY);
        assert_false(stored);
        assert_true(*why.text);
        assert_true(has(s, "before") && !has(s, "big"));
        let_files_grow(LIMIT);
        const char id[] = {(char)('0' + i), 0};
        stored = responses_store_put(s, id, 0, sv(""), sv("{}"), &e);
        let_files_grow(RLIM_INFINITY);
        if (!stored) fail_msg("%s", e.text);
    }
    assert_true(responses_store_put(s, "big", 0, sv(""), str_sv(&big), &e));
    responses_store_close(s);
    s = open_roomy();
    assert_true(has(s, "before") && has(s, "0") && has(s, "2") && has(s, "big"));
    responses_store_close(s);
    str_free(&big);
}

// Puts answers of 10 KB until one does not fit, or `most`; how many there are then.
static int fill(struct responses_store *s, const char *name, int most) {
    struct str body = {0};
    int n = 0;
    while (body.n < 10000) str_puts(&body, "0123456789");
    for (bool stored = true; stored && n < most;) {
        struct error e = {0};
        char id[16];
        snprintf(id, sizeof id, "%s%d", name, n);
        let_files_grow(LIMIT);
        stored = responses_store_put(s, id, (int64_t)time(NULL), sv(""), str_sv(&body), &e);
        let_files_grow(RLIM_INFINITY);
        n += stored;
    }
    str_free(&body);
    return n;
}

// Where the disk has no room any more, what is deleted gives some, and so does what has to go.
static void full_disk_frees(void **state) {
    struct responses_store *s = open_roomy();
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    int n = fill(s, "a", 1000);
    assert_in_range(n, 3, LIMIT / 10000);
    for (int i = 0; i < 3; i++) {
        struct error e = {0};
        const char id[] = {'a', (char)('0' + i), 0};
        let_files_grow(LIMIT);
        enum stored is = responses_store_drop(s, sv(id), &e);
        let_files_grow(RLIM_INFINITY);
        if (is != STORED) fail_msg("%s: %s", id, e.text);
    }
    assert_in_range(fill(s, "b", 1000), 1, 4);
    responses_store_close(s);
    s = open_store(5, 1 << 30, 0); // none is more than the limit while another comes
    assert_int_equal(fill(s, "c", 100), 100);
    assert_true(has(s, "c99") && has(s, "c95") && !has(s, "c94"));
    responses_store_close(s);
    s = open_roomy();
    fill(s, "d", 1000);
    responses_store_close(s);
    s = open_store(10000, 1 << 30, 1);
    sleep(2);
    assert_int_equal(fill(s, "e", 3), 3);
    assert_false(has(s, "d0"));
    responses_store_close(s);
}

// All of a small disk's answers are too old at once: more than the log has room for. 0: one more
// can be stored.
static int outlive(void) {
    struct responses_store *s = open_roomy();
    struct str body = {0};
    bool stored = true;
    while (body.n < 10000) str_puts(&body, "0123456789");
    for (int i = 0; stored; i++) {
        struct error e = {0};
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        stored = responses_store_put(s, id, (int64_t)time(NULL) - 10, sv(""), str_sv(&body), &e);
    }
    responses_store_close(s);
    struct error e = {0};
    s = open_store(10000, 1 << 30, 5);
    stored = responses_store_put(s, "new", (int64_t)time(NULL), sv(""), str_sv(&body), &e);
    if (!stored) print_error("%s\n", e.text);
    bool kept = stored && has(s, "new");
    responses_store_close(s);
    str_free(&body);
    return kept ? 0 : 1;
}

// Where the test may mount one: in a process whose mounts nobody else sees.
static void small_disk(void **state) {
    enum { NOT_ALLOWED = 77 };
    int status;
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        bool mounted = unshare(CLONE_NEWNS) == 0 &&
                       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                       mount("tmpfs", dir, "tmpfs", 0, "size=600k") == 0;
        _exit(mounted ? outlive() : NOT_ALLOWED);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_ALLOWED) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

// Puts answers until it is killed, and says each one's number when it is stored.
static void put_for_ever(int out, uint32_t number) {
    struct responses_store *s = open_roomy();
    struct str body = {0};
    while (body.n < 3000) str_puts(&body, "0123456789");
    for (;; number++) {
        struct error e = {0};
        char id[16];
        snprintf(id, sizeof id, "%u", number);
        if (!responses_store_put(s, id, 0, sv(""), str_sv(&body), &e)) _exit(1);
        if (write(out, &number, sizeof number) != sizeof number) _exit(1);
    }
}

static void killed(void **state) {
    uint32_t said = 0, last = 0;
    (void)state;
    for (int i = 0; i < KILLS; i++) {
        int pipes[2], status;
        assert_int_equal(pipe(pipes), 0);
        pid_t pid = fork();
        if (pid == 0) put_for_ever(pipes[1], last + 1);
        close(pipes[1]);
        assert_int_equal(read(pipes[0], &said, sizeof said), sizeof said);
        usleep((useconds_t)(1000 + 7919 * i % 30000));
        kill(pid, SIGKILL);
        while (read(pipes[0], &said, sizeof said) == sizeof said) continue;
        close(pipes[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        struct responses_store *s = open_roomy();
        for (uint32_t k = last + 1; k <= said; k++) {
            char id[16];
            snprintf(id, sizeof id, "%u", k);
            if (!has(s, id)) fail_msg("%s of %u is lost", id, said);
        }
        responses_store_close(s);
        last = said + 1; // may have been stored without having been said
    }
}

struct task {
    struct responses_store *s;
    int number;
};

static void *use(void *arg) {
    const struct task *t = arg;
    for (int i = 0; i < EACH; i++) {
        struct error e = {0};
        char id[32];
        snprintf(id, sizeof id, "%d-%d", t->number, i);
        bool ok = responses_store_put(t->s, id, (int64_t)time(NULL), sv("{}\n"), sv("{}"), &e) &&
                  responses_store_get(t->s, sv(id), NULL, NULL, &e) == STORED &&
                  responses_store_drop(t->s, sv(id), &e) == STORED;
        if (!ok) return arg;
    }
    return NULL;
}

// Threads share a store, and two stores (of two processes) the file.
static void shared(void **state) {
    struct responses_store *s[2] = {open_roomy(), open_roomy()};
    pthread_t thread[THREADS];
    struct task task[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++) {
        task[i] = (struct task){s[i % 2], i};
        assert_int_equal(pthread_create(&thread[i], NULL, use, &task[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    put(s[0], "both", "", "{}");
    assert_true(has(s[1], "both"));
    responses_store_close(s[0]);
    responses_store_close(s[1]);
}

// Processes that begin at once with a file that isn't there yet.
static void beginning(void **state) {
    enum { PROCESSES = 8 };
    pid_t pid[PROCESSES];
    int go[2];
    (void)state;
    assert_int_equal(pipe(go), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        if (pid[i]) continue;
        struct responses_store_options o = {file, 1000, 1000000, 0};
        struct error e = {0};
        const char id[] = {(char)('a' + i), 0};
        char c;
        close(go[1]);
        if (read(go[0], &c, 1)) _exit(1); // until nobody can write
        struct responses_store *s = responses_store_open(&o, &e);
        bool ok = s && responses_store_put(s, id, 0, sv(""), sv("{}"), &e);
        if (!ok) print_error("%s\n", e.text);
        _exit(!ok);
    }
    close(go[1]);
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    close(go[0]);
    struct responses_store *s = open_roomy();
    for (char id[] = "a"; *id < 'a' + PROCESSES; id[0]++) assert_true(has(s, id));
    responses_store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(keeps),      TEST(forgets),     TEST(limits),          TEST(lives),
        TEST(off),        TEST(wrong_files), TEST(usual_place),     TEST(full_disk),
        TEST(killed),     TEST(shared),      TEST(beginning),       TEST(in_memory),
        TEST(taken_away), TEST(cut_short),   TEST(full_disk_frees), TEST(small_disk),
    };
    return cmocka_run_group_tests_name("responses store", tests, NULL, NULL);
}
