#include "checkpoint/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { NESTING = 8 }; // arrays in arrays

static const uint8_t kind_size[GGUF_KINDS] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

static const struct {
    const char *name;
    uint16_t block, bytes;
} types[] = {
    [0] = {"F32", 1, 4},       [1] = {"F16", 1, 2},       [2] = {"Q4_0", 32, 18},
    [3] = {"Q4_1", 32, 20},    [6] = {"Q5_0", 32, 22},    [7] = {"Q5_1", 32, 24},
    [8] = {"Q8_0", 32, 34},    [9] = {"Q8_1", 0, 0},      [10] = {"Q2_K", 256, 84},
    [11] = {"Q3_K", 256, 110}, [12] = {"Q4_K", 256, 144}, [13] = {"Q5_K", 256, 176},
    [14] = {"Q6_K", 256, 210}, [15] = {"Q8_K", 0, 0},     [16] = {"IQ2_XXS", 0, 0},
    [17] = {"IQ2_XS", 0, 0},   [18] = {"IQ3_XXS", 0, 0},  [19] = {"IQ1_S", 0, 0},
    [20] = {"IQ4_NL", 0, 0},   [21] = {"IQ3_S", 0, 0},    [22] = {"IQ2_S", 0, 0},
    [23] = {"IQ4_XS", 0, 0},   [24] = {"I8", 0, 0},       [25] = {"I16", 0, 0},
    [26] = {"I32", 0, 0},      [27] = {"I64", 0, 0},      [28] = {"F64", 0, 0},
    [29] = {"IQ1_M", 0, 0},    [30] = {"BF16", 1, 2},     [34] = {"TQ1_0", 0, 0},
    [35] = {"TQ2_0", 0, 0},    [39] = {"MXFP4", 0, 0},    [40] = {"NVFP4", 0, 0},
    [41] = {"Q1_0", 0, 0},     [42] = {"Q2_0", 0, 0},
};
enum { TYPES = sizeof types / sizeof *types };

const char *gguf_type_name(uint32_t type) {
    return type < TYPES && types[type].name ? types[type].name : "?";
}

size_t gguf_type_block(uint32_t type) { return type < TYPES ? types[type].block : 0; }

size_t gguf_type_bytes(uint32_t type) { return type < TYPES ? types[type].bytes : 0; }

// Where the reader stands. After an error it stays there, and reads give zeros.
struct reader {
    const char *path;
    struct sv in;
    size_t at;
    struct error *e;
};

// How much of a name a message shows.
static int shown(struct sv name) { return name.n < 80 ? (int)name.n : 80; }

static bool take(struct reader *r, uint64_t n, struct sv *out) {
    *out = sv("");
    if (r->e->set) return false;
    if (n > r->in.n - r->at)
        return fail(r->e, "%s: ends too early: byte %zu needs %llu more (is the file truncated?)",
                    r->path, r->at, (unsigned long long)n);
    *out = sv_cut(r->in, r->at, r->at + (size_t)n);
    r->at += (size_t)n;
    return true;
}

static uint32_t take_u32(struct reader *r) {
    struct sv b;
    uint32_t v = 0;
    if (take(r, sizeof v, &b)) memcpy(&v, b.p, sizeof v);
    return v;
}

static uint64_t take_u64(struct reader *r) {
    struct sv b;
    uint64_t v = 0;
    if (take(r, sizeof v, &b)) memcpy(&v, b.p, sizeof v);
    return v;
}

static struct sv take_text(struct reader *r) {
    struct sv s;
    take(r, take_u64(r), &s);
    return s;
}

// Checks n elements and moves past them.
static bool skip_elements(struct reader *r, uint32_t kind, uint64_t n, int depth) {
    if (r->e->set) return false;
    if (kind >= GGUF_KINDS)
        return fail(r->e, "%s: byte %zu: metadata type %u is not known (is the file corrupt?)",
                    r->path, r->at, kind);
    if (depth > NESTING)
        return fail(r->e, "%s: byte %zu: arrays nest more than %d deep", r->path, r->at, NESTING);
    struct sv skipped;
    size_t width = kind_size[kind];
    if (width) return take(r, n > UINT64_MAX / width ? UINT64_MAX : n * width, &skipped);
    for (uint64_t i = 0; i < n && !r->e->set; i++) {
        if (kind == GGUF_TEXT) {
            take_text(r);
        } else {
            uint32_t inner = take_u32(r);
            skip_elements(r, inner, take_u64(r), depth + 1);
        }
    }
    return !r->e->set;
}

static bool take_value(struct reader *r, struct gguf_value *v) {
    uint32_t kind = take_u32(r);
    *v = (struct gguf_value){.array = kind == GGUF_ARRAY, .n = 1};
    if (v->array) {
        kind = take_u32(r);
        v->n = take_u64(r);
    }
    size_t from = r->at;
    if (!skip_elements(r, kind, v->n, 1)) return false;
    v->kind = (enum gguf_kind)kind;
    v->bytes = sv_cut(r->in, from, r->at);
    return true;
}

static bool read_keys(struct gguf *g, struct reader *r, uint64_t count) {
    size_t cap = 0, value_cap = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct sv key = take_text(r);
        struct gguf_value value;
        if (!take_value(r, &value)) return false;
        g->key = mem_grow(g->key, &cap, g->n_keys + 1, sizeof *g->key);
        g->value = mem_grow(g->value, &value_cap, g->n_keys + 1, sizeof *g->value);
        if (!map_put(&g->keys, key, (int64_t)g->n_keys))
            return fail(r->e, "%s: key \"%.*s\" is there twice", r->path, shown(key), key.p);
        g->key[g->n_keys] = key;
        g->value[g->n_keys++] = value;
    }
    return !r->e->set;
}

// A message about a tensor.
static bool bad_tensor(struct reader *r, const struct gguf_tensor *t, const char *why) {
    return fail(r->e, "%s: tensor \"%.*s\" (%s): %s", r->path, shown(t->name), t->name.p,
                gguf_type_name(t->type), why);
}

// The tensor's sizes, from its type and shape.
static bool size_tensor(struct reader *r, struct gguf_tensor *t) {
    size_t block = gguf_type_block(t->type), rows = 1, count;
    for (int d = 0; d < t->dims; d++)
        if (t->n[d] == 0 || t->n[d] > INT64_MAX)
            return bad_tensor(r, t, "a dimension is 0 or over 2^63");
    if (!block) return true;
    if (t->n[0] % block) return bad_tensor(r, t, "a row is not whole blocks");
    bool ok = size_mul((size_t)t->n[0] / block, gguf_type_bytes(t->type), &t->row);
    for (int d = 1; d < t->dims; d++) ok = ok && size_mul(rows, (size_t)t->n[d], &rows);
    ok = ok && size_mul(rows, (size_t)t->n[0], &count) && size_mul(rows, t->row, &t->size);
    return ok || bad_tensor(r, t, "its shape overflows");
}

// One entry of the tensor list.
static bool read_tensor(struct reader *r, struct gguf_tensor *t) {
    *t = (struct gguf_tensor){.name = take_text(r), .n = {1, 1, 1, 1}};
    uint32_t dims = take_u32(r);
    if (r->e->set) return false;
    if (dims < 1 || dims > GGUF_DIMS)
        return fail(r->e, "%s: tensor \"%.*s\" has %u dimensions (1 to %d are read)", r->path,
                    shown(t->name), t->name.p, dims, GGUF_DIMS);
    t->dims = (int)dims;
    for (uint32_t d = 0; d < dims; d++) t->n[d] = take_u64(r);
    t->type = take_u32(r);
    t->offset = take_u64(r);
    if (r->e->set) return false;
    if (t->type >= TYPES || !types[t->type].name)
        return fail(r->e, "%s: tensor \"%.*s\": type %u is not known", r->path, shown(t->name),
                    t->name.p, t->type);
    return size_tensor(r, t);
}

// The data starts at `start`.
static bool place_tensor(struct reader *r, struct gguf_tensor *t, size_t start, size_t align) {
    size_t room = r->in.n - start;
    if (t->offset % align) return bad_tensor(r, t, "its offset is not a multiple of the alignment");
    if (t->offset > room || t->size > room - t->offset)
        return bad_tensor(r, t, "reaches past the end of the file (is it truncated?)");
    if (gguf_type_block(t->type)) t->data = (const unsigned char *)r->in.p + start + t->offset;
    return true;
}

// Reads the list; the data follows it at the next aligned position.
static bool read_tensors(struct gguf *g, struct reader *r, uint64_t count, size_t align) {
    size_t cap = 0;
    bool ok = true;
    for (uint64_t i = 0; i < count && ok; i++) {
        g->tensor = mem_grow(g->tensor, &cap, g->n_tensors + 1, sizeof *g->tensor);
        struct gguf_tensor *t = &g->tensor[g->n_tensors];
        ok = read_tensor(r, t);
        if (ok && !map_put(&g->tensors, t->name, (int64_t)g->n_tensors))
            ok = bad_tensor(r, t, "is there twice");
        if (ok) g->n_tensors++;
    }
    size_t pad = (align - r->at % align) % align;
    size_t start = pad > r->in.n - r->at ? r->in.n : r->at + pad;
    for (size_t i = 0; i < g->n_tensors && ok; i++)
        ok = place_tensor(r, &g->tensor[i], start, align);
    return ok;
}

bool gguf_parse(const char *path, struct sv bytes, struct gguf *g, struct error *e) {
    *g = (struct gguf){.path = path};
    struct reader r = {.path = path, .in = bytes, .e = e};
    if (!sv_starts(bytes, sv("GGUF")))
        return fail(e, "%s: is not a GGUF file (it does not begin with \"GGUF\")", path);
    r.at = 4;
    g->version = take_u32(&r);
    uint64_t tensors = take_u64(&r), keys = take_u64(&r);
    if (e->set) return false;
    if (g->version && !(g->version & 0xffff))
        return fail(e, "%s: is big-endian GGUF; only little-endian is read", path);
    if (g->version != 2 && g->version != 3)
        return fail(e, "%s: is GGUF version %u; versions 2 and 3 are read", path, g->version);
    int64_t align;
    if (!read_keys(g, &r, keys) || !gguf_int(g, "general.alignment", 32, &align, e)) return false;
    if (align < 1 || align > 1 << 20 || (align & (align - 1)))
        return fail(e, "%s: key \"general.alignment\": %lld is not a power of two up to 2^20", path,
                    (long long)align);
    return read_tensors(g, &r, tensors, (size_t)align);
}

bool gguf_open(const char *path, struct gguf *g, struct error *e) {
    *g = (struct gguf){.path = path};
    struct mapping m;
    if (!map_file(path, &m, e)) return false;
    bool ok = gguf_parse(path, sv_n((const char *)m.p, m.n), g, e);
    g->map = m;
    return ok;
}

void gguf_close(struct gguf *g) {
    free(g->key);
    free(g->value);
    free(g->tensor);
    map_free(&g->keys);
    map_free(&g->tensors);
    unmap_file(&g->map);
    *g = (struct gguf){0};
}

const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name) {
    int64_t i = map_get(&g->tensors, sv(name));
    return i < 0 ? NULL : &g->tensor[i];
}

const struct gguf_value *gguf_value(const struct gguf *g, const char *key) {
    int64_t i = map_get(&g->keys, sv(key));
    return i < 0 ? NULL : &g->value[i];
}

static bool wrong(const struct gguf *g, const char *key, const char *want, struct error *e) {
    return fail(e, "%s: key \"%s\" is not %s", g->path, key, want);
}

// The integer at p; false when the kind is not one, or the value is over INT64_MAX.
static bool int_from(enum gguf_kind kind, const char *p, int64_t *out) {
    uint64_t u = 0;
    int spare = 64 - 8 * kind_size[kind];
    memcpy(&u, p, kind_size[kind]);
    switch (kind) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64: *out = (int64_t)u; return u <= INT64_MAX;
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64: *out = (int64_t)(u << spare) >> spare; return true; // extends the sign
    default: return false;
    }
}

static bool number_from(enum gguf_kind kind, const char *p, double *out) {
    float f;
    int64_t i;
    if (kind == GGUF_F32)
        memcpy(&f, p, sizeof f), *out = (double)f;
    else if (kind == GGUF_F64)
        memcpy(out, p, sizeof *out);
    else if (int_from(kind, p, &i))
        *out = (double)i;
    else
        return false;
    return true;
}

bool gguf_int(const struct gguf *g, const char *key, int64_t otherwise, int64_t *out,
              struct error *e) {
    const struct gguf_value *v = gguf_value(g, key);
    *out = otherwise;
    if (!v) return true;
    return (!v->array && int_from(v->kind, v->bytes.p, out)) || wrong(g, key, "an integer", e);
}

bool gguf_number(const struct gguf *g, const char *key, double otherwise, double *out,
                 struct error *e) {
    const struct gguf_value *v = gguf_value(g, key);
    *out = otherwise;
    if (!v) return true;
    return (!v->array && number_from(v->kind, v->bytes.p, out)) || wrong(g, key, "a number", e);
}

bool gguf_bool(const struct gguf *g, const char *key, bool otherwise, bool *out, struct error *e) {
    const struct gguf_value *v = gguf_value(g, key);
    *out = otherwise;
    if (!v) return true;
    if (v->array || v->kind != GGUF_BOOL) return wrong(g, key, "true or false", e);
    *out = v->bytes.p[0] != 0;
    return true;
}

// The text at *at, which parsing has checked; moves *at past it.
static struct sv next_text(struct sv bytes, size_t *at) {
    uint64_t n;
    memcpy(&n, bytes.p + *at, sizeof n);
    size_t from = *at + sizeof n;
    *at = from + (size_t)n;
    return sv_cut(bytes, from, *at);
}

bool gguf_text(const struct gguf *g, const char *key, struct sv otherwise, struct sv *out,
               struct error *e) {
    const struct gguf_value *v = gguf_value(g, key);
    *out = otherwise;
    if (!v) return true;
    if (v->array || v->kind != GGUF_TEXT) return wrong(g, key, "text", e);
    size_t at = 0;
    *out = next_text(v->bytes, &at);
    return true;
}

bool gguf_texts(const struct gguf *g, const char *key, struct sv **out, size_t *n,
                struct error *e) {
    const struct gguf_value *v = gguf_value(g, key);
    *out = NULL, *n = 0;
    if (!v || (v->array && !v->n)) return true;
    if (!v->array || v->kind != GGUF_TEXT) return wrong(g, key, "an array of texts", e);
    *n = (size_t)v->n; // no more than the file has bytes
    *out = mem_array(*n, sizeof **out);
    for (size_t i = 0, at = 0; i < *n; i++) (*out)[i] = next_text(v->bytes, &at);
    return true;
}

bool gguf_ints(const struct gguf *g, const char *key, int64_t **out, size_t *n, struct error *e) {
    const struct gguf_value *v = gguf_value(g, key);
    *out = NULL, *n = 0;
    if (!v || (v->array && !v->n)) return true;
    bool ok = v->array && kind_size[v->kind];
    if (ok) *n = (size_t)v->n, *out = mem_array(*n, sizeof **out);
    for (size_t i = 0; i < *n && ok; i++)
        ok = int_from(v->kind, v->bytes.p + i * kind_size[v->kind], &(*out)[i]);
    if (ok) return true;
    free(*out);
    *out = NULL, *n = 0;
    return wrong(g, key, "an array of integers", e);
}

bool gguf_numbers(const struct gguf *g, const char *key, double **out, size_t *n, struct error *e) {
    const struct gguf_value *v = gguf_value(g, key);
    *out = NULL, *n = 0;
    if (!v || (v->array && !v->n)) return true;
    bool ok = v->array && kind_size[v->kind];
    if (ok) *n = (size_t)v->n, *out = mem_array(*n, sizeof **out);
    for (size_t i = 0; i < *n && ok; i++)
        ok = number_from(v->kind, v->bytes.p + i * kind_size[v->kind], &(*out)[i]);
    if (ok) return true;
    free(*out);
    *out = NULL, *n = 0;
    return wrong(g, key, "an array of numbers", e);
}
