/* What was told of each variable; see alarms.h.   SPDX-License-Identifier: MIT */
#include "alarms.h"

#include <string.h>

#include "timing.h"

enum { ROOM = 4 * DUMPULSE_VARIABLES };

struct alarms_record alarms[DUMPULSE_VARIABLES];
void (*alarms_store)(void);
void (*alarms_tell_one)(const struct alarms_change *change);
static struct alarms_change changes[ROOM]; /* Pending changes, oldest first. */
static unsigned count, storing, stored;    /* all of these; how many are being stored, and are */

bool alarms_to_store(void)
{
    return stored != count;
}

void alarms_tell(bool all)
{
    const uint64_t now = timing_ns();
    unsigned told = 0;

    while (told < count && (all || told < stored ||
                            now - changes[told].found_at >= (uint64_t)ALARMS_PATIENCE * 1000000))
        alarms_tell_one(&changes[told++]);
    count -= told;
    storing -= told < storing ? told : storing;
    stored -= told < stored ? told : stored;
    memmove(changes, changes + told, count * sizeof changes[0]);
    if (told != 0)
        alarms_tell_one(NULL);
}

/* Adds the change that the record has. */
static void add(uint8_t variable)
{
    struct alarms_record *const record = &alarms[variable];

    if (count == ROOM)
        alarms_tell(true);
    record->number++;
    if (record->unlogged != UINT8_MAX)
        record->unlogged++;
    if (record->untold != UINT8_MAX)
        record->untold++;
    changes[count] = alarms_last(variable);
    changes[count++].found_at = timing_ns();
    if (alarms_store != NULL)
        alarms_store();
}

void alarms_add(uint8_t variable, uint8_t was, uint8_t is)
{
    alarms[variable].was = was;
    alarms[variable].is = is;
    alarms[variable].restarted = false;
    add(variable);
}

void alarms_add_restart(uint8_t variable, uint8_t boot)
{
    alarms[variable].restarted = true;
    alarms[variable].boot = boot;
    add(variable);
}

struct alarms_change alarms_last(uint8_t variable)
{
    const struct alarms_record *const record = &alarms[variable];

    return (struct alarms_change){
        .number = record->number,
        .variable = variable,
        .was = record->restarted ? record->is : record->was,
        .is = record->restarted ? (uint8_t)ALARMS_RESTARTED : record->is,
        .boot = record->boot,
    };
}

void alarms_log(const struct alarms_change *change)
{
    const uint32_t later = alarms[change->variable].number - change->number;

    alarms[change->variable].unlogged = later < UINT8_MAX ? (uint8_t)later : UINT8_MAX;
}

void alarms_forget(uint8_t variable)
{
    alarms[variable] = (struct alarms_record){.number = alarms[variable].number};
}

void alarms_begin_store(void)
{
    storing = count;
}

void alarms_end_store(void)
{
    stored = storing;
}

void alarms_encode(uint8_t bytes[ALARMS_SIZE])
{
    for (const struct alarms_record *record = alarms; record != alarms + DUMPULSE_VARIABLES;
         record++, bytes += 8) {
        dumpulse_write16_(bytes, record->number >> 16);
        dumpulse_write16_(bytes + 2, record->number & 0xFFFF);
        bytes[4] = (uint8_t)(record->restarted << 7 | record->was << 4 | record->is);
        bytes[5] = record->unlogged;
        bytes[6] = record->untold;
        bytes[7] = record->boot;
    }
}

/* A state that a later version may have is taken for none. */
static uint8_t state_in(uint8_t bits)
{
    return bits <= DUMPULSE_DEAD ? bits : DUMPULSE_WAITING;
}

void alarms_decode(const uint8_t bytes[ALARMS_SIZE])
{
    for (struct alarms_record *record = alarms; record != alarms + DUMPULSE_VARIABLES;
         record++, bytes += 8)
        *record = (struct alarms_record){.number = (uint32_t)dumpulse_read16_(bytes) << 16 |
                                                   dumpulse_read16_(bytes + 2),
                                         .restarted = bytes[4] >> 7 != 0,
                                         .was = state_in(bytes[4] >> 4 & 7),
                                         .is = state_in(bytes[4] & 15),
                                         .unlogged = bytes[5],
                                         .untold = bytes[6],
                                         .boot = bytes[7]};
}
