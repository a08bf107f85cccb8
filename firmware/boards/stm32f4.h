/* An STM32F4, as on a Black Pill or a Nucleo.   SPDX-License-Identifier: MIT
 *
 * USART 1 sends at PA9 and receives at PA10, the CAN controller at PB9 and PB8. The chip stays on
 * its internal oscillator, unless a program starts the crystal.
 */
#ifndef STM32F4_H
#define STM32F4_H

#ifndef CLOCK
#define CLOCK 16000000
#endif
enum { USART = 0x40011000 };               /* RM0090, 2.3 */
enum { MAX_CRYSTAL = 26 };                 /* MHz */
#define CLOCK_CONTROL REGISTER(0x40023800) /* RCC_CR */
#define CLOCK_CHOICE REGISTER(0x40023808)  /* RCC_CFGR */
#define RESET_FLAGS REGISTER(0x40023874)   /* RCC_CSR */
#define BROWN_OUT (1U << 25)
#if !defined BAUD || BAUD
enum { UART_IRQ = 37, IRQS = 38 };
#endif
#include "boards/cortex_m.h"

#define CLOCKS_OF_PINS REGISTER(0x40023830) /* RCC_AHB1ENR */
#define CLOCKS_CAN REGISTER(0x40023840)     /* RCC_APB1ENR */
#define CLOCKS REGISTER(0x40023844)         /* RCC_APB2ENR */
#define PORT_A(offset) REGISTER(0x40020000 + (offset))
#define PORT_B(offset) REGISTER(0x40020400 + (offset))

static inline void set_line_pins(void)
{
    CLOCKS_OF_PINS |= 1;
    CLOCKS |= 1U << 4;        /* USART 1 */
    (void)CLOCKS;             /* a clock runs only after a moment */
    PORT_A(0x24) = 0x770;     /* the function of pins 9 and 10 */
    PORT_A(0x0C) |= 1U << 20; /* the input has a pull-up: an open line rests */
    PORT_A(0x00) |= 2U << 20 | 2U << 18;
}

/* The pull-up lets an open input rest. */
static inline void set_can_pins(void)
{
    CLOCKS_OF_PINS |= 1U << 1;
    CLOCKS_CAN |= 1U << 25; /* the controller */
    (void)CLOCKS_CAN;       /* a clock runs only after a moment */
    PORT_B(0x24) = 0x99;    /* the function of pins 8 and 9 */
    PORT_B(0x0C) |= 1U << 16;
    PORT_B(0x00) |= 2U << 18 | 2U << 16;
}

#include "boards/stm32.h"

#endif /* STM32F4_H */
