/* An agent of version 2. dumpulse_keyed.h is the manual.   SPDX-License-Identifier: MIT */
#include "dumpulse_keyed.h"

enum { LABELS = DUMPULSE_READER_LABEL + 1 };
enum { BLOCK = 256 }; /* Epochs that one stored number reserves. */

#ifdef __GNUC__
#define APART static __attribute__((noinline))
#else
#define APART static
#endif

APART uint32_t epoch_of(const dumpulse_keyed *keyed, uint8_t label)
{
    uint32_t epoch = keyed->epoch;

    if (label >= keyed->reached) {
        epoch--;
    }
    return epoch;
}

void dumpulse_keyed_beacon(const dumpulse_keyed *keyed, uint8_t label, void *context)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];
    const uint32_t epoch = epoch_of(keyed, label);

    if (keyed->reached == 0) {
        return;
    }
    dumpulse_write_(packet + 4, epoch);
    dumpulse_make_(packet, label, epoch);
    dumpulse_send_packet(context, packet, sizeof packet);
}

/* Begins the next epoch. No label has reached it yet. */
static bool next_epoch(dumpulse_keyed *keyed)
{
    if ((uint8_t)keyed->epoch == BLOCK - 1 &&
        (keyed->epoch >= DUMPULSE_EPOCH_LAST_ || !dumpulse_store(keyed->epoch / BLOCK + 1))) {
        return false;
    }
    keyed->epoch++;
    keyed->reached = 0;
    keyed->wrong = 0;
    return true;
}

bool dumpulse_keyed_next(dumpulse_keyed *keyed, void *context)
{
    uint8_t label;

    if (keyed->reached == 0 || (keyed->reached == LABELS && !next_epoch(keyed))) {
        return false;
    }
    label = keyed->reached++;
    keyed->last[label] = 0;
    dumpulse_keyed_beacon(keyed, label, context);
    return true;
}

dumpulse_beginning dumpulse_keyed_begin(dumpulse_keyed *keyed)
{
    const uint32_t block = dumpulse_load();
    uint_fast8_t label;

    keyed->reached = 0;
    if (block >= DUMPULSE_EPOCH_LAST_ / BLOCK) {
        return block == DUMPULSE_UNREADABLE ? DUMPULSE_NO_NUMBER : DUMPULSE_USED_UP;
    }
    if (!dumpulse_store(block + 1)) {
        return DUMPULSE_NOT_STORED;
    }
    keyed->epoch = (block + 1) * BLOCK;
    keyed->wrong = 0;
    /*@ loop invariant 0 <= label <= 65;
        loop invariant \forall integer i; 0 <= i < label ==> keyed->last[i] == 0;
        loop assigns label, keyed->last[0 .. 64];
        loop variant 65 - label; */
    for (label = 0; label != LABELS; label++) {
        keyed->last[label] = 0;
    }
    keyed->reached = LABELS;
    return DUMPULSE_BEGUN;
}

void dumpulse_keyed_renew(dumpulse_keyed *keyed, uint8_t variable)
{
    keyed->last[variable] = 0;
}

/* 0 to 64 in a heartbeat, a request or a question; more in all other packets. */
static uint8_t label_of(const uint8_t *packet)
{
    return (uint8_t)(packet[4] - DUMPULSE_IS_HEARTBEAT_);
}

dumpulse_result dumpulse_keyed_look(const dumpulse_keyed *keyed, const uint8_t *packet,
                                    size_t length)
{
    if (length != DUMPULSE_PACKET_SIZE || label_of(packet) > DUMPULSE_READER_LABEL) {
        return DUMPULSE_REFUSED;
    }
    if (keyed->reached == 0) {
        return DUMPULSE_NOT_BEGUN;
    }
    if (packet[5] == 0) {
        return DUMPULSE_ASKS;
    }
    return packet[5] <= keyed->last[label_of(packet)] ? DUMPULSE_OLD : DUMPULSE_NEW;
}

dumpulse_result dumpulse_keyed_try(dumpulse_keyed *keyed, const uint8_t *packet, size_t length)
{
    const dumpulse_result result = dumpulse_keyed_look(keyed, packet, length);

    if (result == DUMPULSE_NEW) {
        const uint8_t label = label_of(packet);

        if (!dumpulse_right_(packet, label, epoch_of(keyed, label))) {
            keyed->wrong++;
            return DUMPULSE_WRONG_TAG;
        }
    }
    return result;
}

/* Makes the report that answers this request, and sends it. */
static void answer(dumpulse_keyed *keyed, const uint8_t *packet, void *context)
{
    uint8_t *report = (uint8_t *)keyed + offsetof(dumpulse_keyed, tag);

    dumpulse_report_tag_(packet, epoch_of(keyed, DUMPULSE_READER_LABEL), report);
    dumpulse_send_packet(context, report, DUMPULSE_KEYED_REPORT_SIZE);
}

dumpulse_result dumpulse_keyed_process(dumpulse_keyed *keyed, const uint8_t *packet, size_t length,
                                       void *context)
{
    dumpulse_result result = dumpulse_keyed_look(keyed, packet, length);
    uint8_t label;

    if (result == DUMPULSE_REFUSED || result == DUMPULSE_NOT_BEGUN) {
        return result;
    }
    label = label_of(packet);
    /*@ assert label == packet[4] - 0x80; */
    if (result == DUMPULSE_NEW) {
        if (dumpulse_right_(packet, label, epoch_of(keyed, label))) {
            keyed->last[label] = packet[5];
            if (label == DUMPULSE_READER_LABEL) {
                answer(keyed, packet, context);
                return DUMPULSE_REPORT;
            }
            return dumpulse_record(&keyed->agent, label, packet[6], packet[7]);
        }
        keyed->wrong++;
        result = DUMPULSE_WRONG_TAG;
    }
    if (result == DUMPULSE_ASKS || label == DUMPULSE_READER_LABEL) {
        dumpulse_keyed_beacon(keyed, label, context);
    }
    return result;
}
