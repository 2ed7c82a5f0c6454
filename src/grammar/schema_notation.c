// What differs between notations: texts, constants, keys, and what stands between tags.
#include <stdlib.h>
#include <string.h>

#include "grammar/kinds.h"
#include "grammar/schema.h"

enum { MOST_KEY = 256 }; // bytes of a key that readers take

#define ANY   "(.|[\\n\\r\\u2028\\u2029])*"
#define SPACE "[ \\t\\n\\r\\x0b\\x0c]*"
#define NAME  "[A-Za-z_][A-Za-z0-9_]{0,63}"

// --- texts ---------------------------------------------------------------------------------------

// All texts in which `part` is not.
static bool without(struct schema *x, struct dfa *d, const char *part) {
    struct str pattern = {0};
    for (const char *p = part; *p; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9') || (unsigned char)*p >= 0x80 || *p == '\n';
        if (!plain) str_addc(&pattern, '\\');
        str_addc(&pattern, *p);
    }
    bool ok = dfa_regex(d, x->s->effort, str_sv(&pattern), true, x->e) && dfa_not(d, x->e);
    str_free(&pattern);
    return ok;
}

// Leaves no text of a pattern.
static bool take_out(struct schema *x, struct dfa *d, const char *pattern) {
    struct dfa other;
    bool ok = dfa_regex(&other, x->s->effort, sv(pattern), false, x->e) && dfa_not(&other, x->e) &&
              dfa_and(d, &other, x->e);
    dfa_free(&other);
    return ok;
}

static int32_t between(struct schema *x, const struct dfa *d, char quote) {
    int32_t seq = syn_seq(x->s);
    syn_add(x->s, seq, syn_range(x->s, quote, quote));
    syn_add(x->s, seq, syn_call(x->s, dfa_rule(x->s, d, quote, "text")));
    syn_add(x->s, seq, syn_range(x->s, quote, quote));
    return seq;
}

static int32_t between_marks(struct schema *x, int32_t inside) {
    int32_t seq = syn_seq(x->s);
    syn_add(x->s, seq, syn_mark(x->s, sv(x->how->quote)));
    syn_add(x->s, seq, inside);
    syn_add(x->s, seq, syn_mark(x->s, sv(x->how->quote)));
    return seq;
}

int32_t schema_text(struct schema *x, const struct dfa *d) {
    if (x->how->kind == NOTATION_QUOTED) {
        struct dfa raw = {0};
        bool ok = without(x, &raw, x->how->quote) && dfa_and(&raw, d, x->e);
        int32_t node = ok ? between_marks(x, syn_call(x->s, dfa_rule(x->s, &raw, 0, "text"))) : 0;
        dfa_free(&raw);
        return node;
    }
    if (x->how->kind != NOTATION_PYTHON) return between(x, d, '"');
    int32_t alt = syn_alt(x->s);
    syn_add(x->s, alt, between(x, d, '"'));
    syn_add(x->s, alt, between(x, d, '\''));
    return alt;
}

static bool writes_json(const struct schema *x) {
    return x->how->kind == NOTATION_JSON || x->how->kind == NOTATION_TAGS;
}

// As JSON and Python both read it.
static int32_t spelled(struct schema *x, struct sv text, char quote) {
    static const char from[] = "\b\t\n\f\r\\", to[] = "btnfr\\";
    struct str out = {0};
    str_addc(&out, quote);
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        const char *at = c ? strchr(from, c) : NULL;
        if (c == quote || at)
            str_printf(&out, "\\%c", at ? to[at - from] : c);
        else if ((unsigned char)c < 0x20)
            str_printf(&out, "\\u%04x", (unsigned)c);
        else
            str_addc(&out, c);
    }
    str_addc(&out, quote);
    int32_t node = syn_text(x->s, str_sv(&out));
    str_free(&out);
    return node;
}

static int32_t one_text(struct schema *x, struct sv text) {
    if (writes_json(x)) return spelled(x, text, '"');
    int32_t alt = syn_alt(x->s);
    if (x->how->kind == NOTATION_PYTHON) {
        syn_add(x->s, alt, spelled(x, text, '"'));
        syn_add(x->s, alt, spelled(x, text, '\''));
    } else if (sv_find(text, sv(x->how->quote), 0) < 0) {
        syn_add(x->s, alt, between_marks(x, syn_text(x->s, text)));
    }
    return alt;
}

int32_t schema_word(struct schema *x, const char *json, const char *python) {
    int32_t alt = syn_alt(x->s);
    syn_add(x->s, alt, syn_text(x->s, sv(json)));
    if (x->words || x->how->kind == NOTATION_PYTHON) syn_add(x->s, alt, syn_text(x->s, sv(python)));
    return alt;
}

int32_t schema_key(struct schema *x, struct sv name) {
    struct syntax *s = x->s;
    bool plain = name.n > 0 && name.n < MOST_KEY;
    for (size_t i = 0; i < name.n; i++)
        plain &= (name.p[i] >= 'a' && name.p[i] <= 'z') || (name.p[i] >= 'A' && name.p[i] <= 'Z') ||
                 name.p[i] == '_' || (i && name.p[i] >= '0' && name.p[i] <= '9');
    return x->how->kind == NOTATION_QUOTED && plain ? syn_text(s, name) : one_text(x, name);
}

bool schema_names(struct dfa *keys, struct error *e) {
    struct dfa names;
    bool ok = dfa_regex(&names, keys->effort, sv(NAME), false, e) && dfa_and(keys, &names, e);
    dfa_free(&names);
    return ok;
}

// --- constants -----------------------------------------------------------------------------------

static void add_constant(struct schema *x, int32_t seq, struct json_object *v);

static void add_list(struct schema *x, int32_t seq, struct json_object *list) {
    struct syntax *s = x->s;
    syn_add(s, seq, syn_text(s, sv("[")));
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        if (i) syn_add(s, seq, syn_text(s, sv(",")));
        if (i) syn_add(s, seq, syn_call(s, x->space));
        add_constant(x, seq, json_object_array_get_idx(list, i));
    }
    syn_add(s, seq, syn_text(s, sv("]")));
}

static void add_object(struct schema *x, int32_t seq, struct json_object *o) {
    struct syntax *s = x->s;
    bool any = false;
    syn_add(s, seq, syn_text(s, sv("{")));
    json_object_object_foreach(o, name, v) {
        if (any) syn_add(s, seq, syn_text(s, sv(",")));
        if (any) syn_add(s, seq, syn_call(s, x->space));
        any = true;
        syn_add(s, seq, schema_key(x, sv(name)));
        syn_add(s, seq, syn_text(s, sv(":")));
        syn_add(s, seq, syn_call(s, x->space));
        add_constant(x, seq, v);
    }
    syn_add(s, seq, syn_text(s, sv("}")));
}

static void add_constant(struct schema *x, int32_t seq, struct json_object *v) {
    struct syntax *s = x->s;
    switch (json_object_get_type(v)) {
    case json_type_array: add_list(x, seq, v); break;
    case json_type_object: add_object(x, seq, v); break;
    case json_type_string: syn_add(s, seq, one_text(x, json_text(v))); break;
    case json_type_null: syn_add(s, seq, schema_word(x, "null", "None")); break;
    case json_type_boolean:
        if (json_object_get_boolean(v))
            syn_add(s, seq, schema_word(x, "true", "True"));
        else
            syn_add(s, seq, schema_word(x, "false", "False"));
        break;
    case json_type_double:
    case json_type_int: syn_add(s, seq, syn_text(s, schema_json(v))); break;
    }
}

int32_t schema_constant(struct schema *x, struct json_object *v) {
    bool word = json_object_is_type(v, json_type_boolean) || !v;
    if (writes_json(x) && !word) return syn_text(x->s, schema_json(v));
    int32_t seq = syn_seq(x->s);
    add_constant(x, seq, v);
    return seq;
}

// --- arguments -----------------------------------------------------------------------------------

static void add_entities(struct str *out, struct sv name) {
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] == '"')
            str_puts(out, "&quot;");
        else if (name.p[i] == '&')
            str_puts(out, "&amp;");
        else
            str_addc(out, name.p[i]);
    }
}

static bool fits_key(const struct notation *n, struct sv name) {
    if (!name.n || name.n > MOST_KEY || sv_trim(name).n != name.n) return false;
    if (n->kind != NOTATION_TAGS) {
        for (size_t i = 0; i < name.n; i++) {
            char c = name.p[i];
            bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
            if (!word && !(i && c >= '0' && c <= '9')) return false;
        }
        return true;
    }
    if (n->closed && name.p[0] == '/') return false;
    return (n->entities || !n->quoted || sv_find(name, sv("\""), 0) < 0) &&
           sv_find(name, sv(n->key_close), 0) < 0;
}

int32_t schema_argument(struct schema *x, const struct place *at, struct sv name) {
    struct str spelled = {0};
    if (!fits_key(x->how, name))
        return schema_refuse(x, at, "properties",
                             "the argument \"%.*s\" can't be written in this model's calls",
                             (int)(name.n < 80 ? name.n : 80), name.p);
    if (x->how->entities)
        add_entities(&spelled, name);
    else
        str_add(&spelled, name);
    int32_t node = syn_text(x->s, str_sv(&spelled));
    str_free(&spelled);
    return node;
}

// What readers take for something else than a text as it is.
static bool take_out_others(struct schema *x, struct dfa *d, unsigned kinds) {
    static const struct {
        unsigned kinds;
        const char *pattern;
    } looks[] = {
        {KIND_STRING, SPACE "\"" ANY},
        {KIND_OBJECT, SPACE "\\{" ANY},
        {KIND_ARRAY, SPACE "[\\[(]" ANY},
        {KIND_INTEGER | KIND_NUMBER, SPACE "-?[0-9][0-9.eE+-]*" SPACE},
        {KIND_BOOLEAN, SPACE "([tT]rue|[fF]alse)" SPACE},
        {KIND_NULL, SPACE "(null|None)" SPACE},
    };
    if (kinds == KIND_STRING) return true;
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        if ((!kinds || kinds & looks[i].kinds) && !take_out(x, d, looks[i].pattern)) return false;
    return true;
}

// Texts that can stand between tags as they are.
static bool bare_texts(struct schema *x, struct dfa *d, unsigned kinds) {
    return without(x, d, x->how->end) && take_out_others(x, d, kinds) &&
           (!x->how->cdata || take_out(x, d, "<!\\[CDATA\\[" ANY));
}

static int32_t bare_constants(struct schema *x, const struct shape *h, const struct dfa *texts) {
    struct json_object **value;
    size_t n;
    int32_t alt = syn_alt(x->s);
    if (!schema_values(x, h, &value, &n)) return 0;
    for (size_t i = 0; i < n; i++)
        if (json_object_is_type(value[i], json_type_string) && dfa_has(texts, json_text(value[i])))
            syn_add(x->s, alt, syn_text(x->s, json_text(value[i])));
    free(value);
    return alt;
}

static int32_t bare_rule(struct schema *x, const struct shape *h, struct dfa *texts,
                         unsigned kinds) {
    bool limits = h->has_text || h->min_length > 0 || h->max_length >= 0;
    struct str key = {0};
    str_printf(&key, "text %u", kinds);
    int64_t rule = limits ? -1 : map_get(&x->rules, str_sv(&key));
    if (rule < 0) {
        struct dfa d = {0};
        bool ok = !limits || (schema_texts(x, h, &d) && dfa_and(texts, &d, x->e));
        dfa_free(&d);
        rule = ok ? dfa_rule(x->s, texts, 0, "text") : 0;
        if (!limits) map_put(&x->rules, str_sv(&key), rule);
    }
    str_free(&key);
    return syn_call(x->s, (int32_t)rule);
}

static int32_t bare_text(struct schema *x, const struct shape *h, unsigned kinds) {
    struct dfa texts = {0};
    int32_t node = 0;
    if (h->max_length >= 0 && h->max_length < h->min_length) return syn_alt(x->s);
    if (bare_texts(x, &texts, kinds))
        node = h->values ? bare_constants(x, h, &texts) : bare_rule(x, h, &texts, kinds);
    dfa_free(&texts);
    return node;
}

// Some of a shape's types, in JSON, where a word by itself may be Python's.
static int32_t inside(struct schema *x, const struct shape *h, unsigned types) {
    struct shape part = *h;
    enum schema_level level = x->level;
    part.types &= types;
    x->level = LEVEL_INSIDE;
    x->words = types == TYPE_BOOLEAN || types == TYPE_NULL;
    int32_t node = schema_of_shape(x, &part);
    x->words = false;
    x->level = level;
    return node;
}

// The rest of the key's tag, and the value.
static void add_tagged(struct schema *x, int32_t alt, const char *type, int32_t value) {
    struct syntax *s = x->s;
    const struct notation *n = x->how;
    int32_t seq = syn_seq(s);
    struct str says = {0};
    if (n->says == SAYS_STRING)
        str_printf(&says, " string=\"%s\"", strcmp(type, "string") ? "false" : "true");
    if (n->says == SAYS_TYPE) str_printf(&says, " type=\"%s\"", type);
    syn_add(s, seq, syn_text(s, str_sv(&says)));
    syn_add(s, seq, syn_mark(s, sv(n->key_close)));
    if (n->value_open) syn_add(s, seq, syn_call(s, x->space));
    if (n->value_open) syn_add(s, seq, syn_mark(s, sv(n->value_open)));
    if (n->lines) syn_add(s, seq, syn_text(s, sv("\n")));
    syn_add(s, seq, value);
    if (n->lines) syn_add(s, seq, syn_text(s, sv("\n")));
    syn_add(s, alt, seq);
    str_free(&says);
}

int32_t schema_tagged(struct schema *x, const struct shape *h) {
    static const struct {
        const char *name;
        unsigned types, kinds;
    } groups[] = {
        {"number", TYPE_INTEGER | TYPE_FRACTION, KIND_INTEGER | KIND_NUMBER},
        {"boolean", TYPE_BOOLEAN, KIND_BOOLEAN},
        {"null", TYPE_NULL, KIND_NULL},
        {"object", TYPE_OBJECT, KIND_OBJECT},
        {"array", TYPE_ARRAY, KIND_ARRAY},
    };
    bool says = x->how->says != SAYS_NOTHING, text = h->types & TYPE_STRING;
    unsigned kinds = says ? 0 : x->kinds;
    int32_t alt = syn_alt(x->s);
    if (text) add_tagged(x, alt, "string", bare_text(x, h, says ? KIND_STRING : kinds));
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (h->types & groups[i].types && (!kinds || kinds & groups[i].kinds))
            add_tagged(x, alt, groups[i].name, inside(x, h, groups[i].types));
    if (text && !says && kinds != KIND_STRING && (!kinds || kinds & KIND_STRING))
        add_tagged(x, alt, "string", inside(x, h, TYPE_STRING));
    return alt;
}

int32_t schema_tag_end(struct schema *x, int32_t key) {
    int32_t seq = syn_seq(x->s);
    syn_add(x->s, seq, syn_mark(x->s, sv(x->how->value_close)));
    if (x->how->closed) {
        syn_add(x->s, seq, key);
        syn_add(x->s, seq, syn_text(x->s, sv(">")));
    }
    return seq;
}
