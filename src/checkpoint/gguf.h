// GGUF files (versions 2 and 3), read through a mapping: metadata, and where each tensor lies.
// Everything in the file is hostile until checked, and opening checks it all: counts, lengths,
// types, shapes, offsets, alignment. What a struct here views lives as long as the mapping.
#ifndef CHECKPOINT_GGUF_H
#define CHECKPOINT_GGUF_H

#include "base/file.h"
#include "base/map.h"

enum gguf_kind { // the file's numbers
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_TEXT,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_KINDS
};

// A scalar (n is 1), or an array whose n elements of one kind lie end to end. An array of arrays
// has kind GGUF_ARRAY; its bytes are checked and no reader below opens it.
struct gguf_value {
    enum gguf_kind kind;
    bool array;
    uint64_t n;
    struct sv bytes; // as in the file; each text has its length before it
};

enum gguf_type { // the tensor types that have a meaning here; the file's numbers
    GGUF_TYPE_F32 = 0,
    GGUF_TYPE_F16 = 1,
    GGUF_TYPE_Q4_0 = 2,
    GGUF_TYPE_Q4_1 = 3,
    GGUF_TYPE_Q5_0 = 6,
    GGUF_TYPE_Q5_1 = 7,
    GGUF_TYPE_Q8_0 = 8,
    GGUF_TYPE_Q2_K = 10,
    GGUF_TYPE_Q3_K = 11,
    GGUF_TYPE_Q4_K = 12,
    GGUF_TYPE_Q5_K = 13,
    GGUF_TYPE_Q6_K = 14,
    GGUF_TYPE_BF16 = 30,
};

enum { GGUF_DIMS = 4 };

struct gguf_tensor {
    struct sv name;
    uint32_t type; // a gguf_type, or one that only has a name
    int dims;
    uint64_t n[GGUF_DIMS];     // innermost first; 1 past dims
    uint64_t offset;           // from the start of the file's data
    const unsigned char *data; // NULL when the type only has a name
    size_t size, row;          // bytes of the whole, and of n[0] elements
};

struct gguf {
    const char *path; // the caller's, for messages
    struct mapping map;
    uint32_t version;
    struct sv *key;
    struct gguf_value *value;
    struct gguf_tensor *tensor;
    size_t n_keys, n_tensors;
    struct map keys, tensors; // name -> index
};

bool gguf_open(const char *path, struct gguf *g, struct error *e);
// The same of bytes in memory, which the caller owns and keeps; `path` is for messages.
bool gguf_parse(const char *path, struct sv bytes, struct gguf *g, struct error *e);
void gguf_close(struct gguf *g); // fine after a failed open

const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name); // NULL when absent
const char *gguf_type_name(uint32_t type);                                     // "Q4_K", or "?"
size_t gguf_type_block(uint32_t type); // elements a block; 0 when the type only has a name
size_t gguf_type_bytes(uint32_t type); // bytes a block

// Metadata. Absent: NULL, or *out = otherwise and true. A value of another kind is an error that
// names file and key. Integers of every width read as int64_t, F32 and F64 and integers as double.
const struct gguf_value *gguf_value(const struct gguf *g, const char *key);
bool gguf_int(const struct gguf *g, const char *key, int64_t otherwise, int64_t *out,
              struct error *e);
bool gguf_number(const struct gguf *g, const char *key, double otherwise, double *out,
                 struct error *e);
bool gguf_bool(const struct gguf *g, const char *key, bool otherwise, bool *out, struct error *e);
bool gguf_text(const struct gguf *g, const char *key, struct sv otherwise, struct sv *out,
               struct error *e);

// Arrays: the caller owns *out (free it), NULL when the key is absent or the array empty.
bool gguf_texts(const struct gguf *g, const char *key, struct sv **out, size_t *n, struct error *e);
bool gguf_ints(const struct gguf *g, const char *key, int64_t **out, size_t *n, struct error *e);
bool gguf_numbers(const struct gguf *g, const char *key, double **out, size_t *n, struct error *e);

#endif
