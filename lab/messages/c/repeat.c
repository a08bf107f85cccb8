/* Repeats one step of a scheme on this machine, for lab/run measure: -DLAB_STEP=sign.
 *
 *     repeat seconds N | repeat calls N
 *
 * The input is made once, before. At the end it checks that the last call did its work, and prints
 * how many calls there were.   SPDX-License-Identifier: MIT */
#include "operation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define JOINED_(step, part) step##part
#define JOINED(step, part) JOINED_(step, part)
#define DECLARED_(step) STEP(step)
#define DECLARED(step) DECLARED_(step)
DECLARED(LAB_STEP)

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    const bool timed = argc == 3 && strcmp(argv[1], "seconds") == 0;
    const double wanted = argc == 3 ? strtod(argv[2], NULL) : 0;
    if (!(wanted > 0) || (!timed && strcmp(argv[1], "calls") != 0)) {
        fprintf(stderr, "usage: repeat seconds N | repeat calls N\n");
        return 2;
    }
    JOINED(LAB_STEP, _prepare)(0);
    const double begun = seconds();
    unsigned long long calls = 0, batch = 1; /* calls between two looks at the clock */
    for (;;) {
        if (!timed && (double)(calls + batch) > wanted)
            batch = (unsigned long long)wanted - calls;
        for (unsigned long long i = 0; i < batch; i++)
            JOINED(LAB_STEP, _run)();
        calls += batch;
        const double passed = seconds() - begun;
        if (timed ? passed >= wanted : (double)calls >= wanted)
            break;
        if (passed < 0.01) /* A batch grows to about that many seconds. */
            batch *= 2;
    }
    printf("calls %llu\nright %d\n", calls, JOINED(LAB_STEP, _right)());
    return 0;
}
