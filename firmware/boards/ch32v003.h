/* A CH32V003, rv32ec.   SPDX-License-Identifier: MIT
 *
 * USART 1 sends at PD5 and receives at PD6. The chip stays on its internal oscillator. The linker
 * script is ch32v003.ld.
 */
#ifndef CH32V003_H
#define CH32V003_H

enum { TICK_IRQ = 12, UART_IRQ = 32 };
#include "boards/polled.h"

enum { CLOCK = 24000000, USART = 0x40013800 };
#define RESET_FLAGS REGISTER(0x40021024) /* RCC_RSTSCKR */
#define BROWN_OUT 0                      /* it has no such flag */
#include "boards/stm32.h"

#define CLOCK_SETTING 0x40021004 /* RCC_CFGR0 */
#define CLOCKS 0x40021018        /* RCC_APB2PCENR */
#define PINS_MODE 0x40011400     /* GPIOD_CFGLR */
#define PINS_SET 0x40011410
#define TICK_CONTROL 0xE000F000         /* SysTick */
#define TICK_STATE REGISTER(0xE000F004) /* writing 0 ends its interrupt */
#define TICK_COUNT 0xE000F008
#define TICK_LAST 0xE000F010

__attribute__((interrupt)) static void on_tick(void)
{
    TICK_STATE = 0;
    count_tick();
}

__attribute__((interrupt)) static void on_uart(void)
{
    serve_uart();
}

static void fault(void) /* also for an NMI; the watchdog then resets the chip */
{
    for (;;) {
    }
}

/* The chip begins at its first word, which jumps over the table to start(). Then it reads from the
 * table what to call for each interrupt. */
__attribute__((section(".vectors"), used)) static const struct {
    uint32_t jump; /* the instruction j 132 */
    void (*interrupts[UART_IRQ])(void);
} vectors = {0x0840006F, {0, fault, fault, [TICK_IRQ - 1] = on_tick, [UART_IRQ - 1] = on_uart}};

static inline void board_start(void)
{
    static const setting settings[] = {
        {CLOCK_SETTING, 0},           /* 24 MHz; after a reset, it is divided by 3 */
        {CLOCKS, 1U << 14 | 1U << 5}, /* USART 1 and port D */
        {PINS_SET, 1U << 6},          /* the input has a pull-up: an open line rests */
        {PINS_MODE, 0x48944444},      /* PD6 is an input, PD5 an output of the USART */
        {UART_DIVIDER, DIVIDER},
        {UART_CONTROL, UART_ON},
        {TICK_COUNT, 0},
        {TICK_LAST, CLOCK / TICKS - 1},
        {TICK_CONTROL, 0xF}, /* it counts the clock, begins again after TICK_LAST, interrupts */
        {IRQ_ENABLE(TICK_IRQ), 1U << TICK_IRQ},
    };

    SET_REGISTERS(settings);
    start_watchdog(1000);               /* here, as the UART holds what comes in its 40 us */
    __asm__ volatile("csrwi mtvec, 3"); /* the table at 0 has addresses */
    __asm__ volatile("csrsi mstatus, 8" ::: "memory");
}

static inline void board_rest(void) /* it never sleeps */
{
    serve_line();
}

extern uint32_t zeros_begin[], zeros_end[]; /* the linker script defines these, and stack_top */

__attribute__((used)) static void set_zeros(void)
{
    for (uint32_t *word = zeros_begin; word != zeros_end; word++)
        *word = 0;
}

__attribute__((naked, section(".start"), used)) void start(void);
void start(void)
{
    __asm__ volatile("la sp, stack_top\n jal set_zeros\n j main");
}

#endif /* CH32V003_H */
