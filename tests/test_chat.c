// Conversations through published templates, against what jinja2 and the rules of transformers'
// apply_chat_template make of them (tools/make_chat_fixtures.py); and the reading of a checkpoint.
#include "check.h"

#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "chat/chat.h"

static struct chat *open_template(struct sv name) {
    struct str path = {0}, source = {0};
    struct error e = {0};
    str_printf(&path, "%s/chat/templates/%.*s", FIXTURES, (int)name.n, name.p);
    assert_true(file_read(path.p, 1 << 20, &source, &e));
    struct chat *c = chat_of_template(str_sv(&source), &e);
    assert_string_equal(e.text, "");
    str_free(&path);
    str_free(&source);
    return c;
}

static bool render_talk(const struct chat *c, struct json_object *talk, struct chat_prompt *out,
                        struct error *e) {
    struct json_object *kwargs = json_object_new_object();
    json_object_object_add(kwargs, "bos_token", json_object_new_string("<BOS>"));
    json_object_object_add(kwargs, "eos_token", json_object_new_string("<EOS>"));
    struct json_object *more = json_at(talk, "kwargs");
    struct json_object_iterator at = json_object_iter_begin(more ? more : kwargs);
    struct json_object_iterator end = json_object_iter_end(more ? more : kwargs);
    for (; more && !json_object_iter_equal(&at, &end); json_object_iter_next(&at))
        json_object_object_add(kwargs, json_object_iter_peek_name(&at),
                               json_object_get(json_object_iter_peek_value(&at)));
    struct chat_options opt = {
        .add_generation_prompt = json_bool_at(talk, "generate", false),
        .continue_final_message = json_bool_at(talk, "go_on", false),
        .tools = json_at(talk, "tools"),
        .documents = json_at(talk, "documents"),
        .kwargs = kwargs,
    };
    bool ok = chat_render(c, json_at(talk, "messages"), &opt, out, e);
    json_object_put(kwargs);
    return ok;
}

static void test_published(void **state) {
    (void)state;
    setenv("SOURCE_DATE_EPOCH", "1795955696", 1);
    struct error e = {0};
    struct str file = {0};
    struct chat_prompt out = {0};
    struct json_object *talks = json_read_file(FIXTURES "/chat/talks.json", 1 << 20, &e);
    assert_true(file_read(FIXTURES "/chat/talks.jsonl", 1 << 20, &file, &e));
    struct sv rest = str_sv(&file);
    int n = 0;
    for (ptrdiff_t end; (end = sv_find(rest, sv("\n"), 0)) >= 0; n++) {
        struct json_object *o = json_read(sv_cut(rest, 0, (size_t)end), "talk", &e);
        rest = sv_cut(rest, (size_t)end + 1, rest.n);
        struct chat *c = open_template(json_text_at(o, "template"));
        struct json_object *want = json_at(o, "expected");
        struct error why = {0};
        chat_prompt_free(&out);
        bool ok = render_talk(c, json_at(talks, json_text_at(o, "talk").p), &out, &why);
        if (ok != (want != NULL) || (ok && !sv_eq(str_sv(&out.text), json_text(want)))) {
            print_message("%s: %s\n", json_text_at(o, "template").p, json_text_at(o, "talk").p);
            assert_string_equal(ok ? str_c(&out.text) : why.text,
                                want ? json_text(want).p : "an error");
        }
        if (json_bool_at(o, "raised", false))
            assert_string_equal(why.text, json_text_at(o, "error").p);
        chat_close(c);
        json_object_put(o);
    }
    assert_true(n > 200);
    json_object_put(talks);
    str_free(&file);
    chat_prompt_free(&out);
}

// JSON with ' for ", of NULL: NULL.
static struct json_object *quoted(const char *text) {
    if (!text) return NULL;
    struct error e = {0};
    char *json = mem_text(text);
    for (char *p = json; *p; p++)
        if (*p == '\'') *p = '"';
    struct json_object *o = json_read(sv(json), "quoted", &e);
    assert_string_equal(e.text, "");
    free(json);
    return o;
}

struct folder {
    char path[64];
};

static struct folder folder_new(void) {
    struct folder d = {"/tmp/test_chat-XXXXXX"};
    assert_non_null(mkdtemp(d.path));
    return d;
}

static void folder_put(const struct folder *d, const char *name, const char *text) {
    struct error e = {0};
    char *path = path_join(d->path, name);
    assert_true(file_write(path, sv(text), &e));
    free(path);
}

static void folder_drop(const struct folder *d) {
    struct error e = {0};
    struct names names = {0};
    dir_list(d->path, &names, &e);
    for (size_t i = 0; i < names.n; i++) {
        char *path = path_join(d->path, names.name[i]);
        if (dir_exists(path)) {
            struct folder sub = {0};
            snprintf(sub.path, sizeof sub.path, "%s", path);
            folder_drop(&sub);
        }
        unlink(path);
        free(path);
    }
    names_free(&names);
    rmdir(d->path);
}

// What the folder's template makes of one user message "hi"; the error's text when it fails.
static void expect(const struct folder *d, const struct chat_options *opt, const char *want) {
    struct error e = {0};
    struct chat_prompt out = {0};
    struct chat *c = chat_open(d->path, sv(""), &e);
    struct json_object *m = json_read(sv("[{\"role\": \"user\", \"content\": \"hi\"}]"), "m", &e);
    bool ok = c && chat_render(c, m, opt, &out, &e);
    assert_string_equal(ok ? str_c(&out.text) : e.text, want);
    json_object_put(m);
    chat_prompt_free(&out);
    chat_close(c);
}

static void test_checkpoint(void **state) {
    (void)state;
    struct folder d = folder_new();
    struct chat_options plain = {0}, prompt = {.add_generation_prompt = true}, with_tools = {0};
    with_tools.tools = json_object_new_array();
    struct error e = {0};
    struct chat *none = chat_open(d.path, sv(""), &e);
    assert_non_null(none);
    assert_false(chat_has_template(none));
    assert_false(chat_ready(none, &e));
    assert_non_null(strstr(e.text, "no chat template"));
    assert_int_equal(chat_source(none, true).n, 0);
    chat_close(none);

    folder_put(&d, "chat_template.json", "{\"chat_template\": \"json {{ messages[0].content }}\"}");
    expect(&d, &plain, "json hi");
    folder_put(&d, "special_tokens_map.json", "{\"bos_token\": \"<a>\", \"eos_token\": \"</a>\"}");
    folder_put(&d, "tokenizer_config.json",
               "{\"bos_token\": {\"content\": \"<s>\"}, \"pad_token\": null,"
               " \"extra_special_tokens\": {\"image_token\": \"<i>\"}, \"chat_template\":"
               " \"{{ bos_token }}{{ eos_token }}{{ pad_token }}{{ image_token }}"
               "{{ add_generation_prompt }} {{ tools is none }}\"}");
    expect(&d, &prompt, "<s></a><i>True True");
    folder_put(&d, "tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"tools\"},"
               " {\"name\": \"default\", \"template\": \"plain\"}]}");
    expect(&d, &plain, "plain");
    expect(&d, &with_tools, "tools");
    struct chat *named = chat_open(d.path, sv(""), &(struct error){0});
    assert_true(sv_is(chat_source(named, true), "tools"));
    assert_true(sv_is(chat_source(named, false), "plain"));
    chat_close(named);
    folder_put(&d, "tokenizer_config.json", "{\"chat_template\": 3}");
    struct str want = {0};
    str_printf(&want,
               "%s/tokenizer_config.json: key \"chat_template\" must be text or a list of "
               "named templates",
               d.path);
    expect(&d, &plain, want.p);
    str_free(&want);
    folder_put(&d, "chat_template.jinja", "file {{ bos_token }}");
    expect(&d, &plain, "file <a>");
    expect(&d, &with_tools, "file <a>");
    struct folder more = d;
    strcat(more.path, "/additional_chat_templates");
    assert_true(dir_make(more.path, &(struct error){0}));
    folder_put(&more, "tool_use.jinja", "more");
    expect(&d, &with_tools, "more");
    folder_put(&d, "chat_template.jinja", "\n{% if %}");
    expect(&d, &plain,
           "chat template \"default\": line 2: expected 'an expression', got 'end of statement "
           "block'");
    json_object_put(with_tools.tools);
    folder_drop(&d);
}

// A conversation as OpenAI's clients send it back, through a published template: the prompt must
// tell of the call. Some can't take it as transformers gives it to them, with arguments as an
// object and without the content.
static void test_fit_calls(void **state) {
    (void)state;
    static const char *const names[] = {"Qwen-Qwen3-0.6B",
                                        "tokenizer-deepseek_v3",
                                        "meta-llama-Llama-3.1-8B-Instruct",
                                        "Qwen-Qwen2.5-7B-Instruct",
                                        "Qwen3-Coder",
                                        "deepseek-ai-DeepSeek-V3.1",
                                        "tool_chat_template_hermes",
                                        "openai-gpt-oss-120b",
                                        "GLM-4.6",
                                        "Kimi-K3",
                                        "MiniMax-M2",
                                        "ibm-granite-granite-4.0",
                                        "Qwen-QwQ-32B",
                                        "ByteDance-Seed-OSS",
                                        "tool_chat_template_mistral",
                                        "Qwen3.5-4B",
                                        "tool_chat_template_gemma4"};
    static const char talk[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\","
        "\"content\":null,\"tool_calls\":[{\"id\":\"call56789\",\"type\":\"function\",\"function\":"
        "{\"name\":\"weather\",\"arguments\":\"{\\\"city\\\":\\\"Oslo\\\"}\"}}]},{\"role\":\"tool\","
        "\"tool_call_id\":\"call56789\",\"content\":\"rain\"}],\"tools\":[{\"type\":\"function\","
        "\"function\":{\"name\":\"weather\",\"description\":\"it\",\"parameters\":{\"type\":"
        "\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"description\":\"where\"}}}}}]}";
    struct error e = {0};
    struct json_object *o = json_read(sv(talk), "talk", &e), *messages = json_at(o, "messages");
    struct str before = {0};
    str_puts(&before, json_object_to_json_string(messages));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct folder d = folder_new();
        struct str path = {0}, source = {0};
        struct chat_prompt out = {0};
        struct chat_options opt = {
            .add_generation_prompt = true, .fit_calls = true, .tools = json_at(o, "tools")};
        str_printf(&path, "%s/chat/templates/%s.jinja", FIXTURES, names[i]);
        assert_true(file_read(path.p, 1 << 20, &source, &e));
        folder_put(&d, "chat_template.jinja", str_c(&source));
        folder_put(&d, "tokenizer_config.json", "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}");
        struct chat *c = chat_open(d.path, sv(""), &e);
        if (!chat_render(c, messages, &opt, &out, &e) || !strstr(str_c(&out.text), "Oslo") ||
            strstr(str_c(&out.text), "None") || strstr(str_c(&out.text), "{'"))
            fail_msg("%s: %s%s", names[i], e.text, str_c(&out.text));
        chat_close(c);
        chat_prompt_free(&out);
        str_free(&path);
        str_free(&source);
        folder_drop(&d);
    }
    assert_string_equal(json_object_to_json_string(messages), before.p);
    str_free(&before);
    json_object_put(o);
}

// Tools, calls and results through templates that know none of them: the tools are told of, and all
// the rest is text of users and assistants.
static void test_generic_calls(void **state) {
    (void)state;
#define ASKED "{\"role\":\"user\",\"content\":\"Hi\"}"
#define CALLED                                                                                            \
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\","       \
    "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}},{\"id\":\"b\",\"type\":\"function\"," \
    "\"function\":{\"name\":\"g\",\"arguments\":{}}}]}"
#define CAME                                                                                       \
    "{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":\"r\\n2\"},"                            \
    "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"r1\"}"
#define TOLD                                                                                       \
    "{\"tool_calls\": [{\"name\": \"f\", \"arguments\": {\"x\":1}}, "                              \
    "{\"name\": \"g\", \"arguments\": {}}]}"
#define RESULTS                                                                                    \
    "{\"tool_result\": {\"name\":\"g\", \"content\": \"r\\n2\"}}\n"                                \
    "{\"tool_result\": {\"name\":\"f\", \"content\": \"r1\"}}"
    static const char plain[] = "{% for m in messages %}[{{ m.role }}|{{ m.content }}]{% endfor %}",
                      no_system[] =
                          "{% for m in messages %}{% if m.role != ['user', 'assistant']"
                          "[loop.index0 % 2] %}{{ raise_exception('take turns') }}{% endif %}"
                          "[{{ m.role }}|{{ m.content }}]{% endfor %}";
    static const struct {
        const char *source, *messages;
        bool tools, go_on;
        const char *want; // @ stands for what tells of the tools
    } cases[] = {
        {plain, "[" ASKED "]", true, false, "[system|@][user|Hi]"},
        {plain, "[{\"role\":\"system\",\"content\":\"S\"}," ASKED "]", true, false,
         "[system|S\n\n@][user|Hi]"},
        {no_system, "[" ASKED "]", true, false, "[user|@\n\nHi]"},
        {plain, "[" ASKED "," CALLED "," CAME "]", true, false,
         "[system|@][user|Hi][assistant|" TOLD "][user|" RESULTS "]"},
        {no_system, "[" ASKED "," CALLED "," CAME "," ASKED "]", true, false,
         "[user|@\n\nHi][assistant|" TOLD "][user|" RESULTS "\n\nHi]"},
        {no_system, "[" ASKED "," CALLED "," CAME "]", false, false,
         "[user|Hi][assistant|" TOLD "][user|" RESULTS "]"},
        {plain, "[" ASKED ",{\"role\":\"assistant\",\"content\":\"a \\\"b\\\"\"}," ASKED "]", true,
         false, "[system|@][user|Hi][assistant|{\"response\": \"a \\\"b\\\"\"}][user|Hi]"},
        {plain, "[" ASKED ",{\"role\":\"assistant\",\"content\":\"a\"}," ASKED "]", false, false,
         "[user|Hi][assistant|a][user|Hi]"},
        {plain, "[" ASKED ",{\"role\":\"assistant\",\"content\":\"I go\"}]", true, true,
         "[system|@][user|Hi][assistant|I go"},
    };
    struct error e = {0};
    struct json_object *tools = json_read(
        sv("[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"does\","
           "\"parameters\":{\"type\":\"object\"}}}]"),
        "tools", &e);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct folder d = folder_new();
        folder_put(&d, "chat_template.jinja", cases[i].source);
        struct chat *c = chat_open(d.path, sv(""), &e);
        struct json_object *messages = json_read(sv(cases[i].messages), "messages", &e);
        struct chat_options opt = {.fit_calls = true,
                                   .continue_final_message = cases[i].go_on,
                                   .tools = cases[i].tools ? tools : NULL};
        struct chat_prompt out = {0};
        if (!chat_render(c, messages, &opt, &out, &e)) fail_msg("%zu: %s", i, e.text);
        struct sv got = str_sv(&out.text), want = sv(cases[i].want);
        ptrdiff_t at = sv_find(want, sv("@"), 0);
        struct sv end = sv_cut(want, at < 0 ? 0 : (size_t)at + 1, want.n);
        if (!sv_starts(got, sv_cut(want, 0, at < 0 ? 0 : (size_t)at)) || !sv_ends(got, end) ||
            (at < 0 && got.n != end.n))
            fail_msg("%zu: %s\nwant %s", i, got.p, want.p);
        static const char function[] =
            "{\"name\":\"f\",\"description\":\"does\",\"parameters\":{\"type\":\"object\"}}";
        assert_int_equal(sv_find(got, sv(function), 0) > 0, cases[i].tools);
        json_object_put(messages);
        chat_prompt_free(&out);
        chat_close(c);
        folder_drop(&d);
    }
    json_object_put(tools);
}

static void test_requests(void **state) {
    (void)state;
    static const struct {
        const char *messages, *want;
        bool go_on, generate;
    } rows[] = {
        {"{}", "messages must be a list", false, false},
        {"[]", "messages is empty", false, false},
        {"[1]", "messages[0] must be an object, not a number", false, false},
        {"[{\"role\": \"user\", \"content\": \"\"}, {\"content\": \"x\"}]",
         "messages[1].role is missing", false, false},
        {"[{\"role\": null}]", "messages[0].role must be text, not null", false, false},
        {"[{\"role\": \"user\", \"content\": 3}]",
         "messages[0].content must be text or a list of parts, not a number", false, false},
        {"[{\"role\": \"user\", \"content\": [\"a\", 3]}]",
         "messages[0].content[1] must be an object or text, not a number", false, false},
        {"[{\"role\": \"user\"}]", "messages[0].content is missing", false, false},
        {"[{\"role\": \"user\", \"content\": null, \"tool_calls\": [{}]}]",
         "messages[0].content is null", false, false},
        {"[{\"role\": \"assistant\", \"tool_calls\": []}]", "messages[0].content is missing", false,
         false},
        {"[{\"role\": \"assistant\", \"tool_calls\": [{}]}]",
         "chat template, line 1: 'dict object' has no attribute 'content'", false, false},
        {"[{\"role\": \"assistant\", \"tool_calls\": [{}]}]", "no content to continue", true,
         false},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]", "no text to continue",
         true, false},
        {"[{\"role\": \"user\", \"content\": \"x\"}]", "exclude each other", true, true},
    };
    struct error none = {0};
    struct chat *c = chat_of_template(sv("{{ '' + messages[0].content }}"), &none);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error e = {0};
        struct chat_prompt out = {0};
        struct json_object *m = json_read(sv(rows[i].messages), "m", &none);
        struct chat_options opt = {.add_generation_prompt = rows[i].generate,
                                   .continue_final_message = rows[i].go_on};
        assert_false(chat_check_contents(m, &e) && chat_render(c, m, &opt, &out, &e));
        if (!strstr(e.text, rows[i].want)) assert_string_equal(e.text, rows[i].want);
        assert_null(out.text.p);
        json_object_put(m);
        chat_prompt_free(&out);
    }
    chat_close(c);
}

// A template gives exactly the text that it raises; an assistant may call tools instead of
// speaking.
static void test_faults(void **state) {
    static const char *const rows[][2] = {
        {"{{ raise_exception('line 3: no') }}", "line 3: no"},
        {"\n{{ 1 // 0 }}", "chat template, line 2: integer division or modulo by zero"},
        {"{{ 'calls' if messages[0].tool_calls and not messages[0].content }}", "calls"},
    };
    (void)state;
    struct error none = {0};
    struct json_object *m = json_read(
        sv("[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{}]}]"), "m", &none);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error e = {0};
        struct chat_prompt out = {0};
        struct chat *c = chat_of_template(sv(rows[i][0]), &none);
        bool ok = chat_render(c, m, &(struct chat_options){0}, &out, &e);
        assert_int_equal(ok, i == 2);
        assert_string_equal(ok ? out.text.p : e.text, rows[i][1]);
        chat_close(c);
        chat_prompt_free(&out);
    }
    json_object_put(m);
}

// What requests say of thinking, as the template's variables. The rules are mlxcel's own.
static void test_kwargs(void **state) {
    static const char plain[] = "{{ enable_thinking }}", levels[] = "{{ reasoning_effort }}",
                      strength[] = "{% if reasoning_strength == 'x' %}{% endif %}",
                      alias[] = "{% if not thinking is defined %}{% endif %}",
                      mode[] = "{{ thinking_mode == 'enabled' }}",
                      nothing[] =
                          "{# reasoning_effort #}{{ 'reasoning_strength' }}{{ m.thinking_mode }}"
                          "{% if thinking %}{% endif %}";
    static const struct {
        const char *source, *request, *defaults, *want;
    } rows[] = {
        {plain, "{}", NULL, "{}"},
        {plain, "{'reasoning_effort':null,'reasoning':null,'chat_template_kwargs':null}", NULL,
         "{}"},
        {plain, "{'reasoning_effort':' Off '}", NULL, "{'enable_thinking':false}"},
        {plain, "{'reasoning_effort':'NONE'}", NULL, "{'enable_thinking':false}"},
        {plain, "{'reasoning_effort':'disabled'}", NULL, "{'enable_thinking':false}"},
        {plain, "{'reasoning_effort':'false'}", NULL, "{'enable_thinking':false}"},
        {plain, "{'reasoning_effort':'0'}", NULL, "{'enable_thinking':false}"},
        {plain, "{'reasoning_effort':'00'}", NULL, "{'enable_thinking':true}"},
        {plain, "{'reasoning_effort':'  '}", NULL, "{}"},
        {plain, "{'reasoning_effort':'high'}", NULL, "{'enable_thinking':true}"},
        {levels, "{'reasoning_effort':' xHigh'}", NULL,
         "{'enable_thinking':true,'reasoning_effort':' xHigh'}"},
        {levels, "{'reasoning_effort':'off'}", "{'reasoning_effort':'low','x':1}",
         "{'reasoning_effort':'low','x':1,'enable_thinking':false}"},
        {levels, "{'reasoning':{'effort':'low','summary':'auto'}}", "{'reasoning_effort':'high'}",
         "{'reasoning_effort':'low','enable_thinking':true}"},
        {levels, "{'reasoning':{'effort':'low'},'reasoning_effort':'high'}", NULL,
         "{'enable_thinking':true,'reasoning_effort':'high'}"},
        {levels, "{'reasoning':{}}", NULL, "{}"},
        {levels, "{'reasoning':false}", NULL, "{'enable_thinking':false}"},
        {levels, "{'reasoning':true}", NULL, "{'enable_thinking':true}"},
        {levels, "{'enable_thinking':false,'reasoning_effort':'high'}", NULL,
         "{'enable_thinking':false}"},
        {levels, "{'enable_thinking':true,'reasoning_effort':'high'}", NULL,
         "{'enable_thinking':true,'reasoning_effort':'high'}"},
        {levels,
         "{'reasoning_effort':'high','chat_template_kwargs':{'reasoning_effort':'low',"
         "'enable_thinking':false}}",
         "{'y':2}", "{'y':2,'enable_thinking':false,'reasoning_effort':'low'}"},
        {strength, "{'reasoning_effort':'max'}", NULL,
         "{'enable_thinking':true,'reasoning_strength':'max'}"},
        {nothing, "{'reasoning_effort':'max'}", NULL, "{'enable_thinking':true}"},
        {alias, "{'reasoning_effort':'max'}", NULL, "{'enable_thinking':true,'thinking':true}"},
        {"{{ 'a' if thinking is undefined }}", "{'reasoning':false}", NULL,
         "{'enable_thinking':false,'thinking':false}"},
        {"{% macro f(a=thinking is not defined) %}{% endmacro %}", "{'reasoning':true}", NULL,
         "{'enable_thinking':true,'thinking':true}"},
        {"{% if x %}{% elif f(1, a=[not thinking is defined]) %}{% endif %}", "{'reasoning':true}",
         NULL, "{'enable_thinking':true,'thinking':true}"},
        {alias, "{}", "{'enable_thinking':false}", "{'enable_thinking':false,'thinking':false}"},
        {alias, "{}", "{'enable_thinking':false,'thinking':true}",
         "{'enable_thinking':false,'thinking':true}"},
        {alias, "{'reasoning':false}", "{'thinking':true}",
         "{'thinking':false,'enable_thinking':false}"},
        {alias, "{'chat_template_kwargs':{'enable_thinking':true}}", "{'thinking':false}",
         "{'thinking':true,'enable_thinking':true}"},
        {alias, "{'reasoning':false,'chat_template_kwargs':{'thinking':true}}", NULL,
         "{'enable_thinking':false,'thinking':true}"},
        {alias, "{'chat_template_kwargs':{'thinking':true}}", NULL, "{'thinking':true}"},
        {mode, "{'reasoning':true}", NULL, "{'enable_thinking':true,'thinking_mode':'enabled'}"},
        {mode, "{'reasoning':false}", NULL, "{'enable_thinking':false}"},
        {mode, "{'reasoning':true,'chat_template_kwargs':{'thinking_mode':'x'}}", NULL,
         "{'enable_thinking':true,'thinking_mode':'x'}"},
        {plain, "{'reasoning_effort':3}", NULL, "reasoning_effort must be text, not a number"},
        {plain, "{'reasoning':{'effort':true}}", NULL,
         "reasoning.effort must be text, not a boolean"},
        {plain, "{'reasoning':'high'}", NULL,
         "reasoning must be an object with an effort, true or false, not a string"},
        {plain, "{'enable_thinking':'yes'}", NULL,
         "enable_thinking must be true or false, not a string"},
        {plain, "{'chat_template_kwargs':[]}", NULL,
         "chat_template_kwargs must be an object, not an array"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error e = {0};
        struct chat *c = chat_of_template(sv(rows[i].source), &e);
        struct json_object *request = quoted(rows[i].request), *defaults = quoted(rows[i].defaults);
        struct json_object *got = chat_kwargs(c, false, request, defaults, &e);
        struct json_object *want = got ? quoted(rows[i].want) : NULL;
        if (!got) assert_string_equal(e.text, rows[i].want);
        if (got && !json_object_equal(got, want))
            assert_string_equal(json_object_to_json_string(got), rows[i].want);
        json_object_put(got);
        json_object_put(want);
        json_object_put(request);
        json_object_put(defaults);
        chat_close(c);
    }
}

// A family that thinks unless it is told otherwise.
static void test_used_to_think(void **state) {
    static const char *const rows[][3] = {
        {"{}", NULL, "{'enable_thinking':true}"},
        {"{}", "{'enable_thinking':false}", "{'enable_thinking':false}"},
        {"{'reasoning_effort':'none'}", NULL, "{'enable_thinking':false}"},
    };
    (void)state;
    struct folder d = folder_new();
    struct error e = {0};
    struct chat *c = chat_open(d.path, sv("gemma4_unified"), &e);
    for (size_t i = 0; i < 3; i++) {
        struct json_object *request = quoted(rows[i][0]), *defaults = quoted(rows[i][1]);
        struct json_object *want = quoted(rows[i][2]);
        struct json_object *got = chat_kwargs(c, false, request, defaults, &e);
        assert_true(json_object_equal(got, want));
        json_object_put(got);
        json_object_put(want);
        json_object_put(request);
        json_object_put(defaults);
    }
    chat_close(c);
    folder_drop(&d);
}

// The last text part goes on; what was passed in stays as it was.
static void test_continue_parts(void **state) {
    (void)state;
    struct error e = {0};
    struct chat_prompt out = {0};
    const char *text = "[{\"role\":\"assistant\",\"content\":[{\"text\":\"a\"},{\"text\":\"b \"},"
                       "{\"type\":\"image\"}]}]";
    struct json_object *m = json_read(sv(text), "m", &e);
    struct chat *c = chat_of_template(
        sv("{% for p in messages[0].content %}[{{ p.text | trim }}]{% endfor %}"), &e);
    struct chat_options opt = {.continue_final_message = true};
    assert_true(chat_render(c, m, &opt, &out, &e));
    assert_string_equal(out.text.p, "[a][b");
    assert_string_equal(json_object_to_json_string_ext(m, JSON_C_TO_STRING_PLAIN), text);
    json_object_put(m);
    chat_prompt_free(&out);
    chat_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),      cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_requests),       cmocka_unit_test(test_fit_calls),
        cmocka_unit_test(test_generic_calls),  cmocka_unit_test(test_faults),
        cmocka_unit_test(test_continue_parts), cmocka_unit_test(test_kwargs),
        cmocka_unit_test(test_used_to_think),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
