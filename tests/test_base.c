// base/: text, maps, files, and JSON.
#include "check.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/map.h"
#include "compute/cpu/memory.h"
#include "tensor/tensor.h"

static void test_error_sticks(void **state) {
    (void)state;
    struct error e = {0};
    assert_false(fail(&e, "first %d", 1));
    fail(&e, "second");
    fail_in(&e, "file");
    assert_string_equal(e.text, "file: first 1");
    struct error bell = {0};
    fail(&bell, "a\x1b[31m\n");
    assert_string_equal(bell.text, "a?[31m?");
    struct error csi = {0};
    fail(&csi, "\xc2\x9b"
               "31m\xc2\xa9"); // U+009B is what ESC [ is; a copyright sign stays
    assert_string_equal(csi.text, "??31m\xc2\xa9");
}

static void test_utf8(void **state) {
    (void)state;
    const char *text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    int32_t want[] = {'a', 0xe9, 0x20ac, 0x1f600};
    size_t at = 0, len;
    for (int i = 0; i < 4; i++, at += len) {
        assert_int_equal(utf8_decode(sv(text), at, &len), want[i]);
        char back[4];
        assert_int_equal(utf8_encode((uint32_t)want[i], back), len);
        assert_memory_equal(back, text + at, len);
    }
    const char *bad[] = {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                         "\x80",     "\xe2\x82",     "\xff"};
    for (int i = 0; i < 6; i++) assert_false(utf8_valid(sv(bad[i])));
    assert_int_equal(utf8_partial(sv("ab\xe2\x82")), 2);
    assert_int_equal(utf8_partial(sv("ab\xf0\x9f\x98")), 3);
    assert_int_equal(utf8_partial(sv("ab\xf0\x9f\x98\x80")), 0);
    assert_int_equal(utf8_partial(sv("ab\xed\xa0")), 0); // a surrogate can't be completed
    assert_int_equal(utf8_partial(sv("ab\xf4\x90")), 0);
}

static void test_map(void **state) {
    (void)state;
    struct map m = {0};
    assert_int_equal(map_get(&m, sv("x")), -1);
    for (int i = 0; i < 1000; i++) {
        char key[16];
        snprintf(key, sizeof key, "key%d", i);
        assert_true(map_put(&m, sv(key), i));
        assert_false(map_put(&m, sv(key), i + 1));
    }
    assert_int_equal(map_get(&m, sv("key777")), 777);
    assert_true(map_put(&m, sv_n("key777\0", 7), 5)); // a NUL is part of the key
    assert_int_equal(map_get(&m, sv("key777")), 777);
    map_set(&m, sv("key777"), 1);
    assert_int_equal(map_get(&m, sv("key777")), 1);
    map_free(&m);
}

static void test_json(void **state) {
    (void)state;
    struct error e = {0};
    struct json_object *o =
        json_read(sv("{\"i\": 9007199254740993, \"f\": 1.0, \"n\": null, \"x\": NaN}"), "t", &e);
    assert_non_null(o);
    assert_true(json_int_at(o, "i", 0) == 9007199254740993);
    assert_true(json_int_at(o, "f", 7) == 7); // 1.0 is not an integer
    assert_true(isnan(json_number_at(o, "x", 0)));
    json_object_put(o);
    const char *bad[] = {"{\"a\": 1", "{} x", "",       "{\"a\" 1}",
                         "\"\xff\"",  "null", "null\n", "12 3"};
    for (int i = 0; i < 8; i++) {
        struct error why = {0};
        assert_null(json_read(sv(bad[i]), "t", &why));
        assert_true(why.set);
    }
    o = json_read(sv("12"), "t", &e);
    assert_int_equal(json_object_get_int(o), 12);
    json_object_put(o);
    struct str deep = {0}, quoted = {0};
    for (int i = 0; i < 100000; i++) str_addc(&deep, '[');
    assert_null(json_read(str_sv(&deep), "deep", &e));
    json_quote(&quoted, sv("a\"\\\n\x01\xff"));
    assert_string_equal(quoted.p, "\"a\\\"\\\\\\n\\u0001\xef\xbf\xbd\"");
    str_free(&deep);
    str_free(&quoted);
}

static void test_file(void **state) {
    (void)state;
    struct error e = {0};
    char dir[] = "/tmp/mlxcel-base-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *path = path_join(dir, "a");
    assert_true(file_write(path, sv("hello"), &e));
    struct mapping m;
    assert_true(map_file(path, &m, &e));
    assert_memory_equal(m.p, "hello", 5);
    unmap_file(&m);
    struct str s = {0};
    assert_true(file_read(path, 5, &s, &e));
    assert_string_equal(s.p, "hello");
    assert_false(file_read(path, 4, &s, &e));
    struct error is_dir = {0};
    assert_false(map_file(dir, &m, &is_dir));
    unlink(path);
    rmdir(dir);
    free(path);
    str_free(&s);
}

// What is written to must stay what it is: a link a link, a device a device.
static void test_write_in_place(void **state) {
    (void)state;
    struct error e = {0};
    char dir[] = "/tmp/mlxcel-base-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *file = path_join(dir, "file"), *link = path_join(dir, "link"),
         *dead = path_join(dir, "dead");
    char *fifo = path_join(dir, "fifo"), room[8] = "";
    struct stat st;
    assert_true(file_write(file, sv("old"), &e) && symlink("file", link) == 0);
    assert_true(file_write(link, sv("new"), &e));
    assert_true(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    struct str s = {0};
    assert_true(file_read(file, 9, &s, &e));
    assert_string_equal(s.p, "new");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    int fd = open(fifo, O_RDWR | O_NONBLOCK);
    assert_true(file_write(fifo, sv("pipe"), &e));
    assert_true(lstat(fifo, &st) == 0 && S_ISFIFO(st.st_mode));
    assert_int_equal(read(fd, room, sizeof room), 4);
    close(fd);
    assert_false(file_write(dir, sv("x"), &e)); // a folder
    assert_int_equal(symlink("../blobs/none", dead), 0);
    assert_true(file_named(dead) && !file_exists(dead) && file_named(fifo));
    struct error unfinished = {0};
    assert_false(file_read(dead, 9, &s, &unfinished));
    assert_non_null(strstr(unfinished.text, "link to ../blobs/none"));
    char *const all[] = {file, link, dead, fifo};
    for (int i = 0; i < 4; i++) unlink(all[i]);
    assert_false(file_named(file));
    for (int i = 0; i < 4; i++) free(all[i]);
    rmdir(dir);
    str_free(&s);
}

static void cut_while_mapped(const char *path) {
    struct error e = {0};
    struct mapping m;
    if (!map_file(path, &m, &e) || truncate(path, 0) != 0) _exit(3);
    if (!freopen("/dev/null", "w", stderr)) _exit(4);
    map_faults_end();
    _exit(*(volatile const unsigned char *)m.p ? 5 : 6);
}

static void test_cut_while_mapped(void **state) {
    (void)state;
    struct error e = {0};
    char dir[] = "/tmp/mlxcel-base-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *path = path_join(dir, "cut");
    assert_true(file_write(path, sv("weights"), &e));
    int status, pid = fork();
    if (pid == 0) cut_while_mapped(path);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    unlink(path);
    rmdir(dir);
    free(path);
}

// A tree costs a hundred times its text: a text of brackets is refused before it grows.
// What a string holds may be parsed later, however its marks are written.
static void test_json_cost(void **state) {
    (void)state;
    size_t plain = json_cost(sv("\"xxxxxx\"")), open = json_cost(sv("\"{\""));
    assert_true(open > plain);
    assert_true(json_cost(sv("\"\\u007b\"")) > open);
    assert_int_equal(json_cost(sv("\"\\u017b\"")), plain);
    assert_int_equal(json_cost(sv("\"\\u007")), json_cost(sv("\"\\u00z")));
}

static void test_json_values(void **state) {
    (void)state;
    struct error e = {0};
    struct str s = {0};
    struct json_object *bare = json_read(sv("-17"), "bare", &e);
    assert_true(bare && json_object_get_int64(bare) == -17);
    json_object_put(bare);
    str_puts(&s, "[0");
    for (int i = 0; i < JSON_VALUES / 8; i++) str_puts(&s, ",0,0,0,0,0,0,0,0");
    str_puts(&s, "]");
    assert_null(json_read(str_sv(&s), "many", &e));
    assert_non_null(strstr(e.text, "many: holds more than"));
    str_free(&s);
}

// A limit on the process's memory is a limit on what is available.
static void test_memory_limit(void **state) {
    (void)state;
    enum { ROOM = 64 << 20 };
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (!f || fscanf(f, "%*u %*u %*u %*u %*u %lu", &pages) != 1) skip();
    fclose(f);
    struct rlimit old, less;
    assert_int_equal(getrlimit(RLIMIT_DATA, &old), 0);
    less = (struct rlimit){pages * (size_t)getpagesize() + ROOM, old.rlim_max};
    assert_true(memory_available(SIZE_MAX) > 0);
    assert_int_equal(setrlimit(RLIMIT_DATA, &less), 0);
    size_t available = memory_available(SIZE_MAX);
    assert_int_equal(setrlimit(RLIMIT_DATA, &old), 0);
    assert_true(available <= ROOM);
}

static void test_float_formats(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) { // what a half says comes back as that half
        float f = f16_to_f32((uint16_t)h);
        if (isnan(f)) continue;
        assert_int_equal(f32_to_f16(f), h);
    }
    assert_int_equal(f32_to_f16(65519.0f), 0x7bff);
    assert_int_equal(f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(f32_to_f16(0x1.002p0f), 0x3c00); // a tie goes to even
    assert_int_equal(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
    assert_true(isnan(bf16_to_f32(f32_to_bf16(NAN))));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_sticks),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_write_in_place),
        cmocka_unit_test(test_json_cost),
        cmocka_unit_test(test_json_values),
        cmocka_unit_test(test_cut_while_mapped),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_float_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
