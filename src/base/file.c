#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

// A link to what is not there, as an unfinished download leaves it, is told with its target.
static void open_failed(const char *path, struct error *e) {
    int why = errno;
    char target[512];
    ssize_t n = why == ENOENT ? readlink(path, target, sizeof target) : -1;
    if (n > 0)
        fail(e, "%s: is a link to %.*s, which is not there (finish the download)", path, (int)n,
             target);
    else
        fail(e, "%s: %s", path, strerror(why));
}

// Opens a regular file for reading; *size is its length.
static int open_regular(const char *path, size_t *size, struct error *e) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        open_failed(path, e);
    } else if (!S_ISREG(st.st_mode)) {
        fail(e, "%s: is not a regular file", path);
    } else {
        *size = (size_t)st.st_size;
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

bool map_file(const char *path, struct mapping *m, struct error *e) {
    *m = (struct mapping){0};
    size_t size;
    int fd = open_regular(path, &size, e);
    if (fd < 0) return false;
    if (size) {
        void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
            fail(e, "%s: cannot map %zu bytes: %s", path, size, strerror(errno));
        else
            *m = (struct mapping){p, size};
    }
    close(fd);
    return !e->set;
}

void unmap_file(struct mapping *m) {
    if (m->p) munmap((void *)(uintptr_t)m->p, m->n);
    *m = (struct mapping){0};
}

static void end_at_fault(int signal) {
    static const char say[] = "mlxcel: error: a file of the model became shorter, or could not be "
                              "read, while it was in use\n";
    (void)signal;
    if (write(STDERR_FILENO, say, sizeof say - 1) < 0) _exit(1); // nobody to tell
    _exit(1);
}

void map_faults_end(void) {
    struct sigaction act = {.sa_handler = end_at_fault, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&act.sa_mask);
    sigaction(SIGBUS, &act, NULL);
}

bool file_read(const char *path, size_t limit, struct str *out, struct error *e) {
    size_t size;
    int fd = open_regular(path, &size, e);
    if (fd < 0) return false;
    if (size > limit) fail(e, "%s: is %zu bytes; at most %zu are read", path, size, limit);
    str_clear(out);
    char chunk[1 << 16];
    while (!e->set) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail(e, "%s: %s", path, strerror(errno));
        if (n <= 0) break;
        if (out->n + (size_t)n > limit)
            fail(e, "%s: grew past %zu bytes while it was read", path, limit);
        else
            str_add(out, sv_n(chunk, (size_t)n));
    }
    close(fd);
    return !e->set;
}

static bool write_all(int fd, struct sv data) {
    while (data.n) {
        ssize_t n = write(fd, data.p, data.n);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        data = sv_cut(data, (size_t)n, data.n);
    }
    return true;
}

static bool write_failed(const char *path, int why, struct error *e) {
    return fail(e, "%s: cannot write: %s", path, strerror(why));
}

// What is no regular file (a device, a pipe) must not be replaced by one.
static bool write_into(const char *path, struct sv data, struct error *e) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write_all(fd, data);
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && ok) ok = false, why = errno;
    return ok || write_failed(path, why, e);
}

static bool replace(const char *path, struct sv data, mode_t mode, struct error *e) {
    static atomic_uint count; // threads may write the same file
    struct str tmp = {0};
    str_printf(&tmp, "%s.tmp-%d-%u", path, (int)getpid(), atomic_fetch_add(&count, 1));
    int fd = open(tmp.p, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    bool ok = fd >= 0 && write_all(fd, data) && fsync(fd) == 0;
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && ok) ok = false, why = errno;
    if (ok && rename(tmp.p, path) != 0) ok = false, why = errno;
    if (!ok && fd >= 0) unlink(tmp.p);
    str_free(&tmp);
    return ok || write_failed(path, why, e);
}

char *file_target(const char *path, struct error *e) {
    struct stat st;
    if (stat(path, &st) != 0) return mem_text(path);
    char *file = S_ISREG(st.st_mode) ? realpath(path, NULL) : NULL;
    if (!file && S_ISREG(st.st_mode)) write_failed(path, errno, e);
    if (!file) fail(e, "%s: cannot write: it is there and is not a regular file", path);
    return file;
}

bool file_write(const char *path, struct sv data, struct error *e) {
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return write_into(path, data, e);
    char *file = file_target(path, e);
    bool ok = file && replace(file, data, 0644, e);
    free(file);
    return ok;
}

bool file_write_private(const char *path, struct sv data, struct error *e) {
    char *file = file_target(path, e);
    bool ok = file && replace(file, data, 0600, e);
    free(file);
    return ok;
}

void files_standard(void) {
    for (int fd = open("/dev/null", O_RDONLY); fd >= 0; fd = dup(fd)) {
        if (fd <= STDERR_FILENO) continue;
        close(fd);
        break;
    }
}

bool file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool file_named(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool dir_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool dir_make(const char *path, struct error *e) {
    char *p = mem_text(path);
    for (char *c = p + 1; *p; c++) {
        bool last = *c == 0;
        if (*c != '/' && !last) continue;
        *c = 0;
        if (mkdir(p, 0755) != 0 && errno != EEXIST) fail(e, "%s: %s", p, strerror(errno));
        if (last || e->set) break;
        *c = '/';
    }
    free(p);
    if (!e->set && !dir_exists(path)) fail(e, "%s: is not a folder", path);
    return !e->set;
}

char *path_join(const char *dir, const char *name) {
    struct str s = {0};
    str_puts(&s, dir);
    if (s.n && s.p[s.n - 1] != '/') str_addc(&s, '/');
    str_puts(&s, name);
    return s.p;
}

struct sv path_dir(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return sv(".");
    return sv_n(path, slash == path ? 1 : (size_t)(slash - path));
}

struct sv path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return sv(slash ? slash + 1 : path);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool dir_list(const char *path, struct names *out, struct error *e) {
    DIR *d = opendir(path);
    if (!d) return fail(e, "%s: %s", path, strerror(errno));
    for (struct dirent *it; (it = readdir(d));) {
        if (!strcmp(it->d_name, ".") || !strcmp(it->d_name, "..")) continue;
        out->name = mem_grow(out->name, &out->cap, out->n + 1, sizeof *out->name);
        out->name[out->n++] = mem_text(it->d_name);
    }
    closedir(d);
    if (out->n) qsort(out->name, out->n, sizeof *out->name, by_name);
    return true;
}

void names_free(struct names *n) {
    for (size_t i = 0; i < n->n; i++) free(n->name[i]);
    free(n->name);
    *n = (struct names){0};
}
