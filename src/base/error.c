#include "base/error.h"

#include <stdio.h>
#include <string.h>

// A message may quote names from a hostile file: no control character may reach the terminal, also
// none of U+0080 to U+009F, which some terminals obey.
static void clean(char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)text[0], next = (unsigned char)text[1];
        if (c < 0x20 || c == 0x7f) *text = '?';
        if (c == 0xc2 && next >= 0x80 && next < 0xa0) text[0] = text[1] = '?';
    }
}

bool vfail(struct error *e, const char *fmt, va_list args) {
    if (!e->set) {
        vsnprintf(e->text, sizeof e->text, fmt, args);
        clean(e->text);
        e->set = true;
    }
    return false;
}

bool fail(struct error *e, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vfail(e, fmt, args);
    va_end(args);
    return false;
}

bool fail_in(struct error *e, const char *fmt, ...) {
    if (!e->set) return false;
    char old[sizeof e->text];
    memcpy(old, e->text, sizeof old);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(e->text, sizeof e->text, fmt, args);
    va_end(args);
    size_t at = n < 0 ? 0 : (size_t)n;
    size_t room = at < sizeof e->text ? sizeof e->text - at : 0; // what does not fit is cut off
    if (room > 0 && snprintf(e->text + at, room, ": %s", old) < 0) e->text[at] = '\0';
    clean(e->text);
    return false;
}

bool fail_usage(struct error *e) {
    e->usage = e->set;
    return false;
}
