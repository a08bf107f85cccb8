/* What an agent asks of keyed_avr.c.   SPDX-License-Identifier: MIT
 *
 * An image that is built with -DKEYED has that file, and speaks version 2 of the protocol. Other
 * images speak version 1: here these functions do nothing more than that, and take no memory.
 */
#ifndef KEYED_H
#define KEYED_H

#ifdef KEYED
#include "dumpulse_keyed.h"

typedef dumpulse_keyed keyed_agent;
/* What the agent sends: a report, and then the beacon. And how many identifiers requests have; the
 * first two of them are the last frame of a report and the beacon, and nobody sends these. */
enum { SENDS_BEACONS = 1, SENT_SIZE = DUMPULSE_KEYED_REPORT_SIZE + 8, REQUESTS = 32 };

/* Reads the key. */
void keyed_start(void);

/* Begins an epoch if it is time, and else sends the beacon again. */
void keyed_each_second(keyed_agent *keyed);

/* Takes a packet of 8 bytes. */
dumpulse_result keyed_process(keyed_agent *keyed, const uint8_t *packet);

/* Takes packets that had to wait. To be called in each turn of the loop. */
void keyed_go_on(keyed_agent *keyed);

/* The agent's: can a report leave now? If not, requests have to wait. */
bool keyed_may_send(void);
#else
#include "dumpulse.h"

typedef struct keyed_agent {
    dumpulse agent;
} keyed_agent;
enum { SENDS_BEACONS = 0, SENT_SIZE = DUMPULSE_REPORT_SIZE, REQUESTS = 1 };

static inline void keyed_start(void)
{
}

static inline void keyed_each_second(keyed_agent *keyed)
{
    (void)keyed;
}

static inline dumpulse_result keyed_process(keyed_agent *keyed, const uint8_t *packet)
{
    return dumpulse_process_packet(&keyed->agent, packet, DUMPULSE_PACKET_SIZE, NULL);
}

static inline void keyed_go_on(keyed_agent *keyed)
{
    (void)keyed;
}
#endif

#endif /* KEYED_H */
