// Messages to a person or to a machine, a line each, on standard error.
// MLXCEL_LOG=error|warn|info|debug sets the least level shown (default warn; -v on the command line
// is debug).
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/error.h"
#include "base/str.h"

enum log_level { LOG_NONE = -1, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

struct log_options {
    const char *name; // of the program, which begins a line of text; NULL: "mlxcel"
    const char *file; // gets every line too, behind those that are there; NULL: none. A file, a
                      // terminal or a pipe; lines that it can't take at once are counted, and told
    bool json;        // a line is an object with time, level and type
    bool bare;        // text without that name and the level before it
    bool timestamps;  // before text: "2026-11-30T11:06:00.123Z"
};

// False when MLXCEL_LOG is none of those words. For programs: without it such a word is ignored.
bool log_environment(struct error *e);
// For programs, before they have threads.
bool log_open(const struct log_options *o, struct error *e);
// Opens the file by its name again, for who has given it another one. Where that fails, lines go on
// to the old one, and say so.
void log_reopen(void);
void log_set(enum log_level least); // LOG_NONE: nothing is shown
bool log_shows(enum log_level level);
void log_say(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// The same fact twice: as text, or for JSON as an object's members ("\"a\":1,\"b\":\"c\"") beside
// its type. Control characters in the text become '?'.
void log_event(enum log_level level, const char *type, struct sv text, struct sv members);

#endif
