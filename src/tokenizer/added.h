// Added tokens: text that is one token wherever it stands, found before the model sees anything.
#ifndef TOKENIZER_ADDED_H
#define TOKENIZER_ADDED_H

#include "base/json.h"
#include "base/map.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/vocab.h"

struct added_token {
    struct str text;
    struct str shown; // what it decodes to: for a normalized one, its normalized text
    int32_t id;
    bool special;
    bool single_word;    // only where no word character touches it
    bool lstrip, rstrip; // takes the white space before it, behind it
    bool normalized;     // looked for in normalized text
};

// A tree of byte strings. Node 0 is the root.
struct added_node {
    int32_t child, next; // first child, next sibling; 0: none
    int32_t token;       // index of the token that ends here, -1: none
    unsigned char byte;
};

struct added_tree {
    struct added_node *node;
    size_t n, cap;
    int32_t root[256]; // the root's child for each byte, 0: none
};

struct added {
    struct added_token *token;
    size_t n, cap;
    size_t unknown;                // to the model
    bool split_special;            // special ones are not looked for
    int32_t *by_id;                // [n] indices into token, by rising id
    struct map by_text;            // to indices into token
    struct added_tree raw, normal; // over the raw text, over the normalized text
};

// A part of a text: an added token, or what lies between.
struct added_part {
    size_t from, to; // of the text between
    int32_t id;      // -1: text
};

struct added_parts {
    struct added_part *p;
    size_t n, cap;
};

// Reads the list of added tokens; z normalizes the contents of those that want it. Tokens of the
// model have its ids. The others have those that are given, or else are numbered behind the model's
// tokens, in order: the reference does that whatever a tokenizer.json says.
bool added_read(struct added *a, struct json_object *list, bool given, const struct vocab *v,
                const struct normalizer *z, struct error *e);
void added_free(struct added *a);
const struct added_token *added_by_id(const struct added *a, int32_t id); // NULL: none
const struct added_token *added_by_text(const struct added *a, struct sv text);
// Whether a decoded text leaves the token out when it leaves out special ones. The reference asks
// for what the token decodes to, so normalizing may make a special token an ordinary one.
bool added_skipped(const struct added *a, int32_t id);

// Appends the parts of text, in order: leftmost tokens first, the longest of those that begin
// together.
void added_split(const struct added *a, const struct added_tree *tree, struct sv text,
                 struct added_parts *out);

#endif
