// A reply of any bytes in any pieces, in each format. Byte 0 picks the format, byte 1 says whether
// the reasoning is open (1) and whether there are tools (2), byte 2 how the rest is cut.
#include <stdlib.h>

#include "chat/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What templates show of their formats.
static const char *const sources[] = {
    "",
    "<|channel|> <|message|>",
    "<|open|> tools",
    "｜DSML｜",
    "<minimax:tool_call>",
    "]<]minimax[>[ <mm:think>",
    "<|tool_call:begin|>",
    "<steptml:invoke",
    "<seed:tool_call> <seed:think>",
    "<atem:function_calls> to=self",
    "<|tool_call> <|channel>",
    "<start_function_call>",
    "<longcat_tool_call> <longcat_think>",
    "<tool_calls{}> :opensource <think{}>",
    "<arg_key>",
    "<|tool_call_start|>",
    "<|tool_calls_section_begin|>",
    "<function name=\" <param name=\"",
    "[TOOL_CALLS] [THINK]",
    "<｜tool▁calls▁begin｜> ```json",
    "<｜tool▁calls▁begin｜>",
    "<TOOLCALL>",
    "<|START_ACTION|> <|START_THINKING|> <|START_RESPONSE|> <|START_TEXT|>",
    "Action: ```json",
    "<|tools_prefix|> <|inner_prefix|>",
    "<|action_start|>",
    "<|tool_call|> <response>",
    "<function_calls>",
    "<tool_calls> [BEGIN FINAL RESPONSE]",
    "<tool_call> <function=",
    "<tool_call>",
    "functools[",
    "<|/tool|>",
    "<|function_call|>",
    "function call role_sep",
    "<function_call>",
    ">>>all",
    "<function=",
    "<|python_start|>",
    "[{\"name\": ",
    "<|python_tag|>",
};
enum { SOURCES = sizeof sources / sizeof *sources };

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":"
    "\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"note\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"text\":{\"type\":\"string\"},\"tags\":{\"type\":\"array\",\"items\":{"
    "\"type\":\"string\"}},\"meta\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
    "\"array\"}}},\"id\":{\"type\":[\"integer\",\"null\"]},\"any\":{}}}}}]";

static struct json_object *tools(void) {
    static struct json_object *t;
    struct error e = {0};
    if (!t) t = json_read(sv(tools_json), "tools", &e);
    if (!t) abort();
    return t;
}

// A message as text, with its events in an order that makes sense.
struct taker {
    struct str reasoning, content, calls, call;
    size_t begun;
    bool calling;
};

static void check_arguments(struct sv arguments) {
    struct error e = {0};
    struct json_object *o = json_read(arguments, "arguments", &e);
    if (utf8_valid(arguments) && !json_object_is_type(o, json_type_object)) abort();
    json_object_put(o);
}

static void take_call(struct taker *t, const struct reply_event *e) {
    if (t->calling == (e->kind == REPLY_CALL) || e->call + 1 != t->begun + !t->calling) abort();
    if (e->kind == REPLY_CALL) {
        str_printf(&t->calls, "\n%.*s ", (int)e->text.n, e->text.p);
        t->begun++;
        str_clear(&t->call);
    }
    if (e->kind == REPLY_ARGUMENTS) str_add(&t->call, e->text);
    if (e->kind == REPLY_CALL_END) {
        check_arguments(str_sv(&t->call));
        str_add(&t->calls, str_sv(&t->call));
        str_add(&t->calls, e->id);
    }
    t->calling = e->kind == REPLY_CALL || e->kind == REPLY_ARGUMENTS;
}

static void take(struct reply *r, struct taker *t) {
    struct reply_event e;
    while (reply_next(r, &e)) {
        if (e.kind == REPLY_REASONING)
            str_add(&t->reasoning, e.text);
        else if (e.kind == REPLY_CONTENT)
            str_add(&t->content, e.text);
        else
            take_call(t, &e);
    }
}

// Pieces of 1 to `most` bytes, by a little generator that `seed` starts; 0: one piece.
static struct taker taken(const struct reply_format *f, const struct reply_options *opt,
                          struct sv text, size_t most, uint32_t seed) {
    struct taker t = {0};
    struct reply *r = reply_open(f, opt);
    for (size_t at = 0; at < text.n;) {
        seed = seed * 1664525u + 1013904223u;
        size_t n = most ? 1 + (seed >> 8) % most : text.n;
        size_t end = n < text.n - at ? at + n : text.n;
        reply_push(r, sv_cut(text, at, end));
        take(r, &t);
        at = end;
    }
    reply_finish(r);
    take(r, &t);
    if (t.calling) abort();
    reply_close(r);
    return t;
}

static void same(const struct str *a, const struct str *b) {
    if (!sv_eq(str_sv(a), str_sv(b))) abort();
}

static void drop(struct taker *t) {
    str_free(&t->reasoning);
    str_free(&t->content);
    str_free(&t->calls);
    str_free(&t->call);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3) return 0;
    struct reply_format f;
    reply_format_of(sv(sources[data[0] % SOURCES]), &f);
    struct reply_options opt = {.opened = data[1] & 1, .tools = data[1] & 2 ? tools() : NULL};
    struct sv text = sv_n((const char *)data + 3, size - 3);
    struct taker whole = taken(&f, &opt, text, 0, 0);
    struct taker bytes = taken(&f, &opt, text, 1, 0);
    struct taker pieces = taken(&f, &opt, text, 2 + data[2] % 16, data[2]);
    const struct taker *const cut[] = {&bytes, &pieces};
    for (int i = 0; i < 2; i++) {
        same(&whole.reasoning, &cut[i]->reasoning);
        same(&whole.content, &cut[i]->content);
        same(&whole.calls, &cut[i]->calls);
    }
    drop(&whole);
    drop(&bytes);
    drop(&pieces);
    return 0;
}
