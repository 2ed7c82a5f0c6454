// A model's reply taken apart while it streams: reasoning, content, and tool calls.
//
//   struct reply *r = reply_open(&format, &options);
//   ... reply_push(r, piece); while (reply_next(r, &event)) use(&event); ...
//   reply_finish(r); while (reply_next(r, &event)) use(&event);
//   reply_close(r);
//
// However the text is cut into pieces, the events say the same; only where their text is cut
// differs. Nothing is shown before it is decided: a piece that may begin a mark is held back.
// Nothing is lost: text that looked like a call and isn't one is content.
#ifndef CHAT_REPLY_H
#define CHAT_REPLY_H

#include "base/json.h"
#include "base/str.h"

struct call_style; // how calls are written; reply/styles.c lists them

enum { REPLY_STYLES = 4, REPLY_MARKS = 8 };

// How a model marks the parts of a reply. All views are of constants.
struct reply_format {
    struct sv think_open, think_close; // around reasoning
    // Taken out of the content: the marks around an answer ("<|START_RESPONSE|>"). A * in one
    // stands for a name.
    struct sv mark[REPLY_MARKS];
    size_t marks;
    struct sv begun; // the beginning of a reply's first mark, which the prompt ends with
    const struct call_style *style[REPLY_STYLES];
    size_t styles;
    const struct call_style *writes; // of these, the one that the template writes; NULL: none
    bool harmony;                    // OpenAI's channels instead of all of these
    // The model's template has no format of calls, so where there are tools a reply is one JSON
    // object: calls behind REPLY_CALLS, or an answer behind REPLY_ANSWER. Models are told of it in
    // a system message (chat_render), and held to it by a grammar (call_grammar).
    bool generic;
};

#define REPLY_CALLS  "{\"tool_calls\":"  // a list of {"name": ..., "arguments": {...}}, and }
#define REPLY_ANSWER "{\"response\": \"" // the rest of the string, and }

// Reads off a chat template's source how its model replies. A template that says nothing gives
// <think> and </think>, and the generic format of calls.
void reply_format_of(struct sv source, struct reply_format *out);

// Whether a special token belongs to the marks: those must reach reply_push, and no others.
bool reply_format_shows(const struct reply_format *f, struct sv token);

// Whether the prompt's end has opened the reasoning already, so that the reply begins inside it.
bool reply_opened_by(const struct reply_format *f, struct sv prompt);

struct reply_options {
    bool opened; // the reply begins inside its reasoning
    // The request's tools, as OpenAI has them (kept alive by the reply), or NULL: no text is a
    // call. Their schemas say what an argument is that the model writes without quotes.
    struct json_object *tools;
    bool formed; // the answer has a form of its own, and is not in a generic format's object
    // [stops] Before the first of these in the content the reply ends. Marks, calls and reasoning
    // are not looked at, nor white space that is dropped. Copied.
    const struct sv *stop;
    size_t stops;
};

enum reply_kind {
    REPLY_REASONING, // text
    REPLY_CONTENT,   // text
    REPLY_CALL,      // a call begins: text is the function's name, id what the model named the call
    REPLY_ARGUMENTS, // more of its arguments: together the text of one JSON object
    REPLY_CALL_END,  // the call is whole: id again, which may have come only now
    REPLY_CALL_LOST, // it never will be: forget it; its text follows, as content
};

struct reply_event {
    enum reply_kind kind;
    size_t call; // the number of the call, from 0; lost calls count too
    struct sv text, id;
};

struct reply;

struct reply *reply_open(const struct reply_format *f, const struct reply_options *opt);
void reply_close(struct reply *r); // NULL is fine
void reply_push(struct reply *r, struct sv text);
void reply_finish(struct reply *r); // nothing more comes; decides what is held back
// The next event, whose texts are valid until the next call of reply_push, _finish or _next.
bool reply_next(struct reply *r, struct reply_event *event);
bool reply_thinks(const struct reply *r); // what was pushed ends inside the reasoning
// The stop string that was found, or an empty view. Nothing comes after it.
struct sv reply_stop(const struct reply *r);
// Characters at the end of what was pushed that a stop string may begin with, or once it was found,
// that are it and what follows.
size_t reply_unsaid(const struct reply *r);

// Whether the answer is written inside the generic format's object. Then of what was pushed only a
// string's inside is content; places in that tell which tokens are.
struct reply_place {
    bool inside;  // what was pushed ends in that string
    size_t said;  // characters of content that came
    size_t shown; // of those, in events
};
bool reply_wrapped(const struct reply *r);
struct reply_place reply_place(const struct reply *r);

// A whole reply.
struct reply_call {
    struct str name, id, arguments;
};
struct reply_message {
    struct str reasoning, content;
    struct reply_call *call;
    size_t calls;
};
// Adds an event: the message is what a client has when all deltas are in.
void reply_message_add(struct reply_message *m, const struct reply_event *e);
void reply_take(struct reply *r, struct reply_message *m); // adds all events that are ready
void reply_message_free(struct reply_message *m);

#endif
