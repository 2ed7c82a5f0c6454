#include "chat/jinja.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat/jinja/interp.h"

const struct jinja_limits jinja_default_limits = {
    .steps = 20000000, .memory = 128u << 20, .output = 32u << 20, .depth = 2000};

static bool compile(struct vm *vm, struct sv source, struct map *symbols, struct jinja *t) {
    if (setjmp(vm->fail)) return false;
    struct tokens tokens = lex(vm, source);
    parse(vm, &tokens, symbols, t);
    resolve_scopes(vm, t);
    return true;
}

struct jinja *jinja_compile(struct sv source, struct error *e) {
    if (source.n > JINJA_SOURCE) {
        fail(e, "the template is %zu bytes long; at most %d are read (limit JINJA_SOURCE)",
             source.n, JINJA_SOURCE);
        return NULL;
    }
    if (!utf8_valid(source)) {
        fail(e, "the template is not valid UTF-8");
        return NULL;
    }
    struct jinja *t = mem_alloc(sizeof *t);
    struct map symbols = {0};
    struct str scratch = {0};
    struct vm *vm = mem_alloc(sizeof *vm);
    *vm = (struct vm){.limits = jinja_default_limits, .e = e, .line = 1, .out = &scratch};
    bool ok = compile(vm, source, &symbols, t);
    t->arena = vm->arena;
    free(vm);
    map_free(&symbols);
    str_free(&scratch);
    if (ok) return t;
    jinja_free(t);
    return NULL;
}

void jinja_free(struct jinja *t) {
    if (!t) return;
    arena_free(&t->arena);
    free(t);
}

// Only variables that the template names are converted.
static void set_globals(struct vm *vm, struct json_object *context) {
    const struct jinja *t = vm->t;
    vm->global = vm_alloc(vm, t->n_symbols, sizeof *vm->global);
    for (size_t i = 0; i < t->n_symbols; i++) {
        char *key = vm_alloc(vm, t->symbol[i].n + 1, 1);
        memcpy(key, t->symbol[i].p, t->symbol[i].n);
        struct json_object *o;
        const struct builtin *fn = find_global(t->symbol[i]);
        if (context && json_object_object_get_ex(context, key, &o))
            vm->global[i] = json_value(vm, o);
        else if (fn)
            vm->global[i] = bound_value(vm, (struct value){0}, fn);
    }
}

static bool render(struct vm *vm, struct json_object *context) {
    if (setjmp(vm->fail)) return false;
    set_globals(vm, context);
    run_template(vm);
    return true;
}

bool jinja_render_within(const struct jinja *t, struct json_object *context,
                         const struct jinja_limits *limits, struct str *out, bool *raised,
                         struct error *e) {
    if (context && !json_object_is_type(context, json_type_object))
        return fail(e, "the template's context must be a JSON object");
    struct vm *vm = mem_alloc(sizeof *vm);
    *vm =
        (struct vm){.limits = *limits, .e = e, .line = 1, .out = out, .out_start = out->n, .t = t};
    bool ok = render(vm, context);
    if (!ok) text_drop(vm, vm->out_start);
    if (raised) *raised = vm->raised;
    arena_free(&vm->arena);
    free(vm);
    return ok;
}

bool jinja_render(const struct jinja *t, struct json_object *context, struct str *out,
                  struct error *e) {
    return jinja_render_within(t, context, &jinja_default_limits, out, NULL, e);
}

static bool dump(struct vm *vm, struct json_object *o, const struct json_style *style) {
    if (setjmp(vm->fail)) return false;
    put_json(vm, json_value(vm, o), style, 0);
    return true;
}

bool jinja_dumps(struct json_object *o, bool canonical, struct str *out, struct error *e) {
    struct json_style style = {.sort = canonical, .item = sv(", "), .key = sv(": ")};
    if (canonical) style.item = sv(","), style.key = sv(":");
    struct vm *vm = mem_alloc(sizeof *vm);
    *vm = (struct vm){
        .limits = jinja_default_limits, .e = e, .line = 1, .out = out, .out_start = out->n};
    bool ok = dump(vm, o, &style);
    if (!ok) text_drop(vm, vm->out_start);
    arena_free(&vm->arena);
    free(vm);
    return ok;
}
