/* How an image for RISC-V starts. riscv.ld is its linker script.   SPDX-License-Identifier: MIT */
#ifndef RISCV_H
#define RISCV_H

#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))

extern uint32_t zeros_begin[], zeros_end[]; /* from the linker script, like stack_top */

__attribute__((naked, section(".start"), used)) void start(void);
void start(void)
{
    __asm__ volatile("la sp, stack_top\n j begin");
}

__attribute__((used)) void begin(void); /* the image's; it first calls clear() */

static inline void clear(void)
{
    for (uint32_t *word = zeros_begin; word != zeros_end; word++)
        *word = 0;
}

#endif /* RISCV_H */
