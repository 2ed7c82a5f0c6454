// The parts of a reply: text is scanned for marks, and what stands between a call's marks goes to
// the reader of its style.
#include "chat/reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat/reply/call.h"

// --- input ---------------------------------------------------------------------------------------

struct sv input_rest(const struct reply *r) {
    return sv_cut(str_sv(&r->in), r->at, r->in.n);
}

void input_eat(struct reply *r, size_t n) {
    if (r->mode == IN_CALLS || r->calling)
        str_add(&r->raw, sv_cut(str_sv(&r->in), r->at, r->at + n));
    r->at += n;
}

static enum fit fits(struct sv rest, struct sv text, bool ended) {
    if (sv_starts(rest, text)) return FIT_YES;
    return !ended && rest.n < text.n && sv_starts(text, rest) ? FIT_MORE : FIT_NO;
}

enum fit input_fits(const struct reply *r, const char *text) {
    return fits(input_rest(r), sv(text), r->ended);
}

enum fit input_take(struct reply *r, const char *text) {
    enum fit f = input_fits(r, text);
    if (f == FIT_YES) input_eat(r, strlen(text));
    return f;
}

void input_skip_space(struct reply *r) {
    struct sv rest = input_rest(r);
    size_t n = 0;
    while (n < rest.n && jscan_space(rest.p[n])) n++;
    input_eat(r, n);
}

size_t input_tail(struct sv text, struct sv mark) {
    size_t n = mark.n - 1 < text.n ? mark.n - 1 : text.n;
    while (n && !sv_starts(mark, sv_cut(text, text.n - n, text.n))) n--;
    return n;
}

enum fit input_until(struct reply *r, const char *end, struct str *to) {
    struct sv rest = input_rest(r), text = sv(end);
    ptrdiff_t at = sv_find(rest, text, 0);
    size_t n = at >= 0 ? (size_t)at : rest.n - input_tail(rest, text);
    str_add(to, sv_cut(rest, 0, n));
    input_eat(r, at >= 0 ? n + text.n : n);
    if (at >= 0) return FIT_YES;
    return r->ended ? FIT_NO : FIT_MORE;
}

// However the input is cut, the same bytes of it are eaten.
enum fit input_head(struct reply *r, const char *end, bool line, struct str *to) {
    struct sv rest = input_rest(r), text = sv(end);
    ptrdiff_t at = sv_find(rest, text, 0), stop = line ? sv_find(rest, sv("\n"), 0) : -1;
    size_t n = at >= 0 ? (size_t)at : rest.n - input_tail(rest, text), room = MOST_HEAD - to->n;
    bool wrong = n > room;
    if (wrong) n = room;
    if (stop >= 0 && (size_t)stop < n) {
        wrong = true;
        n = (size_t)stop;
    }
    str_add(to, sv_cut(rest, 0, n));
    input_eat(r, n);
    if (wrong) return FIT_NO;
    if (at < 0) return r->ended ? FIT_NO : FIT_MORE;
    input_eat(r, text.n);
    return FIT_YES;
}

enum step input_json(struct reply *r, struct str *to, bool *done) {
    struct sv rest = input_rest(r);
    size_t n = 0;
    enum jscan_result got = JSCAN_MORE;
    while (n < rest.n && got == JSCAN_MORE) {
        got = jscan_push(&r->scan, rest.p[n]);
        if (got == JSCAN_BAD || got == JSCAN_PAST) break;
        if (to && r->scan.control)
            escape_json(to, sv_cut(rest, n, n + 1));
        else if (to)
            str_addc(to, rest.p[n]);
        n++;
    }
    input_eat(r, n);
    *done = got == JSCAN_DONE || got == JSCAN_PAST;
    if (got == JSCAN_BAD) return STEP_LOST;
    return *done || n ? STEP_ON : STEP_MORE;
}

// --- events --------------------------------------------------------------------------------------

static void put_event(struct reply *r, enum reply_kind kind, struct sv text, struct sv id) {
    struct pending *last = r->events ? &r->event[r->events - 1] : NULL;
    bool joins = last && r->next < r->events && last->kind == kind &&
                 (kind == REPLY_REASONING || kind == REPLY_CONTENT || kind == REPLY_ARGUMENTS);
    if (joins) {
        last->text += text.n;
    } else {
        r->event = mem_grow(r->event, &r->event_cap, r->events + 1, sizeof *r->event);
        r->event[r->events++] = (struct pending){.kind = kind,
                                                 .call = r->calls ? r->calls - 1 : 0,
                                                 .from = r->out.n,
                                                 .text = text.n,
                                                 .id = id.n};
    }
    str_add(&r->out, text);
    str_add(&r->out, id);
}

static void put_content(struct reply *r, const struct str *text) {
    if (!text->n) return;
    put_event(r, REPLY_CONTENT, str_sv(text), sv(""));
    r->shown += utf8_count(str_sv(text));
}

// What is no content ends what may be the beginning of a stop string.
static void end_content(struct reply *r) {
    struct str text = {0};
    stops_finish(&r->stops, &text);
    put_content(r, &text);
    str_free(&text);
}

static void add_event(struct reply *r, enum reply_kind kind, struct sv text, struct sv id) {
    struct str certain = {0};
    if (r->stops.found) return;
    if (kind != REPLY_CONTENT) {
        end_content(r);
        put_event(r, kind, text, id);
        return;
    }
    str_add(&r->stops.held, text);
    stops_settle(&r->stops, &certain);
    put_content(r, &certain);
    str_free(&certain);
}

bool reply_next(struct reply *r, struct reply_event *event) {
    if (r->next == r->events) return false;
    const struct pending *p = &r->event[r->next++];
    struct sv all = str_sv(&r->out);
    *event = (struct reply_event){.kind = p->kind,
                                  .call = p->call,
                                  .text = sv_cut(all, p->from, p->from + p->text),
                                  .id = sv_cut(all, p->from + p->text, p->from + p->text + p->id)};
    return true;
}

// Once all events are out their memory serves again.
static void reuse(struct reply *r) {
    if (r->next < r->events) return;
    r->next = r->events = 0;
    str_clear(&r->out);
}

// Whether white space behind text is content whatever follows, and so may be a stop string.
static bool keeps_space(const struct reply *r) {
    if (!r->stops.n || !r->spoke) return false;
    return r->mode == IN_ANSWER || (!r->opt.tools && !r->format.marks && !r->format.harmony);
}

// White space at the end of a part waits for more of it. At its beginning it is shown only where
// nothing came before.
void show_text(struct reply *r, enum reply_kind kind, struct sv text) {
    bool content = kind == REPLY_CONTENT, *begun = content ? &r->spoke : &r->thought;
    bool layout = content && reply_wrapped(r) && r->mode == IN_CONTENT; // around the object
    bool drop = !*begun && (!content || r->reasoned || r->after_call || layout);
    size_t lent = r->lent < text.n ? r->lent : text.n, from = lent;
    r->lent -= lent;
    while (drop && from < text.n && jscan_space(text.p[from])) from++;
    text = sv_cut(text, from, text.n);
    if (content) r->said += utf8_count(text);
    size_t to = text.n;
    while (!(content && keeps_space(r)) && to && jscan_space(text.p[to - 1])) to--;
    if (!to) {
        str_add(&r->held, text);
        return;
    }
    if (!drop && r->held.n) add_event(r, kind, str_sv(&r->held), sv(""));
    add_event(r, kind, sv_cut(text, 0, to), sv(""));
    *begun = true;
    if (content) r->after_call = false;
    str_clear(&r->held);
    str_add(&r->held, sv_cut(text, to, text.n));
}

void call_begin(struct reply *r, struct sv name, struct sv id) {
    if (!id.n) str_clear(&r->id);
    r->calls++;
    r->sectioned++;
    r->calling = true;
    r->lent = 0;
    add_event(r, REPLY_CALL, name, id);
}

void call_argue(struct reply *r, struct sv json) {
    if (json.n) add_event(r, REPLY_ARGUMENTS, json, sv(""));
}

void call_end(struct reply *r) {
    add_event(r, REPLY_CALL_END, sv(""), str_sv(&r->id));
    r->calling = false;
    r->after_call = true;
    str_clear(&r->raw);
}

// --- calls ---------------------------------------------------------------------------------------

struct sv style_trigger(const struct call_style *s) {
    if (s->open) return sv(s->open);
    if (s->kind == CALLS_TAGS) return sv(s->call_open);
    return sv(s->kind == CALLS_JSON && !s->list ? "{" : "[");
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

// What tells styles with the same trigger apart is what comes behind it.
static enum fit style_fits(const struct call_style *s, struct sv rest, bool ended) {
    size_t i = 0;
    if (s->call_open) return fits(rest, sv(s->call_open), ended);
    if (s->kind == CALLS_TAGS && s->name_open) return fits(rest, sv(s->name_open), ended);
    if (s->quote) return fits(rest, sv("call:"), ended);
    bool listed = s->kind != CALLS_TAGS && rest.n && rest.p[0] == '[';
    if (listed) i++;
    while (i < rest.n && i < MOST_HEAD && jscan_space(rest.p[i])) i++;
    if (i == MOST_HEAD) return FIT_NO;
    if (i == rest.n) return ended ? FIT_NO : FIT_MORE;
    char c = rest.p[i];
    if (s->kind == CALLS_JSON) return c == '{' || (listed && c == ']') ? FIT_YES : FIT_NO;
    return is_word(c) ? FIT_YES : FIT_NO;
}

static void enter_calls(struct reply *r, struct sv trigger) {
    bool open = false;
    for (size_t i = 0; i < r->format.styles; i++)
        open |= r->format.style[i]->open && sv_is(trigger, r->format.style[i]->open);
    r->mode = IN_CALLS;
    r->style = NULL;
    r->trigger = trigger;
    r->bare = !open;
    r->sectioned = 0;
    r->scan = (struct jscan){0};
    str_clear(&r->raw);
    if (open) input_eat(r, trigger.n);
}

static void leave_calls(struct reply *r) {
    r->mode = IN_CONTENT;
    r->calling = false;
    str_clear(&r->raw);
}

void lose_call(struct reply *r) {
    if (r->calling) add_event(r, REPLY_CALL_LOST, sv(""), sv(""));
    r->calling = false;
    show_text(r, REPLY_CONTENT, str_sv(&r->raw));
    str_clear(&r->raw);
}

static enum step choose_style(struct reply *r) {
    input_skip_space(r);
    for (size_t i = 0; i < r->format.styles; i++) {
        const struct call_style *s = r->format.style[i];
        if (!sv_eq(style_trigger(s), r->trigger) || !s->open != r->bare) continue;
        enum fit f = style_fits(s, input_rest(r), r->ended);
        if (f == FIT_MORE) return STEP_MORE;
        if (f == FIT_NO) continue;
        r->style = s;
        if (s->kind == CALLS_JSON) r->json = (struct json_calls){0};
        if (s->kind == CALLS_TAGS) r->tag = (struct tag_calls){0};
        if (s->kind == CALLS_LITERAL) r->literal = (struct literal_calls){0};
        if (s->kind == CALLS_TREE) r->tree = (struct tree_calls){0};
        return STEP_ON;
    }
    return STEP_LOST;
}

static enum step read_calls(struct reply *r) {
    if (!r->style) return choose_style(r);
    if (r->style->kind == CALLS_JSON) return read_json_calls(r);
    if (r->style->kind == CALLS_TAGS) return read_tag_calls(r);
    if (r->style->kind == CALLS_TREE) return read_tree_calls(r);
    return read_literal_calls(r);
}

// At the end, a section may lack its close, or the rest of it.
static bool closes(const struct reply *r) {
    struct sv left = sv_trim(str_sv(&r->raw)), rest = sv_trim(input_rest(r));
    struct sv part = left.n ? left : rest;
    if (r->calling || !r->sectioned || (left.n && rest.n)) return false;
    return !part.n || (r->style->close && sv_starts(sv(r->style->close), part));
}

static bool step_calls(struct reply *r) {
    enum step s = read_calls(r);
    if (s == STEP_MORE && !r->ended) return false;
    if (s == STEP_MORE && closes(r)) {
        r->at = r->in.n;
        s = STEP_DONE;
    }
    if (s == STEP_DONE) leave_calls(r);
    if (s == STEP_LOST || s == STEP_MORE) {
        // A trigger that is text after all is passed over, or it would be found again. Behind a
        // call of this section there is none to pass.
        if (!r->raw.n && !r->sectioned) input_eat(r, r->trigger.n);
        // The generic format's object is the server's own: cut, it is no text of the model's.
        if (r->ended && reply_wrapped(r)) {
            r->at = r->in.n;
            str_clear(&r->raw);
        }
        lose_call(r);
        r->mode = IN_CONTENT;
    }
    return true;
}

// --- text ----------------------------------------------------------------------------------------

enum { MOST_MARKS = REPLY_MARKS + REPLY_STYLES + 3 };

struct marks {
    struct sv at[MOST_MARKS];
    size_t n;
    size_t first; // those before it count only where nothing but white space came
    size_t calls; // those from it on begin calls
};

static void add_mark(struct marks *m, struct sv mark) {
    if (mark.n) m->at[m->n++] = mark;
}

static struct marks marks_now(const struct reply *r) {
    const struct reply_format *f = &r->format;
    struct marks m = {.n = 0};
    if (r->mode == IN_REASONING) {
        add_mark(&m, f->think_close);
        m.calls = m.n;
        return m;
    }
    // Nothing was thought where the end comes alone.
    if (!r->spoke) add_mark(&m, f->think_open);
    if (!r->spoke) add_mark(&m, f->think_close);
    if (!r->spoke && reply_wrapped(r)) add_mark(&m, sv(REPLY_ANSWER));
    m.first = m.n;
    for (size_t i = 0; i < f->marks; i++) add_mark(&m, f->mark[i]);
    m.calls = m.n;
    for (size_t i = 0; i < f->styles && r->opt.tools; i++)
        if (f->style[i]->open || f->style[i]->kind == CALLS_TAGS)
            add_mark(&m, style_trigger(f->style[i]));
    return m;
}

enum { MOST_NAME = 256 };

static enum fit mark_fits(struct sv rest, struct sv mark, bool ended, size_t *n) {
    ptrdiff_t hole = sv_find(mark, sv("*"), 0);
    *n = mark.n;
    if (hole < 0) return fits(rest, mark, ended);
    enum fit f = fits(rest, sv_cut(mark, 0, (size_t)hole), ended);
    if (f != FIT_YES) return f;
    size_t i = (size_t)hole;
    while (i < rest.n && i < MOST_NAME && (is_word(rest.p[i]) || strchr("0123456789.-", rest.p[i])))
        i++;
    if (i == rest.n) return ended ? FIT_NO : FIT_MORE;
    struct sv behind = sv_cut(mark, (size_t)hole + 1, mark.n);
    *n = i + behind.n;
    return fits(sv_cut(rest, i, rest.n), behind, ended);
}

// The first place where a mark stands, the longest there, or begins and may go on; *which is m->n
// then. *bytes of it are the mark.
static size_t find_mark(const struct marks *m, struct sv rest, bool ended, size_t *which,
                        size_t *bytes) {
    *which = m->n;
    *bytes = 0;
    bool blank = true;
    for (size_t i = 0; i < rest.n; i++) {
        struct sv here = sv_cut(rest, i, rest.n);
        bool more = false;
        for (size_t k = blank ? 0 : m->first; k < m->n; k++) {
            if (m->at[k].p[0] != here.p[0]) continue;
            size_t n;
            enum fit f = mark_fits(here, m->at[k], ended, &n);
            more |= f == FIT_MORE;
            if (f != FIT_YES || n <= *bytes) continue;
            *which = k;
            *bytes = n;
        }
        if (more) *which = m->n;
        if (more || *bytes) return i;
        blank = blank && jscan_space(rest.p[i]);
    }
    return rest.n;
}

static void pass_mark(struct reply *r, struct sv mark, size_t bytes) {
    bool close = sv_eq(mark, r->format.think_close);
    if (r->mode == IN_CONTENT && sv_eq(mark, r->format.think_open))
        r->mode = IN_REASONING;
    else if (r->mode == IN_REASONING && close)
        r->mode = IN_CONTENT;
    else if (sv_is(mark, REPLY_ANSWER))
        r->mode = IN_ANSWER;
    else if (r->spoke) // white space around the end of the answer is no part of it
        r->after_call = true;
    r->reasoned |= r->mode == IN_REASONING || close;
    r->lent = 0;
    if (!r->after_call) str_clear(&r->held);
    input_eat(r, bytes);
}

// A call without a mark before it, at the beginning of the content.
static enum fit bare_call(struct reply *r, struct sv *trigger) {
    struct sv rest = input_rest(r);
    size_t i = 0;
    while (i < rest.n && jscan_space(rest.p[i])) i++;
    enum fit found = FIT_NO;
    for (size_t k = 0; k < r->format.styles; k++) {
        const struct call_style *s = r->format.style[k];
        if (s->open || s->kind == CALLS_TAGS || i == rest.n) continue;
        *trigger = style_trigger(s);
        enum fit f = fits(sv_cut(rest, i, rest.n), *trigger, r->ended);
        if (f == FIT_YES) {
            show_text(r, REPLY_CONTENT, sv_cut(rest, 0, i));
            input_eat(r, i);
            return FIT_YES;
        }
        if (f == FIT_MORE) found = FIT_MORE;
    }
    return found;
}

static bool read_text(struct reply *r) {
    if (r->ended && r->mode == IN_CONTENT && answer_unbegun(r)) {
        r->at = r->in.n;
        return false;
    }
    if (r->mode == IN_CONTENT && !r->spoke && r->opt.tools) {
        struct sv trigger;
        enum fit f = bare_call(r, &trigger);
        if (f == FIT_MORE) return false;
        if (f == FIT_YES) {
            enter_calls(r, trigger);
            return true;
        }
    }
    struct marks m = marks_now(r);
    struct sv rest = input_rest(r);
    size_t which, bytes, n = find_mark(&m, rest, r->ended, &which, &bytes);
    // What comes first in the content may be a call without a mark: one more look then.
    if (n) {
        show_text(r, r->mode == IN_REASONING ? REPLY_REASONING : REPLY_CONTENT, sv_cut(rest, 0, n));
        input_eat(r, n);
    }
    if (which == m.n) return false;
    if (which >= m.calls)
        enter_calls(r, m.at[which]);
    else
        pass_mark(r, m.at[which], bytes);
    return true;
}

// --- the reply -----------------------------------------------------------------------------------

struct reply *reply_open(const struct reply_format *f, const struct reply_options *opt) {
    struct reply *r = mem_alloc(sizeof *r);
    r->format = *f;
    r->opt = *opt;
    json_object_get(r->opt.tools);
    stops_set(&r->stops, opt->stop, opt->stops);
    r->opt.stop = NULL; // its owner's
    r->mode = f->harmony ? IN_HARMONY : opt->opened ? IN_REASONING : IN_CONTENT;
    r->reasoned = opt->opened;
    str_add(&r->in, f->begun);
    r->lent = f->begun.n;
    return r;
}

void reply_close(struct reply *r) {
    if (!r) return;
    json_object_put(r->opt.tools);
    stops_free(&r->stops);
    struct str *const texts[] = {&r->in,   &r->held, &r->raw,   &r->key,
                                 &r->name, &r->id,   &r->value, &r->out};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) str_free(texts[i]);
    free(r->event);
    free(r);
}

static void run(struct reply *r) {
    bool on = true;
    while (on && !r->stops.found && (r->at < r->in.n || r->ended)) {
        if (r->mode == IN_CALLS)
            on = step_calls(r);
        else if (r->mode == IN_ANSWER)
            on = read_answer(r);
        else
            on = r->mode == IN_HARMONY ? read_harmony(r) : read_text(r);
    }
    // Taken input goes: what is left is at most a mark's beginning.
    struct sv rest = input_rest(r);
    if (rest.n) memmove(r->in.p, rest.p, rest.n);
    r->in.n = rest.n;
    r->at = 0;
}

void reply_push(struct reply *r, struct sv text) {
    reuse(r);
    str_add(&r->in, text);
    run(r);
}

bool reply_thinks(const struct reply *r) {
    return r->mode == IN_HARMONY ? harmony_thinks(r) : r->mode == IN_REASONING;
}

bool reply_wrapped(const struct reply *r) {
    return r->format.generic && r->opt.tools && !r->opt.formed;
}

struct reply_place reply_place(const struct reply *r) {
    return (struct reply_place){.inside = in_answer(r), .said = r->said, .shown = r->shown};
}

struct sv reply_stop(const struct reply *r) {
    return stops_by(&r->stops);
}

size_t reply_unsaid(const struct reply *r) {
    size_t n = utf8_count(str_sv(&r->stops.held));
    if (r->stops.found) n += utf8_count(str_sv(&r->held)) + utf8_count(input_rest(r));
    return n;
}

void reply_finish(struct reply *r) {
    reuse(r);
    if (r->ended) return;
    r->ended = true;
    run(r);
    bool shown = r->mode != IN_REASONING && !r->after_call && (r->spoke || !r->reasoned);
    if (shown && r->held.n) add_event(r, REPLY_CONTENT, str_sv(&r->held), sv(""));
    str_clear(&r->held);
    end_content(r);
}

// --- a whole one ---------------------------------------------------------------------------------

static void call_free(struct reply_call *c) {
    str_free(&c->name);
    str_free(&c->id);
    str_free(&c->arguments);
}

static void add_call(struct reply_message *m, const struct reply_event *e) {
    m->call = mem_resize(m->call, m->calls + 1, sizeof *m->call);
    m->call[m->calls] = (struct reply_call){0};
    str_add(&m->call[m->calls].name, e->text);
    str_add(&m->call[m->calls].id, e->id);
    m->calls++;
}

static void name_call(struct reply_call *c, struct sv id) {
    str_clear(&c->id);
    str_add(&c->id, id);
}

void reply_message_add(struct reply_message *m, const struct reply_event *e) {
    switch (e->kind) {
    case REPLY_REASONING: str_add(&m->reasoning, e->text); break;
    case REPLY_CONTENT: str_add(&m->content, e->text); break;
    case REPLY_CALL: add_call(m, e); break;
    case REPLY_ARGUMENTS: str_add(&m->call[m->calls - 1].arguments, e->text); break;
    case REPLY_CALL_END: name_call(&m->call[m->calls - 1], e->id); break;
    case REPLY_CALL_LOST: call_free(&m->call[--m->calls]); break;
    }
}

void reply_take(struct reply *r, struct reply_message *m) {
    struct reply_event e;
    while (reply_next(r, &e)) reply_message_add(m, &e);
}

void reply_message_free(struct reply_message *m) {
    for (size_t i = 0; i < m->calls; i++) call_free(&m->call[i]);
    free(m->call);
    str_free(&m->reasoning);
    str_free(&m->content);
    *m = (struct reply_message){0};
}
