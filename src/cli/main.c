// mlxcel: finds the subcommand, parses its options, runs it.
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"
#include "compute/device.h"

static const struct command *const commands[] = {
    &command_generate, &command_run,   &command_logits,   &command_inspect,    &command_arch,
    &command_import,   &command_bench, &command_tokenize, &command_detokenize, &command_template,
};
enum { COMMANDS = sizeof commands / sizeof *commands };

// Commands that people know from the original and that would otherwise look like typing errors.
static const struct {
    const char *name, *why;
} elsewhere[] = {
    {"download", "downloads are not in this build; pass a checkpoint's folder with -m"},
    {"pull", "downloads are not in this build; pass a checkpoint's folder with -m"},
    {"chat", "a conversation is mlxcel run PATH, one answer mlxcel generate -m PATH -p TEXT"},
    {"convert", "checkpoints run as published; of a GGUF file, mlxcel import makes one"},
    {"quantize", "quantizing is not in this build: it runs checkpoints as published"},
    {"list", "there is no store of downloaded models in this build (families: mlxcel arch)"},
    {"ls", "there is no store of downloaded models in this build (families: mlxcel arch)"},
    {"rm", "there is no store of downloaded models in this build"},
    {"detect", "detection models are not in this build"},
    {"embed", "embedding models are not in this build"},
    {"rerank", "reranking models are not in this build"},
    {"tune", "there is nothing to tune in this build"},
    {"-v", "says more, behind a command; the version is mlxcel --version"},
    {"-m", "belongs behind a command: mlxcel run -m PATH"},
    {"-p", "belongs behind a command: mlxcel generate -m PATH -p TEXT"},
};

static const struct command *command_named(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++) {
        bool alias = commands[i]->alias && !strcmp(commands[i]->alias, name);
        if (alias || !strcmp(commands[i]->name, name)) return commands[i];
    }
    return NULL;
}

static int unknown_command(const char *name) {
    struct error e = {0};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (!strcmp(elsewhere[i].name, name)) fail(&e, "%s: %s", name, elsewhere[i].why);
    struct str names = {0};
    for (size_t i = 0; i < COMMANDS; i++) str_printf(&names, "%s ", commands[i]->name);
    str_puts(&names, "serve help");
    struct sv near = args_nearest(sv(name), names.p);
    const char *what = name[0] == '-' ? "option" : "command";
    if (near.n)
        fail(&e, "unknown command %s; did you mean %.*s?", name, (int)near.n, near.p);
    else
        fail(&e, "unknown %s %s (\"mlxcel help\" lists the commands)", what, name);
    str_free(&names);
    return cli_usage(&e);
}

// The server is a program of its own, beside this one or in PATH; it links what this one need not.
static int serve(char **argv) {
    struct error e = {0};
    char *self = realpath("/proc/self/exe", NULL);
    struct str beside = {0};
    str_add(&beside, path_dir(self ? self : ""));
    str_puts(&beside, "/mlxcel-server");
    execv(beside.p, argv);
    execvp("mlxcel-server", argv);
    fail(&e, "serve needs the program mlxcel-server, at %s or in PATH: %s", beside.p,
         strerror(errno));
    str_free(&beside);
    free(self);
    return cli_error(&e);
}

static const struct variable variables[] = {
    {"MLXCEL_LOG", "The least level of messages shown: error, warn (the default), info, debug."},
    {"MLXCEL_CPU_ISA",
     "The CPU kernels to use: plain, avx2, avx512, avx512-bf16, neon, dotprod, best (the default)."},
    {"MLXCEL_WEIGHT_MATERIALIZATION",
     "Eager (the default): weights are read while loading; lazy: when needed."},
    {"MLXCEL_CUDA_PINNED_LOAD",
     "1 (the default): weights go to a GPU through pinned memory; 0: without, which is slower."},
};
enum { VARIABLES = sizeof variables / sizeof *variables };

static const struct manual manual = {
    .name = "mlxcel",
    .purpose = "run language models as published",
    .see = "mlxcel-server",
    .command = commands,
    .commands = COMMANDS,
    .variable = variables,
    .variables = VARIABLES,
    .description = ".Nm\nruns Hugging Face and mlx-community checkpoints as they are published:\n"
                   "config.json, SafeTensors and tokenizer files, without a conversion.\n",
    .more_synopsis = ".Nm\n.Cm serve\n.Op Ar PATH\n.Op Ar options\n",
    .more_commands = ".Ss mlxcel serve\n"
                     "serve a model over the APIs of OpenAI, Anthropic and llama-server\n.Pp\n"
                     "Runs\n.Xr mlxcel-server 1\nwith the same arguments.\n",
    .files = ".Sh FILES\n.Bl -tag -width Ds\n"
             ".It Pa ${XDG_STATE_HOME:-~/.local/state}/mlxcel/history\n"
             "The lines typed in\n.Cm run .\n.El\n",
    .more_exits =
        ".It 130 , 143\nStopped by SIGINT (Ctrl-C) or SIGTERM; what was generated is written.\n"
        ".It 141\nThe reader of standard output went away (SIGPIPE).\n",
};

static void overview(FILE *f) {
    fputs("mlxcel runs language models as published: config.json, SafeTensors, tokenizer files.\n\n"
          "Usage: mlxcel COMMAND [options]\n\nCommands:\n",
          f);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(f, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs("  serve      serve a model over HTTP APIs: the program mlxcel-server\n"
          "  help       explain a command: mlxcel help generate\n\nOptions:\n"
          "  -h, --help     this text\n"
          "  -V, --version  the version, and what is in this build\n"
          "      --man      the manual page, in mdoc: mlxcel --man | man -l -\n\nExamples:\n"
          "  mlxcel run models/SmolLM2-135M-Instruct\n"
          "  mlxcel generate -m models/SmolLM2-135M-Instruct -p \"Why is the sky blue?\"\n\n"
          "Variables, beside those that stand for options:\n",
          f);
    for (size_t i = 0; i < VARIABLES; i++)
        fprintf(f, "  %s\n      %s\n", variables[i].name, variables[i].help);
    fputs("\nExit codes: 0 done, 1 error, 2 wrong usage, 130 and 143 stopped by a signal.\n", f);
}

static void version(FILE *f) {
    fprintf(f, "mlxcel %s\n", MLXCEL_VERSION);
#if defined(__clang__)
    fprintf(f, "compiler  clang %s\n", __clang_version__);
#else
    fprintf(f, "compiler  gcc %s\n", __VERSION__);
#endif
    fputs("kernels   ", f);
    enum isa best = ISA_PLAIN;
    for (enum isa i = ISA_PLAIN; i < ISA_BEST; i++) {
        if (!isa_supported(i)) continue;
        fprintf(f, "%s ", isa_name(i));
        best = i;
    }
    fprintf(f, "on this machine; %s is used\n", isa_name(best));
    fprintf(f, "features  %s\n", MLXCEL_FEATURES);
}

static int run_command(const struct command *c, int argc, char **argv) {
    struct error e = {0};
    struct args a;
    int code = CLI_OK;
    if (!args_parse(&a, c, argc, argv, &e)) {
        code = cli_usage(&e);
    } else if (args_flag(&a, "help")) {
        args_help(stdout, c);
    } else {
        if (!log_environment(&e)) code = cli_usage(&e);
        if (args_flag(&a, "verbose")) log_set(LOG_DEBUG);
        if (args_flag(&a, "quiet")) log_set(LOG_ERROR);
        if (!e.set) args_warn(&a, NULL);
        if (!e.set) code = c->run(&a);
    }
    args_free(&a);
    return code;
}

static int help(const char *name) {
    char program[] = "mlxcel-server", option[] = "--help";
    if (name && !strcmp(name, "serve")) return serve((char *[]){program, option, NULL});
    const struct command *c = name ? command_named(name) : NULL;
    if (name && !c) return unknown_command(name);
    if (c)
        args_help(stdout, c);
    else
        overview(stdout);
    return CLI_OK;
}

static int dispatch(int argc, char **argv) {
    const char *first = argc > 1 ? argv[1] : NULL;
    if (!first) {
        overview(stderr);
        return CLI_USAGE;
    }
    if (!strcmp(first, "serve")) return serve(argv + 1);
    if (!strcmp(first, "help") || !strcmp(first, "-h") || !strcmp(first, "--help"))
        return help(argc > 2 ? argv[2] : NULL);
    if (!strcmp(first, "-V") || !strcmp(first, "--version") || !strcmp(first, "version"))
        version(stdout);
    else if (!strcmp(first, "--man"))
        args_man(stdout, &manual);
    else if (command_named(first))
        return run_command(command_named(first), argc - 2, argv + 2);
    else
        return unknown_command(first);
    return CLI_OK;
}

// Line editing works on characters: they are UTF-8, also where the environment doesn't say so. Only
// this category: numbers stay as C writes them.
static void use_utf8(void) {
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

int main(int argc, char **argv) {
    // Help fits in it, so that it fails, if it does, at the end, where the reason is told.
    static char buffer[1 << 17];
    files_standard();
    signal(SIGPIPE, SIG_DFL); // a parent may have ignored it; `mlxcel ... | head` ends quietly
    map_faults_end();
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    use_utf8();
    int code = dispatch(argc, argv);
    struct error e = {0};
    if (code == CLI_OK && !cli_finish(&e)) code = cli_error(&e);
    return code;
}
