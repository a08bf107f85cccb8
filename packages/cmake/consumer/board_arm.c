/* Where a Cortex-M begins; QEMU has its standard input and output. SPDX-License-Identifier: MIT */
#include <stdint.h>

void _start(void); /* of newlib */

enum { STACK_TOP = 0x400000 }; /* the end of the first RAM of QEMU's board mps2-an385 */

/* The linker puts this at address 0, where the processor looks for it. */
__attribute__((section(".vectors"))) const struct {
    uint32_t stack;
    void (*reset)(void);
} vectors = {STACK_TOP, _start};
