// mlxcel detokenize: token ids to text.
#include <unistd.h>

#include "checkpoint/config.h"
#include "cli/cli.h"
#include "cli/jsonl.h"
#include "tokenizer/tokenizer.h"

static bool read_list(struct jsonl *r, struct ids *ids) {
    struct json_object *list = json_at(r->object, "ids");
    if (!json_object_is_type(list, json_type_array))
        return fail(&r->error, "line %zu: key \"ids\" is not a list of token ids", r->line);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *id = json_object_array_get_idx(list, i);
        int64_t value = json_object_is_type(id, json_type_int) ? json_object_get_int64(id) : -1;
        if (value < 0)
            return fail(&r->error, "line %zu: ids[%zu] is %.40s, not a token id", r->line, i,
                        json_object_to_json_string(id));
        ids_push(ids, value > INT32_MAX ? INT32_MAX : (int32_t)value); // beyond any vocabulary
    }
    return true;
}

static void add_answer(const struct tokenizer *t, const struct ids *ids, bool skip,
                       struct str *body) {
    struct str text = {0};
    tok_decode(t, ids->id, ids->n, skip, &text);
    str_puts(body, "\"text\":");
    json_quote(body, str_sv(&text));
    str_puts(body, ",\"pieces\":[");
    struct tok_stream *s = tok_stream_open(t, skip);
    for (size_t i = 0; i <= ids->n; i++) {
        str_clear(&text);
        if (i < ids->n)
            tok_stream_push(s, ids->id[i], &text);
        else
            tok_stream_finish(s, &text);
        if (i) str_addc(body, ',');
        json_quote(body, str_sv(&text));
    }
    str_addc(body, ']');
    tok_stream_close(s);
    str_free(&text);
}

// {"ids", "skip_special": false} to {"text", "pieces"}
static bool batch(const struct tokenizer *t, bool skip, struct error *e) {
    struct jsonl r = {0};
    struct str body = {0};
    struct ids ids = {0};
    bool ok = true;
    while (ok && jsonl_next(&r)) {
        ids.n = 0;
        str_clear(&body);
        bool leave = skip;
        jsonl_flag(&r, "skip_special", &leave);
        if (!r.error.set && read_list(&r, &ids)) add_answer(t, &ids, leave, &body);
        ok = jsonl_answer(&r, str_sv(&body), e);
    }
    ids_free(&ids);
    str_free(&body);
    jsonl_close(&r);
    return ok;
}

static bool print(const struct tokenizer *t, const struct ids *ids, bool skip, struct error *e) {
    struct str text = {0};
    tok_decode(t, ids->id, ids->n, skip, &text);
    str_addc(&text, '\n');
    bool ok = cli_write(str_sv(&text), e);
    str_free(&text);
    return ok;
}

// The operands and, for "-" or without any, standard input. False with *code set.
static bool gather(const struct args *a, struct ids *ids, int *code, struct error *e) {
    struct str text = {0};
    bool input = !a->operands;
    *code = CLI_USAGE;
    for (size_t i = 0; i < a->operands && !e->set; i++) {
        bool dash = sv_is(a->operand[i], "-");
        input |= dash;
        if (!dash) cli_ids(a->operand[i].p, ids, e);
    }
    if (input && !e->set) {
        *code = CLI_ERROR;
        if (cli_read(&text, e)) cli_ids(str_c(&text), ids, e);
    }
    str_free(&text);
    if (!ids->n) fail(e, "no token ids: pass them, as in mlxcel detokenize -m DIR 1,2,3");
    return !e->set;
}

static bool one(const struct args *a, const struct tokenizer *t, bool skip, int *code,
                struct error *e) {
    struct ids ids = {0};
    bool ok = gather(a, &ids, code, e);
    if (ok) *code = CLI_ERROR;
    ok = ok && print(t, &ids, skip, e);
    ids_free(&ids);
    return ok;
}

static int run(const struct args *a) {
    struct error e = {0};
    bool jsonl = args_flag(a, "jsonl"), skip = args_flag(a, "no-special");
    const char *path = args_model_option(a, &e);
    if (path && jsonl && a->operands)
        fail(&e, "--jsonl reads its ids from standard input: leave the ids out");
    if (path && !jsonl && !a->operands && isatty(STDIN_FILENO))
        fail(&e, "no token ids: pass them, as in mlxcel detokenize -m DIR 1,2,3");
    if (e.set) return cli_usage(&e);
    int code = CLI_ERROR;
    struct tokenizer *t = checkpoint_there(path, &e) ? tok_open(path, &e) : NULL;
    bool ok = t && (jsonl ? batch(t, skip, &e) : one(a, t, skip, &code, &e));
    tok_close(t);
    if (ok) return CLI_OK;
    cli_error(&e);
    return code;
}

static const struct arg args[] = {
    {"--no-special", ARG_FLAG, NULL, NULL, NULL, 0, 0, "leave special tokens out of the text"},
    {"--jsonl", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "read {\"ids\", \"skip_special\": false} a line from standard input, write {\"text\", "
     "\"pieces\"} or {\"error\"} a line: pieces as a stream emits them, one for each id and a last "
     "one"},
};
static const struct arg_group options = {"Detokenize", args, sizeof args / sizeof *args};
static const struct arg_group *const groups[] = {
    &args_model_group, &options, &common_options, &refused_options, &engine_other_group, NULL};

const struct command command_detokenize = {
    .name = "detokenize",
    .summary = "turn token ids into text",
    .operands = "[ID...]",
    .operands_most = SIZE_MAX,
    .about =
        "The model is a checkpoint's folder or its tokenizer file alone. Ids have commas or "
        "spaces between; without any, or for -, they are read from standard input. Ids that are not in "
        "the vocabulary give nothing.",
    .examples = "mlxcel detokenize -m models/llama-3.2-1b-4bit 9906,11,1917,0\n"
                "mlxcel tokenize -m DIR --ids < book.txt | mlxcel detokenize -m DIR\n",
    .groups = groups,
    .run = run,
};
