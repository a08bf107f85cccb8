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

static void chip_start(void)
{
    start_dog(250);
    set_pins();
    start_ticks(CLOCK);
    start_uart();
}
