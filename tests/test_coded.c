// Chats that are rendered by code, against what their publishers' code makes of the same
// conversations (tools/make_coded_chats.py).
#include "check.h"

#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "chat/chat.h"
#include "chat/reply.h"

// The chat of an empty folder of that model_type.
static struct chat *open_chat(const char *model_type) {
    char dir[] = "/tmp/test_coded-XXXXXX";
    struct error e = {0};
    assert_non_null(mkdtemp(dir));
    struct chat *c = chat_open(dir, sv(model_type), &e);
    assert_string_equal(e.text, "");
    rmdir(dir);
    return c;
}

static bool render(const struct chat *c, struct json_object *o, struct chat_prompt *out,
                   struct error *e) {
    struct chat_options opt = {
        .add_generation_prompt = json_bool_at(o, "generate", false),
        .continue_final_message = json_bool_at(o, "go_on", false),
        .tools = json_at(o, "tools"),
        .kwargs = json_at(o, "kwargs"),
    };
    return chat_render(c, json_at(o, "messages"), &opt, out, e);
}

// The spans are the pieces in order, and between them there are only marks.
static void check_plain(const struct chat_prompt *p, struct json_object *pieces) {
    struct sv text = str_sv(&p->text);
    size_t at = 0;
    assert_int_equal(p->spans, json_object_array_length(pieces));
    for (size_t i = 0; i <= p->spans; i++) {
        size_t to = i < p->spans ? p->plain[i].from : text.n;
        assert_true(at <= to);
        struct sv marks = sv_cut(text, at, to);
        while (marks.n) {
            static const char *const all[] = {"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"};
            size_t n = 0;
            for (size_t k = 0; k < 4; k++)
                if (sv_starts(marks, sv(all[k]))) n = strlen(all[k]);
            assert_true(n > 0);
            marks = sv_cut(marks, n, marks.n);
        }
        if (i == p->spans) break;
        at = p->plain[i].to;
        assert_true(sv_eq(sv_cut(text, to, at), json_text(json_object_array_get_idx(pieces, i))));
    }
}

static void check_line(struct json_object *o) {
    const char *model_type = json_text_at(o, "chat").p;
    struct json_object *want = json_at(o, "expected"), *pieces = json_at(o, "plain");
    struct chat *c = open_chat(model_type);
    struct chat_prompt out = {0};
    struct error e = {0};
    bool ok = render(c, o, &out, &e);
    if (want && (!ok || !sv_eq(str_sv(&out.text), json_text(want)))) {
        print_message("%s\n", json_object_to_json_string(o));
        assert_string_equal(ok ? str_c(&out.text) : e.text, json_text(want).p);
    }
    if (!want && (ok || !strstr(e.text, json_text_at(o, "error").p)))
        assert_string_equal(ok ? str_c(&out.text) : e.text, json_text_at(o, "error").p);
    if (!want) assert_null(out.text.p);
    if (pieces) check_plain(&out, pieces);
    if (!pieces) assert_int_equal(out.spans, 0);
    chat_prompt_free(&out);
    chat_close(c);
}

static void test_published(void **state) {
    (void)state;
    struct error e = {0};
    struct str file = {0};
    assert_true(file_read(FIXTURES "/chat/coded.jsonl", 1 << 20, &file, &e));
    struct sv rest = str_sv(&file);
    int n = 0;
    for (ptrdiff_t end; (end = sv_find(rest, sv("\n"), 0)) >= 0; n++) {
        struct json_object *o = json_read(sv_cut(rest, 0, (size_t)end), "line", &e);
        rest = sv_cut(rest, (size_t)end + 1, rest.n);
        assert_non_null(o);
        check_line(o);
        json_object_put(o);
    }
    assert_true(n > 90);
    str_free(&file);
}

// A template in the folder wins; each chat says what its replies look like.
static void test_choice(void **state) {
    static const char *const rows[][2] = {
        {"kimi_k3", "<|open|>think<|sep|>"},
        {"deepseek_v32", "<｜DSML｜function_calls>"},
        {"deepseek_v4", "<｜DSML｜tool_calls>"},
        {"GOT", "<imgpad>"},
        {"jvlm", "Assistant:"},
        {"jina_vlm", "Assistant:"},
        {"llama", NULL},
        {"kimi_linear", NULL},
    };
    (void)state;
    struct error e = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct chat *c = open_chat(rows[i][0]);
        assert_int_equal(chat_has_template(c), rows[i][1] != NULL);
        assert_int_equal(chat_ready(c, &(struct error){0}), rows[i][1] != NULL);
        if (rows[i][1]) assert_true(sv_find(chat_source(c, true), sv(rows[i][1]), 0) >= 0);
        chat_close(c);
    }
    char dir[] = "/tmp/test_coded-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *template = path_join(dir, "chat_template.jinja"),
         *ranks = path_join(dir, "tiktoken.model");
    assert_true(file_write(ranks, sv("x"), &e));
    struct chat *c = chat_open(dir, sv("kimi_linear"), &e);
    assert_true(sv_starts(chat_source(c, false), sv("<|open|>")));
    chat_close(c);
    assert_true(file_write(template, sv("own"), &e));
    c = chat_open(dir, sv("kimi_k3"), &e);
    assert_true(sv_is(chat_source(c, false), "own"));
    chat_close(c);
    unlink(template);
    unlink(ranks);
    rmdir(dir);
    free(template);
    free(ranks);
}

// What a request says of thinking and of its reply reaches them.
static void test_variables(void **state) {
    static const struct {
        const char *model_type, *request, *want;
    } rows[] = {
        {"kimi_k3",
         "{\"reasoning_effort\":\"low\",\"tool_choice\":\"none\",\"response_format\":"
         "{\"type\":\"json_object\"}}",
         "{\"enable_thinking\":true,\"reasoning_effort\":\"low\",\"tool_choice\":\"none\","
         "\"response_format\":{\"type\":\"json_object\"},\"thinking\":true}"},
        {"deepseek_v32", "{\"reasoning_effort\":\"low\",\"tool_choice\":\"none\"}",
         "{\"enable_thinking\":true,\"thinking\":true}"},
        {"deepseek_v4", "{\"reasoning_effort\":\"max\"}",
         "{\"enable_thinking\":true,\"reasoning_effort\":\"max\",\"thinking\":true}"},
    };
    (void)state;
    struct error e = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct chat *c = open_chat(rows[i].model_type);
        struct json_object *request = json_read(sv(rows[i].request), "request", &e);
        struct json_object *got = chat_kwargs(c, false, request, NULL, &e);
        struct json_object *want = json_read(sv(rows[i].want), "want", &e);
        if (!json_object_equal(got, want))
            assert_string_equal(json_object_to_json_string(got), rows[i].want);
        json_object_put(got);
        json_object_put(want);
        json_object_put(request);
        chat_close(c);
    }
}

// Their sources say how replies are marked, and their prompts begin one.
static void test_replies(void **state) {
    static const char *const types[] = {"kimi_k3", "deepseek_v32", "deepseek_v4"};
    (void)state;
    struct error e = {0};
    struct json_object *o = json_read(
        sv("{\"generate\":true,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}"), "line", &e);
    struct json_object *off = json_read(sv("{\"thinking\":false}"), "off", &e);
    for (size_t i = 0; i < 3; i++) {
        struct chat *c = open_chat(types[i]);
        struct reply_format format;
        struct chat_prompt out = {0};
        reply_format_of(chat_source(c, true), &format);
        assert_true(format.styles > 0);
        json_object_object_del(o, "kwargs");
        assert_true(render(c, o, &out, &e));
        assert_true(reply_opened_by(&format, str_sv(&out.text)));
        chat_prompt_free(&out);
        json_object_object_add(o, "kwargs", json_object_get(off));
        assert_true(render(c, o, &out, &e));
        assert_false(reply_opened_by(&format, str_sv(&out.text)));
        chat_prompt_free(&out);
        chat_close(c);
    }
    json_object_put(off);
    json_object_put(o);
}

// Jina VLM's, from its description: no independent renderer ships.
static void test_jina(void **state) {
    static const char *const rows[][2] = {
        {"{\"generate\":true,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
         " User: a Assistant:"},
        {"{\"generate\":true,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"},"
         "{\"type\":\"text\",\"text\":\"a\"}]}],\"kwargs\":{\"bos_token\":\"<B>\"}}",
         "<B> User: <|image|> a Assistant:"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
         "\"b\"}],\"kwargs\":{\"eos_token\":\"<E>\",\"always_start_with_space\":false}}",
         "<E>User: a Assistant: b"},
    };
    (void)state;
    struct error e = {0};
    struct chat *c = open_chat("jvlm");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json_object *o = json_read(sv(rows[i][0]), "line", &e);
        struct chat_prompt out = {0};
        assert_true(render(c, o, &out, &e));
        assert_string_equal(str_c(&out.text), rows[i][1]);
        chat_prompt_free(&out);
        json_object_put(o);
    }
    chat_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published), cmocka_unit_test(test_choice),
        cmocka_unit_test(test_variables), cmocka_unit_test(test_jina),
        cmocka_unit_test(test_replies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
