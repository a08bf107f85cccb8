/* Gives the inline functions of dumpulse_watch.h names that a test can call.
 * SPDX-License-Identifier: MIT */
#include "dumpulse_watch.h"

void export_watch(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now);
void export_watch_part(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now, uint8_t first,
                       uint8_t count);
void export_watch_begin(const dumpulse_watcher *watch, uint16_t now);
dumpulse_state export_watch_state(const dumpulse_watcher *watch, uint8_t variable);
dumpulse_state export_watch_worst(const dumpulse_watcher *watch);
uint8_t export_watch_count(const dumpulse_watcher *watch, dumpulse_state state);
uint8_t export_watch_check(const dumpulse_watcher *watch, uint16_t within);
void export_watched_make(dumpulse_watched *line, uint8_t variable, uint16_t late, uint16_t dead,
                         uint16_t grace, uint8_t lowest, uint8_t highest);

void export_watch(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now)
{
    dumpulse_watch(watch, agent, now);
}

void export_watch_part(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now, uint8_t first,
                       uint8_t count)
{
    dumpulse_watch_part(watch, agent, now, first, count);
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

void export_watched_make(dumpulse_watched *line, uint8_t variable, uint16_t late, uint16_t dead,
                         uint16_t grace, uint8_t lowest, uint8_t highest)
{
    *line = dumpulse_watched_make(variable, late, dead, grace, lowest, highest);
}
