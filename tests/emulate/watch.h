// What the sanitizers are told where the program is built with one: of fibers, of what is ordered
// by what, and of accesses that they don't see or are not to see. SANITIZE=thread then finds races
// between the threads of a block, of a cluster, and of a launch with the one before it.
#ifndef EMULATE_WATCH_H
#define EMULATE_WATCH_H

#include <stddef.h>

#if defined(WATCH_RACES)
#include <sanitizer/tsan_interface.h>
extern "C" {
void __tsan_read_range(void *, long);
void AnnotateIgnoreReadsBegin(const char *, int);
void AnnotateIgnoreReadsEnd(const char *, int);
void AnnotateIgnoreWritesBegin(const char *, int);
void AnnotateIgnoreWritesEnd(const char *, int);
}
#endif

namespace watch {

#if defined(WATCH_RACES)
// What is before release of a place is before what is after acquire.
static inline void release(void *place) { __tsan_release(place); }
static inline void acquire(void *place) { __tsan_acquire(place); }
static inline void reads(const void *p, size_t size) { __tsan_read_range((void *)p, (long)size); }
static inline void begin_ignoring() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__), AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
static inline void end_ignoring() {
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__), AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
}
#else
static inline void release(void *) {}
static inline void acquire(void *) {}
static inline void reads(const void *, size_t) {}
static inline void begin_ignoring() {}
static inline void end_ignoring() {}
#endif

} // namespace watch

#endif
