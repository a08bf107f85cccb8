/* Runs an image of the lab on an AVR in simavr, and counts what is between its marks.
 *
 *     avr MCU RAMEND IMAGE BEGIN END RESULT OVER FREE
 *
 * The numbers are hexadecimal: the last address of RAM, and the addresses of the marks. FREE is
 * the first byte of RAM that no variable has: a stack that reaches it has overflowed. For each run
 * the program prints "run CYCLES STACK", then "right 1" or "right 0"; at the end "over".
 * SPDX-License-Identifier: MIT
 */
/* First: simavr's other headers need what it includes. */
#include "../../../tools/processors/avr_host.h"

#include <simavr/sim_core.h>

#include <stdbool.h>

enum { R24 = 24 };

/* Runs one instruction. avr_run would look at timers and interrupts after each, which no image of
 * the lab uses: half as long again. */
static inline void run_one(avr_t *avr)
{
    const avr_flashaddr_t ran = avr->pc;
    avr->pc = avr_run_one(avr);
    if (avr->state != cpu_Running)
        fail("the firmware has stopped");
    see_stack(avr, ran);
}

static unsigned number(const char *hex)
{
    return (unsigned)strtoul(hex, NULL, 16);
}

int main(int argc, char **argv)
{
    if (argc != 9)
        fail("usage: avr MCU RAMEND IMAGE BEGIN END RESULT OVER FREE");
    avr_t *const avr = load_chip_with_ram(argv[1], argv[3], (uint16_t)number(argv[2]));
    const unsigned begin = number(argv[4]), end = number(argv[5]), result = number(argv[6]),
                   over = number(argv[7]), free_ram = number(argv[8]);
    avr_cycle_count_t began = 0;
    unsigned top = 0;
    for (;;) {
        const unsigned pc = avr->pc;
        if (pc == begin) {
            began = avr->cycle;
            top = stack_pointer(avr);
            deepest = stack_pointer(avr);
        } else if (pc == end) {
            printf("run %llu %u\n", (unsigned long long)(avr->cycle - began), top - deepest);
        } else if (pc == result) {
            printf("right %u\n", avr->data[R24]);
        } else if (pc == over) {
            puts("over");
            return 0;
        }
        run_one(avr);
        if (deepest < free_ram && deepest != 0)
            fail("overflow");
    }
}
