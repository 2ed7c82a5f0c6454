#include "server/budget.h"

void budget_open(struct budget *b, size_t most) {
    *b = (struct budget){.most = most};
    pthread_mutex_init(&b->lock, NULL);
}

void budget_close(struct budget *b) { pthread_mutex_destroy(&b->lock); }

bool budget_take(struct budget *b, size_t n) {
    pthread_mutex_lock(&b->lock);
    bool room = n <= b->most - b->taken;
    if (room) b->taken += n;
    pthread_mutex_unlock(&b->lock);
    return room;
}

void budget_give(struct budget *b, size_t n) {
    pthread_mutex_lock(&b->lock);
    b->taken -= n;
    pthread_mutex_unlock(&b->lock);
}
