// Between the emulator's two halves: the CUDA runtime's functions, and what runs blocks.
#ifndef EMULATE_RUNTIME_H
#define EMULATE_RUNTIME_H

#include <stdint.h>
#include <unistd.h>

#include <functional>

namespace emu {

// Stands in a CUtensorMap: 16-bit elements.
struct map {
    const char *data;
    int64_t size[2], step; // step: bytes from row to row
    int box[2];
    bool swizzled; // by 128 bytes
};

// Runs all blocks of a launch; early: it may begin while the one before ends.
void run_blocks(const void *kernel, dim3 blocks, dim3 threads, unsigned in_cluster, size_t size,
                bool early, const std::function<void()> &body);
// What follows is after all launches.
void all_over(void);
// What variables in shared memory took in the last.
size_t static_shared(void);

} // namespace emu

#endif
