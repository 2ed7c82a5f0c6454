// How much memory this process can still get.
#ifndef COMPUTE_CPU_MEMORY_H
#define COMPUTE_CPU_MEMORY_H

#include <stddef.h>

// Bytes: the least of what the machine has available, what the process's control group (a
// container's limit) leaves, and what its own limits (ulimit -v, -d) leave. Mapped files count as
// free, as they can be dropped. `total` where the system does not say.
size_t memory_available(size_t total);

#endif
