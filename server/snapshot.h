/* The bytes of a state file: a table, what was told of it, and when it was written.
 * SPDX-License-Identifier: MIT
 *
 * These are 8 bytes "Dumpulse", 4 bytes version (2), 4 bytes tick in ms, 8 bytes Unix time of the
 * writing in ms, 256 bytes entries as in a report, 512 bytes records of alarms.h, and 4 bytes
 * CRC-32 of all bytes before it. Numbers are big-endian. Version 1 had no records.
 */
#ifndef DUMPULSE_SNAPSHOT_H
#define DUMPULSE_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "alarms.h"
#include "dumpulse.h"

enum {
    SNAPSHOT_WRITTEN_AT = 16,
    SNAPSHOT_ENTRIES_AT = 24,
    SNAPSHOT_ENTRIES_SIZE = DUMPULSE_REPORT_SIZE - 4,
    SNAPSHOT_ALARMS_AT = SNAPSHOT_ENTRIES_AT + SNAPSHOT_ENTRIES_SIZE,
    SNAPSHOT_CRC_AT = SNAPSHOT_ALARMS_AT + ALARMS_SIZE,
    SNAPSHOT_SIZE = SNAPSHOT_CRC_AT + 4
};

/* Both use options.tick. */
void snapshot_encode(uint8_t state[SNAPSHOT_SIZE], const dumpulse *from, uint64_t now_ms);

/* Only if it returns SNAPSHOT_GOOD, it changes the table `to` and `alarms`, and `forgotten` becomes
 * how many entries are too old by now. */
enum snapshot_kind { SNAPSHOT_GOOD, SNAPSHOT_DAMAGED, SNAPSHOT_OTHER_VERSION, SNAPSHOT_OTHER_TICK };
enum snapshot_kind snapshot_decode(const uint8_t *state, size_t size, uint64_t now_ms, dumpulse *to,
                                   unsigned *forgotten);
unsigned snapshot_tick(const uint8_t state[SNAPSHOT_SIZE]); /* ms, of a state that is not damaged */

uint32_t snapshot_crc32(const uint8_t *bytes, size_t size); /* the one that zlib has */

#endif
