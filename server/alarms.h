/* The changes that --watch has found, until they are told, and what was told of each variable: that
 * is stored with the table, so that a restart tells none again.   SPDX-License-Identifier: MIT
 *
 * Each change of a variable has a number, one more than the one before. A change is stored before
 * it is told, and that it was told is stored later. So a change that is told just before a crash
 * comes again after it, with the same number. If the state cannot be stored within ALARMS_PATIENCE,
 * the change is told without.
 */
#ifndef DUMPULSE_ALARMS_H
#define DUMPULSE_ALARMS_H

#include <stdbool.h>
#include <stdint.h>

#include "dumpulse_watch.h"

enum {
    ALARMS_PATIENCE = 500,                /* ms */
    ALARMS_SIZE = 8 * DUMPULSE_VARIABLES, /* bytes of all records in the state file */
    ALARMS_RESTARTED = DUMPULSE_DEAD + 1  /* A restart does not change the state. */
};

struct alarms_record {
    uint32_t number;          /* Number of the last change. */
    uint8_t was, is;          /* the last change of the state: as in dumpulse_watch.h */
    bool restarted;           /* the last change is a restart, later than that, */
    uint8_t boot;             /* whose boot count was this */
    uint8_t unlogged, untold; /* changes that the log and the program of --exec did not get yet */
};
extern struct alarms_record alarms[DUMPULSE_VARIABLES]; /* all zeros at the first start */

struct alarms_change {
    uint64_t found_at; /* ns: timing_ns() */
    uint32_t number;
    uint8_t variable, was, is, boot;
};

/* Adds a change, and calls alarms_store() to have it stored soon. NULL: changes are not stored. */
void alarms_add(uint8_t variable, uint8_t was, uint8_t is);
void alarms_add_restart(uint8_t variable, uint8_t boot); /* Adds a restart of a node. */
struct alarms_change alarms_last(uint8_t variable);
extern void (*alarms_store)(void);

/* Calls alarms_tell_one() for each change that is stored or has waited too long, or for all. After
 * the last one, it calls it with NULL. */
void alarms_tell(bool all);
extern void (*alarms_tell_one)(const struct alarms_change *change);
void alarms_log(const struct alarms_change *change); /* it is logged now: the log has it */
void alarms_forget(uint8_t variable);                /* nobody watches it: its number stays */

/* The records as they are in the state file. */
void alarms_encode(uint8_t bytes[ALARMS_SIZE]);
void alarms_decode(const uint8_t bytes[ALARMS_SIZE]);
void alarms_begin_store(void); /* Begins to store the present records. */
void alarms_end_store(void);   /* Ends that: they are stored, or cannot be. */
bool alarms_to_store(void);    /* Are there changes that are not stored? */

#endif
