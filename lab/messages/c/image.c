/* The program that runs one step of a scheme: -DLAB_STEP=sign -DLAB_RUNS=2.
 * With -DLAB_SIZE it only links what a node needs that takes the step; with -DLAB_NEEDS=key, too,
 * that includes another step.
 * SPDX-License-Identifier: MIT */
#include "operation.h"
#include "marks.h"

#define JOINED_(step, part) step##part
#define JOINED(step, part) JOINED_(step, part)
#define DECLARED_(step) STEP(step)
#define DECLARED(step) DECLARED_(step)
DECLARED(LAB_STEP)
#ifdef LAB_NEEDS
DECLARED(LAB_NEEDS)
#endif

static void measure(void)
{
#ifdef LAB_SIZE
#ifdef LAB_NEEDS
    JOINED(LAB_NEEDS, _run)();
#endif
    JOINED(LAB_STEP, _run)();
#else
    for (unsigned n = 0; n < LAB_RUNS; n++) {
        JOINED(LAB_STEP, _prepare)(n);
        lab_begin();
        JOINED(LAB_STEP, _run)();
        lab_end();
        lab_result(JOINED(LAB_STEP, _right)());
    }
    lab_over();
#endif
}

int main(void)
{
    lab_main(measure);
    return 0;
}
