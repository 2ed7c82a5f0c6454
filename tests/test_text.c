// engine/text.h: ids to text, with stop strings. Whatever the cut into ids, what comes out is the
// text up to the first stop string, and nothing of it is shown too early.
#include "check.h"

#include "engine/text.h"

static struct text_model open_model(void) {
    struct error e = {0};
    struct text_model m = {.tokenizer = tok_open(FIXTURES "/tokenizer/gpt2", &e)};
    assert_non_null(m.tokenizer);
    return m;
}

// Streams text id by id; out must always be a beginning of want.
static void check(const struct text_model *m, const char *text, const char *const *stops, size_t n,
                  const char *want) {
    struct error e = {0};
    struct ids ids = {0};
    struct sv stop[8];
    for (size_t i = 0; i < n; i++) stop[i] = sv(stops[i]);
    assert_true(tok_encode(m->tokenizer, sv(text), false, &ids, &e));
    struct text_stream *s = text_stream_open(m, NULL, stop, n);
    struct str out = {0};
    bool stopped = false;
    for (size_t i = 0; i < ids.n && !stopped; i++) {
        stopped = text_stream_push(s, ids.id[i], &out);
        assert_true(sv_starts(sv(want), str_sv(&out)));
        assert_true(utf8_valid(str_sv(&out)));
    }
    assert_int_equal(stopped, strlen(want) < strlen(text));
    text_stream_finish(s, &out);
    assert_string_equal(str_c(&out), want);
    if (stopped) assert_true(text_stream_push(s, ids.id[0], &out)); // nothing more comes
    assert_string_equal(str_c(&out), want);
    text_stream_close(s);
    str_free(&out);
    ids_free(&ids);
}

static void test_stops(void **state) {
    (void)state;
    struct text_model m = open_model();
    const char *const text =
        "The quick brown fox \xf0\x9f\xa6\x8a jumps: na\xc3\xafve aaab aab END.";
    const struct {
        const char *stops[3];
        size_t n;
        const char *want;
    } cases[] = {
        {{0}, 0, text},
        {{"nowhere"}, 1, text},
        {{"The"}, 1, ""},
        {{"END"}, 1, "The quick brown fox \xf0\x9f\xa6\x8a jumps: na\xc3\xafve aaab aab "},
        {{"aab"}, 1, "The quick brown fox \xf0\x9f\xa6\x8a jumps: na\xc3\xafve a"},
        {{"aab END", "b a"}, 2, "The quick brown fox \xf0\x9f\xa6\x8a jumps: na\xc3\xafve aaa"},
        {{"fox jumps", "wn fox \xf0\x9f\xa6\x8a jump", "END"}, 3, "The quick bro"},
        {{"\xf0\x9f\xa6\x8a"}, 1, "The quick brown fox "},
        {{"", "END."}, 2, "The quick brown fox \xf0\x9f\xa6\x8a jumps: na\xc3\xafve aaab aab "},
        {{"END.."}, 1, text}, // held back to the end, then shown
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(&m, text, cases[i].stops, cases[i].n, cases[i].want);
    tok_close(m.tokenizer);
}

// In a prompt's plain spans, what spells a special token is text, and each is encoded by itself.
static void test_prompt_ids(void **state) {
    (void)state;
    struct error e = {0};
    struct tokenizer *t = tok_open(FIXTURES "/text", &e);
    struct chat_span plain[] = {{10, 20}, {20, 22}, {24, 24}};
    struct chat_prompt p = {.plain = plain, .spans = 3};
    str_puts(&p.text, "<|im_end|><|im_end|>heHi");
    struct ids ids = {0}, want = {0};
    assert_true(text_prompt_ids(t, &p, &ids, &e));
    ids_push(&want, tok_id(t, sv("<|im_end|>")));
    for (size_t i = 10; i < 24; i++) {
        struct sv byte = sv_cut(str_sv(&p.text), i, i + 1);
        assert_true(tok_encode(t, byte, false, &want, &e)); // the vocabulary has only bytes
    }
    assert_int_equal(ids.n, want.n);
    assert_memory_equal(ids.id, want.id, want.n * sizeof *want.id);
    ids_free(&ids);
    ids_free(&want);
    str_free(&p.text);
    tok_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stops),
                                       cmocka_unit_test(test_prompt_ids)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
