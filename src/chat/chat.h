// A checkpoint's chat templates: a conversation in, the prompt's text out, as transformers'
// apply_chat_template(tokenize=False) has it.
#ifndef CHAT_CHAT_H
#define CHAT_CHAT_H

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

struct chat; // constant once open: threads may share it

// Reads the templates of a checkpoint folder: chat_template.jinja with
// additional_chat_templates/*.jinja, else tokenizer_config.json's "chat_template" (text, or a list
// of {name, template}), else chat_template.json; and, as template variables, the special tokens of
// tokenizer_config.json and special_tokens_map.json. A folder without a template, or with one that
// has a syntax error, opens: see chat_ready. NULL when a file can't be read or isn't what it
// should be. model_type: config.json's, or empty.
struct chat *chat_open(const char *dir, struct sv model_type, struct error *e);
// One template by itself, without special tokens. NULL when it has a syntax error.
struct chat *chat_of_template(struct sv source, struct error *e);
// The same with the special tokens of another one (NULL: none), which need not stay open.
struct chat *chat_with_template(const struct chat *tokens, struct sv source, struct error *e);
void chat_close(struct chat *c); // NULL is fine

bool chat_has_template(const struct chat *c);
// Whether chat_render can work; the error says why not: there is no template, or its syntax is
// wrong. A fault of the checkpoint, where an error of chat_render on a ready chat is the request's.
bool chat_ready(const struct chat *c, struct error *e);

// The source of the template for a request with or without tools, or empty: it shows how the model
// marks the parts of a reply.
struct sv chat_source(const struct chat *c, bool tools);

// The template's variables that a request asks for (owned by the caller), for chat_options.kwargs.
// request: an object, of which these members count:
// - chat_template_kwargs: variables as they are
// - reasoning_effort: a level. "none", "off", "disabled", "false" and "0" turn thinking off; any
//   other turns it on, and goes as it is to the variables reasoning_effort and reasoning_strength
//   that the template has.
// - reasoning: {"effort": level}, true or false, for a request without reasoning_effort
// - enable_thinking: true or false, whatever the level
// defaults: variables of all requests, or NULL. For each variable the request's
// chat_template_kwargs win, then what the other members say, then the defaults, then what the
// model's family is used to. A template that looks if "thinking" is missing gets there what
// enable_thinking says; one that has "thinking_mode" gets "enabled" while thinking is on. Neither
// replaces what chat_template_kwargs say by that name.
// NULL with an error that names the member which isn't of its type.
struct json_object *chat_kwargs(const struct chat *c, bool tools, struct json_object *request,
                                struct json_object *defaults, struct error *e);

struct chat_options {
    bool add_generation_prompt;
    // The prompt ends inside the last message, so that the model goes on with it.
    bool continue_final_message;
    // The messages are as clients of an API send them: calls have their arguments as text, and may
    // be without content. The template gets them in the form that it can take, as chat_open found;
    // one that knows no calls gets them as text, and the tools in the system message (reply.h).
    bool fit_calls;
    // NULL, or: a list of tools (their presence picks the template named "tool_use"), a list of
    // documents, an object of further template variables (enable_thinking ...), which win over the
    // special tokens.
    struct json_object *tools, *documents, *kwargs;
};

// A prompt. The spans are plain text in it, in order: they are to be encoded each by itself, and
// what spells a special token in them is none. The rest is encoded with its special tokens, also in
// one piece between two spans. A template's prompts have no spans.
struct chat_span {
    size_t from, to; // bytes of the text
};
struct chat_prompt {
    struct str text;
    struct chat_span *plain;
    size_t spans, cap;
};
void chat_prompt_free(struct chat_prompt *p);

// What an API refuses although a template may take it: a content that is neither text nor a list of
// parts (objects or text), and a message without content, unless it is an assistant's with
// tool_calls, function_call or reasoning. Other faults are for chat_render to tell.
bool chat_check_contents(struct json_object *messages, struct error *e);

// out is empty before, and if this fails also after. messages: an array of objects, each with a
// "role" and mostly a "content", which a template takes as it is. Members that are null are
// dropped, and reasoning_content, thinking and reasoning stand for each other. Nothing passed in is
// changed. Errors are the request's (400), which name the message and its key; a template's own
// raise_exception gives exactly its text, and what else fails in it begins with "chat template,
// line N: ".
bool chat_render(const struct chat *c, struct json_object *messages, const struct chat_options *opt,
                 struct chat_prompt *out, struct error *e);

#endif
