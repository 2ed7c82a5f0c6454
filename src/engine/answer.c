#include "engine/answer.h"

#include "base/clock.h"

bool answer_start(struct answer *a, const struct text_model *m, const struct request *r,
                  const struct reply_format *marks, const struct sv *stops, size_t count,
                  struct error *e) {
    *a = (struct answer){.model = m, .started = clock_now()};
    a->request = engine_submit(m->engine, r, e);
    if (!a->request) return false;
    a->stream = text_stream_open(m, marks, stops, count);
    return true;
}

static void take(struct answer *a, const struct event *event) {
    a->finish = event->finish;
    if (event->finish != FINISH_NOT) a->request = 0;
    if (event->id < 0) return;
    ids_push(&a->ids, event->id);
    a->last = clock_now();
    if (a->first <= 0) a->first = a->last;
    if (event->finish == FINISH_STOP) return; // the stop token's text is not part of the answer
    if (text_stream_push(a->stream, event->id, &a->piece)) {
        answer_cancel(a);
        a->finish = FINISH_STOP;
    }
}

bool answer_next(struct answer *a, struct sv *piece, struct error *e) {
    str_clear(&a->piece);
    *piece = sv("");
    if (a->finish != FINISH_NOT) return false;
    struct event event;
    if (a->request && !engine_event(a->model->engine, &event)) {
        if (!engine_step(a->model->engine, e)) return false;
        if (!engine_event(a->model->engine, &event)) return true;
    }
    if (a->request)
        take(a, &event);
    else
        a->finish = FINISH_CANCELLED;
    if (a->finish != FINISH_NOT) text_stream_finish(a->stream, &a->piece);
    *piece = str_sv(&a->piece);
    return true;
}

// The event that says so is read at once: the next request's come first then.
void answer_cancel(struct answer *a) {
    struct event event;
    if (!a->request) return;
    engine_cancel(a->model->engine, a->request);
    while (engine_event(a->model->engine, &event)) continue;
    a->request = 0;
}

void answer_close(struct answer *a) {
    answer_cancel(a);
    text_stream_close(a->stream);
    ids_free(&a->ids);
    str_free(&a->piece);
    *a = (struct answer){0};
}
