#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"error", "warn", "info", "debug"};
static atomic_int least_shown = -1; // -1: read the environment first

static int level_from_env(void) {
    const char *want = getenv("MLXCEL_LOG");
    for (int i = 0; want && i < 4; i++)
        if (!strcmp(want, names[i])) return i;
    return LOG_WARN;
}

bool log_environment(struct error *e) {
    const char *want = getenv("MLXCEL_LOG");
    bool known = !want || !*want;
    for (int i = 0; !known && i < 4; i++) known = !strcmp(want, names[i]);
    return known || fail(e, "MLXCEL_LOG \"%s\": must be one of error|warn|info|debug", want);
}

void log_set(enum log_level least) { atomic_store(&least_shown, (int)least); }

void log_say(enum log_level level, const char *fmt, ...) {
    int least = atomic_load(&least_shown);
    if (least < 0) atomic_store(&least_shown, least = level_from_env());
    if ((int)level > least) return;
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "mlxcel: %s: %s\n", names[level], text);
}
