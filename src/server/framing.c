#include "server/framing.h"

#include <microhttpd.h>
#include <string.h>
#include <strings.h>

bool framing_check_target(struct exchange *x, const char *target) {
    for (const char *c = target; *c; c++)
        if (*c <= ' ' && *c > 0) // bytes above ASCII are common, and clear
            return refuse(&x->refusal, 400, NULL, "the path has white space; write it as %%20");
    return !strchr(target, 0x7f) ||
           refuse(&x->refusal, 400, NULL, "the path has a control character");
}

struct header_facts {
    struct exchange *x;
    int lengths, encodings, hosts;
    bool chunked; // the last encoding is that and nothing else
};

static bool is_token(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (s[i] <= ' ' || s[i] > '~' || strchr("\"(),/:;<=>?@[\\]{}", s[i])) return false;
    return n > 0;
}

static bool is_text(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if ((c < ' ' && c != '\t') || c == 0x7f) return false;
    }
    return true;
}

// A line that begins with white space goes on with the one before. libmicrohttpd before 1.0 adds it
// to the name, of which it makes a copy that lies behind the value; a name on one line with its
// value lies before it.
static bool is_folded(const char *name, const char *value) {
    return value && (uintptr_t)value < (uintptr_t)name;
}

static enum MHD_Result look(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_size,
                            const char *value, size_t value_size) {
    struct header_facts *f = arg;
    struct refusal *r = &f->x->refusal;
    (void)kind;
    if (is_folded(name, value))
        refuse(r, 400, NULL, "a header's line goes on in the next, which is obsolete");
    else if (!is_token(name, name_size))
        refuse(r, 400, NULL, "a header's name is followed by white space, or is none");
    else if (!is_text(value, value_size))
        refuse(r, 400, NULL, "the header %s has a control character", name);
    f->hosts += !strcasecmp(name, "Host");
    f->lengths += !strcasecmp(name, "Content-Length");
    if (!strcasecmp(name, "Transfer-Encoding")) {
        f->encodings++;
        f->chunked = value && !strcasecmp(value, "chunked");
    }
    return r->status ? MHD_NO : MHD_YES;
}

bool framing_check_header(struct exchange *x, const char *version) {
    struct header_facts f = {.x = x};
    struct refusal *r = &x->refusal;
    bool old = !strcmp(version, "HTTP/1.0");
    MHD_get_connection_values_n(x->mhd, MHD_HEADER_KIND, look, &f);
    if (r->status) return false;
    if (f.hosts > 1 || (!f.hosts && !old))
        return refuse(r, 400, NULL, "the header Host is %s",
                      f.hosts ? "there more than once" : "missing");
    if (f.lengths > 1 || f.encodings > 1)
        return refuse(r, 400, NULL, "the header %s is there more than once",
                      f.lengths > 1 ? "Content-Length" : "Transfer-Encoding");
    if (f.lengths && f.encodings)
        return refuse(r, 400, NULL, "Content-Length and Transfer-Encoding exclude each other");
    if (f.encodings && old) return refuse(r, 400, NULL, "HTTP/1.0 has no Transfer-Encoding");
    return !f.encodings || f.chunked ||
           refuse(r, 501, NULL, "Transfer-Encoding: only \"chunked\" is read");
}
