#include "base/cgroups.h"

#include <string.h>

#include "base/str.h"

void cgroups_open(struct cgroups *g, const char *root, const char *own, const char *controller) {
    g->f = fopen(own, "r");
    g->root = root;
    g->controller = controller;
    g->group = NULL;
}

static bool names(struct sv controllers, const char *one) {
    while (controllers.n) {
        ptrdiff_t comma = sv_find(controllers, sv(","), 0);
        struct sv first = sv_cut(controllers, 0, comma < 0 ? controllers.n : (size_t)comma);
        if (sv_is(first, one)) return true;
        controllers = sv_cut(controllers, first.n + 1, controllers.n);
    }
    return false;
}

// Lines are "0::/GROUP" for version 2, mounted at the root or beside version 1, and
// "N:cpu,cpuacct:/GROUP" for version 1, each controller in a folder of its name.
static bool next_line(struct cgroups *g) {
    while (g->f && fgets(g->line, sizeof g->line, g->f)) {
        g->line[strcspn(g->line, "\n")] = '\0';
        char *controllers = strchr(g->line, ':');
        g->group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!g->group) continue;
        *g->group++ = '\0';
        bool second = !*++controllers;
        g->mount = second ? "" : "/";
        if (second || names(sv(controllers), g->controller)) return true;
    }
    if (g->f) fclose(g->f);
    g->f = NULL;
    return false;
}

static bool next_group(struct cgroups *g) {
    char *slash = g->group ? strrchr(g->group, '/') : NULL;
    if (!slash) return next_line(g);
    *slash = '\0';
    return true;
}

const char *cgroups_next(struct cgroups *g) {
    while (next_group(g)) {
        int n = snprintf(g->folder, sizeof g->folder, "%s%s%s%s", g->root, g->mount,
                         *g->mount ? g->controller : "", g->group);
        if (n > 0 && (size_t)n < sizeof g->folder) return g->folder;
    }
    return NULL;
}
