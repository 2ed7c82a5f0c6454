// A scratch folder for each test, and the path of the store that the test makes in it.
#ifndef TESTS_STORE_FOLDER_H
#define TESTS_STORE_FOLDER_H

#include "folder.h"

static char dir[32];
static char *file;

static int make_dir(void **state) {
    (void)state;
    folder_make(dir);
    file = path_join(dir, "r.db");
    return 0;
}

static int drop_dir(void **state) {
    (void)state;
    free(file);
    folder_remove(dir);
    return 0;
}

#endif
