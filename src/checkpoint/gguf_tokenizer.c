#include "checkpoint/gguf_tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "checkpoint/gguf_model.h"

#define SPACE "\xe2\x96\x81" // how SentencePiece writes one

enum { MAX_TOKEN = 4096 }; // bytes; deriving merges takes time with the square of it

enum token_type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

struct token {
    struct sv text;
    int64_t type;
    double score;
};

struct vocab {
    struct token *token;
    size_t n;
    struct map id;
    int64_t bos, eos, eot, eom, unk, pad; // -1: none
    bool add_bos, add_eos;
};

// How a pre-tokenizer that GGUF only names is written in the published tokenizer.json.
struct pre_tokenizer {
    const char *name;
    const char *split; // a pattern whose matches are words, or NULL: GPT-2's own, in ByteLevel
    bool digits;       // every digit is a word
    bool nfc;
    bool ignore_merges;
    bool add_bos; // unless the file says otherwise
};

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define MARKS        "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORD         "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define LLAMA3       CONTRACTIONS "|" WORD "|\\p{N}{1,3}" MARKS
#define QWEN2        CONTRACTIONS "|" WORD "|\\p{N}" MARKS
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define TEKKEN                                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER            \
    "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct pre_tokenizer pre_tokenizers[] = {
    {"gpt-2", NULL, false, false, false, false},
    {"smollm", NULL, true, false, false, false},
    {"llama-bpe", LLAMA3, false, false, true, true},
    {"llama3", LLAMA3, false, false, true, true},
    {"llama-v3", LLAMA3, false, false, true, true},
    {"qwen2", QWEN2, false, true, false, false},
    {"deepseek-r1-qwen", QWEN2, false, true, false, false},
    {"tekken", TEKKEN, false, false, true, false},
};

static bool find_pre(const struct gguf *g, const struct pre_tokenizer **out, struct error *e) {
    struct sv name;
    if (!gguf_text(g, "tokenizer.ggml.pre", sv(""), &name, e)) return false;
    for (size_t i = 0; i < sizeof pre_tokenizers / sizeof *pre_tokenizers; i++) {
        *out = &pre_tokenizers[i];
        if (sv_is(name, (*out)->name)) return true;
    }
    if (!name.n)
        return fail(e,
                    "%s: key \"tokenizer.ggml.pre\" is missing: how the text is split into words "
                    "is not known (convert the model again with a current converter)",
                    g->path);
    return fail(e,
                "%s: key \"tokenizer.ggml.pre\" is \"%.*s\"; gpt-2, smollm, llama-bpe, qwen2, "
                "deepseek-r1-qwen and tekken can be imported",
                g->path, name.n < 64 ? (int)name.n : 64, name.p);
}

// --- reading -----------------------------------------------------------------------------------

static bool check_token(const struct gguf *g, struct vocab *v, size_t i, struct error *e) {
    struct token *t = &v->token[i];
    if (t->type < NORMAL || t->type > BYTE)
        return fail(e, "%s: token %zu: type %lld is not known", g->path, i, (long long)t->type);
    if (!isfinite(t->score)) return fail(e, "%s: token %zu: its score is not finite", g->path, i);
    if (t->text.n > MAX_TOKEN)
        return fail(e, "%s: token %zu is longer than %d bytes", g->path, i, MAX_TOKEN);
    if (!utf8_valid(t->text)) return fail(e, "%s: token %zu is not valid UTF-8", g->path, i);
    if (t->type != UNUSED && !map_put(&v->id, t->text, (int64_t)i))
        return fail(e, "%s: tokens %lld and %zu are both \"%.*s\"", g->path,
                    (long long)map_get(&v->id, t->text), i, t->text.n < 64 ? (int)t->text.n : 64,
                    t->text.p);
    return true;
}

static bool read_tokens(const struct gguf *g, int64_t rows, struct vocab *v, struct error *e) {
    struct sv *text = NULL;
    int64_t *type = NULL;
    double *score = NULL;
    size_t types = 0, scores = 0;
    bool ok = gguf_texts(g, "tokenizer.ggml.tokens", &text, &v->n, e) &&
              gguf_ints(g, "tokenizer.ggml.token_type", &type, &types, e) &&
              gguf_numbers(g, "tokenizer.ggml.scores", &score, &scores, e);
    if (ok && !v->n) ok = fail(e, "%s: key \"tokenizer.ggml.tokens\" is missing", g->path);
    if (ok && (int64_t)v->n > rows)
        ok = fail(e, "%s: %zu tokens, but the embedding has %lld rows", g->path, v->n,
                  (long long)rows);
    if (ok && ((type && types != v->n) || (score && scores != v->n)))
        ok = fail(e, "%s: %zu tokens, %zu token types and %zu scores do not go together", g->path,
                  v->n, types, scores);
    if (ok) v->token = mem_array(v->n, sizeof *v->token);
    for (size_t i = 0; ok && i < v->n; i++) {
        v->token[i] = (struct token){text[i], type ? type[i] : NORMAL, score ? score[i] : 0};
        ok = check_token(g, v, i, e);
    }
    free(text);
    free(type);
    free(score);
    return ok;
}

// A special token's id; one outside the vocabulary (old converters wrote some) is none.
static int64_t read_id(const struct gguf *g, const struct vocab *v, const char *name,
                       int64_t otherwise, struct error *e) {
    struct str key = {0};
    str_printf(&key, "tokenizer.ggml.%s_token_id", name);
    int64_t id;
    gguf_int(g, key.p, otherwise, &id, e);
    if (id < -1 || id >= (int64_t)v->n) {
        log_say(LOG_WARN, "%s: key \"%s\" is %lld, outside the vocabulary; left out", g->path,
                key.p, (long long)id);
        id = -1;
    }
    str_free(&key);
    return id;
}

static bool read_specials(const struct gguf *g, struct vocab *v, bool sentencepiece, bool add_bos,
                          struct error *e) {
    v->bos = read_id(g, v, "bos", sentencepiece ? 1 : -1, e);
    v->eos = read_id(g, v, "eos", sentencepiece ? 2 : -1, e);
    v->unk = read_id(g, v, "unknown", sentencepiece ? 0 : -1, e);
    v->eot = read_id(g, v, "eot", -1, e);
    v->eom = read_id(g, v, "eom", -1, e);
    v->pad = read_id(g, v, "padding", -1, e);
    gguf_bool(g, "tokenizer.ggml.add_bos_token", add_bos, &v->add_bos, e);
    gguf_bool(g, "tokenizer.ggml.add_eos_token", false, &v->add_eos, e);
    v->add_bos = v->add_bos && v->bos >= 0;
    v->add_eos = v->add_eos && v->eos >= 0;
    return !e->set;
}

// --- tokenizer.json ----------------------------------------------------------------------------

static void add_text(struct str *out, const struct vocab *v, int64_t id) {
    json_quote(out, v->token[id].text);
}

// Tokens that are found in the text before anything else looks at it.
static void add_added_tokens(struct str *out, const struct vocab *v) {
    str_puts(out, "  \"added_tokens\": [");
    const char *comma = "";
    for (size_t i = 0; i < v->n; i++) {
        int64_t type = v->token[i].type;
        if (type != UNKNOWN && type != CONTROL && type != USER_DEFINED) continue;
        str_printf(out, "%s\n    {\"id\": %zu, \"content\": ", comma, i);
        add_text(out, v, (int64_t)i);
        str_printf(out,
                   ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                   "\"normalized\": false, \"special\": %s}",
                   type == USER_DEFINED ? "false" : "true");
        comma = ",";
    }
    str_puts(out, "\n  ],\n");
}

static void add_special(struct str *out, const struct vocab *v, int64_t id, int type_id) {
    str_puts(out, "{\"SpecialToken\": {\"id\": ");
    add_text(out, v, id);
    str_printf(out, ", \"type_id\": %d}}", type_id);
}

// One sequence of the template: <bos> A <eos>.
static void add_sequence(struct str *out, const struct vocab *v, char name, int type_id) {
    if (v->add_bos) add_special(out, v, v->bos, type_id), str_puts(out, ", ");
    str_printf(out, "{\"Sequence\": {\"id\": \"%c\", \"type_id\": %d}}", name, type_id);
    if (v->add_eos) str_puts(out, ", "), add_special(out, v, v->eos, type_id);
}

static void add_template(struct str *out, const struct vocab *v) {
    str_puts(out, "{\"type\": \"TemplateProcessing\", \"single\": [");
    add_sequence(out, v, 'A', 0);
    str_puts(out, "], \"pair\": [");
    add_sequence(out, v, 'A', 0);
    str_puts(out, ", ");
    add_sequence(out, v, 'B', 1);
    str_puts(out, "], \"special_tokens\": {");
    int64_t ids[2] = {v->add_bos ? v->bos : v->eos, v->eos};
    int n = v->add_bos && v->add_eos && v->bos != v->eos ? 2 : 1;
    for (int i = 0; i < n; i++) {
        if (i) str_puts(out, ", ");
        add_text(out, v, ids[i]);
        str_puts(out, ": {\"id\": ");
        add_text(out, v, ids[i]);
        str_printf(out, ", \"ids\": [%lld], \"tokens\": [", (long long)ids[i]);
        add_text(out, v, ids[i]);
        str_puts(out, "]}");
    }
    str_puts(out, "}}");
}

static void add_vocab(struct str *out, const struct vocab *v) {
    str_puts(out, "    \"vocab\": {");
    const char *comma = "";
    for (size_t i = 0; i < v->n; i++) {
        if (v->token[i].type == UNUSED) continue; // rows that pad the embedding
        str_printf(out, "%s\n      ", comma);
        add_text(out, v, (int64_t)i);
        str_printf(out, ": %zu", i);
        comma = ",";
    }
    str_puts(out, "\n    },\n");
}

static void add_pre_tokenizer(struct str *out, const struct pre_tokenizer *pre) {
    if (!pre->split && !pre->digits) {
        str_puts(out, "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": "
                      "true, \"use_regex\": true}");
        return;
    }
    str_puts(out, "{\"type\": \"Sequence\", \"pretokenizers\": [");
    if (pre->split) {
        str_puts(out, "{\"type\": \"Split\", \"pattern\": {\"Regex\": ");
        json_quote(out, sv(pre->split));
        str_puts(out, "}, \"behavior\": \"Isolated\", \"invert\": false}");
    } else {
        str_puts(out, "{\"type\": \"Digits\", \"individual_digits\": true}");
    }
    str_printf(out,
               ", {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
               "\"use_regex\": %s}]}",
               pre->split ? "false" : "true");
}

// The merges are given as "left right", best first; all three tokens must exist.
static bool add_merges(struct str *out, const struct gguf *g, const struct vocab *v,
                       struct error *e) {
    struct sv *merge;
    size_t n;
    if (!gguf_texts(g, "tokenizer.ggml.merges", &merge, &n, e)) return false;
    if (!n) fail(e, "%s: key \"tokenizer.ggml.merges\" is missing", g->path);
    struct str whole = {0};
    str_puts(out, "    \"merges\": [");
    for (size_t i = 0; i < n && !e->set; i++) {
        ptrdiff_t gap = sv_find(merge[i], sv(" "), 1);
        struct sv left = sv_cut(merge[i], 0, gap < 0 ? 0 : (size_t)gap);
        struct sv right = sv_cut(merge[i], left.n + 1, merge[i].n);
        str_clear(&whole);
        str_add(&whole, left);
        str_add(&whole, right);
        if (gap < 0 || map_get(&v->id, left) < 0 || map_get(&v->id, right) < 0 ||
            map_get(&v->id, str_sv(&whole)) < 0)
            fail(e, "%s: merge %zu, \"%.*s\", is not two tokens that make a third", g->path, i,
                 merge[i].n < 64 ? (int)merge[i].n : 64, merge[i].p);
        str_puts(out, i ? ",\n      " : "\n      ");
        json_quote(out, merge[i]);
    }
    str_puts(out, "\n    ]\n");
    str_free(&whole);
    free(merge);
    return !e->set;
}

static void begin_tokenizer(struct str *out, const struct vocab *v) {
    str_puts(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    add_added_tokens(out, v);
}

static void begin_model(struct str *out, const char *options) {
    str_printf(out,
               "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
               "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n%s",
               options);
}

static bool byte_level(const struct gguf *g, const struct pre_tokenizer *pre, struct vocab *v,
                       struct str *out, struct error *e) {
    static const char bytes[] = "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                                "\"trim_offsets\": false, \"use_regex\": true}";
    begin_tokenizer(out, v);
    str_printf(out, "  \"normalizer\": %s,\n  \"pre_tokenizer\": ",
               pre->nfc ? "{\"type\": \"NFC\"}" : "null");
    add_pre_tokenizer(out, pre);
    str_puts(out, ",\n  \"post_processor\": ");
    if (v->add_bos || v->add_eos) {
        str_printf(out, "{\"type\": \"Sequence\", \"processors\": [%s, ", bytes);
        add_template(out, v);
        str_puts(out, "]}");
    } else {
        str_puts(out, bytes);
    }
    str_puts(out, ",\n  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                  "\"trim_offsets\": true, \"use_regex\": true},\n");
    begin_model(out, "    \"unk_token\": null,\n    \"fuse_unk\": false,\n"
                     "    \"byte_fallback\": false,\n");
    str_printf(out, "    \"ignore_merges\": %s,\n", pre->ignore_merges ? "true" : "false");
    add_vocab(out, v);
    bool ok = add_merges(out, g, v, e);
    str_puts(out, "  }\n}\n");
    return ok;
}

// --- SentencePiece -----------------------------------------------------------------------------

// SentencePiece joins the neighbours whose joined piece has the best score; as a list of merges:
// every split of every piece into two pieces, by falling score, as published conversions have it.
struct merge {
    double score;
    size_t piece, cut;   // left is the piece's first `cut` bytes
    int64_t left, right; // ids
};

static int sign(double a, double b) { return (a > b) - (a < b); }

static int by_score(const void *pa, const void *pb) {
    const struct merge *a = pa, *b = pb;
    int c = sign(b->score, a->score);
    if (!c) c = (a->piece > b->piece) - (a->piece < b->piece);
    if (!c) c = (a->left > b->left) - (a->left < b->left);
    return c ? c : (a->right > b->right) - (a->right < b->right);
}

static struct merge *find_merges(const struct vocab *v, size_t *n) {
    struct merge *list = NULL;
    size_t cap = 0;
    *n = 0;
    for (size_t i = 0; i < v->n; i++) {
        struct sv s = v->token[i].text;
        if (v->token[i].type != NORMAL || !s.n) continue;
        size_t len;
        utf8_decode(s, 0, &len);
        for (size_t at = len; at < s.n; at += len) {
            int64_t left = map_get(&v->id, sv_cut(s, 0, at));
            int64_t right = map_get(&v->id, sv_cut(s, at, s.n));
            utf8_decode(s, at, &len);
            if (left < 0 || right < 0) continue;
            list = mem_grow(list, &cap, *n + 1, sizeof *list);
            list[(*n)++] = (struct merge){v->token[i].score, i, at, left, right};
        }
    }
    if (*n) qsort(list, *n, sizeof *list, by_score);
    return list;
}

static void add_found_merges(struct str *out, const struct vocab *v) {
    size_t n;
    struct merge *list = find_merges(v, &n);
    str_puts(out, "    \"merges\": [");
    for (size_t i = 0; i < n; i++) {
        struct sv piece = v->token[list[i].piece].text;
        struct str merge = {0};
        str_add(&merge, sv_cut(piece, 0, list[i].cut));
        str_addc(&merge, ' ');
        str_add(&merge, sv_cut(piece, list[i].cut, piece.n));
        str_puts(out, i ? ",\n      " : "\n      ");
        json_quote(out, str_sv(&merge));
        str_free(&merge);
    }
    str_puts(out, "\n    ]\n");
    free(list);
}

static bool sentence_piece(const struct gguf *g, struct vocab *v, struct str *out,
                           struct error *e) {
    static const char space[] = "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
                                "\"content\": \"" SPACE "\"}";
    bool prefix, squeeze;
    if (!gguf_bool(g, "tokenizer.ggml.add_space_prefix", true, &prefix, e) ||
        !gguf_bool(g, "tokenizer.ggml.remove_extra_whitespaces", false, &squeeze, e))
        return false;
    if (squeeze)
        return fail(e,
                    "%s: key \"tokenizer.ggml.remove_extra_whitespaces\" is true; only false "
                    "can be imported",
                    g->path);
    if (!gguf_value(g, "tokenizer.ggml.scores"))
        return fail(e, "%s: key \"tokenizer.ggml.scores\" is missing", g->path);
    for (size_t i = 0; i < v->n; i++)
        if (v->token[i].type == USER_DEFINED && sv_find(v->token[i].text, sv(SPACE), 0) >= 0)
            return fail(e,
                        "%s: token %zu is defined by the user and holds a space; this cannot be "
                        "imported",
                        g->path, i);
    begin_tokenizer(out, v);
    str_printf(out, "  \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [%s%s]},\n",
               prefix ? "{\"type\": \"Prepend\", \"prepend\": \"" SPACE "\"}, " : "", space);
    str_puts(out, "  \"pre_tokenizer\": null,\n  \"post_processor\": ");
    if (v->add_bos || v->add_eos)
        add_template(out, v);
    else
        str_puts(out, "null");
    str_printf(out,
               ",\n  \"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", "
               "\"pattern\": {\"String\": \"" SPACE "\"}, \"content\": \" \"}, "
               "{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}%s]},\n",
               prefix ? ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}"
                      : "");
    begin_model(out, "    \"fuse_unk\": true,\n    \"byte_fallback\": true,\n"
                     "    \"ignore_merges\": false,\n");
    str_puts(out, "    \"unk_token\": ");
    if (v->unk >= 0)
        add_text(out, v, v->unk);
    else
        str_puts(out, "null");
    str_puts(out, ",\n");
    add_vocab(out, v);
    add_found_merges(out, v);
    str_puts(out, "  }\n}\n");
    return true;
}

// --- the other two files -----------------------------------------------------------------------

static struct json_object *text_object(struct sv s) {
    return json_object_new_string_len(s.n ? s.p : "", (int)s.n);
}

static void put_token(struct json_object *o, const char *key, const struct vocab *v, int64_t id) {
    if (id >= 0) json_object_object_add(o, key, text_object(v->token[id].text));
}

// One template is published as a text; several, under names, as a list.
static bool put_templates(const struct gguf *g, struct json_object *o, struct error *e) {
    static const char key[] = "tokenizer.chat_template", dotted[] = "tokenizer.chat_template.";
    struct json_object *list = json_object_new_array();
    struct sv main_text = sv("");
    for (size_t i = 0; i < g->n_keys && !e->set; i++) {
        bool plain = sv_is(g->key[i], key);
        if (!plain && !sv_starts(g->key[i], sv(dotted))) continue;
        struct sv name = plain ? sv("default") : sv_cut(g->key[i], sizeof dotted - 1, g->key[i].n);
        struct str k = {0};
        struct sv text = sv("");
        str_add(&k, g->key[i]);
        gguf_text(g, k.p, sv(""), &text, e);
        str_free(&k);
        if (!utf8_valid(text) || !utf8_valid(name) || text.n > INT32_MAX)
            fail(e, "%s: a chat template is not valid UTF-8, or over 2 GB", g->path);
        if (e->set) break;
        if (plain) main_text = text;
        struct json_object *one = json_object_new_object();
        json_object_object_add(one, "name", text_object(name));
        json_object_object_add(one, "template", text_object(text));
        json_object_array_add(list, one);
    }
    size_t n = json_object_array_length(list);
    if (n > 1 || (n == 1 && !main_text.n))
        json_object_object_add(o, "chat_template", json_object_get(list));
    else if (n == 1)
        json_object_object_add(o, "chat_template", text_object(main_text));
    json_object_put(list);
    return !e->set;
}

static void print_object(struct str *out, struct json_object *o) {
    int flags = JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE;
    str_puts(out, json_object_to_json_string_ext(o, flags));
    str_addc(out, '\n');
}

static bool tokenizer_config(const struct gguf *g, const struct vocab *v, struct str *out,
                             struct error *e) {
    struct json_object *o = json_object_new_object();
    json_object_object_add(o, "tokenizer_class", json_object_new_string("PreTrainedTokenizerFast"));
    json_object_object_add(o, "add_bos_token", json_object_new_boolean(v->add_bos));
    json_object_object_add(o, "add_eos_token", json_object_new_boolean(v->add_eos));
    json_object_object_add(o, "clean_up_tokenization_spaces", json_object_new_boolean(false));
    put_token(o, "bos_token", v, v->bos);
    put_token(o, "eos_token", v, v->eos);
    put_token(o, "unk_token", v, v->unk);
    put_token(o, "pad_token", v, v->pad);
    bool ok = put_templates(g, o, e);
    if (ok) print_object(out, o);
    json_object_put(o);
    return ok;
}

// Every id that ends an answer: GGUF names the main one, and runtimes add those that are known by
// their text.
static struct json_object *end_ids(const struct vocab *v) {
    static const char *const texts[] = {"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|endoftext|>",
                                        "<|end_of_text|>"};
    int64_t ids[3 + sizeof texts / sizeof *texts] = {v->eos, v->eot, v->eom};
    size_t n = 3;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int64_t id = map_get(&v->id, sv(texts[i]));
        ids[n++] = id >= 0 && v->token[id].type == CONTROL ? id : -1;
    }
    struct json_object *list = json_object_new_array();
    for (size_t i = 0; i < n; i++) {
        bool seen = ids[i] < 0;
        for (size_t k = 0; k < i; k++) seen = seen || ids[k] == ids[i];
        if (!seen) json_object_array_add(list, json_object_new_int64(ids[i]));
    }
    return list;
}

static bool generation_config(const struct gguf *g, const struct vocab *v, struct str *out,
                              struct error *e) {
    static const char *const sampling[][2] = {
        {"general.sampling.temp", "temperature"},
        {"general.sampling.top_k", "top_k"},
        {"general.sampling.top_p", "top_p"},
        {"general.sampling.min_p", "min_p"},
        {"general.sampling.penalty_repeat", "repetition_penalty"},
    };
    struct json_object *o = json_object_new_object();
    if (v->bos >= 0) json_object_object_add(o, "bos_token_id", json_object_new_int64(v->bos));
    json_object_object_add(o, "eos_token_id", end_ids(v));
    if (v->pad >= 0) json_object_object_add(o, "pad_token_id", json_object_new_int64(v->pad));
    for (size_t i = 0; i < sizeof sampling / sizeof *sampling && !e->set; i++) {
        double value;
        const struct gguf_value *there = gguf_value(g, sampling[i][0]);
        if (!there || !gguf_number(g, sampling[i][0], 0, &value, e)) continue;
        bool whole = there->kind != GGUF_F32 && there->kind != GGUF_F64;
        json_object_object_add(o, sampling[i][1],
                               whole ? json_object_new_int64((int64_t)value)
                                     : gguf_json_float(value));
    }
    print_object(out, o);
    json_object_put(o);
    return !e->set;
}

static bool read_vocab(const struct gguf *g, int64_t rows, struct vocab *v,
                       struct gguf_tokenizer *t, struct error *e) {
    struct sv model;
    const struct pre_tokenizer *pre = NULL;
    if (!gguf_text(g, "tokenizer.ggml.model", sv(""), &model, e)) return false;
    bool bytes = sv_is(model, "gpt2"), pieces = sv_is(model, "llama");
    if (!bytes && !pieces)
        return fail(e,
                    "%s: key \"tokenizer.ggml.model\" is \"%.*s\"; gpt2 and llama can be imported",
                    g->path, model.n < 64 ? (int)model.n : 64, model.p);
    if (!read_tokens(g, rows, v, e) || (bytes && !find_pre(g, &pre, e)) ||
        !read_specials(g, v, pieces, pre ? pre->add_bos : pieces, e))
        return false;
    if (bytes ? !byte_level(g, pre, v, &t->tokenizer, e) : !sentence_piece(g, v, &t->tokenizer, e))
        return false;
    t->bos = v->bos;
    t->eos = v->eos;
    return tokenizer_config(g, v, &t->config, e) && generation_config(g, v, &t->generation, e);
}

bool gguf_tokenizer_read(const struct gguf *g, int64_t rows, struct gguf_tokenizer *t,
                         struct error *e) {
    struct vocab v = {0};
    *t = (struct gguf_tokenizer){0};
    bool ok = read_vocab(g, rows, &v, t, e);
    free(v.token);
    map_free(&v.id);
    return ok;
}

void gguf_tokenizer_free(struct gguf_tokenizer *t) {
    str_free(&t->tokenizer);
    str_free(&t->config);
    str_free(&t->generation);
    *t = (struct gguf_tokenizer){0};
}
