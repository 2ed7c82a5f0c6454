// Replies taken apart, against what went into the templates that rendered them
// (tools/make_reply_cases.py): whole, in every two pieces, and byte by byte. Events can't be taken
// back, so that the content is right means that no part of a mark was ever shown.
#include "check.h"

#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "chat/reply.h"

// All cases, and what the tests make of one.
struct replies {
    struct json_object *tools;
    struct json_object **row;
    size_t n, cap;
};

static int setup(void **state) {
    struct replies *all = mem_alloc(sizeof *all);
    struct names files = {0};
    struct error e = {0};
    all->tools = json_read_file(FIXTURES "/chat/reply_tools.json", 1 << 20, &e);
    assert_true(dir_list(FIXTURES "/chat", &files, &e));
    for (size_t i = 0; i < files.n; i++) {
        if (!sv_starts(sv(files.name[i]), sv("replies-"))) continue;
        char *path = path_join(FIXTURES "/chat", files.name[i]);
        struct str text = {0};
        assert_true(file_read(path, 1 << 20, &text, &e));
        struct sv rest = str_sv(&text);
        for (ptrdiff_t end; (end = sv_find(rest, sv("\n"), 0)) >= 0;) {
            all->row = mem_grow(all->row, &all->cap, all->n + 1, sizeof *all->row);
            all->row[all->n++] = json_read(sv_cut(rest, 0, (size_t)end), "reply", &e);
            rest = sv_cut(rest, (size_t)end + 1, rest.n);
        }
        str_free(&text);
        free(path);
    }
    names_free(&files);
    assert_string_equal(e.text, "");
    assert_true(all->n > 1000);
    *state = all;
    return 0;
}

static int teardown(void **state) {
    struct replies *all = *state;
    for (size_t i = 0; i < all->n; i++) json_object_put(all->row[i]);
    json_object_put(all->tools);
    free(all->row);
    free(all);
    return 0;
}

struct sample {
    struct reply_format format;
    struct reply_options opt;
    struct sv name, reply;
};

static struct sample sample_of(const struct replies *all, size_t i) {
    struct json_object *row = all->row[i];
    struct sample s = {.name = json_text_at(row, "name"), .reply = json_text_at(row, "reply")};
    struct sv file = json_text_at(row, "template");
    if (file.n) {
        struct str path = {0}, source = {0};
        struct error e = {0};
        str_printf(&path, "%s/chat/templates/%s", FIXTURES, file.p);
        assert_true(file_read(path.p, 1 << 20, &source, &e));
        reply_format_of(str_sv(&source), &s.format);
        str_free(&path);
        str_free(&source);
    } else {
        reply_format_of(json_text_at(row, "source"), &s.format);
    }
    s.opt.opened = json_bool_at(row, "opened", false);
    s.opt.tools = json_bool_at(row, "tools", true) ? all->tools : NULL;
    return s;
}

// The message from a reply in pieces: the first of `first` bytes, the others of `piece`.
static struct reply_message message_of(const struct sample *s, struct sv text, size_t first,
                                       size_t piece) {
    struct reply_message m = {0};
    struct reply *r = reply_open(&s->format, &s->opt);
    for (size_t at = 0, n = first; at < text.n; at += n, n = piece) {
        reply_push(r, sv_cut(text, at, n < text.n - at ? at + n : text.n));
        reply_take(r, &m);
    }
    reply_finish(r);
    reply_take(r, &m);
    reply_close(r);
    return m;
}

static void show_text(struct str *out, const char *name, const struct str *text) {
    str_printf(out, " %s ", name);
    json_quote(out, str_sv(text));
}

static struct str show_message(const struct reply_message *m) {
    struct str out = {0};
    show_text(&out, "reasoning", &m->reasoning);
    show_text(&out, "content", &m->content);
    for (size_t i = 0; i < m->calls; i++) {
        show_text(&out, "\n  call", &m->call[i].name);
        show_text(&out, "id", &m->call[i].id);
        str_printf(&out, " %s", str_c(&m->call[i].arguments));
    }
    return out;
}

static bool call_is(const struct reply_call *c, struct json_object *want) {
    struct error e = {0};
    struct sv id = json_text_at(want, "id");
    struct json_object *arguments = json_read(str_sv(&c->arguments), "arguments", &e);
    bool same = arguments && json_object_equal(arguments, json_at(want, "arguments")) &&
                sv_eq(str_sv(&c->name), json_text_at(want, "name")) &&
                (!id.n || sv_eq(str_sv(&c->id), id));
    json_object_put(arguments);
    return same;
}

static bool message_is(const struct reply_message *m, struct json_object *want) {
    struct json_object *calls = json_at(want, "calls");
    bool same = sv_eq(str_sv(&m->reasoning), json_text_at(want, "reasoning")) &&
                sv_eq(str_sv(&m->content), json_text_at(want, "content")) &&
                m->calls == json_object_array_length(calls);
    for (size_t i = 0; same && i < m->calls; i++)
        same = call_is(&m->call[i], json_object_array_get_idx(calls, i));
    return same;
}

static bool texts_equal(const struct str *a, const struct str *b) {
    return sv_eq(str_sv(a), str_sv(b));
}

static bool messages_equal(const struct reply_message *a, const struct reply_message *b) {
    bool same = texts_equal(&a->reasoning, &b->reasoning) &&
                texts_equal(&a->content, &b->content) && a->calls == b->calls;
    for (size_t i = 0; same && i < a->calls; i++)
        same = texts_equal(&a->call[i].name, &b->call[i].name) &&
               texts_equal(&a->call[i].id, &b->call[i].id) &&
               texts_equal(&a->call[i].arguments, &b->call[i].arguments);
    return same;
}

static void test_whole(void **state) {
    const struct replies *all = *state;
    size_t wrong = 0;
    for (size_t i = 0; i < all->n; i++) {
        struct sample s = sample_of(all, i);
        struct sv prompt = json_text_at(all->row[i], "prompt");
        if (prompt.n && reply_opened_by(&s.format, prompt) != s.opt.opened) {
            print_error("%s: the end of the prompt is read wrong: %s\n", s.name.p, prompt.p);
            wrong++;
        }
        struct reply_message m = message_of(&s, s.reply, s.reply.n, 0);
        if (!message_is(&m, all->row[i])) {
            struct str got = show_message(&m);
            print_error("%s\n  %s\n  got%s\n", s.name.p, s.reply.p, str_c(&got));
            str_free(&got);
            wrong++;
        }
        reply_message_free(&m);
    }
    assert_int_equal(wrong, 0);
}

static void expect_same(const struct sample *s, const struct reply_message *whole, size_t first,
                        size_t piece) {
    struct reply_message m = message_of(s, s->reply, first, piece);
    if (!messages_equal(&m, whole)) {
        struct str got = show_message(&m);
        fail_msg("%s: cut at %zu, then each %zu bytes: %s\n  got%s", s->name.p, first, piece,
                 s->reply.p, str_c(&got));
    }
    reply_message_free(&m);
}

static void test_pieces(void **state) {
    const struct replies *all = *state;
    for (size_t i = 0; i < all->n; i++) {
        struct sample s = sample_of(all, i);
        struct reply_message whole = message_of(&s, s.reply, s.reply.n, 0);
        for (size_t at = 1; at < s.reply.n; at++) expect_same(&s, &whole, at, s.reply.n);
        expect_same(&s, &whole, 1, 1);
        expect_same(&s, &whole, 2, 3);
        reply_message_free(&whole);
    }
}

// --- special tokens ------------------------------------------------------------------------------

// The bytes of what may be a special token at the beginning of s: <|name|>, [NAME] and the like.
static size_t token_at(struct sv s) {
    bool square = s.p[0] == '[', bar = false;
    if (!square && s.p[0] != '<') return 0;
    for (size_t i = 1; i < s.n && i < 48; i++) {
        char c = s.p[i];
        if (c == (square ? ']' : '>')) return i > 1 && (square || bar) ? i + 1 : 0;
        if (square ? !(c >= 'A' && c <= 'Z') && c != '_' : c == ' ' || c == '<') return 0;
        bar |= c == '|' || sv_starts(sv_cut(s, i, s.n), sv("\xef\xbd\x9c"));
    }
    return 0;
}

// The parser needs no special token but those that it asks for.
static void test_tokens(void **state) {
    const struct replies *all = *state;
    struct str shown = {0};
    for (size_t i = 0; i < all->n; i++) {
        struct sample s = sample_of(all, i);
        str_clear(&shown);
        for (size_t at = 0, n; at < s.reply.n; at += n) {
            struct sv rest = sv_cut(s.reply, at, s.reply.n);
            n = token_at(rest);
            bool drop = n && !reply_format_shows(&s.format, sv_cut(rest, 0, n));
            n += !n;
            if (!drop) str_add(&shown, sv_cut(rest, 0, n));
        }
        struct reply_message m = message_of(&s, str_sv(&shown), shown.n, 0);
        if (!message_is(&m, all->row[i])) {
            struct str got = show_message(&m);
            fail_msg("%s: %s\n  got%s", s.name.p, str_c(&shown), str_c(&got));
        }
        reply_message_free(&m);
    }
    str_free(&shown);
}

// --- what is cut ---------------------------------------------------------------------------------

enum { MOST_WORDS = 64, SHORT_WORD = 5 };

struct words {
    struct sv at[MOST_WORDS];
    size_t n;
};

static bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (unsigned char)c >= 0x80;
}

static void add_words(struct words *w, struct sv text) {
    for (size_t i = 0, n; i < text.n; i += n + 1) {
        for (n = 0; i + n < text.n && in_word(text.p[i + n]);) n++;
        if (n >= SHORT_WORD && w->n < MOST_WORDS) w->at[w->n++] = sv_cut(text, i, i + n);
    }
}

static void add_words_of(struct words *w, struct json_object *v) {
    add_words(w, json_text(v));
    if (json_object_is_type(v, json_type_object)) {
        json_object_object_foreach(v, name, member) {
            add_words(w, sv(name));
            add_words_of(w, member);
        }
    }
    for (size_t i = 0; json_object_is_type(v, json_type_array) && i < json_object_array_length(v);
         i++)
        add_words_of(w, json_object_array_get_idx(v, i));
}

// The words that a client must get: all but the calls' names, which marks hold, too.
static struct words words_of(struct json_object *row) {
    struct words w = {.n = 0};
    add_words(&w, json_text_at(row, "reasoning"));
    add_words(&w, json_text_at(row, "content"));
    struct json_object *calls = json_at(row, "calls");
    for (size_t i = 0; i < json_object_array_length(calls); i++)
        add_words_of(&w, json_at(json_object_array_get_idx(calls, i), "arguments"));
    return w;
}

// Whatever a reply breaks off at, its words are in the message.
static void test_cut(void **state) {
    const struct replies *all = *state;
    struct str got = {0};
    for (size_t i = 0; i < all->n; i++) {
        struct sample s = sample_of(all, i);
        struct words words = words_of(all->row[i]);
        for (size_t n = 0; n < s.reply.n; n++) {
            struct sv part = sv_cut(s.reply, 0, n);
            struct reply_message m = message_of(&s, part, n, 0);
            str_clear(&got);
            str_add(&got, str_sv(&m.reasoning));
            str_add(&got, str_sv(&m.content));
            for (size_t k = 0; k < m.calls; k++) str_add(&got, str_sv(&m.call[k].arguments));
            for (size_t k = 0; k < words.n; k++)
                if (sv_find(part, words.at[k], 0) >= 0 && sv_find(str_sv(&got), words.at[k], 0) < 0)
                    fail_msg("%s: lost \"%.*s\" of %.*s: %s", s.name.p, (int)words.at[k].n,
                             words.at[k].p, (int)n, part.p, str_c(&got));
            reply_message_free(&m);
        }
    }
    str_free(&got);
}

// --- a model without a format of calls -----------------------------------------------------------

#define NOW "{\"name\": \"now\", \"arguments\": {}}"

// However it is cut.
static void expect_message(const struct sample *s, const char *content, size_t calls) {
    struct reply_message whole = message_of(s, s->reply, s->reply.n, 0);
    assert_string_equal(str_c(&whole.content), content);
    assert_int_equal(whole.calls, calls);
    for (size_t at = 1; at < s->reply.n; at++) expect_same(s, &whole, at, s->reply.n);
    expect_same(s, &whole, 1, 1);
    reply_message_free(&whole);
}

static void test_generic(void **state) {
    static const struct {
        const char *reply, *content;
        size_t calls;
        bool formed, tools;
    } cases[] = {
        {"{\"response\": \"Hi\"}", "Hi", 0, false, true},
        {" {\"response\": \"\"}\n", "", 0, false, true},
        {"{\"response\": \"a \\\"b\\\" \\\\ \\u00e9\\n\\ud83d\\ude00\" }",
         "a \"b\" \\ \xc3\xa9\n\xf0\x9f\x98\x80", 0, false, true},
        {"{\"response\": \"\\ud83dx\\ud83d\\u0041\"}",
         "\xef\xbf\xbdx\xef\xbf\xbd"
         "A",
         0, false, true},
        {"{\"response\": \"\xf0\x9f\x98\x80 cut \\u00", "\xf0\x9f\x98\x80 cut ", 0, false, true},
        {"{\"response\": \"{\\\"tool_calls\\\": [x\"}", "{\"tool_calls\": [x", 0, false, true},
        {"{\"response\": \"\\q \\u12 \\ud83d\\u0z\"}", "\\q \\u12 \xef\xbf\xbd\\u0z", 0, false,
         true},
        {"{\"tool_calls\":[" NOW "]}", "", 1, false, true},
        {"{\"tool_calls\": [" NOW ", " NOW "]} ", "", 2, false, true},
        {"{\"tool_calls\": [" NOW "]", "", 1, false, true},
        {"{\"tool_calls\":", "", 0, false, true},
        {"{\"tool_calls\": [{\"na", "", 0, false, true},
        {"{\"tool_calls\": [{\"name\": \"now\", \"arguments\": {\"a\": \"b", "", 0, false, true},
        {"{\"tool_calls\": [" NOW ", {\"name\": \"now\", \"arguments\": {", "", 1, false, true},
        {"{\"tool_calls\": [" NOW ", {\"na", "", 1, false, true},
        {" \n\t", "", 0, false, true},
        {" \n{\"response\": \"\\n\"", "\n", 0, false, true},
        {"{\"tool_calls\": []}", "{\"tool_calls\": []}", 0, false, true},
        {"Hi", "Hi", 0, false, true},
        {"{\"respon", "", 0, false, true},
        {"{\"respon", "{\"respon", 0, true, true},
        {"{\"respon", "{\"respon", 0, false, false},
        {"{\"tool", "", 0, false, true},
        {"{\"to{", "{\"to{", 0, false, true},
        {"{\"response\": \"Hi\"}", "{\"response\": \"Hi\"}", 0, true, true},
        {"{\"response\": \"Hi\"}", "{\"response\": \"Hi\"}", 0, false, false},
        {"{\"tool_calls\": [" NOW "]}", "{\"tool_calls\": [" NOW "]}", 0, false, false},
        {"<think>Hm</think>\n{\"response\": \"Hi\"}", "Hi", 0, false, true},
    };
    const struct replies *all = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sample s = {.name = sv("generic"), .reply = sv(cases[i].reply)};
        reply_format_of(sv("{{ messages[0].content }}"), &s.format);
        assert_true(s.format.generic);
        s.opt.tools = cases[i].tools ? all->tools : NULL;
        s.opt.formed = cases[i].formed;
        expect_message(&s, cases[i].content, cases[i].calls);
    }
}

// --- text behind a call --------------------------------------------------------------------------

// A section that goes on with what is no call: all of that is text, and marks in it count.
static void test_behind(void **state) {
    static const struct {
        const char *source, *reply, *content;
        size_t calls;
    } cases[] = {
        {"<|tool_call_start|>", "<|tool_call_start|>[now()\\<|tool_call_start|>e(",
         "\\<|tool_call_start|>e(", 1},
        {"<|tool_call_start|>", "<|tool_call_start|>[now()\\<|tool_call_start|>[now()]", "\\", 2},
        {"<|START_ACTION|> <|START_RESPONSE|>", "<|START_ACTION|>[" NOW "}<|END_RESPONSE|>", "}",
         1},
        {"[{\"name\": ", "[" NOW " [", "[", 1},
        {"[{\"name\": ", "[" NOW " x, and more", "x, and more", 1},
    };
    const struct replies *all = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sample s = {.name = sv(cases[i].source), .reply = sv(cases[i].reply)};
        reply_format_of(s.name, &s.format);
        s.opt.tools = all->tools;
        expect_message(&s, cases[i].content, cases[i].calls);
    }
}

// --- stop strings --------------------------------------------------------------------------------

// They end the content where the client sees them, and are not looked for elsewhere.
static void test_stops(void **state) {
    static const char plain[] = "{{ messages[0].content }}";
    static const char tagged[] =
        "<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>";
#define TAGGED "<tool_call>\n" NOW "\n</tool_call>"
    static const struct {
        const char *source, *reply, *stop[2], *content, *found;
        size_t calls, unsaid;
        bool no_tools;
    } cases[] = {
        {plain, "{\"response\": \"a: \\\"b\\\"\"}", {":", "response"}, "a", ":", 0, 0, false},
        {plain, "\n{\"response\": \"ab\\n\\nc\"}\n", {"\n", "}"}, "ab", "\n", 0, 0, false},
        {plain,
         "{\"response\": \"ab \\u00e9!\"}",
         {"{", "\xc3\xa9!"},
         "ab ",
         "\xc3\xa9!",
         0,
         0,
         false},
        {plain, "{\"response\": \"ab\"}", {"\"", "b\""}, "ab", "", 0, 0, false},
        {plain, "{\"response\": \"ab\\n", {"\n\n", "x"}, "ab\n", "", 0, 0, false},
        {plain, "{\"tool_calls\": [" NOW "]}", {"name", "{"}, "", "", 1, 0, false},
        {plain, "<think>a: b</think>{\"response\": \"c: d\"}", {":", ">"}, "c", ":", 0, 0, false},
        {plain, "a\n\nb: c", {"\n\n", "c"}, "a", "\n\n", 0, 6, true},
        {plain, "a\n\n", {"\n\n", "c"}, "a", "\n\n", 0, 2, true},
        {plain, "ab", {"bc", "abc"}, "ab", "", 0, 0, true},
        {plain, "abd", {"abc", "bd"}, "a", "bd", 0, 2, true},
        {tagged, "<think>\na\n</think>\n\nb\n" TAGGED, {"\n", "name"}, "b", "", 1, 0, false},
        {tagged, "ab" TAGGED, {"b<", "\"now"}, "ab", "", 1, 0, false},
        {tagged, "ab" TAGGED "\nc", {"b\nc", "now"}, "ab\nc", "", 1, 0, false},
        {tagged,
         "a\nb <tool_call> c",
         {"tool_call> c", "d"},
         "a\nb <",
         "tool_call> c",
         0,
         12,
         false},
    };
    const struct replies *all = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct sv stop[] = {sv(cases[i].stop[0]), sv(cases[i].stop[1])};
        struct sample s = {.name = sv("stops"), .reply = sv(cases[i].reply)};
        reply_format_of(sv(cases[i].source), &s.format);
        s.opt.tools = cases[i].no_tools ? NULL : all->tools;
        s.opt.stop = stop;
        s.opt.stops = 2;
        expect_message(&s, cases[i].content, cases[i].calls);
        struct reply *r = reply_open(&s.format, &s.opt);
        reply_push(r, s.reply);
        reply_finish(r);
        assert_true(sv_is(reply_stop(r), cases[i].found));
        if (!reply_wrapped(r)) assert_int_equal(reply_unsaid(r), cases[i].unsaid);
        reply_close(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole), cmocka_unit_test(test_pieces),  cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_cut),   cmocka_unit_test(test_generic), cmocka_unit_test(test_behind),
        cmocka_unit_test(test_stops),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
