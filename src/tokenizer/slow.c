#include "tokenizer/slow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/file.h"
#include "base/mem.h"

static bool is_one_of(struct sv name, const char *names) {
    struct sv word;
    for (size_t i = 0; (word = args_word(names, i)).n; i++)
        if (sv_eq(word, name)) return true;
    return false;
}

bool slow_is(const struct slow *s, const char *names) { return is_one_of(s->class, names); }

bool slow_unknown(const struct slow *s, struct error *e) {
    return fail(e,
                "%s: what tokenizer_class \"%.*s\" does is in code that is not known here "
                "(convert the tokenizer to tokenizer.json)",
                s->file, s->class.n < 60 ? (int)s->class.n : 60, s->class.p);
}

void slow_roles(struct slow *s, const char *roles) {
    struct sv word;
    for (size_t i = 0; (word = args_word(roles, i)).n; i++) {
        ptrdiff_t is = sv_find(word, sv("="), 0);
        struct sv token = sv_cut(word, (size_t)is + 1, word.n);
        char key[40];
        snprintf(key, sizeof key, "%.*s_token", (int)is, word.p);
        if (json_object_object_get_ex(s->settings, key, NULL)) continue;
        if (vocab_id(&s->t->model.vocab, token) < 0) continue;
        json_object_object_add(s->settings, key, json_object_new_string_len(token.p, (int)token.n));
    }
}

bool slow_tokens(struct slow *s, struct error *e) {
    return settings_added(&s->tokens, s->dir, s->settings, e);
}

void slow_stage(struct slow *s, const char *key, const char *value) {
    str_printf(&s->stages, "%c\"%s\":%s", s->stages.n ? ',' : '{', key, value);
}

void slow_split(struct slow *s, const char *regex, bool prefix) {
    str_printf(&s->stages,
               "%c\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{"
               "\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":",
               s->stages.n ? ',' : '{');
    json_quote(&s->stages, sv(regex));
    str_printf(&s->stages,
               "}},{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"use_regex\":false}]}",
               prefix ? "true" : "false");
}

// The id of a role's token or of a token, -1: none.
static int32_t id_of(const struct slow *s, struct sv word) {
    char role[16];
    snprintf(role, sizeof role, "%.*s", word.n < 8 ? (int)word.n : 8, word.p);
    struct sv text = settings_role(s->settings, role);
    if (is_one_of(word, "bos eos unk sep pad cls mask")) word = text;
    if (sv_is(word, "src_lang")) {
        word = json_text_at(s->settings, "src_lang");
        if (!word.n) word = sv("en_XX");
    }
    int64_t i = map_get(&s->tokens.at, word);
    if (i >= 0)
        return (int32_t)json_int_at(json_object_array_get_idx(s->tokens.array, (size_t)i), "id",
                                    -1);
    return vocab_id(&s->t->model.vocab, word);
}

static void add_tokens(const struct slow *s, const char *words, struct str *list,
                       struct str *table) {
    struct sv word;
    for (size_t i = 0; (word = args_word(words, i)).n; i++) {
        int32_t id = id_of(s, word);
        if (id < 0) continue;
        str_printf(list, "%s{\"SpecialToken\":{\"id\":\"%d\"}}", list->n ? "," : "", id);
        str_printf(table, "%s\"%d\":{\"ids\":[%d]}", table->n ? "," : "", id, id);
    }
}

void slow_around(struct slow *s, const char *before, const char *after) {
    struct str list = {0}, table = {0};
    add_tokens(s, before, &list, &table);
    str_printf(&list, "%s{\"Sequence\":{\"id\":\"A\"}}", list.n ? "," : "");
    add_tokens(s, after, &list, &table);
    str_printf(&s->stages,
               "%c\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[%s],"
               "\"special_tokens\":{%s}}",
               s->stages.n ? ',' : '{', str_c(&list), str_c(&table));
    str_free(&list);
    str_free(&table);
}

// Ends the text of the stages and reads it, with the list of added tokens. What SentencePiece does
// to text comes behind what a class does.
static bool finish(struct slow *s, struct error *e) {
    str_puts(&s->stages, s->stages.n ? "}" : "{}");
    struct json_object *j = json_read(str_sv(&s->stages), "stages", e);
    if (j) json_object_object_add(j, "added_tokens", json_object_get(s->tokens.array));
    bool ok = j && tok_read_stages(s->t, j, true, e);
    if (ok && s->t->model.spm.piece) norm_spm(&s->t->normalizer, &s->t->model.spm);
    json_object_put(j);
    return ok;
}

static bool is_tiktoken(struct sv name) {
    return sv_ends(name, sv(".tiktoken")) || sv_is(name, "tiktoken.model");
}

static bool read_model(struct slow *s, struct error *e) {
    struct sv name = path_name(s->file);
    bool model = sv_ends(name, sv(".model"));
    if (sv_is(name, "vocab.json")) return slow_bpe(s, e);
    if (sv_is(name, "vocab.txt")) return slow_bert(s, e);
    if (!model && !is_tiktoken(name)) return fail(e, "%s: not a tokenizer's file", s->file);
    struct str text = {0};
    bool ok = file_read(s->file, TOKENIZER_LIMIT, &text, e);
    bool ranks = is_tiktoken(name) || slow_is_ranks(str_sv(&text));
    ok = ok && (ranks ? slow_ranks(s, str_sv(&text), e) : slow_spm(s, str_sv(&text), e));
    str_free(&text);
    return ok;
}

static struct sv class_of(struct json_object *settings) {
    struct sv name = json_text_at(settings, "tokenizer_class");
    return sv_ends(name, sv("Fast")) ? sv_cut(name, 0, name.n - 4) : name;
}

bool slow_read(struct tokenizer *t, const char *file, const char *dir, struct json_object *settings,
               struct error *e) {
    struct slow s = {.t = t, .file = file, .dir = dir, .settings = settings};
    s.class = class_of(settings);
    tokens_open(&s.tokens, NULL, &t->model.vocab);
    bool ok = read_model(&s, e) && (finish(&s, e) || fail_in(e, "%s", file));
    tokens_close(&s.tokens);
    str_free(&s.stages);
    return ok;
}

// --- which file ----------------------------------------------------------------------------------

// The folder's first file of these names, in this order.
static char *first_of(const char *dir, const char *names) {
    struct sv name;
    for (size_t i = 0; (name = args_word(names, i)).n; i++) {
        char *text = mem_textn(name.p, name.n), *path = path_join(dir, text);
        free(text);
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

char *slow_find(const char *dir, struct json_object *settings) {
    bool ranks = is_one_of(class_of(settings), "QWenTokenizer HYTokenizer TikTokenTokenizer");
    char *path = ranks ? find_tiktoken(dir) : NULL;
    if (!path)
        path = first_of(dir, "tokenizer.model spiece.model spm.model sentencepiece.bpe.model");
    if (!path) path = find_tiktoken(dir);
    if (!path) path = first_of(dir, "vocab.json vocab.txt");
    return path;
}
