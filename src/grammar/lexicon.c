#include "grammar/lexicon.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

// Controls, digits, a to f, g to z, the same of capitals, and each other character.
const unsigned char lex_group[128] = {
    5,  5,  5,  5,  5,  5,  5,  5,  5,  2,  3,  5,  5,  4,  5,  5,  5,  5,  5,  5,  5,  5,
    5,  5,  5,  5,  5,  5,  5,  5,  5,  5,  11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
    23, 24, 25, 26, 6,  6,  6,  6,  6,  6,  6,  6,  6,  6,  27, 28, 29, 30, 31, 32, 33, 9,
    9,  9,  9,  9,  9,  10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10,
    10, 10, 10, 34, 35, 36, 37, 38, 39, 7,  7,  7,  7,  7,  7,  8,  8,  8,  8,  8,  8,  8,
    8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  40, 41, 42, 43, 5,
};

struct entry {
    struct sv text;
    int32_t id;
};

static int by_text(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    int c = sv_cmp(x->text, y->text);
    return c ? c : (x->id > y->id) - (x->id < y->id);
}

static bool is_plain(struct sv s) {
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f) return false;
    }
    return utf8_valid(s);
}

static void add_node(struct lex_tree *t, unsigned char byte, size_t depth) {
    t->node = mem_grow(t->node, &t->cap, t->nodes + 1, sizeof *t->node);
    t->node[t->nodes++] = (struct lex_node){.byte = byte, .depth = (uint16_t)depth};
}

// The nodes on the way to `last` below depth end here.
static void close_nodes(struct lex_tree *t, const uint32_t *path, size_t from, size_t to) {
    for (size_t d = from; d < to; d++) t->node[path[d]].after = (uint32_t)t->nodes;
}

static uint64_t group_bit(unsigned char byte, bool whole) {
    return (uint64_t)1 << (byte < 128 ? lex_group[byte] : whole ? LEX_WHOLE : LEX_LOOSE);
}

// From the leaves to the root.
static void add_groups(struct lex_tree *t, bool whole) {
    uint32_t path[LEX_LONGEST + 1] = {0}, *up = mem_array(t->nodes, sizeof *up);
    t->below = mem_array(t->nodes, sizeof *t->below);
    for (uint32_t i = 0; i < t->nodes; i++) {
        path[t->node[i].depth] = i;
        up[i] = path[t->node[i].depth - 1];
    }
    for (uint32_t i = (uint32_t)t->nodes; i-- > 0;)
        if (t->node[i].depth > 1)
            t->below[up[i]] |= t->below[i] | group_bit(t->node[i].byte, whole);
    free(up);
}

// list is sorted, so that what begins alike is side by side.
static void build(struct lexicon *l, struct lex_tree *t, const struct entry *list, size_t n) {
    uint32_t path[LEX_LONGEST] = {0};
    struct sv last = {0};
    for (size_t i = 0; i < n; i++) {
        struct sv text = list[i].text;
        size_t same = 0;
        while (same < last.n && same < text.n && last.p[same] == text.p[same]) same++;
        close_nodes(t, path, same, last.n);
        for (size_t d = same; d < text.n; d++) {
            path[d] = (uint32_t)t->nodes;
            add_node(t, (unsigned char)text.p[d], d + 1);
        }
        struct lex_node *node = &t->node[path[text.n - 1]];
        l->more[list[i].id + 1] = (int32_t)node->token;
        node->more = node->token;
        node->token = (uint32_t)list[i].id + 1;
        last = text;
    }
    close_nodes(t, path, 0, last.n);
}

static void keep_text(struct lexicon *l, const struct sv *text) {
    struct str all = {0};
    l->at = mem_array(l->tokens, sizeof *l->at);
    l->length = mem_array(l->tokens, sizeof *l->length);
    for (size_t i = 0; i < l->tokens; i++) {
        if (text[i].n > LEX_LONGEST) continue;
        l->at[i] = (uint32_t)all.n;
        l->length[i] = (uint16_t)text[i].n;
        str_add(&all, text[i]);
    }
    l->text = all.p;
}

static void add_plain(struct lexicon *l, struct lex_tree *t, int32_t id, struct sv text) {
    for (size_t i = 0; i < text.n; i++) l->groups[id] |= group_bit((unsigned char)text.p[i], true);
    l->chars[id] = (uint16_t)utf8_count(text);
    t->set[id / 64] |= (uint64_t)1 << (id % 64);
    t->groups |= l->groups[id];
    if (l->chars[id] > t->chars) t->chars = l->chars[id];
}

struct lexicon *lex_open(const struct sv *text, size_t tokens, const int32_t *ends, size_t count) {
    struct lexicon *l = mem_alloc(sizeof *l);
    struct entry *list = mem_array(tokens, sizeof *list);
    l->tokens = tokens;
    l->words = (tokens + 63) / 64;
    l->more = mem_array(tokens + 1, sizeof *l->more);
    l->groups = mem_array(tokens, sizeof *l->groups);
    l->chars = mem_array(tokens, sizeof *l->chars);
    l->ends = mem_array(l->words, sizeof *l->ends);
    for (size_t i = 0; i < count; i++)
        if (ends[i] >= 0 && (size_t)ends[i] < tokens)
            l->ends[ends[i] / 64] |= (uint64_t)1 << (ends[i] % 64);
    keep_text(l, text);
    for (int kind = 0; kind < 4; kind++) {
        bool plain = kind & 1, is_long = kind & 2;
        struct lex_tree *const trees[] = {&l->rest, &l->plain, &l->long_rest, &l->long_plain};
        struct lex_tree *t = trees[kind];
        size_t n = 0;
        if (plain) t->set = mem_array(l->words, sizeof *t->set);
        for (size_t i = 0; i < tokens; i++) {
            if (!l->length[i] || is_plain(text[i]) != plain) continue;
            if ((text[i].n > LEX_SHORT) != is_long || l->ends[i / 64] >> (i % 64) & 1) continue;
            if (text[i].n > l->longest) l->longest = text[i].n;
            if (plain) add_plain(l, t, (int32_t)i, text[i]);
            list[n++] = (struct entry){text[i], (int32_t)i};
        }
        t->ids = n;
        t->id = mem_array(n, sizeof *t->id);
        for (size_t i = 0; i < n; i++) t->id[i] = list[i].id;
        if (n) qsort(list, n, sizeof *list, by_text);
        build(l, t, list, n);
        add_groups(t, plain);
    }
    free(list);
    return l;
}

void lex_close(struct lexicon *l) {
    if (!l) return;
    free(l->more);
    struct lex_tree *const trees[] = {&l->plain, &l->rest, &l->long_plain, &l->long_rest};
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
        free(trees[i]->node);
        free(trees[i]->below);
        free(trees[i]->id);
        free(trees[i]->set);
    }
    free(l->groups);
    free(l->chars);
    free(l->ends);
    free(l->text);
    free(l->at);
    free(l->length);
    free(l);
}
