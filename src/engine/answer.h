// One answer at a time: ids go in, pieces of text come out as they are decided. What the command
// line and the public library stand on; the server, which has many at once, drives the engine
// itself.
//
//   if (!answer_start(&a, &m, &request, stops, n_stops, e)) ...
//   while (answer_next(&a, &piece, e)) show(piece);
//   if (!e->set) use(a.finish, a.ids);
//   answer_close(&a);
#ifndef ENGINE_ANSWER_H
#define ENGINE_ANSWER_H

#include "engine/text.h"

struct answer {
    const struct text_model *model;
    struct text_stream *stream;
    int64_t request;    // 0: none in the engine
    enum finish finish; // FINISH_NOT until the last piece was given out
    struct ids ids;     // the tokens so far, a stop token included
    struct str piece;
    double started, first, last; // seconds (clock_now): submitted, first and latest token; 0: none
};

// Ends at r's stop ids, or before one of the stop strings, which are copied. marks: of
// text_stream_open. On failure a needs no closing.
bool answer_start(struct answer *a, const struct text_model *m, const struct request *r,
                  const struct reply_format *marks, const struct sv *stops, size_t count,
                  struct error *e);
// Computes until there is text to show, or the answer is over: false, also on failure. One step
// that decides no text gives an empty piece, so the caller has a say between steps. The piece is
// valid until the next call.
bool answer_next(struct answer *a, struct sv *piece, struct error *e);
// Takes the request out of the engine. The next piece is the last: what was held back.
void answer_cancel(struct answer *a);
void answer_close(struct answer *a);

#endif
