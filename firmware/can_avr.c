/* The agent on a CAN bus: an ATmega328P at 16 MHz with an MCP2515.   SPDX-License-Identifier: MIT
 *
 * SPEC.md, "Transport: CAN", has the identifiers; firmware/can_avr.md the wiring. The controller's filters
 * keep other traffic away. Its interrupt moves frames into a queue, and the report out one by one;
 * the loop takes packets from the queue, and sleeps.
 * Variable 0 is the agent's own: its time is now, its value how often the bus was off, up to 255.
 */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include <avr/wdt.h>
#include <string.h>
#include <util/atomic.h>

#include "dumpulse.h"

#ifndef CAN_BASE
#define CAN_BASE 0x680 /* a multiple of 128 */
#endif
#ifndef CAN_EXTENDED
#define CAN_EXTENDED 0 /* 1: identifiers have 29 bits */
#endif

enum { SELECT = PB2, MOSI = PB3, SCK = PB5, INTERRUPT = PD2 };
enum { QUEUE = 16, FRAME = 8, FRAMES = 33, REPORT_AT = 64, REQUEST_AT = 127, GIVE_UP = 2 /* s */ };
enum {
    RESET = 0xC0,
    READ = 0x03,
    WRITE = 0x02,
    MODIFY = 0x05,
    LOAD = 0x40,
    SEND = 0x81,
    READ_RX0 = 0x90,
    READ_RX1 = 0x94
}; /* instructions */
enum {
    RXF0 = 0x00,
    RXF1 = 0x04,
    RXF2 = 0x08,
    RXF3 = 0x10,
    RXF4 = 0x14,
    RXF5 = 0x18,
    RXM0 = 0x20,
    RXM1 = 0x24,
    CNF3 = 0x28,
    CANSTAT = 0x0E,
    CANCTRL = 0x0F,
    CANINTF = 0x2C,
    EFLG = 0x2D,
    TXB0CTRL = 0x30,
    RXB0CTRL = 0x60
}; /* registers */
enum {
    RX0IF = 0x01,
    RX1IF = 0x02,
    TX0IF = 0x04,
    ERRIF = 0x20,
    TXREQ = 0x08,
    TXBO = 0x20,
    OVERFLOWS = 0xC0,
    BUKT = 0x04,
    SRR = 0x10,
    IDE = 0x08,
    RTR = 0x40,
    MODE = 0xE0
}; /* bits */

static dumpulse agent;
static volatile uint16_t seconds;
static volatile uint8_t bus_offs;

static uint8_t queue[QUEUE][FRAME];
static volatile uint8_t first, queued;

static uint8_t report[DUMPULSE_REPORT_SIZE]; /* a copy: the table changes while it leaves */
static volatile uint8_t next_frame = FRAMES; /* FRAMES: none is leaving */
static volatile uint16_t begun;
static bool asked_again;

/* ---- The controller --------------------------------------------------------------------- */

static uint8_t exchange(uint8_t byte)
{
    SPDR = byte;
    loop_until_bit_is_set(SPSR, SPIF);
    return SPDR;
}

static void begin(uint8_t instruction)
{
    PORTB &= (uint8_t)~_BV(SELECT);
    exchange(instruction);
}

static void end(void)
{
    PORTB |= _BV(SELECT);
}

static uint8_t read_register(uint8_t address)
{
    begin(READ);
    exchange(address);
    const uint8_t value = exchange(0);
    end();
    return value;
}

static void modify(uint8_t address, uint8_t mask, uint8_t value)
{
    begin(MODIFY);
    exchange(address);
    exchange(mask);
    exchange(value);
    end();
}

static void put_identifier(uint32_t id)
{
    const uint16_t standard = (uint16_t)(CAN_EXTENDED ? id >> 18 : id);

    exchange((uint8_t)(standard >> 3));
    exchange((uint8_t)((standard << 5) | (CAN_EXTENDED ? IDE | (id >> 16 & 3) : 0)));
    exchange(CAN_EXTENDED ? (uint8_t)(id >> 8) : 0);
    exchange(CAN_EXTENDED ? (uint8_t)id : 0);
}

static void set_identifier(uint8_t address, uint32_t id)
{
    begin(WRITE);
    exchange(address);
    put_identifier(id);
    end();
}

static void start_controller(void)
{
    static const uint8_t request_filters[] = {RXF2, RXF3, RXF4, RXF5};
    static const uint8_t settings[] = {
        0x01, 0xB5, 0x00,             /* CNF3 to CNF1: 500 kbit/s of 16 MHz, sampled at 87.5 % */
        RX0IF | RX1IF | TX0IF | ERRIF /* CANINTE */
    };

    begin(RESET);
    end();
    /* Heartbeats to buffer 0, which rolls over; requests to buffer 1. */
    set_identifier(RXM0, 0x1FFFFFFFUL - (REPORT_AT - 1));
    set_identifier(RXF0, CAN_BASE);
    set_identifier(RXF1, CAN_BASE);
    set_identifier(RXM1, 0x1FFFFFFFUL);
    for (uint8_t i = 0; i < sizeof request_filters; i++)
        set_identifier(request_filters[i], CAN_BASE + REQUEST_AT);
    modify(RXB0CTRL, BUKT, BUKT);
    begin(WRITE);
    exchange(CNF3);
    for (uint8_t i = 0; i < sizeof settings; i++)
        exchange(settings[i]);
    end();
    modify(CANCTRL, MODE, 0); /* normal */
    next_frame = FRAMES;
}

/* ---- The interrupt ---------------------------------------------------------------------- */

/* From a receive buffer to the queue, if it is a packet. Reading it frees the buffer. */
static void take_frame(uint8_t instruction)
{
    uint8_t *packet = queue[(uint8_t)(first + queued) % QUEUE];

    begin(instruction);
    exchange(0);
    const uint8_t low = exchange(0);
    exchange(0);
    exchange(0);
    const uint8_t length = exchange(0);
    for (uint8_t i = 0; i < FRAME; i++)
        packet[i] = exchange(0);
    end();
    const bool remote = CAN_EXTENDED ? (length & RTR) != 0 : (low & SRR) != 0;
    if (!remote && (length & 0x0F) == FRAME)
        queued++;
}

static void send_frame(void)
{
    const uint8_t at = next_frame;
    const uint8_t length = at == FRAMES - 1 ? DUMPULSE_REPORT_SIZE % FRAME : FRAME;

    begin(LOAD);
    put_identifier((uint32_t)(CAN_BASE + REPORT_AT + at));
    exchange(length);
    for (uint8_t i = 0; i < length; i++)
        exchange(report[(uint16_t)at * FRAME + i]);
    end();
    begin(SEND);
    end();
}

/* One round of what the controller wants: its INT is low until all has been done. With a full
 * queue frames stay in its buffers, and then get lost there. Interrupts are off. */
static void serve_controller(void)
{
    const uint8_t flags = read_register(CANINTF);
    const bool room = queued <= QUEUE - 2;

    if (room && (flags & RX0IF) != 0)
        take_frame(READ_RX0);
    if (room && (flags & RX1IF) != 0)
        take_frame(READ_RX1);
    if ((flags & TX0IF) != 0) {
        modify(CANINTF, TX0IF, 0);
        if (next_frame < FRAMES && ++next_frame < FRAMES)
            send_frame();
    }
    if ((flags & ERRIF) != 0) { /* the controller comes back to the bus by itself */
        if ((read_register(EFLG) & TXBO) != 0 && bus_offs < UINT8_MAX)
            bus_offs++;
        modify(EFLG, OVERFLOWS, 0);
        modify(CANINTF, ERRIF, 0);
    }
}

/* Comes when INT falls. While it stays low, the loop goes on, and has its turn in between. */
ISR(INT0_vect)
{
    serve_controller();
}

ISR(TIMER1_COMPA_vect)
{
    seconds++;
}

/* ---- The agent -------------------------------------------------------------------------- */

uint16_t dumpulse_get_timestamp(void)
{
    uint16_t now;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        now = seconds;
    }
    return now;
}

/* One report leaves at a time; who asks meanwhile gets the next one. */
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context;
    asked_again = next_frame != FRAMES;
    if (asked_again)
        return;
    memcpy(report, packet, length);
    begun = dumpulse_get_timestamp();
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        next_frame = 0;
        send_frame();
    }
}

static void process(const uint8_t *packet)
{
    dumpulse_record(&agent, 0, 1, bus_offs);
    dumpulse_process_packet(&agent, packet, FRAME, NULL);
}

/* Once a second: a report that nobody takes is given up, and a controller that has lost its
 * settings (a short loss of its power) gets them again. */
static void look_after_controller(void)
{
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        if (next_frame != FRAMES && (uint16_t)(seconds - begun) >= GIVE_UP) {
            modify(TXB0CTRL, TXREQ, 0);
            next_frame = FRAMES;
        }
        if ((read_register(CANSTAT) & MODE) != 0)
            start_controller();
    }
}

int main(void)
{
    static const uint8_t request[FRAME] = DUMPULSE_REQUEST;
    uint16_t looked_after = 0;

    wdt_enable(WDTO_2S);
    DDRB = _BV(SELECT) | _BV(MOSI) | _BV(SCK);
    PORTB = _BV(SELECT);
    PORTD = _BV(INTERRUPT);
    SPCR = _BV(SPE) | _BV(MSTR);
    SPSR = _BV(SPI2X); /* 8 MHz; the controller takes 10 */
    TCCR1B = _BV(WGM12) | _BV(CS12) | _BV(CS10);
    OCR1A = 15624; /* 16 MHz / 1024 / 15,625: once a second */
    TIMSK1 = _BV(OCIE1A);
    start_controller();
    EICRA = _BV(ISC01);
    EIMSK = _BV(INT0);
    sei();
    for (;;) {
        const uint16_t now = dumpulse_get_timestamp();
        if (now != looked_after)
            look_after_controller();
        looked_after = now;
        if (queued != 0) {
            process(queue[first]);
            ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
            {
                first = (uint8_t)(first + 1) % QUEUE;
                queued--;
            }
        }
        if (asked_again && next_frame == FRAMES)
            process(request);
        wdt_reset(); /* the loop has come round: it does at least once a second */
        cli();
        if (bit_is_clear(PIND, INTERRUPT)) {
            serve_controller();
        } else if (queued == 0) {
            sleep_enable();
            sei(); /* takes effect after the next instruction: no interrupt is slept through */
            sleep_cpu();
            sleep_disable();
        }
        sei();
    }
}
