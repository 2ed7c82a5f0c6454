// vocab.json and merges.txt: byte-level BPE.
#include <stdlib.h>

#include "base/file.h"
#include "tokenizer/slow.h"

struct bpe_class {
    const char *names;
    const char *roles;          // by default
    const char *before, *after; // the text; NULL: as add_bos_token and add_eos_token say
    const char *normalizer;
    const char *regex; // that splits; NULL: GPT-2's
    bool prefix;       // add_prefix_space, by default
};

static const char nfc[] = "{\"type\":\"NFC\"}";
static const char qwen3_5[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

#define EOT     "<|endoftext|>"
#define ROBERTA "bos=<s> eos=</s> sep=</s> cls=<s> unk=<unk> pad=<pad> mask=<mask>"

static const struct bpe_class classes[] = {
    {.names = "GPT2Tokenizer CodeGenTokenizer OPTTokenizer PreTrainedTokenizer TokenizersBackend",
     .roles = "unk=" EOT " bos=" EOT " eos=" EOT},
    {.names = "Qwen2Tokenizer",
     .roles = "unk=" EOT " eos=" EOT " pad=" EOT,
     .normalizer = nfc,
     .regex = ""},
    {.names = "Qwen3_5Tokenizer",
     .roles = "unk=" EOT " eos=" EOT " pad=" EOT,
     .normalizer = nfc,
     .regex = qwen3_5},
    {.names = "GPTNeoXTokenizer",
     .roles = "unk=" EOT " bos=" EOT " eos=" EOT " pad=<|padding|>",
     .normalizer = nfc},
    {.names = "RobertaTokenizer BartTokenizer LEDTokenizer LongformerTokenizer MvpTokenizer",
     .roles = ROBERTA,
     .before = "cls",
     .after = "sep"},
    {.names = "BlenderbotTokenizer", .roles = ROBERTA, .after = "eos", .prefix = true},
    {.names = "DebertaTokenizer",
     .roles = "bos=[CLS] eos=[SEP] sep=[SEP] cls=[CLS] unk=[UNK] pad=[PAD] mask=[MASK]",
     .before = "cls",
     .after = "sep"},
    {.names = "WhisperTokenizer", .roles = "unk=" EOT " bos=" EOT " eos=" EOT, .after = "eos"},
    {.names = "CLIPTokenizer",
     .roles = "unk=" EOT " bos=<|startoftext|> eos=" EOT " pad=" EOT,
     .before = "bos",
     .after = "eos",
     .normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
                   "\"Replace\",\"pattern\":{\"Regex\":\"\\\\s+\"},\"content\":\" \"},"
                   "{\"type\":\"Lowercase\"}]}"},
};

static const struct bpe_class *find_class(const struct slow *s) {
    size_t n = sizeof classes / sizeof *classes;
    if (!s->class.n) return &classes[0];
    for (size_t i = 0; i < n; i++)
        if (slow_is(s, classes[i].names)) return &classes[i];
    return NULL;
}

// merges.txt as a JSON list. As the reference, a line that begins with # is a comment.
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

static bool read_model(struct slow *s, bool clip, struct error *e) {
    struct str vocab = {0}, merges = {0};
    bool ok = file_read(s->file, TOKENIZER_LIMIT, &vocab, e) && read_merges(s->dir, &merges, e);
    struct document d = {.vocab = sv_trim(str_sv(&vocab)), .merges = str_sv(&merges)};
    d.model = json_object_new_object();
    if (clip) {
        json_object_object_add(d.model, "end_of_word_suffix", json_object_new_string("</w>"));
        json_object_object_add(d.model, "unk_token", json_object_new_string(EOT));
    }
    ok = ok && (model_read(&s->t->model, &d, e) || fail_in(e, "%s", s->file));
    document_free(&d);
    str_free(&vocab);
    str_free(&merges);
    return ok;
}

static void add_pretokenizer(struct slow *s, const struct bpe_class *c, bool clip) {
    bool prefix = json_bool_at(s->settings, "add_prefix_space", c->prefix);
    if (clip)
        slow_stage(s, "pre_tokenizer",
                   "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":"
                   "\"Removed\",\"invert\":true,\"pattern\":{\"Regex\":\"<\\\\|startoftext\\\\|>|"
                   "<\\\\|endoftext\\\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\\\p{L}]+|[\\\\p{N}]|"
                   "[^\\\\s\\\\p{L}\\\\p{N}]+\"}},{\"type\":\"ByteLevel\","
                   "\"add_prefix_space\":false}]}");
    else if (c->regex)
        slow_split(s, c->regex[0] ? c->regex : scan_regex(SCAN_QWEN2), prefix);
    else
        slow_stage(s, "pre_tokenizer",
                   prefix ? "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}"
                          : "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}");
}

static bool setting(const struct slow *s, const char *key) {
    return json_bool_at(s->settings, key, false);
}

// Whisper begins with what it is to do; the language and the task may be left open.
static void whisper_start(const struct slow *s, struct str *out) {
    struct sv language = json_text_at(s->settings, "language");
    struct sv task = json_text_at(s->settings, "task");
    str_puts(out, "<|startoftranscript|>");
    if (language.n) str_printf(out, " <|%.*s|>", (int)language.n, language.p);
    if (task.n) str_printf(out, " <|%.*s|>", (int)task.n, task.p);
    if (!setting(s, "predict_timestamps")) str_puts(out, " <|notimestamps|>");
}

static void add_around(struct slow *s, const struct bpe_class *c) {
    struct str start = {0};
    if (slow_is(s, "WhisperTokenizer")) whisper_start(s, &start);
    if (c->before || c->after)
        slow_around(s, c->before ? c->before : str_c(&start), c->after ? c->after : "");
    else
        slow_around(s, setting(s, "add_bos_token") ? "bos" : "",
                    setting(s, "add_eos_token") ? "eos" : "");
    str_free(&start);
}

bool slow_bpe(struct slow *s, struct error *e) {
    const struct bpe_class *c = find_class(s);
    bool clip = slow_is(s, "CLIPTokenizer");
    if (!c) return slow_unknown(s, e);
    if (!read_model(s, clip, e)) return false;
    slow_roles(s, c->roles);
    if (!slow_tokens(s, e)) return false;
    if (c->normalizer) slow_stage(s, "normalizer", c->normalizer);
    add_pretokenizer(s, c, clip);
    add_around(s, c);
    slow_stage(s, "decoder",
               clip ? "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteLevel\"},{\"type\":"
                      "\"Replace\",\"pattern\":{\"String\":\"</w>\"},\"content\":\" \"}]}"
                    : "{\"type\":\"ByteLevel\"}");
    return true;
}
