/* The interface of watch_atmega328p.c to an agent.   SPDX-License-Identifier: MIT
 *
 * An image that is built with -DWATCH has that file. In other images these functions do nothing,
 * and take no memory.
 */
#ifndef WATCH_H
#define WATCH_H

#include "dumpulse.h"

#ifdef WATCH
/* Makes the pins outputs: lamps are dark, and no relay's node has sent anything yet. */
void watch_start(void);

/* Looks at the nodes if the clock has ticked since the last call, or if the agent has just received
 * a heartbeat. To be called in each turn of the loop. */
void watch_nodes(dumpulse *agent, bool received);
#else
static inline void watch_start(void)
{
}

static inline void watch_nodes(dumpulse *agent, bool received)
{
    (void)agent, (void)received;
}
#endif

#endif /* WATCH_H */
