// Reference cases: a checkpoint folder with what an independent implementation computes from it.
#ifndef TESTS_FIXTURE_H
#define TESTS_FIXTURE_H

#include "check.h"

#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "checkpoint/safetensors.h"
#include "engine/engine.h"

struct fixture {
    char *dir;
    struct st_file file;
    const int32_t *ids, *greedy;
    size_t n, greedy_count;
    const float *logits; // [n, vocab]
    int64_t vocab;
    double tolerance; // of max |difference| over the standard deviation of the logits
};

static inline struct tensor fixture_tensor(const struct fixture *f, const char *name) {
    const struct st_tensor *t = st_find(&f->file, sv(name));
    assert_non_null(t);
    return t->t;
}

static inline void fixture_open(struct fixture *f, const char *dir) {
    struct error e = {0};
    *f = (struct fixture){.dir = mem_text(dir)};
    char *path = path_join(dir, "expected.safetensors"), *meta = path_join(dir, "meta.json");
    if (!st_open(&f->file, path, &e)) fail_msg("%s", e.text);
    struct json_object *o = json_read_file(meta, 1 << 16, &e);
    assert_non_null(o);
    f->tolerance = json_number_at(o, "tolerance", 0);
    assert_true(f->tolerance > 0);
    json_object_put(o);
    struct tensor ids = fixture_tensor(f, "ids"), greedy = fixture_tensor(f, "greedy_ids");
    struct tensor logits = fixture_tensor(f, "logits");
    f->ids = ids.data;
    f->n = (size_t)ids.n[0];
    f->greedy = greedy.data;
    f->greedy_count = (size_t)greedy.n[0];
    f->logits = logits.data;
    f->vocab = logits.n[1];
    free(path);
    free(meta);
}

static inline void fixture_close(struct fixture *f) {
    st_close(&f->file);
    free(f->dir);
}

// Opens the fixture's engine, on the CPU if nothing else is asked, or fails the test with its
// error.
static inline struct engine *fixture_engine(const char *dir, struct engine_options opt) {
    struct error e = {0};
    if (!opt.device) opt.device = "cpu";
    struct engine *engine = engine_open(dir, &opt, &e);
    if (!engine) fail_msg("%s", e.text);
    return engine;
}

// Runs one request alone to its end; out takes what was generated.
static inline size_t fixture_run(struct engine *e, struct request r, int32_t *out) {
    struct error err = {0};
    size_t n = 0;
    if (!engine_submit(e, &r, &err)) fail_msg("%s", err.text);
    while (engine_busy(e)) {
        if (!engine_step(e, &err)) fail_msg("%s", err.text);
        for (struct event ev; engine_event(e, &ev);)
            if (ev.id >= 0) out[n++] = ev.id;
    }
    return n;
}

#endif
