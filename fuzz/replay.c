// Runs a fuzz target over files and the files of folders, where there is no libFuzzer to do it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool run(const char *path, struct error *e) {
    struct str text = {0};
    if (!file_read(path, (size_t)1 << 30, &text, e)) return false;
    uint8_t *exact = mem_alloc(text.n); // so that ASan sees a read past its end
    if (text.n > 0) memcpy(exact, text.p, text.n);
    LLVMFuzzerTestOneInput(exact, text.n);
    free(exact);
    str_free(&text);
    return true;
}

int main(int argc, char **argv) {
    struct error e = {0};
    size_t ran = 0;
    for (int i = 1; i < argc; i++) {
        if (!dir_exists(argv[i])) {
            if (run(argv[i], &e)) ran++;
            continue;
        }
        struct names names = {0};
        if (!dir_list(argv[i], &names, &e)) break;
        for (size_t k = 0; k < names.n; k++) {
            char *path = path_join(argv[i], names.name[k]);
            if (run(path, &e)) ran++;
            free(path);
        }
        names_free(&names);
    }
    if (ran == 0) fail(&e, "no inputs: give files or folders of them");
    if (e.set) fprintf(stderr, "%s\n", e.text);
    printf("%zu inputs\n", ran);
    return e.set;
}
