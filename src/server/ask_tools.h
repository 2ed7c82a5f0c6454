// The tools of a chat: those that the model is told of, and those that it may or must call.
#ifndef SERVER_ASK_TOOLS_H
#define SERVER_ASK_TOOLS_H

#include "base/json.h"
#include "server/ask.h"

// Reads tools, tool_choice and parallel_tool_calls as OpenAI's chats have them. False with a
// refusal.
bool ask_tools(struct ask *a, struct json_object *o, struct refusal *r);

#endif
