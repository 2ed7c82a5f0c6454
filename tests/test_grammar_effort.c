// What making a grammar may take: hostile patterns, grammars and schemas end soon, with a reason;
// large ones that people have are made; and whoever waits can call it off.
#include "check.h"

#include "base/json.h"
#include "grammar/grammar.h"

enum { BYTE_TOKENS = 256, END = 256 };

static const struct lexicon *lexicon(void) {
    static struct lexicon *l;
    static char byte[BYTE_TOKENS];
    struct sv text[BYTE_TOKENS + 1];
    int32_t end = END;
    for (int i = 0; i < BYTE_TOKENS; i++) {
        byte[i] = (char)i;
        text[i] = sv_n(&byte[i], 1);
    }
    text[END] = sv("<end>");
    if (!l) l = lex_open(text, END + 1, &end, 1);
    return l;
}

enum kind { GBNF, REGEX, SCHEMA };

// The steps that a grammar takes to be made, and the first answers; e is set where it is refused.
static size_t steps_of(enum kind kind, struct sv text, struct error *e) {
    struct effort f = effort_usual();
    struct syntax s = {.e = e, .effort = &f};
    struct json_object *o = kind == SCHEMA ? json_read(text, "schema", e) : NULL;
    int32_t root = 0;
    if (kind == GBNF) root = gbnf_read(&s, text);
    if (kind == REGEX) root = regex_read(&s, text);
    if (o) root = schema_read(&s, o);
    struct grammar *g = grammar_rules(lexicon(), &s, root, NULL);
    json_object_put(o);
    assert_true(!g == e->set);
    struct matcher *m = g ? matcher_open(g) : NULL;
    for (int i = 0; m && i < 40; i++) {
        const uint64_t *mask = matcher_mask(m);
        int32_t id = 0;
        while (mask && id < BYTE_TOKENS && !(mask[id / 64] >> (id % 64) & 1)) id++;
        if (!mask || id == BYTE_TOKENS || !matcher_token(m, id)) break;
    }
    matcher_close(m);
    grammar_close(g);
    return EFFORT_STEPS - f.steps;
}

static void repeat(struct str *out, const char *text, int n) {
    for (int i = 0; i < n; i++) str_puts(out, text);
}

// Words that differ, of letters; never the same twice.
static void add_word(struct str *out, int i) {
    for (int k = 0; k < 5; k++, i /= 13) str_addc(out, (char)('a' + (i % 13) * 2));
}

// why NULL: it is made.
static void expect(enum kind kind, struct str *text, const char *why) {
    struct error e = {0};
    steps_of(kind, str_sv(text), &e);
    if (!why != !e.set || (why && !strstr(e.text, why)))
        fail_msg("%.60s: \"%s\", not \"%s\"", text->p, e.text, why ? why : "");
    str_free(text);
}

static void expect_text(enum kind kind, const char *text, const char *why) {
    struct str s = {0};
    str_puts(&s, text);
    expect(kind, &s, why);
}

static const char long_work[] = "it takes too long to prepare, more than 100 million steps";

static void patterns(void **state) {
    (void)state;
    struct str s = {0};
    expect_text(REGEX, "(((a+)+)+)+b", NULL);
    expect_text(REGEX, "((((a{1,50}){1,50}){1,50}){1,50})", "65536 states");
    expect_text(REGEX, "a{1,100000}", "65536 states");
    expect_text(REGEX, "((((){1000000}){1000000}){1000000})a", "65536 states");
    expect_text(REGEX, "(a|b)*a(a|b){20}", "20000 states");
    repeat(&s, "(a?b?c?d?e?f?)", 400);
    expect(REGEX, &s, "too long to prepare");
    // Half of the Chinese characters, apart from each other.
    str_addc(&s, '[');
    for (uint32_t c = 0x4e00; c < 0x9000; c += 2) {
        char utf8[4];
        str_add(&s, sv_n(utf8, utf8_encode(c, utf8)));
    }
    str_puts(&s, "]+x");
    expect(REGEX, &s, NULL);
    for (int i = 0; i < 2000; i++) {
        add_word(&s, i);
        str_addc(&s, '|');
    }
    expect(REGEX, &s, NULL);
}

static void grammars(void **state) {
    (void)state;
    struct str s = {0};
    expect_text(GBNF, "root ::= ((((\"a\"{1,1000}){1,1000}){1,1000}){1,1000}){1,1000}", NULL);
    expect_text(GBNF,
                "root ::= s\ns ::= \"a\" s s s | \"a\" s s | \"a\" s | \"a\" | \"(\" s \")\" s",
                NULL);
    // Each rule is two of the next, in all ways to leave them out.
    str_puts(&s, "root ::= r0\n");
    for (int i = 0; i < 60; i++) str_printf(&s, "r%d ::= r%d r%d\n", i, i + 1, i + 1);
    str_puts(&s, "r60 ::= \"a\"?\n");
    expect(GBNF, &s, "in more than 16384 ways at once");
    str_puts(&s, "root ::= r0\n");
    for (int i = 0; i < 60; i++)
        str_printf(&s, "r%d ::= r%d | r%d \"x\" | \"y\" r%d\n", i, i + 1, i + 1, i + 1);
    str_puts(&s, "r60 ::= \"a\"\n");
    expect(GBNF, &s, NULL);
    str_puts(&s, "root ::= ");
    repeat(&s, "\"a\"* ", 3000);
    expect(GBNF, &s, "edges");
    str_puts(&s, "root ::= ");
    for (int i = 0; i < 9000; i++) str_printf(&s, "%s r%d", i ? " |" : "", i);
    for (int i = 0; i < 9000; i++)
        str_printf(&s, "\nr%d ::= \"a\" r%d | \"a\" r%d | \"b\"", i, (i * 7 + 1) % 9000,
                   (i * 3 + 2) % 9000);
    expect(GBNF, &s, "in more than 16384 ways at once");
}

// {"enum":[...]} of n words.
static void add_enum(struct str *s, int from, int n) {
    str_puts(s, "{\"enum\":[");
    for (int i = from; i < from + n; i++) {
        str_puts(s, i > from ? ",\"" : "\"");
        add_word(s, i);
        str_addc(s, '"');
    }
    str_puts(s, "]}");
}

static void large_schemas(void **state) {
    (void)state;
    struct str s = {0};
    add_enum(&s, 0, 10000);
    expect(SCHEMA, &s, NULL);
    str_puts(&s, "{\"type\":\"object\",\"properties\":{\"a\":");
    add_enum(&s, 0, 10000);
    str_puts(&s, ",\"b\":");
    add_enum(&s, 10000, 10000);
    str_puts(&s, "}}");
    expect(SCHEMA, &s, NULL);
    static const char *const keys[] = {"anyOf", "oneOf"};
    for (int k = 0; k < 2; k++) {
        str_printf(&s, "{\"%s\":[{\"type\":\"null\"}", keys[k]);
        for (int i = 0; i < (k ? 0 : 10000); i++) str_printf(&s, ",{\"const\":\"c%d\"}", i);
        for (int i = 0; i < (k ? 200 : 0); i++) {
            str_addc(&s, ',');
            add_enum(&s, i * 50, 50);
        }
        str_puts(&s, "]}");
        expect(SCHEMA, &s, NULL);
    }
    str_puts(&s, "{\"oneOf\":[");
    for (int i = 0; i < 1000; i++)
        str_printf(&s,
                   "%s{\"type\":\"object\",\"required\":[\"kind\",\"v\"],\"properties\":{"
                   "\"kind\":{\"const\":\"k%d\"},\"v\":{\"type\":\"string\"}}}",
                   i ? "," : "", i);
    str_puts(&s, "]}");
    expect(SCHEMA, &s, NULL);
    str_puts(&s, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < 100; i++)
        str_printf(&s, "%s\"p%d\":{\"type\":\"string\",\"format\":\"date-time\"}", i ? "," : "", i);
    str_puts(&s, "}}");
    expect(SCHEMA, &s, NULL);
}

// Definitions d0 to d60, each of the next one: `of` has its number twice.
static void add_chain(struct str *s, const char *of) {
    str_puts(s, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{");
    for (int i = 0; i < 60; i++) {
        str_printf(s, "\"d%d\":", i);
        for (const char *p = of; *p; p++) {
            if (*p == '#')
                str_printf(s, "\"$ref\":\"#/$defs/d%d\"", i + 1);
            else
                str_addc(s, *p);
        }
        str_addc(s, ',');
    }
    str_puts(s, "\"d60\":{\"type\":\"string\"}}}");
}

static void hostile_schemas(void **state) {
    (void)state;
    struct str s = {0};
    add_chain(&s, "{\"anyOf\":[{#},{#,\"type\":\"string\"}]}");
    expect(SCHEMA, &s, "parts");
    add_chain(&s, "{\"allOf\":[{#},{#}]}");
    expect(SCHEMA, &s, NULL);
    add_chain(&s, "{\"type\":\"object\",\"properties\":{\"a\":{#},\"b\":{#}}}");
    expect(SCHEMA, &s, NULL);
    // Equal but for the last of their members, each to be compared with each.
    str_puts(&s, "{\"allOf\":[");
    for (int k = 0; k < 2; k++) {
        str_puts(&s, k ? ",{\"enum\":[" : "{\"enum\":[");
        for (int i = 0; i < 600; i++) {
            str_puts(&s, i ? ",{" : "{");
            for (int j = 0; j < 50; j++) str_printf(&s, "\"k%d\":[1,2,3],", j);
            str_printf(&s, "\"z\":%d}", k ? i : -i - 1);
        }
        str_puts(&s, "]}");
    }
    str_puts(&s, "]}");
    expect(SCHEMA, &s, "too long to prepare");
    str_puts(&s, "{\"type\":\"array\",\"uniqueItems\":true,\"items\":");
    add_enum(&s, 0, 100000);
    str_puts(&s, "}");
    expect(SCHEMA, &s, "up to 8 texts");
    // Each pattern would do, but not all of them.
    str_puts(&s, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < 8; i++) {
        str_printf(&s, "%s\"p%d\":{\"type\":\"string\",\"pattern\":\"^x%d", i ? "," : "", i, i);
        repeat(&s, "(a?b?c?d?e?f?)", 100);
        str_puts(&s, "$\"}");
    }
    str_puts(&s, "}}");
    expect(SCHEMA, &s, long_work);
}

static bool after_some(void *arg) { return --*(int *)arg < 0; }

static void called_off(void **state) {
    (void)state;
    struct str s = {0};
    struct error e = {0};
    repeat(&s, "(a?b?c?d?e?f?)", 400);
    for (int left = 0; left < 20; left += 5) {
        int asks = left;
        struct effort f = effort_usual();
        f.stop = after_some;
        f.arg = &asks;
        struct syntax syntax = {.e = &e, .effort = &f};
        e = (struct error){0};
        int32_t root = regex_read(&syntax, str_sv(&s));
        assert_null(grammar_rules(NULL, &syntax, root, NULL));
        assert_true(f.stopped);
        assert_int_equal(asks, -1);
        // It was asked often enough: a step takes nanoseconds.
        assert_true(EFFORT_STEPS - f.steps < (size_t)(left + 2) << 16);
    }
    str_free(&s);
}

// What grammars and their masks take is taken from where they belong, and given back.
static void in_room(void **state) {
    (void)state;
    struct grammar_room room = {.most = 1 << 20};
    struct error e = {0};
    struct effort f = effort_usual();
    struct syntax s = {.e = &e, .effort = &f};
    f.room = &room;
    int32_t root = regex_read(&s, sv("[a-z]{1,50}(foo|bar)"));
    struct grammar *g = grammar_rules(lexicon(), &s, root, NULL);
    assert_non_null(g);
    size_t fresh = room.bytes;
    assert_int_equal(fresh, grammar_bytes(g));
    struct matcher *m = matcher_open(g);
    for (const char *p = "abcdefghijklmnop"; *p; p++) {
        assert_true(matcher_bytes(m, sv_n(p, 1)));
        assert_non_null(matcher_mask(m));
    }
    assert_true(room.bytes > fresh);
    assert_int_equal(room.bytes, grammar_bytes(g));
    grammar_close(g);
    matcher_close(m);
    assert_int_equal(room.bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns),      cmocka_unit_test(grammars),
        cmocka_unit_test(large_schemas), cmocka_unit_test(hostile_schemas),
        cmocka_unit_test(called_off),    cmocka_unit_test(in_room),
    };
    return cmocka_run_group_tests_name("what grammars take", tests, NULL, NULL);
}
