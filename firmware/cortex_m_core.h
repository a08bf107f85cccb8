/* A program on any Cortex-M: how it starts, and its clock.   SPDX-License-Identifier: MIT
 *
 * The file of a chip or of an agent has `seconds`. It says how many IRQS its table has, and which
 * INTERRUPTS, and defines the functions below and in loop.h. The linker script is cortex_m.ld.
 */
#ifndef CORTEX_M_CORE_H
#define CORTEX_M_CORE_H

#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define TICK_CONTROL REGISTER(0xE000E010) /* SysTick */
#define TICK_LOAD REGISTER(0xE000E014)
#define TICK_VALUE REGISTER(0xE000E018) /* random after a reset; if it is written, it becomes 0 */

#ifndef TICKS
#define TICKS 2 /* in a second, as SysTick has only 24 bits */
#endif
#include "loop.h"

static void chip_start(void); /* sets its pins, its interface and a watchdog of about 2 s */
static void let_in(void);     /* enables the interrupts that had to wait until there was room */
static bool is_idle(void);    /* has the loop nothing to do? Interrupts are off */

static inline void start_ticks(uint32_t hertz)
{
    TICK_LOAD = hertz / TICKS - 1;
    TICK_VALUE = 0;
    TICK_CONTROL = 7;
}

static void on_tick(void)
{
    count_tick();
}

static inline void rest(void)
{
    let_in();
    __asm__ volatile("cpsid i" ::: "memory");
    if (is_idle())
        __asm__ volatile("wfi"); /* an interrupt ends it, and runs when enabled */
    __asm__ volatile("cpsie i" ::: "memory");
}

extern uint32_t zeros_begin[], zeros_end[], stack_top[]; /* from the linker script */

static void reset(void)
{
    for (uint32_t *word = zeros_begin; word != zeros_end; word++)
        *word = 0;
    chip_start();
    loop();
}

static void fault(void) /* also for an NMI; the watchdog then resets the chip */
{
    for (;;) {
    }
}

#ifdef TIMER_IRQ /* of a chip without SysTick */
static void on_timer(void);
#define SYSTICK 0
#define OTHERS , [TIMER_IRQ] = on_timer
#else
#define SYSTICK on_tick
#define OTHERS
#endif

/* The core reads this table: where the stack begins, and what to call for each exception. */
__attribute__((section(".vectors"), used)) const struct {
    uint32_t *stack;
    void (*exceptions[15])(void);
    void (*interrupts[IRQS])(void);
} vectors = {
    stack_top,
    {reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, fault, fault, 0, fault, SYSTICK},
    {INTERRUPTS OTHERS},
};

#endif /* CORTEX_M_CORE_H */
