/* The agent on a Cortex-M0+ or M4, on Arm's MPS2 board.   SPDX-License-Identifier: MIT
 *
 * uart_mps2.md says how to try it. One source makes two images: the FPGA images AN383 (Cortex-M0+)
 * and AN386 (Cortex-M4) have the same peripherals at the same addresses. UART 0 has 115,200 baud,
 * 8 data bits, no parity, 1 stop bit.
 */
enum { CLOCK = 25000000, BAUD = 115200, UART_IRQ = 0, IRQS = 1 };
#include "cortex_m.h"

#define UART_DATA REGISTER(0x40004000)
#define UART_STATE REGISTER(0x40004004) /* writing OVERRUN clears it */
#define UART_CONTROL REGISTER(0x40004008)
#define UART_INTERRUPT REGISTER(0x4000400C) /* writing a bit clears it */
#define UART_DIVIDER REGISTER(0x40004010)
#define DOG_LOAD REGISTER(0x40008000) /* the watchdog counts down from it, again if it is written */
#define DOG_CONTROL REGISTER(0x40008008)

enum { FULL = 1, OVERRUN = 8, RECEIVED = 2 }; /* bits of UART_STATE, and one of UART_INTERRUPT */

static void chip_start(void)
{
    /* When the watchdog reaches 0 for the first time, it causes an NMI, which does not return. At
     * the second time, after 2 s in all, it resets the chip. */
    DOG_LOAD = CLOCK;
    DOG_CONTROL = 3;
    start_ticks(CLOCK);
    UART_DIVIDER = (CLOCK + BAUD / 2) / BAUD;
    UART_CONTROL = 0xB; /* receives and sends, and only receiving causes an interrupt */
}

static void chip_feed(void)
{
    DOG_LOAD = CLOCK;
}

static void chip_receive(void)
{
    UART_INTERRUPT = RECEIVED;
    if (UART_STATE & OVERRUN) {
        UART_STATE = OVERRUN;
        serial_lose(&ring);
    }
    serial_put(&ring, (uint8_t)UART_DATA);
}

static bool chip_send(uint8_t byte)
{
    if (UART_STATE & FULL)
        return false;
    UART_DATA = byte;
    return true;
}
