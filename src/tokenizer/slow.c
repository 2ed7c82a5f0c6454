// The formats that came before tokenizer.json, made into the same stages as their transformers
// classes make.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "tokenizer/parts.h"

static const char raw_bytes[] =
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}";
static const char byte_decoder[] = "{\"type\":\"ByteLevel\"}";

static const char kimi_pattern[] =
    "[\\p{Han}]+|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

// The class without "Fast" at its end.
static struct sv class_of(struct json_object *config) {
    struct sv name = json_text_at(config, "tokenizer_class");
    return sv_ends(name, sv("Fast")) ? sv_cut(name, 0, name.n - 4) : name;
}

static bool is_one_of(struct sv name, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (sv_is(name, names[i])) return true;
    return false;
}

// --- the stages, as the text of a tokenizer.json -------------------------------------------------

static void add_stage(struct str *s, const char *key, const char *value) {
    str_printf(s, "%c\"%s\":%s", s->n ? ',' : '{', key, value);
}

static void add_split(struct str *s, const char *pattern) {
    str_printf(s,
               "%c\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
               "\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":",
               s->n ? ',' : '{');
    json_quote(s, sv(pattern));
    str_printf(s, "}},%s]}", raw_bytes);
}

// A template with the ids before and after the text; -1: none.
static void add_template(struct str *s, int32_t before, int32_t after) {
    static const char part[] = "{\"SpecialToken\":{\"id\":\"%s\"}}";
    if (before < 0 && after < 0) return;
    str_printf(s, "%c\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[",
               s->n ? ',' : '{');
    if (before >= 0) str_printf(s, part, "before"), str_addc(s, ',');
    str_puts(s, "{\"Sequence\":{\"id\":\"A\"}}");
    if (after >= 0) str_addc(s, ','), str_printf(s, part, "after");
    str_printf(s, "],\"special_tokens\":{\"before\":{\"ids\":[%d]},\"after\":{\"ids\":[%d]}}}",
               before < 0 ? 0 : before, after < 0 ? 0 : after);
}

// The id of a token with a role in the settings, else of `otherwise`; -1: none.
static int32_t role_id(const struct tokenizer *t, struct json_object *config,
                       struct json_object *added, const char *role, const char *otherwise) {
    struct json_object *j = json_at(config, role);
    if (json_object_is_type(j, json_type_object)) j = json_at(j, "content");
    struct sv text = j ? json_text(j) : sv(otherwise);
    for (size_t i = 0; i < json_object_array_length(added); i++) {
        struct json_object *a = json_object_array_get_idx(added, i);
        if (sv_eq(json_text_at(a, "content"), text)) return (int32_t)json_int_at(a, "id", -1);
    }
    return vocab_id(&t->model.vocab, text);
}

// Ends the text and reads it, with the list of added tokens (which it takes).
static bool finish(struct tokenizer *t, struct str *stages, struct json_object *added,
                   struct error *e) {
    str_puts(stages, stages->n ? "}" : "{}");
    struct json_object *j = json_read(str_sv(stages), "stages", e);
    if (j) json_object_object_add(j, "added_tokens", json_object_get(added));
    bool ok = j && tok_read_stages(t, j, e);
    json_object_put(j);
    return ok;
}

// --- the kinds -----------------------------------------------------------------------------------

// vocab.json and merges.txt: byte-level BPE
static bool read_merges(const char *dir, struct str *json, struct error *e) {
    char *path = path_join(dir, "merges.txt");
    struct str text = {0};
    bool ok = file_read(path, TOKENIZER_LIMIT, &text, e);
    str_addc(json, '[');
    for (size_t at = 0, end; ok && at < text.n; at = end + 1) {
        ptrdiff_t newline = sv_find(str_sv(&text), sv("\n"), at);
        end = newline < 0 ? text.n : (size_t)newline;
        struct sv line = sv_cut(str_sv(&text), at, end);
        if (sv_ends(line, sv("\r"))) line.n--;
        if (!line.n || (at == 0 && sv_starts(line, sv("#version")))) continue;
        if (json->n > 1) str_addc(json, ',');
        json_quote(json, line);
    }
    str_addc(json, ']');
    str_free(&text);
    free(path);
    return ok;
}

static bool read_bpe(struct tokenizer *t, const char *file, const char *dir, struct error *e) {
    struct str vocab = {0}, merges = {0};
    bool ok = file_read(file, TOKENIZER_LIMIT, &vocab, e) && read_merges(dir, &merges, e);
    struct document d = {.vocab = sv_trim(str_sv(&vocab)), .merges = str_sv(&merges)};
    d.model = json_object_new_object();
    ok = ok && (model_read(&t->model, &d, e) || fail_in(e, "%s", file));
    document_free(&d);
    str_free(&vocab);
    str_free(&merges);
    return ok;
}

static bool slow_bpe(struct tokenizer *t, const char *file, const char *dir,
                     struct json_object *config, struct error *e) {
    static const char *const roberta[] = {"RobertaTokenizer", "BartTokenizer", "LEDTokenizer",
                                          "LongformerTokenizer"};
    struct sv class = class_of(config);
    struct str s = {0};
    if (!read_bpe(t, file, dir, e)) return false;
    struct json_object *added = slow_added(dir, config, &t->model.vocab, e);
    bool prefix = json_bool_at(config, "add_prefix_space", false);
    if (added && sv_is(class, "Qwen2Tokenizer")) {
        add_stage(&s, "normalizer", "{\"type\":\"NFC\"}");
        add_split(&s, scan_regex(SCAN_QWEN2));
    } else {
        add_stage(&s, "pre_tokenizer",
                  prefix ? "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}"
                         : "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}");
    }
    if (is_one_of(class, roberta, sizeof roberta / sizeof *roberta))
        add_template(&s, role_id(t, config, added, "cls_token", "<s>"),
                     role_id(t, config, added, "sep_token", "</s>"));
    else if (json_bool_at(config, "add_bos_token", false))
        add_template(&s, role_id(t, config, added, "bos_token", "<|endoftext|>"), -1);
    add_stage(&s, "decoder", byte_decoder);
    bool ok = added && finish(t, &s, added, e);
    json_object_put(added);
    str_free(&s);
    return ok;
}

// vocab.txt: BERT's WordPiece, a token a line
static bool read_lines(struct tokenizer *t, const char *file, struct error *e) {
    struct str text = {0};
    bool ok = file_read(file, TOKENIZER_LIMIT, &text, e);
    for (size_t at = 0, end; ok && at < text.n; at = end + 1) {
        ptrdiff_t newline = sv_find(str_sv(&text), sv("\n"), at);
        end = newline < 0 ? text.n : (size_t)newline;
        struct sv line = sv_cut(str_sv(&text), at, end);
        if (sv_ends(line, sv("\r"))) line.n--;
        ok =
            utf8_valid(line) || fail(e, "%s: line %zu is not UTF-8", file, t->model.vocab.size + 1);
        ok = ok && (vocab_append(&t->model.vocab, line, e) || fail_in(e, "%s", file));
    }
    str_free(&text);
    t->model.kind = MODEL_WORDPIECE;
    struct json_object *settings = json_object_new_object();
    ok = ok && wordpiece_read(&t->model.wordpiece, &t->model.vocab, settings, e);
    json_object_put(settings);
    return ok;
}

static bool slow_bert(struct tokenizer *t, const char *file, const char *dir,
                      struct json_object *config, struct error *e) {
    struct str s = {0};
    if (!read_lines(t, file, e)) return false;
    struct json_object *added = slow_added(dir, config, &t->model.vocab, e);
    struct json_object *accents = json_at(config, "strip_accents");
    bool lower = json_bool_at(config, "do_lower_case", true);
    str_printf(&s,
               "{\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":%s,"
               "\"handle_chinese_chars\":%s,\"strip_accents\":%s}",
               lower ? "true" : "false",
               json_bool_at(config, "tokenize_chinese_chars", true) ? "true" : "false",
               accents ? json_object_to_json_string(accents) : "null");
    add_stage(&s, "pre_tokenizer", "{\"type\":\"BertPreTokenizer\"}");
    add_stage(&s, "decoder", "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}");
    if (added)
        add_template(&s, role_id(t, config, added, "cls_token", "[CLS]"),
                     role_id(t, config, added, "sep_token", "[SEP]"));
    bool ok = added && finish(t, &s, added, e);
    json_object_put(added);
    str_free(&s);
    return ok;
}

// Special tokens that are in the code of the classes, behind the ranks.
static void add_known(struct json_object *added, struct sv class, size_t size) {
    static const char *const qwen[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    static const char *const hunyuan[] = {"<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>",
                                          "<|pad|>"};
    bool is_qwen = sv_is(class, "QWenTokenizer"), is_hunyuan = sv_is(class, "HYTokenizer");
    if (!is_qwen && !is_hunyuan) return;
    const char *const *names = is_qwen ? qwen : hunyuan;
    size_t n = is_qwen ? 3 : 5;
    for (size_t i = 0; i < n; i++) slow_add(added, sv(names[i]), (int64_t)(size + i), true);
    for (size_t i = 0; i < 205; i++) {
        char name[24];
        snprintf(name, sizeof name, "<|extra_%zu|>", i);
        slow_add(added, sv(name), (int64_t)(size + n + i), true);
    }
}

// Kimi names some of the 256 ids behind the ranks; the others are reserved.
static void add_reserved(struct json_object *added, size_t size) {
    bool named[256] = {0};
    for (size_t i = 0; i < json_object_array_length(added); i++) {
        int64_t id = json_int_at(json_object_array_get_idx(added, i), "id", -1) - (int64_t)size;
        if (id >= 0 && id < 256) named[id] = true;
    }
    for (size_t i = 0; i < 256; i++) {
        char name[40];
        snprintf(name, sizeof name, "<|reserved_token_%zu|>", size + i);
        if (!named[i]) slow_add(added, sv(name), (int64_t)(size + i), true);
    }
}

static bool slow_tiktoken(struct tokenizer *t, const char *file, const char *dir,
                          struct json_object *config, struct error *e) {
    struct str text = {0}, s = {0};
    bool ok = file_read(file, TOKENIZER_LIMIT, &text, e) &&
              (tiktoken_read(&t->model, str_sv(&text), e) || fail_in(e, "%s", file));
    str_free(&text);
    if (!ok) return false;
    struct sv class = class_of(config), name = path_name(file);
    if (!class.n && sv_is(name, "qwen.tiktoken")) class = sv("QWenTokenizer");
    if (!class.n && sv_is(name, "hy.tiktoken")) class = sv("HYTokenizer");
    if (!class.n && sv_is(name, "tiktoken.model")) class = sv("TikTokenTokenizer");
    bool kimi = sv_is(class, "TikTokenTokenizer");
    if (!kimi && !sv_is(class, "QWenTokenizer") && !sv_is(class, "HYTokenizer"))
        return fail(e,
                    "%s: the pattern and special tokens of tokenizer_class \"%.*s\" are in code "
                    "that is not known here (convert the tokenizer to tokenizer.json)",
                    file, class.n < 60 ? (int)class.n : 60, class.p);
    size_t size = t->model.vocab.size;
    struct json_object *added = json_object_new_array(), *more = NULL;
    add_known(added, class, size);
    if (!json_object_array_length(added)) {
        json_object_put(added);
        added = more = slow_added(dir, config, &t->model.vocab, e);
    }
    if (kimi && more && json_at(config, "added_tokens_decoder")) add_reserved(added, size);
    add_split(&s, kimi ? kimi_pattern : scan_regex(SCAN_QWEN2));
    add_stage(&s, "decoder", byte_decoder);
    ok = added && finish(t, &s, added, e);
    json_object_put(added);
    str_free(&s);
    return ok;
}

// The tokens of a SentencePiece model that text may spell: its control pieces, and what the
// settings add. Pieces of the user are left to the model.
static struct json_object *spm_added(const struct tokenizer *t, const char *dir,
                                     struct json_object *config, struct error *e) {
    const struct model *m = &t->model;
    struct json_object *all = slow_added(dir, config, &m->vocab, e), *list = NULL;
    struct sv text;
    if (!all) return NULL;
    list = json_object_new_array();
    for (size_t id = 0; id < m->vocab.size; id++)
        if (m->spm.piece[id].kind == SPM_CONTROL && vocab_token(&m->vocab, (int32_t)id, &text))
            slow_add(list, text, (int64_t)id, true);
    for (size_t i = 0; i < json_object_array_length(all); i++) {
        struct json_object *a = json_object_array_get_idx(all, i);
        int32_t id = vocab_id(&m->vocab, json_text_at(a, "content"));
        enum spm_kind kind = id < 0 ? SPM_CONTROL : m->spm.piece[id].kind;
        if (id >= 0 && (kind == SPM_USER || kind == SPM_UNKNOWN || kind == SPM_CONTROL)) continue;
        json_object_array_add(list, json_object_get(a));
    }
    json_object_put(all);
    return list;
}

static bool slow_spm(struct tokenizer *t, const char *file, const char *dir,
                     struct json_object *config, struct error *e) {
    static const char *const shifted[] = {
        "XLMRobertaTokenizer", "CamembertTokenizer", "BarthezTokenizer", "MBartTokenizer",
        "MBart50Tokenizer",    "NllbTokenizer",      "XGLMTokenizer",    "PegasusTokenizer"};
    static const char *const begun[] = {"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer"};
    static const char *const ended[] = {"T5Tokenizer", "MT5Tokenizer"};
    struct sv class = class_of(config);
    if (is_one_of(class, shifted, sizeof shifted / sizeof *shifted))
        return fail(e, "%s: %.*s gives its pieces other ids (convert it to tokenizer.json)", file,
                    (int)class.n, class.p);
    struct str text = {0}, s = {0};
    bool ok = file_read(file, TOKENIZER_LIMIT, &text, e) &&
              (model_read_spm(&t->model, str_sv(&text), e) || fail_in(e, "%s", file));
    str_free(&text);
    struct json_object *added = ok ? spm_added(t, dir, config, e) : NULL;
    if (!added) return false;
    t->model.spm.each = json_bool_at(config, "legacy", false);
    bool bos = json_bool_at(config, "add_bos_token",
                            is_one_of(class, begun, sizeof begun / sizeof *begun));
    bool eos = json_bool_at(config, "add_eos_token",
                            is_one_of(class, ended, sizeof ended / sizeof *ended));
    add_template(&s, bos ? role_id(t, config, added, "bos_token", "<s>") : -1,
                 eos ? role_id(t, config, added, "eos_token", "</s>") : -1);
    norm_spm(&t->normalizer, &t->model.spm);
    decode_spm(&t->decoder, &t->model.spm);
    add_stage(&s, "decoder", "{\"type\":\"Sequence\",\"decoders\":[]}"); // none but that one
    ok = finish(t, &s, added, e);
    json_object_put(added);
    str_free(&s);
    return ok;
}

// --- which ---------------------------------------------------------------------------------------

static bool is_tiktoken(struct sv name) {
    return sv_ends(name, sv(".tiktoken")) || sv_is(name, "tiktoken.model");
}

bool slow_read(struct tokenizer *t, const char *file, struct json_object *config, struct error *e) {
    struct sv folder = path_dir(file), name = path_name(file);
    char *dir = mem_textn(folder.p, folder.n);
    bool ok = is_tiktoken(name)             ? slow_tiktoken(t, file, dir, config, e)
              : sv_ends(name, sv(".model")) ? slow_spm(t, file, dir, config, e)
              : sv_is(name, "vocab.json")   ? slow_bpe(t, file, dir, config, e)
              : sv_is(name, "vocab.txt")    ? slow_bert(t, file, dir, config, e)
                                            : fail(e, "%s: not a tokenizer's file", file);
    free(dir);
    return ok;
}

// The folder's first file of these names, in this order.
static char *first_of(const char *dir, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char *path = path_join(dir, names[i]);
        if (file_exists(path)) return path;
        free(path);
    }
    return NULL;
}

static char *find_tiktoken(const char *dir) {
    struct names names = {0};
    struct error ignored = {0};
    char *found = NULL;
    if (dir_list(dir, &names, &ignored))
        for (size_t i = 0; i < names.n && !found; i++)
            if (is_tiktoken(sv(names.name[i]))) found = path_join(dir, names.name[i]);
    names_free(&names);
    return found;
}

char *slow_find(const char *dir, struct json_object *config) {
    static const char *const usual[] = {"tokenizer.model", "spiece.model", "spm.model",
                                        "sentencepiece.bpe.model"};
    static const char *const plain[] = {"vocab.json", "vocab.txt"};
    static const char *const by_ranks[] = {"QWenTokenizer", "HYTokenizer", "TikTokenTokenizer"};
    bool ranks = is_one_of(class_of(config), by_ranks, sizeof by_ranks / sizeof *by_ranks);
    char *path = ranks ? find_tiktoken(dir) : NULL;
    if (!path) path = first_of(dir, usual, sizeof usual / sizeof *usual);
    if (!path) path = find_tiktoken(dir);
    if (!path) path = first_of(dir, plain, sizeof plain / sizeof *plain);
    return path;
}
