#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "checkpoint/safetensors.h"

struct st_writer {
    char *path, *tmp;
    int fd;
    size_t n;
    size_t *at, *bytes; // of each entry: place in the file and size
    size_t now, done;   // the entry being written, and how much of it is
};

static size_t entry_size(const struct st_entry *t, struct error *e) {
    size_t size = dtype_size(t->type);
    for (int d = 0; d < t->dims; d++)
        if (t->n[d] < 0 || !size_mul(size, (size_t)t->n[d], &size))
            fail(e, "tensor \"%s\": a size in its shape is impossible", t->name);
    return size;
}

// Offsets by falling dtype size, entries of one size in their order. Returns the data's size.
static size_t lay_out(struct st_writer *w, const struct st_entry *entry, struct error *e) {
    size_t at = 0;
    for (size_t size = 8; size; size /= 2) {
        for (size_t i = 0; i < w->n && !e->set; i++) {
            if (dtype_size(entry[i].type) != size) continue;
            w->at[i] = at;
            w->bytes[i] = entry_size(&entry[i], e);
            if (!size_add(at, w->bytes[i], &at)) fail(e, "the tensors are too large for a file");
        }
    }
    return at;
}

static void add_entry(struct str *out, const struct st_entry *t, size_t begin, size_t bytes) {
    json_quote(out, sv(t->name));
    str_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", dtype_name(t->type));
    for (int d = 0; d < t->dims; d++) str_printf(out, "%s%lld", d ? "," : "", (long long)t->n[d]);
    str_printf(out, "],\"data_offsets\":[%zu,%zu]}", begin, begin + bytes);
}

static bool write_at(struct st_writer *w, const char *data, size_t n, size_t at, struct error *e) {
    while (n) {
        ssize_t k = pwrite(w->fd, data, n, (off_t)at);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return fail(e, "%s: cannot write: %s", w->path, strerror(errno));
        data += k, at += (size_t)k, n -= (size_t)k;
    }
    return true;
}

static bool write_header(struct st_writer *w, const struct st_entry *entry, const char *metadata,
                         struct error *e) {
    struct str head = {0};
    str_add(&head, sv_n("\0\0\0\0\0\0\0\0{", 9));
    if (metadata) str_printf(&head, "\"__metadata__\":%s", metadata);
    for (size_t i = 0; i < w->n; i++) {
        if (i || metadata) str_addc(&head, ',');
        add_entry(&head, &entry[i], w->at[i], w->bytes[i]);
    }
    str_addc(&head, '}');
    while (head.n % 64) str_addc(&head, ' ');
    for (size_t i = 0; i < 8; i++) head.p[i] = (char)((head.n - 8) >> (8 * i) & 255);
    for (size_t i = 0; i < w->n; i++) w->at[i] += head.n;
    bool ok = head.n - 8 <= ST_HEADER_MAX;
    if (!ok) fail(e, "%s: the header would be over %d bytes", w->path, ST_HEADER_MAX);
    ok = ok && write_at(w, head.p, head.n, 0, e);
    str_free(&head);
    return ok;
}

struct st_writer *st_writer_open(const char *path, const struct st_entry *entry, size_t n,
                                 const char *metadata, struct error *e) {
    struct st_writer *w = mem_alloc(sizeof *w);
    struct str tmp = {0};
    char *target = file_target(path, e);
    str_printf(&tmp, "%s.tmp-%d", target ? target : path, (int)getpid());
    *w = (struct st_writer){.path = target, .tmp = tmp.p, .fd = -1, .n = n};
    w->at = mem_array(n + 1, sizeof *w->at);
    w->bytes = mem_array(n + 1, sizeof *w->bytes);
    lay_out(w, entry, e);
    if (!e->set) w->fd = open(w->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (w->fd < 0) fail(e, "%s: cannot write: %s", path, strerror(errno));
    if (!e->set && write_header(w, entry, metadata, e)) return w;
    st_writer_abort(w);
    return NULL;
}

bool st_writer_add(struct st_writer *w, const void *data, size_t bytes, struct error *e) {
    while (w->now < w->n && w->done == w->bytes[w->now]) w->now++, w->done = 0;
    if (!bytes) return true;
    if (w->now == w->n || bytes > w->bytes[w->now] - w->done)
        return fail(e, "%s: %zu bytes for entry %zu are more than its shape takes", w->path, bytes,
                    w->now);
    size_t at = w->at[w->now] + w->done;
    w->done += bytes;
    return write_at(w, data, bytes, at, e);
}

static void writer_free(struct st_writer *w) {
    if (w->fd >= 0) close(w->fd);
    free(w->path);
    free(w->tmp);
    free(w->at);
    free(w->bytes);
    free(w);
}

bool st_writer_finish(struct st_writer *w, struct error *e) {
    st_writer_add(w, NULL, 0, e);
    if (w->now < w->n) fail(e, "%s: entry %zu was not written whole", w->path, w->now);
    if (!e->set && (fsync(w->fd) != 0 || rename(w->tmp, w->path) != 0))
        fail(e, "%s: cannot write: %s", w->path, strerror(errno));
    if (e->set)
        st_writer_abort(w);
    else
        writer_free(w);
    return !e->set;
}

void st_writer_abort(struct st_writer *w) {
    if (!w) return;
    if (w->fd >= 0) unlink(w->tmp);
    writer_free(w);
}

bool st_write(const char *path, const struct st_tensor *t, size_t n, struct error *e) {
    struct st_entry *entry = mem_array(n + 1, sizeof *entry);
    for (size_t i = 0; i < n; i++) {
        entry[i] = (struct st_entry){.name = t[i].name, .type = t[i].t.type, .dims = t[i].t.dims};
        memcpy(entry[i].n, t[i].t.n, sizeof entry[i].n);
    }
    struct st_writer *w = st_writer_open(path, entry, n, NULL, e);
    free(entry);
    if (!w) return false;
    for (size_t i = 0; i < n && !e->set; i++)
        st_writer_add(w, t[i].t.data, tensor_bytes(t[i].t), e);
    return st_writer_finish(w, e);
}
