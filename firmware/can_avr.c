/* The agent on a CAN bus: an ATmega328P at 16 MHz with an MCP2515.   SPDX-License-Identifier: MIT
 *
 * SPEC.md, "Transport: CAN", has the identifiers. can_avr.md has the wiring, and how the controller
 * listens at first. Its filters stop the frames of others. Its interrupt puts frames into a queue,
 * and sends the report frame by frame. The loop takes packets from the queue, and sleeps when there
 * are none. Variable 0 is the agent's own: its timestamp is the current time, its value counts how
 * often the controller was off the bus, up to 255.
 *
 * With -DKEYED it uses version 2 of the protocol, which spec/keyed.md has. Then keyed_avr.c has the
 * keys, and the frame after a report's last one is a beacon, which leaves alone.
 */
#include <avr/pgmspace.h>
#include <string.h>
#include <util/delay.h>

#undef BAUD
#define BAUD 0 /* no serial line */
#include BOARD
#include "can.h"
#include "keyed.h"
#include "watch.h"

/* A bit has 16 parts, and is sampled after 14. If the crystal is too slow for that, it has 8, and
 * is sampled after 6. A part takes 2 * DIVIDER periods of the crystal. */
#define PARTS(mhz) ((mhz)*1000L >= 32L * CAN_KBITS ? 16 : 8)
#define DIVIDER(mhz) ((mhz)*1000L / (2L * PARTS(mhz) * CAN_KBITS))
#define CAN_DO(mhz)                                                                                \
    ((mhz)*1000L == 2L * PARTS(mhz) * CAN_KBITS * DIVIDER(mhz) && DIVIDER(mhz) <= 64)
#ifdef CAN_CRYSTAL /* MHz, of the controller */
enum { FIRST_CRYSTAL = CAN_CRYSTAL, SECOND_CRYSTAL = CAN_CRYSTAL };
#else /* the usual modules have 16 or 8, and the agent finds out which */
enum { FIRST_CRYSTAL = 16, SECOND_CRYSTAL = CAN_DO(8) ? 8 : 16 };
#endif
_Static_assert(CAN_DO(FIRST_CRYSTAL), "this crystal cannot do this bit rate");
enum { SELECT = PB2, MOSI = PB3, SCK = PB5, INTERRUPT = PD2 };
enum { QUEUE = 16, FRAME = 8, FRAMES = (SENT_SIZE + FRAME - 1) / FRAME, GIVEN_UP = FRAMES + 1 };
enum { REPORT_FRAMES = FRAMES - SENDS_BEACONS };
enum { LAST_LENGTH = (SENT_SIZE - 1) % FRAME + 1 };    /* bytes of the last frame of a report */
enum { REPORT_AT = 64, REQUESTS_AT = 128 - REQUESTS }; /* identifiers, from CAN_REPORTS */
enum { GIVE_UP = 2, REFRESH = 60 };                    /* s */
/* After a RESET the controller takes no SPI for 128 periods of its oscillator (data sheet, section
 * 8.1): 16 us at 8 MHz. We wait twice as long, in case the oscillators are wrong by some
 * percent. */
enum { HOLD_US = 256 / SECOND_CRYSTAL };
/* Instructions of the controller. */
enum { RESET = 0xC0, READ = 0x03, WRITE = 0x02, MODIFY = 0x05 };
enum { LOAD = 0x40, SEND = 0x81, READ_RX0 = 0x90, READ_RX1 = 0x94 };
/* Its registers, and bits of CANCTRL, CANINTF, EFLG, TXB0CTRL, RXBnCTRL, of SIDL and of DLC. */
enum { CANSTAT = 0x0E, CANCTRL = 0x0F, CANINTE = 0x2B, CANINTF = 0x2C, EFLG = 0x2D };
enum { TXB0CTRL = 0x30, RXB0CTRL = 0x60, RXB1CTRL = 0x70 };
enum { MODE = 0xE0, NORMAL = 0x00, LISTEN_ONLY = 0x60 };
enum { RX0IF = 0x01, RX1IF = 0x02, TX0IF = 0x04, ERRIF = 0x20, MERRF = 0x80 };
enum { OVERFLOWS = 0xC0, TXBO = 0x20, UNWELL = 0x38 }; /* off the bus; that, or passive */
enum { TXERR = 0x10, TXREQ = 0x08, RXM = 0x60, BUKT = 0x04 };
enum { SRR = 0x10, IDE = 0x08, RTR = 0x40 };

static keyed_agent keyed;
static volatile uint8_t bus_offs;

static uint8_t queue[QUEUE][FRAME];
static volatile uint8_t first, queued;

static uint8_t report[SENT_SIZE]; /* a copy: the table changes while it leaves */
/* FRAMES: no report leaves. GIVEN_UP: the last frame of a report that was given up may still
 * leave. */
static volatile uint8_t next_frame = FRAMES;
static volatile uint16_t report_began; /* seconds */
static bool asked_again;

static uint16_t settings_written; /* seconds */
/* Since then, the filters have let a foreign frame through, or a listening controller has received
 * an error. */
static volatile bool foreign;
/* No good frame has come since the reset; one has; and then the controller was in normal mode. */
enum { LISTENS, RECEIVED, JOINED };
static volatile uint8_t bus;
static bool is_second; /* the crystal */
/* While the cause of ERRIF lasts, it cannot be cleared (data sheet, section 7.7). Then it is masked
 * for a second, so that INT falls for frames, and the loop polls it while a report leaves. */
static volatile bool is_masked;
static bool is_off;

uint16_t dumpulse_get_timestamp(void)
{
    return board_time();
}

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

/* An identifier in the form of the registers SIDH, SIDL, EID8 and EID0. A mask has no IDE. */
#define STANDARD(id) ((uint32_t)(id) >> (CAN_EXTENDED ? 18 : 0))
#define EXTENSION(id) (CAN_EXTENDED ? (uint32_t)(id) % 0x40000 : 0)
#define REGISTERS(id, ide)                                                                         \
    (uint8_t)(STANDARD(id) >> 3), (uint8_t)(STANDARD(id) << 5 | (ide) | EXTENSION(id) >> 16),      \
        (uint8_t)(EXTENSION(id) >> 8), (uint8_t)EXTENSION(id)
#define FILTER(id) REGISTERS(id, CAN_EXTENDED ? IDE : 0)
#define MASK(id) REGISTERS(id, 0)

static const uint8_t base[] = {FILTER(CAN_BASE)};
#if CAN_REPORTS == CAN_BASE
#define reports base
#else
static const uint8_t reports[] = {FILTER(CAN_REPORTS)};
#endif

/* The values of the registers 0 to CANINTE. Heartbeats go to buffer 0, and from there to buffer 1
 * if buffer 0 is full. Requests go to buffer 1. */
enum { ROWS = 3, ROW = 12, NEXT_ROW = 16 };
/* From here on, registers can be read in all modes. Masks and filters come before; they read as 0,
 * except in configuration mode. */
enum { CNF3 = 0x28, CNF2, CNF1 };
#define CNF2_OF(mhz) (PARTS(mhz) == 16 ? 0xB5 : 0x91)
static const uint8_t settings[ROWS][NEXT_ROW] PROGMEM = {
    {FILTER(CAN_BASE), FILTER(CAN_BASE), FILTER(CAN_REPORTS + REQUESTS_AT)}, /* RXF0 to RXF2 */
    {FILTER(CAN_REPORTS + REQUESTS_AT), FILTER(CAN_REPORTS + REQUESTS_AT),
     FILTER(CAN_REPORTS + REQUESTS_AT)},                                        /* RXF3 to RXF5 */
    {MASK(0x1FFFFFFFUL - (REPORT_AT - 1)), MASK(0x1FFFFFFFUL - (REQUESTS - 1)), /* RXM0, RXM1 */
     0x01, CNF2_OF(FIRST_CRYSTAL), DIVIDER(FIRST_CRYSTAL) - 1,                  /* CNF3 to CNF1 */
     RX0IF | RX1IF | TX0IF | ERRIF},                                            /* CANINTE */
};

static uint8_t setting(uint8_t at)
{
    if (is_second && at == CNF2)
        return CNF2_OF(SECOND_CRYSTAL);
    if (is_second && at == CNF1)
        return DIVIDER(SECOND_CRYSTAL) - 1;
    return pgm_read_byte((const uint8_t *)settings + at);
}

/* Returns whether the registers from this one to the end of its row have their right values. */
static bool row_is_set(uint8_t at)
{
    bool same = true;

    begin(READ);
    exchange(at);
    for (; at % NEXT_ROW < ROW; at++)
        if (exchange(0) != setting(at))
            same = false;
    end();
    return same;
}

/* Returns whether all registers that can be read in all modes have their right values. */
static bool is_set(void)
{
    return row_is_set(CNF3) && (read_register(RXB0CTRL) & (RXM | BUKT)) == BUKT &&
           (read_register(RXB1CTRL) & RXM) == 0;
}

static uint8_t wanted_mode(void)
{
    return bus == LISTENS ? LISTEN_ONLY : NORMAL;
}

/* The controller goes to the bus only if all its settings are right. If not, the loop starts it
 * again a second later. If it has only received errors, its crystal is the other one. */
static void start_controller(void)
{
    is_second ^= foreign && bus == LISTENS;
    begin(RESET);
    end();
    _delay_us(HOLD_US);
    for (uint8_t row = 0; row < ROWS * NEXT_ROW; row = (uint8_t)(row + NEXT_ROW)) {
        begin(WRITE);
        exchange(row);
        for (uint8_t at = row; at < row + ROW; at++)
            exchange(setting(at));
        end();
    }
    modify(RXB0CTRL, BUKT, BUKT);
    if (row_is_set(0) && row_is_set(0x10) && row_is_set(0x20) && is_set())
        modify(CANCTRL, MODE, wanted_mode());
    next_frame = FRAMES;
    settings_written = seconds;
    foreign = false;
}

/* ---- The interrupt ---------------------------------------------------------------------- */

/* Moves a frame from a receive buffer to the queue, if it is a packet. Reading frees the buffer. */
static void take_frame(uint8_t instruction)
{
    uint8_t *packet = queue[(uint8_t)(first + queued) % QUEUE];

    begin(instruction);
    const uint8_t sidh = exchange(0);
    const uint8_t sidl = exchange(0);
    const uint8_t eid8 = exchange(0);
    const uint8_t eid0 = exchange(0);
    const uint8_t length = exchange(0);
    for (uint8_t i = 0; i < FRAME; i++)
        packet[i] = exchange(0);
    end();
    const uint8_t offset = (CAN_EXTENDED ? eid0 : sidh << 3 | sidl >> 5) & 0x7F;
    const uint8_t *from = offset < REPORT_AT ? base : reports;
    const bool based = CAN_EXTENDED ? sidh == from[0] && (sidl & ~SRR) == from[1] &&
                                          eid8 == from[2] && (eid0 & 0x80) == from[3]
                                    : (sidh & 0xF0) == from[0] && (sidl & IDE) == 0;
    const bool remote = CAN_EXTENDED ? (length & RTR) != 0 : (sidl & SRR) != 0;
    if (!based || (offset >= REPORT_AT && (offset | (REQUESTS - 1)) != 127))
        foreign = bus == JOINED; /* right filters would have stopped it */
    else if (!remote && (length & 0x0F) == FRAME)
        queued++;
}

static void send_frame(void)
{
    const uint8_t at = next_frame;
    const uint8_t length = at == FRAMES - 1 ? LAST_LENGTH : FRAME;
    const uint8_t offset = (uint8_t)(REPORT_AT + at);

    begin(LOAD);
    exchange((uint8_t)(reports[0] | (CAN_EXTENDED ? 0 : offset >> 3)));
    exchange((uint8_t)(reports[1] | (CAN_EXTENDED ? 0 : offset << 5)));
    exchange(reports[2]);
    exchange((uint8_t)(reports[3] | (CAN_EXTENDED ? offset : 0)));
    exchange(length);
    for (uint8_t i = 0; i < length; i++)
        exchange(report[(uint16_t)at * FRAME + i]);
    end();
    begin(SEND);
    end();
}

/* While it only listens, the controller takes all frames. It takes damaged ones, too, and then it
 * also sets MERRF. Damaged ones are dropped, and a good one lets the controller join the bus.
 * Returns the flags that are left. */
static uint8_t listen(uint8_t flags)
{
    if ((flags & MERRF) != 0) {
        modify(CANINTF, MERRF | RX0IF | RX1IF, 0);
        foreign = true;
        return 0;
    }
    if ((flags & (RX0IF | RX1IF)) != 0) {
        bus = RECEIVED;
        foreign = false;
        modify(CANCTRL, MODE, NORMAL);
    }
    return flags;
}

/* Serves each flag of the controller once. Its INT stays low until all are served. If the queue is
 * full, frames stay in the controller's buffers, and later ones are lost there. Interrupts are off.
 */
static void serve_controller(void)
{
    uint8_t flags = read_register(CANINTF);
    if (bus == LISTENS)
        flags = listen(flags);
    const bool room = queued <= QUEUE - 2;

    if (room && (flags & RX0IF) != 0)
        take_frame(READ_RX0);
    if (room && (flags & RX1IF) != 0)
        take_frame(READ_RX1);
    if ((flags & TX0IF) != 0) {
        modify(CANINTF, TX0IF, 0);
        if (next_frame < FRAMES && ++next_frame < REPORT_FRAMES)
            send_frame();
        else if (SENDS_BEACONS && next_frame == REPORT_FRAMES)
            next_frame = FRAMES;
    }
    if ((flags & ERRIF) != 0) { /* the controller returns to the bus by itself */
        const bool was_off = is_off;
        is_off = (read_register(EFLG) & TXBO) != 0;
        if (is_off && !was_off && bus_offs < UINT8_MAX)
            bus_offs++;
        modify(EFLG, OVERFLOWS, 0);
        modify(CANINTF, ERRIF, 0);
        modify(CANINTE, ERRIF, 0);
        is_masked = true;
    }
}

/* Runs when INT falls. If INT stays low, the loop goes on with the work, between its own tasks. */
ISR(INT0_vect)
{
    serve_controller();
}

/* ---- The agent -------------------------------------------------------------------------- */

/* One report or beacon leaves at a time. A request that comes meanwhile gets the next one. */
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    const bool is_beacon = SENDS_BEACONS && length == FRAME;

    (void)context;
    if (is_beacon) {
        if (next_frame != FRAMES || context != NULL)
            return;
    } else {
        asked_again = next_frame != FRAMES;
        if (asked_again)
            return;
    }
    memcpy(is_beacon ? report + SENT_SIZE - FRAME : report, packet, length);
    report_began = dumpulse_get_timestamp();
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        next_frame = is_beacon ? REPORT_FRAMES : 0;
        send_frame();
    }
}

bool keyed_may_send(void)
{
    return bus != LISTENS && next_frame == FRAMES;
}

static dumpulse_result process(const uint8_t *packet)
{
    dumpulse_record(&keyed.agent, 0, 1, bus_offs);
    return keyed_process(&keyed, packet);
}

/* Masks and filters cannot be read while the controller is on the bus. If they let too much
 * through, `foreign` shows it. In case they let too little through, we set them again each minute.
 * Then the controller is off the bus for 0.3 ms, and its error counters start at 0. So we wait
 * until the controller has nothing received and nothing to send, and is not passive. */
static bool needs_refresh(void)
{
    return (uint16_t)(seconds - settings_written) >= REFRESH && next_frame == FRAMES &&
           bit_is_set(PIND, INTERRUPT) && (read_register(EFLG) & UNWELL) == 0;
}

/* Runs once a second. It gives up a report that is not acknowledged. One that other nodes' frames
 * have delayed is begun again, from the table of that time: TXERR is not set (data sheet, register
 * 3-1). It starts the controller again if that has lost its settings, after a short loss of power
 * or a disturbance. It sees that the controller has joined the bus: all frames that come now have
 * passed the filters. A frame that is on the bus when its report is given up goes on to its end.
 * Its buffer may not be written until then, so the next report waits for the next second. */
static void look_after_controller(void)
{
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        if (next_frame == GIVEN_UP)
            next_frame = FRAMES;
        if (next_frame != FRAMES && (uint16_t)(seconds - report_began) >= GIVE_UP) {
            if (!SENDS_BEACONS && (read_register(TXB0CTRL) & TXERR) == 0)
                asked_again = true;
            modify(TXB0CTRL, TXREQ, 0);
            next_frame = GIVEN_UP;
        }
        modify(CANINTE, ERRIF, ERRIF);
        is_masked = false;
        const uint8_t mode = read_register(CANSTAT) & MODE;
        if (bus == RECEIVED && mode == NORMAL)
            bus = JOINED;
        if (foreign || mode != wanted_mode() || !is_set() || needs_refresh())
            start_controller();
    }
}

int main(void)
{
    static const uint8_t request[FRAME] = DUMPULSE_REQUEST;
    const uint8_t cause = board_reset_cause();
    uint16_t looked_after = 0;

    board_start();
    DDRB = _BV(SELECT) | _BV(MOSI) | _BV(SCK);
    PORTB = _BV(SELECT);
    PORTD = _BV(INTERRUPT);
    SPCR = _BV(SPE) | _BV(MSTR);
    SPSR = _BV(SPI2X); /* 8 MHz; the controller takes 10 */
    watch_start();
    keyed_start();
    record_boot(&keyed.agent, cause);
    start_controller();
    EICRA = _BV(ISC01);
    EIMSK = _BV(INT0);
    sei();
    for (;;) {
        const uint16_t now = dumpulse_get_timestamp();
        if (now != looked_after) {
            board_feed();
            look_after_controller();
            keyed_each_second(&keyed);
        }
        looked_after = now;
        bool received = false;
        if (queued != 0) {
            received = process(queue[first]) == DUMPULSE_HEARTBEAT;
            ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
            {
                first = (uint8_t)(first + 1) % QUEUE;
                queued--;
            }
        }
        if (asked_again && next_frame == FRAMES)
            process(request);
        keyed_go_on(&keyed);
        watch_nodes(&keyed.agent, received);
        cli();
        if (bit_is_clear(PIND, INTERRUPT) || (is_masked && next_frame < FRAMES)) {
            serve_controller();
        } else if (queued == 0) {
            sei(); /* works after the next instruction, so no interrupt can come in between */
            sleep_cpu();
        }
        sei();
    }
}
