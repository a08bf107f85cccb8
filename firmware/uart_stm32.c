/* The agent on an STM32F4, or with -DSTM32F1 on an STM32F1.   SPDX-License-Identifier: MIT
 *
 * uart_stm32.md says how to wire and flash it. USART 1 sends at PA9 and receives at PA10, 115,200
 * baud, 8 data bits, no parity, 1 stop bit. The chip stays on its internal oscillator.
 */
#ifdef STM32F1
enum { CLOCK = 8000000, USART = 0x40013800 };
#else
enum { CLOCK = 16000000, USART = 0x40011000 };
#endif
enum { BAUD = 115200, UART_IRQ = 37, IRQS = 38 };
#include "cortex_m.h"
#include "stm32.h"
#include "stm32_uart.h"

static void chip_start(void)
{
    start_dog(250);
    set_pins();
    start_ticks(CLOCK);
    start_uart();
}
