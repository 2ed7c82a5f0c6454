// How values are written that a JSON schema describes, where that isn't JSON: the arguments of
// calls in the formats that models have for them.
#ifndef GRAMMAR_NOTATION_H
#define GRAMMAR_NOTATION_H

#include "base/json.h"
#include "grammar/syntax.h"

enum notation_kind {
    NOTATION_JSON,
    NOTATION_PYTHON, // (KEY=VALUE, ...) and in the values True, False, None, "text", 'text'
    NOTATION_QUOTED, // {KEY:VALUE,...} at every level; nothing in a text is escaped
    NOTATION_TAGS,   // each argument between tags; in them JSON, or a text as it is
};

enum notation_says { SAYS_NOTHING, SAYS_STRING, SAYS_TYPE }; // string="true", type="number"

struct notation {
    enum notation_kind kind;
    const char *quote; // NOTATION_QUOTED: around texts

    // NOTATION_TAGS: key_open KEY key_close value_open VALUE value_close. NULL: there is none.
    // Readers take a value for a text unless it looks like one of the kinds (grammar/kinds.h) that
    // the schema's own "properties" say, in one place, for the argument; 0 says any.
    const char *key_open, *key_close, *value_open, *value_close;
    const char *end;         // what no text may have in it
    bool closed;             // value_close is followed by KEY and ">"
    bool quoted;             // the key is followed by a double quote
    bool entities;           // &quot; &amp; &lt; &gt; in keys
    bool lines;              // a value stands on lines of its own
    bool cdata;              // what begins with <![CDATA[ is no text as it is
    enum notation_says says; // an attribute after the key
};

// Adds to s the arguments that a schema allows: an object in notation n, which must live as long as
// this runs. Returns the rule that stands for it; s->e is set when it can't be written.
int32_t notation_arguments(struct syntax *s, struct json_object *schema, const struct notation *n);

#endif
