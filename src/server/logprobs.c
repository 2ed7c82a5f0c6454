#include "server/logprobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

struct logged {
    int32_t id;
    size_t at;
    size_t from; // in l->chance
};

void logprobs_free(struct logprobs *l) {
    free(l->token);
    free(l->chance);
    *l = (struct logprobs){0};
}

void logprobs_add(struct logprobs *l, int32_t id, size_t at, const struct job_news *news,
                  size_t *from) {
    const struct chance *c = news->chance + *from;
    size_t n = 1 + (size_t)c->id;
    l->token = mem_grow(l->token, &l->cap, l->n + 1, sizeof *l->token);
    l->token[l->n++] = (struct logged){id, at, l->chances};
    l->chance = mem_grow(l->chance, &l->chance_cap, l->chances + n, sizeof *l->chance);
    memcpy(l->chance + l->chances, c, n * sizeof *c);
    l->chances += n;
    *from += n;
}

void logprobs_drop(struct logprobs *l) { l->chances = l->token[--l->n].from; }

// JSON has no infinity; OpenAI's word for what never comes is this.
static void add_chance(struct str *s, float p) {
    if (p > -9999)
        str_printf(s, "%.9g", (double)p);
    else
        str_puts(s, "-9999.0");
}

// {"token":...,"logprob":...,"bytes":[...]
static void add_chat_token(struct str *s, const struct tokenizer *t, int32_t id, float p) {
    struct str bytes = {0};
    tok_bytes(t, id, &bytes);
    str_puts(s, "{\"token\":");
    json_quote(s, str_sv(&bytes));
    str_puts(s, ",\"logprob\":");
    add_chance(s, p);
    str_puts(s, ",\"bytes\":[");
    for (size_t i = 0; i < bytes.n; i++) str_printf(s, i ? ",%d" : "%d", (unsigned char)bytes.p[i]);
    str_addc(s, ']');
    str_free(&bytes);
}

static void write_list(struct str *s, const struct logprobs *l, const struct tokenizer *t,
                       size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct chance *c = l->chance + l->token[i].from;
        if (i) str_addc(s, ',');
        add_chat_token(s, t, l->token[i].id, c->p);
        str_puts(s, ",\"top_logprobs\":[");
        for (int32_t k = 1; k <= c->id; k++) {
            if (k > 1) str_addc(s, ',');
            add_chat_token(s, t, c[k].id, c[k].p);
            str_addc(s, '}');
        }
        str_puts(s, "]}");
    }
}

static void write_chat(struct str *s, const struct logprobs *l, const struct tokenizer *t,
                       size_t n) {
    str_puts(s, "{\"content\":[");
    write_list(s, l, t, n);
    str_puts(s, "],\"refusal\":null}");
}

// A token's text; of bytes that are no characters, OpenAI's spelling of them.
static void add_text_token(struct str *s, const struct tokenizer *t, int32_t id) {
    struct str bytes = {0}, spelt = {0};
    tok_bytes(t, id, &bytes);
    if (!utf8_valid(str_sv(&bytes))) {
        str_puts(&spelt, "bytes:");
        for (size_t i = 0; i < bytes.n; i++)
            str_printf(&spelt, "\\x%02x", (unsigned char)bytes.p[i]);
    }
    json_quote(s, spelt.n ? str_sv(&spelt) : str_sv(&bytes));
    str_free(&bytes);
    str_free(&spelt);
}

// The likeliest and, if it is not one of them, the token itself.
static void add_tops(struct str *s, const struct tokenizer *t, int32_t id, const struct chance *c) {
    bool own = false;
    str_addc(s, '{');
    for (int32_t k = 1; k <= c->id; k++) {
        if (k > 1) str_addc(s, ',');
        add_text_token(s, t, c[k].id);
        str_addc(s, ':');
        add_chance(s, c[k].p);
        own |= c[k].id == id;
    }
    if (!own) {
        if (c->id) str_addc(s, ',');
        add_text_token(s, t, id);
        str_addc(s, ':');
        add_chance(s, c->p);
    }
    str_addc(s, '}');
}

static void write_text(struct str *s, const struct logprobs *l, const struct tokenizer *t,
                       size_t n) {
    str_puts(s, "{\"tokens\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) str_addc(s, ',');
        add_text_token(s, t, l->token[i].id);
    }
    str_puts(s, "],\"token_logprobs\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) str_addc(s, ',');
        add_chance(s, l->chance[l->token[i].from].p);
    }
    str_puts(s, "],\"top_logprobs\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) str_addc(s, ',');
        add_tops(s, t, l->token[i].id, l->chance + l->token[i].from);
    }
    str_puts(s, "],\"text_offset\":[");
    for (size_t i = 0; i < n; i++) str_printf(s, i ? ",%zu" : "%zu", l->token[i].at);
    str_puts(s, "]}");
}

// "id":...,"token":...,"bytes":[...],"logprob":...
static void add_native_token(struct str *s, const struct tokenizer *t, int32_t id, float p,
                             bool drawn) {
    struct str bytes = {0};
    if (!tok_is_special(t, id)) tok_bytes(t, id, &bytes);
    str_printf(s, "\"id\":%d,\"token\":", id);
    json_quote(s, sv_cut(str_sv(&bytes), 0, bytes.n - utf8_partial(str_sv(&bytes))));
    str_puts(s, ",\"bytes\":[");
    for (size_t i = 0; i < bytes.n; i++) str_printf(s, i ? ",%d" : "%d", (unsigned char)bytes.p[i]);
    str_puts(s, drawn ? "],\"prob\":" : "],\"logprob\":");
    add_chance(s, p);
    str_free(&bytes);
}

static size_t count_before(const struct logprobs *l, size_t end) {
    size_t n = 0;
    while (n < l->n && l->token[n].at < end) n++;
    return n;
}

static void forget(struct logprobs *l, size_t n) {
    if (!n) return;
    l->n -= n;
    memmove(l->token, l->token + n, l->n * sizeof *l->token);
    if (!l->n) l->chances = 0;
}

void logprobs_write_list(struct str *out, struct logprobs *l, const struct tokenizer *t,
                         size_t end) {
    size_t n = count_before(l, end);
    write_list(out, l, t, n);
    forget(l, n);
}

void logprobs_write_native(struct str *out, struct logprobs *l, const struct tokenizer *t,
                           bool drawn, size_t end) {
    size_t n = count_before(l, end);
    str_addc(out, '[');
    for (size_t i = 0; i < n; i++) {
        const struct chance *c = l->chance + l->token[i].from;
        str_puts(out, i ? ",{" : "{");
        add_native_token(out, t, l->token[i].id, c->p, drawn);
        str_puts(out, drawn ? ",\"top_probs\":[" : ",\"top_logprobs\":[");
        for (int32_t k = 1; k <= c->id; k++) {
            str_puts(out, k > 1 ? ",{" : "{");
            add_native_token(out, t, c[k].id, c[k].p, drawn);
            str_addc(out, '}');
        }
        str_puts(out, "]}");
    }
    str_addc(out, ']');
    forget(l, n);
}

void logprobs_write(struct str *out, struct logprobs *l, const struct tokenizer *t, bool chat,
                    size_t end) {
    size_t n = count_before(l, end);
    if (!n) {
        str_puts(out, "null");
        return;
    }
    if (chat)
        write_chat(out, l, t, n);
    else
        write_text(out, l, t, n);
    forget(l, n);
}
