// OpenAI's harmony: messages, each with a head that names its channel and perhaps a recipient:
//   <|channel|>analysis<|message|>...<|end|>
//   <|start|>assistant<|channel|>commentary to=functions.NAME
//   <|constrain|>json<|message|>{}<|call|>
//   <|start|>assistant<|channel|>final<|message|>...<|return|>
// The recipient may also stand before the channel. Analysis is reasoning, a message to a function
// is a call, everything else is content.
#include "chat/reply/call.h"

enum { HEAD, REASONING, CONTENT, CALL, CALLED };

static const char *const ends[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"};
enum { ENDS = sizeof ends / sizeof *ends, HEADLESS = 3 }; // those from HEADLESS on begin a head

static const char message[] = "<|message|>"; // ends a head

static bool go(struct reply *r, int at) {
    r->harmony = at;
    return true;
}

// The word behind `mark` in a head.
static struct sv word_behind(struct sv head, const char *mark) {
    ptrdiff_t at = sv_find(head, sv(mark), 0);
    if (at < 0) return sv("");
    struct sv rest = sv_cut(head, (size_t)at + sv(mark).n, head.n);
    size_t n = 0;
    while (n < rest.n && rest.p[n] != ' ' && rest.p[n] != '<' && rest.p[n] != '\n') n++;
    return sv_cut(rest, 0, n);
}

// Several messages make one part of the reply, a line break between them.
static void begin_part(struct reply *r, enum reply_kind kind) {
    bool begun = kind == REPLY_CONTENT ? r->spoke : r->thought;
    str_clear(&r->held);
    if (begun) str_addc(&r->held, '\n');
}

static void begin_message(struct reply *r) {
    struct sv head = str_sv(&r->name);
    struct sv channel = word_behind(head, "<|channel|>"), to = word_behind(head, "to=");
    struct sv prefix = sv("functions.");
    bool function = sv_starts(to, prefix);
    if (function) to = sv_cut(to, prefix.n, to.n);
    if (r->opt.tools && to.n && (function || tool_known(r->opt.tools, to))) {
        r->scan = (struct jscan){0};
        str_clear(&r->raw);
        str_add(&r->raw, head);
        str_puts(&r->raw, message);
        call_begin(r, to, sv(""));
        go(r, CALL);
        return;
    }
    bool analysis = sv_is(channel, "analysis");
    r->reasoned |= analysis;
    begin_part(r, analysis ? REPLY_REASONING : REPLY_CONTENT);
    go(r, analysis ? REASONING : CONTENT);
}

// Whether the rest begins as a head does.
static enum fit head_fits(const struct reply *r) {
    static const char *const begins[] = {"<|start|>", "<|channel|>", "to=", " to=", "assistant"};
    enum fit found = FIT_NO;
    for (size_t i = 0; i < sizeof begins / sizeof *begins && found != FIT_YES; i++) {
        enum fit f = input_fits(r, begins[i]);
        if (f != FIT_NO) found = f;
    }
    return found;
}

static bool head(struct reply *r) {
    if (!r->name.n) {
        enum fit f = head_fits(r);
        if (f == FIT_MORE) return false;
        // The model left the head out.
        if (f == FIT_NO && !input_rest(r).n) return false;
        if (f == FIT_NO) {
            begin_part(r, REPLY_CONTENT);
            return go(r, CONTENT);
        }
    }
    enum fit f = input_head(r, message, false, &r->name);
    if (f == FIT_MORE) return false;
    if (f == FIT_YES) {
        begin_message(r);
    } else if (r->name.n == MOST_HEAD) { // one that is cut short at the end says nothing
        show_text(r, REPLY_CONTENT, str_sv(&r->name));
        go(r, CONTENT);
    }
    str_clear(&r->name);
    return true;
}

// The first of the marks that end a message in the rest; *which is ENDS when none is whole, and
// what is returned is where one may begin.
static size_t find_end(const struct reply *r, size_t *which) {
    struct sv rest = input_rest(r);
    size_t first = rest.n;
    *which = ENDS;
    for (size_t k = 0; k < ENDS; k++) {
        ptrdiff_t at = sv_find(rest, sv(ends[k]), 0);
        size_t part = r->ended ? rest.n : rest.n - input_tail(rest, sv(ends[k]));
        size_t here = at >= 0 ? (size_t)at : part;
        if (here >= first && !(here == first && at >= 0)) continue;
        first = here;
        *which = at >= 0 ? k : ENDS;
    }
    return first;
}

static bool text(struct reply *r) {
    size_t which, n = find_end(r, &which);
    enum reply_kind kind = r->harmony == REASONING ? REPLY_REASONING : REPLY_CONTENT;
    if (n) show_text(r, kind, sv_cut(input_rest(r), 0, n));
    input_eat(r, n);
    if (which == ENDS) return false;
    if (which < HEADLESS) input_eat(r, sv(ends[which]).n);
    if (kind == REPLY_REASONING) str_clear(&r->held);
    return go(r, HEAD);
}

// The message's body is the arguments.
static bool call(struct reply *r) {
    bool done = false;
    if (!r->scan.depth) input_skip_space(r);
    struct sv rest = input_rest(r);
    bool object = r->scan.depth || !rest.n || rest.p[0] == '{';
    str_clear(&r->value);
    enum step s = object ? input_json(r, &r->value, &done) : STEP_LOST;
    call_argue(r, str_sv(&r->value));
    if (done) {
        call_end(r);
        return go(r, CALLED);
    }
    if (s != STEP_LOST && !r->ended) return s == STEP_ON;
    lose_call(r);
    return go(r, CONTENT);
}

static bool called(struct reply *r) {
    input_skip_space(r);
    if (!input_rest(r).n) return false;
    for (size_t k = 0; k < ENDS; k++) {
        enum fit f = k < HEADLESS ? input_take(r, ends[k]) : input_fits(r, ends[k]);
        if (f == FIT_MORE) return false;
        if (f == FIT_YES) return go(r, HEAD);
    }
    return go(r, CONTENT);
}

bool harmony_thinks(const struct reply *r) { return r->harmony == REASONING; }

bool read_harmony(struct reply *r) {
    switch (r->harmony) {
    case HEAD: return head(r);
    case CALL: return call(r);
    case CALLED: return called(r);
    default: return text(r);
    }
}
