/* What boards with a Cortex-M share: how a program starts, its clock and its interrupts.
 *                                                           SPDX-License-Identifier: MIT
 * An interrupt counts ticks, and one gives the bytes that come to the ring. None sends: the loop
 * sends a packet from a copy, so only the loop writes what is to be sent. The header of a board
 * defines UART_IRQ and IRQS, the length of its table, and includes this file. A program without a
 * serial line defines BAUD as 0, and IRQS and INTERRUPTS itself. Link with cortex_m.ld.
 */
#ifndef CORTEX_M_H
#define CORTEX_M_H

#include "reset.h"
#include "serial.h"

/* Of the interrupt controller, NVIC: a bit for each interrupt. */
#define IRQ_ENABLE(irq) (0xE000E100 + (irq) / 32 * 4)
#define IRQ_DISABLE(irq) (0xE000E180 + (irq) / 32 * 4)
#define REGISTER(address) (*(volatile uint32_t *)(address))

#ifndef BAUD
#define BAUD 115200
#endif
#ifndef PACKET_SIZE
#define PACKET_SIZE DUMPULSE_REPORT_SIZE /* bytes of each packet that is sent */
#endif
#ifndef TICKS
#define TICKS 2 /* ticks per second; SysTick counts only 24 bits */
#endif
_Static_assert(65536 % TICKS == 0, "ticks wraps in the middle of a second");

typedef struct setting {
    uint32_t address, value;
} setting;

/* Writes these values to registers, in this order. A table is smaller than instructions. */
static inline void set_registers(const setting *at, size_t count)
{
    for (const setting *const end = at + count; at != end; at++)
        REGISTER(at->address) = at->value;
}
#define SET_REGISTERS(table) set_registers(table, sizeof(table) / sizeof(table)[0])

static volatile uint16_t ticks, seconds;

static inline void count_tick(void)
{
    const uint16_t now = (uint16_t)(ticks + 1U);
    ticks = now;
    if (now % TICKS == 0)
        seconds++;
}

static inline uint8_t board_ticks(void)
{
    return (uint8_t)ticks;
}

static inline uint16_t board_time(void)
{
    return seconds;
}

#if BAUD
static serial_ring ring;

static uint8_t outgoing[PACKET_SIZE];
static uint16_t left; /* bytes of it that are still to be sent */

static inline bool board_transmits(void)
{
    return left != 0;
}

/* Sends the last bytes of outgoing. The board must not be transmitting. */
static inline void board_send(uint16_t length)
{
    left = length;
}

/* Sends a packet of PACKET_SIZE bytes. */
static inline void board_transmit(const uint8_t *packet, size_t length)
{
    if (board_transmits())
        return; /* the last packet is still leaving, so the reader must poll again */
    for (size_t i = 0; i != length; i++)
        outgoing[i] = packet[i];
    board_send((uint16_t)length);
}

static inline void uart_receive(void); /* clears the interrupt, and gives the byte to the ring */
static inline bool uart_send(uint8_t byte); /* false: the UART has no room yet */

static inline void serve_uart(void)
{
    if (serial_full(&ring)) /* the byte waits in the UART, which reports bytes that it loses */
        REGISTER(IRQ_DISABLE(UART_IRQ)) = 1U << UART_IRQ % 32;
    else
        uart_receive();
}

/* Sends the next byte, if there is room, and lets in a byte that had to wait. */
static inline void serve_line(void)
{
    if (left != 0 && uart_send(outgoing[sizeof outgoing - left]))
        left--;
    REGISTER(IRQ_ENABLE(UART_IRQ)) = 1U << UART_IRQ % 32;
}
#endif

#define TICK_CONTROL REGISTER(0xE000E010) /* SysTick */
#define TICK_LOAD REGISTER(0xE000E014)
#define TICK_VALUE REGISTER(0xE000E018) /* random after a reset; if it is written, it becomes 0 */

static inline void start_ticks(uint32_t hertz)
{
    TICK_LOAD = hertz / TICKS - 1;
    TICK_VALUE = 0;
    TICK_CONTROL = 7;
}

static void on_tick(void)
{
    count_tick();
}

/* Sleeps until an interrupt, if the loop has nothing to do. */
static inline void sleep_if(bool (*is_idle)(void))
{
    __asm__ volatile("cpsid i" ::: "memory");
    if (is_idle())
        __asm__ volatile("wfi"); /* an interrupt ends it, and runs when enabled */
    __asm__ volatile("cpsie i" ::: "memory");
}

#if BAUD
static void on_uart(void)
{
    serve_uart();
}

static inline bool line_is_idle(void)
{
    return serial_empty(&ring) && left == 0;
}

static inline void board_rest(void)
{
    serve_line();
    sleep_if(line_is_idle);
}
#define INTERRUPTS [UART_IRQ] = on_uart
#endif

extern uint32_t zeros_begin[], zeros_end[], stack_top[]; /* the linker script defines these */
__attribute__((noreturn)) int main(void);

static __attribute__((noreturn)) void reset(void)
{
    for (uint32_t *word = zeros_begin; word != zeros_end; word++)
        *word = 0;
    (void)main();
}

static void fault(void) /* also for an NMI; the watchdog then resets the chip */
{
    for (;;) {
    }
}

#ifdef TIMER_IRQ /* the chip has no SysTick */
static void on_timer(void);
#define SYSTICK 0
#define OTHERS , [TIMER_IRQ] = on_timer
#else
#define SYSTICK on_tick
#define OTHERS
#endif

/* The core reads this table: where the stack begins, and what to call for each exception. */
__attribute__((section(".vectors"), used)) const struct {
    uint32_t *stack;
    void (*exceptions[15])(void);
    void (*interrupts[IRQS])(void);
} vectors = {
    stack_top,
    {reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, fault, fault, 0, fault, SYSTICK},
    {INTERRUPTS OTHERS},
};

#endif /* CORTEX_M_H */
