/* The keys of an agent on an AVR, and its numbers, which survive a reset.
 *                                                       SPDX-License-Identifier: MIT
 *
 * can_avr.md says how to bring keys in, and what to know. spec/keyed.md has version 2 of the
 * protocol. This file is only what keys add to an agent: can_avr.c hears the nodes.
 *
 * The EEPROM takes 3.4 ms for each byte, and on a CAN bus 15 frames can come in this time. So an
 * interrupt writes the bytes, and the loop goes on:
 *   - The number of the next block of epochs is written during the last epoch of this one. When the
 *     next block begins, it is there already.
 *   - An announce waits until its number is written. Then it is taken.
 * Only after a reset does the agent wait for its EEPROM.
 */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <string.h>

#include "eeprom.h"
#include "keyed.h"

#ifndef MOST_REFUSED
#define MOST_REFUSED 100 /* after one more, no other packet of this second is looked at */
#endif
enum { TICK = 10 };           /* seconds of an epoch */
enum { MOST_ANSWERED = 100 }; /* old requests of a second that the beacon answers */
enum { IS_ANNOUNCE = 0x40, IS_HEARTBEAT = 0x80, IS_REQUEST = 0xC0 }; /* byte 4 of a packet */

#define NONE NUMBER(0L)
#define EIGHT NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE
_Static_assert(DUMPULSE_ALONE == 32, "the EEPROM has another number of variables at first");
/* The EEPROM, from its first byte on. `make eeprom` writes a file with it. */
static struct {
    uint8_t key[16]; /* the master key */
    uint8_t block[SLOTS];
    uint8_t own[DUMPULSE_ALONE][SLOTS]; /* of the variables of nodes that only send */
} memory EEMEM
#ifdef SINCE_2020
    = {DUMPULSE_KEY_MASTER, NUMBER(FIRST_BLOCK), {EIGHT, EIGHT, EIGHT, EIGHT}}
#endif
;

static uint8_t key[16]; /* the EEPROM cannot be read while it is being written */

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
    return label == DUMPULSE_BEACON_LABEL ? memory.block : memory.own[label];
}

void dumpulse_load(uint8_t label, uint8_t number[3])
{
    number_read(slots_of(label), number);
}

/* Is this number stored? If not, this begins to write it, if nothing else is being written. */
static bool is_stored(uint8_t label, const uint8_t number[3])
{
    uint8_t copy[SLOTS], has[3];

    if (is_writing())
        return false;
    memory_read(copy, slots_of(label), SLOTS);
    dumpulse_slots_read(copy, has);
    if (memcmp(has, number, 3) == 0)
        return true;
    slot_at = slots_of(label) + dumpulse_slots_write(copy, slot, number);
    left = DUMPULSE_SLOT_SIZE;
    EECR = _BV(EERIE);
    return false;
}

/* An epoch cannot begin before its block is stored. But that has been done, except after a reset.
 * So this waits for another number, for this one, and once more if it cannot be read. */
bool dumpulse_store(uint8_t label, const uint8_t number[3])
{
    uint8_t times = label == DUMPULSE_BEACON_LABEL ? 3 : 0;

    while (!is_stored(label, number)) {
        if (times-- == 0)
            return false;
        while (is_writing()) {
        }
    }
    return true;
}

/* ---- The agent --------------------------------------------------------------------------- */

void dumpulse_get_key(uint8_t to[16], uint8_t label)
{
    (void)label;
    memcpy(to, key, sizeof key);
}

static bool has_begun;
static uint8_t until_tick = 1; /* seconds; a chip that is reset all the time stores no number */
static uint16_t refused;       /* packets in this second, up to MOST_REFUSED + 1 */
static bool refused_announce;  /* in this second */
static uint16_t answered;      /* requests in this second whose count was old */

static uint8_t announce[DUMPULSE_PACKET_SIZE], request[DUMPULSE_PACKET_SIZE];
static bool announce_waits, request_waits;

void keyed_start(void)
{
    memory_read(key, memory.key, sizeof key);
}

void keyed_each_second(keyed_agent *keyed)
{
    refused = answered = 0;
    refused_announce = false;
    if (--until_tick == 0) {
        until_tick = TICK;
        has_begun =
            has_begun ? dumpulse_keyed_tick(keyed, NULL) : dumpulse_keyed_begin(keyed, NULL);
    } else if (has_begun) {
        dumpulse_keyed_beacon(keyed, NULL);
    }
    if (has_begun && keyed->epoch[3] == 255) {
        uint8_t next[3] = {keyed->epoch[0], keyed->epoch[1], keyed->epoch[2]};
        if (++next[2] == 0 && ++next[1] == 0)
            next[0]++;
        (void)is_stored(DUMPULSE_BEACON_LABEL, next);
    }
}

/* The limits are those of spec/keyed.md, "Limits on failures". Frames on a bus do not show who
 * sends them, so all have one limit. Only a wrong tag is a failure: nodes repeat their announces,
 * and whoever asks for a beacon has signed nothing. */
dumpulse_result keyed_process(keyed_agent *keyed, const uint8_t *packet)
{
    const bool announces = packet[4] < IS_HEARTBEAT;
    dumpulse_result result = dumpulse_keyed_look(keyed, packet, DUMPULSE_PACKET_SIZE);

    if (result == DUMPULSE_NEW && (refused > MOST_REFUSED || (announces && refused_announce)))
        return DUMPULSE_REFUSED;
    if (result == DUMPULSE_OLD && packet[4] == IS_REQUEST && answered++ >= MOST_ANSWERED)
        return DUMPULSE_REFUSED;
    if (packet[4] == IS_REQUEST && !keyed_may_send()) {
        request_waits = true;
        memcpy(request, packet, sizeof request);
        return DUMPULSE_REFUSED;
    }
    result = dumpulse_keyed_process(keyed, packet, DUMPULSE_PACKET_SIZE, NULL);
    if (result == DUMPULSE_NOT_STORED) {
        announce_waits = true;
        memcpy(announce, packet, sizeof announce);
    } else if (result == DUMPULSE_WRONG_TAG) {
        refused++;
        refused_announce |= announces;
    }
    return result;
}

void keyed_go_on(keyed_agent *keyed)
{
    if (announce_waits && !is_writing()) { /* its tag was right */
        announce_waits = false;
        (void)dumpulse_keyed_process(keyed, announce, sizeof announce, NULL);
    }
    if (request_waits && keyed_may_send()) {
        request_waits = false;
        (void)keyed_process(keyed, request);
    }
}
