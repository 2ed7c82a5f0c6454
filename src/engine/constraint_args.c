// Names are those of llama.cpp.
#include "engine/constraint_args.h"

#include "base/file.h"

static const struct arg args[] = {
    {"--grammar", ARG_TEXT, "GBNF", NULL, NULL, 0, 0,
     "the answer is what this grammar says, in llama.cpp's format"},
    {"--grammar-file", ARG_TEXT, "FILE", NULL, NULL, 0, 0, "the same from a file"},
    {"-j --json-schema", ARG_TEXT, "JSON", NULL, NULL, 0, 0,
     "the answer is JSON that this schema allows; {}: any"},
    {"-jf --json-schema-file", ARG_TEXT, "FILE", NULL, NULL, 0, 0, "the same from a file"},
};
const struct arg_group constraint_arg_group = {"Form of the answer", args,
                                               sizeof args / sizeof *args};

// An option's text, or that of the file which another one names. False: neither is given, or e.
static bool read_text(const struct args *a, const char *const names[2], const char **option,
                      struct str *out, struct error *e) {
    const char *text = args_text(a, names[0] + 2), *path = args_text(a, names[1] + 2);
    if (!text && !path) return false;
    if (text && path) return fail(e, "%s and %s exclude each other", names[0], names[1]);
    *option = names[path != NULL];
    if (path && !file_read(path, GRAMMAR_BYTES, out, e)) return fail_in(e, "%s", *option);
    if (text) str_puts(out, text);
    return out->n || fail(e, "%s is empty", *option);
}

bool constraint_args_read(const struct args *a, struct constraint_args *c, struct error *e) {
    static const char *const grammars[2] = {"--grammar", "--grammar-file"};
    static const char *const schemas[2] = {"--json-schema", "--json-schema-file"};
    struct str json = {0};
    *c = (struct constraint_args){0};
    bool grammar = read_text(a, grammars, &c->option, &c->text, e);
    bool schema = read_text(a, schemas, &c->option, &json, e);
    if (grammar && schema) fail(e, "a grammar and a JSON schema exclude each other");
    if (schema && !e->set) c->schema = json_read(str_sv(&json), c->option, e);
    str_free(&json);
    if (grammar) c->constraint = (struct constraint){CONSTRAINT_GBNF, .text = str_sv(&c->text)};
    if (schema) c->constraint = (struct constraint){CONSTRAINT_SCHEMA, .schema = c->schema};
    if (c->constraint.kind != CONSTRAINT_NONE && args_flag(a, "ignore-eos"))
        fail(e, "--ignore-eos excludes a grammar and a JSON schema");
    return !e->set;
}

void constraint_args_free(struct constraint_args *c) {
    str_free(&c->text);
    json_object_put(c->schema);
    *c = (struct constraint_args){0};
}
