// Jinja templates as Hugging Face chat templates use them: the language of jinja2 3.1 in the
// environment that transformers sets up (immutable sandbox, trim_blocks, lstrip_blocks, loop
// controls, `generation` tags, tojson as json.dumps, raise_exception, strftime_now), with Python's
// rules for values: integers are exact, floats print as repr, text counts in code points.
// Templates come with checkpoints, so they are hostile until shown otherwise: each render has
// limits on work, memory, output and depth.
#ifndef CHAT_JINJA_H
#define CHAT_JINJA_H

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

struct jinja; // a compiled template; constant once made, so threads may share it

struct jinja_limits {
    size_t steps;  // evaluated nodes, loop turns, elements, and 64-byte units of text worked on
    size_t memory; // bytes of values; nothing is given back before the render ends
    size_t output; // bytes of rendered text, with text under construction
    size_t depth;  // expressions, macros, recursive loops and values inside each other
};
extern const struct jinja_limits jinja_default_limits;

enum {
    JINJA_SOURCE = 1 << 20, // bytes of a template's source
    JINJA_NESTING = 300,    // blocks, brackets and operators inside each other in the source
    JINJA_RANGE = 100000,   // elements of range(), as in jinja2's sandbox
    JINJA_INT_BITS = 16384, // bits of an integer
};

// A syntax error names the template's line. NULL on failure.
struct jinja *jinja_compile(struct sv source, struct error *e);
void jinja_free(struct jinja *t); // NULL is fine

// Appends the rendered text to out; on failure out is as it was. `context` is an object whose
// members are the template's variables (NULL: none); it isn't changed.
// Whatever fails here is a fault of the template and this input together, so a server answers 400.
// The template's own raise_exception(text) gives exactly that text; every other message starts
// with "line N: ". *raised (may be NULL) tells them apart.
// strftime_now tells local time, or SOURCE_DATE_EPOCH in UTC when that is set.
bool jinja_render(const struct jinja *t, struct json_object *context, struct str *out,
                  struct error *e);
bool jinja_render_within(const struct jinja *t, struct json_object *context,
                         const struct jinja_limits *limits, struct str *out, bool *raised,
                         struct error *e);

// Appends what Python's json.dumps(o, ensure_ascii=False) gives, or, canonical, with sorted keys
// and without spaces. Under jinja_default_limits, so it can fail; out is as it was then.
bool jinja_dumps(struct json_object *o, bool canonical, struct str *out, struct error *e);

// Whether the template has a variable of that name: text, comments and members don't count.
bool jinja_names(const struct jinja *t, struct sv name);
// Whether it looks if that variable is missing: "not x is defined", "x is undefined".
bool jinja_provides_for(const struct jinja *t, struct sv name);

#endif
