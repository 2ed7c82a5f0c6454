#include "checkpoint/weights.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "checkpoint/weights_internal.h"

size_t weights_count(const struct weights *w) { return w->n; }

const char *weights_name(const struct weights *w, size_t i) { return w->item[i].name; }

struct weights_item *weights_item(const struct weights *w, struct sv name) {
    int64_t i = map_get(&w->by_name, name);
    return i < 0 ? NULL : &w->item[i];
}

static const char *file_of(const struct weights *w, const struct weights_item *it) {
    return w->dummy ? w->folder : w->file[it->file].path;
}

bool weights_has(const struct weights *w, struct sv name) { return weights_item(w, name) != NULL; }

bool weights_rename(struct weights *w, const char *from, const char *to, struct error *e) {
    struct weights_item *it = weights_item(w, sv(from));
    if (!it) return fail(e, "%s: tensor \"%s\" is missing", w->folder, from);
    if (weights_item(w, sv(to)))
        return fail(e, "%s: tensor \"%s\" cannot become \"%s\", which is there too", file_of(w, it),
                    from, to);
    free(it->name);
    it->name = mem_text(to);
    map_set(&w->by_name, sv(from), -1); // as if it had never been there
    map_set(&w->by_name, sv(to), it - w->item);
    return true;
}

bool weights_move(struct weights *w, const char *from, const char *to, struct error *e) {
    bool ok = true;
    for (size_t i = 0; i < w->n && ok; i++) {
        if (!sv_starts(sv(w->item[i].name), sv(from))) continue;
        char *old = mem_text(w->item[i].name);
        struct str name = {0};
        str_printf(&name, "%s%s", to, old + strlen(from));
        ok = weights_rename(w, old, str_c(&name), e);
        str_free(&name);
        free(old);
    }
    return ok;
}

// Memory that lives as long as w.
void *weights_keep(struct weights *w, size_t size) {
    w->copy = mem_grow(w->copy, &w->copy_cap, w->copies + 1, sizeof *w->copy);
    return w->copy[w->copies++] = mem_alloc(size);
}

void *weights_room(struct weights *w, size_t bytes, const char *what, struct error *e) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED) {
        fail(e, "%s: cannot map %.1f MiB for \"%.200s\": %s", w->folder, (double)bytes / 0x1p20,
             what, strerror(errno));
        return NULL;
    }
    w->room = mem_grow(w->room, &w->room_cap, w->rooms + 1, sizeof *w->room);
    w->room[w->rooms++] = (struct weights_room){p, bytes};
    return p;
}

// Old files may hold a tensor at any byte; kernels may not.
void weights_align(struct weights *w, struct weights_item *it, size_t to_bytes) {
    struct tensor *t = &it->t.t;
    if (!t->data || (uintptr_t)t->data % to_bytes == 0) return;
    void *to = weights_keep(w, it->t.bytes);
    memcpy(to, t->data, it->t.bytes);
    t->data = to;
}

static struct weights_item *use(struct weights *w, struct sv name) {
    struct weights_item *it = weights_item(w, name);
    if (!it) return NULL;
    it->used = true;
    weights_align(w, it, dtype_size(it->t.t.type));
    return it;
}

struct weights_item *weights_need_item(struct weights *w, struct sv name, struct error *e) {
    struct weights_item *it = use(w, name);
    if (!it)
        fail(e,
             "%s: tensor \"%.*s\" is missing (download the files again; if they are whole, "
             "config.json is not theirs)",
             w->folder, (int)(name.n < 200 ? name.n : 200), name.p);
    else if (it->t.unusable)
        fail(e, "%s: tensor \"%.200s\" %s, which this engine does not read", file_of(w, it),
             it->name, it->t.unusable);
    else
        return it;
    return NULL;
}

const struct st_tensor *weights_find(struct weights *w, struct sv name) {
    struct weights_item *it = use(w, name);
    return it ? &it->t : NULL;
}

const struct st_tensor *weights_need(struct weights *w, struct sv name, struct error *e) {
    struct weights_item *it = weights_need_item(w, name, e);
    return it ? &it->t : NULL;
}

// --- what a model asks for ---------------------------------------------------------------------

// "FILE: tensor "NAME" is [2, 64] BF16, but WANTED"
bool weights_mismatch(struct error *e, const struct weights *w, const struct weights_item *it,
                      const char *wanted) {
    char shape[96];
    tensor_shape_text(it->t.t, shape);
    return fail(e, "%s: tensor \"%.200s\" is %s, but %s", file_of(w, it), it->name, shape, wanted);
}

bool weights_float(enum dtype t) { return t == DT_F32 || t == DT_F16 || t == DT_BF16; }

// A tensor of exactly these dimensions in a float type that kernels read.
bool weights_check_float(const struct weights *w, const struct weights_item *it, int dims,
                         const int64_t *n, struct error *e) {
    struct tensor t = it->t.t, asked = tensor_nd(DT_F32, dims, n, NULL);
    if (tensor_same_shape(t, asked) && weights_float(t.type)) return true;
    char shape[96], wanted[160];
    tensor_shape_text(asked, shape);
    snprintf(wanted, sizeof wanted, "the config asks for %.*s in F32, F16 or BF16",
             (int)(strchr(shape, ']') - shape + 1), shape);
    return weights_mismatch(e, w, it, wanted);
}

struct tensor weights_as_f32(struct weights *w, struct tensor t) {
    if (t.type == DT_F32) return t;
    float *to = weights_keep(w, (size_t)t.n[0] * sizeof *to);
    for (int64_t i = 0; i < t.n[0]; i++) to[i] = load_float(t.data, t.type, i);
    return tensor_1d(DT_F32, t.n[0], to);
}

bool weights_vector(struct weights *w, const char *name, int64_t n, struct tensor *out,
                    struct error *e) {
    if (w->dummy && !dummy_vector(w, name, n, e)) return false;
    struct weights_item *it = weights_need_item(w, sv(name), e);
    if (!it || !weights_check_float(w, it, 1, &n, e)) return false;
    *out = weights_as_f32(w, it->t.t);
    return true;
}

// Whether t is [rows, columns], dimensions of 1 apart.
static bool is_table(struct tensor t, int64_t rows, int64_t columns) {
    int64_t want[2], n = 0, k = 0;
    if (rows != 1) want[n++] = rows;
    if (columns != 1) want[n++] = columns;
    for (int d = 0; d < t.dims; d++) {
        if (t.n[d] == 1) continue;
        if (k == n || t.n[d] != want[k++]) return false;
    }
    return k == n;
}

bool weights_table(struct weights *w, const char *name, int64_t rows, int64_t columns,
                   struct tensor *out, struct error *e) {
    if (w->dummy && !dummy_table(w, name, rows, columns, e)) return false;
    struct weights_item *it = weights_need_item(w, sv(name), e);
    if (!it) return false;
    struct tensor t = it->t.t;
    if (!weights_float(t.type) || !is_table(t, rows, columns)) {
        char wanted[128];
        snprintf(wanted, sizeof wanted, "the config asks for %lld by %lld in F32, F16 or BF16",
                 (long long)rows, (long long)columns);
        return weights_mismatch(e, w, it, wanted);
    }
    t = weights_as_f32(w, tensor_1d(t.type, rows * columns, t.data));
    *out = tensor_2d(DT_F32, rows, columns, t.data);
    return true;
}

struct tensor weights_make(struct weights *w, int64_t rows, int64_t columns) {
    struct tensor t = tensor_2d(DT_F32, rows, columns, NULL);
    t.data = weights_keep(w, tensor_bytes(t));
    return t;
}

struct tensor weights_plus_one(struct weights *w, struct tensor t) {
    float *to = weights_keep(w, tensor_bytes(t));
    for (int64_t i = 0; i < t.n[0]; i++) to[i] = ((const float *)t.data)[i] + 1;
    return tensor_1d(DT_F32, t.n[0], to);
}

// --- the whole ---------------------------------------------------------------------------------

static bool matches(struct sv name, const char *pattern) {
    struct sv p = sv(pattern);
    bool front = p.n && p.p[0] == '*', back = p.n > 1 && p.p[p.n - 1] == '*';
    p = sv_cut(p, front, p.n - back);
    if (front && back) return sv_find(name, p, 0) >= 0;
    if (front) return sv_ends(name, p);
    return back ? sv_starts(name, p) : sv_eq(name, p);
}

static bool ignorable(struct sv name, const char *const *ignored) {
    static const char *const always[] = {
        "*rotary_emb.inv_freq", // recomputed
                                // of quantized activations and caches, which here are not
        "*.input_scale", "*_input_scale", "*.input_global_scale", "*.input_scale_ub",
        "*.output_scale", "*.k_scale", "*.v_scale", "*.kv_scale", NULL};
    for (const char *const *p = always; *p; p++)
        if (matches(name, *p)) return true;
    for (; ignored && *ignored; ignored++)
        if (matches(name, *ignored)) return true;
    return false;
}

void weights_ignore(struct weights *w, const char *prefix) {
    for (size_t i = 0; i < w->n; i++)
        if (sv_starts(sv(w->item[i].name), sv(prefix))) w->item[i].ignored = true;
}

bool weights_check_unused(const struct weights *w, const char *const *ignored, struct error *e) {
    struct str list = {0};
    size_t count = 0;
    for (size_t i = 0; i < w->n; i++) {
        if (w->item[i].used || w->item[i].ignored || ignorable(sv(w->item[i].name), ignored))
            continue;
        if (count++ < 3) str_printf(&list, "%s\"%.100s\"", count > 1 ? ", " : "", w->item[i].name);
    }
    if (count)
        fail(e, "%s: %zu tensors are not part of this model as its config describes it: %s%s",
             w->folder, count, list.p, count > 3 ? ", ..." : "");
    str_free(&list);
    return count == 0;
}

bool weights_populate(const struct weights *w,
                      void (*progress)(void *arg, size_t done, size_t total), void *arg,
                      struct error *e) {
    enum { STEP = 64 << 20, POPULATE_READ = 22 }; // MADV_POPULATE_READ, which Linux has since 5.14
    if (w->dummy) dummy_populate(w, progress, arg);
    size_t done = 0, total = 0;
    for (size_t i = 0; i < w->files; i++) total += w->file[i].map.n;
    for (size_t i = 0; i < w->files; i++) {
        struct mapping m = w->file[i].map;
        for (size_t at = 0; at < m.n; at += STEP) {
            size_t n = m.n - at < STEP ? m.n - at : STEP;
            if (madvise((void *)(uintptr_t)(m.p + at), n, POPULATE_READ) != 0 && errno == EFAULT)
                return fail(e, "%s: cannot be read at byte %zu", w->file[i].path, at);
            done += n;
            if (progress) progress(arg, done, total);
        }
    }
    if (!w->dummy && !weights_check_scales(w, false, e)) return false;
    weights_convert(w);
    return true;
}

size_t weights_bytes(const struct weights *w) {
    size_t total = w->converted_bytes;
    for (size_t i = 0; i < w->n; i++)
        if (!w->item[i].converted) total += w->item[i].t.bytes;
    return total;
}

int64_t weights_parameters(const struct weights *w) {
    int64_t total = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct weights_item *it = &w->item[i];
        if (!it->used || it->describes) continue;
        total += it->codes ? it->codes : tensor_count(it->t.t);
    }
    return total;
}
