/* A number that survives a reset, in two slots. dumpulse_keyed.h is the manual.
 * SPDX-License-Identifier: MIT
 */
#include "dumpulse_keyed.h"

static bool is_whole(const uint8_t *slot)
{
    uint8_t wrong = 0;
    uint_fast8_t i;

    for (i = 0; i != 3; i++) {
        wrong |= (uint8_t)(slot[i] ^ slot[i + 3] ^ 0xFFU);
    }
    return wrong == 0;
}

/* Where the number lies: 0, 6, or 12 if none is whole. */
static uint8_t place(const uint8_t *memory)
{
    const uint8_t *other = memory + DUMPULSE_SLOT_SIZE;
    uint_fast8_t i = 0;

    if (!is_whole(other)) {
        return is_whole(memory) ? 0 : 2 * DUMPULSE_SLOT_SIZE;
    }
    while (i != 2 && memory[i] == other[i]) {
        i++;
    }
    return is_whole(memory) && memory[i] >= other[i] ? 0 : DUMPULSE_SLOT_SIZE;
}

uint32_t dumpulse_slots_read(const uint8_t memory[2 * DUMPULSE_SLOT_SIZE])
{
    const uint8_t at = place(memory);

    return at == 2 * DUMPULSE_SLOT_SIZE ? DUMPULSE_UNREADABLE : dumpulse_read_(memory + at) >> 8;
}

uint8_t dumpulse_slots_write(const uint8_t memory[2 * DUMPULSE_SLOT_SIZE],
                             uint8_t slot[DUMPULSE_SLOT_SIZE], uint32_t number)
{
    const uint8_t at = place(memory) == 0 ? DUMPULSE_SLOT_SIZE : 0;
    uint_fast8_t i;

    dumpulse_write_(slot, number << 8);
    for (i = 0; i != 3; i++) {
        slot[i + 3] = slot[i] ^ 0xFFU;
    }
    return at;
}
