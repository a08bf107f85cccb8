/* The keys of an agent on an AVR, and its number. keyed_agent.c is the rest.
 *                                                       SPDX-License-Identifier: MIT
 *
 * can_avr.md describes how to bring keys in. The EEPROM takes 3.4 ms for each byte, and on a CAN
 * bus 15 frames can come in this time. So an interrupt writes the bytes, and the loop goes on: if
 * the number of the next block of epochs is not there yet, the epoch lasts a moment longer. Only
 * after a reset does the agent wait for its EEPROM.
 */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <string.h>

#include "eeprom.h"
#include "keyed.h"

enum { LABELS = DUMPULSE_READER_LABEL + 1 };
/* Timer 0 has 65 turns in a second: so an epoch has 10 seconds, less 0.16 %. */
enum { TURN = 240 };
enum { LED = PC5 }; /* an Uno's A5 */
enum { SLOTS = 2 * DUMPULSE_SLOT_SIZE };
/* The EEPROM, from its first byte on, as `client.py key eeprom` makes it. With a number from the
 * date, an agent that replaces another one uses none of its epochs again, until 2079:
 * spec/keyed.md, "Replacing". */
static struct {
    uint8_t key[16];             /* the master key */
    uint8_t block[SLOTS];        /* the block of epochs */
    uint8_t generations[LABELS]; /* generation of each label's key */
} memory EEMEM;

/* ---- The number that survives a reset ---------------------------------------------------- */

static uint8_t slot[DUMPULSE_SLOT_SIZE];
static uint8_t *slot_at;      /* where its next byte goes */
static volatile uint8_t left; /* bytes of it that are not written yet */

static bool is_writing(void)
{
    return (EECR & (_BV(EERIE) | _BV(EEPE))) != 0;
}

/* The EEPROM can take the next byte, or has written the last one. */
ISR(EE_READY_vect)
{
    if (left == 0) {
        EECR = 0;
        return;
    }
    EEAR = (uint16_t)slot_at++;
    EEDR = slot[DUMPULSE_SLOT_SIZE - left--];
    EECR |= _BV(EEMPE);
    EECR |= _BV(EEPE); /* within 4 cycles */
}

uint32_t dumpulse_load(void)
{
    uint8_t copy[SLOTS];

    memory_read(copy, memory.block, SLOTS);
    return dumpulse_slots_read(copy);
}

/* Returns whether this number is stored. If not, it begins to write it, if nothing is being
 * written. */
static bool is_stored(uint32_t number)
{
    uint8_t copy[SLOTS];

    if (is_writing())
        return false;
    memory_read(copy, memory.block, SLOTS);
    if (dumpulse_slots_read(copy) == number)
        return true;
    slot_at = memory.block + dumpulse_slots_write(copy, slot, number);
    left = DUMPULSE_SLOT_SIZE;
    EECR = _BV(EERIE);
    return false;
}

/* After a reset, this waits for a byte that is being written, for this number, and once more if it
 * cannot be read. Later, the agent tries again in its next turn. */
bool dumpulse_store(uint32_t number)
{
    uint8_t times = keyed_has_begun ? 0 : 3;

    while (!is_stored(number)) {
        if (times-- == 0)
            return false;
        while (is_writing()) {
        }
    }
    return true;
}

/* ---- Keys -------------------------------------------------------------------------------- */

/* The EEPROM cannot be read while it is being written: so these are copies. */
static uint8_t key[16], generations[LABELS];

void dumpulse_get_key(uint8_t to[16], uint8_t label)
{
    memcpy(to, key, sizeof key);
    dumpulse_label_key(to, label, generations[label]);
}

void keyed_start(void)
{
    memory_read(key, memory.key, sizeof key);
    memory_read(generations, memory.generations, LABELS);
    TCCR0A = _BV(WGM01);
    TCCR0B = _BV(CS02) | _BV(CS00); /* clock / 1024 */
    OCR0A = TURN - 1;
    TIMSK0 = _BV(OCIE0A);
    DDRC |= _BV(LED);
}

static volatile uint8_t turns; /* periods of timer 0, modulo 256 */

ISR(TIMER0_COMPA_vect)
{
    turns++;
}

uint8_t keyed_turns(void)
{
    return turns;
}

void keyed_show(bool is_lit)
{
    if (is_lit)
        PORTC |= _BV(LED);
    else
        PORTC &= (uint8_t)~_BV(LED);
}
