// Grammars of calls: what the templates write of calls is allowed, and whatever is allowed is read
// as calls of the tools with arguments that their schemas allow.
#include "check.h"

#include "base/file.h"
#include "base/mem.h"
#include "chat/call_grammar.h"
#include "grammar/grammar.h"

// --- as templates write them ---------------------------------------------------------------------

static void format_of(struct json_object *row, struct reply_format *f) {
    struct sv file = json_text_at(row, "template");
    struct str path = {0}, source = {0};
    struct error e = {0};
    if (file.n) {
        str_printf(&path, "%s/chat/templates/%s", FIXTURES, file.p);
        assert_true(file_read(path.p, 1 << 20, &source, &e));
        reply_format_of(str_sv(&source), f);
    } else {
        reply_format_of(json_text_at(row, "source"), f);
    }
    str_free(&path);
    str_free(&source);
}

static struct grammar *grammar_of(const struct reply_format *f, const struct call_rules *c,
                                  bool opened, struct error *e) {
    struct syntax s = {.e = e};
    struct grammar_frame frame = {.after = f->think_close};
    if (!opened) frame.open = f->think_open;
    int32_t root = call_grammar(&s, f, c);
    return grammar_rules(NULL, &s, root, f->harmony ? NULL : &frame);
}

static bool allows(struct grammar *g, struct sv text) {
    struct matcher *m = matcher_open(g);
    bool ok = matcher_bytes(m, text) && matcher_done(m);
    matcher_close(m);
    return ok;
}

static size_t reached(struct grammar *g, struct sv text) {
    struct matcher *m = matcher_open(g);
    size_t n = 0;
    while (n < text.n && matcher_bytes(m, sv_cut(text, n, n + 1))) n++;
    matcher_close(m);
    return n;
}

// The properties of a tool in the order of a call, and the others behind them.
static void order_as(struct json_object *tools, struct json_object *call) {
    for (size_t i = 0; i < json_object_array_length(tools); i++) {
        struct json_object *f = json_at(json_object_array_get_idx(tools, i), "function");
        struct json_object *schema = json_at(f, "parameters"), *all = json_object_new_object();
        if (!sv_eq(json_text_at(f, "name"), json_text_at(call, "name"))) {
            json_object_put(all);
            continue;
        }
        json_object_object_foreach(json_at(call, "arguments"), name, value) {
            (void)value;
            struct json_object *own = json_at(json_at(schema, "properties"), name);
            if (own) json_object_object_add(all, name, json_object_get(own));
        }
        json_add_members(all, json_at(schema, "properties"));
        json_object_object_add(schema, "properties", all);
    }
}

// Templates that write some calls in ways that no grammar here has: values as Python prints them, a
// raw line break in a text, sorted keys, elements in elements, deep indentation; or none.
static bool excepted(struct sv name) {
    static const char *const names[] = {"ByteDance-Seed",
                                        "LFM2.5",
                                        "MiniMax-M3",
                                        "google-gemma-4",
                                        "tool_chat_template_gemma4",
                                        "openbmb-MiniCPM5",
                                        "tool_chat_template_granite.",
                                        "meetkai-functionary-medium-v3.2",
                                        "muse-glimmer",
                                        "tool_chat_template_muse"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sv_starts(name, sv(names[i]))) return true;
    return sv_find(name, sv("by hand"), 0) >= 0;
}

// Returns whether the row's reply is allowed.
static bool check_row(struct json_object *row, struct json_object *tools) {
    struct reply_format f;
    struct error e = {0};
    struct sv reply = json_text_at(row, "reply"), name = json_text_at(row, "name");
    struct json_object *calls = json_at(row, "calls"), *own = NULL;
    if (!calls || !json_object_array_length(calls)) return false;
    format_of(row, &f);
    json_object_deep_copy(tools, &own, NULL);
    for (size_t i = json_object_array_length(calls); i-- > 0;)
        order_as(own, json_object_array_get_idx(calls, i));
    struct call_rules c = {.tools = own, .answer = -1};
    struct grammar *g = grammar_of(&f, &c, json_bool_at(row, "opened", false), &e);
    bool good = g && allows(g, reply);
    if (!good && !excepted(name)) {
        size_t n = g ? reached(g, reply) : 0;
        fail_msg("%s: %s%.*s ### %s", name.p, e.text, (int)n, reply.p, reply.p + n);
    }
    grammar_close(g);
    json_object_put(own);
    return good;
}

static void as_written(void **state) {
    (void)state;
    struct error e = {0};
    struct json_object *tools = json_read_file(FIXTURES "/chat/reply_tools.json", 1 << 20, &e);
    int good = 0;
    for (int i = 1; i <= 3; i++) {
        struct str path = {0}, text = {0};
        str_printf(&path, "%s/chat/replies-%d.jsonl", FIXTURES, i);
        assert_true(file_read(path.p, 1 << 21, &text, &e));
        struct sv rest = str_sv(&text);
        for (ptrdiff_t end; (end = sv_find(rest, sv("\n"), 0)) >= 0;) {
            struct json_object *row = json_read(sv_cut(rest, 0, (size_t)end), "reply", &e);
            good += check_row(row, tools);
            json_object_put(row);
            rest = sv_cut(rest, (size_t)end + 1, rest.n);
        }
        str_free(&path);
        str_free(&text);
    }
    json_object_put(tools);
    assert_true(good > 900);
}

// --- whatever is allowed -------------------------------------------------------------------------

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"now\"}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"put\",\"strict\":true,\"parameters\":{"
    "\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"},"
    "\"kind\":{\"enum\":[\"a\",\"1\",\"true\",2,null,false,{\"b\":[null,true,\"c'\"]}]},"
    "\"code\":{\"type\":\"string\",\"pattern\":\"^[A-Z]{2}<[0-9]+$\"},"
    "\"short\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4},"
    "\"note\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]},"
    "\"any\":{},\"count\":{\"type\":\"integer\",\"minimum\":-5,\"maximum\":120},"
    "\"part\":{\"type\":[\"number\",\"boolean\"]},\"place\":{\"$ref\":\"#/$defs/place\"},"
    "\"maybe\":{\"anyOf\":[{\"$ref\":\"#/$defs/place\"},{\"type\":\"null\"}]},"
    "\"list\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"maxItems\":3},"
    "\"map\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}},"
    "\"additionalProperties\":false,\"$defs\":{\"place\":{\"type\":\"object\",\"properties\":{"
    "\"x y\":{\"type\":\"number\"},\"in\":{\"$ref\":\"#/$defs/place\"}},\"required\":[\"x y\"],"
    "\"additionalProperties\":false}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"open-3\",\"parameters\":{"
    "\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"odd\",\"parameters\":{"
    "\"not\":{\"type\":\"object\"}}}}]";

static uint64_t seed = 1;

static uint32_t below(uint32_t n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % n);
}

// What random texts are made of: the parts of texts that show the format, and a few more.
static const char *const words[] = {
    "\"",  "'",   "}",      "]",   ")",    ",",         ":",          "=",    "{",    "[",
    "(",   " ",   "\n",     "\\",  "<",    "</",        ">",          "a",    "Z",    "é",
    "1",   "0",   "-",      ".",   "e",    "null",      "None",       "true", "True", "AB<7",
    "now", "put", "open-3", "odd", "name", "arguments", "parameters", "x y",
};
enum { WORDS = sizeof words / sizeof *words, LONGEST = 6000 };

static bool grow(struct matcher *m, struct str *text, struct sv word) {
    if (!word.n || !matcher_bytes(m, word)) return false;
    str_add(text, word);
    return true;
}

// One more piece of `sample`, a word, or a byte.
static bool step(struct matcher *m, struct str *text, struct sv sample) {
    for (int i = 0; i < 60; i++) {
        size_t from = below((uint32_t)sample.n), n = 1 + below(24);
        struct sv piece = below(3) ? sv_cut(sample, from, from + n) : sv(words[below(WORDS)]);
        if (grow(m, text, piece)) return true;
    }
    uint32_t first = below(255); // without that of special tokens
    for (uint32_t i = 0; i < 255; i++)
        if (grow(m, text, sv_n((const char[]){(char)((first + i) % 255)}, 1))) return true;
    return false;
}

static bool walk(struct grammar *g, struct sv sample, struct str *text) {
    struct matcher *m = matcher_open(g);
    bool done = false;
    str_clear(text);
    while (!done && text->n < LONGEST) {
        if (!step(m, text, sample) && !matcher_done(m)) fail_msg("a dead end: %s", text->p);
        done = matcher_done(m) && (!below(3) || text->n > LONGEST / 2);
    }
    matcher_close(m);
    return done;
}

static void check_call(const struct reply_call *c, struct json_object *tools, const char *where,
                       const char *text) {
    struct error e = {0};
    for (size_t i = 0; i < json_object_array_length(tools); i++) {
        struct json_object *f = json_at(json_object_array_get_idx(tools, i), "function");
        if (!sv_eq(json_text_at(f, "name"), str_sv(&c->name))) continue;
        struct json_object *schema = json_at(f, "parameters"), *own = NULL;
        bool odd = schema && json_at(schema, "not");
        if (!schema || odd) {
            own = json_read(
                sv(odd ? "{\"type\":\"object\"}" : "{\"type\":\"object\",\"maxProperties\":0}"),
                "schema", &e);
            schema = own;
        }
        struct grammar *g = grammar_schema(NULL, schema, NULL, &e);
        assert_non_null(g);
        if (!allows(g, str_sv(&c->arguments)))
            fail_msg("%s: %s\nis %s: %s", where, text, str_c(&c->name), str_c(&c->arguments));
        grammar_close(g);
        json_object_put(own);
        return;
    }
    fail_msg("%s: %s\nis a call of \"%s\"", where, text, str_c(&c->name));
}

static void check_reply(const struct reply_format *f, struct json_object *tools, const char *where,
                        const struct str *text, size_t most) {
    struct reply_options opt = {.tools = tools};
    struct reply_message m = {0};
    struct reply *r = reply_open(f, &opt);
    reply_push(r, str_sv(text));
    reply_finish(r);
    reply_take(r, &m);
    if (!m.calls || m.calls > most || m.content.n)
        fail_msg("%s: %s\nhas %zu calls and says %s", where, text->p, m.calls, str_c(&m.content));
    for (size_t i = 0; i < m.calls; i++) check_call(&m.call[i], tools, where, text->p);
    reply_message_free(&m);
    reply_close(r);
}

static int walks(const struct reply_format *f, struct json_object *tools, const char *where,
                 struct sv sample, bool one) {
    struct call_rules c = {.tools = tools, .required = true, .one = one, .answer = -1};
    struct error e = {0};
    struct str text = {0};
    int done = 0;
    struct syntax s = {.e = &e};
    int32_t root = call_grammar(&s, f, &c);
    struct grammar *g = grammar_rules(NULL, &s, root, NULL);
    if (!g) fail_msg("%s: %s", where, e.text);
    for (int i = 0; i < 12; i++) {
        if (!walk(g, sample, &text)) continue;
        done++;
        check_reply(f, tools, where, &text, one ? 1 : SIZE_MAX);
    }
    str_free(&text);
    grammar_close(g);
    return done;
}

static void as_read(void **state) {
    (void)state;
    struct error e = {0};
    struct json_object *tools = json_read(sv(tools_text), "tools", &e);
    struct names files = {0};
    assert_non_null(tools);
    assert_true(dir_list(FIXTURES "/chat/templates", &files, &e));
    for (size_t i = 0; i < files.n; i++) {
        char *path = path_join(FIXTURES "/chat/templates", files.name[i]);
        struct str source = {0};
        struct reply_format f;
        assert_true(file_read(path, 1 << 20, &source, &e));
        reply_format_of(str_sv(&source), &f);
        bool own = sv_find(str_sv(&source), sv("<atem:"), 0) >= 0;
        if ((f.writes || f.harmony) && !own) {
            int n = walks(&f, tools, files.name[i], str_sv(&source), false) +
                    walks(&f, tools, files.name[i], str_sv(&source), true);
            assert_true(n > 6); // not only those that never ended
        }
        str_free(&source);
        free(path);
    }
    names_free(&files);
    json_object_put(tools);
}

// Where a model has no format, what is allowed is read as calls or as an answer, never as it
// stands.
static void generic(void **state) {
    (void)state;
    static const char *const good[] = {
        "{\"response\": \"Hi\"}", "{\"response\": \"a\\n\\u00e9 \\\" {}\" }",
        "{\"tool_calls\": [{\"name\": \"now\", \"arguments\": {}}]}"};
    static const char *const bad[] = {"Hi",
                                      "",
                                      "{\"response\": 1}",
                                      "{\"response\": \"Hi\"} and",
                                      "{\"tool_calls\": []}",
                                      "{\"tool_calls\": {\"name\": \"now\", \"arguments\": {}}}",
                                      "{\"a\": 1}"};
    struct error e = {0};
    struct json_object *tools = json_read(sv(tools_text), "tools", &e);
    struct reply_format f;
    struct str text = {0};
    struct call_rules c = {.tools = tools, .answer = -1};
    reply_format_of(sv("{{ messages[0].content }}"), &f);
    struct grammar *g = grammar_of(&f, &c, false, &e);
    assert_non_null(g);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!allows(g, sv(good[i]))) fail_msg("not allowed: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (allows(g, sv(bad[i]))) fail_msg("allowed: %s", bad[i]);
    grammar_close(g);
    struct syntax s = {.e = &e};
    int32_t root = call_grammar(&s, &f, &c);
    g = grammar_rules(NULL, &s, root, NULL);
    int done = 0;
    for (int i = 0; i < 40; i++) {
        struct reply_options opt = {.tools = tools};
        struct reply_message m = {0};
        if (!walk(g, sv("{\"response\": \"}]tool_calls"), &text)) continue;
        struct reply *r = reply_open(&f, &opt);
        reply_push(r, str_sv(&text));
        reply_finish(r);
        reply_take(r, &m);
        if (sv_find(str_sv(&m.content), sv("{\"response"), 0) == 0 || (m.calls && m.content.n))
            fail_msg("%s\nsays %s", text.p, str_c(&m.content));
        for (size_t k = 0; k < m.calls; k++) check_call(&m.call[k], tools, "generic", text.p);
        reply_message_free(&m);
        reply_close(r);
        done++;
    }
    assert_true(done > 10);
    str_free(&text);
    grammar_close(g);
    json_object_put(tools);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_written),
        cmocka_unit_test(as_read),
        cmocka_unit_test(generic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
