/* What STM32F1 and F4 share: the cause of a reset, the independent watchdog and USART 1.
 *                                                             SPDX-License-Identifier: MIT
 *
 * The header of a board has CLOCK, the address USART, RESET_FLAGS, which is RCC_CSR, and its bit
 * BROWN_OUT, or 0.
 */
#ifndef STM32_H
#define STM32_H

#define WATCHDOG_KEY REGISTER(0x40003000)
#define WATCHDOG_PRESCALER REGISTER(0x40003004)
#define WATCHDOG_RELOAD REGISTER(0x40003008)
#define WATCHDOG_UPDATES REGISTER(0x4000300C) /* IWDG_SR: not 0 while a register is being updated */
#define UART_STATE REGISTER(USART)
#define UART_DATA REGISTER(USART + 0x04)
#define UART_DIVIDER (USART + 0x08)
#define UART_CONTROL (USART + 0x0C) /* CR1 */

enum { WATCHDOG_UNLOCK = 0x5555, WATCHDOG_FEED = 0xAAAA, WATCHDOG_START = 0xCCCC };
enum { READY = 0x20, OVERRUN = 0x08, EMPTY = 0x80 };                   /* bits of UART_STATE */
enum { ON = 0x2000, SENDS = 8, RECEIVES = 4, INTERRUPT_READY = 0x20 }; /* bits of UART_CONTROL */

/* RCC_CSR has a flag for each cause: RM0008, 7.3.10; RM0090, 7.3.21. A digit for each bit
 * from 31 on: low power, window and independent watchdog, software, power-up, pin, brown-out, and
 * bit 24, which clears all flags. */
enum { FORGET = 1 << 24, CAUSES = 0x64451320 };

/* Each reset drives the pin, and so sets its flag, too. */
static inline uint8_t board_reset_cause(void)
{
    uint32_t flags = RESET_FLAGS, causes = CAUSES;

    RESET_FLAGS = FORGET;
    for (flags = (flags | FORGET) & ~((flags & BROWN_OUT) << 1); !(flags >> 31); flags <<= 1)
        causes <<= 4;
    return (uint8_t)(causes >> 28);
}

/* Starts the watchdog. A count is 256 clocks of its oscillator: 250 are 2 s at 32 kHz (STM32F4) and
 * 1.6 s at 40 kHz (STM32F1). The oscillators differ by half from chip to chip. It starts from
 * 0xFFF, with 4 clocks each: 0.5 s, which also end the wait. Only feeding it loads its counter
 * (RM0090, 21.3 and 21.4.4). */
static inline void start_watchdog(uint32_t counts)
{
    WATCHDOG_KEY = WATCHDOG_START;
    WATCHDOG_KEY = WATCHDOG_UNLOCK;
    WATCHDOG_PRESCALER = 6;
    WATCHDOG_RELOAD = counts;
    while (WATCHDOG_UPDATES) {
    }
    WATCHDOG_KEY = WATCHDOG_FEED;
}

static inline void board_feed(void)
{
    WATCHDOG_KEY = WATCHDOG_FEED;
}

/* Runs the chip by its crystal, or by another chip's clock. The watchdog ends the waits. */
static inline void start_crystal(bool clocked)
{
    CLOCK_CONTROL |= 1U << 16 | (clocked ? 1U << 18 : 0);
    while (!(CLOCK_CONTROL & 1U << 17)) {
    }
    CLOCK_CHOICE = 1;
    while ((CLOCK_CHOICE & 0x0C) != 0x04) {
    }
}

#if BAUD
enum { DIVIDER = (CLOCK + BAUD / 2) / BAUD, UART_ON = ON | SENDS | RECEIVES | INTERRUPT_READY };

static inline void start_uart(void)
{
    REGISTER(UART_DIVIDER) = DIVIDER;
    REGISTER(UART_CONTROL) = UART_ON;
}

static inline void uart_receive(void)
{
    const uint32_t state = UART_STATE;
    const uint8_t byte = (uint8_t)UART_DATA; /* reading both clears OVERRUN */
    if (state & OVERRUN)
        serial_lose(&ring);
    if (state & READY)
        serial_add(&ring, byte);
}

static inline bool uart_send(uint8_t byte)
{
    if (!(UART_STATE & EMPTY))
        return false;
    UART_DATA = byte;
    return true;
}

static inline void board_start(void)
{
    start_watchdog(250);
    set_line_pins();
    start_ticks(CLOCK);
    start_uart();
}
#endif

#endif /* STM32_H */
