// The grammar of a reply that calls tools, in the format that a model has for calls: what
// reply.h takes apart again.
#ifndef CHAT_CALL_GRAMMAR_H
#define CHAT_CALL_GRAMMAR_H

#include "chat/reply.h"
#include "grammar/syntax.h"

struct call_rules {
    // The tools that may be called, as OpenAI has them. Arguments are what a tool's "parameters"
    // allow; those that can't be held exactly may be any object unless the tool is "strict".
    struct json_object *tools;
    bool required; // a call comes first, with nothing before it
    bool one;      // and no more than one
    // Not required: a rule for a reply without calls; -1: any text, between calls too where the
    // format is not generic.
    int32_t answer;
};

// Adds to s the replies after the reasoning. Returns the rule; s->e is set, with a reason, when
// this model's calls can't be written so.
int32_t call_grammar(struct syntax *s, const struct reply_format *f, const struct call_rules *c);

#endif
