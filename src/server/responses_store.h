// The answers of the Responses API that clients come back for, with what they answered, in an
// SQLite database. What was put there survives the end of the process, however it ends, and a fault
// of the disk is an error of one call. Threads may share it, and processes the file.
#ifndef SERVER_RESPONSES_STORE_H
#define SERVER_RESPONSES_STORE_H

#include "base/args.h"

struct responses_store_options {
    const char *file;       // NULL: the usual place
    int64_t entries, bytes; // of the latest, that are kept; entries 0: none
    int64_t ttl;            // seconds; 0: for ever
};

extern const struct arg_group responses_store_group;
struct responses_store_options responses_store_read(const struct args *a);

struct responses_store;

// Opens the file if the options name one; the usual place is opened when it is first needed. NULL
// with an error.
struct responses_store *responses_store_open(const struct responses_store_options *o,
                                             struct error *e);
void responses_store_close(struct responses_store *s); // NULL is fine
// NULL, or why nothing can be stored: a constant. The log says more.
const char *responses_store_off(struct responses_store *s);

enum stored { STORED, STORED_NOT, STORED_ERROR };

// Items are JSON objects, each with a line break behind it; body is a JSON object. created: seconds
// since 1970, from which the time to live counts. True once it is on the disk. Then older ones may
// have gone for it, and if it is larger than all may be, so has it.
bool responses_store_put(struct responses_store *s, const char *id, int64_t created,
                         struct sv items, struct sv body, struct error *e);
// Appends to items and body, of which each may be NULL.
enum stored responses_store_get(struct responses_store *s, struct sv id, struct str *items,
                                struct str *body, struct error *e);
enum stored responses_store_drop(struct responses_store *s, struct sv id, struct error *e);

#endif
