// Errors. A function that can fail takes a `struct error *` last and returns false (or NULL); the
// first failure sticks, so a caller may run several steps and look once. A message is one line
// that names the file, the key, the value and the remedy.
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdbool.h>
#include <stdarg.h>

struct error {
    bool set;
    bool usage; // the program was called wrongly
    char text[768];
};

// Records a message unless one is already there. Always returns false: `return fail(e, ...)`.
// Control characters in the message (hostile names and values) are replaced by '?'.
bool fail(struct error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool vfail(struct error *e, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));

// Puts "context: " before the message that e holds; does nothing when e is clear. Returns false.
bool fail_in(struct error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Marks e's message, if it holds one, as about how the program was called. Returns false.
bool fail_usage(struct error *e);

#endif
