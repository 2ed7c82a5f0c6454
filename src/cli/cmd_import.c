// mlxcel import: a GGUF file becomes a checkpoint folder.
#include <string.h>
#include <unistd.h>

#include "checkpoint/gguf_import.h"
#include "cli/cli.h"

static bool show_progress(void *arg, size_t done, size_t total) {
    int *shown = arg, percent = total ? (int)(100.0 * (double)done / (double)total) : 100;
    if (*shown >= 0 && percent != *shown) {
        *shown = percent;
        fprintf(stderr, "\rimporting %3d %%", percent);
        fflush(stderr);
    }
    return !signals_got();
}

static enum gguf_inexact inexact(const struct args *a) {
    static const char *const words[] = {
        [GGUF_AS_AFFINE] = "8bit", [GGUF_AS_BF16] = "bf16", [GGUF_AS_F16] = "f16"};
    const char *word = args_text(a, "inexact");
    for (int i = 0; i < GGUF_AS_F32; i++)
        if (!strcmp(word, words[i])) return (enum gguf_inexact)i;
    return GGUF_AS_F32;
}

static void tell(const char *dir, const struct gguf_import_report *r, enum gguf_inexact how) {
    static const char *const what[] = {"requantized to 8-bit groups of 32", "rounded to bf16",
                                       "rounded to f16", "expanded to f32"};
    struct str size = {0};
    add_bytes(&size, r->bytes);
    fprintf(stderr, "%s: %zu tensor%s (%s)", dir, r->tensors, plural((int64_t)r->tensors), size.p);
    if (r->inexact)
        fprintf(stderr,
                "; %zu of them, Q2_K or Q6_K, were %s, which is lossy: the largest error is %.2g "
                "%% of its group's largest weight (--inexact f32 loses nothing)",
                r->inexact, what[how], 100 * r->largest);
    else
        fputs(", all without loss", stderr);
    fputc('\n', stderr);
    str_free(&size);
}

static int run(const struct args *a) {
    struct error e = {0};
    bool quiet = args_flag(a, "quiet");
    int shown = isatty(STDERR_FILENO) && !quiet ? 0 : -1;
    struct gguf_import_options opt = {.force = args_flag(a, "force"),
                                      .inexact = inexact(a),
                                      .progress = show_progress,
                                      .arg = &shown};
    struct gguf_import_report report;
    if (a->operands != 2) {
        fail(&e, "import takes a GGUF file and the folder to make: mlxcel import FILE.gguf DIR");
        return cli_usage(&e);
    }
    signals_catch(true);
    gguf_import(a->operand[0].p, a->operand[1].p, &opt, &report, &e);
    signals_release();
    if (shown > 0) fprintf(stderr, "\r%*s\r", 20, "");
    if (e.set && signals_got()) return 128 + signals_got();
    if (e.set) return cli_error(&e);
    if (!quiet) tell(a->operand[1].p, &report, opt.inexact);
    return CLI_OK;
}

static const struct arg args[] = {
    {"-f --force", ARG_FLAG, NULL, NULL, NULL, 0, 0,
     "write into a folder that has files; those of the same names are replaced"},
    {"--inexact", ARG_CHOICE, "8bit|bf16|f16|f32", NULL, "8bit", 0, 0,
     "how to keep tensors that have no exact 8-bit form (Q2_K, Q6_K)"},
};
static const struct arg_group options = {"Import options", args, sizeof args / sizeof *args};
static const struct arg_group *const groups[] = {&options, &common_options, NULL};

const struct command command_import = {
    .name = "import",
    .summary = "make a checkpoint folder of a GGUF file",
    .operands = "FILE.gguf DIR",
    .operands_most = 2,
    .about =
        "Writes model.safetensors, config.json, tokenizer.json, tokenizer_config.json and "
        "generation_config.json, as published checkpoints have them. Architectures llama, qwen2 "
        "and qwen3. F32, F16 and BF16 are copied; Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q3_K, Q4_K and "
        "Q5_K become affine groups of 32 without loss; Q2_K and Q6_K come within 0.4 % of the "
        "largest weight of each group. The folder appears when it is complete.",
    .examples = "mlxcel import SmolLM2-135M-Instruct.Q4_1.gguf SmolLM2-135M-Instruct\n",
    .groups = groups,
    .run = run,
};
