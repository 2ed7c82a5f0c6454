// POST /slots/N?action=...: what a place holds, kept in a file by its tokens. All places share the
// caches, so restoring computes the tokens into those, for whoever begins like that.
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/ask_prompt.h"
#include "server/routes_native.h"

enum { FILE_MOST = 64 << 20, NAME_MOST = 128, WAIT_MS = 50 };

// A plain name: letters, digits, and .-_ behind the first.
static bool check_name(struct sv name, struct refusal *r) {
    bool good = name.n > 0 && name.n <= NAME_MOST && name.p[0] != '.' && name.p[0] != '-';
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        good &= (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '.' || c == '-' || c == '_';
    }
    return good || refuse(r, 400, "filename",
                          "\"filename\" must be a plain name of at most %d letters, digits, '.', "
                          "'-' and '_'",
                          NAME_MOST);
}

// The path of the file that the body names; owned by the caller. NULL with a refusal.
static char *read_path(struct exchange *x, struct json_object *body, struct str *name) {
    struct sv given = json_text_at(body, "filename");
    if (!check_name(given, &x->refusal)) return NULL;
    str_add(name, given);
    return path_join(x->service->o->slot_dir, str_c(name));
}

// What the tokens are of: another model's mean something else.
static void add_model(struct str *s, const struct service *v) {
    const struct engine_info *i = engine_info(worker_model(v->worker)->engine);
    str_printf(s, "%s, %lld layers of %lld, %lld tokens, %lld parameters", i->family,
               (long long)i->layers, (long long)i->hidden, (long long)i->vocab,
               (long long)i->parameters);
}

static void add_file(struct str *s, const struct service *v, const struct ids *ids) {
    struct str model = {0};
    add_model(&model, v);
    str_puts(s, "{\"model\":");
    json_quote(s, str_sv(&model));
    str_puts(s, ",\"tokens\":[");
    for (size_t i = 0; i < ids->n; i++) str_printf(s, i ? ",%d" : "%d", ids->id[i]);
    str_puts(s, "]}\n");
    str_free(&model);
}

// Where the server keeps its files is nothing for its clients.
static bool refuse_file(struct exchange *x, unsigned status, const char *path, const char *wanted,
                        const struct error *e) {
    log_say(LOG_WARN, "--slot-save-path: %s", e->text);
    return refuse(&x->refusal, status, "filename", "\"%.*s\" can't be %s; the log says why",
                  (int)path_name(path).n, path_name(path).p, wanted);
}

static bool save(struct exchange *x, size_t slot, const char *path, struct str *json) {
    struct ids ids = {0};
    struct str file = {0};
    struct error e = {0};
    double began = clock_now();
    bool ok = worker_tokens(x->service->worker, slot, &ids) ||
              refuse(&x->refusal, 503, NULL, "slot %zu is processing", slot);
    ok = ok && (ids.n || refuse(&x->refusal, 400, NULL, "slot %zu holds nothing yet", slot));
    if (ok) add_file(&file, x->service, &ids);
    ok = ok &&
         (file_write_private(path, str_sv(&file), &e) || refuse_file(x, 500, path, "written", &e));
    str_printf(json, ",\"n_saved\":%zu,\"n_written\":%zu,\"timings\":{\"save_ms\":%.3f}}", ids.n,
               file.n, (clock_now() - began) * 1e3);
    ids_free(&ids);
    str_free(&file);
    return ok;
}

static bool read_file(struct exchange *x, const char *path, struct ids *ids, size_t *size) {
    struct str text = {0}, model = {0};
    struct error e = {0};
    struct json_object *o = NULL;
    if (file_read(path, FILE_MOST, &text, &e)) o = json_read(str_sv(&text), path, &e);
    bool ok = o || refuse_file(x, 400, path, "read", &e);
    add_model(&model, x->service);
    ok = ok && (sv_eq(json_text_at(o, "model"), str_sv(&model)) ||
                refuse(&x->refusal, 400, "filename", "\"%.*s\" is of another model",
                       (int)path_name(path).n, path_name(path).p));
    ok = ok && ask_ids(json_at(o, "tokens"), "filename", false, false,
                       worker_model(x->service->worker), ids, &x->refusal);
    *size = text.n;
    json_object_put(o);
    str_free(&model);
    str_free(&text);
    return ok;
}

// Whether somebody waits for it still, and may.
static bool check_wanted(struct exchange *x, double began) {
    unsigned most = x->service->o->request_timeout;
    if (most && clock_now() - began > most)
        return refuse(&x->refusal, 504, NULL, "the answer takes too long (--request-timeout)");
    return !completion_client_gone(x->client) ||
           refuse(&x->refusal, 503, NULL, "the client has left");
}

// Waits until the tokens are in the caches.
static bool compute(struct exchange *x, const struct ids *ids, double began) {
    bool full;
    struct job_news news = {0};
    struct order order = {
        .request = {.sampling = sampling_greedy()}, .prompt = ids, .prompts = 1, .choices = 1};
    struct job *job = worker_submit(x->service->worker, &order, &full);
    if (!job)
        return refuse(&x->refusal, full ? 429 : 503, NULL,
                      full ? "the queue is full" : "the server is stopping");
    bool wanted = true;
    while (news.finish == FINISH_NOT && wanted) {
        job_wait(job, WAIT_MS, &news);
        wanted = check_wanted(x, began);
    }
    bool done = wanted && news.finish != FINISH_CANCELLED;
    job_close(job);
    job_news_free(&news);
    return done || (wanted && refuse(&x->refusal, 503, NULL, "the server is stopping"));
}

static bool restore(struct exchange *x, const char *path, struct str *json) {
    struct ids ids = {0};
    size_t size;
    double began = clock_now();
    bool ok = read_file(x, path, &ids, &size) &&
              ask_check_length(ids.n, "filename", worker_model(x->service->worker), &x->refusal) &&
              compute(x, &ids, began);
    str_printf(json, ",\"n_restored\":%zu,\"n_read\":%zu,\"timings\":{\"restore_ms\":%.3f}}", ids.n,
               size, (clock_now() - began) * 1e3);
    ids_free(&ids);
    return ok;
}

// The slot that the path ends with.
static bool read_slot(struct exchange *x, size_t *slot) {
    size_t places = (size_t)engine_info(worker_model(x->service->worker)->engine)->sequences, n = 0;
    bool good = x->rest.n > 0 && x->rest.n < 8;
    for (size_t i = 0; i < x->rest.n && good; i++) {
        good = x->rest.p[i] >= '0' && x->rest.p[i] <= '9';
        n = n * 10 + (size_t)(x->rest.p[i] - '0');
    }
    *slot = n;
    return (good && n < places) ||
           refuse(&x->refusal, 400, NULL, "Invalid slot ID: those are 0 to %zu", places - 1);
}

static bool act(struct exchange *x, struct str *json) {
    struct sv action = sv(exchange_query(x, "action"));
    bool saves = sv_is(action, "save");
    struct str name = {0};
    size_t slot;
    if (!x->service->o->slot_dir)
        return refuse(&x->refusal, 501, NULL,
                      "This server does not support slots action. Start it with "
                      "`--slot-save-path`");
    if (!read_slot(x, &slot)) return false;
    if (sv_is(action, "erase"))
        return refuse(&x->refusal, 501, NULL,
                      "action=erase is not supported: all slots share the caches; a request with "
                      "\"cache_prompt\": false uses none");
    if (!saves && !sv_is(action, "restore"))
        return refuse(&x->refusal, 400, NULL, "Invalid action: it may be save or restore");
    struct json_object *body = exchange_read_json(x);
    if (!body) return false;
    char *path = read_path(x, body, &name);
    json_object_put(body);
    exchange_drop_json(x);
    str_printf(json, "{\"id_slot\":%zu,\"filename\":\"%s\"", slot, str_c(&name)); // a plain name
    bool ok = path && (saves ? save(x, slot, path, json) : restore(x, path, json));
    str_free(&name);
    free(path);
    return ok;
}

bool route_slot_action(struct exchange *x) {
    struct str json = {0};
    bool sent = act(x, &json) ? exchange_json(x, 200, &json) : exchange_refuse(x);
    str_free(&json);
    return sent;
}
