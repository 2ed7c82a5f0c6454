// Grammars that requests share: made once, dropped when there are many, asked for by many threads
// while one of them writes.
#include "check.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#include "base/mem.h"
#include "engine/constraint.h"

#define MODEL_TOOLS (FIXTURES "/tools")

enum { ASKERS = 4, ASKS = 150, KINDS = 90 };

static struct text_model model;

static int start(void **state) {
    (void)state;
    struct engine_options opt = {.dry = true, .context = 64, .sequences = 1, .batch = 64};
    struct error e = {0};
    if (!text_open(&model, MODEL_TOOLS, &opt, &e)) fail_msg("%s", e.text);
    return 0;
}

static int stop(void **state) {
    (void)state;
    text_close(&model);
    return 0;
}

static struct grammar *regex(int i) {
    char pattern[32];
    struct error e = {0};
    snprintf(pattern, sizeof pattern, "[a-z]{1,%d}", i + 1);
    struct constraint c = {.kind = CONSTRAINT_REGEX, .text = sv(pattern)};
    struct effort f = effort_usual();
    struct grammar *g = constraint_grammar(&model, &c, NULL, &f, &e);
    if (!g) fail_msg("%s", e.text);
    return g;
}

static void shared(void **state) {
    (void)state;
    struct grammar *a = regex(1), *b = regex(1), *other = regex(2);
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, other);
    for (int i = 0; i < GRAMMARS_MOST; i++) grammar_close(regex(100 + i));
    struct grammar *again = regex(1); // was dropped, and is still good where it was asked for
    assert_ptr_not_equal(a, again);
    struct matcher *m = matcher_open(a);
    assert_true(matcher_bytes(m, sv("ab")) && matcher_done(m));
    assert_non_null(matcher_mask(m));
    matcher_close(m);
    struct grammar *const all[] = {a, b, other, again};
    for (size_t i = 0; i < 4; i++) grammar_close(all[i]);
}

// What a grammar is made of but its text: reasoning before it, and calls.
static void apart(void **state) {
    (void)state;
    struct error e = {0};
    struct json_object *tools =
        json_read(sv("[{\"type\":\"function\",\"function\":{\"name\":\"a\"}}]"), "tools", &e);
    struct text_prompt prompts[] = {{.reply = &model.reply[0]},
                                    {.reply = &model.reply[0], .opened = true},
                                    {.reply = &model.reply[1]}};
    struct constraint c[] = {
        {.kind = CONSTRAINT_REGEX, .text = sv("x")},
        {.kind = CONSTRAINT_GBNF, .text = sv("root ::= \"x\"")},
        {.tools = tools, .calls_required = true},
        {.tools = tools},
        {.tools = tools, .one_call = true},
        {.tools = tools, .kind = CONSTRAINT_REGEX, .text = sv("x")},
    };
    struct grammar *made[18];
    for (size_t i = 0; i < 18; i++) {
        struct effort f = effort_usual();
        made[i] = constraint_grammar(&model, &c[i / 3], &prompts[i % 3], &f, &e);
        if (!made[i]) fail_msg("%s", e.text);
        for (size_t k = 0; k < i; k++) assert_ptr_not_equal(made[i], made[k]);
    }
    for (size_t i = 0; i < 18; i++) grammar_close(made[i]);
    json_object_put(tools);
}

// Hands grammars over to the one that writes.
struct hand {
    pthread_mutex_t lock;
    struct grammar *grammar[ASKERS * ASKS];
    size_t n;
};

static void *ask_many(void *arg) {
    struct hand *h = arg;
    for (int i = 0; i < ASKS; i++) {
        struct grammar *g = regex(i % 3 ? i % KINDS : 5);
        pthread_mutex_lock(&h->lock);
        h->grammar[h->n++] = g;
        pthread_mutex_unlock(&h->lock);
    }
    return NULL;
}

static void write_text(struct grammar *g) {
    struct matcher *m = matcher_open(g);
    assert_non_null(matcher_mask(m));
    assert_true(matcher_bytes(m, sv("a")));
    assert_non_null(matcher_mask(m));
    matcher_close(m);
    grammar_close(g);
}

static void threads(void **state) {
    (void)state;
    static struct hand h;
    pthread_t asker[ASKERS];
    pthread_mutex_init(&h.lock, NULL);
    for (int i = 0; i < ASKERS; i++)
        assert_int_equal(pthread_create(&asker[i], NULL, ask_many, &h), 0);
    for (size_t written = 0; written < ASKERS * ASKS;) {
        pthread_mutex_lock(&h.lock);
        struct grammar *g = written < h.n ? h.grammar[written++] : NULL;
        pthread_mutex_unlock(&h.lock);
        if (g) write_text(g);
    }
    for (int i = 0; i < ASKERS; i++) pthread_join(asker[i], NULL);
    pthread_mutex_destroy(&h.lock);
}

// Somebody who asks for a grammar that takes long, and is held up in the middle of it.
struct maker {
    sem_t asked, go_on;
    bool off; // then it ends
    bool stopped;
    char number;
};

static bool hold_up(void *arg) {
    struct maker *m = arg;
    sem_post(&m->asked);
    sem_wait(&m->go_on);
    return m->off;
}

static void *make_long(void *arg) {
    struct maker *m = arg;
    struct error e = {0};
    struct str pattern = {0};
    str_addc(&pattern, m->number);
    for (int i = 0; i < 400; i++) str_puts(&pattern, "(a?b?c?d?e?f?)");
    struct constraint c = {.kind = CONSTRAINT_REGEX, .text = str_sv(&pattern)};
    struct effort f = effort_usual();
    f.stop = hold_up;
    f.arg = m;
    assert_null(constraint_grammar(&model, &c, NULL, &f, &e));
    m->stopped = f.stopped;
    str_free(&pattern);
    return NULL;
}

static bool at_third(void *arg) { return ++*(int *)arg == 3; }

// While all places are taken by grammars that take long: what is there is handed out, who waits may
// leave, and when a maker is called off its place is free.
static void places(void **state) {
    (void)state;
    struct maker maker[GRAMMARS_MAKERS] = {0};
    pthread_t thread[GRAMMARS_MAKERS];
    struct grammar *there = regex(3);
    for (int i = 0; i < GRAMMARS_MAKERS; i++) {
        maker[i].number = (char)('0' + i);
        sem_init(&maker[i].asked, 0, 0);
        sem_init(&maker[i].go_on, 0, 0);
        assert_int_equal(pthread_create(&thread[i], NULL, make_long, &maker[i]), 0);
        sem_wait(&maker[i].asked);
    }
    struct grammar *again = regex(3);
    assert_ptr_equal(there, again);
    struct error e = {0};
    struct constraint c = {.kind = CONSTRAINT_REGEX, .text = sv("nobody has asked for this")};
    struct effort f = effort_usual();
    int asked = 0;
    f.stop = at_third;
    f.arg = &asked;
    assert_null(constraint_grammar(&model, &c, NULL, &f, &e));
    assert_true(f.stopped && strstr(e.text, "called off"));
    for (int i = 0; i < GRAMMARS_MAKERS; i++) {
        maker[i].off = true;
        sem_post(&maker[i].go_on);
        pthread_join(thread[i], NULL);
        assert_true(maker[i].stopped);
        sem_destroy(&maker[i].asked);
        sem_destroy(&maker[i].go_on);
    }
    f = effort_usual();
    e = (struct error){0};
    struct grammar *made = constraint_grammar(&model, &c, NULL, &f, &e);
    assert_non_null(made);
    struct grammar *const all[] = {there, again, made};
    for (size_t i = 0; i < 3; i++) grammar_close(all[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared),
        cmocka_unit_test(apart),
        cmocka_unit_test(threads),
        cmocka_unit_test(places),
    };
    return cmocka_run_group_tests_name("constraints", tests, start, stop);
}
