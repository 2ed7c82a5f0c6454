#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_now(void); // seconds on a clock that never steps back

#endif
