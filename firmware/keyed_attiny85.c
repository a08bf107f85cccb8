/* A node with keys on an ATtiny85, on a serial line.   SPDX-License-Identifier: MIT
 *
 * It sends a heartbeat each second. The value counts the seconds; replace it by what you measure.
 * keyed_attiny85.md says how to wire, flash and try it, and how to bring keys in. spec/keyed.md has
 * the frames. The line has 9600 baud, 8 data bits, no parity, 1 stop bit.
 *
 * It listens for its beacons, never sleeps, and writes nothing to the EEPROM. If the loop hangs,
 * the watchdog resets the chip.
 */
#include <avr/io.h>
#include <avr/wdt.h>

#include "eeprom.h"
#include "keyed_frame.h"

#ifndef BAUD
#define BAUD 9600UL
#endif
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

static dumpulse_node node; /* zeros: no epoch has begun yet */
static uint8_t variable;

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
    uint8_t last = (uint8_t) - (KEYED_FIRST + variable); /* so that the sum of all bytes is 0 */

    send_byte((uint8_t)-last);
    for (uint8_t i = 0; i != DUMPULSE_PACKET_SIZE; i++) {
        last = (uint8_t)(last - packet[i]);
        send_byte(packet[i]);
    }
    send_byte(last);
}

/* ---- Beacons --------------------------------------------------------------------------- */

enum { BEACON = KEYED_FIRST + 97 };
enum { BITS = 10 };   /* of a byte */
enum { FORGET = 30 }; /* questions; with epochs of 10 s, after 6 minutes */

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

/* Takes a byte from the line. Returns whether it ends a beacon of what is the epoch now. Others'
 * beacons of this epoch look the same, and their tags cannot be checked; but nobody else takes them
 * for the agent's. */
static bool take(uint8_t byte)
{
    static keyed_frame last;

    if (!keyed_frame_ends(&last, byte) || last.bytes[0] != BEACON)
        return false;
    last.length = 0;
    (void)dumpulse_hear(&node, variable, last.bytes + 1, DUMPULSE_PACKET_SIZE);
    return dumpulse_read_(last.bytes + 5) == node.epoch;
}

/* A beacon should come in each epoch of the agent, whose clock is another one. */
static uint16_t patience(void)
{
    uint8_t bytes[2];

    memory_read(bytes, memory.seconds, 2);
    const uint16_t seconds = (uint16_t)(bytes[0] | bytes[1] << 8);
    return seconds + seconds / 8 + 1;
}

/* For a second, listens. Timer 0 counts the bits. If no beacon has come for too long, asks for it.
 * After questions that nobody has answered, forgets its epoch: spec/keyed.md says why. */
static void pass_a_second(void)
{
    static uint16_t left_to_wait; /* seconds */
    static uint8_t questions;     /* without an answer */
    uint8_t question[DUMPULSE_PACKET_SIZE];

    if (left_to_wait == 0 && variable < DUMPULSE_VARIABLES) {
        left_to_wait = patience();
        if (++questions == FORGET)
            node = (dumpulse_node){0};
        dumpulse_ask(question, variable);
        send_frame(question);
    }
    left_to_wait--;
    for (uint16_t left = BAUD; left > BITS;) {
        if (TIFR & _BV(OCF0A)) {
            TIFR = _BV(OCF0A);
            left--;
        }
        if (bit_is_clear(PINB, IN)) {
            left -= BITS;
            if (take(receive_byte())) {
                left_to_wait = patience();
                questions = 0;
            }
        }
    }
}

int main(void)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

#ifdef CALIBRATION
    OSCCAL = CALIBRATION; /* of this chip's oscillator; README.md, "Fuses" */
#endif
    MCUSR = 0;            /* or the watchdog keeps its shortest time after it has reset the chip */
    PORTB = (uint8_t)~0U; /* the line rests high; open pins have pull-ups */
    DDRB = _BV(OUT);
    TCCR0A = _BV(WGM01); /* the timer starts again after each bit */
    TCCR0B = _BV(CS01);  /* clock / 8 */
    OCR0A = BIT - 1;
    memory_read(&variable, &memory.variable, 1);
    wdt_enable(WDTO_2S);
    for (uint8_t beat = 0;; beat++) {
        pass_a_second();
        wdt_reset(); /* only here */
        if (dumpulse_keyed_heartbeat(&node, packet, variable, SENDER, beat))
            send_frame(packet);
    }
}
