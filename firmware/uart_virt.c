/* The agent on RISC-V, rv32imac, on QEMU's machine "virt".   SPDX-License-Identifier: MIT
 *
 * uart_virt.md says how to try it. The UART is a 16550, as on many chips. The timer and the
 * interrupt controller are those that RISC-V specifies. The start and the memory are in riscv.h and
 * riscv.ld.
 */
#include "riscv.h"
#include "serial_agent.h"

#define REGISTER8(address) (*(volatile uint8_t *)(address))
#define UART_DATA REGISTER8(0x10000000)
#define UART_INTERRUPTS REGISTER8(0x10000001)
#define UART_FORMAT REGISTER8(0x10000003)
#define UART_STATE REGISTER8(0x10000005)
#define TIME_LOW REGISTER(0x0200BFF8) /* at 10 MHz */
#define TIME_HIGH REGISTER(0x0200BFFC)
#define ALARM_LOW REGISTER(0x02004000)
#define ALARM_HIGH REGISTER(0x02004004)
#define PLIC_PRIORITY REGISTER(0x0C000000 + 4 * UART_SOURCE)
#define PLIC_ENABLE REGISTER(0x0C002000)
#define PLIC_CLAIM REGISTER(0x0C200004)
#define RESET REGISTER(0x00100000)

enum { UART_SOURCE = 10, TICK = 1250000, TICKS = 8 }; /* in a second */
enum { RECEIVED = 1 };                                /* a bit of UART_INTERRUPTS */
enum { READY = 0x01, OVERRUN = 0x02, ROOM = 0x20 };   /* bits of UART_STATE */
enum { DOG_TICKS = 16, RESET_MAGIC = 0x7777 };        /* 2 s */
enum { TIMER = 0x80, EXTERNAL = 0x800, ENABLE = 8 };  /* bits of mie and of mstatus */

#include "loop.h"

static volatile uint8_t hungry; /* ticks since it was fed: what the watchdog counts */

/* The clock has 64 bits, and is read in two halves. If its low half wraps between the two reads,
 * the halves do not belong together: then the high half has changed, and we read both again. */
static uint64_t now(void)
{
    uint32_t high, low;
    do {
        high = TIME_HIGH;
        low = TIME_LOW;
    } while (high != TIME_HIGH);
    return (uint64_t)high << 32 | low;
}

static volatile uint64_t due; /* the time of the next tick */
static void set_alarm(void)
{
    const uint64_t next = due + TICK;
    due = next;
    ALARM_HIGH = UINT32_MAX; /* no alarm while only one half is new */
    ALARM_LOW = (uint32_t)next;
    ALARM_HIGH = (uint32_t)(next >> 32);
}

/* The machine has no watchdog, so the clock does its work: it resets the machine if the loop hangs.
 * If the machine stood still, all ticks that it has missed come one after another before the loop
 * can run. Those ticks do not count for the watchdog. */
static void on_tick(void)
{
    set_alarm();
    count_tick();
    if (now() < due && ++hungry == DOG_TICKS)
        RESET = RESET_MAGIC;
}

static void on_uart(void)
{
    const uint32_t source = PLIC_CLAIM;
    const uint8_t state = UART_STATE;
    if (state & OVERRUN)
        serial_lose(&ring);
    if (serial_full(&ring)) /* the byte waits in the UART, which reports bytes that it loses */
        UART_INTERRUPTS = 0;
    else if (state & READY)
        serial_put(&ring, UART_DATA);
    PLIC_CLAIM = source;
}

__attribute__((interrupt, aligned(4))) static void trap(void)
{
    uint32_t cause;
    __asm__ volatile("csrr %0, mcause" : "=r"(cause));
    if (cause == 0x80000007)
        on_tick();
    else if (cause == 0x8000000B)
        on_uart();
    else
        RESET = RESET_MAGIC; /* a fault: start again */
}

static bool chip_send(uint8_t byte)
{
    if (!(UART_STATE & ROOM))
        return false;
    UART_DATA = byte;
    return true;
}

static void chip_feed(void)
{
    hungry = 0;
}

static void rest(void)
{
    __asm__ volatile("csrc mstatus, %0" ::"r"(ENABLE) : "memory");
    UART_INTERRUPTS = RECEIVED; /* the ring has room again */
    if (is_idle())
        __asm__ volatile("wfi"); /* an interrupt ends it, and runs when enabled */
    __asm__ volatile("csrs mstatus, %0" ::"r"(ENABLE) : "memory");
    const uint32_t time = TIME_LOW; /* read first: ticks that were missed come at once */
    if ((int32_t)(time - (uint32_t)due) > DOG_TICKS * TICK)
        RESET = RESET_MAGIC; /* the timer's interrupt is lost */
}

/* ---------------------------------------------------------------- start-up */

void begin(void)
{
    clear();
    __asm__ volatile("csrw mtvec, %0" ::"r"(trap));
    due = now();
    set_alarm();
    PLIC_PRIORITY = 1;
    PLIC_ENABLE = 1U << UART_SOURCE;
    __asm__ volatile("csrw mie, %0" ::"r"(TIMER | EXTERNAL));
    UART_FORMAT = 3; /* 8 data bits, no parity, 1 stop bit */
    loop();
}
