// vocab.txt: BERT's WordPiece, a token a line.
#include "base/file.h"
#include "tokenizer/slow.h"

struct bert_class {
    const char *names, *roles;
};

static const struct bert_class classes[] = {
    {"BertTokenizer DistilBertTokenizer ElectraTokenizer MobileBertTokenizer ConvBertTokenizer "
     "LxmertTokenizer LayoutLMTokenizer SqueezeBertTokenizer SplinterTokenizer RetriBertTokenizer "
     "RealmTokenizer DPRQuestionEncoderTokenizer DPRContextEncoderTokenizer DPRReaderTokenizer "
     "PreTrainedTokenizer TokenizersBackend",
     "unk=[UNK] sep=[SEP] pad=[PAD] cls=[CLS] mask=[MASK]"},
    {"MPNetTokenizer", "bos=<s> eos=</s> sep=</s> cls=<s> unk=[UNK] pad=<pad> mask=<mask>"},
    {"FunnelTokenizer", "unk=<unk> sep=<sep> pad=<pad> cls=<cls> mask=<mask> bos=<s> eos=</s>"},
};

static const struct bert_class *find_class(const struct slow *s) {
    if (!s->class.n) return &classes[0];
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (slow_is(s, classes[i].names)) return &classes[i];
    return NULL;
}

static bool read_lines(struct vocab *v, const char *file, struct error *e) {
    struct str text = {0};
    bool ok = file_read(file, TOKENIZER_LIMIT, &text, e);
    for (size_t at = 0, end; ok && at < text.n; at = end + 1) {
        ptrdiff_t newline = sv_find(str_sv(&text), sv("\n"), at);
        end = newline < 0 ? text.n : (size_t)newline;
        struct sv line = sv_cut(str_sv(&text), at, end);
        if (sv_ends(line, sv("\r"))) line.n--;
        ok = utf8_valid(line) || fail(e, "%s: line %zu is not UTF-8", file, v->size + 1);
        ok = ok && (vocab_append(v, line, e) || fail_in(e, "%s", file));
    }
    str_free(&text);
    return ok;
}

static bool read_model(struct slow *s, const char *roles, struct error *e) {
    struct model *m = &s->t->model;
    if (!read_lines(&m->vocab, s->file, e)) return false;
    slow_roles(s, roles);
    struct sv unk = settings_role(s->settings, "unk");
    struct json_object *j = json_object_new_object();
    if (unk.n)
        json_object_object_add(j, "unk_token", json_object_new_string_len(unk.p, (int)unk.n));
    m->kind = MODEL_WORDPIECE;
    bool ok = wordpiece_read(&m->wordpiece, &m->vocab, j, e) || fail_in(e, "%s", s->file);
    json_object_put(j);
    return ok;
}

static const char *bool_text(const struct slow *s, const char *key, bool otherwise) {
    return json_bool_at(s->settings, key, otherwise) ? "true" : "false";
}

bool slow_bert(struct slow *s, struct error *e) {
    const struct bert_class *c = find_class(s);
    if (!c) return slow_unknown(s, e);
    if (!read_model(s, c->roles, e) || !slow_tokens(s, e)) return false;
    struct str z = {0};
    str_printf(&z,
               "{\"type\":\"BertNormalizer\",\"lowercase\":%s,\"handle_chinese_chars\":%s,"
               "\"strip_accents\":%s}",
               bool_text(s, "do_lower_case", true), bool_text(s, "tokenize_chinese_chars", true),
               json_at(s->settings, "strip_accents") ? bool_text(s, "strip_accents", false)
                                                     : "null");
    slow_stage(s, "normalizer", str_c(&z));
    str_free(&z);
    slow_stage(s, "pre_tokenizer", "{\"type\":\"BertPreTokenizer\"}");
    slow_around(s, "cls", "sep");
    slow_stage(s, "decoder", "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}");
    return true;
}
