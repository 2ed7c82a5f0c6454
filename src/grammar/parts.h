// Within grammar/: what the front ends share.
#ifndef GRAMMAR_PARTS_H
#define GRAMMAR_PARTS_H

#include "grammar/grammar.h"
#include "grammar/syntax.h"

// Each adds to s and returns the rule that stands for all of it. False in s->e when it can't.
int32_t gbnf_read(struct syntax *s, struct sv text);
int32_t regex_read(struct syntax *s, struct sv pattern);
int32_t schema_read(struct syntax *s, struct json_object *schema);

#endif
