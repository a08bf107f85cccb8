/* Gives the inline functions of dumpulse_watch.h names that a test can call, on this machine and in
 * a simulator, which passes up to four arguments.   SPDX-License-Identifier: MIT */
#include "dumpulse_watch.h"

void export_watch(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now);
void export_watch_part(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now, uint16_t part);
void export_watch_begin(const dumpulse_watcher *watch, uint16_t now);
dumpulse_state export_watch_state(const dumpulse_watcher *watch, uint8_t variable);
dumpulse_state export_watch_worst(const dumpulse_watcher *watch);
uint8_t export_watch_count(const dumpulse_watcher *watch, dumpulse_state state);
uint8_t export_watch_check(const dumpulse_watcher *watch, uint16_t within);

void export_watch(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now)
{
    dumpulse_watch(watch, agent, now);
}

/* The part is its first line * 256 + the count of its lines. */
void export_watch_part(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now, uint16_t part)
{
    dumpulse_watch_part(watch, agent, now, (uint8_t)(part / 256U), (uint8_t)(part % 256U));
}

void export_watch_begin(const dumpulse_watcher *watch, uint16_t now)
{
    dumpulse_watch_begin(watch, now);
}

dumpulse_state export_watch_state(const dumpulse_watcher *watch, uint8_t variable)
{
    return dumpulse_watch_state(watch, variable);
}

dumpulse_state export_watch_worst(const dumpulse_watcher *watch)
{
    return dumpulse_watch_worst(watch);
}

uint8_t export_watch_count(const dumpulse_watcher *watch, dumpulse_state state)
{
    return dumpulse_watch_count(watch, state);
}

uint8_t export_watch_check(const dumpulse_watcher *watch, uint16_t within)
{
    return dumpulse_watch_check(watch, within);
}

#ifndef __AVR__
void export_watched_make(dumpulse_watched *line, const uint8_t *numbers);

static uint16_t number(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] * 256U + bytes[1]);
}

/* The numbers are variable, late, dead, grace, lowest and highest, big-endian. */
void export_watched_make(dumpulse_watched *line, const uint8_t *numbers)
{
    const dumpulse_watched made =
        dumpulse_watched_make(numbers[0], number(numbers + 1), number(numbers + 3),
                              number(numbers + 5), numbers[7], numbers[8]);
    line->variable = made.variable; /* field by field: the image has no memcpy */
    line->lowest = made.lowest;
    line->span = made.span;
    line->grace = made.grace;
    line->late = made.late;
    line->dead = made.dead;
}
#endif
