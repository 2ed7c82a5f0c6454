#include "checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/jread.h"
#include "base/mem.h"

// Legal in the format, but no dtype of the engine: their bits only serve to check sizes.
static const struct {
    const char *name, *unusable;
    unsigned bits;
} other_types[] = {
    {"F4", "has dtype F4", 4},
    {"F6_E2M3", "has dtype F6_E2M3", 6},
    {"F6_E3M2", "has dtype F6_E3M2", 6},
    {"F8_E4M3FNUZ", "has dtype F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", "has dtype F8_E5M2FNUZ", 8},
    {"C64", "has dtype C64", 64},
};

// One entry of the header, as read.
struct entry {
    char *name;
    enum dtype type;
    const char *unusable;
    unsigned bits;
    int dims;
    int64_t n[ST_DIMS];
    int64_t begin, end;
    bool has_type, has_shape, has_offsets;
};

// What the entries are collected in until the layout is checked.
struct header {
    struct st_file *f;
    const char *path;
    struct jread j;
    int64_t *begin, *end; // of each tensor of f
    size_t cap;
    bool has_metadata;
    struct error *e;
};

const char *st_foreign(struct sv head) {
    static const struct {
        const char *magic;
        const char *is;
    } known[] = {
        {"version https://git-lfs", "is a Git LFS pointer, not the file itself (run `git lfs pull` "
                                    "in the folder, or download the checkpoint again)"},
        {"GGUF", "is a GGUF file (turn it into a checkpoint folder with `mlxcel import`)"},
        {"PK\x03\x04", "is a PyTorch pickle archive, which can run code and is not read (use the "
                       "SafeTensors files of the model)"},
        {"\x80\x02", "is a Python pickle, which can run code and is not read (use the SafeTensors "
                     "files of the model)"},
        {"<!DOCTYPE", "is a web page, probably an error page (download the file again)"},
        {"<html", "is a web page, probably an error page (download the file again)"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (sv_starts(head, sv(known[i].magic))) return known[i].is;
    return NULL;
}

static bool refuse(struct header *h, struct sv name, const char *why) {
    return fail(h->e, "%s: tensor \"%.*s\": %s", h->path, (int)(name.n < 200 ? name.n : 200),
                name.p, why);
}

static bool read_dtype(struct header *h, struct entry *t) {
    if (jread_next(&h->j) != J_STRING) return refuse(h, sv(t->name), "dtype is not a string");
    struct sv name = h->j.text;
    if (dtype_from_name(name, &t->type)) {
        t->bits = (unsigned)dtype_size(t->type) * 8;
        return true;
    }
    for (size_t i = 0; i < sizeof other_types / sizeof *other_types; i++) {
        if (!sv_is(name, other_types[i].name)) continue;
        t->bits = other_types[i].bits;
        t->unusable = other_types[i].unusable;
        return true;
    }
    return fail(h->e, "%s: tensor \"%.200s\": unknown dtype \"%.*s\"", h->path, t->name,
                (int)(name.n < 40 ? name.n : 40), name.p);
}

static bool read_shape(struct header *h, struct entry *t) {
    if (jread_next(&h->j) != J_ARRAY) return refuse(h, sv(t->name), "shape is not a list");
    for (enum jtoken k; (k = jread_next(&h->j)) != J_ARRAY_END;) {
        if (k == J_ERROR) return false;
        if (k == J_UINT) return refuse(h, sv(t->name), "a dimension is above 2^63");
        if (k != J_INT || h->j.i < 0)
            return refuse(h, sv(t->name), "a dimension is not a whole number of 0 or more");
        if (t->dims == ST_DIMS) return refuse(h, sv(t->name), "has more than 8 dimensions");
        t->n[t->dims++] = h->j.i;
    }
    return true;
}

static bool read_offsets(struct header *h, struct entry *t) {
    int64_t at[2];
    if (jread_next(&h->j) != J_ARRAY) return refuse(h, sv(t->name), "data_offsets is not a list");
    for (int i = 0; i < 2; i++) {
        if (jread_next(&h->j) != J_INT || h->j.i < 0)
            return refuse(h, sv(t->name), "data_offsets are not two whole numbers of 0 or more");
        at[i] = h->j.i;
    }
    if (jread_next(&h->j) != J_ARRAY_END)
        return refuse(h, sv(t->name), "data_offsets has more than two numbers");
    t->begin = at[0], t->end = at[1];
    return true;
}

static bool read_field(struct header *h, struct entry *t) {
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    bool *const has[] = {&t->has_type, &t->has_shape, &t->has_offsets};
    bool (*const read[])(struct header *, struct entry *) = {read_dtype, read_shape, read_offsets};
    for (int i = 0; i < 3; i++) {
        if (!sv_is(h->j.text, names[i])) continue;
        if (*has[i]) return refuse(h, sv(t->name), "gives a field twice");
        *has[i] = true;
        return read[i](h, t);
    }
    return jread_skip(&h->j, J_KEY); // a field that the format may grow
}

// The bytes that shape and dtype say. A 0 does not excuse an overflow in the other dimensions,
// which would reach the strides.
static bool entry_bytes(struct header *h, const struct entry *t, size_t *bytes) {
    size_t count = 1, bits = 0;
    bool empty = false, fits = true;
    for (int d = 0; d < t->dims && fits; d++) {
        empty = empty || t->n[d] == 0;
        fits = size_mul(count, t->n[d] ? (size_t)t->n[d] : 1, &count);
    }
    if (!fits || !size_mul(count, t->bits, &bits))
        return refuse(h, sv(t->name), "its shape has too many elements for any file");
    if (empty) bits = 0;
    if (bits % 8) return refuse(h, sv(t->name), "its elements do not fill whole bytes");
    *bytes = bits / 8;
    return true;
}

static bool keep_entry(struct header *h, struct entry *t) {
    if (!t->has_type) return refuse(h, sv(t->name), "has no dtype");
    if (!t->has_shape) return refuse(h, sv(t->name), "has no shape");
    if (!t->has_offsets) return refuse(h, sv(t->name), "has no data_offsets");
    if (t->end < t->begin) return refuse(h, sv(t->name), "its data ends before it begins");
    size_t bytes = 0;
    if (!entry_bytes(h, t, &bytes)) return false;
    if ((size_t)(t->end - t->begin) != bytes)
        return fail(h->e,
                    "%s: tensor \"%.200s\": data_offsets give %lld bytes where shape and dtype "
                    "need %zu",
                    h->path, t->name, (long long)(t->end - t->begin), bytes);
    struct st_file *f = h->f;
    if (!t->unusable && t->dims > TENSOR_DIMS) t->unusable = "has more than 4 dimensions";
    f->tensor = mem_grow(f->tensor, &f->cap, f->n + 1, sizeof *f->tensor);
    struct st_tensor *out = &f->tensor[f->n++];
    *out = (struct st_tensor){.name = t->name, .unusable = t->unusable, .bytes = bytes};
    if (!t->unusable) out->t = tensor_nd(t->type, t->dims, t->n, NULL);
    t->name = NULL;
    if (f->n > h->cap) {
        size_t cap = h->cap;
        h->begin = mem_grow(h->begin, &cap, f->n, sizeof *h->begin);
        h->end = mem_grow(h->end, &h->cap, f->n, sizeof *h->end);
    }
    h->begin[f->n - 1] = t->begin, h->end[f->n - 1] = t->end;
    return true;
}

static bool read_entry(struct header *h, struct sv name) {
    if (memchr(name.p, 0, name.n)) return refuse(h, name, "its name holds a NUL");
    if (map_get(&h->f->by_name, name) >= 0) return refuse(h, name, "is there twice");
    map_set(&h->f->by_name, name, 0);
    struct entry t = {.name = mem_textn(name.p, name.n)};
    enum jtoken k = jread_next(&h->j);
    bool ok = k == J_OBJECT;
    if (!ok) refuse(h, sv(t.name), "its entry is not an object");
    while (ok && (k = jread_next(&h->j)) == J_KEY) ok = read_field(h, &t);
    ok = ok && k == J_OBJECT_END && keep_entry(h, &t);
    free(t.name);
    return ok;
}

static bool read_metadata(struct header *h) {
    if (h->has_metadata) return fail(h->e, "%s: __metadata__ is there twice", h->path);
    h->has_metadata = true;
    enum jtoken k = jread_next(&h->j);
    if (k == J_ERROR) return false;
    if (k == J_NULL) return true; // as MLX writes "none"
    size_t begin = h->j.at - 1;
    if (k != J_OBJECT) return fail(h->e, "%s: __metadata__ is not an object", h->path);
    while ((k = jread_next(&h->j)) == J_KEY) {
        k = jread_next(&h->j);
        if (k == J_ERROR) return false;
        if (k != J_STRING)
            return fail(h->e, "%s: __metadata__ holds %s where strings belong", h->path,
                        jtoken_name(k));
    }
    h->f->metadata = sv_cut(h->j.in, begin, h->j.at);
    return k == J_OBJECT_END;
}

static bool read_header(struct header *h) {
    enum jtoken k = jread_next(&h->j);
    if (k == J_ERROR) return false;
    if (k != J_OBJECT) return fail(h->e, "%s: the header is not a JSON object", h->path);
    while ((k = jread_next(&h->j)) == J_KEY) {
        struct sv name = h->j.text;
        if (!(sv_is(name, "__metadata__") ? read_metadata(h) : read_entry(h, name))) return false;
    }
    return k == J_OBJECT_END && jread_next(&h->j) == J_END;
}

struct place {
    int64_t begin, end;
    struct st_tensor tensor;
};

static int by_place(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

// The data part must be covered exactly, each byte by one tensor.
static bool check_cover(struct header *h, const struct place *place, size_t n, size_t data) {
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        struct sv name = sv(place[i].tensor.name);
        if (place[i].begin < at) return refuse(h, name, "its data overlaps another tensor's");
        if (place[i].begin > at)
            return refuse(h, name, "bytes before its data belong to no tensor");
        at = place[i].end;
        if ((size_t)at > data)
            return fail(h->e,
                        "%s: tensor \"%.200s\": its data ends at byte %lld of %zu (is the file "
                        "truncated? download it again)",
                        h->path, name.p, (long long)at, data);
    }
    if ((size_t)at < data)
        return fail(h->e, "%s: %zu bytes after the last tensor belong to none", h->path,
                    data - (size_t)at);
    return true;
}

// Puts the tensors into the order of their data and points them at it.
static bool place_tensors(struct header *h, struct sv data) {
    struct st_file *f = h->f;
    struct place *place = mem_array(f->n + 1, sizeof *place);
    for (size_t i = 0; i < f->n; i++)
        place[i] = (struct place){h->begin[i], h->end[i], f->tensor[i]};
    qsort(place, f->n, sizeof *place, by_place);
    bool ok = check_cover(h, place, f->n, data.n);
    for (size_t i = 0; i < f->n; i++) {
        f->tensor[i] = place[i].tensor;
        if (ok && !f->tensor[i].unusable)
            f->tensor[i].t.data = (void *)(uintptr_t)(data.p + place[i].begin);
        map_set(&f->by_name, sv(f->tensor[i].name), (int64_t)i);
    }
    free(place);
    return ok;
}

static bool header_length(struct sv file, const char *path, size_t *length, struct error *e) {
    const char *foreign = st_foreign(file);
    if (foreign) return fail(e, "%s: %s", path, foreign);
    if (file.n < 8)
        return fail(e, "%s: is %zu bytes, too short for a SafeTensors file (download it again)",
                    path, file.n);
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) n = n << 8 | (unsigned char)file.p[i];
    if (n > ST_HEADER_MAX)
        return fail(e, "%s: is not a SafeTensors file: header of %llu bytes, at most %d are legal",
                    path, (unsigned long long)n, ST_HEADER_MAX);
    if (n > file.n - 8)
        return fail(e,
                    "%s: header of %llu bytes in a file of %zu (is the file truncated? download "
                    "it again)",
                    path, (unsigned long long)n, file.n);
    *length = (size_t)n;
    return true;
}

static bool read_file(struct st_file *f, struct sv file, struct error *e) {
    size_t length = 0;
    if (!header_length(file, f->path, &length, e)) return false;
    struct header h = {.f = f, .path = f->path, .e = e};
    struct sv text = sv_cut(file, 8, 8 + length), data = sv_cut(file, 8 + length, file.n);
    jread_open(&h.j, text, f->path, e);
    bool ok = read_header(&h) && place_tensors(&h, data);
    jread_close(&h.j);
    free(h.begin);
    free(h.end);
    return ok;
}

bool st_open(struct st_file *f, const char *path, struct error *e) {
    *f = (struct st_file){.path = mem_text(path)};
    bool ok = map_file(path, &f->map, e) && read_file(f, sv_n((const char *)f->map.p, f->map.n), e);
    if (!ok) st_close(f);
    return ok;
}

bool st_read(struct st_file *f, struct sv file, const char *what, struct error *e) {
    *f = (struct st_file){.path = mem_text(what)};
    bool ok = read_file(f, file, e);
    if (!ok) st_close(f);
    return ok;
}

void st_close(struct st_file *f) {
    for (size_t i = 0; i < f->n; i++) free(f->tensor[i].name);
    free(f->tensor);
    free(f->path);
    map_free(&f->by_name);
    unmap_file(&f->map);
    *f = (struct st_file){0};
}

const struct st_tensor *st_find(const struct st_file *f, struct sv name) {
    int64_t i = map_get(&f->by_name, name);
    return i < 0 ? NULL : &f->tensor[i];
}

const struct st_tensor *st_need(const struct st_file *f, struct sv name, struct error *e) {
    const struct st_tensor *t = st_find(f, name);
    int n = (int)(name.n < 200 ? name.n : 200);
    if (!t)
        fail(e, "%s: tensor \"%.*s\" is missing", f->path, n, name.p);
    else if (t->unusable)
        fail(e, "%s: tensor \"%.*s\" %s, which this engine does not read", f->path, n, name.p,
             t->unusable);
    else
        return t;
    return NULL;
}
