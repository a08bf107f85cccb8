/* The agent on a Cortex-M0+ or M4, on Arm's MPS2 board.   SPDX-License-Identifier: MIT
 *
 * uart_mps2.md says how to try it. One source makes two images: the FPGA images AN383 (Cortex-M0+)
 * and AN386 (Cortex-M4) have the same peripherals at the same addresses. The clock has 25 MHz. UART
 * 0 has 115,200 baud, 8 data bits, no parity, 1 stop bit. Nothing is lost at full speed: interrupts
 * receive and send the bytes, and a report is sent from a copy. The linker script is uart_mps2.ld.
 */
#include "serial.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define UART_DATA REGISTER(0x40004000)
#define UART_STATE REGISTER(0x40004004) /* bit 3: a byte was lost; writing it clears it */
#define UART_CONTROL REGISTER(0x40004008)
#define UART_INTERRUPT REGISTER(0x4000400C) /* writing a bit clears it */
#define UART_DIVIDER REGISTER(0x40004010)
#define DOG_LOAD REGISTER(0x40008000) /* the watchdog counts down from it, again if it is written */
#define DOG_CONTROL REGISTER(0x40008008)
#define TICK_CONTROL REGISTER(0xE000E010) /* the core's SysTick */
#define TICK_LOAD REGISTER(0xE000E014)
#define INTERRUPT_ENABLE REGISTER(0xE000E100) /* bit 0: received, bit 1: sent */
#define INTERRUPT_DISABLE REGISTER(0xE000E180)

enum { CLOCK = 25000000, BAUD = 115200 };
enum { RECEIVED = 2, SENT = 1, OVERRUN = 8 }; /* bits of UART_INTERRUPT, and of UART_STATE */
enum { TICKS = 2 };                           /* of SysTick in a second, as it has only 24 bits */

static dumpulse agent; /* zeros: no heartbeat has come yet */
static serial_window window;
static serial_ring ring;
static uint8_t outgoing[DUMPULSE_REPORT_SIZE];
static volatile uint16_t left; /* bytes of outgoing to send, with the one in the UART */
static volatile uint16_t seconds;
static volatile uint8_t ticks; /* it wraps at 256, which is a multiple of TICKS */

static void on_tick(void)
{
    ticks++;
    if (ticks % TICKS == 0)
        seconds++;
}

static void on_received(void)
{
    if (serial_full(&ring)) { /* the byte waits in the UART, which reports bytes that it loses */
        INTERRUPT_DISABLE = 1;
        return;
    }
    UART_INTERRUPT = RECEIVED;
    if (UART_STATE & OVERRUN) {
        UART_STATE = OVERRUN;
        serial_lose(&ring);
    }
    serial_put(&ring, (uint8_t)UART_DATA);
}

static void on_sent(void)
{
    UART_INTERRUPT = SENT;
    if (left != 0 && --left != 0) /* left is 0 if nothing was sent */
        UART_DATA = outgoing[sizeof outgoing - left];
}

uint16_t dumpulse_get_timestamp(void)
{
    return seconds;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context; /* there is only one line */
    if (left != 0)
        return; /* the last report is still going out, so the reader must ask again */
    for (size_t i = 0; i != length; i++)
        outgoing[i] = packet[i];
    left = (uint16_t)length;
    UART_DATA = outgoing[0];
}

static void start(void)
{
    /* When the watchdog reaches 0 for the first time, it causes an NMI, which does not return. At
     * the second time, after 2 s in all, it resets the chip. */
    DOG_LOAD = CLOCK;
    DOG_CONTROL = 3;
    TICK_LOAD = CLOCK / TICKS - 1;
    TICK_CONTROL = 7;
    UART_DIVIDER = (CLOCK + BAUD / 2) / BAUD;
    UART_CONTROL = 0xF; /* receives and sends, with interrupts */
    for (uint8_t fed = 0;;) {
        const uint8_t now = ticks;
        if (now != fed)
            DOG_LOAD = CLOCK; /* only here: it resets a chip whose loop or clock stands still */
        fed = now;
        INTERRUPT_ENABLE = 3; /* the ring has room again */
        __asm__ volatile("cpsid i" ::: "memory");
        if (serial_empty(&ring))
            __asm__ volatile("wfi"); /* an interrupt ends it, and runs when enabled */
        __asm__ volatile("cpsie i" ::: "memory");
        serial_serve(&agent, &window, &ring);
    }
}

/* ---------------------------------------------------------------- start-up */

extern uint32_t zeros_begin[], zeros_end[], stack_top[]; /* from the linker script */

static void reset(void)
{
    for (uint32_t *word = zeros_begin; word != zeros_end; word++)
        *word = 0;
    start();
}

static void fault(void) /* also for the watchdog's NMI; the watchdog then resets the chip */
{
    for (;;) {
    }
}

/* The core reads this table: where the stack begins, and what to call for each exception. */
__attribute__((section(".vectors"), used)) const struct {
    uint32_t *stack;
    void (*exceptions[15])(void);
    void (*interrupts[2])(void);
} vectors = {
    stack_top,
    {reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, fault, fault, 0, fault, on_tick},
    {on_received, on_sent},
};
