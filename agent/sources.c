/* Names in the log who has sent something: sources.h tells more.   SPDX-License-Identifier: MIT */
#include "sources.h"

#include <string.h>

#include "address.h"
#include "counters.h"
#include "limits.h"
#include "log.h"
#include "timing.h"

/* Whoever forges addresses can fill the list, and no more: the log has at most as many lines a
 * day as the list has places, times the kinds of lines. */
enum {
    KNOWN = 1024,       /* sources that are remembered */
    PLACES = 2 * KNOWN, /* so that one is found after few others */
    KINDS = COUNT_RATE + 1,
    LINES = 100 /* at once; then one each second */
};
static const uint64_t DAY = UINT64_C(86400000000000); /* ns */

static const char *const kinds[KINDS] = {
    [COUNT_HEARTBEATS] = "first heartbeat",
    [COUNT_REPORTS] = "first report",
    [COUNT_LENGTH] = "refused: not 8 bytes",
    [COUNT_MAGIC] = "refused: neither a heartbeat nor a request",
    [COUNT_CHECKSUM] = "refused: a heartbeat with a wrong checksum",
    [COUNT_VARIABLE] = "refused: a heartbeat for a variable above 63",
    [COUNT_NOT_ALLOWED] = "refused: not allowed; --allow and --allow-heartbeats say who is",
    [COUNT_RATE] = "refused: too many requests for --burst and --rate, or --rate-total",
};

static struct {
    uint8_t address[ADDRESS_SIZE];
    uint32_t noted; /* one bit for each kind; 0: an empty place */
} list[PLACES];
static size_t known;
static uint64_t begun; /* when the list was empty */
static struct bucket lines;
static uint64_t unnamed;

static void say_unnamed(void)
{
    if (unnamed != 0)
        log_say("%llu more were not named: too many came at once", (unsigned long long)unnamed);
    unnamed = 0;
}

/* Where it is, or where there is room for it; there always is, as half of the places are empty. */
static size_t place_of(const uint8_t *address)
{
    size_t place = limits_hash(address, ADDRESS_SIZE) % PLACES;

    while (list[place].noted != 0 && memcmp(list[place].address, address, ADDRESS_SIZE) != 0)
        place = (place + 1) % PLACES;
    return place;
}

/* False: there is no room in the list today. */
static bool remember(const uint8_t *address, size_t *place, uint64_t now)
{
    if (known == KNOWN) {
        if (begun + DAY > now)
            return false;
        memset(list, 0, sizeof list);
        known = 0;
        *place = place_of(address);
    }
    if (known == 0)
        begun = now;
    if (++known == KNOWN)
        log_say("%d sources are known by name: new ones are not named for a day", KNOWN);
    memcpy(list[*place].address, address, ADDRESS_SIZE);
    return true;
}

void sources_note(const uint8_t *address, size_t outcome, const uint8_t *packet, uint64_t now)
{
    const struct limit limit = limits_make(1, LINES);
    const uint32_t bit = (uint32_t)1 << outcome;
    const bool may_say = limits_has_left(&lines, &limit, now);
    size_t place = place_of(address);

    if (may_say)
        say_unnamed();
    if ((list[place].noted & bit) != 0)
        return;
    if (list[place].noted == 0 && !remember(address, &place, now))
        return;
    list[place].noted |= bit;
    if (!may_say) {
        unnamed++;
        return;
    }
    limits_take(&lines, &limit, now);
    if (outcome == COUNT_HEARTBEATS)
        log_say("%s: %s, variable %u from sender %u", address_write(address), kinds[outcome],
                packet[5], packet[6]);
    else
        log_say("%s: %s", address_write(address), kinds[outcome]);
}

void sources_finish(void)
{
    say_unnamed();
}
