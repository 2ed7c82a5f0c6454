// Grammars: what their three front ends allow and refuse, against jsonschema's word on JSON schemas
// (tools/make_schema_cases.py), and the masks of a small vocabulary against trying each token.
#include "check.h"

#include "base/json.h"
#include "base/mem.h"
#include "grammar/grammar.h"

static bool allows(struct grammar *g, const char *text, size_t n) {
    struct matcher *m = matcher_open(g);
    bool ok = matcher_bytes(m, sv_n(text, n)) && matcher_done(m);
    matcher_close(m);
    return ok;
}

static void expect(struct grammar *g, const char *text, bool wanted) {
    if (allows(g, text, strlen(text)) != wanted)
        fail_msg("\"%s\" should %sbe allowed", text, wanted ? "" : "not ");
}

static struct grammar *gbnf(const char *text) {
    struct error e = {0};
    struct grammar *g = grammar_gbnf(NULL, sv(text), NULL, &e);
    if (!g) fail_msg("%s", e.text);
    return g;
}

static struct grammar *regex(const char *text) {
    struct error e = {0};
    struct grammar *g = grammar_regex(NULL, sv(text), NULL, &e);
    if (!g) fail_msg("%s: %s", text, e.text);
    return g;
}

static struct grammar *schema(const char *text) {
    struct error e = {0};
    struct json_object *o = json_read(sv(text), "schema", &e);
    struct grammar *g = o ? grammar_schema(NULL, o, NULL, &e) : NULL;
    json_object_put(o);
    if (!g) fail_msg("%s", e.text);
    return g;
}

static void refuses_gbnf(const char *text, const char *why) {
    struct error e = {0};
    struct grammar *g = grammar_gbnf(NULL, sv(text), NULL, &e);
    if (g || !strstr(e.text, why)) fail_msg("%s: \"%s\" lacks \"%s\"", text, e.text, why);
}

static void refuses_regex(const char *text, const char *why) {
    struct error e = {0};
    struct grammar *g = grammar_regex(NULL, sv(text), NULL, &e);
    if (g || !strstr(e.text, why)) fail_msg("%s: \"%s\" lacks \"%s\"", text, e.text, why);
}

static void test_gbnf(void **state) {
    (void)state;
    static const struct {
        const char *grammar, *yes[5], *no[5];
    } cases[] = {
        {"root ::= \"a\" | \"bc\"", {"a", "bc"}, {"", "b", "ab", "abc"}},
        {"# comment\nroot ::= x{2,3} # two or three\nx ::= [a-c]",
         {"ab", "abc"},
         {"a", "aaaa", "ad"}},
        {"root ::= (\n \"a\" |\n \"b\" )* \"c\"", {"c", "abbac"}, {"ab", "ca"}},
        {"root ::= [^\\n\"]+", {"x", "é日😀"}, {"", "a\"", "a\n", "\xff", "\xc3"}},
        {"root ::= \"\\x41\\u00e9\\U0001F600\\t\\\"\\\\\"", {"Aé😀\t\"\\"}, {"A"}},
        {"root ::= \"(\" root? \")\"", {"()", "((()))"}, {"", "(()", "())"}},
        {"root ::= item (\",\" item)*\nitem ::= [0-9]+ | \"[\" root \"]\"",
         {"1,22,[3,[4]]"},
         {"1,", "[]"}},
        {"root ::= \"a\"{3,}", {"aaa", "aaaaa"}, {"aa", ""}},
        {"root ::= \"a\"{0,2} \"b\"?", {"", "a", "aab"}, {"aaa", "bb"}},
        {"root ::= \"ab\"{70,72}", {0}, {"ab"}},
        {"root ::= .", {"é", "\n"}, {"", "ab"}},
        {"root ::= a b\na ::= \"x\" |\n \"y\"\nb ::= \"\" | a", {"x", "xy"}, {"", "xyx"}},
        {"root ::= x \"1\" | y \"2\"\nx ::= \"a\" x? \"b\"\ny ::= \"a\" y? \"b\"",
         {"aabb1", "ab2"},
         {"aab1"}},
        {"root ::= [a\\]\\-^]+ [-x]", {"a]-^-", "ax"}, {"b-"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grammar *g = gbnf(cases[i].grammar);
        for (size_t k = 0; k < 5 && cases[i].yes[k]; k++) expect(g, cases[i].yes[k], true);
        for (size_t k = 0; k < 5 && cases[i].no[k]; k++) expect(g, cases[i].no[k], false);
        grammar_close(g);
    }
}

static void test_gbnf_refused(void **state) {
    (void)state;
    refuses_gbnf("root ::= root \"a\" | \"b\"", "rule \"root\" is left recursive");
    refuses_gbnf("root ::= \"x\" a\na ::= b? c\nb ::= \"y\"\nc ::= a \"z\" | \"q\"",
                 "\" is left recursive");
    refuses_gbnf("root ::= x", "rule \"x\" is not defined");
    refuses_gbnf("a ::= \"x\"", "no rule \"root\"");
    refuses_gbnf("root ::= \"a", "line 1");
    refuses_gbnf("root ::= \"a\"\nroot ::= \"b\"", "defined twice");
    refuses_gbnf("root ::= (\"a\"", "\")\" is missing");
    refuses_gbnf("root ::= [b-a]", "ends before it begins");
    refuses_gbnf("root ::= \"a\"{3,2}", "ends before it begins");
    refuses_gbnf("root ::= \"a\"{9999999}", "repeated");
    refuses_gbnf("root ::= \"a\" root", "never ends");
    refuses_gbnf("root ::= (\"a\"? b){500}\nb ::= \"\" | \"c\" b", "may be empty");
    refuses_gbnf("root ::= <think>", "tokens");
    refuses_gbnf("root ::= \"\\q\"", "escape");
    refuses_gbnf("root = \"a\"", "::=");
}

static void test_regex(void **state) {
    (void)state;
    static const struct {
        const char *regex, *yes[5], *no[5];
    } cases[] = {
        {"abc", {"abc"}, {"ab", "xabc", "abcd", ""}},
        {"a|b*", {"", "a", "bbb"}, {"ab", "aa"}},
        {"(?:ab)+?c{2,3}", {"ababcc", "abccc"}, {"abc", "cc"}},
        {"\\d{3}-\\w+\\s", {"123-a_Z "}, {"12-a ", "123- "}},
        {"[^a-c]", {"d", "é", "😀"}, {"a", "", "dd"}},
        {"[\\d.-]+", {"1.2-3"}, {"a"}},
        {"^a$|^b", {"a", "b"}, {"ab", ""}},
        {"(?<year>\\d{4})", {"2024"}, {"24"}},
        {"\\u00e9\\x41\\.", {"éA."}, {"éAx"}},
        {"[\\u{1F600}-\\u{1F64F}]", {"😀"}, {"a"}},
        {".*", {"", "abc é"}, {"a\nb"}},
        {"x{0,1000}y", {"y", "xxxxy"}, {"x"}},
        {"(a*)*b", {"aab", "b"}, {"a"}},
        {"a{,3}", {"a{,3}"}, {"aaa"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grammar *g = regex(cases[i].regex);
        for (size_t k = 0; k < 5 && cases[i].yes[k]; k++) expect(g, cases[i].yes[k], true);
        for (size_t k = 0; k < 5 && cases[i].no[k]; k++) expect(g, cases[i].no[k], false);
        grammar_close(g);
    }
    refuses_regex("a(?=b)", "lookahead");
    refuses_regex("(?<!a)b", "lookbehind");
    refuses_regex("(a)\\1", "backreferences");
    refuses_regex("\\bx", "word boundaries");
    refuses_regex("\\p{L}", "Unicode properties");
    refuses_regex("a(b", "\")\" is missing");
    refuses_regex("a)b", "no \"(\"");
    refuses_regex("*a", "nothing to be repeated");
    refuses_regex("[b-a]", "ends before it begins");
    refuses_regex("[a", "\"]\" is missing");
    refuses_regex("(a{4000}){4000}", "too large");
    refuses_regex("[]", "no text is possible");
}

static void check_schemas(const char *file, size_t least) {
    struct error e = {0};
    struct json_object *cases = json_read_file(file, 1 << 22, &e);
    if (!cases) fail_msg("%s", e.text);
    size_t n = json_object_array_length(cases);
    assert_true(n >= least);
    for (size_t i = 0; i < n; i++) {
        struct json_object *c = json_object_array_get_idx(cases, i), *s = NULL;
        struct error why = {0};
        json_object_object_get_ex(c, "schema", &s);
        const char *text = json_object_to_json_string(s);
        struct grammar *g = grammar_schema(NULL, s, NULL, &why);
        struct json_object *refused = json_at(c, "refused");
        if (refused) {
            const char *wanted = json_object_get_string(refused);
            if (g || !strstr(why.text, wanted))
                fail_msg("%s: \"%s\" lacks \"%s\"", text, why.text, wanted);
            continue;
        }
        if (!g) fail_msg("%zu: %s: %s", i, text, why.text);
        for (int yes = 0; yes < 2; yes++) {
            struct json_object *list = json_at(c, yes ? "valid" : "invalid");
            for (size_t k = 0; k < json_object_array_length(list); k++) {
                struct sv t = json_text(json_object_array_get_idx(list, k));
                if (allows(g, t.p, t.n) != yes)
                    fail_msg("%zu: %s\n should %sallow %s", i, text, yes ? "" : "not ", t.p);
            }
        }
        grammar_close(g);
    }
    json_object_put(cases);
}

static void test_schemas(void **state) {
    (void)state;
    check_schemas(FIXTURES "/grammar/schemas.json", 300);
}

// Some of those that tools/check_schemas.py asks a server for, with answers that it gave.
static void test_nasty(void **state) {
    (void)state;
    check_schemas(FIXTURES "/grammar/nasty.json", 60);
}

// What a schema's texts may look like beyond single values.
static void test_schema_texts(void **state) {
    (void)state;
    struct grammar *g = schema("{\"type\":\"object\"}");
    expect(g, "{}", true);
    expect(g, "{ \"a\" : [1, 2.5e3, \"\\u00e9\\n\\ud83d\\ude00\", {\"b\": null}]\n }", true);
    expect(g, "{\"a\": \"\\ud83d\"}", false); // half a pair
    expect(g, "{\"a\": \"\n\"}", false);
    expect(g, "[]", false);
    expect(g, "{\"a\":01}", false);
    expect(g, "{\"a\":1,}", false);
    grammar_close(g);
    g = schema("{\"properties\":{\"a\":{\"type\":\"integer\"}},\"additionalProperties\":true}");
    expect(g, "{\"a\":1,\"ab\":\"x\"}", true);
    expect(g, "{\"b\":\"x\"}", true);
    expect(g, "{\"a\":\"x\"}", false);
    expect(g, "{\"\\u0061\":\"x\"}", false); // another way to write a name
    grammar_close(g);
}

// --- masks ---------------------------------------------------------------------------------------

// Longer than LEX_SHORT.
#define LONG_B   "bbbbbbbbbbbbbbbbbbbbbbbb"
#define LONG_AB  "ababababababababab\""
#define LONG_E   "ééééééééééé"
#define LONG_CUT "aaaaaaaaaaaaaaaaaa\xc3"

static const char *const words[] = {
    "a",    "b",    "c",    "\"",    "\\",    "{",          "}",      "[",   "]",
    ",",    ":",    " ",    "\n",    "1",     "2",          "0",      ".",   "-",
    "e",    "ab",   "abc",  "\"a",   "\":",   "\",",        "{\"",    "}}",  "é",
    "\xc3", "\xa9", "true", "false", "null",  "tr",         "ue",     "",    "aaaaaaaaaaaa",
    "日",   "😀",    "\\u",  "00",    "<end>", "\xff<mark>", "12",     "\"}", "\"]",
    "ab\"", "\t",   "é日",  LONG_B,  LONG_AB, LONG_E,       LONG_CUT, "a",
};
enum { WORDS = sizeof words / sizeof *words, END = 40, MARK = 41 };

static struct lexicon *small_lexicon(void) {
    struct sv text[WORDS];
    int32_t end = END;
    for (size_t i = 0; i < WORDS; i++) text[i] = sv(words[i]);
    return lex_open(text, WORDS, &end, 1);
}

// Each bit of the mask is what trying the token says.
static void check_mask(struct matcher *m) {
    const uint64_t *mask = matcher_mask(m);
    uint64_t copy = mask[0];
    for (int32_t i = 0; i < WORDS; i++) {
        bool bit = copy >> i & 1;
        struct matcher *try = matcher_copy(m);
        bool wanted = i == END ? matcher_done(m) : words[i][0] && matcher_bytes(try, sv(words[i]));
        matcher_close(try);
        if (bit != wanted) fail_msg("token %d \"%s\": %d, should be %d", i, words[i], bit, wanted);
    }
}

static void random_walk(struct grammar *g, uint32_t seed) {
    struct matcher *m = matcher_open(g);
    for (int step = 0; step < 60; step++) {
        int32_t may[WORDS];
        uint32_t n = 0;
        check_mask(m);
        uint64_t mask = matcher_mask(m)[0];
        for (int32_t i = 0; i < WORDS; i++)
            if (mask >> i & 1) may[n++] = i;
        if (!n) break;
        seed = seed * 1664525 + 1013904223;
        int32_t id = may[(seed >> 8) % n];
        assert_true(matcher_token(m, id));
        if (id == END) break;
    }
    matcher_close(m);
}

static void test_masks(void **state) {
    (void)state;
    static const char *const schemas[] = {
        "{}",
        "{\"type\":\"string\",\"maxLength\":40}",
        "{\"type\":\"string\",\"minLength\":30,\"maxLength\":500}",
        "{\"type\":\"string\",\"pattern\":\"^[ab]{3,90}c\"}",
        "{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{\"enum\":[1,12,true]},"
        "\"minItems\":2,\"maxItems\":100}}",
        "{\"properties\":{\"a\":{\"type\":\"number\"},\"ab\":{\"type\":\"string\"}},"
        "\"required\":[\"ab\"],\"additionalProperties\":{\"type\":\"boolean\"}}",
        "{\"type\":\"number\",\"minimum\":-12.5,\"maximum\":102}",
    };
    struct lexicon *l = small_lexicon();
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        struct error e = {0};
        struct json_object *o = json_read(sv(schemas[i]), "schema", &e);
        struct grammar *g = grammar_schema(l, o, NULL, &e);
        if (!g) fail_msg("%s", e.text);
        for (uint32_t seed = 1; seed < 30; seed++) random_walk(g, seed);
        json_object_put(o);
        grammar_close(g);
    }
    // Where most bytes lead back to where one was, and not all of them.
    static const char *const patterns[] = {"[^\"]*\"", "[a-f]{5,60}", "([^e]|e[^n])*", "[ab\\W]+"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct error e = {0};
        const struct grammar_frame f = {.after = sv("<mark>"), .open = sv("ab")};
        struct grammar *g = grammar_regex(l, sv(patterns[i]), i % 2 ? &f : NULL, &e);
        if (!g) fail_msg("%s", e.text);
        for (uint32_t seed = 1; seed < 30; seed++) random_walk(g, seed);
        grammar_close(g);
    }
    lex_close(l);
}

// --- many tokens ---------------------------------------------------------------------------------

enum { MANY = 1500, CHARS = 24 };

static uint32_t random_below(uint32_t *seed, uint32_t n) {
    *seed = *seed * 1664525 + 1013904223;
    return (*seed >> 8) % n;
}

// Words of letters, digits, marks and characters beyond ASCII, some with what strings escape or
// half a character; each all in one kind of letters, or mixed. The rest of the tokens is long.
static void make_word(struct str *out, uint32_t *seed, bool is_long) {
    static const char *const chars[CHARS] = {"a", "b",        "e",  "f", "g",  "x",  "z", "A",
                                             "F", "G",        "Z",  "0", "5",  "9",  " ", "-",
                                             "_", "\xc3\xa9", "日", "😀", "\"", "\\", ":", "\xc3"};
    static const uint32_t from[] = {0, 0, 0, 7, 11, 0, 14, 0},
                          to[] = {7, 7, 14, 11, 14, 20, 20, 24};
    uint32_t kind = random_below(seed, 8), n = 1 + random_below(seed, is_long ? 30 : 6);
    while (n-- || (is_long && out->n <= LEX_SHORT))
        str_puts(out, chars[from[kind] + random_below(seed, to[kind] - from[kind])]);
}

static void check_many(struct matcher *m, const struct lexicon *l, const char *of) {
    struct str mask = {0};
    str_add(&mask, sv_n((const char *)matcher_mask(m), l->words * sizeof(uint64_t)));
    for (int32_t i = 0; i < MANY; i++) {
        uint64_t word;
        memcpy(&word, mask.p + (size_t)i / 64 * sizeof word, sizeof word);
        struct matcher *try = matcher_copy(m);
        bool bit = word >> (i % 64) & 1, wanted = matcher_token(try, i);
        matcher_close(try);
        if (bit != wanted)
            fail_msg("%s: token \"%.*s\": %d, should be %d", of, l->length[i], l->text + l->at[i],
                     bit, wanted);
    }
    str_free(&mask);
}

// The masks of many tokens, where nearly all characters lead to one place, and where they don't.
static void test_many(void **state) {
    (void)state;
    static const char *const patterns[] = {
        "[^\"\\\\]*",
        "[^\"\\\\]{3,20}",
        "[^5\"]*",
        "[^5\"]{2,9}x",
        "[a-z ]+",
        "[a-z]{1,3}(-[a-z]{1,3})*",
        "[^x]{0,40}",
        "[0-9a-f]{4,8}",
        ".*ab.*",
        ".*a.{3}",
        "([a-z]{3}|[A-Z]{2}){2,5}",
        "(.{2}){1,7}",
        "\"[^\"]{0,5}\"",
        "[ -~]{1,30}",
        "[é日😀]*z?",
        "[^-]{1,60}-[^_]{1,60}",
    };
    struct str all = {0};
    struct sv text[MANY];
    size_t at[MANY + 1] = {0};
    uint32_t seed = 7;
    int32_t end = MANY - 1;
    for (size_t i = 0; i < MANY; i++) {
        make_word(&all, &seed, i % 5 == 0);
        at[i + 1] = all.n;
    }
    for (size_t i = 0; i < MANY; i++) text[i] = sv_cut(str_sv(&all), at[i], at[i + 1]);
    struct lexicon *l = lex_open(text, MANY, &end, 1);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct error e = {0};
        struct grammar *g = grammar_regex(l, sv(patterns[i]), NULL, &e);
        if (!g) fail_msg("%s", e.text);
        for (int walk = 0; walk < 3; walk++) {
            struct matcher *m = matcher_open(g);
            bool more = true;
            for (int step = 0; step < 12 && more; step++) {
                check_many(m, l, patterns[i]);
                more = false;
                for (int tries = 0; tries < 4 * MANY && !more; tries++) {
                    int32_t id = (int32_t)random_below(&seed, MANY - 1);
                    more = (l->length[id] < 4 || tries % 8 == 0) && matcher_token(m, id);
                }
            }
            matcher_close(m);
        }
        grammar_close(g);
    }
    lex_close(l);
    str_free(&all);
}

static void test_tokens(void **state) {
    (void)state;
    struct lexicon *l = small_lexicon();
    struct error e = {0};
    struct grammar *g = grammar_gbnf(l, sv("root ::= \"ab\"?"), NULL, &e);
    struct matcher *m = matcher_open(g), *copy;
    assert_int_equal(matcher_tokens(m), WORDS);
    for (int i = 0; i < WORDS; i++) {
        bool may = i == 0 || i == 19 || i == END || i == WORDS - 1; // two tokens are "a"
        assert_int_equal(matcher_mask(m)[0] >> i & 1, may);
    }
    assert_false(matcher_token(m, 1));
    assert_false(matcher_token(m, WORDS + 1));
    assert_true(matcher_token(m, 0));
    copy = matcher_copy(m);
    assert_true(matcher_token(copy, 1));
    assert_true(matcher_done(copy));
    assert_false(matcher_done(m));
    assert_false(matcher_token(m, END));
    assert_true(matcher_token(copy, END));
    matcher_close(copy);
    grammar_close(g); // the matcher goes on with it
    assert_true(matcher_token(m, 1));
    matcher_close(m);
    lex_close(l);
}

// Free text up to a mark, which is a special token or spelled out.
static void test_after(void **state) {
    (void)state;
    struct lexicon *l = small_lexicon();
    struct error e = {0};
    struct grammar_frame f = {.after = sv("<mark>")};
    struct grammar *g = grammar_gbnf(l, sv("root ::= \"12\""), &f, &e);
    struct matcher *m = matcher_open(g);
    check_mask(m);
    assert_true(matcher_bytes(m, sv("think {\" <mar <<mark")));
    assert_false(matcher_token(m, END));
    struct matcher *spelled = matcher_copy(m);
    assert_true(matcher_bytes(spelled, sv(">\n12")));
    assert_true(matcher_done(spelled));
    assert_true(matcher_token(m, MARK));
    assert_false(matcher_token(m, 0));
    assert_true(matcher_bytes(m, sv("\n\n12")));
    assert_true(matcher_token(m, END));
    matcher_close(spelled);
    matcher_close(m);
    grammar_close(g);
    lex_close(l);
}

// What a long answer leaves is dropped, and what is needed stays.
static void test_clean(void **state) {
    (void)state;
    struct grammar *g = schema("{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}");
    struct matcher *m = matcher_open(g), *deep = matcher_open(g);
    for (int i = 0; i < 100; i++) assert_true(matcher_bytes(deep, sv("[")));
    for (int i = 0; i < 50000; i++) assert_true(matcher_bytes(m, sv("[")));
    for (int i = 0; i < 100; i++) assert_true(matcher_bytes(deep, sv("]")));
    assert_true(matcher_done(deep));
    assert_false(matcher_done(m));
    for (int i = 0; i < 50000; i++) assert_true(matcher_bytes(m, sv("]")));
    assert_true(matcher_done(m));
    matcher_close(m);
    matcher_close(deep);
    grammar_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gbnf),         cmocka_unit_test(test_gbnf_refused),
        cmocka_unit_test(test_regex),        cmocka_unit_test(test_schemas),
        cmocka_unit_test(test_schema_texts), cmocka_unit_test(test_masks),
        cmocka_unit_test(test_tokens),       cmocka_unit_test(test_after),
        cmocka_unit_test(test_clean),        cmocka_unit_test(test_nasty),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
