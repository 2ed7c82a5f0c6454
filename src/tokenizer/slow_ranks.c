// tiktoken ranks: patterns and special tokens are in the code of the classes.
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "tokenizer/slow.h"

static const char kimi_pattern[] =
    "[\\p{Han}]+|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

enum ranks_kind { QWEN, HUNYUAN, KIMI, LLAMA3, UNKNOWN };

enum { RESERVED = 256 }; // ids behind the ranks of Kimi and Llama 3

static enum ranks_kind kind_of(const struct slow *s) {
    struct sv name = path_name(s->file);
    if (slow_is(s, "QWenTokenizer")) return QWEN;
    if (slow_is(s, "HYTokenizer")) return HUNYUAN;
    if (slow_is(s, "TikTokenTokenizer")) return KIMI;
    if (sv_is(name, "tokenizer.model") &&
        (!s->class.n || slow_is(s, "LlamaTokenizer PreTrainedTokenizer TokenizersBackend")))
        return LLAMA3;
    if (s->class.n) return UNKNOWN;
    if (sv_is(name, "qwen.tiktoken")) return QWEN;
    if (sv_is(name, "hy.tiktoken")) return HUNYUAN;
    return sv_is(name, "tiktoken.model") ? KIMI : UNKNOWN;
}

static int64_t ranks(const struct slow *s) { return (int64_t)s->t->model.vocab.size; }

static void add(struct slow *s, const char *name) { tokens_add(&s->tokens, sv(name), -1, true); }

static void add_numbered(struct slow *s, const char *what, int from, int to) {
    for (int i = from; i < to; i++) {
        char name[48];
        snprintf(name, sizeof name, "<|%s_%d|>", what, i);
        add(s, name);
    }
}

static void add_all(struct slow *s, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) add(s, names[i]);
}

// Whether the model is one of text only: Qwen before the vision models, which added 9 tokens.
static bool is_text_qwen(const char *dir, struct error *e) {
    char *path = path_join(dir, "config.json");
    struct json_object *config = file_named(path) ? json_read_file(path, TOKENIZER_LIMIT, e) : NULL;
    bool text = sv_is(json_text_at(config, "model_type"), "qwen") && !json_at(config, "visual");
    json_object_put(config);
    free(path);
    return text;
}

static bool qwen_tokens(struct slow *s, struct error *e) {
    static const char *const names[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    static const char *const vision[] = {"<ref>",   "</ref>", "<box>",  "</box>",  "<quad>",
                                         "</quad>", "<img>",  "</img>", "<imgpad>"};
    add_all(s, names, 3);
    add_numbered(s, "extra", 0, 205);
    if (!is_text_qwen(s->dir, e)) add_all(s, vision, 9);
    return !e->set;
}

static void hunyuan_tokens(struct slow *s) {
    static const char *const names[] = {"<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>",
                                        "<|pad|>"};
    add_all(s, names, 5);
    add_numbered(s, "extra", 0, 205);
}

// The settings name some of the ids behind the ranks; the others are reserved.
static bool named_tokens(struct slow *s, struct error *e) {
    int64_t size = ranks(s);
    bool named[RESERVED] = {0};
    if (!slow_tokens(s, e)) return false;
    for (size_t i = 0; i < json_object_array_length(s->tokens.array); i++) {
        int64_t id = json_int_at(json_object_array_get_idx(s->tokens.array, i), "id", -1) - size;
        if (id >= 0 && id < RESERVED) named[id] = true;
    }
    for (int64_t i = 0; json_at(s->settings, "added_tokens_decoder") && i < RESERVED; i++) {
        char name[48];
        snprintf(name, sizeof name, "<|reserved_token_%zu|>", (size_t)(size + i));
        if (!named[i]) tokens_add(&s->tokens, sv(name), size + i, true);
    }
    return true;
}

static bool llama3_tokens(struct slow *s, struct error *e) {
    if (json_at(s->settings, "added_tokens_decoder")) return named_tokens(s, e);
    add(s, "<|begin_of_text|>");
    add(s, "<|end_of_text|>");
    add_numbered(s, "reserved_special_token", 0, 4);
    add(s, "<|start_header_id|>");
    add(s, "<|end_header_id|>");
    add_numbered(s, "reserved_special_token", 4, 5);
    add(s, "<|eot_id|>");
    add_numbered(s, "reserved_special_token", 5, RESERVED - 5);
    return true;
}

static void llama3_around(struct slow *s) {
    bool bos = json_bool_at(s->settings, "add_bos_token", true);
    bool eos = json_bool_at(s->settings, "add_eos_token", false);
    slow_around(s, bos ? "<|begin_of_text|>" : "", eos ? "<|end_of_text|>" : "");
}

bool slow_ranks(struct slow *s, struct sv text, struct error *e) {
    enum ranks_kind kind = kind_of(s);
    if (kind == UNKNOWN) return slow_unknown(s, e);
    if (!tiktoken_read(&s->t->model, text, e)) return fail_in(e, "%s", s->file);
    bool ok = true;
    switch (kind) {
    case QWEN: ok = qwen_tokens(s, e); break;
    case HUNYUAN: hunyuan_tokens(s); break;
    case KIMI: ok = named_tokens(s, e); break;
    default: ok = llama3_tokens(s, e);
    }
    if (!ok) return false;
    s->t->cut_runs = kind == KIMI;
    slow_split(s,
               kind == KIMI     ? kimi_pattern
               : kind == LLAMA3 ? scan_regex(SCAN_LLAMA3)
                                : scan_regex(SCAN_QWEN2),
               false);
    if (kind == LLAMA3) llama3_around(s);
    slow_stage(s, "decoder", "{\"type\":\"ByteLevel\"}");
    return true;
}

// "IQ== 0": the first line of a SentencePiece model can't be such.
bool slow_is_ranks(struct sv text) {
    struct sv line = sv_cut(text, 0, 64);
    ptrdiff_t space = sv_find(line, sv(" "), 0);
    if (space <= 0) return false;
    for (size_t i = 0; i < (size_t)space; i++) {
        char c = line.p[i];
        bool digit = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                     c == '+' || c == '/' || c == '=';
        if (!digit) return false;
    }
    char next = (size_t)space + 1 < line.n ? line.p[space + 1] : 0;
    return next >= '0' && next <= '9';
}
