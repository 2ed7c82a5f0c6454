// The chats of DeepSeek V3.2 and V4, as DeepSeek's encoding_dsv32.py and encoding_dsv4.py write
// them. Both call tools in DSML; what else they share is below, then come V3.2 and V4.
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "chat/coded.h"
#include "chat/jinja.h"

#define BOS       "<｜begin▁of▁sentence｜>"
#define EOS       "<｜end▁of▁sentence｜>"
#define USER      "<｜User｜>"
#define ASSISTANT "<｜Assistant｜>"
#define REMINDER  "<｜latest_reminder｜>"
#define DSML      "｜DSML｜"

// How tools are explained: `before`, their schemas, `after`.
struct dsml {
    const char *block; // around calls
    const char *before, *after;
};

#define INVOCATIONS(name)                                                                          \
    "<" DSML "invoke name=\"$" name "_NAME\">\n"                                                   \
    "<" DSML "parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE</" DSML    \
    "parameter>\n...\n</" DSML "invoke>\n<" DSML "invoke name=\"$" name "_NAME2\">\n...\n</" DSML  \
    "invoke>\n"

struct writer {
    const struct coded_call *call;
    const struct dsml *dsml;
    struct str *out;
    bool thinking;
    bool drop;       // reasoning and developers before the last user are left out
    bool tools_lead; // the request's tools belong to the first message
    struct error *e;
};

static void put(struct writer *w, const char *s) { str_puts(w->out, s); }

static bool is(struct sv role, const char *name) { return sv_is(role, name); }

static bool asks(struct sv role) { return is(role, "user") || is(role, "developer"); }

static bool some(struct json_object *list) {
    return json_object_is_type(list, json_type_array) && json_object_array_length(list);
}

static bool unknown_role(struct writer *w, size_t i, const char *known) {
    struct sv role = coded_role(w->call, i);
    return fail(w->e, "messages[%zu].role is \"%.*s\": this model's chat knows %s", i, (int)role.n,
                role.p, known);
}

static bool put_tools(struct writer *w, struct json_object *tools) {
    put(w, "\n\n## Tools\n\nYou have access to a set of tools ");
    put(w, w->dsml->before);
    for (size_t i = 0; i < json_object_array_length(tools); i++) {
        struct json_object *function = json_at(json_object_array_get_idx(tools, i), "function");
        if (!function) return fail(w->e, "tools[%zu].function is missing", i);
        if (i) put(w, "\n");
        if (!jinja_dumps(function, false, w->out, w->e)) return false;
    }
    put(w, w->dsml->after);
    return true;
}

// The tools and the response_format of a system's or developer's message.
static bool put_extras(struct writer *w, size_t i) {
    struct json_object *m = coded_message(w->call, i), *tools = json_at(m, "tools");
    struct json_object *format = json_at(m, "response_format");
    if (i == 0 && w->tools_lead) tools = w->call->tools;
    if (some(tools) && !put_tools(w, tools)) return false;
    if (!format) return true;
    put(w,
        "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n");
    return jinja_dumps(format, false, w->out, w->e);
}

static bool put_parameter(struct writer *w, const char *name, struct json_object *value) {
    bool text = json_object_is_type(value, json_type_string);
    str_printf(w->out, "<" DSML "parameter name=\"%s\" string=\"%s\">", name,
               text ? "true" : "false");
    if (text)
        str_add(w->out, json_text(value));
    else if (!jinja_dumps(value, false, w->out, w->e))
        return false;
    put(w, "</" DSML "parameter>");
    return true;
}

// Arguments that aren't JSON are one parameter, "arguments".
static bool put_parameters(struct writer *w, size_t i, size_t k, struct json_object *function) {
    struct json_object *args = coded_arguments(i, k, function, w->e);
    bool ok = args || !w->e->set, first = true;
    if (!args && ok) ok = put_parameter(w, "arguments", json_at(function, "arguments"));
    if (args) {
        json_object_object_foreach(args, name, value) {
            if (!first) put(w, "\n");
            first = false;
            ok = ok && put_parameter(w, name, value);
        }
    }
    json_object_put(args);
    return ok;
}

static bool put_calls(struct writer *w, size_t i) {
    size_t n;
    if (!coded_calls(w->call, i, &n, w->e)) return false;
    if (n) str_printf(w->out, "\n\n<" DSML "%s>\n", w->dsml->block);
    for (size_t k = 0; k < n; k++) {
        struct sv name;
        struct json_object *function = coded_function(w->call, i, k, &name, w->e);
        if (!function) return false;
        str_printf(w->out, "<" DSML "invoke name=\"%.*s\">\n", (int)name.n, name.p);
        if (!put_parameters(w, i, k, function)) return false;
        put(w, "\n</" DSML "invoke>\n");
    }
    if (n) str_printf(w->out, "</" DSML "%s>", w->dsml->block);
    return true;
}

static bool put_assistant(struct writer *w, size_t i, bool reasoning, bool open) {
    if (reasoning) {
        str_add(w->out, json_text_at(coded_message(w->call, i), "reasoning_content"));
        put(w, "</think>");
    }
    if (!coded_content(w->call, i, "\n", w->out, w->e) || !put_calls(w, i)) return false;
    if (!open) put(w, EOS);
    return true;
}

static bool read_thinking(struct writer *w) {
    struct sv mode = json_text_at(w->call->kwargs, "thinking_mode");
    if (!coded_flag(w->call, "enable_thinking", &w->thinking, w->e) ||
        !coded_flag(w->call, "thinking", &w->thinking, w->e) ||
        !coded_flag(w->call, "drop_thinking", &w->drop, w->e))
        return false;
    if (mode.n) w->thinking = is(mode, "thinking");
    return !mode.n || w->thinking || is(mode, "chat") ||
           fail(w->e, "thinking_mode is \"%.*s\": this model's chat knows thinking and chat",
                (int)mode.n, mode.p);
}

static bool check_end(struct writer *w, struct sv role) {
    return !w->call->go_on || is(role, "assistant") ||
           fail(w->e, "continue_final_message: this model's chat goes on only with an assistant's "
                      "message");
}

// --- V3.2 ----------------------------------------------------------------------------------------

static const struct dsml dsml_v32 = {
    .block = "function_calls",
    .before =
        "you can use to answer the user's question.\nYou can invoke functions by writing a "
        "\"<" DSML "function_calls>\" block like the following as part of your reply to the "
        "user:\n<" DSML "function_calls>\n" INVOCATIONS(
            "FUNCTION") "</" DSML
                        "function_calls>\n\nString and scalar parameters should be specified as is without any "
                        "escaping or quotes, while lists and objects should use JSON format. The \"string\" "
                        "attribute should be set to \"true\" for string type parameters and \"false\" for other "
                        "types (numbers, booleans, arrays, objects).\n\nIf the thinking_mode is enabled, then "
                        "after function results you should strongly consider outputting a thinking block. Here is "
                        "an example:\n\n<" DSML "function_calls>\n...\n</" DSML
                        "function_calls>\n\n<function_results>\n...\n</function_results>\n\n<think>...thinking "
                        "about results</think>\n\nHere are the functions available in JSONSchema format:\n"
                        "<functions>\n",
    .after = "\n</functions>\n",
};

struct v32 {
    struct writer w;
    size_t last_user; // + 1, 0: none
    size_t end;       // the last message
    size_t asked;     // the assistant's message before the results at hand, + 1; 0: none
    size_t results;   // of its calls, so far
};

static bool v32_question(struct v32 *v, size_t i, bool developer) {
    struct writer *w = &v->w;
    put(w, USER);
    if (developer && (!put_extras(w, i))) return false;
    if (developer) put(w, "\n\n# The user's message is: ");
    if (!coded_content(w->call, i, "\n", w->out, w->e)) return false;
    if (i == v->end && !w->call->generate) return true;
    put(w, ASSISTANT);
    put(w, i + 1 == v->last_user && w->thinking ? "<think>" : "</think>");
    return true;
}

static bool v32_result(struct v32 *v, size_t i) {
    struct writer *w = &v->w;
    size_t n = 0;
    if (v->asked && !coded_calls(w->call, v->asked - 1, &n, w->e)) return false;
    if (v->results >= n)
        return fail(w->e, "messages[%zu]: a tool's result must follow the call that it answers", i);
    if (!v->results++) put(w, "\n\n<function_results>");
    put(w, "\n<result>");
    if (!coded_content(w->call, i, "\n", w->out, w->e)) return false;
    put(w, "</result>");
    if (v->results < n) return true;
    put(w, "\n</function_results>\n\n");
    put(w, i + 1 >= v->last_user && w->thinking ? "<think>" : "</think>");
    return true;
}

static bool v32_message(struct v32 *v, size_t i) {
    struct writer *w = &v->w;
    struct sv role = coded_role(w->call, i);
    if (is(role, "tool")) return v32_result(v, i);
    v->asked = is(role, "assistant") ? i + 1 : 0;
    v->results = 0;
    if (is(role, "system"))
        return coded_content(w->call, i, "\n", w->out, w->e) && put_extras(w, i);
    if (is(role, "assistant"))
        return put_assistant(w, i, w->thinking && i >= v->last_user, w->call->go_on && i == v->end);
    bool developer = is(role, "developer");
    if (!developer && !is(role, "user"))
        return unknown_role(w, i, "system, developer, user, assistant and tool");
    if (developer && w->thinking && w->drop && i + 1 < v->last_user) return true;
    return v32_question(v, i, developer);
}

static bool render_v32(const struct coded_call *call, struct chat_prompt *out, struct error *e) {
    struct v32 v = {.w = {call, &dsml_v32, &out->text, true, true, false, e}};
    size_t n = json_object_array_length(call->messages);
    v.end = n - 1;
    for (size_t i = 0; i < n; i++)
        if (asks(coded_role(call, i))) v.last_user = i + 1;
    if (!read_thinking(&v.w) || !check_end(&v.w, coded_role(call, v.end))) return false;
    put(&v.w, BOS);
    v.w.tools_lead = some(call->tools) && is(coded_role(call, 0), "system");
    if (some(call->tools) && !v.w.tools_lead && !put_tools(&v.w, call->tools)) return false;
    for (size_t i = 0; i < n; i++)
        if (!v32_message(&v, i)) return false;
    return true;
}

static const char *const variables_v32[] = {"thinking", "enable_thinking", "drop_thinking", NULL};

const struct coded coded_deepseek_v32 = {
    .source = "<think></think><" DSML "function_calls>",
    .variables = variables_v32,
    .render = render_v32,
};

// --- V4 ------------------------------------------------------------------------------------------

static const struct dsml dsml_v4 = {
    .block = "tool_calls",
    .before =
        "to help answer the user's question. You can invoke tools by writing a \"<" DSML
        "tool_calls>\" block like the following:\n\n<" DSML "tool_calls>\n" INVOCATIONS(
            "TOOL") "</" DSML "tool_calls>\n\nString parameters should be specified as is and set "
                    "`string=\"true\"`. For all other types (numbers, booleans, arrays, objects), pass the "
                    "value in JSON format and set `string=\"false\"`.\n\nIf thinking_mode is enabled "
                    "(triggered by <think>), you MUST output your complete reasoning inside "
                    "<think>...</think> BEFORE any tool calls or final response.\n\nOtherwise, output "
                    "directly after </think> with tool calls or final response.\n\n### Available Tool "
                    "Schemas\n\n",
    .after = "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to "
             "invoke tool calls.\n",
};

static const char utmost[] =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to "
    "resolve the root cause, rigorously stress-testing your logic against all potential paths, "
    "edge cases, and adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate step, "
    "considered alternative, and rejected hypothesis to ensure absolutely no assumption is left "
    "unchecked.\n\n";

// Messages that are one turn: what users say and tools return in a row is the user's.
struct turn {
    size_t from, to;
    struct sv role, task;
};

struct v4 {
    struct writer w;
    struct turn *turn;
    size_t n, last_user; // + 1, 0: none
    struct map calls;    // the last assistant's: id to place
    size_t *result;      // [messages] the results of a turn, in the order of their calls
};

// Whether what a user says or a tool returns belongs to the turn before it.
static bool goes_on(const struct v4 *v, bool tool) {
    if (!v->n) return false;
    struct turn last = v->turn[v->n - 1];
    return is(last.role, "user") && (tool || !last.task.n);
}

static void split_turns(struct v4 *v) {
    const struct coded_call *call = v->w.call;
    size_t n = json_object_array_length(call->messages);
    v->turn = mem_array(n, sizeof *v->turn);
    v->result = mem_array(n, sizeof *v->result);
    for (size_t i = 0; i < n; i++) {
        struct sv role = coded_role(call, i), task = json_text_at(coded_message(call, i), "task");
        bool tool = is(role, "tool"), user = tool || is(role, "user");
        if (user && goes_on(v, tool))
            v->turn[v->n - 1].to = i + 1;
        else
            v->turn[v->n++] =
                (struct turn){i, i + 1, user ? sv("user") : role, tool ? sv("") : task};
    }
}

// Without the developers that come before the last user.
static void drop_turns(struct v4 *v) {
    size_t last = 0, n = 0;
    for (size_t i = 0; i < v->n; i++)
        if (asks(v->turn[i].role)) last = i;
    for (size_t i = 0; i < v->n; i++)
        if (i >= last || !is(v->turn[i].role, "developer")) v->turn[n++] = v->turn[i];
    v->n = n;
}

static void note_calls(struct v4 *v, size_t i, size_t n) {
    struct json_object *calls = json_at(coded_message(v->w.call, i), "tool_calls");
    if (!n) return;
    map_free(&v->calls);
    for (size_t k = 0; k < n; k++) {
        struct json_object *one = json_object_array_get_idx(calls, k);
        struct sv id = json_text_at(one, "id");
        if (!id.n) id = json_text_at(json_at(one, "function"), "id");
        if (id.n) map_set(&v->calls, id, (int64_t)k);
    }
}

static int64_t place_of(const struct v4 *v, size_t i) {
    int64_t k = map_get(&v->calls, json_text_at(coded_message(v->w.call, i), "tool_call_id"));
    return k < 0 ? 0 : k;
}

struct placed {
    size_t message;
    int64_t place;
};

static int by_place(const void *a, const void *b) {
    const struct placed *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return x->message < y->message ? -1 : 1;
}

static void order_results(struct v4 *v, const struct turn *t) {
    struct placed *p = mem_array(t->to - t->from, sizeof *p);
    size_t n = 0;
    for (size_t i = t->from; i < t->to; i++)
        if (is(coded_role(v->w.call, i), "tool")) p[n++] = (struct placed){i, place_of(v, i)};
    qsort(p, n, sizeof *p, by_place);
    for (size_t i = 0; i < n; i++) v->result[i] = p[i].message;
    free(p);
}

static bool v4_user(struct v4 *v, const struct turn *t) {
    struct writer *w = &v->w;
    const size_t *next = v->result;
    order_results(v, t);
    put(w, USER);
    for (size_t i = t->from; i < t->to; i++) {
        bool tool = is(coded_role(w->call, i), "tool");
        if (i > t->from) put(w, "\n\n");
        if (tool) put(w, "<tool_result>");
        if (!coded_content(w->call, tool ? *next : i, tool ? "\n\n" : "\n", w->out, w->e))
            return false;
        if (tool) put(w, "</tool_result>");
        next += tool;
    }
    return true;
}

static bool v4_assistant(struct v4 *v, size_t turn) {
    struct writer *w = &v->w;
    size_t i = v->turn[turn].from, n;
    struct json_object *m = coded_message(w->call, i);
    bool task = turn && v->turn[turn - 1].task.n, open = w->call->go_on && turn + 1 == v->n;
    if (!coded_calls(w->call, i, &n, w->e)) return false;
    note_calls(v, i, n);
    return put_assistant(w, i, w->thinking && !task && (!w->drop || turn >= v->last_user),
                         open || json_bool_at(m, "wo_eos", false));
}

static bool v4_task(struct v4 *v, const struct turn *t) {
    static const char *const tasks[] = {"action", "query", "authority",
                                        "domain", "title", "read_url"};
    struct writer *w = &v->w;
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        if (!is(t->task, tasks[i])) continue;
        if (i == 0) put(w, ASSISTANT);
        if (i == 0) put(w, w->thinking ? "<think>" : "</think>");
        str_printf(w->out, "<｜%s｜>", tasks[i]);
        return true;
    }
    return fail(w->e,
                "messages[%zu].task is \"%.*s\": this model's chat knows action, query, authority, "
                "domain, title and read_url",
                t->from, (int)t->task.n, t->task.p);
}

static bool v4_body(struct v4 *v, size_t turn) {
    struct writer *w = &v->w;
    const struct turn *t = &v->turn[turn];
    if (is(t->role, "user")) return v4_user(v, t);
    if (is(t->role, "assistant")) return v4_assistant(v, turn);
    bool developer = is(t->role, "developer"), reminder = is(t->role, "latest_reminder");
    if (!developer && !reminder && !is(t->role, "system"))
        return unknown_role(w, t->from,
                            "system, developer, user, assistant, tool and latest_reminder");
    if (developer) put(w, USER);
    if (reminder) put(w, REMINDER);
    return coded_content(w->call, t->from, "\n", w->out, w->e) &&
           (reminder || put_extras(w, t->from));
}

// A turn, and the beginning of an answer where an answer or the end follows.
static bool v4_turn(struct v4 *v, size_t turn) {
    struct writer *w = &v->w;
    const struct turn *t = &v->turn[turn];
    bool end = turn + 1 == v->n;
    if (!v4_body(v, turn)) return false;
    struct sv next = end ? sv("assistant") : v->turn[turn + 1].role;
    if (!is(next, "assistant") && !is(next, "latest_reminder")) return true;
    if (t->task.n) return v4_task(v, t);
    if (!asks(t->role) || (end && !w->call->generate)) return true;
    bool think = w->thinking && (!w->drop || turn + 1 >= v->last_user);
    put(w, ASSISTANT);
    put(w, think ? "<think>" : "</think>");
    return true;
}

static bool v4_begin(struct v4 *v) {
    struct writer *w = &v->w;
    struct sv effort = json_text_at(w->call->kwargs, "reasoning_effort");
    if (is(effort, "none")) w->thinking = false;
    put(w, BOS);
    if (!w->thinking || !effort.n || is(effort, "high")) return true;
    if (!is(effort, "max"))
        return fail(w->e, "reasoning_effort is \"%.*s\": DeepSeek V4 knows high and max (and none)",
                    (int)effort.n, effort.p);
    put(w, utmost);
    return true;
}

static bool v4_write(struct v4 *v) {
    struct writer *w = &v->w;
    const struct coded_call *call = w->call;
    size_t messages = json_object_array_length(call->messages);
    if (!read_thinking(w) || !check_end(w, coded_role(call, messages - 1)) || !v4_begin(v))
        return false;
    bool tools = some(call->tools);
    for (size_t i = 0; i < messages; i++)
        if (some(json_at(coded_message(call, i), "tools")) || tools) w->drop = false;
    struct sv first = coded_role(call, 0);
    w->tools_lead = tools && (is(first, "system") || is(first, "developer"));
    if (tools && !w->tools_lead && !put_tools(w, call->tools)) return false;
    split_turns(v);
    if (w->thinking && w->drop) drop_turns(v);
    for (size_t i = 0; i < v->n; i++)
        if (asks(v->turn[i].role)) v->last_user = i + 1;
    for (size_t i = 0; i < v->n; i++)
        if (!v4_turn(v, i)) return false;
    return true;
}

static bool render_v4(const struct coded_call *call, struct chat_prompt *out, struct error *e) {
    struct v4 v = {.w = {call, &dsml_v4, &out->text, true, true, false, e}};
    bool ok = v4_write(&v);
    map_free(&v.calls);
    free(v.turn);
    free(v.result);
    return ok;
}

static const char *const variables_v4[] = {"thinking", "enable_thinking", "reasoning_effort",
                                           "drop_thinking", NULL};

const struct coded coded_deepseek_v4 = {
    .source = "<think></think><" DSML "tool_calls>",
    .variables = variables_v4,
    .render = render_v4,
};
