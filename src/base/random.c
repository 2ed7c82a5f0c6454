#include "base/random.h"

#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"

void random_fill(void *to, size_t n) {
    if (getrandom(to, n, 0) == (ssize_t)n) return;
    uint64_t z = (uint64_t)(clock_now() * 1e9) ^ (uint64_t)getpid() << 40;
    for (size_t i = 0; i < n; i++) {
        z = z * 6364136223846793005u + 1442695040888963407u;
        ((unsigned char *)to)[i] = (unsigned char)(z >> 56);
    }
}

void random_letters(struct str *s) {
    enum { LETTERS = 24 };
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    unsigned char random[LETTERS];
    random_fill(random, sizeof random);
    for (int i = 0; i < LETTERS; i++) str_addc(s, digits[random[i] % (sizeof digits - 1)]);
}
