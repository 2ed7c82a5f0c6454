// The Jinja engine against what jinja2 made of the same templates (tools/make_chat_fixtures.py),
// and against templates that mean harm.
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/file.h"
#include "chat/jinja.h"

static bool render_within(const char *source, size_t n, struct json_object *context,
                          const struct jinja_limits *limits, struct str *out, bool *raised,
                          struct error *e) {
    struct jinja *t = jinja_compile(sv_n(source, n), e);
    bool ok = t && jinja_render_within(t, context, limits, out, raised, e);
    jinja_free(t);
    return ok;
}

static struct sv next_line(struct sv *text) {
    ptrdiff_t end = sv_find(*text, sv("\n"), 0);
    size_t n = end < 0 ? text->n : (size_t)end;
    struct sv line = sv_cut(*text, 0, n);
    *text = sv_cut(*text, n + 1, text->n);
    return line;
}

static void check_cases(const char *path) {
    setenv("SOURCE_DATE_EPOCH", "1795955696", 1);
    struct error e = {0};
    struct str file = {0}, out = {0};
    assert_true(file_read(path, 1 << 20, &file, &e));
    struct sv rest = str_sv(&file);
    struct json_object *context = json_read(next_line(&rest), "context", &e);
    int n = 0;
    for (; rest.n; n++) {
        struct json_object *o = json_read(next_line(&rest), "case", &e);
        assert_non_null(o);
        struct sv source = json_text_at(o, "template");
        struct json_object *want = json_at(o, "expected");
        struct error why = {0};
        bool raised = false;
        str_clear(&out);
        bool ok =
            render_within(source.p, source.n, context, &jinja_default_limits, &out, &raised, &why);
        if (ok != (want != NULL) || (ok && !sv_eq(str_sv(&out), json_text(want)))) {
            print_message("%s\n", source.p);
            assert_string_equal(ok ? str_c(&out) : why.text, want ? json_text(want).p : "an error");
        }
        assert_int_equal(raised, json_bool_at(o, "raised", false));
        if (raised) assert_string_equal(why.text, json_text_at(o, "error").p);
        json_object_put(o);
    }
    assert_true(n > 100);
    json_object_put(context);
    str_free(&file);
    str_free(&out);
}

// The language, feature by feature; and templates made up by tools/compare_jinja.py.
static void test_language(void **state) {
    (void)state;
    check_cases(FIXTURES "/chat/language.jsonl");
    check_cases(FIXTURES "/chat/random.jsonl");
}

static void refused(const char *source, size_t n, const char *names) {
    struct error e = {0};
    struct str out = {0};
    str_puts(&out, "kept");
    clock_t start = clock();
    bool ok = render_within(source, n, NULL, &jinja_default_limits, &out, NULL, &e);
    if (ok || !strstr(e.text, names)) print_message("%.100s: %s\n", source, e.text);
    assert_false(ok);
    assert_non_null(strstr(e.text, names));
    assert_string_equal(str_c(&out), "kept");
    // Well under a second; sanitizers take some more.
    assert_true(clock() - start < 20 * CLOCKS_PER_SEC);
    str_free(&out);
}

static void test_hostile(void **state) {
    (void)state;
    static const struct {
        const char *source, *names;
    } rows[] = {
        {"{% for i in range(10**9) %}{% endfor %}", "JINJA_RANGE"},
        {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
         "limit steps"},
        {"{{ 'a' * 10**9 }}", "limit output"},
        {"{{ 'a' * 10**30 }}", "too large"},
        {"{{ [0] * 10**9 }}", "limit memory"},
        {"{% set ns = namespace(s='a') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}"
         "{% endfor %}",
         "limit memory"},
        {"{% set ns = namespace(l=[0]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}"
         "{% endfor %}",
         "limit "},
        {"{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}"
         "{% endfor %}{{ ns.l }}",
         "limit depth"},
        {"{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}"
         "{% endfor %}{{ ns.l | tojson }}",
         "limit depth"},
        {"{% set a = namespace() %}{% set b = namespace() %}{% for i in range(9999) %}"
         "{% set a.x = [a.x] %}{% set b.x = [b.x] %}{% endfor %}{{ a.x == b.x }}",
         "limit depth"},
        {"{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns }}", "limit depth"},
        {"{% set ns = namespace(l=[0]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}"
         "{% endfor %}{{ ns.l | tojson }}",
         "limit "},
        {"{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "limit depth"},
        {"{% macro f() %}{% if 0 %}{{ caller() }}{% endif %}{% call f() %}{% endcall %}"
         "{% endmacro %}{{ f() }}",
         "limit depth"},
        {"{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}", "limit depth"},
        {"{% set ns = namespace(x=10) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}"
         "{% endfor %}",
         "JINJA_INT_BITS"},
        {"{{ 10 ** 100000 }}", "JINJA_INT_BITS"},
        {"{{ '%1000000000d' % 1 }}", "limit output"},
        {"{{ '{:>1000000000}'.format(1) }}", "limit output"},
        {"{{ 'a'.ljust(10000000000) }}", "limit output"},
        {"{{ 'a\nb' | indent(10000000000) }}", "limit output"},
        {"{% set ns = namespace(s='a') %}{% for i in range(40) %}"
         "{% set ns.s = ns.s.replace('a', 'aaaa') %}{% endfor %}",
         "limit "},
        {"{{ '{:1000000000,}'.format(1) }}", "limit output"},
        {"{{ '%*d' % (10**9, 1) }}", "limit output"},
        {"{{ {'a': [1]} | tojson(indent=10**9) }}", "limit output"},
        {"{{ 'a' | center(10**18) }}", "limit output"},
        {"{{ [1] | batch(10**9, 0) | list }}", "limit "},
        {"{{ [1] | slice(10**9) | list }}", "limit "},
        {"{{ ('a ' * 10**6) | wordwrap(10, wrapstring='x' * 10000) }}", "limit output"},
        {"{{ lipsum(10**9) }}", "random text"},
        {"{% for i in range(99999) %}{% set c = cycler(*range(99999)) %}{% endfor %}", "limit "},
        {"{% macro f(n) %}{{ f(n - 1) if n }}{{ f(n - 1) if n }}{% endmacro %}{{ f(60) }}",
         "limit "},
        {"{{ 9 ** (9 ** 9) }}", "JINJA_INT_BITS"},
        {"{% for i in range(100000) %}{% set x = 3 ** 10000 // 7 ** 3000 %}{% endfor %}",
         "limit steps"},
        {"{% for i in range(100000) %}{% set x = {3 ** 10000: 1} %}{% endfor %}", "limit "},
        {"{{ ('9' * 1000000) | int }}", "JINJA_INT_BITS"},
        {"{% set s = 'ab' * 10 ** 6 %}{{ s.strip('x' * 10 ** 6 ~ 'ab') }}", "limit steps"},
        {"{% set s = 'a' * 10 ** 6 %}{{ s.rfind('a' * 10 ** 5 * 5 ~ 'b') }}", "limit steps"},
        {"{% set s = '\\u00df' * 10 ** 6 %}{% for i in range(999) %}{% set x = s.upper() %}"
         "{% endfor %}",
         "limit "},
        {"{{ ('\\u03a3' ~ '\\u0301' * 10 ** 5) * 1000 }}", "limit output"},
        {"{% for i in range(99999) %}{{ ('\\u03a3' ~ '\\u0301' * 10 ** 5) | lower }}{% endfor %}",
         "limit "},
        {"{{ (['a' * 100000] * 1000) | sort }}", "limit "},
        {"{{ ('a ' * 1000000) | pprint }}", "limit "},
        {"{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = [ns.l, ns.l] %}"
         "{% endfor %}{{ ns.l | pprint }}",
         "limit "},
        {"{% if 1 %}\n{{ 2 }\n", "line 2"},
        {"\xff", "UTF-8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(rows[i].source, strlen(rows[i].source), rows[i].names);
}

static void test_deep_source(void **state) {
    (void)state;
    static const struct {
        const char *head, *part, *middle, *back, *tail;
        size_t n;
    } rows[] = {
        {"{{ ", "(", "1", ")", " }}", 100000},
        {"{{ ", "[", "", "]", " }}", 20000},
        {"{{ ", "not ", "1", "", " }}", 50000},
        {"{{ ", "-", "1", "", " }}", 50000},
        {"{{ [", "{'a':", "1", "}", "] }}", 20000},
        {"{{ a", ".b", "", "", " }}", 50000},
        {"{{ a", "+1", "", "", " }}", 50000},
        {"{{ a", "|e", "", "", " }}", 50000},
        {"{{ ", "1 if 0 else ", "2", "", " }}", 20000},
        {"", "{% if 1 %}", "", "{% endif %}", "", 20000},
        {"", "{% for i in [1] %}", "", "{% endfor %}", "", 5000},
        {"{% for ", "(", "a", ")", " in [] %}{% endfor %}", 5000},
        {"", "{% macro f() %}", "", "{% endmacro %}", "", 5000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct str s = {0};
        str_puts(&s, rows[i].head);
        for (size_t k = 0; k < rows[i].n; k++) str_puts(&s, rows[i].part);
        str_puts(&s, rows[i].middle);
        for (size_t k = 0; k < rows[i].n; k++) str_puts(&s, rows[i].back);
        str_puts(&s, rows[i].tail);
        refused(s.p, s.n, "limit JINJA_");
        str_free(&s);
    }
    char *big = calloc(JINJA_SOURCE + 1, 1);
    refused(big, JINJA_SOURCE + 1, "limit JINJA_SOURCE");
    free(big);
}

// A long chain of elif is no nesting; growing text by pieces takes time and memory in proportion.
static void test_fine(void **state) {
    (void)state;
    struct str s = {0}, out = {0};
    struct error e = {0};
    str_puts(&s, "{% if 0 %}");
    for (int i = 0; i < 2000; i++) str_puts(&s, "{% elif 0 %}");
    str_puts(&s, "{% else %}yes{% endif %}{% set ns = namespace(s='', l=[]) %}{% for i in "
                 "range(100000) %}{% set ns.s = ns.s ~ 'abcdefgh' %}{% endfor %}{{ ns.s|length }}"
                 "{% for i in range(100000) %}{% set ns.l = ns.l + [i] %}{% endfor %}"
                 "{{ ns.l|length }}");
    bool ok = render_within(s.p, s.n, NULL, &jinja_default_limits, &out, NULL, &e);
    assert_string_equal(e.text, "");
    assert_true(ok);
    assert_string_equal(out.p, "yes800000100000");
    str_free(&s);
    str_free(&out);
}

// Text that shares memory must not show what a sibling appended.
static void test_appending_is_private(void **state) {
    (void)state;
    const char *source = "{% set a = 'x' * 200 ~ 'y' %}{% set b = a ~ '1' %}{% set c = a ~ '2' %}"
                         "{% set d = b ~ '3' %}{{ a[-2:] }} {{ b[-2:] }} {{ c[-2:] }} {{ d[-3:] }}"
                         "{% set p = [0] * 20 + [1] %}{% set q = p + [2] %}{% set r = p + [3] %}"
                         " {{ p[-1] }} {{ q[-1] }} {{ r[-1] }}";
    struct str out = {0};
    struct error e = {0};
    assert_true(render_within(source, strlen(source), NULL, &jinja_default_limits, &out, NULL, &e));
    assert_string_equal(out.p, "xy y1 y2 y13 1 2 3");
    str_free(&out);
}

static void *render_often(void *arg) {
    struct str out = {0};
    struct error e = {0};
    for (int i = 0; i < 200; i++) {
        str_clear(&out);
        assert_true(jinja_render(arg, NULL, &out, &e));
        assert_string_equal(out.p, "ababc3ababcd3ababc");
    }
    str_free(&out);
    return NULL;
}

static void test_threads_share_a_template(void **state) {
    (void)state;
    struct error e = {0};
    struct jinja *t =
        jinja_compile(sv("{% set a = 'ab' 'ab' %}{% for c in ['c', 'cd', 'c'] %}{{ a ~ c }}"
                         "{% if not loop.last %}{{ loop.length }}{% endif %}{% endfor %}"),
                      &e);
    assert_non_null(t);
    pthread_t id[4];
    for (int i = 0; i < 4; i++) pthread_create(&id[i], NULL, render_often, t);
    for (int i = 0; i < 4; i++) pthread_join(id[i], NULL);
    jinja_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_language),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_deep_source),
        cmocka_unit_test(test_fine),
        cmocka_unit_test(test_appending_is_private),
        cmocka_unit_test(test_threads_share_a_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
