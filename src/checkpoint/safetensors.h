// SafeTensors files: mapped read-only, every length, shape and offset in the header checked before
// a tensor is handed out, and written.
//
// What is legal follows the format: names are unique, data_offsets cover the data part without gap
// or overlap, the byte count is what shape and dtype say. A file may hold tensors that this engine
// cannot use (F4, C64, more than TENSOR_DIMS dimensions); it opens, and only asking for such a
// tensor (st_need) is an error. Refused beyond the format: more than ST_DIMS dimensions, a NUL in
// a name, a header over ST_HEADER_MAX bytes.
#ifndef CHECKPOINT_SAFETENSORS_H
#define CHECKPOINT_SAFETENSORS_H

#include "base/error.h"
#include "base/file.h"
#include "base/map.h"
#include "tensor/tensor.h"

enum { ST_DIMS = 8, ST_HEADER_MAX = 100000000 };

struct st_tensor {
    char *name;
    struct tensor t; // data points into the mapping, at any alignment (old files)
    // Set by st_open only. Where unusable is not NULL it tells why ("has dtype F4"), and t is
    // empty.
    const char *unusable;
    size_t bytes;
};

struct st_file {
    char *path;
    struct mapping map;
    struct st_tensor *tensor; // in the order of their data
    size_t n, cap;
    struct map by_name;
    struct sv metadata; // the text of __metadata__ in the mapping, an object of strings; or empty
};

// Every error names the file, and the tensor where there is one. On failure f holds nothing.
bool st_open(struct st_file *f, const char *path, struct error *e);
// A file's bytes in memory, which must outlive f; `what` names them in errors.
bool st_read(struct st_file *f, struct sv file, const char *what, struct error *e);
void st_close(struct st_file *f);

const struct st_tensor *st_find(const struct st_file *f, struct sv name); // NULL when absent
// As st_find, but an absent or unusable tensor is an error.
const struct st_tensor *st_need(const struct st_file *f, struct sv name, struct error *e);

// What is wrong with bytes that should begin a SafeTensors file but begin something else, and what
// to do ("is a Git LFS pointer, ..."); NULL when they look like nothing known.
const char *st_foreign(struct sv head);

// --- writing -----------------------------------------------------------------------------------
// The file appears under its name only when complete (a temporary file, fsync, rename). Tensors are
// laid out by falling dtype size, so each is aligned for its dtype and the data begins at a
// multiple of 64 bytes; they are added in the order of the entries.

struct st_entry {
    const char *name; // UTF-8, unique
    enum dtype type;
    int dims;
    int64_t n[TENSOR_DIMS];
};

struct st_writer;

// metadata: JSON text of an object of strings, or NULL. The entries are copied.
struct st_writer *st_writer_open(const char *path, const struct st_entry *entry, size_t n,
                                 const char *metadata, struct error *e);
// Appends bytes to the tensor that is being written; when that is complete the next call goes to
// the next entry. One call may not reach past the end of a tensor.
bool st_writer_add(struct st_writer *w, const void *data, size_t bytes, struct error *e);
bool st_writer_finish(struct st_writer *w, struct error *e); // closes w in any case
void st_writer_abort(struct st_writer *w);                   // NULL is fine

// All at once, from contiguous tensors in host memory.
bool st_write(const char *path, const struct st_tensor *t, size_t n, struct error *e);

#endif
