/* The bytes of FILE.KEY.numbers; see numbers.h.   SPDX-License-Identifier: MIT */
#include "numbers.h"

#include <string.h>

#include "snapshot.h"

static const char BEGINNING[NUMBERS_MARK_AT + 1] = "Dumpulsekey3";

void numbers_encode(uint8_t bytes[NUMBERS_SIZE], const struct numbers *numbers)
{
    memcpy(bytes, BEGINNING, NUMBERS_MARK_AT);
    memcpy(bytes + NUMBERS_MARK_AT, numbers->mark, sizeof numbers->mark);
    dumpulse_write_(bytes + NUMBERS_BLOCK_AT, numbers->block);
    for (unsigned i = 0; i < DUMPULSE_VARIABLES / 8; i++)
        bytes[NUMBERS_RETIRED_AT + i] = (uint8_t)(numbers->retired >> 8 * i);
    dumpulse_write_(bytes + NUMBERS_SKIPS_AT, numbers->skips);
    memcpy(bytes + NUMBERS_GENERATIONS_AT, numbers->generations, NUMBERS_LABELS);
    dumpulse_write_(bytes + NUMBERS_SUM_AT, snapshot_crc32(bytes, NUMBERS_SUM_AT));
}

bool numbers_decode(struct numbers *numbers, const uint8_t *bytes, size_t size)
{
    if (size != NUMBERS_SIZE || memcmp(bytes, BEGINNING, NUMBERS_MARK_AT) != 0 ||
        dumpulse_read_(bytes + NUMBERS_SUM_AT) != snapshot_crc32(bytes, NUMBERS_SUM_AT))
        return false;
    memcpy(numbers->mark, bytes + NUMBERS_MARK_AT, sizeof numbers->mark);
    numbers->block = dumpulse_read_(bytes + NUMBERS_BLOCK_AT);
    numbers->retired = 0;
    for (unsigned i = 0; i < DUMPULSE_VARIABLES / 8; i++)
        numbers->retired |= (uint64_t)bytes[NUMBERS_RETIRED_AT + i] << 8 * i;
    numbers->skips = dumpulse_read_(bytes + NUMBERS_SKIPS_AT);
    memcpy(numbers->generations, bytes + NUMBERS_GENERATIONS_AT, NUMBERS_LABELS);
    return true;
}

bool numbers_are_foreign(const uint8_t *bytes, size_t size)
{
    const size_t version_at = NUMBERS_MARK_AT - 1;

    return size > version_at && memcmp(bytes, BEGINNING, version_at) == 0 &&
           memcmp(bytes, BEGINNING, NUMBERS_MARK_AT) != 0;
}

bool numbers_are_later(const uint8_t *file, const uint8_t *known, size_t size)
{
    struct numbers of_file, of_known;

    return numbers_decode(&of_file, file, size) && numbers_decode(&of_known, known, size) &&
           memcmp(of_file.mark, of_known.mark, sizeof of_file.mark) == 0 &&
           (of_file.block > of_known.block || (of_file.retired & ~of_known.retired) != 0);
}
