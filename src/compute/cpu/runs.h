// How the recurrent ops walk the runs of a step.
#ifndef COMPUTE_CPU_RUNS_H
#define COMPUTE_CPU_RUNS_H

#include "compute/cpu/cpu.h"

// A run: its first row, how many, and its sequence's state.
struct run {
    int64_t row, n, index;
    float *state;
};

static inline struct run run_at(const struct rows *rows, int64_t i, struct tensor state) {
    const int32_t *first = rows->run.data;
    int64_t row = first[i], seq = ((const int32_t *)rows->seq.data)[row];
    return (struct run){
        .row = row,
        .n = first[i + 1] - row,
        .index = ((const int32_t *)rows->index.data)[row],
        .state = (float *)state.data + seq * state.stride[0],
    };
}

static inline float *at(struct tensor t, int64_t row, int64_t column) {
    return (float *)t.data + row * t.stride[0] + column;
}

#endif
