/* The agent on a CH32V003, rv32ec.   SPDX-License-Identifier: MIT
 *
 * uart_ch32v003.md says how to wire and flash it. USART 1 sends at PD5 and receives at PD6, 115,200
 * baud, 8 data bits, no parity, 1 stop bit. The chip stays on its internal oscillator. The linker
 * script is ch32v003.ld.
 */
#include "serial_agent.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))

enum { CLOCK = 24000000, BAUD = 115200, USART = 0x40013800, TICKS = 2 }; /* ticks in a second */
#include "loop.h"
#include "stm32.h"
#include "stm32_uart.h"

#define CLOCK_SETTING REGISTER(0x40021004) /* RCC_CFGR0 */
#define CLOCKS REGISTER(0x40021018)        /* RCC_APB2PCENR */
#define PINS_MODE REGISTER(0x40011400)     /* of port D */
#define PINS_SET REGISTER(0x40011410)
#define TICK_CONTROL REGISTER(0xE000F000) /* SysTick */
#define TICK_STATE REGISTER(0xE000F004)   /* writing 0 ends its interrupt */
#define TICK_COUNT REGISTER(0xE000F008)
#define TICK_LAST REGISTER(0xE000F010)
#define INTERRUPTS(number) REGISTER(0xE000E100 + (number) / 32 * 4) /* PFIC_IENR */

enum { TICK_IRQ = 12, UART_IRQ = 32 };

__attribute__((interrupt)) static void on_tick(void)
{
    TICK_STATE = 0;
    count_tick();
}

__attribute__((interrupt)) static void on_uart(void)
{
    chip_receive();
}

static void fault(void) /* also for an NMI; the watchdog then resets the chip */
{
    for (;;) {
    }
}

/* The chip begins at its first word, which jumps over the table to start(). Then it reads from the
 * table what to call for each interrupt. */
__attribute__((section(".vectors"), used)) static const struct {
    uint32_t jump; /* by 132 bytes */
    void (*interrupts[UART_IRQ])(void);
} vectors = {0x0840006F, {0, fault, fault, [TICK_IRQ - 1] = on_tick, [UART_IRQ - 1] = on_uart}};

static void chip_start(void)
{
    CLOCK_SETTING = 0;            /* 24 MHz; after a reset, it is divided by 3 */
    CLOCKS |= 1U << 14 | 1U << 5; /* USART 1 and port D */
    PINS_SET = 1U << 6;           /* the input has a pull-up: an open line rests */
    PINS_MODE = 0x48944444;       /* PD6 is an input, PD5 an output of the USART */
    start_uart();
    start_dog(1000); /* here, as the UART holds what comes in its 40 us */
    TICK_COUNT = 0;
    TICK_LAST = CLOCK / TICKS - 1;
    TICK_CONTROL = 0xF; /* it counts the clock, begins again after TICK_LAST, and interrupts */
    INTERRUPTS(TICK_IRQ) = 1U << TICK_IRQ;
    INTERRUPTS(UART_IRQ) = 1U << UART_IRQ % 32;
    __asm__ volatile("csrw mtvec, %0" ::"r"(3)); /* the table at 0 has addresses */
    __asm__ volatile("csrs mstatus, %0" ::"r"(8) : "memory");
}

static void rest(void) /* it never sleeps */
{
}

extern uint32_t zeros_begin[], zeros_end[]; /* from the linker script, like stack_top */

__attribute__((naked, section(".start"), used)) void start(void);
void start(void)
{
    __asm__ volatile("la sp, stack_top\n j begin");
}

__attribute__((used)) void begin(void);
void begin(void)
{
    for (uint32_t *word = zeros_begin; word != zeros_end; word++)
        *word = 0;
    chip_start();
    loop();
}
