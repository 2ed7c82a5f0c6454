// Why a request is refused, and the JSON for it, OpenAI's and llama-server's.
#ifndef SERVER_REFUSAL_H
#define SERVER_REFUSAL_H

#include "base/error.h"
#include "base/str.h"

struct refusal {
    unsigned status;         // of HTTP; 0: not refused
    const char *param;       // the field that is wrong, a constant; NULL: none
    const char *request;     // its id, where it is told
    const char *code;        // for programs, as OpenAI has it, a constant; NULL: none
    int64_t tokens, context; // of a prompt that is too long, and what it may have
    struct error why;
};

// The first refusal sticks. Always returns false: `return refuse(r, 400, "stop", ...)`.
bool refuse(struct refusal *r, unsigned status, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

// What an API calls otherwise: a refusal of the field `from` is of `to`, also where its text has
// that name in quotes.
void refusal_rename(struct refusal *r, const char *from, const char *to);

// The beginning of a client's text, for "%.*s".
enum { REFUSAL_SHOWN = 40 }; // bytes
#define SHOW(text)                                                                                 \
    (int)((text).n < REFUSAL_SHOWN ? (text).n : REFUSAL_SHOWN), (text).p ? (text).p : ""

// {"error":{"message":...,"type":...,"param":...,"code":...}}
void refusal_json(struct str *out, const struct refusal *r);
// llama-server's: {"error":{"code":400,"message":...,"type":...}}
void refusal_native(struct str *out, const struct refusal *r);

#endif
