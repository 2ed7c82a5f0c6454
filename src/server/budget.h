// An amount that all requests share, such as bytes of memory.
#ifndef SERVER_BUDGET_H
#define SERVER_BUDGET_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct budget {
    pthread_mutex_t lock;
    size_t most, taken;
};

void budget_open(struct budget *b, size_t most);
void budget_close(struct budget *b);
bool budget_take(struct budget *b, size_t n); // false, and nothing is taken: there is too little
void budget_give(struct budget *b, size_t n); // back
#endif
