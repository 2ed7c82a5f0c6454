#include "server/random.h"

#include <sys/random.h>

#include "base/clock.h"

enum { LETTERS = 24 };

void random_letters(struct str *s) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    unsigned char random[LETTERS] = {0};
    if (getrandom(random, sizeof random, 0) < 0) random[0] = (unsigned char)clock_now();
    for (int i = 0; i < LETTERS; i++) str_addc(s, digits[random[i] % (sizeof digits - 1)]);
}
