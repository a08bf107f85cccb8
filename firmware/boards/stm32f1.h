/* An STM32F100 or F103, as on a Blue Pill.   SPDX-License-Identifier: MIT
 *
 * USART 1 sends at PA9 and receives at PA10, the CAN controller at PB9 and PB8. The chip stays on
 * its internal oscillator, unless a program starts the crystal. Sections are of RM0008.
 */
#ifndef STM32F1_H
#define STM32F1_H

#ifndef CLOCK
#define CLOCK 8000000
#endif
enum { USART = 0x40013800 };               /* 3.3 */
enum { MAX_CRYSTAL = 16 };                 /* MHz */
#define CLOCK_CONTROL REGISTER(0x40021000) /* RCC_CR */
#define CLOCK_CHOICE REGISTER(0x40021004)  /* RCC_CFGR */
#define RESET_FLAGS REGISTER(0x40021024)   /* RCC_CSR */
#define BROWN_OUT 0                        /* it has no such flag */
#if !defined BAUD || BAUD
enum { UART_IRQ = 37, IRQS = 38 };
#endif
#include "boards/cortex_m.h"

#define CLOCKS REGISTER(0x40021018)     /* RCC_APB2ENR */
#define CLOCKS_CAN REGISTER(0x4002101C) /* RCC_APB1ENR */
#define PINS_PLACE REGISTER(0x40010004) /* AFIO_MAPR */
#define PORT_A(offset) REGISTER(0x40010800 + (offset))
#define PORT_B(offset) REGISTER(0x40010C00 + (offset))

static inline void set_line_pins(void)
{
    CLOCKS |= 1U << 14 | 1U << 2; /* USART 1 and port A */
    PORT_A(0x10) = 1U << 10;      /* the input has a pull-up: an open line rests */
    PORT_A(0x04) = 0x444448B4;    /* PA10 is an input, PA9 an output of the USART */
}

/* The pull-up lets an open input rest. */
static inline void set_can_pins(void)
{
    CLOCKS |= 1U << 3 | 1U << 0; /* port B, and where functions have their pins */
    CLOCKS_CAN |= 1U << 25;      /* the controller */
    PINS_PLACE = 2U << 13;       /* not |=: its bits for the debugger cannot be read */
    PORT_B(0x10) = 1U << 8;
    PORT_B(0x04) = 0x444444A8;
}

#include "boards/stm32.h"
#ifdef KEYED
#include "stm32_flash.h"
#endif

#endif /* STM32F1_H */
