// Folders of tests: scratch ones, and the cases that a folder of fixtures holds.
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include "check.h"

#include <unistd.h>

#include "base/file.h"

// A new, empty folder in /tmp, whose path goes into dir.
static inline void folder_make(char dir[32]) {
    strcpy(dir, "/tmp/mlxcel-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
}

// Calls use with the path of each entry of a folder. Returns how many there are.
static inline size_t folder_each(const char *dir, void (*use)(const char *path)) {
    struct error e = {0};
    struct names names = {0};
    assert_true(dir_list(dir, &names, &e));
    for (size_t i = 0; i < names.n; i++) {
        char *path = path_join(dir, names.name[i]);
        use(path);
        free(path);
    }
    size_t n = names.n;
    names_free(&names);
    return n;
}

static inline void file_remove(const char *path) { assert_int_equal(unlink(path), 0); }

// Removes a folder of plain files.
static inline void folder_remove(const char *dir) {
    folder_each(dir, file_remove);
    assert_int_equal(rmdir(dir), 0);
}

#endif
