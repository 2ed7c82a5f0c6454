// Lines from a person or a pipe. On a terminal, with libedit: editing, and a history kept in
// ${XDG_STATE_HOME:-~/.local/state}/mlxcel/history.
#ifndef CLI_LINE_H
#define CLI_LINE_H

#include "base/str.h"

struct line;

enum line_result { LINE_READ, LINE_END, LINE_INTERRUPTED };

struct line *line_open(void);
void line_close(struct line *l);          // writes the history
bool line_terminal(const struct line *l); // somebody sees the prompt

// Reads into out, without the line break. Interrupted: a signal came (signals_got).
enum line_result line_read(struct line *l, const char *prompt, struct str *out);
void line_remember(struct line *l, const char *text); // adds to the history

#endif
