#include "compute/cpu/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cgroups.h"

// The number after `name` at a line's start of a file, or the first number where name is empty.
// `otherwise` when there is none ("max" is none).
static size_t number_in(const char *path, const char *name, size_t otherwise) {
    FILE *f = fopen(path, "r");
    char line[256];
    size_t n = strlen(name), value = otherwise;
    while (f && fgets(line, sizeof line, f)) {
        char *end;
        if (strncmp(line, name, n) != 0) continue;
        unsigned long long v = strtoull(line + n, &end, 10);
        if (end != line + n) value = v;
        break;
    }
    if (f) fclose(f);
    return value;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static size_t machine(size_t total) {
    size_t kib = number_in("/proc/meminfo", "MemAvailable:", 0);
    return kib ? kib * 1024 : total;
}

static size_t in_group(const char *folder, const char *file, const char *name, size_t otherwise) {
    char path[4416];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return number_in(path, name, otherwise);
}

// What one control group (version 2) leaves.
static size_t group_leaves(const char *folder) {
    size_t most = in_group(folder, "memory.max", "", SIZE_MAX);
    if (most == SIZE_MAX) return SIZE_MAX;
    size_t used = in_group(folder, "memory.current", "", 0);
    size_t files = in_group(folder, "memory.stat", "active_file ", 0) +
                   in_group(folder, "memory.stat", "inactive_file ", 0);
    used = used > files ? used - files : 0;
    return most > used ? most - used : 0;
}

static size_t groups(void) {
    struct cgroups g;
    size_t left = SIZE_MAX;
    cgroups_open(&g, "/sys/fs/cgroup", "/proc/self/cgroup", "memory");
    for (const char *folder; (folder = cgroups_next(&g));) left = least(left, group_leaves(folder));
    return left;
}

static size_t limit_leaves(int which, size_t used) {
    struct rlimit limit;
    if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

// Pages of data and stack: the sixth number of statm.
static size_t own_data(void) {
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (f && fscanf(f, "%*u %*u %*u %*u %*u %lu", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

size_t memory_available(size_t total) {
    size_t used = own_data();
    size_t limits = least(limit_leaves(RLIMIT_AS, used), limit_leaves(RLIMIT_DATA, used));
    return least(least(machine(total), groups()), limits);
}
