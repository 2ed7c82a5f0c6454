// mlxcel-server with many streams at once beside clients that vanish, stall, trickle and shout; and
// what requests share without seeing it.
#include "server_model.h"

#include "base/mem.h"

// Bytes that heaps of threads may still grow once all was seen. Sanitizers keep what is freed.
#ifdef SANITIZED
enum { GROWTH = 1 << 30 };
#else
enum { GROWTH = 24 << 20 };
#endif

enum {
    STREAMS = 64,
    PROMPTS = 16, // different ones
    TOKENS = 24,  // of an answer
    ROUNDS = 3,
};

// --- answers -------------------------------------------------------------------------------------

// What a stream's events say, put together.
static char *streamed_text(const struct answer *a) {
    struct str out = {0};
    struct sv left = str_sv(&a->body), mark = sv("data: ");
    assert_int_equal(a->status, 200);
    assert_true(a->whole);
    assert_true(sv_ends(left, sv("data: [DONE]\n\n")));
    for (ptrdiff_t end; (end = sv_find(left, sv("\n\n"), 0)) >= 0;) {
        struct sv event = sv_cut(left, mark.n, (size_t)end);
        left = sv_cut(left, (size_t)end + 2, left.n);
        if (sv_is(event, "[DONE]")) continue;
        struct json_object *o = json_of(event);
        str_add(&out, json_text_at(choice(o), "text"));
        json_object_put(o);
    }
    str_addc(&out, 0);
    return out.p;
}

static void make_prompt(struct str *body, size_t i, bool stream) {
    str_puts(body, "{\"prompt\":[");
    for (size_t k = 0; k < 5 + 9 * i; k++) str_printf(body, "%zu,", (k * 37 + i * 11) % 128);
    str_printf(body, "7],\"temperature\":0,\"ignore_eos\":true,\"max_tokens\":%d,\"stream\":%s}",
               TOKENS, stream ? "true" : "false");
}

struct client {
    const struct server *server;
    size_t prompt;
    char *text;
    pthread_t thread;
};

static void *ask_stream(void *arg) {
    struct client *c = arg;
    struct str body = {0};
    struct answer a;
    make_prompt(&body, c->prompt, true);
    post(c->server, &a, TEXT, body.p);
    c->text = streamed_text(&a);
    answer_free(&a);
    str_free(&body);
    return NULL;
}

static char *ask_alone(const struct server *s, size_t prompt) {
    struct str body = {0};
    struct answer a;
    make_prompt(&body, prompt, false);
    post(s, &a, TEXT, body.p);
    char *text = text_of(&a, false);
    answer_free(&a);
    str_free(&body);
    return text;
}

// --- those that do harm --------------------------------------------------------------------------

static int endless(const struct server *s, int buffer) {
    int fd = client_socket(s, buffer);
    assert_true(fd >= 0);
    client_ask(fd, "POST", TEXT, "",
               sv("{\"prompt\":[1,2,3],\"stream\":true,\"temperature\":0,\"ignore_eos\":true,"
                  "\"max_tokens\":-1}"));
    return fd;
}

static void reset(int fd) {
    struct linger now = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

enum { SLOW = 2, VANISHING = 6, SILENT = 8, SHOUTING = 8 };

struct crowd {
    int slow[SLOW], silent[SILENT];
};

// Some stay: those that read nothing of an endless answer, and those that never finish a request.
static void crowd_in(struct crowd *c, const struct server *s) {
    static const char body[] = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
                               "\r\n{\"pro";
    const char *const halves[] = {"", "GET /hea", "POST /v1/completions HTTP/1.1\r\nHost: x", body};
    for (size_t i = 0; i < SLOW; i++) c->slow[i] = endless(s, 2048);
    for (size_t i = 0; i < SILENT; i++) {
        c->silent[i] = client_open(s);
        client_send(c->silent[i], sv(halves[i % 4]));
    }
    for (size_t i = 0; i < VANISHING; i++) {
        int fd = endless(s, 0);
        struct str all = {0};
        if (i % 2) client_take_until(fd, &all, "data: ");
        str_free(&all);
        reset(fd);
    }
    for (size_t i = 0; i < SHOUTING; i++) {
        static const char noise[4096] = "\x16\x03\x01 GET \xff\xfe ::: \r\n\r\n {{{{[[[[";
        int fd = client_open(s);
        client_send(fd, sv_n(noise, sizeof noise));
        reset(fd);
    }
}

static void crowd_out(struct crowd *c) {
    for (size_t i = 0; i < SLOW; i++) reset(c->slow[i]);
    for (size_t i = 0; i < SILENT; i++) close(c->silent[i]);
}

static size_t resident(const struct server *s) {
    char path[64];
    unsigned long all = 0, pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)s->pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &all, &pages), 2);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

// Every answer is what it is alone, whoever else is there, and nothing of them stays.
static void storm(void **state) {
    static struct client c[STREAMS];
    char *alone[PROMPTS], dir[MODEL_DIR];
    struct crowd crowd;
    struct server s;
    size_t before = 0;
    (void)state;
    model_make(dir, "llama/base");
    server_start(&s, ARGS("-m", dir, "-np", "24", "-c", "49152", "-b", "64", "--max-queue", "128",
                          "--precision", "f32", "--receive-timeout", "30"));
    for (size_t i = 0; i < PROMPTS; i++) alone[i] = ask_alone(&s, i);
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < STREAMS; i++) {
            c[i] = (struct client){.server = &s, .prompt = (i + round) % PROMPTS};
            pthread_create(&c[i].thread, NULL, ask_stream, &c[i]);
            if (i == STREAMS / 2) crowd_in(&crowd, &s);
        }
        for (size_t i = 0; i < STREAMS; i++) {
            pthread_join(c[i].thread, NULL);
            assert_string_equal(c[i].text, alone[c[i].prompt]);
            free(c[i].text);
        }
        crowd_out(&crowd);
        if (!round) before = resident(&s);
    }
    char *text = ask_alone(&s, 0);
    assert_string_equal(text, alone[0]);
    free(text);
    if (resident(&s) > before + GROWTH)
        fail_msg("%zu KiB after a round, %zu in the end", before >> 10, resident(&s) >> 10);
    for (size_t i = 0; i < PROMPTS; i++) free(alone[i]);
    assert_int_equal(server_stop(&s), 0);
    model_remove(dir);
}

// A byte now and then is no request: the time for it is counted from its beginning.
static void trickle(void **state) {
    static const char head[] = "GET /health HTTP/1.1\r\nHost: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    static const char body[] =
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n";
    struct server s;
    (void)state;
    server_start(&s, ARGS("-m", MODEL, "--receive-timeout", "1"));
    int slow[2] = {client_open(&s), client_open(&s)};
    client_send(slow[1], sv(body));
    double began = clock_now();
    bool open[2] = {true, true};
    for (size_t at = 0; (open[0] || open[1]) && clock_now() < began + 30; at++) {
        client_send(slow[0], sv_n(head + at % (sizeof head - 1), 1));
        client_send(slow[1], sv_n(" ", 1));
        for (size_t i = 0; i < 2; i++) {
            struct pollfd p = {slow[i], POLLIN, 0};
            char byte;
            if (poll(&p, 1, 25) == 1 && recv(slow[i], &byte, 1, 0) <= 0) open[i] = false;
        }
    }
    assert_false(open[0] || open[1]);
    assert_true(clock_now() - began < 20);
    expect_text_from(&s, TEXT, "{\"prompt\":\"\\n\",\"temperature\":0}", GREETING, "stop");
    close(slow[0]);
    close(slow[1]);
    assert_int_equal(server_stop(&s), 0);
}

// --- what is shared ------------------------------------------------------------------------------

enum { SYSTEM = 4096 }; // capitals, each a token

static void make_chat(struct str *body, char user, size_t n) {
    str_puts(body, "{\"messages\":[{\"role\":\"system\",\"content\":\"");
    for (size_t i = 0; i < SYSTEM; i++) str_addc(body, (char)('A' + (i * i + i / 7) % 26));
    str_puts(body, "\"},{\"role\":\"user\",\"content\":\"");
    for (size_t i = 0; i < n; i++) str_addc(body, (char)(user + (char)(i % 3)));
    str_puts(body,
             "\"}],\"temperature\":0,\"ignore_eos\":true,\"max_tokens\":12,\"logprobs\":true}");
}

struct told {
    char *text;             // with every token's chance, which tells more of what was read
    int64_t prompt, cached; // tokens
};

static struct told ask_chat(const struct server *s, char user, size_t n) {
    struct str body = {0};
    struct answer a;
    make_chat(&body, user, n);
    post(s, &a, CHAT, body.p);
    assert_int_equal(a.status, 200);
    struct json_object *o = json_of(str_sv(&a.body)), *usage = json_at(o, "usage");
    const char *text = json_object_to_json_string(choice(o));
    struct told t = {.text = mem_text(text)};
    t.prompt = json_int_at(usage, "prompt_tokens", -1);
    t.cached = json_int_at(json_at(usage, "prompt_tokens_details"), "cached_tokens", -1);
    json_object_put(o);
    answer_free(&a);
    str_free(&body);
    return t;
}

// What a user gets from a server that nobody else has.
static char *alone_with(const char *const *args, char user, size_t n) {
    struct server s;
    server_start(&s, args);
    struct told t = ask_chat(&s, user, n);
    assert_int_equal(t.cached, 0);
    assert_int_equal(server_stop(&s), 0);
    return t.text;
}

// Two users of one long system message. The second computes less than a tenth of what the first
// did, and neither gets anything else than alone: none of the other's text is in its answer's past.
static void share(const char *of) {
    char dir[MODEL_DIR];
    struct server s;
    model_make(dir, of);
    const char *const *args = ARGS("-m", dir, "-np", "1", "-c", "8192", "--precision", "f32");
    char *a = alone_with(args, 'a', 150), *b = alone_with(args, 'q', 70);
    assert_string_not_equal(a, b);
    server_start(&s, args);
    struct told first = ask_chat(&s, 'a', 150), second = ask_chat(&s, 'q', 70);
    assert_int_equal(first.cached, 0);
    if (10 * (second.prompt - second.cached) >= first.prompt)
        fail_msg("%s: the second of %lld tokens computes %lld", of, (long long)second.prompt,
                 (long long)(second.prompt - second.cached));
    struct told again = ask_chat(&s, 'a', 150), other = ask_chat(&s, 'q', 70);
    assert_string_equal(first.text, a);
    assert_string_equal(second.text, b);
    assert_string_equal(again.text, a);
    assert_string_equal(other.text, b);
    free(first.text);
    free(second.text);
    free(again.text);
    free(other.text);
    free(a);
    free(b);
    assert_int_equal(server_stop(&s), 0);
    model_remove(dir);
}

static void shared_attention(void **state) {
    (void)state;
    share("llama/base");
}

static void shared_hybrid(void **state) {
    (void)state;
    share("jamba/base");
}

static void shared_recurrent(void **state) {
    (void)state;
    share("mamba2/base");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(storm),
        cmocka_unit_test(trickle),
        cmocka_unit_test(shared_attention),
        cmocka_unit_test(shared_hybrid),
        cmocka_unit_test(shared_recurrent),
    };
    return cmocka_run_group_tests_name("server_storm", tests, NULL, NULL);
}
