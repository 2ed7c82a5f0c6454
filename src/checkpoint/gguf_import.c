#include "checkpoint/gguf_import.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "checkpoint/gguf_plan.h"
#include "checkpoint/gguf_quant.h"
#include "checkpoint/gguf_tokenizer.h"
#include "checkpoint/safetensors.h"

static const char *const file_names[] = {"model.safetensors", "tokenizer.json",
                                         "tokenizer_config.json", "generation_config.json",
                                         "config.json"};
enum { FILES = sizeof file_names / sizeof *file_names, CHUNK = 1 << 20 };

// --- model.safetensors -------------------------------------------------------------------------

// Bytes on their way to the file, gathered so that short rows do not each cost a write. Flushed at
// the end of each entry, which no write may cross.
struct sink {
    struct st_writer *w;
    unsigned char *buffer; // [CHUNK]
    size_t n;
    struct error *e;
};

static bool sink_flush(struct sink *s) {
    bool ok = !s->e->set && st_writer_add(s->w, s->buffer, s->n, s->e);
    s->n = 0;
    return ok;
}

static bool sink_add(struct sink *s, const void *data, size_t n) {
    const unsigned char *p = data;
    while (n && !s->e->set) {
        size_t k = n < CHUNK - s->n ? n : CHUNK - s->n;
        memcpy(s->buffer + s->n, p, k);
        s->n += k, p += k, n -= k;
        if (s->n == CHUNK) sink_flush(s);
    }
    return !s->e->set;
}

static bool sink_floats(struct sink *s, enum dtype type, const float *v, size_t n) {
    if (type == DT_F32) return sink_add(s, v, n * sizeof *v);
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        store_float(&h, type, 0, v[i]);
        if (!sink_add(s, &h, sizeof h)) return false;
    }
    return true;
}

// Room for one row, and for all scales of one tensor.
struct room {
    float *want, *scale, *bias; // [cols], [rows, cols / 32] twice
    uint8_t *code;              // [cols]
};

static void measure(const struct gguf_job *j, const unsigned char *row, const struct room *m,
                    const float *scale, const float *bias, struct gguf_import_report *report) {
    gguf_floats(j->t->type, row, (size_t)j->cols, m->want);
    for (int64_t g = 0; g < j->cols / GGUF_GROUP; g++) {
        float error = 0, top = 0;
        for (int64_t i = g * GGUF_GROUP; i < (g + 1) * GGUF_GROUP; i++) {
            float w = m->want[i], got = w;
            if (j->form == GGUF_GROUPS) {
                got = scale[g] * (float)m->code[i] + bias[g];
            } else if (j->type != DT_F32) {
                uint16_t h;
                store_float(&h, j->type, 0, w);
                got = load_float(&h, j->type, 0);
            }
            error = fmaxf(error, fabsf(got - w));
            top = fmaxf(top, fabsf(w));
        }
        if (top > 0) report->largest = fmax(report->largest, (double)error / (double)top);
    }
}

static const unsigned char *source(const struct gguf_job *j, int64_t r) {
    size_t stride = j->t->dims == 1 ? dtype_size(j->type) : j->t->row;
    return j->t->data + (size_t)gguf_source_row(j, r) * stride;
}

static bool write_copy(struct sink *s, const struct gguf_job *j) {
    size_t bytes = (size_t)j->cols * dtype_size(j->type);
    for (int64_t r = 0; r < j->rows; r++)
        if (!sink_add(s, source(j, r), bytes)) return false;
    return true;
}

static bool write_dense(struct sink *s, const struct gguf_job *j, const struct room *m,
                        struct gguf_import_report *report) {
    for (int64_t r = 0; r < j->rows; r++) {
        measure(j, source(j, r), m, NULL, NULL, report);
        if (!sink_floats(s, j->type, m->want, (size_t)j->cols)) return false;
    }
    return true;
}

static bool write_groups(struct sink *s, const struct gguf_job *j, const struct room *m,
                         struct gguf_import_report *report) {
    size_t cols = (size_t)j->cols, groups = cols / GGUF_GROUP, n = (size_t)j->rows * groups;
    for (int64_t r = 0; r < j->rows; r++) {
        float *scale = m->scale + (size_t)r * groups, *bias = m->bias + (size_t)r * groups;
        gguf_affine(j->t->type, source(j, r), cols, m->code, scale, bias);
        if (!gguf_affine_exact(j->t->type)) measure(j, source(j, r), m, scale, bias, report);
        if (j->bits == 4)
            for (size_t i = 0; i < cols / 2; i++)
                m->code[i] = (uint8_t)(m->code[2 * i] | m->code[2 * i + 1] << 4);
        if (!sink_add(s, m->code, cols * (size_t)j->bits / 8)) return false;
    }
    return sink_flush(s) && sink_floats(s, j->type, m->scale, n) && sink_flush(s) &&
           sink_floats(s, j->type, m->bias, n);
}

static bool write_job(struct sink *s, const struct gguf_job *j, struct gguf_import_report *report) {
    if (j->form == GGUF_COPY) return write_copy(s, j) && sink_flush(s);
    size_t cols = (size_t)j->cols, groups = (size_t)j->rows * (cols / GGUF_GROUP);
    bool lossless = gguf_affine_exact(j->t->type) || (j->form == GGUF_DENSE && j->type == DT_F32);
    if (!lossless) report->inexact++;
    struct room m = {.want = mem_array(cols, sizeof(float)),
                     .scale = mem_array(groups, sizeof(float)),
                     .bias = mem_array(groups, sizeof(float)),
                     .code = mem_alloc(cols)};
    bool ok =
        j->form == GGUF_GROUPS ? write_groups(s, j, &m, report) : write_dense(s, j, &m, report);
    free(m.want);
    free(m.scale);
    free(m.bias);
    free(m.code);
    return ok && sink_flush(s);
}

// The SafeTensors entries of the plan, three for a tensor in groups. The names are one list, which
// the caller frees with the entries.
static struct st_entry *make_entries(const struct gguf_plan *p, size_t *n, struct names *names) {
    static const char *const suffix[] = {".weight", ".scales", ".biases"};
    struct st_entry *entry = mem_array(3 * p->n, sizeof *entry);
    names->name = mem_array(3 * p->n, sizeof *names->name);
    *n = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct gguf_job *j = &p->job[i];
        bool groups = j->form == GGUF_GROUPS;
        for (int k = 0; k < (groups ? 3 : 1); k++) {
            struct str name = {0};
            str_puts(&name, groups ? j->module : j->name);
            if (groups) str_puts(&name, suffix[k]);
            struct st_entry *it = &entry[*n];
            *it = (struct st_entry){.name = name.p, .type = j->type, .dims = j->t->dims};
            it->n[0] = j->rows;
            it->n[1] = k || !groups ? j->cols / (groups ? GGUF_GROUP : 1) : j->cols * j->bits / 32;
            if (groups && k == 0) it->type = DT_U32;
            names->name[names->n++] = name.p;
            ++*n;
        }
    }
    return entry;
}

static bool write_model(const char *path, const struct gguf_plan *p,
                        const struct gguf_import_options *opt, struct gguf_import_report *report,
                        struct error *e) {
    size_t n, done = 0;
    struct names names = {0};
    struct st_entry *entry = make_entries(p, &n, &names);
    struct sink s = {.w = st_writer_open(path, entry, n, "{\"format\":\"mlx\"}", e), .e = e};
    free(entry);
    names_free(&names);
    if (!s.w) return false;
    s.buffer = mem_alloc(CHUNK);
    report->tensors = p->n;
    for (size_t i = 0; i < p->n; i++) report->bytes += p->job[i].t->size;
    for (size_t i = 0; i < p->n && write_job(&s, &p->job[i], report); i++) {
        done += p->job[i].t->size;
        if (opt->progress && !opt->progress(opt->arg, done, report->bytes))
            fail(e, "the import was stopped");
    }
    free(s.buffer);
    return st_writer_finish(s.w, e);
}

// --- config.json -------------------------------------------------------------------------------

static struct json_object *group_options(int bits) {
    struct json_object *o = json_object_new_object();
    json_object_object_add(o, "group_size", json_object_new_int(GGUF_GROUP));
    json_object_object_add(o, "bits", json_object_new_int(bits));
    json_object_object_add(o, "mode", json_object_new_string("affine"));
    return o;
}

// "quantization" as mlx-lm writes it: what most tensors have, and each that differs under its name.
static struct json_object *quantization(const struct gguf_plan *p) {
    size_t four = 0, eight = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (p->job[i].form != GGUF_GROUPS) continue;
        four += p->job[i].bits == 4;
        eight += p->job[i].bits == 8;
    }
    if (!four && !eight) return NULL;
    int most = four >= eight ? 4 : 8;
    struct json_object *o = group_options(most);
    for (size_t i = 0; i < p->n; i++)
        if (p->job[i].form == GGUF_GROUPS && p->job[i].bits != most)
            json_object_object_add(o, p->job[i].module, group_options(p->job[i].bits));
    return o;
}

// The type to compute in: the embedding's, or what today's models were trained in when it is
// quantized and the file no longer tells.
static const char *torch_dtype(const struct gguf_plan *p) {
    const struct gguf_job *embedding = &p->job[0];
    if (embedding->form != GGUF_COPY || embedding->type == DT_BF16) return "bfloat16";
    return embedding->type == DT_F16 ? "float16" : "float32";
}

static void config_text(const struct gguf_model *m, const struct gguf_plan *p,
                        const struct gguf_tokenizer *t, struct str *out) {
    struct json_object *o = gguf_config(m), *groups = quantization(p);
    if (t->bos >= 0) json_object_object_add(o, "bos_token_id", json_object_new_int64(t->bos));
    if (t->eos >= 0) json_object_object_add(o, "eos_token_id", json_object_new_int64(t->eos));
    json_object_object_add(o, "torch_dtype", json_object_new_string(torch_dtype(p)));
    if (groups) json_object_object_add(o, "quantization", groups);
    int flags = JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE;
    str_puts(out, json_object_to_json_string_ext(o, flags));
    str_addc(out, '\n');
    json_object_put(o);
}

// --- the folder --------------------------------------------------------------------------------

static bool write_text(const char *dir, const char *name, const struct str *text, struct error *e) {
    char *path = path_join(dir, name);
    bool ok = file_write(path, str_sv(text), e);
    free(path);
    return ok;
}

static bool write_files(const struct gguf *g, const char *dir,
                        const struct gguf_import_options *opt, struct gguf_import_report *report,
                        struct error *e) {
    struct gguf_model m;
    struct gguf_plan p = {0};
    struct gguf_tokenizer t = {0};
    struct str config = {0};
    char *model = path_join(dir, "model.safetensors");
    bool ok = gguf_model_read(g, &m, e) && gguf_plan_make(g, &m, opt->inexact, &p, e) &&
              gguf_tokenizer_read(g, m.vocab, &t, e);
    if (ok && mkdir(dir, 0755) != 0) ok = fail(e, "%s: cannot make: %s", dir, strerror(errno));
    if (ok) config_text(&m, &p, &t, &config);
    ok = ok && write_model(model, &p, opt, report, e) &&
         write_text(dir, "tokenizer.json", &t.tokenizer, e) &&
         write_text(dir, "tokenizer_config.json", &t.config, e) &&
         write_text(dir, "generation_config.json", &t.generation, e) &&
         write_text(dir, "config.json", &config, e);
    free(model);
    str_free(&config);
    gguf_tokenizer_free(&t);
    gguf_plan_free(&p);
    return ok;
}

static void remove_files(const char *dir) {
    for (int i = 0; i < FILES; i++) {
        char *path = path_join(dir, file_names[i]);
        unlink(path);
        free(path);
    }
    rmdir(dir);
}

// Moves the files into a folder that has others. config.json goes first and comes last: without it
// the folder is no checkpoint.
static bool move_files(const char *from, const char *to, struct error *e) {
    char *config = path_join(to, "config.json");
    unlink(config);
    free(config);
    for (int i = 0; i < FILES && !e->set; i++) {
        char *a = path_join(from, file_names[i]), *b = path_join(to, file_names[i]);
        if (rename(a, b) != 0) fail(e, "%s: cannot write: %s", b, strerror(errno));
        free(a);
        free(b);
    }
    if (!e->set) rmdir(from);
    return !e->set;
}

// Whether dir has files in it; one that is not there has none.
static bool has_files(const char *dir, struct error *e) {
    struct stat st;
    struct names names = {0};
    if (lstat(dir, &st) != 0) {
        if (errno != ENOENT) fail(e, "%s: %s", dir, strerror(errno));
        return false;
    }
    if (!dir_exists(dir)) return !fail(e, "%s: is not a folder", dir);
    dir_list(dir, &names, e);
    bool any = names.n > 0;
    names_free(&names);
    return any;
}

static bool make_parent(const char *dir, struct error *e) {
    struct sv parent = path_dir(dir);
    char *path = mem_textn(parent.p, parent.n);
    bool ok = dir_make(path, e);
    free(path);
    return ok;
}

// Into a new folder beside the wanted one, then in its place.
static bool import_to(const struct gguf *g, const char *dir, const struct gguf_import_options *opt,
                      struct gguf_import_report *report, struct error *e) {
    bool full = has_files(dir, e);
    if (e->set) return false;
    if (full && !opt->force)
        return fail(e, "%s: the folder is not empty (--force replaces what is in the way)", dir);
    if (!make_parent(dir, e)) return false;
    struct str tmp = {0};
    str_printf(&tmp, "%s.tmp-%d", dir, (int)getpid());
    bool ok = write_files(g, tmp.p, opt, report, e);
    if (ok && full) ok = move_files(tmp.p, dir, e);
    if (ok && !full && rename(tmp.p, dir) != 0)
        ok = fail(e, "%s: cannot make: %s", dir, strerror(errno));
    if (!ok) remove_files(tmp.p);
    str_free(&tmp);
    return ok;
}

bool gguf_import(const char *file, const char *dir, const struct gguf_import_options *opt,
                 struct gguf_import_report *report, struct error *e) {
    *report = (struct gguf_import_report){0};
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') n--;
    if (!n) return fail(e, "the folder to import into has an empty name");
    char *trimmed = mem_textn(dir, n);
    struct gguf g;
    bool ok = gguf_open(file, &g, e) && import_to(&g, trimmed, opt, report, e);
    gguf_close(&g);
    free(trimmed);
    return ok;
}
