/* Logs who has sent something; see sources.h.   SPDX-License-Identifier: MIT */
#include "sources.h"

#include <string.h>

#include "address.h"
#include "counters.h"
#include "limits.h"
#include "log.h"
#include "table.h"
#include "timing.h"

/* Whoever forges addresses can fill the list, but can do nothing else: in a day, the log gets at
 * most SOURCES_MAX times KINDS lines. */
enum {
    SOURCES_MAX = 1024,      /* sources that are remembered */
    SLOTS = 2 * SOURCES_MAX, /* half of the slots stay empty, so that a search is short */
    KINDS = COUNT_UNSENT + 1,
    LINES = 100 /* Lines at once; then there is one a second. */
};
static const uint64_t DAY = UINT64_C(86400000000000); /* ns */

static const char *const kinds[KINDS] = {
    [COUNT_HEARTBEATS] = "first heartbeat",
    [COUNT_REPORTS] = "first report",
    [COUNT_BEACONS] = "first question that a beacon answers",
    [COUNT_LENGTH] = "refused: not 8 bytes",
    [COUNT_MAGIC] = "refused: neither a heartbeat nor a request",
    [COUNT_CHECKSUM] = "refused: a heartbeat with a wrong checksum",
    [COUNT_VARIABLE] = "refused: a heartbeat for a variable above 63",
    [COUNT_NOT_ALLOWED] = "refused: not allowed; --allow and --allow-heartbeats list who is",
    [COUNT_RATE] = "refused: too many requests for --burst and --rate, or --rate-total",
    [COUNT_OLD] = "refused: a count that is not larger than the last one",
    [COUNT_TAG] = "refused: a wrong tag: another key, another epoch, or forged",
    [COUNT_UNSENT] = "not answered: its address was cut off by other options of the socket",
};

static struct {
    uint8_t address[ADDRESS_SIZE];
    uint32_t noted; /* one bit for each kind that was logged; 0: an empty slot */
} list[SLOTS];
static size_t source_count;
static uint64_t begun; /* ns: when the first source came into the list */
static struct bucket lines;
static uint64_t unnamed; /* sources that got no line, because too many came at once */

static void say_unnamed(void)
{
    if (unnamed != 0)
        log_say("%llu more were not named: too many came at once", (unsigned long long)unnamed);
    unnamed = 0;
}

/* The slot that has the address, or else an empty one. At least half of the slots are empty. */
static size_t find_slot(const uint8_t *address)
{
    size_t slot = limits_hash(address, ADDRESS_SIZE) % SLOTS;

    while (list[slot].noted != 0 && memcmp(list[slot].address, address, ADDRESS_SIZE) != 0)
        slot = (slot + 1) % SLOTS;
    return slot;
}

/* Puts a new source into its slot. If the list is full, empties it first, once a day: then the slot
 * changes. False: the list is full today. */
static bool remember(const uint8_t *address, size_t *slot, uint64_t now)
{
    if (source_count == SOURCES_MAX) {
        if (begun + DAY > now)
            return false;
        memset(list, 0, sizeof list);
        source_count = 0;
        *slot = find_slot(address);
    }
    if (source_count == 0)
        begun = now;
    if (++source_count == SOURCES_MAX)
        log_say("%d sources are known by name: new ones are not named for a day", SOURCES_MAX);
    memcpy(list[*slot].address, address, ADDRESS_SIZE);
    return true;
}

void sources_note(const uint8_t *address, size_t outcome, const uint8_t *packet, uint64_t now)
{
    const struct limit limit = limits_make(1, LINES);
    const uint32_t bit = (uint32_t)1 << outcome;
    const bool may_say = limits_has_left(&lines, &limit, now);
    size_t slot = find_slot(address);

    if (may_say)
        say_unnamed();
    if ((list[slot].noted & bit) != 0)
        return;
    if (list[slot].noted == 0 && !remember(address, &slot, now))
        return;
    list[slot].noted |= bit;
    if (!may_say) {
        unnamed++;
        return;
    }
    limits_take(&lines, &limit, now);
    if (outcome == COUNT_HEARTBEATS)
        log_say("<6>%s: %s, variable %u from sender %u", address_write(address), kinds[outcome],
                table_variable_of(packet), packet[6]);
    else
        log_say("<6>%s: %s", address_write(address), kinds[outcome]);
}

void sources_finish(void)
{
    say_unnamed();
}
