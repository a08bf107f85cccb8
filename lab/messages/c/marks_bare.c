/* On a simulated chip the marks are addresses that the simulator knows.
 * SPDX-License-Identifier: MIT */
#include "marks.h"

void lab_main(void (*measure)(void))
{
    measure();
}

/* Without a difference, the compiler would merge the two functions that do nothing. */
void lab_begin(void)
{
    __asm__ volatile("" ::"i"(1));
}

void lab_end(void)
{
    __asm__ volatile("" ::"i"(2));
}

void lab_result(bool right)
{
    __asm__ volatile("" ::"r"(right));
}

void lab_over(void)
{
    for (;;)
        __asm__ volatile("");
}
