// Jinja values and the state of one compile or render ("vm"). Values are Python's: everything but
// a namespace, a cycler and a joiner is immutable (the sandbox forbids the methods that change a
// list or dict), so values share memory freely. All of it lies in the vm's arena.
// Failures here leave by longjmp to the vm's one exit, `vm->fail`: an interpreter has a failure
// point in nearly every line, nothing on the way owns memory, and no check can be forgotten.
#ifndef CHAT_VALUE_H
#define CHAT_VALUE_H

#include <setjmp.h>
#include <stdnoreturn.h>

#include "base/arena.h"
#include "chat/jinja.h"
#include "chat/jinja/text.h"

enum kind {
    V_MISSING, // no value at all: an argument that was not given, a variable never set
    V_UNDEFINED,
    V_NONE,
    V_BOOL,
    V_INT,
    V_BIG, // an integer that doesn't fit V_INT
    V_FLOAT,
    V_TEXT,
    V_LIST,
    V_TUPLE,
    V_DICT,
    V_VIEW, // dict.keys(), .values(), .items()
    V_RANGE,
    V_ITERATOR, // a generator: can be walked once
    V_NAMESPACE,
    V_CYCLER,
    V_JOINER,
    V_LOOP,
    V_MACRO,
    V_BUILTIN, // a global function, or a method bound to its object
};

struct value {
    enum kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        const struct undefined *undefined;
        const struct big *big;
        const struct text *text;
        const struct list *list;
        const struct dict *dict;
        const struct view *view;
        const struct range *range;
        struct iterator *iterator;
        struct dict *space;
        struct cycler *cycler;
        struct joiner *joiner;
        struct loop *loop;
        const struct macro *macro;
        const struct bound *bound;
    };
};

// Growing by appending is what templates do most (`ns.text = ns.text ~ x`), so a text or list may
// leave room behind its end: the newest value that ends at `used` may be extended in place, and
// older values, which end sooner, never see it.
struct room {
    size_t used, cap; // elements from the start of the memory
    union {
        char *bytes;
        struct value *values;
    };
};

struct vm;
struct generator;
typedef bool generator_fn(struct vm *vm, struct generator *g, struct value *out);

struct text {
    const char *p; // UTF-8
    size_t n, chars;
    bool markup; // of the `safe` and `escape` filters: adding plain text to it escapes that
    struct room *room;
};

struct list {         // also tuples
    struct value *at; // never written once the list is made
    size_t n;
    bool group; // a pair of the groupby filter, with names: .grouper, .list
    struct room *room;
};

struct pair {
    struct value key, value;
};

struct dict { // in order of insertion
    struct pair *at;
    size_t n, cap;
    uint32_t *slot; // hash index of entry + 1, 0: free; NULL while the dict is small
    size_t n_slots; // a power of two
};

struct view {
    const struct dict *dict;
    enum view_kind { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS } of;
};

struct range {
    int64_t start, stop, step;
    size_t n;
};

struct items { // a list under construction, or the elements of anything iterable
    struct value *at;
    size_t n, cap;
};

struct iter { // a walk
    struct value over;
    size_t i, n; // the next position, how many there are in all (a generator: unknown, SIZE_MAX)
    size_t byte;
};

struct iterator {
    struct items items; // those from pos on are made, and not yet taken
    size_t pos;
    const char *type;   // as Python names it
    generator_fn *more; // makes one, or says that there is none; NULL: there is none
    struct generator *g;
};

struct cycler {
    struct items items;
    size_t pos;
};

struct joiner {
    struct value separator;
    bool used;
};

struct undefined {
    struct sv name;
    const char *type;  // of the object that has no such attribute; NULL: a variable
    bool hint, unsafe; // hint: name is the whole message
};

struct keyword {
    struct sv name;
    struct value value;
};

struct args {
    const struct value *at;
    size_t n;
    struct keyword *kw;
    size_t n_kw;
};

struct generator { // what a generator goes on with: the filters of generators.c, loops with an if
    struct value of, size, held, path, otherwise;
    struct iter source;
    bool begun, want, attribute;
    const struct builtin *fn;
    struct args args;
    struct dict *seen;
    size_t turn;
    const struct node *loop;
    struct scope *scope;
};

// at[0] is the object of a method, the value of a filter or test; at[1...] the arguments in the
// order of `params`, V_MISSING where not given. `all` are the arguments as passed.
typedef struct value builtin_fn(struct vm *vm, const struct value *at, const struct args *all);

struct builtin {
    const char *name;
    const char *params; // names after the object, with spaces between; NULL: takes `all` itself
    int least;          // so many must be given
    builtin_fn *call;
};
enum { MAX_PARAMS = 6 };

struct bound {
    struct value self;
    const struct builtin *fn;
};

struct vm {
    struct arena arena;
    struct jinja_limits limits;
    size_t steps, depth;
    int line; // of the template, for messages
    bool raised, autoescape;
    struct error *e;
    jmp_buf fail;
    // The output; also the scratch of whatever builds text (text_mark, text_take).
    struct str *out;
    size_t out_start;
    // Render only: the template, its variables by symbol, the text that a block's filter works on.
    const struct jinja *t;
    struct value *global, piped;
    struct value *hidden; // inputs of the names in the template's `unset`
};

// vm.c: failure, limits, memory
noreturn void raise_error(struct vm *vm, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void spend(struct vm *vm, size_t steps);
void enter(struct vm *vm); // one level deeper; balanced by leave()
void leave(struct vm *vm);
__attribute__((returns_nonnull)) void *vm_alloc(struct vm *vm, size_t count,
                                                size_t size); // zeroed

// Text under construction: remember the mark, put, then take (or drop) what was put since.
size_t text_mark(const struct vm *vm);
struct value text_take(struct vm *vm, size_t mark);
void text_drop(struct vm *vm, size_t mark);
void text_room(struct vm *vm, size_t n); // refuses n bytes more when the output limit would
void put(struct vm *vm, struct sv s);
void puts_text(struct vm *vm, const char *s);
void put_char(struct vm *vm, char c);
void put_code(struct vm *vm, uint32_t cp);
void put_fill(struct vm *vm, uint32_t cp, size_t times);
void put_number(struct vm *vm, int64_t i);
void put_character(struct vm *vm, int64_t cp); // checked; half a surrogate pair is U+FFFD

// value.c
static inline struct value none_value(void) { return (struct value){.kind = V_NONE}; }
static inline struct value bool_value(bool b) { return (struct value){.kind = V_BOOL, .b = b}; }
static inline struct value int_value(int64_t i) { return (struct value){.kind = V_INT, .i = i}; }
static inline struct value size_value(size_t n) { return int_value((int64_t)n); }
static inline struct value float_value(double f) { return (struct value){.kind = V_FLOAT, .f = f}; }
struct value text_value(struct vm *vm, struct sv s); // a view: s must live as long as the vm
struct value text_copy(struct vm *vm, struct sv s);
struct value marked(struct vm *vm, struct value text); // with the markup flag
struct value add_text(struct vm *vm, struct value a, struct value b);
struct value list_value(struct vm *vm, struct value *at, size_t n); // takes the elements over
struct value tuple_value(struct vm *vm, struct value *at, size_t n);
struct value pair_value(struct vm *vm, struct value a, struct value b); // a tuple of two
struct value add_lists(struct vm *vm, struct value a, struct value b);  // of one kind
void items_add(struct vm *vm, struct items *l, struct value v);
struct value iterator_value(struct vm *vm, struct items items, const char *type);
struct value generator_value(struct vm *vm, generator_fn *more, const struct generator *g);
struct value view_value(struct vm *vm, const struct dict *d, enum view_kind of);
struct value range_value(struct vm *vm, int64_t start, int64_t stop, int64_t step);
struct value bound_value(struct vm *vm, struct value self, const struct builtin *fn);
struct value undefined_hint(struct vm *vm, const char *message);
struct value undefined_name(struct vm *vm, struct sv name);
struct value undefined_member(struct vm *vm, struct value of, struct sv name);
struct value unsafe_member(struct vm *vm, struct value of, struct sv name);
noreturn void raise_undefined(struct vm *vm, struct value v);
struct value json_value(struct vm *vm, struct json_object *o); // text is a view into o

const char *type_name(struct value v); // as Python's type(v).__name__
struct sv sv_of(struct value v);       // the bytes of a V_TEXT
bool truth(struct value v);
bool has_length(struct value v, size_t *n);
bool identical(struct value a, struct value b); // Python's `is`
bool equal(struct vm *vm, struct value a, struct value b);
// -1, 0, 1, or 2 when a NaN has no order; `op` names the operator in errors.
int compare(struct vm *vm, struct value a, struct value b, const char *op);
bool contains(struct vm *vm, struct value in, struct value v);
void put_str(struct vm *vm, struct value v);         // as str()
void put_repr(struct vm *vm, struct value v);        // as repr()
struct value to_text(struct vm *vm, struct value v); // str(v), always V_TEXT; keeps markup
struct sv to_sv(struct vm *vm, struct value v);

// dict.c. The getters give V_MISSING for a key that isn't there.
struct dict *dict_new(struct vm *vm);
void check_hashable(struct vm *vm, struct value v); // an error for what can't be a key
void dict_set(struct vm *vm, struct dict *d, struct value key, struct value v);
struct value dict_get(struct vm *vm, const struct dict *d, struct value key);
struct value dict_get_sv(struct vm *vm, const struct dict *d, struct sv key);
struct value dict_copy(struct vm *vm, const struct dict *d);

// access.c
bool is_iterable(struct value v);
struct iter iter_open(struct vm *vm, struct value v); // an error for what isn't iterable
bool iter_next(struct vm *vm, struct iter *it, struct value *out);
bool iter_peek(struct vm *vm, const struct iter *it, struct value *out); // without moving on
size_t iter_count(struct vm *vm, const struct iter *it);                 // elements, taken or not
struct items to_items(struct vm *vm, struct value v);
struct value get_item(struct vm *vm, struct value v, struct value key);    // v[key]
struct value get_member(struct vm *vm, struct value v, struct sv name);    // v.name
struct value get_attribute(struct vm *vm, struct value v, struct sv name); // or V_MISSING
bool can_slice(struct value v, const struct value part[3]);
struct value get_slice(struct vm *vm, struct value v, const struct value part[3]);

// number.c
bool is_int(struct value v);                                       // bool, int or big
bool is_number(struct value v);                                    // or float
struct value int_parse(struct vm *vm, struct sv digits, int base); // digits only; any size
struct value int_from_double(struct vm *vm, double f);             // truncates; finite
double to_double(struct vm *vm, struct value v);                   // a number
int64_t to_int(struct vm *vm, struct value v, const char *what);   // an int that fits, else error
size_t to_count(struct vm *vm, struct value v, const char *what);  // negative counts as 0
int compare_numbers(struct vm *vm, struct value a, struct value b);
uint64_t hash_number(struct value v);
// op: + - * / % ^ (power) and f (floor division); both are numbers.
struct value arithmetic(struct vm *vm, char op, struct value a, struct value b);
struct value negate(struct vm *vm, struct value v);
void put_int(struct vm *vm, struct value v, int base); // base 2, 8, 10, 16; lower case
void put_float(struct vm *vm, double f);               // as repr()

// text.c
struct sv strip_set(struct vm *vm, struct sv s, struct sv set, bool left, bool right);
ptrdiff_t find_text(struct vm *vm, struct sv in, struct sv what, size_t from); // as sv_find()
size_t char_at(struct sv s, size_t chars, size_t i); // byte offset of character i
struct value repeat_text(struct vm *vm, struct value v, struct value times);
void put_escaped(struct vm *vm, struct sv s);    // & < > ' " as HTML entities
void put_html(struct vm *vm, struct value text); // escaped, unless it is markup
void put_upper(struct vm *vm, struct sv s);
void put_lower(struct vm *vm, struct sv s);
size_t put_lower_at(struct vm *vm, struct sv s, size_t i); // one character; returns its end
void put_title(struct vm *vm, int32_t cp);
struct value lowered(struct vm *vm, struct value v); // text; other values pass
void put_replaced(struct vm *vm, struct sv s, struct sv old, struct sv with, int64_t count);
struct items split_lines(struct vm *vm, struct sv s, bool keep_ends);

// format.c
struct value format_percent(struct vm *vm, struct value format, struct value arg);
struct value format_braces(struct vm *vm, struct sv format, const struct args *args);

// tojson.c
struct json_style {
    bool ascii, sort, pretty;
    struct sv indent, item, key; // one level's; what separates items; key and value
};
void put_json(struct vm *vm, struct value v, const struct json_style *style, size_t level);

// list_filters.c
const struct pair *sorted_pairs(struct vm *vm, const struct dict *d); // by key

// interp.c, loop.c
struct value call_builtin(struct vm *vm, const struct builtin *fn, struct value self,
                          const struct args *args);
struct value binary(struct vm *vm, char op, struct value a, struct value b);
size_t loop_length(const struct loop *l);
struct value captured(struct vm *vm, size_t mark); // text_take(); markup where autoescape is on
struct value loop_member(struct vm *vm, struct loop *l, struct sv name);
void put_loop(struct vm *vm, const struct loop *l);
builtin_fn loop_cycle, loop_changed;
struct value macro_member(struct vm *vm, const struct macro *m, struct sv name);
struct sv macro_name(const struct macro *m);

// The tables: NULL when there is no such name. A method without `call` is one that the sandbox
// forbids.
const struct builtin *find_builtin(const struct builtin *builtins, size_t n, struct sv name);
const struct builtin *find_filter(struct sv name);
const struct builtin *find_test(struct sv name);
const struct builtin *find_global(struct sv name);
const struct builtin *find_method(struct value of, struct sv name);
const struct builtin *find_text_method(struct sv name);

// text_methods.c, for filters and tests that do the same
struct value capitalized(struct vm *vm, struct value v);
// At white space; `most` splits at the most (negative: no bound).
struct items split_words(struct vm *vm, struct value v, int64_t most);
// side: -1 text left, 0 centered, 1 right. fill: None, or text of one character.
struct value padded(struct vm *vm, struct value v, struct value width, struct value fill, int side);
bool cased(struct sv s, bool want_upper);

#endif
