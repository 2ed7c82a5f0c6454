#include "server/responses_store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

static const struct arg args[] = {
    {"--responses-store-file", ARG_TEXT, "FILE", "MLXCEL_RESPONSES_STORE_FILE", NULL, 0, 0,
     "the SQLite database that answers of /v1/responses are stored in; :memory: is none, they go "
     "with the process. Without: mlxcel/responses.db in XDG_STATE_HOME, or in ~/.local/state"},
    {"--responses-store-max-entries", ARG_INT, "N", "LLAMA_ARG_RESPONSES_STORE_MAX_ENTRIES", "1024",
     0, 1e6, "so many of the latest are kept; 0: nothing is stored"},
    {"--responses-store-max-bytes", ARG_INT, "N", "MLXCEL_RESPONSES_STORE_MAX_BYTES", "268435456",
     0, 1e15, "the latest are kept that have so many bytes of JSON together"},
    {"--responses-store-ttl-secs", ARG_INT, "SECONDS", "LLAMA_ARG_RESPONSES_STORE_TTL_SECS", "3600",
     0, 1e10, "how long they are kept; 0: for ever"},
};
const struct arg_group responses_store_group = {"Stored responses", args,
                                                sizeof args / sizeof *args};

struct responses_store_options responses_store_read(const struct args *a) {
    return (struct responses_store_options){
        .file = args_text(a, "responses-store-file"),
        .entries = args_int(a, "responses-store-max-entries"),
        .bytes = args_int(a, "responses-store-max-bytes"),
        .ttl = args_int(a, "responses-store-ttl-secs"),
    };
}

#define NOTHING_KEPT "--responses-store-max-entries is 0"

#ifdef HAVE_SQLITE
#include <sqlite3.h>

enum {
    BUSY_MS = 5000,
    TICK_MS = 10,
    OURS = 0x6d6c7872, // "mlxr"
    VERSION = 1,
    PART = 4096,     // answers that go at once
    SPARE = 48 << 10 // bytes, more than an answer takes besides its text, in the file or the log
};

struct responses_store {
    struct responses_store_options o;
    pthread_mutex_t lock; // of all below
    sqlite3 *db;          // NULL: not opened yet
    bool warned;          // that it can't be
    char *file;           // that db is in; NULL: none
    struct stat is, log;  // what had its name, and its log's, when it was opened, and grew since
    int64_t held;         // bytes of db, that its file won't get smaller than
    bool full;            // the last failure was the disk's
};

// --- SQL -----------------------------------------------------------------------------------------

static bool broken(struct responses_store *s, struct error *e) {
    int code = sqlite3_errcode(s->db) & 0xff;
    s->full = code == SQLITE_FULL || code == SQLITE_IOERR;
    return fail(e, "%s", sqlite3_errmsg(s->db));
}

static bool run(struct responses_store *s, const char *sql, struct error *e) {
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK || broken(s, e);
}

static sqlite3_stmt *prepare(struct responses_store *s, const char *sql, struct error *e) {
    sqlite3_stmt *q = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) != SQLITE_OK) broken(s, e);
    return q;
}

// Values stay the caller's until the statement is finished. Failures of these show when it runs.
static void bind_text(sqlite3_stmt *q, int i, struct sv text) {
    sqlite3_bind_text64(q, i, text.n ? text.p : "", text.n, SQLITE_STATIC, SQLITE_UTF8);
}

// Runs a statement that gives no rows, and frees it.
static bool finish(struct responses_store *s, sqlite3_stmt *q, struct error *e) {
    bool ok = q && sqlite3_step(q) == SQLITE_DONE;
    if (q && !ok) broken(s, e);
    sqlite3_finalize(q);
    return ok;
}

// The whole number that a statement gives first.
static bool number(struct responses_store *s, const char *sql, int64_t *out, struct error *e) {
    sqlite3_stmt *q = prepare(s, sql, e);
    bool ok = q && sqlite3_step(q) == SQLITE_ROW;
    if (ok) *out = sqlite3_column_int64(q, 0);
    if (q && !ok) broken(s, e);
    sqlite3_finalize(q);
    return ok;
}

// What was left open by a statement that failed is taken back; SQLite may have done so itself.
static bool commit(struct responses_store *s, bool ok, struct error *e) {
    ok = ok && run(s, "COMMIT", e);
    if (!ok && !sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return ok;
}

// --- the file ------------------------------------------------------------------------------------

static char *usual_file(struct error *e) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct str dir = {0};
    char *file = NULL;
    if (state && *state == '/')
        str_printf(&dir, "%s/mlxcel", state);
    else if (home && *home == '/')
        str_printf(&dir, "%s/.local/state/mlxcel", home);
    else
        fail(e, "neither XDG_STATE_HOME nor HOME is set to a folder");
    if (dir.n && dir_make(dir.p, e)) file = path_join(dir.p, "responses.db");
    str_free(&dir);
    return file;
}

// A database's other files get the permissions of the first: others don't read conversations.
static bool make_private(const char *file, struct error *e) {
    int fd = open(file, O_CREAT | O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0600);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        fail(e, "%s", strerror(errno));
    else if (!S_ISREG(st.st_mode))
        fail(e, "is not a regular file");
    if (fd >= 0) close(fd);
    return !e->set;
}

// Whether the database is new, *n being 0, or ours. Only reads.
static bool is_ours(struct responses_store *s, int64_t *n, struct error *e) {
    int64_t ours = 0, version = 0;
    return number(s, "SELECT count(*) FROM sqlite_master", n, e) &&
           number(s, "PRAGMA application_id", &ours, e) &&
           number(s, "PRAGMA user_version", &version, e) &&
           (!*n || (ours == OURS && version == VERSION) ||
            fail(e, "is another program's or version's database"));
}

// Answers are stored in order of `seq`. `size` is that of items and body.
static bool create(struct responses_store *s, struct error *e) {
    int64_t n = 0;
    if (!run(s, "BEGIN IMMEDIATE", e)) return false;
    bool ok = is_ours(s, &n, e);
    if (ok && !n)
        ok = run(s,
                 "CREATE TABLE response (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
                 " created INTEGER NOT NULL, size INTEGER NOT NULL, items TEXT NOT NULL,"
                 " body TEXT NOT NULL);"
                 "CREATE INDEX age ON response (created, seq, size);"
                 "PRAGMA application_id = 1835825266; PRAGMA user_version = 1",
                 e);
    return commit(s, ok, e);
}

// Free pages are among those that the file holds.
static bool measure(struct responses_store *s, struct error *e) {
    int64_t pages = 0, size = 0;
    bool ok = number(s, "PRAGMA page_count", &pages, e) && number(s, "PRAGMA page_size", &size, e);
    s->held = pages * size;
    return ok;
}

// For others that change the mode SQLite does not wait by itself.
static bool write_ahead(struct responses_store *s, struct error *e) {
    int got = SQLITE_BUSY;
    for (int ms = 0; got == SQLITE_BUSY && ms < BUSY_MS; ms += TICK_MS) {
        if (ms) sqlite3_sleep(TICK_MS);
        got = sqlite3_exec(s->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    }
    return got == SQLITE_OK || broken(s, e);
}

// A commit returns when the disk has it. What is deleted is overwritten. The log is kept short, as
// its room is the disk's too.
static bool set_up(struct responses_store *s, struct error *e) {
    int64_t n = 0;
    sqlite3_busy_timeout(s->db, BUSY_MS);
    return is_ours(s, &n, e) && write_ahead(s, e) &&
           run(s,
               "PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;"
               "PRAGMA wal_autocheckpoint = 64; PRAGMA journal_size_limit = 262144",
               e) &&
           create(s, e) && measure(s, e);
}

// Whether what had the name when it was opened still has it, and nobody cut it: SQLite would go on
// with a file that nobody finds any more.
static bool same(const char *file, struct stat *was) {
    struct stat st;
    if (stat(file, &st) != 0 || st.st_dev != was->st_dev || st.st_ino != was->st_ino) return false;
    if (st.st_size < was->st_size) return false;
    *was = st;
    return true;
}

static char *log_of(const struct responses_store *s, const char *end) {
    struct str name = {0};
    str_printf(&name, "%s%s", s->file, end);
    return name.p;
}

// A log may be written from its beginning again, and cut then. Where SQLite can't keep one, there
// is none.
static bool same_log(struct responses_store *s) {
    if (!s->log.st_ino) return true;
    char *name = log_of(s, "-wal");
    s->log.st_size = 0;
    bool ok = same(name, &s->log);
    free(name);
    return ok;
}

static bool in_place(struct responses_store *s) {
    if (s->is.st_size > s->held) s->is.st_size = s->held; // what reserve added may go again
    return !s->file || (same(s->file, &s->is) && same_log(s));
}

static void note_place(struct responses_store *s, const char *file) {
    if (!strcmp(file, ":memory:")) return;
    s->file = mem_text(file);
    char *name = log_of(s, "-wal");
    if (stat(file, &s->is) != 0) s->is.st_ino = 0;
    if (stat(name, &s->log) != 0) s->log.st_ino = 0;
    free(name);
}

static bool open_file(struct responses_store *s, const char *file, struct error *e) {
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (strcmp(file, ":memory:") != 0 && !make_private(file, e))
        return fail_in(e, "%s (--responses-store-file)", file);
    if (sqlite3_open_v2(file, &s->db, flags, NULL) != SQLITE_OK)
        broken(s, e);
    else if (set_up(s, e)) {
        note_place(s, file);
        return true;
    }
    sqlite3_close(s->db);
    s->db = NULL;
    return fail_in(e, "%s (--responses-store-file)", file);
}

// Lets go of a database that is not in its place. What is left there of its log belongs to no other
// database, which would take it for its own; but SQLite may not delete it, as it goes by its name.
static void leave(struct responses_store *s) {
    static const char *const ends[] = {"-wal", "-shm"};
    log_say(LOG_WARN,
            "%s (--responses-store-file) was removed, replaced or cut while it was in use: what it "
            "held is lost; it is opened anew",
            s->file);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    bool ours = s->log.st_ino && same_log(s);
    for (size_t i = 0; ours && i < 2; i++) {
        char *name = log_of(s, ends[i]);
        unlink(name);
        free(name);
    }
    sqlite3_close(s->db);
    free(s->file);
    s->db = NULL;
    s->file = NULL;
}

// The usual place is tried again each time: it may be there by now.
static bool ready(struct responses_store *s) {
    struct error e = {0};
    if (s->db && !in_place(s)) leave(s);
    if (s->db) return true;
    char *file = s->o.file ? mem_text(s->o.file) : usual_file(&e);
    bool ok = file && open_file(s, file, &e);
    if (!ok && !s->warned) log_say(LOG_WARN, "no responses are stored: %s", e.text);
    s->warned = !ok;
    free(file);
    return ok;
}

struct responses_store *responses_store_open(const struct responses_store_options *o,
                                             struct error *e) {
    struct responses_store *s = mem_alloc(sizeof *s);
    s->o = *o;
    pthread_mutex_init(&s->lock, NULL);
    if (!o->entries || !o->file || open_file(s, o->file, e)) return s;
    responses_store_close(s);
    return NULL;
}

void responses_store_close(struct responses_store *s) {
    if (!s) return;
    sqlite3_close(s->db);
    free(s->file);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

const char *responses_store_off(struct responses_store *s) {
    if (!s->o.entries) return NOTHING_KEPT;
    pthread_mutex_lock(&s->lock);
    bool ok = ready(s);
    pthread_mutex_unlock(&s->lock);
    return ok ? NULL : "its place can't be opened (--responses-store-file)";
}

// --- rows ----------------------------------------------------------------------------------------

// The oldest that are still kept were created then.
static int64_t oldest(const struct responses_store *s) {
    return s->o.ttl ? (int64_t)time(NULL) - s->o.ttl : 0;
}

static bool insert(struct responses_store *s, const char *id, int64_t created, struct sv items,
                   struct sv body, struct error *e) {
    sqlite3_stmt *q = prepare(
        s, "INSERT INTO response (id, created, size, items, body) VALUES (?, ?, ?, ?, ?)", e);
    if (!q) return false;
    bind_text(q, 1, sv(id));
    sqlite3_bind_int64(q, 2, created);
    sqlite3_bind_int64(q, 3, (int64_t)(items.n + body.n));
    bind_text(q, 4, items);
    bind_text(q, 5, body);
    return finish(s, q, e);
}

// Beginning with the latest, counts answers and bytes up to the limits; the rest goes, and so does
// what is too old; of these the `most` oldest.
static bool trim(struct responses_store *s, int64_t entries, int64_t bytes, int64_t most,
                 struct error *e) {
    sqlite3_stmt *q = prepare(s,
                              "DELETE FROM response WHERE seq IN (SELECT seq FROM (SELECT seq,"
                              " created, row_number() OVER latest AS n, sum(size) OVER latest AS"
                              " total FROM response WINDOW latest AS (ORDER BY created DESC, seq"
                              " DESC)) WHERE n > ? OR total > ? OR created < ?"
                              " ORDER BY created, seq LIMIT ?)",
                              e);
    if (!q) return false;
    sqlite3_bind_int64(q, 1, entries);
    sqlite3_bind_int64(q, 2, bytes);
    sqlite3_bind_int64(q, 3, oldest(s));
    sqlite3_bind_int64(q, 4, most);
    return finish(s, q, e);
}

// --- a full disk ---------------------------------------------------------------------------------

// After a failure: whether it was for want of room, and the log's may do.
static bool empty_log(struct responses_store *s) {
    if (s->full) sqlite3_exec(s->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
    return s->full;
}

// What is too old goes, and what is too much when n bytes more come. By itself, so that its room is
// there even where the disk has none for more; and in parts where the log can't hold it all.
static void make_room(struct responses_store *s, int64_t n) {
    s->full = false;
    for (int64_t most = PART; most > 0;) {
        struct error none = {0}; // there may be room without
        bool ok = trim(s, s->o.entries - 1, s->o.bytes - n, most, &none);
        if (ok && sqlite3_changes(s->db) < most) return;
        if (!empty_log(s) && !ok) return;
        if (!ok) most /= 8;
    }
}

// Whether the disk has room for n bytes besides the log's, and for a log of m.
static bool has_room(struct responses_store *s, int64_t n, int64_t m) {
    struct statvfs disk;
    struct stat log = {0};
    if (statvfs(s->file, &disk) != 0) return true; // it is found out
    char *name = log_of(s, "-wal");
    if (stat(name, &log) != 0) log.st_size = 0;
    free(name);
    uint64_t left = (uint64_t)disk.f_bavail * disk.f_frsize + (uint64_t)log.st_size;
    return left >= (uint64_t)n + (uint64_t)m;
}

// The log goes into the file later. One that the disk has no room for there could not be emptied
// any more: so the file gets its room before the log is written. It grows no more where the disk
// would have no room for a log that deletes any answer.
static bool reserve(struct responses_store *s, int64_t n, struct error *e) {
    int64_t unused = 0, size = 0, largest = 0;
    struct stat st;
    if (!s->file) return true;
    if (!measure(s, e) || !number(s, "PRAGMA freelist_count", &unused, e) ||
        !number(s, "PRAGMA page_size", &size, e) ||
        !number(s, "SELECT max(size) FROM response", &largest, e))
        return false;
    sqlite3_int64 wanted = s->held - unused * size + n + SPARE;
    if (stat(s->file, &st) != 0 || st.st_size >= wanted) return true;
    int chunk = (int)size, got = SQLITE_FULL; // without a chunk, SQLite takes no hint
    sqlite3_file_control(s->db, NULL, SQLITE_FCNTL_CHUNK_SIZE, &chunk);
    if (has_room(s, wanted - st.st_size, SPARE + (n > largest ? n : largest)))
        got = sqlite3_file_control(s->db, NULL, SQLITE_FCNTL_SIZE_HINT, &wanted);
    s->full = got != SQLITE_OK;
    return !s->full || fail(e, "the file can't grow: %s", sqlite3_errstr(got));
}

// Whether to try again.
static bool retry(struct responses_store *s, struct error *e) {
    if (!empty_log(s)) return false;
    *e = (struct error){0};
    return true;
}

// --- calls ---------------------------------------------------------------------------------------

static bool put(struct responses_store *s, const char *id, int64_t created, struct sv items,
                struct sv body, struct error *e) {
    int64_t n = (int64_t)(items.n + body.n);
    make_room(s, n);
    s->full = false;
    if (!reserve(s, n, e) || !run(s, "BEGIN IMMEDIATE", e)) return false;
    bool ok =
        insert(s, id, created, items, body, e) && trim(s, s->o.entries, s->o.bytes, INT64_MAX, e);
    return commit(s, ok, e);
}

bool responses_store_put(struct responses_store *s, const char *id, int64_t created,
                         struct sv items, struct sv body, struct error *e) {
    pthread_mutex_lock(&s->lock);
    bool ok = ready(s) || fail(e, "the store can't be opened");
    if (ok && !put(s, id, created, items, body, e))
        ok = retry(s, e) && put(s, id, created, items, body, e);
    if (ok && !in_place(s))
        fail(e, "the store's file was removed, replaced or cut (--responses-store-file)");
    pthread_mutex_unlock(&s->lock);
    return ok && !e->set;
}

static void take(sqlite3_stmt *q, int column, struct str *out) {
    const char *text = (const char *)sqlite3_column_text(q, column);
    if (out && text) str_add(out, sv_n(text, (size_t)sqlite3_column_bytes(q, column)));
}

static enum stored get(struct responses_store *s, struct sv id, struct str *items, struct str *body,
                       struct error *e) {
    sqlite3_stmt *q =
        prepare(s, "SELECT items, body FROM response WHERE id = ? AND created >= ?", e);
    if (!q) return STORED_ERROR;
    bind_text(q, 1, id);
    sqlite3_bind_int64(q, 2, oldest(s));
    int got = sqlite3_step(q);
    if (got == SQLITE_ROW) take(q, 0, items);
    if (got == SQLITE_ROW) take(q, 1, body);
    if (got != SQLITE_ROW && got != SQLITE_DONE) broken(s, e);
    sqlite3_finalize(q);
    return e->set ? STORED_ERROR : got == SQLITE_ROW ? STORED : STORED_NOT;
}

enum stored responses_store_get(struct responses_store *s, struct sv id, struct str *items,
                                struct str *body, struct error *e) {
    pthread_mutex_lock(&s->lock);
    enum stored is = ready(s) ? get(s, id, items, body, e) : STORED_NOT;
    pthread_mutex_unlock(&s->lock);
    return is;
}

static enum stored drop(struct responses_store *s, struct sv id, struct error *e) {
    sqlite3_stmt *q = prepare(s, "DELETE FROM response WHERE id = ? AND created >= ?", e);
    if (!q) return STORED_ERROR;
    bind_text(q, 1, id);
    sqlite3_bind_int64(q, 2, oldest(s));
    if (!finish(s, q, e)) return STORED_ERROR;
    return sqlite3_changes(s->db) ? STORED : STORED_NOT;
}

enum stored responses_store_drop(struct responses_store *s, struct sv id, struct error *e) {
    pthread_mutex_lock(&s->lock);
    enum stored is = ready(s) ? drop(s, id, e) : STORED_NOT;
    if (is == STORED_ERROR && retry(s, e)) is = drop(s, id, e);
    pthread_mutex_unlock(&s->lock);
    return is;
}

#else // without SQLite nothing is ever stored, and nobody asks for more than the reason

struct responses_store {
    bool off; // by the options
};

struct responses_store *responses_store_open(const struct responses_store_options *o,
                                             struct error *e) {
    if (o->file) {
        fail(e, "--responses-store-file: this build is without SQLite");
        return NULL;
    }
    struct responses_store *s = mem_alloc(sizeof *s);
    s->off = !o->entries;
    return s;
}

void responses_store_close(struct responses_store *s) { free(s); }

const char *responses_store_off(struct responses_store *s) {
    return s->off ? NOTHING_KEPT : "this build is without SQLite";
}

bool responses_store_put(struct responses_store *s, const char *id, int64_t created,
                         struct sv items, struct sv body, struct error *e) {
    (void)created;
    (void)items;
    (void)body;
    return fail(e, "%s: %s", id, responses_store_off(s));
}

enum stored responses_store_get(struct responses_store *s, struct sv id, struct str *items,
                                struct str *body, struct error *e) {
    (void)s;
    (void)id;
    (void)items;
    (void)body;
    (void)e;
    return STORED_NOT;
}

enum stored responses_store_drop(struct responses_store *s, struct sv id, struct error *e) {
    return responses_store_get(s, id, NULL, NULL, e);
}

#endif
