// SentencePiece models. Some classes give the pieces other ids than the file does: they put tokens
// of their own before and behind, and drop the file's first ones.
#include <stdlib.h>

#include "tokenizer/slow.h"

struct spm_class {
    const char *names;
    const char *roles;          // by default
    const char *before, *after; // the text
    struct spm_layout layout;
    const char *normalizer; // before that of the model; NULL: none
    bool mask_lstrip;       // <mask> takes the space before it
    bool strips;            // tokens with a role take it on both sides
};

#define FAIRSEQ       "<s> <pad> </s> <unk>"
#define FAIRSEQ_ROLES "bos=<s> eos=</s> unk=<unk> sep=</s> pad=<pad> cls=<s> mask=<mask>"
#define MBART_CODES                                                                                \
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR "         \
    "lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN "
#define MBART50_CODES                                                                              \
    MBART_CODES "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN "         \
                "mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK "         \
                "xh_ZA gl_ES sl_SI "
#define FOLD_QUOTES                                                                                \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"``\"},\"content\":\"\\\"\"},"                 \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"''\"},\"content\":\"\\\"\"}"
#define ACCENTS ",{\"type\":\"NFKD\"},{\"type\":\"StripAccents\"}"
#define LOWER   "{\"type\":\"Lowercase\"}"

// Behind a Lowercase, with white space cut to size.
#define NO_PUNCTUATION                                                                             \
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[!-/:-@\\\\[-`{-~]\"},\"content\":\"\"},"      \
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\s+\"},\"content\":\" \"},"                 \
    "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}"

static const struct spm_class classes[] = {
    {.names = "T5Tokenizer MT5Tokenizer", .roles = "eos=</s> unk=<unk> pad=<pad>", .after = "eos"},
    {.names = "XLMRobertaTokenizer",
     .roles = FAIRSEQ_ROLES,
     .before = "cls",
     .after = "sep",
     .layout = {FAIRSEQ, 3, "<mask>"}},
    {.names = "CamembertTokenizer",
     .roles = FAIRSEQ_ROLES,
     .before = "cls",
     .after = "sep",
     .layout = {"<s>NOTUSED <pad> </s>NOTUSED <unk> <unk>NOTUSED", 1, "<mask>"},
     .mask_lstrip = true},
    {.names = "BarthezTokenizer",
     .roles = FAIRSEQ_ROLES,
     .before = "cls",
     .after = "sep",
     .mask_lstrip = true},
    {.names = "MBartTokenizer",
     .roles = FAIRSEQ_ROLES,
     .after = "eos src_lang",
     .layout = {FAIRSEQ, 3, MBART_CODES "<mask>"},
     .mask_lstrip = true},
    {.names = "MBart50Tokenizer",
     .roles = FAIRSEQ_ROLES,
     .before = "src_lang",
     .after = "eos",
     .layout = {FAIRSEQ, 3, MBART50_CODES "<mask>"},
     .mask_lstrip = true},
    {.names = "XGLMTokenizer",
     .roles = "bos=<s> eos=</s> unk=<unk> sep=</s> pad=<pad> cls=<s>",
     .before = "sep",
     .layout = {FAIRSEQ, 3,
                "<madeupword0> <madeupword1> <madeupword2> <madeupword3> <madeupword4> "
                "<madeupword5> <madeupword6>"}},
    {.names = "PegasusTokenizer",
     .roles = "eos=</s> unk=<unk> pad=<pad> mask=<mask_2>",
     .after = "eos",
     .layout = {"<pad> </s> <mask_1> <mask_2>", 2, NULL}},
    {.names = "BigBirdTokenizer",
     .roles = "bos=<s> eos=</s> unk=<unk> sep=[SEP] pad=<pad> cls=[CLS] mask=[MASK]",
     .before = "cls",
     .after = "sep",
     .mask_lstrip = true},
    {.names = "DebertaV2Tokenizer",
     .roles = "bos=[CLS] eos=[SEP] unk=[UNK] sep=[SEP] pad=[PAD] cls=[CLS] mask=[MASK]",
     .before = "cls",
     .after = "sep"},
    {.names = "AlbertTokenizer",
     .roles = "bos=[CLS] eos=[SEP] unk=<unk> sep=[SEP] pad=<pad> cls=[CLS] mask=[MASK]",
     .before = "cls",
     .after = "sep",
     .normalizer = FOLD_QUOTES},
    {.names = "XLNetTokenizer",
     .roles = "bos=<s> eos=</s> unk=<unk> sep=<sep> pad=<pad> cls=<cls> mask=<mask>",
     .after = "sep cls",
     .normalizer = FOLD_QUOTES,
     .mask_lstrip = true},
    {.names = "SiglipTokenizer",
     .roles = "eos=</s> unk=<unk> pad=</s>",
     .after = "eos",
     .normalizer = NO_PUNCTUATION,
     .strips = true},
    {.names = "LlamaTokenizer CodeLlamaTokenizer", .roles = "unk=<unk> bos=<s> eos=</s>"},
    {.names = "GemmaTokenizer", .roles = "unk=<unk> bos=<bos> eos=<eos> pad=<pad>"},
    {.names = ""}, // the others
};

// Classes that are no SentencePiece model with special tokens around it.
static const char refused[] =
    "MarianTokenizer M2M100Tokenizer NllbTokenizer SeamlessM4TTokenizer Speech2TextTokenizer "
    "GPTSw3Tokenizer PLBartTokenizer LayoutXLMTokenizer UdopTokenizer CpmTokenizer "
    "BartphoTokenizer ErnieMTokenizer BertJapaneseTokenizer SpeechT5Tokenizer";

static const struct spm_class *find_class(const struct slow *s) {
    const struct spm_class *c = classes;
    while (c->names[0] && !slow_is(s, c->names)) c++;
    return c;
}

static bool setting(const struct slow *s, const char *key, bool otherwise) {
    return json_bool_at(s->settings, key, otherwise);
}

// The tokens that some classes number: T5's sentinels count down at the end.
static void add_numbered(const struct slow *s, struct str *head, struct str *tail) {
    if (slow_is(s, "T5Tokenizer MT5Tokenizer"))
        for (int64_t n = json_int_at(s->settings, "extra_ids", 100); n > 0 && n <= 1000; n--)
            str_printf(tail, " <extra_id_%d>", (int)n - 1);
    int64_t offset = json_int_at(s->settings, "offset", 103);
    if (slow_is(s, "PegasusTokenizer"))
        for (int64_t n = 2; n < offset && n <= 1000; n++) str_printf(head, " <unk_%d>", (int)n);
}

static bool read_pieces(struct slow *s, const struct spm_class *c, struct sv text,
                        struct error *e) {
    struct str head = {0}, tail = {0};
    str_puts(&head, c->layout.head ? c->layout.head : "");
    str_puts(&tail, c->layout.tail ? c->layout.tail : "");
    add_numbered(s, &head, &tail);
    struct spm_layout layout = {str_c(&head), c->layout.skip, str_c(&tail)};
    bool ok = model_read_spm(&s->t->model, text, &layout, e) || fail_in(e, "%s", s->file);
    str_free(&head);
    str_free(&tail);
    return ok;
}

static void set_flag(struct json_object *token, const char *flag, bool value) {
    json_object_object_add(token, flag, json_object_new_boolean(value));
}

// Text may spell what the file's control pieces are called, and what the settings add. Pieces of
// the user are left to the model.
static bool read_tokens(struct slow *s, const struct spm_class *c, struct error *e) {
    const struct model *m = &s->t->model;
    struct token_list list;
    struct sv text;
    tokens_open(&list, NULL, &m->vocab);
    for (size_t id = 0; id < m->vocab.size; id++)
        if (m->spm.piece[id].kind == SPM_CONTROL && vocab_token(&m->vocab, (int32_t)id, &text))
            tokens_add(&list, text, (int64_t)id, true);
    bool ok = settings_added(&list, s->dir, s->settings, e);
    for (size_t i = 0; i < json_object_array_length(list.array); i++) {
        struct json_object *token = json_object_array_get_idx(list.array, i);
        int32_t id = vocab_id(&m->vocab, json_text_at(token, "content"));
        bool mask = sv_eq(json_text_at(token, "content"), settings_role(s->settings, "mask"));
        if (id >= 0 && m->spm.piece[id].kind == SPM_USER) continue;
        set_flag(token, "normalized", false);
        bool strips = c->strips && json_bool_at(token, "special", false);
        if (strips || (mask && c->mask_lstrip)) set_flag(token, "lstrip", true);
        if (strips) set_flag(token, "rstrip", true);
        if (id >= 0 && id == m->spm.unk) // SentencePiece never leaves it out
            set_flag(token, "special", false);
        tokens_take(&s->tokens, token);
    }
    tokens_close(&list);
    return ok;
}

static void add_normalizer(struct slow *s, const struct spm_class *c) {
    bool folds = slow_is(s, "AlbertTokenizer XLNetTokenizer"),
         siglip = slow_is(s, "SiglipTokenizer");
    bool lower = setting(s, "do_lower_case", siglip || slow_is(s, "AlbertTokenizer"));
    struct str z = {0};
    if (lower && siglip) str_puts(&z, LOWER ",");
    if (c->normalizer) str_puts(&z, c->normalizer);
    if (folds && !setting(s, "keep_accents", false)) str_puts(&z, ACCENTS);
    if (lower && folds) str_puts(&z, "," LOWER);
    if (lower && slow_is(s, "DebertaV2Tokenizer")) str_puts(&z, LOWER);
    if (z.n) {
        struct str stage = {0};
        str_printf(&stage, "{\"type\":\"Sequence\",\"normalizers\":[%s]}", str_c(&z));
        slow_stage(s, "normalizer", str_c(&stage));
        str_free(&stage);
    }
    str_free(&z);
}

static void add_around(struct slow *s, const struct spm_class *c) {
    bool bos =
        setting(s, "add_bos_token", slow_is(s, "LlamaTokenizer CodeLlamaTokenizer GemmaTokenizer"));
    bool eos = setting(s, "add_eos_token", false);
    if (c->before || c->after)
        slow_around(s, c->before ? c->before : "", c->after ? c->after : "");
    else
        slow_around(s, bos ? "bos" : "", eos ? "eos" : "");
}

bool slow_spm(struct slow *s, struct sv text, struct error *e) {
    const struct spm_class *c = find_class(s);
    struct spm *spm = &s->t->model.spm;
    if (slow_is(s, refused)) return slow_unknown(s, e);
    if (slow_is(s, "DebertaV2Tokenizer") && setting(s, "split_by_punct", false))
        return fail(e, "%s: tokenizer_config.json: split_by_punct is not supported", s->file);
    if (!read_pieces(s, c, text, e)) return false;
    if (c->roles) slow_roles(s, c->roles);
    if (!read_tokens(s, c, e)) return false;
    bool siglip = slow_is(s, "SiglipTokenizer"); // puts a mark before the text by itself
    spm->each = setting(s, "legacy", !siglip && (c->before || c->after));
    spm->prefix = siglip || (spm->prefix && setting(s, "add_prefix_space", true));
    add_normalizer(s, c);
    add_around(s, c);
    slow_stage(s, "decoder", "{\"type\":\"Sequence\",\"decoders\":[]}"); // none but that one
    decode_spm(&s->t->decoder, spm);
    return true;
}
