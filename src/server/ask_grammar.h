// What a request says that its answer must be: OpenAI's response_format and tools, llama-server's
// grammar and json_schema, and regex, structured_outputs, guided_json, guided_regex, guided_grammar
// and guided_choice as vLLM has them.
#ifndef SERVER_ASK_GRAMMAR_H
#define SERVER_ASK_GRAMMAR_H

#include "base/json.h"
#include "server/ask.h"

// Sets a's sampling.grammar, which is the ask's to close. After prompt and tools were read. False
// with a refusal.
bool ask_grammar(struct ask *a, struct json_object *o, bool chat, const struct text_model *m,
                 struct refusal *r);

#endif
