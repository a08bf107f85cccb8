/* The keys of an agent on an AVR, and its numbers, which survive a reset.
 *                                                       SPDX-License-Identifier: MIT
 *
 * can_avr.md says how to bring keys in, and what to know. spec/keyed.md has version 2 of the
 * protocol. This file is only what keys add to an agent: can_avr.c and keyed_atmega328p.c hear the
 * nodes.
 *
 * The EEPROM takes 3.4 ms for each byte, and on a CAN bus 15 frames can come in this time. So an
 * interrupt writes the bytes, and the loop goes on:
 *   - If the number of the next block of epochs is not there yet, the epoch lasts a moment longer.
 *   - The first heartbeat after an announce waits until the number of the announce is there.
 * Only after a reset does the agent wait for its EEPROM.
 *
 * A beacon has to wait while a report, or another beacon, leaves. So each label has a bit here.
 */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <string.h>

#include "eeprom.h"
#include "keyed.h"

enum { ALONE = 32 }; /* variables from 0 on whose nodes may only send */
enum { LABELS = DUMPULSE_READER_LABEL + 1, IS_REQUEST = 0x80 + DUMPULSE_READER_LABEL };
/* Timer 0 has 65 turns in a second, and each tenth one begins the epoch of a label: so an epoch of
 * all labels has 10 seconds, less 0.16 %. */
enum { TURN = 240, TURNS = 10 };
/* In each turn, one question or refused request may be answered, and after a pause some at once.
 * This is less than 100 in any second. */
enum { MOST_ANSWERS = 16 };

#define NONE NUMBER(0L)
#define EIGHT NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE
_Static_assert(ALONE == 32, "the EEPROM has another number of variables at first");
/* The EEPROM, from its first byte on. `make eeprom` writes a file with it. */
static struct {
    uint8_t key[16]; /* the master key */
    uint8_t block[SLOTS];
    uint8_t own[ALONE][SLOTS];   /* of the variables of nodes that only send */
    uint8_t generations[LABELS]; /* of each label's key */
} memory EEMEM
#ifdef SINCE_2020
    = {DUMPULSE_KEY_MASTER,
       NUMBER(FIRST_BLOCK),
       {EIGHT, EIGHT, EIGHT, EIGHT},
       DUMPULSE_KEY_GENERATIONS}
#endif
;

static bool has_begun;

/* ---- Numbers that survive a reset -------------------------------------------------------- */

static uint8_t slot[DUMPULSE_SLOT_SIZE];
static uint8_t *slot_at;      /* where its next byte goes */
static volatile uint8_t left; /* how many of its bytes are not written yet */

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

static uint8_t *slots_of(uint8_t label)
{
    return label == DUMPULSE_BLOCK ? memory.block : memory.own[label];
}

uint32_t dumpulse_load(uint8_t label)
{
    uint8_t copy[SLOTS];

    memory_read(copy, slots_of(label), SLOTS);
    return dumpulse_slots_read(copy);
}

/* A bit for each variable of which a number was written in this second. Whoever has opened a node
 * must not keep the EEPROM busy: then no other number could be stored. */
static uint8_t wrote[ALONE / 8];

/* Is this number stored? If not, this begins to write it, if nothing else is being written. */
static bool is_stored(uint8_t label, uint32_t number)
{
    uint8_t copy[SLOTS];
    const uint8_t bit = (uint8_t)(1U << label % 8);

    if (is_writing())
        return false;
    memory_read(copy, slots_of(label), SLOTS);
    if (dumpulse_slots_read(copy) == number)
        return true;
    if (label != DUMPULSE_BLOCK) {
        if ((wrote[label / 8] & bit) != 0)
            return false;
        wrote[label / 8] |= bit;
    }
    slot_at = slots_of(label) + dumpulse_slots_write(copy, slot, number);
    left = DUMPULSE_SLOT_SIZE;
    EECR = _BV(EERIE);
    return false;
}

/* After a reset, this waits for another number, for this one, and once more if it cannot be read.
 * Later, whoever wants to store the number tries again. */
bool dumpulse_store(uint8_t label, uint32_t number)
{
    uint8_t times = has_begun ? 0 : 3;

    while (!is_stored(label, number)) {
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
}

/* ---- Beacons ----------------------------------------------------------------------------- */

static volatile uint8_t turns;       /* of timer 0 */
static uint8_t answers;              /* so many may be given now */
static uint8_t owed[LABELS / 8 + 1]; /* a bit for each label whose beacon still has to leave */
static bool owes;                    /* perhaps one */

ISR(TIMER0_COMPA_vect)
{
    turns++;
}

static void owe(uint8_t label)
{
    owed[label / 8] = (uint8_t)(owed[label / 8] | 1U << label % 8);
    owes = true;
}

/* Sends one of them. */
static void send_owed(const keyed_agent *keyed)
{
    for (uint8_t label = 0; label != LABELS; label++) {
        const uint8_t bit = (uint8_t)(1U << label % 8);
        if ((owed[label / 8] & bit) != 0) {
            owed[label / 8] &= (uint8_t)~bit;
            dumpulse_keyed_beacon(keyed, label, NULL);
            return;
        }
    }
    owes = false;
}

/* Begins the epoch of the next label. This does not wait until its beacon can leave: otherwise
 * somebody who disturbs the bus could make an epoch longer, and what is of it would be taken later
 * than it may be. */
static void begin_next(keyed_agent *keyed)
{
    if (!keyed_may_send())
        owe(keyed->reached == LABELS ? 0 : keyed->reached);
    (void)dumpulse_keyed_next(keyed, NULL);
}

static void pass_turn(keyed_agent *keyed)
{
    static uint8_t passed, left_of_label = TURNS;

    if (passed == turns)
        return;
    passed++;
    if (answers != MOST_ANSWERS)
        answers++;
    if (--left_of_label == 0) {
        left_of_label = TURNS;
        begin_next(keyed);
    }
}

/* When junk begins, all labels begin an epoch as soon as there is time. Otherwise nodes would not
 * know for up to 10 seconds that they have to send twice, and nothing of them would be recorded. */
static void tell_of_junk(keyed_agent *keyed)
{
    static uint8_t untold;
    static bool had_junk;
    const bool has_junk = keyed->junk != 0;

    if (has_junk && !had_junk)
        untold = LABELS;
    had_junk = has_junk;
    if (untold != 0 && keyed_is_idle() && keyed_may_send()) {
        untold--;
        begin_next(keyed);
    }
}

/* ---- The agent --------------------------------------------------------------------------- */

static dumpulse_alone alone[ALONE];
static uint8_t beat[DUMPULSE_PACKET_SIZE], request[DUMPULSE_PACKET_SIZE];
static bool beat_waits, request_waits;

/* The agent begins a second after a reset: so a chip that is reset all the time stores no number.
 * On a busy bus, the controller could not send 65 beacons as fast as they are made. */
void keyed_each_second(keyed_agent *keyed)
{
    memset(wrote, 0, sizeof wrote);
    if (has_begun)
        return;
    has_begun = dumpulse_alone_begin(keyed, alone, ALONE, KEYED_NO_BEACON);
    for (uint8_t label = 0; has_begun && label != LABELS; label++)
        owe(label);
}

/* Frames on a bus do not show who sends them, so all questions have one limit. Other packets have
 * none: dumpulse_keyed.h says why, under JUNK. */
dumpulse_result keyed_process(keyed_agent *keyed, const uint8_t *packet)
{
    const bool requests = packet[4] == IS_REQUEST;
    dumpulse_result result = dumpulse_keyed_look(keyed, packet, DUMPULSE_PACKET_SIZE);

    if (result == DUMPULSE_ASKS || (requests && result == DUMPULSE_OLD)) {
        if (answers != 0) {
            answers--;
            owe(packet[4] % 128);
        }
        return result;
    }
    if (requests && !keyed_may_send()) {
        request_waits = true;
        memcpy(request, packet, sizeof request);
        return DUMPULSE_REFUSED;
    }
    /* To make a beacon that must not leave would double what a wrong request costs. */
    if (requests && answers == 0 && result == DUMPULSE_NEW &&
        !dumpulse_right_(packet, DUMPULSE_READER_LABEL, keyed->epoch - (keyed->reached != LABELS)))
        return dumpulse_wrong_(keyed);
    result = dumpulse_alone_process(keyed, alone, ALONE, packet, DUMPULSE_PACKET_SIZE, NULL);
    if (requests && result == DUMPULSE_WRONG_TAG)
        answers--; /* that was a beacon */
    if (result == DUMPULSE_NOT_STORED && !beat_waits) {
        beat_waits = true;
        memcpy(beat, packet, sizeof beat);
    }
    return result;
}

void keyed_go_on(keyed_agent *keyed)
{
    pass_turn(keyed);
    tell_of_junk(keyed);
    if (beat_waits && !is_writing()) { /* its tag was right */
        beat_waits = false;
        (void)dumpulse_alone_process(keyed, alone, ALONE, beat, sizeof beat, NULL);
    }
    if (request_waits && keyed_may_send()) {
        request_waits = false;
        (void)keyed_process(keyed, request);
    }
    if (owes && keyed_may_send())
        send_owed(keyed);
}
