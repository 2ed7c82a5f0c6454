// config.json, read tolerantly. A family reads it as a list of facts; the first thing that is wrong
// sticks, so one config_ok at the end covers them all. Every key that is read is remembered, and
// config_check_unread refuses a config that sets a key which would change the output and which the
// family never asked about.
//
// Tolerated: null for absent, NaN and Infinity in the text, numbers in quotes ("64"), integral
// fractions (64.0) where an integer belongs, 0, 1, "true" and "false" for booleans. Everything else
// of a wrong type is an error that names the file, the key and the value.
#ifndef CHECKPOINT_CONFIG_H
#define CHECKPOINT_CONFIG_H

#include "base/error.h"
#include "base/str.h"

struct config;

// False, with the remedy, when nothing is at a path that a user gave.
bool checkpoint_there(const char *path, struct error *e);
// path: the checkpoint folder, or any file in it. Names the remedy when there is no config.json.
struct config *config_open(const char *path, struct error *e);
// The file of that name in the folder (or beside the file) path; NULL without an error when there
// is none.
struct config *config_open_beside(const char *path, const char *name, struct error *e);
struct config *config_read(struct sv text, const char *what, struct error *e);
void config_close(struct config *c); // NULL is fine

const char *config_what(const struct config *c);         // the path, for errors
bool config_ok(const struct config *c, struct error *e); // false, and e set, if an error stuck
// Records an error of the caller's: "what: key "key" is VALUE: message". Returns false.
bool config_fail(struct config *c, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

bool config_has(struct config *c, const char *key);            // there and not null; counts as read
bool config_mentions(const struct config *c, const char *key); // there, if only as null
bool config_is_text(struct config *c, const char *key);        // so config_text will not fail
bool config_is_object(struct config *c, const char *key);      // so config_child will not fail

// Absent or null gives `otherwise`; config_need_* and a dimension without one make that an error.
int64_t config_int(struct config *c, const char *key, int64_t otherwise);
int64_t config_need_int(struct config *c, const char *key);
int64_t config_dim(struct config *c, const char *key, int64_t otherwise); // 1 .. 1 << 24; 0: needed
double config_number(struct config *c, const char *key, double otherwise); // finite
bool config_bool(struct config *c, const char *key, bool otherwise);
// As Python sees it: a boolean, or a number, which is true unless it is 0.
bool config_truth(struct config *c, const char *key, bool otherwise);
struct sv config_text(struct config *c, const char *key, const char *otherwise);

// A nested object, owned by c: its errors stick to c and its keys are "rope_scaling.factor" in
// them. NULL when absent or null. Asking twice gives the same one.
struct config *config_child(struct config *c, const char *key);

// A list, or a single value, which counts as a list of one. Absent or null: 0.
size_t config_list(struct config *c, const char *key); // length
int64_t config_list_int(struct config *c, const char *key, size_t i);
bool config_list_holds(struct config *c, const char *key, int64_t value);
double config_list_number(struct config *c, const char *key, size_t i); // finite
double config_list_bound(struct config *c, const char *key, size_t i);  // may be infinite
struct sv config_list_text(struct config *c, const char *key, size_t i);

// Refuses a key that is known to change the output of some architecture, is present with another
// value than its neutral one, and was not read. Looks at c and at the children that were read. A
// quantization in a layout that is not read (quantization.h) is refused too. Call it when the
// family has read its facts.
bool config_check_unread(struct config *c, struct error *e);

#endif
