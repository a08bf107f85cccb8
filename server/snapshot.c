/* The bytes of a state file; see snapshot.h.   SPDX-License-Identifier: MIT */
#include "snapshot.h"

#include <string.h>

#include "alarms.h"
#include "options.h"
#include "table.h"

enum { VERSION = 2, VERSION_AT = 8, TICK_AT = 12 };

static void put_number(uint8_t *bytes, size_t size, uint64_t number)
{
    while (size-- != 0) {
        bytes[size] = (uint8_t)number;
        number >>= 8;
    }
}

static uint64_t get_number(const uint8_t *bytes, size_t size)
{
    uint64_t number = 0;

    while (size-- != 0)
        number = number << 8 | *bytes++;
    return number;
}

uint32_t snapshot_crc32(const uint8_t *bytes, size_t size)
{
    uint32_t crc = UINT32_MAX;

    while (size-- != 0) {
        crc ^= *bytes++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320U : 0);
    }
    return ~crc;
}

void snapshot_encode(uint8_t state[SNAPSHOT_SIZE], const dumpulse *from, uint64_t now_ms)
{
    memcpy(state, "Dumpulse", VERSION_AT);
    put_number(state + VERSION_AT, 4, VERSION);
    put_number(state + TICK_AT, 4, options.tick);
    put_number(state + SNAPSHOT_WRITTEN_AT, 8, now_ms);
    memcpy(state + SNAPSHOT_ENTRIES_AT, from->report + 4, SNAPSHOT_ENTRIES_SIZE);
    alarms_encode(state + SNAPSHOT_ALARMS_AT);
    put_number(state + SNAPSHOT_CRC_AT, 4, snapshot_crc32(state, SNAPSHOT_CRC_AT));
}

enum snapshot_kind snapshot_decode(const uint8_t *state, size_t size, uint64_t now_ms, dumpulse *to,
                                   unsigned *forgotten)
{
    if (size < TICK_AT || memcmp(state, "Dumpulse", VERSION_AT) != 0)
        return SNAPSHOT_DAMAGED;
    if (get_number(state + VERSION_AT, 4) != VERSION)
        return SNAPSHOT_OTHER_VERSION;
    if (size != SNAPSHOT_SIZE ||
        get_number(state + SNAPSHOT_CRC_AT, 4) != snapshot_crc32(state, SNAPSHOT_CRC_AT))
        return SNAPSHOT_DAMAGED;
    if (get_number(state + TICK_AT, 4) != options.tick)
        return SNAPSHOT_OTHER_TICK;
    memcpy(to->report + 4, state + SNAPSHOT_ENTRIES_AT, SNAPSHOT_ENTRIES_SIZE);
    alarms_decode(state + SNAPSHOT_ALARMS_AT);

    const uint64_t written = get_number(state + SNAPSHOT_WRITTEN_AT, 8) / options.tick;
    if (written > table_started) /* a clock that is not set yet, or was set back */
        table_started = written;
    *forgotten = table_forget_old(to, written, now_ms / options.tick);
    return SNAPSHOT_GOOD;
}

unsigned snapshot_tick(const uint8_t state[SNAPSHOT_SIZE])
{
    return (unsigned)get_number(state + TICK_AT, 4);
}
