// What weights.c (asking for tensors), weights_open.c (finding the files) and weights_dummy.c
// (making tensors up) share.
#ifndef CHECKPOINT_WEIGHTS_INTERNAL_H
#define CHECKPOINT_WEIGHTS_INTERNAL_H

#include "checkpoint/quantization.h"
#include "checkpoint/weights.h"

struct weights_item {
    char *name; // may differ from t.name after a rename
    struct st_tensor t;
    size_t file;
    bool indexed; // the index says that it is in this file
    bool used;
    bool ignored;   // weights_ignore
    int64_t codes;  // of a quantized matrix once it was asked for: its elements
    bool describes; // it says how to read the codes beside it
    enum dtype as;  // what its elements are then, where its own type is that of bytes
    bool many;      // as the scales of small groups, that are read where they are mapped
    bool converted; // its codes are read once, and live elsewhere
};

// How a matrix whose codes no kernel reads as they are published becomes an affine one.
struct conversion {
    enum {
        CODES_ROWS,   // [out, in * bits / 32] I32, as an affine matrix has them
        CODES_DOWN,   // [in * bits / 32, out] I32, each column such a stream
        CODES_AWQ,    // [in, out / 8] I32
        CODES_SIGNED, // [out, in] I8
        CODES_PAIRS,  // [out / 4, in] U8: bits 2 i, 2 i + 1 of byte [r, c] are row i * out / 4 + r
    } codes_are;
    enum {
        ZEROS_ONE,    // `zero` everywhere
        ZEROS_ACROSS, // [groups, out * bits / 32] I32
        ZEROS_AWQ,    // [groups, out / 8] I32
        ZEROS_DOWN,   // [out * bits / 32, groups] I32
    } zeros_are;
    int bits, zero;
    bool zeros_add; // they are stored less one
    bool divides;   // the scale is a divisor
    bool
        rows_first; // scales are [out, groups], not [groups, out]; where there is one, it is of all
    int64_t group;  // columns that share a scale
    struct tensor codes, zeros, scales;
    struct weight to; // whose memory is ready
};

// Bytes [n, rows, columns] that kernels read as [n, columns, rows].
struct turn {
    const uint8_t *from;
    uint8_t *to;
    int64_t n, rows, columns;
};

struct weights_room {
    void *p;
    size_t bytes;
};

struct weights {
    char *folder;
    struct st_file *file;
    size_t files, file_cap;
    struct weights_item *item;
    size_t n, cap;
    struct map by_name;
    void **copy; // data that had to be aligned
    size_t copies, copy_cap;
    struct weights_room *room; // memory that is written when the weights are populated
    size_t rooms, room_cap;
    struct conversion *conversion;
    size_t conversions, conversion_cap, converted_bytes;
    struct turn *turn;
    size_t turns, turn_cap;
    struct quantization quantization;
    struct dummy *dummy; // NULL: the tensors are those of files
};

// Takes a tensor of a file in; its name is copied.
void weights_add(struct weights *w, size_t file, const struct st_tensor *t, bool indexed);

struct weights_item *weights_item(const struct weights *w, struct sv name); // NULL when absent
// Marked used; an error when it is absent or unusable.
struct weights_item *weights_need_item(struct weights *w, struct sv name, struct error *e);
// "FILE: tensor "NAME" is [2, 64] BF16, but WANTED". Returns false.
bool weights_mismatch(struct error *e, const struct weights *w, const struct weights_item *it,
                      const char *wanted);
bool weights_float(enum dtype t); // F32, F16 or BF16
// A tensor of exactly these dimensions in a float type.
bool weights_check_float(const struct weights *w, const struct weights_item *it, int dims,
                         const int64_t *n, struct error *e);
struct tensor weights_as_f32(struct weights *w, struct tensor t); // of a vector
void weights_align(struct weights *w, struct weights_item *it, size_t to_bytes);
// Memory that lives as long as w, zeroed: small; or address space that costs nothing until it is
// written to. `what` names it in errors.
void *weights_keep(struct weights *w, size_t size);
void *weights_room(struct weights *w, size_t bytes, const char *what, struct error *e);

void weights_convert_later(struct weights *w, const struct conversion *c);
// A tensor of bytes [n, rows, columns] as a matrix [n * columns, rows] of `type`, which is of bytes
// too: in memory that is written when the weights are populated.
bool weights_turn(struct weights *w, struct weights_item *it, enum dtype type, struct tensor *out,
                  struct error *e);

// What is asked of a dummy is made, unless it was before.
bool dummy_vector(struct weights *w, const char *name, int64_t n, struct error *e);
bool dummy_table(struct weights *w, const char *name, int64_t rows, int64_t columns,
                 struct error *e);
bool dummy_stack(struct weights *w, const char *name, int64_t n, int64_t rows, int64_t columns,
                 struct error *e);
// n: 0, or how many matrices are stacked.
bool dummy_matrix(struct weights *w, const char *name, int64_t n, int64_t out, int64_t in,
                  bool want_bias, struct error *e);
void dummy_populate(const struct weights *w, void (*progress)(void *arg, size_t done, size_t total),
                    void *arg);
void dummy_close(struct weights *w);

#endif
