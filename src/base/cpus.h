// The CPUs that threads may run on, and how much of their time.
#ifndef BASE_CPUS_H
#define BASE_CPUS_H

#include <stdint.h>

#include "base/error.h"

enum { CPUS_MOST = 1024 };

struct cpus {
    uint64_t bit[CPUS_MOST / 64]; // CPU 64 i + k is bit k of bit[i]
};

// Add the CPUs of a mask in hexadecimal, "ff" or "0xf0" with CPU 0 in the last bit, and of a range,
// "0-3", "4-" or "-3", whose open end is the first or last that this process may use.
bool cpus_add_mask(struct cpus *c, const char *mask, struct error *e);
bool cpus_add_range(struct cpus *c, const char *range, struct error *e);

struct cpus cpus_allowed(void); // those that the calling thread may run on
bool cpus_within(const struct cpus *c, const struct cpus *all);
int cpus_count(const struct cpus *c);

// Their numbers, in list[cpus_count], one of each physical core first; returns how many cores.
int cpus_list(const struct cpus *c, int *list);

// From now on the calling thread runs on these alone. False when the system refuses.
bool cpus_pin(const struct cpus *c);

// CPUs' worth of time that the control groups of this process, as a container's, allow it; 0: any.
// root is where they are mounted ("/sys/fs/cgroup"), own the file that names the process's
// ("/proc/self/cgroup").
double cpus_quota(const char *root, const char *own);

#endif
