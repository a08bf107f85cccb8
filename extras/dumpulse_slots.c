/* A number that survives a reset, in an EEPROM or in flash. dumpulse_keyed.h is the manual.
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

/* ---- Flash. A record is a number of 4 bytes, and the same inverted. Writing changes bits in one
 * direction only: so a record that was cut off has too many bits of one kind, and is not whole. */

static bool is_record(const uint8_t *bytes)
{
    uint8_t wrong = bytes[0]; /* A number of 24 bits has 0 here. */
    uint_fast8_t i;

    for (i = 0; i != 4; i++) {
        wrong |= (uint8_t)(bytes[i] ^ bytes[i + 4] ^ 0xFFU);
    }
    return wrong == 0;
}

static bool is_blank(const uint8_t *bytes)
{
    uint_fast8_t i = 1;

    while (i != DUMPULSE_RECORD_SIZE && bytes[i] == bytes[0]) {
        i++;
    }
    return i == DUMPULSE_RECORD_SIZE && (bytes[0] == 0 || bytes[0] == 0xFFU);
}

/* Where the largest number lies, or behind the pages if there is none. */
static size_t find_largest(const uint8_t *pages, size_t size)
{
    size_t at, found = 2 * size;
    uint32_t largest = 0;

    for (at = 0; at != 2 * size; at += DUMPULSE_RECORD_SIZE) {
        if (is_record(pages + at) && dumpulse_read_(pages + at) >= largest) {
            largest = dumpulse_read_(pages + at);
            found = at;
        }
    }
    return found;
}

uint32_t dumpulse_flash_read(const uint8_t *pages, size_t size)
{
    const size_t at = find_largest(pages, size);

    return at == 2 * size ? DUMPULSE_UNREADABLE : dumpulse_read_(pages + at);
}

size_t dumpulse_flash_write(const uint8_t *pages, size_t size, uint8_t record[DUMPULSE_RECORD_SIZE],
                            uint32_t number)
{
    size_t at = find_largest(pages, size);

    dumpulse_write_(record, number);
    dumpulse_write_(record + 4, ~number);
    if (at == 2 * size) {
        return 0;
    }
    do {
        at += DUMPULSE_RECORD_SIZE;
    } while ((at & (size - 1)) != 0 && !is_blank(pages + at));
    return at & (2 * size - 1);
}
