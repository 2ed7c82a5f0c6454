// mlxcel tokenize: text to token ids.
#include <unistd.h>

#include "checkpoint/config.h"
#include "cli/cli.h"
#include "cli/jsonl.h"
#include "tokenizer/tokenizer.h"

// A line for each token: its id and how the vocabulary spells it; with ids_only, one line of ids.
static bool print(const struct tokenizer *t, const struct ids *ids, bool ids_only,
                  struct error *e) {
    struct str s = {0};
    if (ids_only) {
        add_ids(&s, ids);
        str_addc(&s, '\n');
    }
    for (size_t i = 0; !ids_only && i < ids->n; i++) {
        str_printf(&s, "%d\t", ids->id[i]);
        json_quote(&s, tok_token(t, ids->id[i]));
        str_addc(&s, '\n');
    }
    bool ok = cli_write(str_sv(&s), e);
    str_free(&s);
    return ok;
}

// {"text", "add_special": true} to {"ids"}
static bool batch(const struct tokenizer *t, bool special, struct error *e) {
    struct jsonl r = {0};
    struct str body = {0};
    struct ids ids = {0};
    bool ok = true;
    while (ok && jsonl_next(&r)) {
        struct json_object *text = json_at(r.object, "text");
        if (!r.error.set && !json_object_is_type(text, json_type_string))
            fail(&r.error, "line %zu: key \"text\" is not a string", r.line);
        bool add = special;
        jsonl_flag(&r, "add_special", &add);
        ids.n = 0;
        str_clear(&body);
        if (!r.error.set && tok_encode(t, json_text(text), add, &ids, &r.error)) {
            str_puts(&body, "\"ids\":[");
            add_ids(&body, &ids);
            str_addc(&body, ']');
        }
        ok = jsonl_answer(&r, str_sv(&body), e);
    }
    ids_free(&ids);
    str_free(&body);
    jsonl_close(&r);
    return ok;
}

static bool single(const struct args *a, const struct tokenizer *t, bool special, struct error *e) {
    struct str input = {0};
    struct ids ids = {0};
    bool ok = true;
    struct sv text = a->operands ? a->operand[0] : sv("-");
    if (sv_is(text, "-")) {
        ok = cli_read(&input, e);
        text = str_sv(&input);
        if (ok && !a->operands && !text.n) ok = fail(e, "standard input: no text");
    }
    ok = ok && tok_encode(t, text, special, &ids, e) && print(t, &ids, args_flag(a, "ids"), e);
    ids_free(&ids);
    str_free(&input);
    return ok;
}

static int run(const struct args *a) {
    struct error e = {0};
    bool jsonl = args_flag(a, "jsonl"), special = !args_flag(a, "no-special");
    const char *path = args_model_option(a, &e);
    if (path && jsonl && a->operands)
        fail(&e, "--jsonl reads its texts from standard input: leave the text out");
    if (path && !jsonl && !a->operands && isatty(STDIN_FILENO))
        fail(&e, "no text: pass it, or - to read it from standard input");
    if (e.set) return cli_usage(&e);
    struct tokenizer *t = checkpoint_there(path, &e) ? tok_open(path, &e) : NULL;
    bool ok = t && (jsonl ? batch(t, special, &e) : single(a, t, special, &e));
    tok_close(t);
    return ok ? CLI_OK : cli_error(&e);
}

static const struct arg args[] = {
    {"--ids", ARG_FLAG, NULL, NULL, NULL, 0, 0, "print only the ids, with commas between"},
    {"--no-special", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "don't add the special tokens that the model wants around a text"},
    {"--jsonl", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "read {\"text\", \"add_special\": true} a line from standard input, write {\"ids\"} or "
     "{\"error\"} a line"},
};
static const struct arg_group options = {"Tokenize", args, sizeof args / sizeof *args};
static const struct arg_group *const groups[] = {
    &args_model_group, &options, &common_options, &refused_options, &engine_other_group, NULL};

const struct command command_tokenize = {
    .name = "tokenize",
    .summary = "turn text into token ids",
    .operands = "[TEXT]",
    .operands_most = 1,
    .about = "The model is a checkpoint's folder or its tokenizer file alone. Without TEXT, or for "
             "-, standard input is the text, as it is. Special tokens that the text itself spells "
             "are recognised.",
    .examples = "mlxcel tokenize -m models/llama-3.2-1b-4bit \"Hello, world!\"\n"
                "mlxcel tokenize -m DIR/tokenizer.json --ids < book.txt\n",
    .groups = groups,
    .run = run,
};
