// The items of OpenAI's Responses API: what was said, called and thought, by the client or the
// model.
#ifndef SERVER_RESPONSES_ITEMS_H
#define SERVER_RESPONSES_ITEMS_H

#include "base/json.h"
#include "server/refusal.h"

// What a request's "input" says (a text, or an array of items), as an array of items in their full
// form: with type, id and status, each text in a part. The caller owns it. NULL with a refusal.
struct json_object *items_read(struct json_object *input, struct refusal *r);
// The chat's messages that such items are, after instructions (or an empty text). The caller owns
// the array. What is in them for the model alone is left out: reasoning that nothing follows.
struct json_object *items_messages(struct json_object *items, struct sv instructions);

// An item of the store: JSON in one line. Appends it with its line break.
void items_add_line(struct str *out, struct json_object *item);
// Its id: such lines begin with it.
struct sv items_line_id(struct sv line);

void items_new_id(struct str *out, const char *kind); // "msg" and so on

#endif
