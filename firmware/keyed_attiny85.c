/* A node with keys on an ATtiny85, on a serial line.   SPDX-License-Identifier: MIT
 *
 * It sends a heartbeat each second. The value counts the seconds; replace it by what you measure.
 * keyed_attiny85.md says how to wire, flash and try it, and how to bring keys in. spec/keyed.md has
 * the frames. The line has 9600 baud, 8 data bits, no parity, 1 stop bit.
 *
 * It listens for its beacons, never sleeps, and writes nothing to the EEPROM. If the loop hangs,
 * the watchdog resets the chip.
 */
#ifndef BAUD
#define BAUD 9600UL
#endif
#include "boards/avr.h"
#include "eeprom.h"
#include "keyed_frame.h"

#ifndef SENDER
#define SENDER 7
#endif
enum { IN = PB2, OUT = PB1, BIT = (F_CPU / 8 + BAUD / 2) / BAUD }; /* counts of timer 0: 104 */
enum { KEY = 16 };
_Static_assert(BIT >= 40 && BIT <= 256, "timer 0 cannot do this baud rate at this clock");

/* The EEPROM, from its first byte on. `make eeprom` writes a file with it. */
static struct {
    uint8_t variable;
    uint8_t key[KEY];   /* of the variable */
    uint8_t seconds[2]; /* of an epoch of the agent, the low byte first */
} memory EEMEM
#ifdef DUMPULSE_KEY_OWN
    = {DUMPULSE_KEY_VARIABLE,
       DUMPULSE_KEY_OWN,
       {DUMPULSE_EPOCH_SECONDS % 256, DUMPULSE_EPOCH_SECONDS / 256}}
#endif
;

enum { UNITS = 8 };        /* of time, in a second */
static dumpulse_node node; /* zeros: no epoch has begun yet */
static dumpulse_pace pace = {.period = UNITS, .sender = SENDER};

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    (void)label;
    memory_read(key, memory.key, KEY);
}

/* ---- The line ---------------------------------------------------------------------------- */

static void wait_for_bit(void)
{
    TIFR = _BV(OCF0A);
    loop_until_bit_is_set(TIFR, OCF0A);
}

static void send_byte(uint8_t byte)
{
    for (uint16_t bits = (uint16_t)(0x200U | byte * 2U); bits != 0; bits >>= 1) {
        wait_for_bit();
        if (bits & 1U)
            PORTB |= _BV(OUT);
        else
            PORTB &= (uint8_t)~_BV(OUT);
    }
}

static void send_frame(const uint8_t *packet)
{
    uint8_t last =
        (uint8_t) - (KEYED_FIRST + pace.variable); /* so that the sum of all bytes is 0 */

    send_byte((uint8_t)-last);
    for (uint8_t i = 0; i != DUMPULSE_PACKET_SIZE; i++) {
        last = (uint8_t)(last - packet[i]);
        send_byte(packet[i]);
    }
    send_byte(last);
}

/* ---- Beacons --------------------------------------------------------------------------- */

enum { BEACON = KEYED_FIRST + 97 };
enum { BITS = 10 }; /* of a byte */

/* A start bit has begun: takes the byte. Each bit is read at its middle. */
static uint8_t receive_byte(void)
{
    uint8_t byte = 0;

    TCNT0 = BIT / 2;
    wait_for_bit(); /* the middle of the start bit */
    for (uint8_t i = 0; i != 8; i++) {
        wait_for_bit();
        byte >>= 1;
        if (PINB & _BV(IN))
            byte |= 0x80;
    }
    wait_for_bit(); /* the stop bit */
    return byte;
}

/* For a unit of time, listens. Timer 0 counts the bits. */
static void listen(void)
{
    static keyed_frame last;
    static int16_t left; /* bits, until the unit ends */

    for (left += (int16_t)(BAUD / UNITS); left > 0;) {
        if (TIFR & _BV(OCF0A)) {
            TIFR = _BV(OCF0A);
            left--;
        }
        if (bit_is_set(PINB, IN))
            continue;
        left -= BITS;
        if (keyed_frame_ends(&last, receive_byte()) && last.bytes[0] == BEACON) {
            last.length = 0;
            (void)dumpulse_hear(&node, pace.variable, last.bytes + 1, DUMPULSE_PACKET_SIZE);
        }
    }
}

int main(void)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    (void)board_reset_cause(); /* its key is for one variable, which its boots are not */
    calibrate();
    PORTB = (uint8_t)~0U; /* the line rests high; open pins have pull-ups */
    DDRB = _BV(OUT);
    TCCR0A = _BV(WGM01); /* the timer starts again after each bit */
    TCCR0B = _BV(CS01);  /* clock / 8 */
    OCR0A = BIT - 1;
    memory_read(&pace.variable, &memory.variable, 1);
    memory_read(packet, memory.seconds, 2);
    pace.epoch = (uint16_t)((packet[0] | packet[1] << 8) * UNITS);
    start_watchdog(WDTO_2S);
    for (uint16_t now = 0;; now++) {
        while (pace.variable < DUMPULSE_VARIABLES &&
               dumpulse_node_tick(&node, &pace, now, (uint8_t)(now / UNITS), packet))
            send_frame(packet);
        listen();
        board_feed(); /* only here */
    }
}
