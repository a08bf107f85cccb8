/* An agent on a serial line, for any Cortex-M.   SPDX-License-Identifier: MIT
 *
 * The file of a chip says UART_IRQ and how many IRQS its table has, includes this file, and defines
 * the functions chip_…(). Then this and cortex_m_core.h are the whole program.
 */
#ifndef CORTEX_M_H
#define CORTEX_M_H

#ifndef KEYED /* else the image has what that file has */
#include "serial_agent.h"
#endif

static void on_uart(void);
#define INTERRUPTS [UART_IRQ] = on_uart
#include "cortex_m_core.h"

#define UART_ENABLE REGISTER(0xE000E100 + UART_IRQ / 32 * 4) /* of the interrupt controller */
#define UART_DISABLE REGISTER(0xE000E180 + UART_IRQ / 32 * 4)

static void chip_receive(void); /* clears the interrupt, and gives the byte to the ring */

static inline void on_received(void)
{
    if (serial_full(&ring)) /* the byte waits in the UART, which reports bytes that it loses */
        UART_DISABLE = 1U << UART_IRQ % 32;
    else
        chip_receive();
}

#ifndef KEYED_AGENT /* that one also sends by interrupt */
static void on_uart(void)
{
    on_received();
}
#endif

static inline void let_in(void)
{
    UART_ENABLE = 1U << UART_IRQ % 32;
}

#endif /* CORTEX_M_H */
