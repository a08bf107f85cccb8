/* USART 1 of an STM32F1 or F4, which a CH32V003 has, too, and the pins of an STM32's: PA9 sends,
 * PA10 receives.   SPDX-License-Identifier: MIT
 * CLOCK, BAUD and the address USART are the image's. */
#ifndef STM32_UART_H
#define STM32_UART_H

#define UART_STATE REGISTER(USART)
#define UART_DATA REGISTER(USART + 0x04)
#define UART_DIVIDER REGISTER(USART + 0x08)
#define UART_CONTROL REGISTER(USART + 0x0C) /* CR1 */

enum { READY = 0x20, OVERRUN = 0x08, EMPTY = 0x80 };                   /* bits of UART_STATE */
enum { ON = 0x2000, SENDS = 8, RECEIVES = 4, INTERRUPT_READY = 0x20 }; /* of UART_CONTROL */
enum { INTERRUPT_EMPTY = 0x80 };

static inline void start_uart(void)
{
    UART_DIVIDER = (CLOCK + BAUD / 2) / BAUD;
    UART_CONTROL = ON | SENDS | RECEIVES | INTERRUPT_READY;
}

static void chip_receive(void)
{
    const uint32_t state = UART_STATE;
    const uint8_t byte = (uint8_t)UART_DATA; /* reading both clears OVERRUN */
    if (state & OVERRUN)
        serial_lose(&ring);
    if (state & READY)
        serial_put(&ring, byte);
}

static inline bool chip_send(uint8_t byte)
{
    if (!(UART_STATE & EMPTY))
        return false;
    UART_DATA = byte;
    return true;
}

#ifdef __arm__
#ifdef STM32F1
#define CLOCKS REGISTER(0x40021018) /* RCC_APB2ENR */
#define PINS_HIGH REGISTER(0x40010804)
#define PINS_SET REGISTER(0x40010810)
#else
#define CLOCKS REGISTER(0x40023844) /* RCC_APB2ENR */
#define CLOCKS_OF_PINS REGISTER(0x40023830)
#define PINS_MODE REGISTER(0x40020000)
#define PINS_PULL REGISTER(0x4002000C)
#define PINS_FUNCTION REGISTER(0x40020024) /* of pins 8 to 15 */
#endif

static void set_pins(void)
{
#ifdef STM32F1
    CLOCKS |= 1U << 14 | 1U << 2; /* USART 1 and port A */
    PINS_SET = 1U << 10;          /* the input has a pull-up: an open line rests */
    PINS_HIGH = 0x444448B4;       /* PA10 is an input, PA9 an output of the USART */
#else
    CLOCKS_OF_PINS |= 1;
    CLOCKS |= 1U << 4; /* USART 1 */
    (void)CLOCKS;      /* a clock runs only after a moment */
    PINS_FUNCTION |= 0x770;
    PINS_PULL |= 1U << 20; /* the input has a pull-up: an open line rests */
    PINS_MODE |= 2U << 20 | 2U << 18;
#endif
}
#endif

#endif /* STM32_UART_H */
