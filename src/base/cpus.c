#include "base/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroups.h"
#include "base/mem.h"
#include "base/str.h"

static bool has(const struct cpus *c, int cpu) { return c->bit[cpu / 64] >> (cpu % 64) & 1; }
static void add(struct cpus *c, int cpu) { c->bit[cpu / 64] |= (uint64_t)1 << (cpu % 64); }

// --- sets ----------------------------------------------------------------------------------------

bool cpus_add_mask(struct cpus *c, const char *mask, struct error *e) {
    const char *digits = mask;
    if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) digits += 2;
    size_t n = strlen(digits);
    if (!n || n > CPUS_MOST / 4)
        return fail(e, "CPU mask \"%s\": is not 1 to %d hexadecimal digits", mask, CPUS_MOST / 4);
    for (size_t i = 0; i < n; i++) {
        int digit = hex_digit(digits[i]), first = 4 * (int)(n - 1 - i);
        if (digit < 0) return fail(e, "CPU mask \"%s\": is not hexadecimal", mask);
        for (int k = 0; k < 4; k++)
            if (digit >> k & 1) add(c, first + k);
    }
    return true;
}

// Reads a CPU's number at *s, if there is one; *cpu stays as it is without.
static bool read_cpu(const char **s, int *cpu) {
    if (**s < '0' || **s > '9') return true;
    char *end;
    long n = strtol(*s, &end, 10);
    *s = end;
    *cpu = (int)(n < CPUS_MOST ? n : CPUS_MOST);
    return n < CPUS_MOST;
}

bool cpus_add_range(struct cpus *c, const char *range, struct error *e) {
    struct cpus allowed = cpus_allowed();
    int from = 0, to = CPUS_MOST - 1;
    while (from < to && !has(&allowed, from)) from++;
    while (to > from && !has(&allowed, to)) to--;
    const char *s = range;
    bool ok = read_cpu(&s, &from) && *s++ == '-' && read_cpu(&s, &to) && !*s && from <= to;
    if (!ok || strlen(range) < 2)
        return fail(e, "CPU range \"%s\": is not FIRST-LAST with numbers from 0 to %d", range,
                    CPUS_MOST - 1);
    for (int i = from; i <= to; i++) add(c, i);
    return true;
}

bool cpus_within(const struct cpus *c, const struct cpus *all) {
    for (int i = 0; i < CPUS_MOST / 64; i++)
        if (c->bit[i] & ~all->bit[i]) return false;
    return true;
}

int cpus_count(const struct cpus *c) {
    int n = 0;
    for (int i = 0; i < CPUS_MOST; i++) n += has(c, i);
    return n;
}

// --- the machine's -------------------------------------------------------------------------------

struct cpus cpus_allowed(void) {
    struct cpus c = {0};
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) CPU_SET(0, &set);
    for (int i = 0; i < CPUS_MOST && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set)) add(&c, i);
    return c;
}

bool cpus_pin(const struct cpus *c) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < CPUS_MOST && i < CPU_SETSIZE; i++)
        if (has(c, i)) CPU_SET(i, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

// The first line of a file, or "".
static void first_line(const char *path, char *line, int size) {
    FILE *f = fopen(path, "r");
    if (!f || !fgets(line, size, f)) *line = '\0';
    if (f) fclose(f);
}

// The first CPU of the same physical core.
static int sibling(int cpu) {
    char path[96], line[32]; // "0,4" or "0-1"
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    first_line(path, line, sizeof line);
    return *line ? (int)strtol(line, NULL, 10) : cpu;
}

int cpus_list(const struct cpus *c, int *list) {
    struct cpus met = {0}; // cores, by their first CPU
    int n = 0, cores = 0;
    int *rest = mem_array(CPUS_MOST, sizeof *rest), others = 0;
    for (int i = 0; i < CPUS_MOST; i++) {
        if (!has(c, i)) continue;
        int core = sibling(i);
        if (core < 0 || core >= CPUS_MOST) core = i;
        if (has(&met, core))
            rest[others++] = i;
        else
            list[n++] = i;
        add(&met, core);
    }
    cores = n;
    for (int i = 0; i < others; i++) list[n++] = rest[i];
    free(rest);
    return cores;
}

// --- control groups ------------------------------------------------------------------------------

static double least_quota(double a, double b) { return a > 0 && (b <= 0 || a < b) ? a : b; }

// Of one group: "max 100000" or "150000 100000" in version 2, two files in version 1, where -1 is
// no limit.
static double group_quota(const char *folder) {
    char path[4416], line[64];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    first_line(path, line, sizeof line);
    char *end;
    double quota = strtod(line, &end), period = strtod(end, NULL);
    if (!*line) {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
        first_line(path, line, sizeof line);
        quota = strtod(line, NULL);
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        first_line(path, line, sizeof line);
        period = strtod(line, NULL);
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

double cpus_quota(const char *root, const char *own) {
    struct cgroups g;
    double least = 0;
    cgroups_open(&g, root, own, "cpu");
    for (const char *folder; (folder = cgroups_next(&g));)
        least = least_quota(group_quota(folder), least);
    return least;
}
