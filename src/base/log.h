// Messages to a person, on stderr. MLXCEL_LOG=error|warn|info|debug sets the least level shown
// (default warn; -v on the command line is debug).
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set(enum log_level least);
void log_say(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
