// The chat page: the files of page/ as one document, which cmake/page.cmake makes.
#ifndef SERVER_PAGE_H
#define SERVER_PAGE_H

#include <stddef.h>

extern const char page_html[];
extern const size_t page_size;
// Its Content-Security-Policy: its own script and style run, and nothing else; it talks to this
// server alone, and no other page may frame it.
extern const char page_policy[];

#endif
