// What lies beside a tokenizer's file: tokenizer_config.json, special_tokens_map.json and
// added_tokens.json, read as transformers reads them.
#ifndef TOKENIZER_SETTINGS_H
#define TOKENIZER_SETTINGS_H

#include "base/json.h"
#include "base/map.h"
#include "tokenizer/vocab.h"

// tokenizer_config.json, with the roles of special_tokens_map.json where it has no
// added_tokens_decoder. An empty object when neither is there, NULL on failure; the caller owns it.
struct json_object *settings_read(const char *dir, struct error *e);

// The text of the token with a role ("bos"), which the settings give as it is or in an object;
// empty: none has it.
struct sv settings_role(struct json_object *settings, const char *role);

// A list of added tokens, as a tokenizer.json has it.
struct token_list {
    struct json_object *array;
    struct map at;         // of a token's text
    const struct vocab *v; // of the model
    int64_t next;          // the id behind all in the list
};

// Begins with the tokens of `array`, which may be NULL; the list holds a copy of it.
void tokens_open(struct token_list *l, struct json_object *array, const struct vocab *v);
void tokens_close(struct token_list *l);
// Appends a token, unless it is there. id < 0: that of the model, else the next free one.
void tokens_add(struct token_list *l, struct sv text, int64_t id, bool special);
void tokens_take(struct token_list *l, struct json_object *token); // shares it

// Adds what the settings and added_tokens.json have besides, as transformers does: by id, then
// those with a role. Flags in the settings win over those in the list.
bool settings_added(struct token_list *l, const char *dir, struct json_object *settings,
                    struct error *e);

#endif
