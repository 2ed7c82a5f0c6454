// Text over the engine: a checkpoint's tokenizer, chat template and defaults beside its engine,
// and a stream that turns ids into text and finds stop strings.
#ifndef ENGINE_TEXT_H
#define ENGINE_TEXT_H

#include "base/str.h"
#include "chat/chat.h"
#include "chat/reply.h"
#include "checkpoint/generation_config.h"
#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

struct text_model {
    struct engine *engine;
    struct tokenizer *tokenizer;
    struct chat *chat;
    struct generation_config defaults; // eos ids, the publisher's sampling
    struct vocabulary *vocabulary;     // for grammars (constraint.h)
    struct reply_format reply[2];      // how it replies to prompts without and with tools
};

bool text_open(struct text_model *m, const char *path, const struct engine_options *opt,
               struct error *e);
void text_close(struct text_model *m);

// A prompt's ids. The template writes its own special tokens, so none are added.
bool text_prompt_ids(const struct tokenizer *t, const struct chat_prompt *p, struct ids *out,
                     struct error *e);

// A conversation's prompt.
struct text_prompt {
    struct ids ids;
    const struct reply_format *reply; // the model's
    bool opened;                      // the prompt has begun the reasoning
    size_t common; // ids that other conversations begin with too (request.common); 0: not known
};

// Messages (a JSON array of {role, content}) through the template, then to ids, which are the
// caller's to free in any case.
bool text_chat_prompt(const struct text_model *m, struct json_object *messages,
                      const struct chat_options *opt, struct text_prompt *out, struct error *e);

// One answer's stream. Text that may be the beginning of a stop string, or half a character, is
// held back until it is decided. Special tokens are left out, but for those that `marks` shows
// (NULL: none), which must outlive the stream.
struct text_stream;
struct text_stream *text_stream_open(const struct text_model *m, const struct reply_format *marks,
                                     const struct sv *stops, size_t count);
void text_stream_close(struct text_stream *s); // NULL is fine
// Appends what is certain to out. True when a stop string was found: the text before it has been
// appended, and nothing more will be.
bool text_stream_push(struct text_stream *s, int32_t id, struct str *out);
// The stop string that was found, or an empty view.
struct sv text_stream_stop(const struct text_stream *s);
// Characters given out so far, and with those that are held back.
size_t text_stream_out(const struct text_stream *s);
size_t text_stream_size(const struct text_stream *s);
void text_stream_finish(struct text_stream *s, struct str *out); // what was held back

#endif
