// A tokenizer in its parts, for the files that build one.
#ifndef TOKENIZER_PARTS_H
#define TOKENIZER_PARTS_H

#include "tokenizer/added.h"
#include "tokenizer/decoder.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/postprocessor.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/tokenizer.h"

enum { TOKENIZER_LIMIT = 256 << 20 }; // bytes of a file

struct work_list;

struct tokenizer {
    struct normalizer normalizer;
    struct pretokenizer pretokenizer;
    struct model model;
    struct postprocessor postprocessor;
    struct decoder decoder;
    struct added added;
    int32_t bos, eos;
    bool cut_runs; // long runs without white space are cut (see tokenizer.c)
    struct work_list *work;
};

struct tokenizer *tok_new(void); // tokenizer.c: one without any part

// open.c: reads the stages of a tokenizer.json but its model, which t has already. j may lack any
// of them. given: the ids of its added tokens are right; else they are counted (see added.h).
bool tok_read_stages(struct tokenizer *t, struct json_object *j, bool given, struct error *e);

// slow.c: builds t from one file that is no tokenizer.json, with the settings beside it, in which
// it fills in the roles that the class knows.
bool slow_read(struct tokenizer *t, const char *file, const char *dir, struct json_object *settings,
               struct error *e);
// The file of a folder that has no tokenizer.json: owned by the caller, NULL when there is none.
char *slow_find(const char *dir, struct json_object *settings);

// tiktoken.c: fills the model from lines of "base64 rank". The vocabulary spells bytes in the
// alphabet of bytes.h.
bool tiktoken_read(struct model *m, struct sv file, struct error *e);

#endif
