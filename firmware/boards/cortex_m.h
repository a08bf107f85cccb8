/* What boards with a Cortex-M share: how a program starts, its clock and its interrupts.
 *                                                           SPDX-License-Identifier: MIT
 * The header of a board defines UART_IRQ and IRQS, the length of its table, and includes this file.
 * A program without a serial line defines IRQS and INTERRUPTS itself. Link with cortex_m.ld.
 */
#ifndef CORTEX_M_H
#define CORTEX_M_H

#include "boards/polled.h"

#define TICK_CONTROL REGISTER(0xE000E010) /* SysTick */
#define TICK_LOAD REGISTER(0xE000E014)
#define TICK_VALUE REGISTER(0xE000E018) /* random after a reset; if it is written, it becomes 0 */

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

/* Sleeps until an interrupt, if the loop has nothing to do. */
static inline void sleep_if(bool (*is_idle)(void))
{
    __asm__ volatile("cpsid i" ::: "memory");
    if (is_idle())
        __asm__ volatile("wfi"); /* an interrupt ends it, and runs when enabled */
    __asm__ volatile("cpsie i" ::: "memory");
}

#if BAUD
static void on_uart(void)
{
    serve_uart();
}

static inline bool line_is_idle(void)
{
    return serial_empty(&ring) && left == 0;
}

static inline void board_rest(void)
{
    serve_line();
    sleep_if(line_is_idle);
}
#define INTERRUPTS [UART_IRQ] = on_uart
#endif

extern uint32_t zeros_begin[], zeros_end[], stack_top[]; /* the linker script defines these */
__attribute__((noreturn)) int main(void);

static __attribute__((noreturn)) void reset(void)
{
    for (uint32_t *word = zeros_begin; word != zeros_end; word++)
        *word = 0;
    (void)main();
}

static void fault(void) /* also for an NMI; the watchdog then resets the chip */
{
    for (;;) {
    }
}

#ifdef TIMER_IRQ /* the chip has no SysTick */
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

#endif /* CORTEX_M_H */
