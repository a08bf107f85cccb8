/* USART 1 of an STM32F1 or F4, which a CH32V003 has, too.   SPDX-License-Identifier: MIT
 * CLOCK, BAUD and the address USART are the image's. */
#ifndef STM32_UART_H
#define STM32_UART_H

#define UART_STATE REGISTER(USART)
#define UART_DATA REGISTER(USART + 0x04)
#define UART_DIVIDER REGISTER(USART + 0x08)
#define UART_CONTROL REGISTER(USART + 0x0C) /* CR1 */

enum { READY = 0x20, OVERRUN = 0x08, EMPTY = 0x80 };                   /* bits of UART_STATE */
enum { ON = 0x2000, SENDS = 8, RECEIVES = 4, INTERRUPT_READY = 0x20 }; /* of UART_CONTROL */

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

static bool chip_send(uint8_t byte)
{
    if (!(UART_STATE & EMPTY))
        return false;
    UART_DATA = byte;
    return true;
}

#endif /* STM32_UART_H */
