// The server's options, from the command line and the environment.
#ifndef SERVER_OPTIONS_H
#define SERVER_OPTIONS_H

#include "base/args.h"
#include "base/json.h"
#include "base/log.h"
#include "engine/engine.h"
#include "server/defaults.h"
#include "server/responses_store.h"
#include "server/cors.h"

struct server_options {
    const char *model; // a checkpoint's folder, or a file in it
    char **name;       // [names] what the API calls it: each of --alias, else the folder's name
    size_t names;
    struct engine_options engine;
    int64_t queue; // requests that may wait for a place
    bool uncached; // no request uses what others left in the caches

    struct defaults defaults;   // of requests
    struct json_object *kwargs; // variables of all requests' templates; owned
    enum reasoning_format {
        REASONING_APART,     // as reasoning_content
        REASONING_AND_ALIAS, // and as "reasoning", which other clients look for
        REASONING_INSIDE,    // in the content, with its marks
    } reasoning;

    struct responses_store_options responses;

    bool page;                    // for browsers, at /
    const char *host;             // a name, a number, or a file that ends with ".sock"
    int port;                     // 0: any that is free
    bool shared_port;             // with other servers
    struct sv prefix;             // of every path, without a slash at its end; empty: none
    struct str tls_key, tls_cert; // in PEM; empty: there is no TLS
    struct sv *key;               // some are of key_file, others of the command line
    struct str key_file;
    size_t keys; // 0: anyone may use it

    size_t max_body, max_header; // bytes of one request
    unsigned max_connections;
    unsigned timeout;         // seconds that a write may stand still
    unsigned receive_timeout; // seconds in which a request must arrive, or the next one begin
    unsigned drain_timeout;   // seconds that running answers get when the server is told to stop
    unsigned request_timeout; // seconds in which an answer must be whole; 0: no limit
    unsigned token_timeout;   // seconds between two tokens of it; 0: no limit
    unsigned ping;            // seconds after which a silent stream gets a comment; 0: never

    struct log_options log;
    bool log_prompts;      // bodies of requests too
    bool log_forwarded;    // the client as a proxy tells it
    unsigned log_interval; // seconds between lines of figures while there is work; 0: none

    bool metrics, props, slots; // routes for the operator
    bool suffix_first;          // /infill has the suffix before the prefix
    const char *slot_dir;       // for /slots/N?action=save, or NULL
    struct cors cors;
};

extern const struct manual server_manual;
extern const struct command command_server;           // its table; main runs it, not .run
extern const struct arg_group *const server_others[]; // of llama-server; ends with NULL

// Strings in o are a's, the environment's, or owned by o. Opens the log.
bool server_options_read(struct server_options *o, const struct args *a, struct error *e);
// The model's name as a request has it; the first one when it has no such name.
const char *server_options_name(const struct server_options *o, struct sv asked);
void server_options_free(struct server_options *o);

#endif
