/* The interface of keyed_agent.c to an agent and to its chip.   SPDX-License-Identifier: MIT
 *
 * An image that is built with -DKEYED has these files, and uses version 2 of the protocol. Other
 * images use version 1: here these functions do nothing more than that, and take no memory.
 */
#ifndef KEYED_H
#define KEYED_H

#ifdef KEYED
#include "dumpulse_keyed.h"

typedef dumpulse_keyed keyed_agent;
/* What the agent sends: a report, or the beacon of a label. And how many identifiers requests have;
 * the first two of them are the last frame of a report and the beacons, which only agents send. */
enum { SENDS_BEACONS = 1, SENT_SIZE = DUMPULSE_KEYED_REPORT_SIZE + 8, REQUESTS = 32 };
/* With this context, the send hook sends no beacon. */
#define KEYED_NO_BEACON ((void *)1)

/* Reads the keys. */
void keyed_start(void);

/* Begins, if it has not. To be called once in each second. */
void keyed_each_second(keyed_agent *keyed);

/* Processes a packet of 8 bytes. */
dumpulse_result keyed_process(keyed_agent *keyed, const uint8_t *packet);

/* Begins the epoch of a label if it is time, and processes a request and sends a beacon that had to
 * wait. To be called in each turn of the loop. */
void keyed_go_on(keyed_agent *keyed);

/* Hook of the agent: returns whether a report or a beacon can leave now. If not, requests have to
 * wait, and the send hook drops beacons: keyed_agent.c sends them later. */
bool keyed_may_send(void);

/* Hooks of the chip: the turns of a clock that has about 65 in a second, and an LED that shows why
 * the agent has not begun. */
uint8_t keyed_turns(void);
void keyed_show(bool is_lit);
extern bool keyed_has_begun;
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
