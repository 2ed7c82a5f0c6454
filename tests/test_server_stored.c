// mlxcel-server: responses that are stored, and that nothing that was told is lost.
#include "store_folder.h"
#include "responses_client.h"

#include <sys/resource.h>

#include "base/file.h"

enum { KILLS = 4, BIG = 300000, LIMIT = 200000, CLIENTS = 8, TURNS = 5 };

static struct server text, tools;

static int start(void **state) {
    (void)state;
    server_start(&text, ARGS("-m", MODEL, "--responses-store-file", ":memory:"));
    server_start(&tools, ARGS("-m", MODEL_TOOLS, "--responses-store-file", ":memory:"));
    return 0;
}

static int stop(void **state) {
    (void)state;
    return server_stop(&text) | server_stop(&tools);
}

// --- stored ones ---------------------------------------------------------------------------------

static void get_at(const struct server *s, struct answer *a, const char *id, const char *more) {
    struct str path = {0};
    str_printf(&path, RESPONSES "/%s%s", id, more);
    get(s, a, path.p);
    str_free(&path);
}

static bool is_stored(const struct server *s, const char *id) {
    struct answer a;
    get_at(s, &a, id, "");
    bool there = a.status == 200;
    assert_true(there || a.status == 404);
    answer_free(&a);
    return there;
}

static void stored(void **state) {
    struct answer made, got;
    struct str path = {0};
    (void)state;
    post(&text, &made, RESPONSES, "{\"input\":\"Hi\"" COLD "}");
    struct json_object *o = json_of(str_sv(&made.body));
    char *id = id_of(o);
    assert_true(json_bool_at(o, "store", false));
    get_at(&text, &got, id, "");
    assert_string_equal(got.body.p, made.body.p);
    answer_free(&got);
    get_at(&text, &got, id, "?stream=true");
    expect_refusal(&got, 400, "stream", "was not made in the background");
    answer_free(&got);
    str_printf(&path, RESPONSES "/%s/cancel", id);
    post(&text, &got, path.p, "");
    expect_refusal(&got, 400, NULL, "Cannot cancel a synchronous response.");
    answer_free(&got);
    str_clear(&path);
    str_printf(&path, "/responses/%s", id);
    ask(&text, &got, "DELETE", path.p, "", sv(""));
    assert_int_equal(got.status, 200);
    struct json_object *gone = json_of(str_sv(&got.body));
    check_text(gone, "id", id);
    assert_true(json_bool_at(gone, "deleted", false));
    answer_free(&got);
    ask(&text, &got, "DELETE", path.p, "", sv(""));
    expect_refusal(&got, 404, NULL, "not found");
    answer_free(&got);
    assert_false(is_stored(&text, id));
    json_object_put(gone);
    json_object_put(o);
    free(id);
    o = create(&text, "{\"input\":\"Hi\",\"store\":false" COLD "}");
    id = id_of(o);
    assert_false(json_bool_at(o, "store", true));
    assert_false(is_stored(&text, id));
    json_object_put(o);
    free(id);
    str_free(&path);
    answer_free(&made);
    get(&text, &got, RESPONSES);
    expect_refusal(&got, 405, NULL, "takes POST");
    answer_free(&got);
    post(&text, &got, RESPONSES "/x/y", "{}");
    expect_refusal(&got, 404, NULL, "no route");
    answer_free(&got);
    post(&text, &got, RESPONSES "/x/cancel", "");
    expect_refusal(&got, 404, NULL, "not found");
    answer_free(&got);
    get_at(&text, &got, "x", "?stream=true");
    expect_refusal(&got, 404, NULL, "not found");
    answer_free(&got);
    get_at(&text, &got, "x", "/input_items");
    expect_refusal(&got, 404, NULL, "not found");
    answer_free(&got);
}

// What is streamed is stored before its last event, as that has it.
static void stored_stream(void **state) {
    struct stream t;
    struct answer a;
    (void)state;
    stream_of(&text, "{\"input\":\"Hi\",\"stream\":true" COLD "}", &t);
    struct json_object *o = json_of(str_sv(&t.last));
    char *id = id_of(o);
    get_at(&text, &a, id, "");
    assert_string_equal(a.body.p, t.last.p);
    answer_free(&a);
    json_object_put(o);
    stream_free(&t);
    free(id);
}

static struct json_object *items_at(const struct server *s, const char *id, const char *query) {
    struct answer a;
    struct str more = {0};
    str_printf(&more, "/input_items%s", query);
    get_at(s, &a, id, more.p);
    if (a.status != 200) fail_msg("%s: %d %s", query, a.status, str_c(&a.body));
    struct json_object *o = json_of(str_sv(&a.body));
    answer_free(&a);
    str_free(&more);
    check_text(o, "object", "list");
    return o;
}

// A conversation that goes on by an id has the prompt of one that is sent whole.
static void chain(void **state) {
    struct str body = {0};
    (void)state;
    struct json_object *first =
        create(&tools, "{\"input\":\"Hi\",\"instructions\":\"Not carried over\"," WEATHER "}");
    char *id = id_of(first);
    struct sv call = json_text_at(output(first, 2), "call_id");
    str_printf(&body,
               "{\"previous_response_id\":\"%s\"," WEATHER ",\"max_output_tokens\":1,\"input\":[{"
               "\"type\":\"function_call_output\",\"call_id\":\"%.*s\",\"output\":\"rain\"}]}",
               id, (int)call.n, call.p);
    struct json_object *second = create(&tools, body.p);
    check_text(second, "previous_response_id", id);
    struct json_object *chat = post_json(
        &tools, CHAT,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\","
        "\"reasoning_content\":\"Zurich?\",\"content\":\"I look.\",\"tool_calls\":[{\"id\":\"a\","
        "\"type\":\"function\",\"function\":{\"name\":\"weather\",\"arguments\":\"{\\\"city\\\": "
        "\\\"Z\xc3\xbcrich\\\"}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":"
        "\"rain\"}],\"max_tokens\":1,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":"
        "\"weather\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":"
        "\"string\"}}},\"strict\":true}}]}");
    assert_int_equal(input_tokens(second),
                     json_int_at(json_at(chat, "usage"), "prompt_tokens", -2));
    // The first may go: the second has all that was said.
    char *next = id_of(second);
    str_clear(&body);
    str_printf(&body, RESPONSES "/%s", id);
    struct answer a;
    ask(&tools, &a, "DELETE", body.p, "", sv(""));
    assert_int_equal(a.status, 200);
    answer_free(&a);
    struct json_object *items = items_at(&tools, next, "?order=asc");
    static const char *const types[] = {"message", "reasoning", "message", "function_call",
                                        "function_call_output"};
    assert_int_equal(length(items, "data"), 5);
    for (size_t i = 0; i < 5; i++) check_text(nth(json_at(items, "data"), i), "type", types[i]);
    json_object_put(items);
    str_clear(&body);
    str_printf(&body, "{\"previous_response_id\":\"%s\",\"input\":\"More\"," WEATHER "}", next);
    struct json_object *third = create(&tools, body.p);
    assert_true(input_tokens(third) > input_tokens(second));
    json_object_put(third);
    json_object_put(first);
    json_object_put(second);
    json_object_put(chat);
    free(id);
    free(next);
    str_free(&body);
}

static void input_items(void **state) {
    struct str body = {0}, query = {0};
    (void)state;
    str_puts(&body, "{\"store\":true,\"input\":[{\"id\":\"mine_1\",\"role\":\"user\",\"content\":"
                    "\"0\"},{\"id\":\"not good\",\"role\":\"user\",\"content\":\"1\"}");
    for (int i = 2; i < 25; i++) str_printf(&body, ",{\"role\":\"user\",\"content\":\"%d\"}", i);
    str_puts(&body, "],\"max_output_tokens\":1}");
    struct json_object *o = create(&text, body.p);
    char *id = id_of(o);
    struct json_object *page = items_at(&text, id, ""), *data = json_at(page, "data");
    assert_int_equal(length(page, "data"), 20);
    assert_true(json_bool_at(page, "has_more", false));
    check_text(part(nth(data, 0)), "text", "24");
    check_text(part(nth(data, 0)), "type", "input_text");
    check_text(nth(data, 0), "role", "user");
    check_text(nth(data, 0), "status", "completed");
    struct sv last = json_text_at(page, "last_id");
    assert_true(sv_eq(last, json_text_at(nth(data, 19), "id")));
    assert_true(sv_eq(json_text_at(page, "first_id"), json_text_at(nth(data, 0), "id")));
    str_printf(&query, "?after=%.*s&limit=100", (int)last.n, last.p);
    struct json_object *rest = items_at(&text, id, query.p);
    assert_int_equal(length(rest, "data"), 5);
    assert_false(json_bool_at(rest, "has_more", true));
    check_text(nth(json_at(rest, "data"), 4), "id", "mine_1");
    check_id(nth(json_at(rest, "data"), 3), "id", "msg_");
    json_object_put(rest);
    rest = items_at(&text, id, "?after=mine_1");
    assert_int_equal(length(rest, "data"), 0);
    assert_null(json_at(rest, "first_id"));
    json_object_put(rest);
    rest = items_at(&text, id, "?order=asc&limit=1");
    check_text(part(nth(json_at(rest, "data"), 0)), "text", "0");
    json_object_put(rest);
    static const char *const wrong[][2] = {
        {"limit=0", "limit"},  {"limit=101", "limit"},  {"limit=x", "limit"},
        {"order=up", "order"}, {"after=mine", "after"}, {"limit=", "limit"},
    };
    for (size_t i = 0; i < 6; i++) {
        struct answer a;
        str_clear(&query);
        str_printf(&query, "/input_items?%s", wrong[i][0]);
        get_at(&text, &a, id, query.p);
        expect_refusal(&a, 400, wrong[i][1], wrong[i][1]);
        answer_free(&a);
    }
    json_object_put(page);
    json_object_put(o);
    free(id);
    str_free(&body);
    str_free(&query);
}

// One client of several: what it stores is its own, whatever the others do.
static void *talk(void *arg) {
    bool *ok = arg;
    struct str path = {0}, body = {0};
    char id[64] = "";
    *ok = true;
    for (int i = 0; i < TURNS && *ok; i++) {
        struct answer made, got;
        str_clear(&body);
        str_printf(&body, "{\"input\":\"Hi\",\"max_output_tokens\":2%s%s%s}",
                   *id ? ",\"previous_response_id\":\"" : "", id, *id ? "\"" : "");
        post(&text, &made, RESPONSES, body.p);
        *ok = made.status == 200 && sscanf(str_c(&made.body), "{\"id\":\"%63[^\"]", id) == 1;
        str_clear(&path);
        str_printf(&path, RESPONSES "/%s", id);
        get(&text, &got, path.p);
        *ok = *ok && got.status == 200 && sv_eq(str_sv(&got.body), str_sv(&made.body));
        answer_free(&made);
        answer_free(&got);
    }
    str_free(&path);
    str_free(&body);
    return NULL;
}

static void together(void **state) {
    pthread_t thread[CLIENTS];
    bool ok[CLIENTS];
    (void)state;
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, talk, &ok[i]), 0);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(thread[i], NULL);
        assert_true(ok[i]);
    }
}

// --- faults --------------------------------------------------------------------------------------

static void kill_hard(struct server *s) {
    kill(s->pid, SIGKILL);
    assert_int_equal(server_end(s), 128 + SIGKILL);
}

// Whoever has got an answer finds it again, however the server ended.
static void killed(void **state) {
    struct names ids = {0};
    (void)state;
    for (int i = 0; i < KILLS; i++) {
        struct server s;
        server_start(&s, ARGS("-m", MODEL, "--responses-store-file", file));
        for (size_t k = 0; k < ids.n; k++)
            if (!is_stored(&s, ids.name[k])) fail_msg("%s is lost", ids.name[k]);
        for (int k = 0; k < 3; k++) {
            struct json_object *o = create(&s, "{\"input\":\"Hi\"}");
            ids.name = realloc(ids.name, (ids.n + 2) * sizeof *ids.name);
            ids.name[ids.n++] = id_of(o);
            json_object_put(o);
        }
        int fd = client_open(&s);
        struct str all = {0};
        client_ask(fd, "POST", RESPONSES, "", sv("{\"input\":\"Hi\",\"stream\":true}"));
        client_take_until(fd, &all, "\"type\":\"response.completed\"");
        kill_hard(&s);
        close(fd);
        ptrdiff_t at = sv_find(str_sv(&all), sv("\"id\":\"resp_"), 0);
        assert_true(at > 0);
        ids.name[ids.n++] = strndup(all.p + at + 6, 29);
        str_free(&all);
    }
    names_free(&ids);
}

static void let_files_grow(rlim_t most) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

// What doesn't fit on the disk is an error of that request, whole or streamed, and of no other.
static void full_disk(void **state) {
    struct server s;
    struct answer a;
    struct str whole = {0}, streamed_too = {0};
    (void)state;
    let_files_grow(LIMIT);
    server_start(&s, ARGS("-m", MODEL, "--responses-store-file", file));
    let_files_grow(RLIM_INFINITY);
    str_puts(&whole, "{\"input\":\"Hi\",\"user\":\"");
    while (whole.n < BIG) str_puts(&whole, "0123456789");
    str_puts(&whole, "\"");
    str_add(&streamed_too, str_sv(&whole));
    str_puts(&whole, "}");
    str_puts(&streamed_too, ",\"stream\":true}");
    struct json_object *small = create(&s, "{\"input\":\"Hi\"}");
    for (int i = 0; i < 2; i++) {
        post(&s, &a, RESPONSES, whole.p);
        expect_refusal(&a, 500, NULL, "can't be stored");
        answer_free(&a);
        struct stream t;
        stream_of(&s, streamed_too.p, &t);
        struct json_object *o = json_of(str_sv(&t.last));
        assert_true(sv_ends(str_sv(&t.types), sv("\nresponse.failed\n")));
        check_text(o, "status", "failed");
        check_text(json_at(o, "error"), "code", "server_error");
        char *id = id_of(o);
        assert_false(is_stored(&s, id));
        json_object_put(o);
        free(id);
        stream_free(&t);
        json_object_put(create(&s, "{\"input\":\"Hi\"}"));
    }
    char *id = id_of(small);
    assert_true(is_stored(&s, id));
    server_wait_for(&s, "is not stored (--responses-store-file)");
    assert_int_equal(server_stop(&s), 0);
    json_object_put(small);
    free(id);
    str_free(&whole);
    str_free(&streamed_too);
}

static void no_store(void **state) {
    struct server s;
    struct answer a;
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "--responses-store-max-entries", "0"));
    struct json_object *o = create(&s, "{\"input\":\"Hi\"" COLD "}");
    check_message(output(o, 0), GREETING, "completed");
    assert_false(json_bool_at(o, "store", true));
    json_object_put(o);
    expect_refused(&s, RESPONSES, "{\"input\":\"Hi\",\"store\":true}", "store",
                   "--responses-store-max-entries is 0");
    expect_refused(&s, RESPONSES, "{\"input\":\"Hi\",\"previous_response_id\":\"resp_x\"}",
                   "previous_response_id", "--responses-store-max-entries is 0");
    get(&s, &a, RESPONSES "/resp_x");
    expect_refusal(&a, 404, NULL, "--responses-store-max-entries is 0");
    answer_free(&a);
    assert_int_equal(server_stop(&s), 0);
    // The same where the usual place can't be had; a place that was named must be there.
    setenv("XDG_STATE_HOME", "/dev/null/x", 1);
    server_start(&s, ARGS("-m", MODEL));
    o = create(&s, "{\"input\":\"Hi\"" COLD "}");
    assert_false(json_bool_at(o, "store", true));
    json_object_put(o);
    server_wait_for(&s, "no responses are stored: /dev/null");
    assert_int_equal(server_stop(&s), 0);
    unsetenv("XDG_STATE_HOME");
    assert_false(server_launch(&s, ARGS("-m", MODEL, "--responses-store-file", "/dev/null/x")));
    server_wait_for(&s, "--responses-store-file");
    assert_int_equal(server_end(&s), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored),
        cmocka_unit_test(stored_stream),
        cmocka_unit_test(chain),
        cmocka_unit_test(input_items),
        cmocka_unit_test(together),
        cmocka_unit_test_setup_teardown(killed, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(full_disk, make_dir, drop_dir),
        cmocka_unit_test(no_store),
    };
    return cmocka_run_group_tests_name("server stored responses", tests, start, stop);
}
