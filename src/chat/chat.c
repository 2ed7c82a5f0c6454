#include "chat/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "chat/jinja.h"
#include "chat/parts.h"
#include "chat/reply.h"

enum { FILE_LIMIT = 64 << 20 }; // bytes of a JSON file: tokenizer_config.json may list all tokens

static struct chat *chat_new(void) {
    struct chat *c = mem_alloc(sizeof *c);
    c->tokens = json_object_new_object();
    return c;
}

static struct chat_template *find(const struct chat *c, struct sv name) {
    for (size_t i = 0; i < c->n; i++)
        if (sv_is(name, c->at[i].name)) return &c->at[i];
    return NULL;
}

static struct chat_template *add_template(struct chat *c, struct sv name, struct sv source) {
    c->at = mem_grow(c->at, &c->cap, c->n + 1, sizeof *c->at);
    struct chat_template *t = &c->at[c->n++];
    *t = (struct chat_template){.name = mem_textn(name.p, name.n)};
    str_add(&t->source, source);
    t->compiled = jinja_compile(source, &t->error);
    return t;
}

void chat_close(struct chat *c) {
    if (!c) return;
    for (size_t i = 0; i < c->n; i++) {
        free(c->at[i].name);
        str_free(&c->at[i].source);
        jinja_free(c->at[i].compiled);
    }
    free(c->at);
    json_object_put(c->tokens);
    free(c);
}

struct chat *chat_with_template(const struct chat *tokens, struct sv source, struct error *e) {
    struct chat *c = chat_new();
    if (tokens) {
        json_add_members(c->tokens, tokens->tokens);
        c->thinks = tokens->thinks;
    }
    add_template(c, sv("default"), source);
    if (chat_ready(c, e)) return c;
    chat_close(c);
    return NULL;
}

struct chat *chat_of_template(struct sv source, struct error *e) {
    return chat_with_template(NULL, source, e);
}

// Reading a checkpoint.

static bool load_file(struct chat *c, const char *path, struct sv name, struct error *e) {
    struct str text = {0};
    if (file_read(path, JINJA_SOURCE, &text, e)) add_template(c, name, str_sv(&text));
    str_free(&text);
    return !e->set;
}

static bool load_jinja_files(struct chat *c, const char *dir, struct error *e) {
    char *path = path_join(dir, "chat_template.jinja");
    char *more = path_join(dir, "additional_chat_templates");
    struct names names = {0};
    if (file_named(path)) load_file(c, path, sv("default"), e);
    if (!e->set && dir_exists(more)) dir_list(more, &names, e);
    for (size_t i = 0; i < names.n && !e->set; i++) {
        struct sv name = sv(names.name[i]);
        if (!sv_ends(name, sv(".jinja"))) continue;
        char *one = path_join(more, names.name[i]);
        load_file(c, one, sv_cut(name, 0, name.n - 6), e);
        free(one);
    }
    names_free(&names);
    free(path);
    free(more);
    return !e->set;
}

static bool load_templates(struct chat *c, struct json_object *v, const char *file,
                           struct error *e) {
    if (json_object_is_type(v, json_type_string)) {
        add_template(c, sv("default"), json_text(v));
        return true;
    }
    if (!json_object_is_type(v, json_type_array))
        return fail(e, "%s: key \"chat_template\" must be text or a list of named templates", file);
    for (size_t i = 0; i < json_object_array_length(v); i++) {
        struct json_object *one = json_object_array_get_idx(v, i);
        struct json_object *name = json_at(one, "name"), *source = json_at(one, "template");
        if (!json_object_is_type(name, json_type_string) ||
            !json_object_is_type(source, json_type_string))
            return fail(e, "%s: key \"chat_template\": item %zu lacks its name or template", file,
                        i);
        add_template(c, json_text(name), json_text(source));
    }
    return true;
}

// A token is text, or an object with its text as "content".
static void add_token(struct chat *c, const char *name, struct json_object *v) {
    struct json_object *content = json_at(v, "content");
    if (content) v = content;
    if (json_object_is_type(v, json_type_string))
        json_object_object_add(c->tokens, name, json_object_get(v));
}

static void add_tokens(struct chat *c, struct json_object *config) {
    json_object_object_foreach(config, key, v) {
        if (sv_ends(sv(key), sv("_token"))) add_token(c, key, v);
        if (!strcmp(key, "additional_special_tokens") && json_object_is_type(v, json_type_array))
            json_object_object_add(c->tokens, key, json_object_get(v));
    }
    struct json_object *extra = json_at(config, "extra_special_tokens");
    if (!json_object_is_type(extra, json_type_object)) return;
    json_object_object_foreach(extra, name, token) { add_token(c, name, token); }
}

static bool load_json(struct chat *c, const char *dir, const char *name, struct error *e) {
    char *path = path_join(dir, name);
    struct json_object *o = file_named(path) ? json_read_file(path, FILE_LIMIT, e) : NULL;
    struct json_object *template = json_at(o, "chat_template");
    if (o && !json_object_is_type(o, json_type_object)) fail(e, "%s: is not a JSON object", path);
    if (o && !e->set) add_tokens(c, o);
    if (template && !e->set && !c->n) load_templates(c, template, path, e);
    json_object_put(o);
    free(path);
    return !e->set;
}

static void add_built_in(struct chat *c, const char *dir, struct sv model_type) {
    struct built_in b = built_in_chat(dir, model_type);
    if (b.source) add_template(c, sv("default"), sv(b.source));
    if (!b.coded) return;
    c->at = mem_grow(c->at, &c->cap, c->n + 1, sizeof *c->at);
    struct chat_template *t = &c->at[c->n++];
    *t = (struct chat_template){.name = mem_text("default"), .coded = b.coded};
    str_puts(&t->source, b.coded->source);
}

static void learn_calls(struct chat_template *t, struct json_object *tokens) {
    struct reply_format f;
    reply_format_of(str_sv(&t->source), &f);
    t->calls = call_form_of(t, tokens);
    t->generic = f.generic;
    t->system = t->generic && system_told(t, tokens);
}

struct chat *chat_open(const char *dir, struct sv model_type, struct error *e) {
    struct chat *c = chat_new();
    c->thinks = sv_is(model_type, "gemma4_unified");
    bool ok = load_jinja_files(c, dir, e) && load_json(c, dir, "special_tokens_map.json", e) &&
              load_json(c, dir, "tokenizer_config.json", e) &&
              load_json(c, dir, "chat_template.json", e);
    if (ok && !c->n) add_built_in(c, dir, model_type);
    for (size_t i = 0; i < c->n && ok; i++) learn_calls(&c->at[i], c->tokens);
    if (ok) return c;
    chat_close(c);
    return NULL;
}

bool chat_has_template(const struct chat *c) { return c->n > 0; }

struct sv chat_source(const struct chat *c, bool tools) {
    const struct chat_template *t = chat_pick(c, tools);
    return t ? str_sv(&t->source) : sv("");
}

const struct chat_template *chat_pick(const struct chat *c, bool tools) {
    const struct chat_template *t = tools ? find(c, sv("tool_use")) : NULL;
    if (!t) t = find(c, sv("default"));
    return t || !c->n ? t : &c->at[0];
}

bool chat_usable(const struct chat_template *t, struct error *e) {
    if (!t)
        return fail(e, "this checkpoint has no chat template: send the prompt as plain text, or "
                       "give a template file");
    if (t->compiled || t->coded) return true;
    return fail(e, "chat template \"%s\": %s", t->name, t->error.text);
}

bool chat_ready(const struct chat *c, struct error *e) {
    return chat_usable(chat_pick(c, false), e);
}
