// The ground under a compile or render: its failure exit, its limits, text under construction.
#include "chat/jinja/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

noreturn void raise_error(struct vm *vm, const char *fmt, ...) {
    char text[sizeof vm->e->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fail(vm->e, "line %d: %s", vm->line, text);
    longjmp(vm->fail, 1);
}

void spend(struct vm *vm, size_t steps) {
    size_t left = vm->limits.steps - vm->steps;
    if (steps > left)
        raise_error(vm, "the template works too long: over %zu steps (limit steps)",
                    vm->limits.steps);
    vm->steps += steps;
}

void enter(struct vm *vm) {
    if (++vm->depth > vm->limits.depth)
        raise_error(vm, "nested over %zu levels deep (limit depth): endless recursion?",
                    vm->limits.depth);
}

void leave(struct vm *vm) { vm->depth--; }

void *vm_alloc(struct vm *vm, size_t count, size_t size) {
    size_t total;
    if (!size_mul(count, size, &total)) total = SIZE_MAX;
    size_t left = vm->limits.memory - vm->arena.used;
    if (vm->arena.used > vm->limits.memory || total > left)
        raise_error(vm, "the template's values need over %zu bytes (limit memory)",
                    vm->limits.memory);
    spend(vm, total / 64);
    return arena_alloc(&vm->arena, total);
}

size_t text_mark(const struct vm *vm) { return vm->out->n; }

void text_room(struct vm *vm, size_t n) {
    if (n > vm->limits.output - (vm->out->n - vm->out_start))
        raise_error(vm, "the text grows over %zu bytes (limit output)", vm->limits.output);
}

void put(struct vm *vm, struct sv s) {
    text_room(vm, s.n);
    spend(vm, s.n / 64 + 1);
    str_add(vm->out, s);
}

void puts_text(struct vm *vm, const char *s) { put(vm, sv(s)); }

void put_char(struct vm *vm, char c) { put(vm, sv_n(&c, 1)); }

void put_code(struct vm *vm, uint32_t cp) {
    char c[4];
    put(vm, sv_n(c, utf8_encode(cp, c)));
}

void put_character(struct vm *vm, int64_t cp) {
    if (cp < 0 || cp > 0x10ffff) raise_error(vm, "a character is not in range(0x110000)");
    put_code(vm, cp >= 0xd800 && cp < 0xe000 ? 0xfffd : (uint32_t)cp);
}

void put_fill(struct vm *vm, uint32_t cp, size_t times) {
    char c[4];
    size_t n = utf8_encode(cp, c), total;
    if (!size_mul(times, n, &total)) total = SIZE_MAX;
    text_room(vm, total);
    for (size_t i = 0; i < times; i++) put(vm, sv_n(c, n));
}

void put_number(struct vm *vm, int64_t i) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)i);
    puts_text(vm, text);
}

void text_drop(struct vm *vm, size_t mark) {
    vm->out->n = mark;
    if (vm->out->p) vm->out->p[mark] = 0;
}

struct value text_take(struct vm *vm, size_t mark) {
    struct value v = text_copy(vm, sv_cut(str_sv(vm->out), mark, vm->out->n));
    text_drop(vm, mark);
    return v;
}
