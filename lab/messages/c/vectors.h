/* The step that compares with published vectors.   SPDX-License-Identifier: MIT */
#ifndef VECTORS_H
#define VECTORS_H

#include "operation.h"

static bool vectors_agree(void);

static bool lab_agree;

STEP(vectors)

void vectors_prepare(unsigned n)
{
    (void)n;
    lab_agree = false;
}

void vectors_run(void)
{
    lab_agree = vectors_agree();
}

bool vectors_right(void)
{
    return lab_agree;
}

#endif
