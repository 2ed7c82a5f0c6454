#include "server/fim.h"

#include "server/ask_prompt.h"
#include "server/body.h"

// The spellings that llama.cpp looks for: Qwen's, StarCoder's, Granite's, DeepSeek's, CodeLlama's,
// GLM's, Falcon's.
#define SPELLINGS 10
static const char *const prefixes[SPELLINGS] = {
    "<|fim_prefix|>",  "<fim-prefix>",
    "<fim_prefix>",    "<\357\275\234fim\342\226\201begin\357\275\234>",
    "<PRE>",           "\342\226\201<PRE>",
    "<|code_prefix|>", "<|prefix|>"};
static const char *const suffixes[SPELLINGS] = {
    "<|fim_suffix|>",  "<fim-suffix>",
    "<fim_suffix>",    "<\357\275\234fim\342\226\201hole\357\275\234>",
    "<SUF>",           "\342\226\201<SUF>",
    "<|code_suffix|>", "<|suffix|>"};
static const char *const middles[SPELLINGS] = {
    "<|fim_middle|>",  "<fim-middle>",
    "<fim_middle>",    "<\357\275\234fim\342\226\201end\357\275\234>",
    "<MID>",           "\342\226\201<MID>",
    "<|code_middle|>", "<|middle|>"};
static const char *const pads[SPELLINGS] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>"};
static const char *const repos[SPELLINGS] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
                                             "<REPO>", "<reponame>"};
static const char *const files[SPELLINGS] = {"<|file_sep|>"};

// A tokenizer may know more tokens than the model.
static int32_t find(const struct text_model *m, const char *const *spelling) {
    int64_t vocab = engine_info(m->engine)->vocab;
    for (size_t i = 0; i < SPELLINGS && spelling[i]; i++) {
        int32_t id = tok_id(m->tokenizer, sv(spelling[i]));
        if (id >= 0 && id < vocab) return id;
    }
    return -1;
}

struct fim fim_of(const struct text_model *m) {
    return (struct fim){find(m, prefixes), find(m, suffixes), find(m, middles),
                        find(m, repos),    find(m, files),    find(m, pads)};
}

struct middle {
    struct fim fim;
    const struct text_model *m;
    struct refusal *r;
    struct ids extra, prefix, suffix;
};

static bool check_model(const struct fim *f, struct refusal *r) {
    if (f->prefix >= 0 && f->suffix >= 0 && f->middle >= 0) return true;
    return refuse(r, 501, NULL, "Infill is not supported by this model:%s%s%s",
                  f->prefix < 0 ? " prefix token is missing." : "",
                  f->suffix < 0 ? " suffix token is missing." : "",
                  f->middle < 0 ? " middle token is missing." : "");
}

// What spells a special token in a file is text.
static bool add_text(struct middle *s, struct ids *out, struct sv text, const char *name) {
    struct error e = {0};
    return tok_encode_plain(s->m->tokenizer, text, false, out, &e) ||
           refuse(s->r, 400, name, "%s", e.text);
}

static bool add_part(struct middle *s, struct json_object *o, const char *name, bool needed,
                     struct ids *out) {
    struct json_object *v = json_at(o, name);
    if (!v) return !needed || refuse(s->r, 400, name, "\"%s\" is missing", name);
    return ask_ids(v, name, false, true, s->m, out, s->r);
}

static bool add_file(struct middle *s, struct sv name) {
    ids_push(&s->extra, s->fim.file);
    return add_text(s, &s->extra, name, "input_extra") &&
           add_text(s, &s->extra, sv("\n"), "input_extra");
}

// One of other files' texts: {"filename", "text"}
static bool add_chunk(struct middle *s, struct json_object *chunk) {
    static const char name[] = "input_extra";
    struct json_object *text = json_at(chunk, "text"), *file = json_at(chunk, "filename");
    if (!json_object_is_type(chunk, json_type_object) ||
        !json_object_is_type(text, json_type_string))
        return refuse(s->r, 400, name, "each of \"%s\" must be an object with a \"text\"", name);
    if (file && !json_object_is_type(file, json_type_string))
        return body_wrong_kind(s->r, "input_extra[].filename", "a string", file);
    bool ok = s->fim.file >= 0 ? add_file(s, file ? json_text(file) : sv("tmp"))
                               : add_text(s, &s->extra, sv("\n\n--- snippet ---\n\n"), name);
    return ok && add_text(s, &s->extra, json_text(text), name);
}

// Names of a project and of the file itself, which nobody tells, are those that llama-server gives.
static bool add_extra(struct middle *s, struct json_object *o) {
    static const char name[] = "input_extra";
    struct json_object *list = json_at(o, name);
    if (list && !json_object_is_type(list, json_type_array))
        return body_wrong_kind(s->r, name, "an array of {\"filename\", \"text\"}", list);
    if (s->fim.repo >= 0) {
        ids_push(&s->extra, s->fim.repo);
        if (!add_text(s, &s->extra, sv("myproject\n"), name)) return false;
    }
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        if (!add_chunk(s, json_object_array_get_idx(list, i))) return false;
    return s->fim.file < 0 || add_file(s, sv("filename"));
}

// The token that every text begins with, -1: none.
static int32_t beginning(const struct tokenizer *t) {
    struct ids ids = {0};
    struct error e = {0};
    int32_t bos = tok_bos(t), id = -1;
    if (bos >= 0 && tok_encode(t, sv(""), true, &ids, &e) && ids.n && ids.id[0] == bos) id = bos;
    ids_free(&ids);
    return id;
}

static void add_block(struct ids *out, int32_t mark, const struct ids *text) {
    ids_push(out, mark);
    ids_add(out, text->id, text->n);
}

static void put_together(const struct middle *s, bool suffix_first, int64_t answer,
                         struct ids *out) {
    size_t context = (size_t)engine_info(s->m->engine)->context, from = 0;
    size_t rest = s->prefix.n + s->suffix.n + 4 + (answer > 0 ? (size_t)answer : 0);
    size_t room = rest < context ? context - rest : 0;
    int32_t bos = beginning(s->m->tokenizer);
    if (s->extra.n > room) from = s->extra.n - room;
    if (bos >= 0) ids_push(out, bos);
    ids_add(out, s->extra.id + from, s->extra.n - from);
    if (suffix_first) add_block(out, s->fim.suffix, &s->suffix);
    add_block(out, s->fim.prefix, &s->prefix);
    if (!suffix_first) add_block(out, s->fim.suffix, &s->suffix);
    ids_push(out, s->fim.middle);
}

bool fim_prompt(struct json_object *o, bool suffix_first, int64_t answer,
                const struct text_model *m, struct ids *out, struct refusal *r) {
    struct middle s = {.fim = fim_of(m), .m = m, .r = r};
    struct json_object *prompt = json_at(o, "prompt");
    bool ok = check_model(&s.fim, r);
    if (ok && prompt && !json_object_is_type(prompt, json_type_string))
        ok = body_wrong_kind(r, "prompt", "a string", prompt);
    // What stands before the cursor in its line goes behind the prefix.
    ok = ok && add_part(&s, o, "input_prefix", true, &s.prefix) &&
         add_part(&s, o, "input_suffix", true, &s.suffix) && add_extra(&s, o) &&
         add_part(&s, o, "prompt", false, &s.prefix);
    if (ok) put_together(&s, suffix_first, answer, out);
    ids_free(&s.extra);
    ids_free(&s.prefix);
    ids_free(&s.suffix);
    return ok;
}
