/* The keys of an agent on an AVR, and its number, which survives a reset.
 *                                                       SPDX-License-Identifier: MIT
 *
 * can_avr.md says how to bring keys in, and what to know. spec/keyed.md has version 2 of the
 * protocol. This file is only what keys add to an agent: can_avr.c and keyed_atmega328p.c receive
 * from the nodes. With -DUNKEYED=5,6 the nodes of these variables send version 1.
 *
 * The EEPROM takes 3.4 ms for each byte, and on a CAN bus 15 frames can come in this time. So an
 * interrupt writes the bytes, and the loop goes on: if the number of the next block of epochs is
 * not there yet, the epoch lasts a moment longer. Only after a reset does the agent wait for its
 * EEPROM.
 *
 * A beacon has to wait while a report, or another beacon, leaves. So each label has a bit here.
 */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <string.h>

#include "eeprom.h"
#include "keyed.h"

enum { LABELS = DUMPULSE_READER_LABEL + 1, IS_REQUEST = 0x80 + DUMPULSE_READER_LABEL };
/* Timer 0 has 65 turns in a second, and each tenth one begins the epoch of a label: so an epoch of
 * all labels has 10 seconds, less 0.16 %. */
enum { TURN = 240, TURNS = 10 };
/* In each turn, one question or refused request may be answered, and after a pause some at once.
 * This is less than 100 in any second. */
enum { MOST_ANSWERS = 16 };

enum { SLOTS = 2 * DUMPULSE_SLOT_SIZE };
/* The EEPROM, from its first byte on. `make eeprom` writes a file with it, and defines SINCE_2020,
 * in seconds. With a number from the date, an agent that replaces another one uses none of its
 * epochs again, until 2079: spec/keyed.md, "Replacing". */
static struct {
    uint8_t key[16];             /* the master key */
    uint8_t block[SLOTS];        /* the block of epochs */
    uint8_t generations[LABELS]; /* of each label's key */
} memory EEMEM
#ifdef SINCE_2020
#define BYTE(at) (uint8_t)((SINCE_2020 / 900) >> (at)&0xFF)
#define INVERTED(at) (uint8_t)(~(SINCE_2020 / 900) >> (at)&0xFF)
    = {DUMPULSE_KEY_MASTER,
       {BYTE(16), BYTE(8), BYTE(0), INVERTED(16), INVERTED(8), INVERTED(0)},
       DUMPULSE_KEY_GENERATIONS}
#endif
;

static bool has_begun;

/* ---- The number that survives a reset ---------------------------------------------------- */

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

uint32_t dumpulse_load(void)
{
    uint8_t copy[SLOTS];

    memory_read(copy, memory.block, SLOTS);
    return dumpulse_slots_read(copy);
}

/* Is this number stored? If not, this begins to write it, if nothing is being written. */
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
    uint8_t times = has_begun ? 0 : 3;

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
    const bool sends = keyed_may_send();

    if (!sends)
        owe(keyed->reached == LABELS ? 0 : keyed->reached);
    (void)dumpulse_keyed_next(keyed, sends ? NULL : KEYED_NO_BEACON);
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

/* ---- The agent --------------------------------------------------------------------------- */

static uint8_t request[DUMPULSE_PACKET_SIZE];
static bool request_waits;

/* The agent begins a second after a reset: so a chip that is reset all the time stores no number.
 * The beacons of all labels are sent as fast as they can leave. */
void keyed_each_second(keyed_agent *keyed)
{
    if (has_begun)
        return;
    has_begun = dumpulse_keyed_begin(keyed) == DUMPULSE_BEGUN;
    for (uint8_t label = 0; has_begun && label != LABELS; label++)
        owe(label);
}

#ifdef UNKEYED
static const uint8_t variables[] = {UNKEYED}; /* their nodes send version 1 */
#endif

static bool is_unkeyed(uint8_t label)
{
#ifdef UNKEYED
    for (uint8_t i = 0; i != sizeof variables; i++)
        if (variables[i] == label)
            return true;
#endif
    (void)label;
    return false;
}

/* Takes a packet that costs no answer, or whose answer can leave now. */
static dumpulse_result take(keyed_agent *keyed, const uint8_t *packet)
{
#ifdef UNKEYED
    uint8_t unkeyed[DUMPULSE_VARIABLES / 8] = {0}; /* a bit for each */

    for (uint8_t i = 0; i != sizeof variables; i++)
        if (variables[i] < DUMPULSE_VARIABLES)
            unkeyed[variables[i] / 8] |= (uint8_t)(1U << variables[i] % 8);
    return dumpulse_mixed_process(keyed, unkeyed, packet, DUMPULSE_PACKET_SIZE, NULL);
#else
    return dumpulse_keyed_process(keyed, packet, DUMPULSE_PACKET_SIZE, NULL);
#endif
}

/* Frames on a bus do not show who sends them, so all questions have one limit. Other packets have
 * none. */
dumpulse_result keyed_process(keyed_agent *keyed, const uint8_t *packet)
{
    const bool requests = packet[4] == IS_REQUEST;
    /* take() would answer a wrong request at once: to make a beacon that must not leave would
     * double what such a request costs. */
    const dumpulse_result result = requests
                                       ? dumpulse_keyed_try(keyed, packet, DUMPULSE_PACKET_SIZE)
                                       : dumpulse_keyed_look(keyed, packet, DUMPULSE_PACKET_SIZE);

    if (result == DUMPULSE_ASKS && is_unkeyed(packet[4] % 128))
        return DUMPULSE_REFUSED;
    if (result == DUMPULSE_ASKS ||
        (requests && (result == DUMPULSE_OLD || result == DUMPULSE_WRONG_TAG))) {
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
    return take(keyed, packet);
}

void keyed_go_on(keyed_agent *keyed)
{
    pass_turn(keyed);
    if (request_waits && keyed_may_send()) {
        request_waits = false;
        (void)keyed_process(keyed, request);
    }
    if (owes && keyed_may_send())
        send_owed(keyed);
}
