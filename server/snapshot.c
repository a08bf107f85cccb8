/* The bytes of a state file; see snapshot.h.   SPDX-License-Identifier: MIT */
#include "snapshot.h"

#include <string.h>

#include "alarms.h"
#include "dumpulse_keyed.h"
#include "options.h"
#include "table.h"

enum { VERSION = 2, VERSION_AT = 8, TICK_AT = 12 };

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
    dumpulse_write_(state + VERSION_AT, VERSION);
    dumpulse_write_(state + TICK_AT, (uint32_t)options.tick);
    dumpulse_write_(state + SNAPSHOT_WRITTEN_AT, (uint32_t)(now_ms >> 32));
    dumpulse_write_(state + SNAPSHOT_WRITTEN_AT + 4, (uint32_t)now_ms);
    memcpy(state + SNAPSHOT_ENTRIES_AT, from->report + 4, SNAPSHOT_ENTRIES_SIZE);
    alarms_encode(state + SNAPSHOT_ALARMS_AT);
    dumpulse_write_(state + SNAPSHOT_CRC_AT, snapshot_crc32(state, SNAPSHOT_CRC_AT));
}

enum snapshot_kind snapshot_decode(const uint8_t *state, size_t size, uint64_t now_ms, dumpulse *to,
                                   unsigned *forgotten)
{
    if (size < TICK_AT || memcmp(state, "Dumpulse", VERSION_AT) != 0)
        return SNAPSHOT_DAMAGED;
    if (dumpulse_read_(state + VERSION_AT) != VERSION)
        return SNAPSHOT_OTHER_VERSION;
    if (size != SNAPSHOT_SIZE ||
        dumpulse_read_(state + SNAPSHOT_CRC_AT) != snapshot_crc32(state, SNAPSHOT_CRC_AT))
        return SNAPSHOT_DAMAGED;
    if (dumpulse_read_(state + TICK_AT) != options.tick)
        return SNAPSHOT_OTHER_TICK;
    memcpy(to->report + 4, state + SNAPSHOT_ENTRIES_AT, SNAPSHOT_ENTRIES_SIZE);
    alarms_decode(state + SNAPSHOT_ALARMS_AT);

    const uint64_t written_ms = (uint64_t)dumpulse_read_(state + SNAPSHOT_WRITTEN_AT) << 32 |
                                dumpulse_read_(state + SNAPSHOT_WRITTEN_AT + 4);
    const uint64_t written = written_ms / options.tick;
    if (written > table_started) /* a clock that is not set yet, or was set back */
        table_started = written;
    *forgotten = table_forget_old(to, written, now_ms / options.tick);
    return SNAPSHOT_GOOD;
}

unsigned snapshot_tick(const uint8_t state[SNAPSHOT_SIZE])
{
    return dumpulse_read_(state + TICK_AT);
}
