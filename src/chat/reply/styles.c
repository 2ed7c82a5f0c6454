// The ways that published models reply, and the chat templates that show which is whose.
#include "chat/reply/call.h"

#define TEXT(literal)                                                                              \
    { literal, sizeof(literal) - 1 }

// --- calls ---------------------------------------------------------------------------------------

static const struct call_style hermes = {
    .open = "<tool_call>", .close = "</tool_call>", .kind = CALLS_JSON, .each = true};
static const struct call_style json_list = {
    .open = "<tool_calls>", .close = "</tool_calls>", .kind = CALLS_JSON};
static const struct call_style nemotron = {
    .open = "<TOOLCALL>", .close = "</TOOLCALL>", .kind = CALLS_JSON};
static const struct call_style granite = {
    .open = "<|tool_call|>", .close = "<|/tool_call|>", .kind = CALLS_JSON};
static const struct call_style mistral_list = {
    .open = "[TOOL_CALLS]", .kind = CALLS_JSON, .last = "id"};
static const struct call_style command_r = {.open = "<|START_ACTION|>",
                                            .close = "<|END_ACTION|>",
                                            .kind = CALLS_JSON,
                                            .keys = {"tool_name", "parameters"},
                                            .first = "tool_call_id"};
static const struct call_style command_r_plus = {.open = "Action:\n```json",
                                                 .close = "```",
                                                 .kind = CALLS_JSON,
                                                 .keys = {"tool_name", "parameters"},
                                                 .first = "tool_call_id"};
static const struct call_style command_r_plus_line = {.open = "Action: ```json",
                                                      .close = "```",
                                                      .kind = CALLS_JSON,
                                                      .keys = {"tool_name", "parameters"},
                                                      .first = "tool_call_id"};
static const struct call_style internlm = {.open = "<|action_start|><|plugin|>",
                                           .close = "<|action_end|>",
                                           .kind = CALLS_JSON,
                                           .each = true};
static const struct call_style lfm_json = {
    .open = "<|tool_call_start|>", .close = "<|tool_call_end|>", .kind = CALLS_JSON};
static const struct call_style functools = {.open = "functools", .kind = CALLS_JSON};
static const struct call_style gigachat = {
    .open = "function call<|role_sep|>", .kind = CALLS_JSON, .before = "<|message_sep|>\n\n"};
static const struct call_style gigachat31 = {.open = "<|function_call|>", .kind = CALLS_JSON};
static const struct call_style granite_code = {
    .open = "<function_call>", .kind = CALLS_JSON, .each = true};
static const struct call_style bare_json = {.kind = CALLS_JSON, .keys = {"name", "parameters"}};
static const struct call_style bare_list = {.kind = CALLS_JSON, .list = true};
static const struct call_style python_tag_json = {
    .open = "<|python_tag|>", .kind = CALLS_JSON, .keys = {"name", "parameters"}};
static const struct call_style apertus = {
    .open = "<|tools_prefix|>", .close = "<|tools_suffix|>", .kind = CALLS_JSON, .keyed = true};

static const struct call_style lfm = {
    .open = "<|tool_call_start|>", .close = "<|tool_call_end|>", .kind = CALLS_LITERAL};
static const struct call_style olmo = {
    .open = "<function_calls>", .close = "</function_calls>", .kind = CALLS_LITERAL};
static const struct call_style bare_python = {.kind = CALLS_LITERAL};
static const struct call_style llama4 = {
    .open = "<|python_start|>", .close = "<|python_end|>", .kind = CALLS_LITERAL};
static const struct call_style python_tag = {
    .open = "<|python_tag|>", .kind = CALLS_LITERAL, .name_end = ".call"};
static const struct call_style gemma4 = {.open = "<|tool_call>",
                                         .close = "<tool_call|>",
                                         .kind = CALLS_LITERAL,
                                         .quote = "<|\"|>",
                                         .each = true};
static const struct call_style function_gemma = {.open = "<start_function_call>",
                                                 .close = "<end_function_call>",
                                                 .kind = CALLS_LITERAL,
                                                 .quote = "<escape>",
                                                 .each = true};

static const struct call_style generic = {
    .open = REPLY_CALLS, .close = "}", .kind = CALLS_JSON, .list = true};

// <function=NAME><parameter=KEY> with each value on its own lines.
#define QWEN_FUNCTION                                                                              \
    .kind = CALLS_TAGS, .call_open = "<function=", .name_close = ">", .call_close = "</function>", \
    .key_open = "<parameter=", .key_close = ">", .value_close = "</parameter>"
static const struct call_style qwen_coder = {
    .open = "<tool_call>", .close = "</tool_call>", .lines = true, QWEN_FUNCTION, .each = true};
static const struct call_style bare_qwen_coder = {
    .close = "</tool_call>", .lines = true, QWEN_FUNCTION};
static const struct call_style seed = {
    .open = "<seed:tool_call>", .close = "</seed:tool_call>", QWEN_FUNCTION, .each = true};

static const struct call_style glm = {.open = "<tool_call>",
                                      .close = "</tool_call>",
                                      .kind = CALLS_TAGS,
                                      .key_open = "<arg_key>",
                                      .key_close = "</arg_key>",
                                      .value_open = "<arg_value>",
                                      .value_close = "</arg_value>",
                                      .each = true};
static const struct call_style longcat = {.open = "<longcat_tool_call>",
                                          .close = "</longcat_tool_call>",
                                          .kind = CALLS_TAGS,
                                          .key_open = "<longcat_arg_key>",
                                          .key_close = "</longcat_arg_key>",
                                          .value_open = "<longcat_arg_value>",
                                          .value_close = "</longcat_arg_value>",
                                          .each = true};
static const struct call_style iquest = {.open = "<iquest_tool_call>",
                                         .close = "</iquest_tool_call>",
                                         .kind = CALLS_TAGS,
                                         .key_open = "<arg_key>",
                                         .key_close = "</arg_key>",
                                         .value_open = "<arg_value>",
                                         .value_close = "</arg_value>",
                                         .each = true};
static const struct call_style horizon = {.open = "<ifm|tool_call>",
                                          .close = "</ifm|tool_call>",
                                          .kind = CALLS_TAGS,
                                          .key_open = "<ifm|arg_key>",
                                          .key_close = "</ifm|arg_key>",
                                          .value_open = "<ifm|arg_value>",
                                          .value_close = "</ifm|arg_value>",
                                          .each = true,
                                          .before = "<ifm|tool_calls>",
                                          .behind = "</ifm|tool_calls>"};
static const struct call_style horizon_json = {.open = "<ifm|tool_call>",
                                               .close = "</ifm|tool_call>",
                                               .kind = CALLS_JSON,
                                               .each = true,
                                               .before = "<ifm|tool_calls>",
                                               .behind = "</ifm|tool_calls>"};
static const struct call_style hunyuan3 = {.open = "<tool_calls:opensource>",
                                           .close = "</tool_calls:opensource>",
                                           .kind = CALLS_TAGS,
                                           .call_open = "<tool_call:opensource>",
                                           .name_close = "<tool_sep:opensource>",
                                           .call_close = "</tool_call:opensource>",
                                           .key_open = "<arg_key:opensource>",
                                           .key_close = "</arg_key:opensource>",
                                           .value_open = "<arg_value:opensource>",
                                           .value_close = "</arg_value:opensource>"};

#define INVOKE(p)                                                                                  \
    .kind = CALLS_TAGS, .call_open = "<" p "invoke", .name_open = "name=\"", .name_close = ">",    \
    .call_close = "</" p "invoke>", .key_open = "<" p "parameter name=\"", .key_close = ">",       \
    .value_close = "</" p "parameter>"
static const struct call_style minimax = {
    .open = "<minimax:tool_call>", .close = "</minimax:tool_call>", INVOKE("")};
static const struct call_style dsml = {.open = "<｜DSML｜function_calls>",
                                       .close = "</｜DSML｜function_calls>",
                                       INVOKE("｜DSML｜"),
                                       .says = SAYS_STRING};
static const struct call_style dsml4 = {.open = "<｜DSML｜tool_calls>",
                                        .close = "</｜DSML｜tool_calls>",
                                        INVOKE("｜DSML｜"),
                                        .says = SAYS_STRING};
static const struct call_style gcml = {.open = "<｜GCML｜tool_calls>",
                                       .close = "</｜GCML｜tool_calls>",
                                       INVOKE("｜GCML｜"),
                                       .says = SAYS_STRING};
static const struct call_style dots = {
    .open = "<dots_function_call>", .close = "</dots_function_call>", INVOKE("")};
static const struct call_style atem = {.open = "<atem:function_calls>",
                                       .close = "</atem:function_calls>",
                                       INVOKE("atem:"),
                                       .own = true};
static const struct call_style minicpm = {.kind = CALLS_TAGS,
                                          .call_open = "<function name=\"",
                                          .name_close = ">",
                                          .call_close = "</function>",
                                          .key_open = "<param name=\"",
                                          .key_close = ">",
                                          .value_close = "</param>",
                                          .cdata = true};

static const struct call_style kimi_k3 = {.open = "<|open|>tools<|sep|>",
                                          .close = "<|close|>tools<|sep|>",
                                          .kind = CALLS_TAGS,
                                          .call_open = "<|open|>call tool=\"",
                                          .name_close = "<|sep|>",
                                          .call_close = "<|close|>call<|sep|>",
                                          .args_open = "<|open|>json type=\"object\"<|sep|>",
                                          .args_close = "<|close|>json<|sep|>",
                                          .key_open = "<|open|>argument key=\"",
                                          .key_close = "<|sep|>",
                                          .value_close = "<|close|>argument<|sep|>",
                                          .entities = true,
                                          .number = " index=\"",
                                          .before =
                                              "<|open|>response<|sep|><|close|>response<|sep|>",
                                          .behind = "<|close|>message<|sep|>",
                                          .says = SAYS_TYPE};
static const struct call_style kimi_k2 = {.open = "<|tool_calls_section_begin|>",
                                          .close = "<|tool_calls_section_end|>",
                                          .kind = CALLS_TAGS,
                                          .call_open = "<|tool_call_begin|>",
                                          .name_close = "<|tool_call_argument_begin|>",
                                          .call_close = "<|tool_call_end|>",
                                          .args_open = "",
                                          .name_start = "functions.",
                                          .numbered = true};
static const struct call_style deepseek3 = {.open = "<｜tool▁calls▁begin｜>",
                                            .close = "<｜tool▁calls▁end｜>",
                                            .kind = CALLS_TAGS,
                                            .call_open = "<｜tool▁call▁begin｜>",
                                            .name_open = "function<｜tool▁sep｜>",
                                            .name_close = "\n",
                                            .call_close = "<｜tool▁call▁end｜>",
                                            .args_open = "```json",
                                            .args_close = "```"};
static const struct call_style deepseek31 = {.open = "<｜tool▁calls▁begin｜>",
                                             .close = "<｜tool▁calls▁end｜>",
                                             .kind = CALLS_TAGS,
                                             .call_open = "<｜tool▁call▁begin｜>",
                                             .name_close = "<｜tool▁sep｜>",
                                             .call_close = "<｜tool▁call▁end｜>",
                                             .args_open = ""};
static const struct call_style mistral = {.open = "[TOOL_CALLS]",
                                          .kind = CALLS_TAGS,
                                          .name_close = "[ARGS]",
                                          .args_open = "",
                                          .id_open = "[CALL_ID]",
                                          .each = true};
static const struct call_style functionary = {.kind = CALLS_TAGS,
                                              .call_open = "<function=",
                                              .name_close = ">",
                                              .call_close = "</function>",
                                              .args_open = ""};
static const struct call_style functionary_python = {
    .open = "<|python_tag|>", .kind = CALLS_TAGS, .name = "python", .args_open = ""};

static const struct call_style functionary32 = {.open = ">>>",
                                                .kind = CALLS_TAGS,
                                                .name_close = "\n",
                                                .args_open = "",
                                                .known = true,
                                                .each = true};
static const struct call_style solar = {.open = "<|tool_calls|>",
                                        .close = "<|calls|>",
                                        .kind = CALLS_TAGS,
                                        .call_open = "<|tool_call:begin|>",
                                        .name_close = "<|tool_call:args|>",
                                        .call_close = "<|tool_call:end|>",
                                        .args_open = "",
                                        .id_close = "<|tool_call:name|>"};
static const struct call_style step3 = {.open = "<｜tool_calls_begin｜>",
                                        .close = "<｜tool_calls_end｜>",
                                        .kind = CALLS_TAGS,
                                        .call_open = "<｜tool_call_begin｜>function<｜tool_sep｜>",
                                        .name_open = "<steptml:invoke name=\"",
                                        .name_close = ">",
                                        .call_close = "</steptml:invoke><｜tool_call_end｜>",
                                        .key_open = "<steptml:parameter name=\"",
                                        .key_close = ">",
                                        .value_close = "</steptml:parameter>"};

#define M3 "]<]minimax[>["
static const struct call_style minimax3 = {.open = M3 "<tool_call>",
                                           .close = M3 "</tool_call>",
                                           .kind = CALLS_TREE,
                                           .call_open = M3 "<invoke name=\"",
                                           .name_close = "\">",
                                           .mark = M3,
                                           .call_close = M3 "</invoke>",
                                           .key_open = M3 "<",
                                           .key_close = ">",
                                           .value_close = M3 "</"};

// --- formats -------------------------------------------------------------------------------------

// The first entry whose signs all stand in the template's source has the calls.
static const struct {
    const char *sign[2];
    const struct call_style *style[REPLY_STYLES];
} calls[] = {
    {{"<|open|>", "tools"}, {&kimi_k3}},
    {{"｜DSML｜", "function_calls>"}, {&dsml, &dsml4}},
    {{"｜DSML｜"}, {&dsml4, &dsml}},
    {{"<minimax:tool_call>"}, {&minimax}},
    {{"｜GCML｜"}, {&gcml}},
    {{"<dots_function_call>"}, {&dots}},
    {{"<iquest_tool_call>"}, {&iquest}},
    {{"<ifm|tool_call>"}, {&horizon_json, &horizon}},
    {{"]<]minimax[>["}, {&minimax3}},
    {{"<|tool_call:begin|>"}, {&solar}},
    {{"<steptml:invoke"}, {&step3}},
    {{"<seed:tool_call>"}, {&seed}},
    {{"<atem:function_calls>"}, {&atem}},
    {{"<|tool_call>"}, {&gemma4}},
    {{"<start_function_call>"}, {&function_gemma}},
    {{"<longcat_tool_call>"}, {&longcat}},
    {{"<tool_calls{}>", ":opensource"}, {&hunyuan3}},
    {{"<arg_key>"}, {&hermes, &glm}},
    {{"<|tool_call_start|>"}, {&lfm, &lfm_json}},
    {{"<|tool_list_start|>"}, {&lfm, &lfm_json}},
    {{"<|tool_calls_section_begin|>"}, {&kimi_k2}},
    {{"<function name=\"", "<param name=\""}, {&minicpm}},
    {{"[TOOL_CALLS]"}, {&mistral_list, &mistral}},
    {{"<｜tool▁calls▁begin｜>", "```json"}, {&deepseek3}},
    {{"<｜tool▁calls▁begin｜>"}, {&deepseek31}},
    {{"<TOOLCALL>"}, {&nemotron}},
    {{"<|START_ACTION|>"}, {&command_r}},
    {{"Action:", "```json"}, {&command_r_plus, &command_r_plus_line}},
    {{"<|tools_prefix|>"}, {&apertus}},
    {{"<|action_start|>"}, {&internlm}},
    {{"<|tool_call|>"}, {&granite}},
    {{"<function_calls>"}, {&olmo}},
    {{"<tool_calls>"}, {&json_list}},
    {{"<tool_call>", "<function="}, {&hermes, &qwen_coder, &bare_qwen_coder}},
    {{"<tool_call>"}, {&hermes, &qwen_coder}},
    {{"functools["}, {&functools}},
    {{"<|/tool|>"}, {&granite, &functools}},
    {{"<|function_call|>"}, {&gigachat31}},
    {{"function call", "role_sep"}, {&gigachat}},
    {{"<function_call>"}, {&granite_code}},
    {{">>>all"}, {&functionary32}},
    {{"<function="}, {&functionary, &functionary_python}},
    {{"<|python_start|>"}, {&llama4, &bare_python, &bare_json}},
    {{"func_name1("}, {&llama4, &bare_python}},
    {{"[{\"name\": "}, {&bare_list, &bare_json}},
    {{"<|python_tag|>"}, {&bare_json, &python_tag_json, &python_tag}},
    {{"ipython", "\"parameters\": "}, {&bare_json, &python_tag_json, &python_tag}},
};

static const struct {
    const char *sign;
    struct sv open, close;
} thinking[] = {
    {"<|open|>", TEXT("<|open|>think<|sep|>"), TEXT("<|close|>think<|sep|>")},
    {"<|channel>", TEXT("<|channel>thought"), TEXT("<channel|>")},
    {"<think{}>", TEXT("<think:opensource>"), TEXT("</think:opensource>")},
    {"to=self", TEXT("to=self<|message|>"), TEXT("<|eom|>")},
    {"<|tool_call:begin|>", TEXT("<|think|>"), TEXT("<|end|>")},
    {"[BEGIN FINAL RESPONSE]", TEXT("Here are my reasoning steps:"),
     TEXT("[BEGIN FINAL RESPONSE]")},
    {"<mm:think>", TEXT("<mm:think>"), TEXT("</mm:think>")},
    {"<ifm|think>", TEXT("<ifm|think>"), TEXT("</ifm|think>")},
    {"<seed:think>", TEXT("<seed:think>"), TEXT("</seed:think>")},
    {"<longcat_think>", TEXT("<longcat_think>"), TEXT("</longcat_think>")},
    {"<atem:think>", TEXT("<atem:think>"), TEXT("</atem:think>")},
    {"[THINK]", TEXT("[THINK]"), TEXT("[/THINK]")},
    {"<|START_THINKING|>", TEXT("<|START_THINKING|>"), TEXT("<|END_THINKING|>")},
    {"<|inner_prefix|>", TEXT("<|inner_prefix|>"), TEXT("<|inner_suffix|>")},
    {"<think>", TEXT("<think>"), TEXT("</think>")},
    {"<thinking>", TEXT("<thinking>"), TEXT("</thinking>")},
    {"<reasoning>", TEXT("<reasoning>"), TEXT("</reasoning>")},
    {"◁think▷", TEXT("◁think▷"), TEXT("◁/think▷")},
};

static const struct {
    const char *sign;
    struct sv mark[2];
} marks[] = {
    {"<|open|>", {TEXT("<|open|>response<|sep|>"), TEXT("<|close|>response<|sep|>")}},
    {"<|open|>", {TEXT("<|close|>message<|sep|>"), TEXT("<|end_of_msg|>")}},
    {"<|START_RESPONSE|>", {TEXT("<|START_RESPONSE|>"), TEXT("<|END_RESPONSE|>")}},
    {"<|START_TEXT|>", {TEXT("<|START_TEXT|>"), TEXT("<|END_TEXT|>")}},
    {"<ifm|tool_call>", {TEXT("<ifm|tool_calls>"), TEXT("</ifm|tool_calls>")}},
    {"<response>", {TEXT("<response>"), TEXT("</response>")}},
    {"<|tool_call:begin|>", {TEXT("<|begin|>assistant"), TEXT("<|content|>")}},
    {"<|tool_call:begin|>", {TEXT("<|end|>"), TEXT("<|flush|>")}},
    {"<atem:function_calls>", {TEXT("<|start|>assistant"), TEXT("to=*<|message|>")}},
    {"<atem:function_calls>", {TEXT("<|eom|>"), TEXT("<|eot|>")}},
    {"role_sep", {TEXT("<|message_sep|>")}},
    {">>>all", {TEXT(">>>all\n")}},
    {"<answer>", {TEXT("<answer>"), TEXT("</answer>")}},
    {"[BEGIN FINAL RESPONSE]", {TEXT("[BEGIN FINAL RESPONSE]"), TEXT("[END FINAL RESPONSE]")}},
};

static bool has(struct sv source, const char *sign) {
    return !sign || sv_find(source, sv(sign), 0) >= 0;
}

// Whether a template writes a style: how many of its marks stand in it, or -1 when one doesn't.
static int marks_shown(struct sv source, const struct call_style *s) {
    const char *const text[] = {s->open,       s->call_open,   s->name_open, s->name_close,
                                s->args_open,  s->call_close,  s->key_open,  s->key_close,
                                s->value_open, s->value_close, s->id_close};
    int n = 0;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        if (!text[i]) continue;
        if (!has(source, text[i])) return -1;
        n++;
    }
    return n;
}

// Of several styles that of which most is in the template; of those without a mark before the call,
// the first.
static const struct call_style *written(struct sv source, const struct reply_format *f) {
    const struct call_style *best = f->styles ? f->style[0] : NULL;
    int most = -1;
    for (size_t i = 0; i < f->styles && (best->open || i); i++) {
        int n = marks_shown(source, f->style[i]);
        if (n <= most) continue;
        most = n;
        best = f->style[i];
    }
    return best;
}

void reply_format_of(struct sv source, struct reply_format *out) {
    static const struct sv open = TEXT("<think>"), close = TEXT("</think>"), begun = TEXT(">>>");
    *out = (struct reply_format){.think_open = open, .think_close = close};
    if (has(source, ">>>all")) out->begun = begun;
    out->harmony = has(source, "<|channel|>") && has(source, "<|message|>");
    for (size_t i = 0; i < sizeof thinking / sizeof *thinking; i++) {
        if (!has(source, thinking[i].sign)) continue;
        out->think_open = thinking[i].open;
        out->think_close = thinking[i].close;
        break;
    }
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        for (size_t k = 0; k < 2 && has(source, marks[i].sign); k++)
            if (marks[i].mark[k].n) out->mark[out->marks++] = marks[i].mark[k];
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls && !out->styles; i++) {
        if (!has(source, calls[i].sign[0]) || !has(source, calls[i].sign[1])) continue;
        while (out->styles < REPLY_STYLES && calls[i].style[out->styles])
            out->style[out->styles] = calls[i].style[out->styles], out->styles++;
    }
    out->generic = !out->styles && !out->harmony;
    if (out->generic) out->style[out->styles++] = &generic;
    out->writes = written(source, out);
}

// Whether a special token is part of one of a style's tags.
static bool in_style(const struct call_style *s, struct sv token) {
    const char *const tags[] = {s->open,       s->close,      s->call_open,  s->name_open,
                                s->name_close, s->call_close, s->args_open,  s->args_close,
                                s->key_open,   s->key_close,  s->value_open, s->value_close,
                                s->id_open,    s->id_close,   s->quote,      s->mark};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (tags[i] && sv_find(sv(tags[i]), token, 0) >= 0) return true;
    return false;
}

bool reply_format_shows(const struct reply_format *f, struct sv token) {
    static const struct sv harmony =
        TEXT("<|start|><|channel|><|constrain|><|message|><|end|><|call|><|return|>");
    bool found = sv_find(f->think_open, token, 0) >= 0 || sv_find(f->think_close, token, 0) >= 0 ||
                 (f->harmony && sv_find(harmony, token, 0) >= 0);
    for (size_t i = 0; i < f->marks; i++) found |= sv_find(f->mark[i], token, 0) >= 0;
    for (size_t i = 0; i < f->styles; i++) found |= in_style(f->style[i], token);
    return token.n && found;
}

bool reply_opened_by(const struct reply_format *f, struct sv prompt) {
    return !f->harmony && sv_ends(sv_trim(prompt), f->think_open);
}
