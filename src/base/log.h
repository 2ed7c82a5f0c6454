// Messages to a person, on stderr. MLXCEL_LOG=error|warn|info|debug sets the least level shown
// (default warn; -v on the command line is debug).
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/error.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

// False when MLXCEL_LOG is none of those words. For programs: without it such a word is ignored.
bool log_environment(struct error *e);
void log_set(enum log_level least);
void log_say(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
