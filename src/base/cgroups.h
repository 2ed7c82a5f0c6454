// The control groups that this process is in, as a container's: the folders whose files hold limits
// and uses, of its own group and then of each above it, any of which may set a limit.
//
//   struct cgroups g;
//   cgroups_open(&g, "/sys/fs/cgroup", "/proc/self/cgroup", "memory");
//   for (const char *folder; (folder = cgroups_next(&g));) look(folder);
//
// A container may see its own group as the root while its name is still the one outside: then the
// folders of that name are missing, and the root has the limits.
#ifndef BASE_CGROUPS_H
#define BASE_CGROUPS_H

#include <stdio.h>

struct cgroups {
    FILE *f; // lines that name groups; NULL: no more
    const char *root, *controller;
    const char *mount; // below root, of the line's kind of groups
    char *group;       // in line; each next one is shorter
    char line[4096], folder[4352];
};

// The groups of a controller ("cpu"). root is where they are mounted, own the file that names the
// process's; it may be missing. Both texts must outlive g.
void cgroups_open(struct cgroups *g, const char *root, const char *own, const char *controller);
// The next folder, which is good until the next call, or NULL when there are no more, which closes.
const char *cgroups_next(struct cgroups *g);

#endif
