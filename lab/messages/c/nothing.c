/* A step that does nothing: what it costs is taken off every other step.
 * SPDX-License-Identifier: MIT */
#include "operation.h"

STEP(nothing)

void nothing_prepare(unsigned n)
{
    (void)n;
}

void nothing_run(void)
{
    __asm__ volatile("");
}

bool nothing_right(void)
{
    return true;
}
