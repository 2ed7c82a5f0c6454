// The filters of jinja2: on text (text_filters.c, wrap.c, html.c), on sequences (list_filters.c,
// generators.c), pprint.c, and the rest with the table (filters.c).
#ifndef CHAT_FILTERS_H
#define CHAT_FILTERS_H

#include "chat/jinja/value.h"

builtin_fn filter_capitalize, filter_center, filter_escape, filter_forceescape, filter_format,
    filter_indent, filter_lower, filter_replace, filter_safe, filter_string, filter_striptags,
    filter_title, filter_trim, filter_truncate, filter_upper, filter_urlencode, filter_urlize,
    filter_wordcount, filter_wordwrap, filter_xmlattr;
builtin_fn filter_batch, filter_dictsort, filter_first, filter_groupby, filter_items, filter_join,
    filter_last, filter_list, filter_map, filter_max, filter_min, filter_pprint, filter_random,
    filter_reject, filter_rejectattr, filter_reverse, filter_select, filter_selectattr,
    filter_slice, filter_sort, filter_sum, filter_unique;

static inline bool given(struct value v) { return v.kind != V_MISSING && v.kind != V_NONE; }

// An item's attribute by a path such as "function.name" or "0.id"; V_MISSING or None: the item.
// With a default, that stands for what is undefined on the way.
struct value item_attribute(struct vm *vm, struct value item, struct value path,
                            struct value otherwise);
struct value need_text(struct vm *vm, struct value v, const char *filter); // or an error

#endif
