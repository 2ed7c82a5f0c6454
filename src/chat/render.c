// A conversation through a template: its messages checked and made uniform, the template run, and
// the prompt cut where the last message is to go on.
#include "chat/chat.h"

#include <stdlib.h>

#include "chat/jinja.h"
#include "chat/jinja/text.h"
#include "chat/parts.h"

// Messages as the template sees them.

// An assistant's message may say what it says elsewhere than in its content.
static bool says_elsewhere(struct json_object *m) {
    static const char *const names[] = {"tool_calls", "function_call", "reasoning_content",
                                        "thinking", "reasoning"};
    if (!sv_is(json_text_at(m, "role"), "assistant")) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct json_object *v = json_at(m, names[i]);
        bool none = json_object_is_type(v, json_type_array) && !json_object_array_length(v);
        if (v && !none) return true;
    }
    return false;
}

static bool check_message(struct json_object *m, size_t i, struct error *e) {
    struct json_object *role;
    if (!json_object_is_type(m, json_type_object))
        return fail(e, "messages[%zu] must be an object, not %s", i, json_kind(m));
    if (!json_object_object_get_ex(m, "role", &role))
        return fail(e, "messages[%zu].role is missing", i);
    return json_object_is_type(role, json_type_string) ||
           fail(e, "messages[%zu].role must be text, not %s", i, json_kind(role));
}

static bool check_content(struct json_object *m, size_t i, struct error *e) {
    struct json_object *content = json_at(m, "content");
    if (!content || json_object_is_type(content, json_type_string)) return true;
    if (!json_object_is_type(content, json_type_array))
        return fail(e, "messages[%zu].content must be text or a list of parts, not %s", i,
                    json_kind(content));
    for (size_t k = 0; k < json_object_array_length(content); k++) {
        struct json_object *part = json_object_array_get_idx(content, k);
        if (!json_object_is_type(part, json_type_object) &&
            !json_object_is_type(part, json_type_string))
            return fail(e, "messages[%zu].content[%zu] must be an object or text, not %s", i, k,
                        json_kind(part));
    }
    return true;
}

static bool check_contents(struct json_object *messages, struct error *e) {
    for (size_t i = 0; i < json_object_array_length(messages); i++)
        if (!check_content(json_object_array_get_idx(messages, i), i, e)) return false;
    return true;
}

bool chat_check_contents(struct json_object *messages, struct error *e) {
    if (!json_object_is_type(messages, json_type_array)) return true;
    for (size_t i = 0; i < json_object_array_length(messages); i++) {
        struct json_object *m = json_object_array_get_idx(messages, i);
        bool named = json_object_is_type(json_at(m, "role"), json_type_string);
        if (!named) continue;
        if (!check_content(m, i, e)) return false;
        if (json_at(m, "content") || says_elsewhere(m)) continue;
        return fail(e,
                    "messages[%zu].content is %s: only an assistant's message with tool_calls may "
                    "have none",
                    i, json_object_object_get_ex(m, "content", NULL) ? "null" : "missing");
    }
    return true;
}

// Without its null members, and with the reasoning under both of its names: "thinking" (first)
// and "reasoning_content".
static struct json_object *normal_message(struct json_object *m) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    struct json_object *out = json_object_new_object(), *reasoning = NULL;
    for (int i = 0; i < 3 && !reasoning; i++) reasoning = json_at(m, names[i]);
    if (reasoning) json_object_object_add(out, "thinking", json_object_get(reasoning));
    json_object_object_foreach(m, key, v) {
        if (v) json_object_object_add(out, key, json_object_get(v));
    }
    if (reasoning) json_object_object_add(out, "reasoning_content", json_object_get(reasoning));
    return out;
}

static struct json_object *normal_messages(struct json_object *messages, struct error *e) {
    if (!json_object_is_type(messages, json_type_array)) {
        fail(e, "messages must be a list");
        return NULL;
    }
    size_t n = json_object_array_length(messages);
    if (!n) fail(e, "messages is empty: give at least one message");
    for (size_t i = 0; i < n && !e->set; i++)
        check_message(json_object_array_get_idx(messages, i), i, e);
    if (e->set) return NULL;
    struct json_object *out = json_object_new_array();
    for (size_t i = 0; i < n; i++)
        json_object_array_add(out, normal_message(json_object_array_get_idx(messages, i)));
    return out;
}

// Continuing the last message: a mark goes behind its text, and the prompt is cut where the mark
// comes out.

#define MARK "CONTINUE_FINAL_MESSAGE_TAG"

static struct json_object *with_mark(struct sv text) {
    struct str s = {0};
    str_add(&s, text);
    str_puts(&s, MARK " ");
    struct json_object *o = json_object_new_string_len(s.p, (int)s.n);
    str_free(&s);
    return o;
}

// Marks the last text part of a list, in a copy. Returns the text as it was; NULL: there is none.
static struct json_object *mark_part(struct json_object *m, struct json_object *content) {
    struct json_object *copy = json_object_new_array(), *text = NULL;
    size_t n = json_object_array_length(content), last = n;
    for (size_t i = 0; i < n; i++) {
        struct json_object *part = json_object_array_get_idx(content, i);
        json_object_array_add(copy, json_object_get(part));
        if (!json_object_is_type(json_at(part, "text"), json_type_string)) continue;
        text = json_at(part, "text");
        last = i;
    }
    if (last < n) {
        struct json_object *part = json_object_new_object();
        json_object_object_foreach(json_object_array_get_idx(content, last), key, v) {
            json_object_object_add(part, key, json_object_get(v));
        }
        json_object_object_add(part, "text", with_mark(json_text(text)));
        json_object_array_put_idx(copy, last, part);
    }
    json_object_object_add(m, "content", copy);
    return text;
}

// *text: what the last message said before it was marked (owned by the caller).
static bool mark_last(struct json_object *messages, const struct chat_template *t,
                      struct json_object **text, struct error *e) {
    size_t n = json_object_array_length(messages);
    struct json_object *m = json_object_array_get_idx(messages, n - 1);
    struct json_object *content = json_object_get(json_at(m, "content"));
    if (!content)
        fail(e, "continue_final_message: the last message has no content to continue");
    else if (sv_find(str_sv(&t->source), sv("content"), 0) < 0)
        fail(e, "continue_final_message: the chat template has no use for content");
    else if (json_object_is_type(content, json_type_string))
        *text = content;
    else if (!json_object_is_type(content, json_type_array) || !(*text = mark_part(m, content)))
        fail(e, "continue_final_message: the last message has no text to continue");
    if (*text) json_object_get(*text);
    if (!e->set && *text == content)
        json_object_object_add(m, "content", with_mark(json_text(content)));
    json_object_put(content);
    return !e->set;
}

// Where the template stripped the mark's space, it stripped the space before the mark too.
static bool cut_at_mark(struct str *out, struct sv text, struct error *e) {
    struct sv all = str_sv(out);
    ptrdiff_t at = -1;
    for (ptrdiff_t hit = 0; (hit = sv_find(all, sv(MARK), (size_t)hit)) >= 0; hit++) at = hit;
    if (at < 0 || sv_find(all, strip(text, true, true), 0) < 0)
        return fail(e, "continue_final_message: the chat template does not keep the last message "
                       "as it is");
    struct sv kept = sv_cut(all, 0, (size_t)at), rest = sv_cut(all, (size_t)at, all.n);
    if (!sv_starts(rest, sv(MARK " "))) kept = strip(kept, false, true);
    out->n = kept.n;
    out->p[out->n] = 0;
    return true;
}

static struct json_object *context_of(const struct chat *c, struct json_object *messages,
                                      const struct chat_options *opt) {
    struct json_object *o = json_object_new_object();
    json_add_members(o, c->tokens);
    json_add_members(o, opt->kwargs);
    json_object_object_add(o, "messages", json_object_get(messages));
    json_object_object_add(o, "tools", json_object_get(opt->tools));
    json_object_object_add(o, "documents", json_object_get(opt->documents));
    json_object_object_add(o, "add_generation_prompt",
                           json_object_new_boolean(opt->add_generation_prompt));
    return o;
}

static bool check_options(const struct chat_options *opt, struct error *e) {
    if (opt->continue_final_message && opt->add_generation_prompt)
        return fail(e, "continue_final_message and add_generation_prompt exclude each other");
    if (opt->tools && !json_object_is_type(opt->tools, json_type_array))
        return fail(e, "tools must be a list");
    if (opt->documents && !json_object_is_type(opt->documents, json_type_array))
        return fail(e, "documents must be a list");
    if (opt->kwargs && !json_object_is_type(opt->kwargs, json_type_object))
        return fail(e, "the template's variables must be an object");
    return true;
}

// A template tells a request's fault by raising; what fails in it otherwise is told as its own.
static bool run(const struct chat_template *t, struct json_object *context, struct str *out,
                struct error *e) {
    struct error why = {0};
    bool raised = false;
    if (jinja_render_within(t->compiled, context, &jinja_default_limits, out, &raised, &why))
        return true;
    return fail(e, raised ? "%s" : "chat template, %s", why.text);
}

void chat_prompt_free(struct chat_prompt *p) {
    str_free(&p->text);
    free(p->plain);
    *p = (struct chat_prompt){0};
}

static bool render_template(const struct chat *c, const struct chat_template *t,
                            struct json_object *messages, const struct chat_options *opt,
                            struct str *out, struct error *e) {
    struct json_object *text = NULL;
    if (opt->continue_final_message && !mark_last(messages, t, &text, e)) return false;
    struct json_object *context = context_of(c, messages, opt);
    bool ok = run(t, context, out, e) &&
              (!opt->continue_final_message || cut_at_mark(out, json_text(text), e));
    json_object_put(context);
    json_object_put(text);
    return ok;
}

static bool render_coded(const struct chat_template *t, struct json_object *messages,
                         const struct chat_options *opt, struct chat_prompt *out, struct error *e) {
    struct coded_call call = {
        .messages = messages,
        .tools = opt->tools,
        .kwargs = opt->kwargs,
        .generate = opt->add_generation_prompt,
        .go_on = opt->continue_final_message,
    };
    return t->coded->render(&call, out, e);
}

// The messages, which go, with their calls as the template takes them; one that knows no calls
// doesn't get opt's tools.
static struct json_object *fit(const struct chat_template *t, struct json_object *messages,
                               struct chat_options *opt) {
    struct json_object *out = messages;
    if (t->generic && (opt->tools || !t->calls.told)) {
        out = generic_messages(messages, opt, t->system);
        json_object_put(messages);
        opt->tools = NULL;
    }
    for (size_t i = 0; i < json_object_array_length(out); i++)
        call_fit(json_object_array_get_idx(out, i), t->calls);
    return out;
}

bool chat_render(const struct chat *c, struct json_object *messages, const struct chat_options *opt,
                 struct chat_prompt *out, struct error *e) {
    const struct chat_template *t = chat_pick(c, opt->tools != NULL);
    struct json_object *normal = NULL;
    struct chat_options own = *opt;
    bool ok = chat_usable(t, e) && check_options(opt, e) && (normal = normal_messages(messages, e));
    if (ok && opt->fit_calls) normal = fit(t, normal, &own);
    if (ok && t->coded)
        ok = check_contents(normal, e) && render_coded(t, normal, &own, out, e);
    else if (ok)
        ok = render_template(c, t, normal, &own, &out->text, e);
    if (!ok) chat_prompt_free(out);
    json_object_put(normal);
    return ok;
}
