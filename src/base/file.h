// Files: mapped read-only, read whole under a limit, or written so that a crash or a full disk
// leaves either the old file or the new one.
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/error.h"
#include "base/str.h"

struct mapping {
    const unsigned char *p; // NULL when the file is empty
    size_t n;
};

// Maps a regular file; anything else (a folder, a pipe) is an error that says so.
bool map_file(const char *path, struct mapping *m, struct error *e);
void unmap_file(struct mapping *m);
// A file that is cut while it is mapped raises SIGBUS where its missing part is read. After this
// call that ends the process with a message and exit code 1. For programs; a library leaves signals
// to its caller.
void map_faults_end(void);

// Reads a whole file, at most `limit` bytes.
bool file_read(const char *path, size_t limit, struct str *out, struct error *e);
// Writes through a temporary file in the same folder, fsync, rename. A link keeps pointing where it
// did; what is no regular file (/dev/stdout, a pipe) is written to as it is.
bool file_write(const char *path, struct sv data, struct error *e);
// The same of what only its owner may read; and what is there and no regular file is an error.
bool file_write_private(const char *path, struct sv data, struct error *e);

// Descriptors 0 to 2 are made to exist, so that no file or socket is opened in the place of one:
// what they lack can be read as empty, and writing to it fails.
void files_standard(void);

// Where a file that is written in one go belongs: path, or the file that it is a link to. The
// caller owns it. NULL when something is there that a file must not replace, as a device.
char *file_target(const char *path, struct error *e);

bool file_exists(const char *path); // a regular file, or a link to one
// False when nothing has that name. For files that may be left out: what is there but can't be read
// (a link to nothing, a folder, no permission) is an error for the reader, not a file left out.
bool file_named(const char *path);
bool dir_exists(const char *path);
bool dir_make(const char *path, struct error *e);   // with its parents; fine when it is there
char *path_join(const char *dir, const char *name); // owned by the caller
struct sv path_dir(const char *path);               // "." when there is none
struct sv path_name(const char *path);

struct names {
    char **name;
    size_t n, cap;
};
// The names in a folder, sorted by bytes, without . and ..
bool dir_list(const char *path, struct names *out, struct error *e);
void names_free(struct names *n);

#endif
