// Within reply/: what the readers of calls share with the reply that they read for.
//
// A reader is called while it makes progress. It looks at what has come (input_rest), takes bytes
// with input_eat, and says what it did; when it can't go on before more comes, STEP_MORE. It may
// take STEP_MORE only where no more input would be a loss, for at the end it becomes one.
#ifndef CHAT_REPLY_CALL_H
#define CHAT_REPLY_CALL_H

#include "base/stops.h"
#include "chat/reply.h"
#include "chat/reply/jscan.h"
#include "grammar/kinds.h"
#include "grammar/notation.h"

enum call_kind { CALLS_JSON, CALLS_TAGS, CALLS_LITERAL, CALLS_TREE };

// One way to write calls. A section begins with `open` and ends with `close`, which the end of the
// reply may stand for. Without `open`, it begins where a call does: with call_open, or where that
// says too little, at the beginning of the content. Then only names among the request's tools
// count.
struct call_style {
    const char *open, *close;
    enum call_kind kind;
    bool known; // only names among the request's tools count

    // JSON: {"name": ..., "arguments": {...}}, one or many, in a list or not.
    bool keyed; // {NAME: {...}} instead
    bool list;  // always a list

    // Tags: call_open name_open NAME name_close BODY call_close. The body is a JSON object between
    // args_open and args_close, or key_open KEY key_close value_open VALUE value_close for each
    // argument. NULL: there is none; a NULL name_close: the name ends at white space or "<".
    const char *call_open, *name_open, *name_close, *call_close;
    const char *args_open, *args_close; // an empty args_open: the object comes right away
    const char *key_open, *key_close, *value_open, *value_close;
    const char *name;       // of every call
    const char *name_start; // not part of the name: "functions."
    const char *name_end;   // not part of it either: ".call"
    const char *id_open;    // between the name and the id: "[CALL_ID]"
    const char *id_close;   // between the id and the name
    bool numbered;          // the name ends with ":3", and with that is the call's id
    bool lines;             // a value stands on lines of its own
    bool cdata;             // a value may stand in <![CDATA[ ]]>
    bool entities;          // &quot; and &amp; in names and keys

    // Literals. Python's: NAME(KEY=VALUE, ...), in a list or one after the other; or with `quote`,
    // call:NAME{KEY:VALUE,...} where quote stands around texts.
    const char *quote;

    // A tree: call_open NAME name_close, then elements to the call's own end. Each of them is
    // mark <KEY> VALUE mark </KEY>, where VALUE is a text or elements; those of a list are items.
    // The tags of keys and values are for those who write them.
    const char *mark;

    // For those who write calls (call_grammar.c):
    bool each;                // each call stands in a section of its own
    bool own;                 // each stands in a message of its own, which nothing here can write
    const char *keys[2];      // JSON: of the name and the arguments, instead of these two words
    const char *first, *last; // JSON: members before and after those, with an id, as an option
    const char *number;       // behind the name: the attribute with the call's number
    const char *before, *behind; // what may stand around all sections
    enum notation_says says;     // what an attribute of the keys says of the values
};

enum step {
    STEP_MORE, // more input is needed
    STEP_ON,   // something was done
    STEP_DONE, // the section is over
    STEP_LOST, // this is no call
};

enum fit { FIT_NO, FIT_YES, FIT_MORE };

enum { MOST_HEAD = 1024 }; // bytes of a name or key, or of all before a message

// What the readers keep, each its own; all zero when a section begins.
struct json_calls {
    int at;
    bool listed; // in [ ]
    int depth;   // objects around: 2 in "function": {...}
    enum json_field { FIELD_OTHER, FIELD_NAME, FIELD_ID, FIELD_ARGUMENTS, FIELD_FUNCTION } field;
    bool named, begun, argued;
    bool capturing; // a value has begun to be kept
};

struct tag_calls {
    int at;
    bool argued;    // the call has an argument
    bool begun;     // of the value, something has come
    bool text;      // the value is a string: it goes out as it comes
    bool cdata;     // it stands in <![CDATA[ ]]>
    unsigned types; // of the value, from the schema or the tag
};

enum { LITERAL_DEPTH = 64 };

struct literal_calls {
    int at;
    bool listed; // in [ ]
    bool key;    // the text or word is a key
    char mark;   // the quote around the text
    int depth;
    char close[LITERAL_DEPTH];  // what ends each open container, the call first
    bool object[LITERAL_DEPTH]; // and is an object in JSON
    bool any[LITERAL_DEPTH];    // it has an element
};

enum { TREE_DEPTH = 64 };

struct tree_calls {
    int at;
    int depth;
    struct {
        struct json_object *schema; // or NULL
        bool begun, list;           // it has an element; it is a list
    } level[TREE_DEPTH];            // the arguments first
};

struct reply {
    struct reply_format format;
    struct reply_options opt;

    struct str in; // what has come; [0, at) is taken
    size_t at;
    bool ended;
    size_t lent; // bytes of the input that are format.begun and were not taken as a mark

    enum { IN_CONTENT, IN_REASONING, IN_CALLS, IN_HARMONY, IN_ANSWER } mode;
    const struct call_style *style; // NULL: not known yet
    struct sv trigger;              // of the styles that it may be
    bool bare;                      // the trigger is part of the call
    struct str held;                // white space that is shown only when text follows
    bool reasoned;                  // there was reasoning, if only its marks
    bool thought, spoke;            // the reasoning, the content has begun
    bool after_call;                // nothing was said since
    int harmony;                    // harmony.c's place
    int answer;                     // answer.c's
    struct stops stops;             // of the content
    size_t said, shown;             // characters of it

    size_t calls;     // begun so far, lost ones too
    size_t sectioned; // begun in this section
    bool calling;     // one is begun and not ended
    struct str raw;   // everything taken since the last call's end, or the section's beginning

    // Scratch of the readers.
    struct jscan scan;
    struct str key, name, id, value;
    union {
        struct json_calls json;
        struct tag_calls tag;
        struct literal_calls literal;
        struct tree_calls tree;
    };

    // Events that wait, over the text in `out`.
    struct pending {
        enum reply_kind kind;
        size_t call, from, text, id; // lengths of both, which follow each other
    } * event;
    size_t events, event_cap, next;
    struct str out;
};

struct sv style_trigger(const struct call_style *s); // what a section begins with

struct sv input_rest(const struct reply *r);
void input_eat(struct reply *r, size_t n); // n bytes of the rest, into raw
enum fit input_fits(const struct reply *r, const char *text);
// Eats text if it comes: FIT_MORE when that can't be told yet.
enum fit input_take(struct reply *r, const char *text);
void input_skip_space(struct reply *r);
// Bytes at the end of text that may begin `mark`.
size_t input_tail(struct sv text, struct sv mark);
// Eats up to and with `end`, appending what is before it to *to. FIT_MORE: not found yet; what can
// be no part of end was appended.
enum fit input_until(struct reply *r, const char *end, struct str *to);
// The same for a name or key. FIT_NO, too, when there are more than MOST_HEAD bytes, or a line
// break where `line` says that it may have none.
enum fit input_head(struct reply *r, const char *end, bool line, struct str *to);

// Eats what has come of a JSON value (r->scan is zero where it begins), appending it to *to unless
// that is NULL, raw control characters as escapes. *done: the value is over.
enum step input_json(struct reply *r, struct str *to, bool *done);

void call_begin(struct reply *r, struct sv name, struct sv id);
void call_argue(struct reply *r, struct sv json); // more of the arguments
void call_end(struct reply *r);
void lose_call(struct reply *r); // what was taken since the last call's end is content

void escape_json(struct str *out, struct sv text); // the inside of a JSON string
bool unquote_json(struct sv quoted, struct str *out);
// Python's escape after the backslash at rest[0]. Returns its bytes; 0: it is cut.
size_t unescape_python(struct sv rest, struct str *out);

bool tool_known(struct json_object *tools, struct sv name);
struct json_object *tool_schema(struct json_object *tools, struct sv name); // of its arguments
// Appends a value that was written without quotes as JSON of one of these kinds (0: any).
void typed_json(struct str *out, struct sv text, unsigned kinds);
struct sv python_word(struct sv text); // True, False and None as JSON has them

enum step read_json_calls(struct reply *r);
enum step read_tag_calls(struct reply *r);
enum step read_literal_calls(struct reply *r);
enum step read_tree_calls(struct reply *r);

void show_text(struct reply *r, enum reply_kind kind, struct sv text);
bool read_harmony(struct reply *r); // false: needs more
bool harmony_thinks(const struct reply *r);
// Behind REPLY_ANSWER. False: needs more.
bool read_answer(struct reply *r);
bool in_answer(const struct reply *r); // inside its string
// What is left is not more than the beginning of a generic format's mark: no text.
bool answer_unbegun(const struct reply *r);

#endif
