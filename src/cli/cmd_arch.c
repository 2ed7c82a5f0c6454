// mlxcel arch: the model families of this build.
#include "base/json.h"
#include "cli/cli.h"
#include "models/family.h"

static void add_family_json(struct str *s, const struct family *f) {
    str_puts(s, s->n > 1 ? ",\n {" : "\n {");
    add_json_key(s, "id");
    json_quote(s, sv(f->id));
    add_json_key(s, "name");
    json_quote(s, sv(f->name));
    add_json_key(s, "kind");
    json_quote(s, sv(family_kind_name(f->kind)));
    add_json_key(s, "model_types");
    for (const char *const *t = f->model_types; *t; t++) {
        str_addc(s, t == f->model_types ? '[' : ',');
        json_quote(s, sv(*t));
    }
    str_puts(s, "]}");
}

static void add_family_line(struct str *s, const struct family *f) {
    str_printf(s, "%-16s %-22s %-12s", f->id, f->name, family_kind_name(f->kind));
    for (const char *const *t = f->model_types; *t; t++)
        str_printf(s, "%s%s", t == f->model_types ? "" : ", ", *t);
    str_addc(s, '\n');
}

static int run(const struct args *a) {
    struct error e = {0};
    struct str out = {0};
    size_t n;
    const struct family *const *all = families(&n);
    if (args_flag(a, "json")) {
        str_addc(&out, '[');
        for (size_t i = 0; i < n; i++) add_family_json(&out, all[i]);
        str_puts(&out, "\n]\n");
    } else {
        str_printf(&out, "%-16s %-22s %-12s%s\n", "family", "name", "kind", "model_type");
        for (size_t i = 0; i < n; i++) add_family_line(&out, all[i]);
    }
    cli_write(str_sv(&out), &e);
    str_free(&out);
    return e.set ? cli_error(&e) : CLI_OK;
}

static const struct arg args[] = {
    {"--json", ARG_FLAG, NULL, NULL, NULL, 0, 0, "as a JSON array"},
};
static const struct arg_group options = {"Output", args, sizeof args / sizeof *args};
static const struct arg_group *const groups[] = {&options, &common_options, NULL};

const struct command command_arch = {
    .name = "arch",
    .alias = "supported",
    .summary = "list the model families of this build",
    .about = "A checkpoint belongs to the family that has its config.json's model_type.",
    .examples = "mlxcel arch --json\n",
    .groups = groups,
    .run = run,
};
