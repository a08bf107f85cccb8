/* Where the counting begins and ends. On amd64 valgrind counts: each run becomes a file of
 * callgrind's, and the results and the depths of the stack go to the standard output. On a
 * simulated chip the marks are addresses that the simulator knows.
 * SPDX-License-Identifier: MIT */
#include "marks.h"

#ifdef __x86_64__

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <valgrind/callgrind.h>

enum { STACK_BYTES = 1 << 20, PAINT = 0xA5 };
#define PAINT_8 0xA5A5A5A5A5A5A5A5ULL

static uint8_t lab_stack[STACK_BYTES] __attribute__((aligned(4096)));
static uint8_t *lab_top; /* The end of a run's stack, whose last word is the return address. */
static uint8_t *lab_lowest;

/* On a stack of its own, as a second thread's start would count, too. */
void lab_main(void (*measure)(void))
{
    static ucontext_t lab_back, lab_there;
    static char lab_said[1 << 12];
    setvbuf(stdout, lab_said, _IOFBF, sizeof lab_said); /* No run allocates a buffer. */
    if (getcontext(&lab_there) != 0)
        abort();
    lab_there.uc_stack.ss_sp = lab_stack;
    lab_there.uc_stack.ss_size = sizeof lab_stack;
    lab_there.uc_link = &lab_back;
    makecontext(&lab_there, measure, 0);
    if (swapcontext(&lab_back, &lab_there) != 0)
        abort();
}

/* These two functions do not use the stack, so they leave no trace there. They take eight bytes at
 * once, because valgrind is slow. */
void lab_begin(void)
{
    uint8_t *at = lab_stack;
    __asm__ volatile("mov %%rsp, %%rcx\n\t"
                     "mov %%rcx, %[top]\n\t"
                     "sub %%rdi, %%rcx\n\t"
                     "shr $3, %%rcx\n\t"
                     "rep stosq"
                     : "+D"(at), [top] "=m"(lab_top)
                     : "a"(PAINT_8)
                     : "rcx", "memory");
}

static __attribute__((noinline)) void report(void)
{
    CALLGRIND_DUMP_STATS;
    printf("stack %ld\n", (long)(lab_top - lab_lowest));
}

void lab_end(void)
{
    uint8_t *at = lab_stack;
    __asm__ volatile("mov %[top], %%rcx\n\t"
                     "sub %%rdi, %%rcx\n\t"
                     "shr $3, %%rcx\n\t"
                     "repe scasq\n\t"
                     "sub $8, %%rdi\n\t"
                     "mov $8, %%ecx\n\t"
                     "repe scasb"
                     : "+D"(at)
                     : "a"(PAINT_8), [top] "m"(lab_top)
                     : "rcx", "cc", "memory");
    lab_lowest = at[-1] == PAINT ? at : at - 1;
    report();
}

void lab_result(bool right)
{
    printf("right %d\n", right);
}

void lab_over(void)
{
    puts("over");
}

#else

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

#endif
