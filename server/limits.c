/* How much one source gets; see limits.h.   SPDX-License-Identifier: MIT */
#include "limits.h"

#include <string.h>
#include <sys/random.h>

#include "timing.h"

uint16_t limits_secret[LIMITS_HASHED][256];

bool limits_choose_secret(void)
{
    return getrandom(limits_secret, sizeof limits_secret, 0) == sizeof limits_secret;
}

struct limit limits_make(uint64_t rate, uint64_t burst)
{
    const uint64_t interval = (TIMING_SECOND + rate - 1) / rate;

    return (struct limit){interval, interval * (burst - 1)}; /* below 10^9 * 10^6 */
}

void limits_set(struct limits *limits, uint64_t rate, uint64_t burst, uint64_t rate_total)
{
    limits->each = limits_make(rate, burst);
    limits->total = limits_make(rate_total, rate_total);
}

/* The total is used up. Who has got something in the second before is served in the round. */
static void note_shortage(struct limits *limits, uint64_t now)
{
    if (limits_has_come(limits->round_ends, now))
        limits->round_begun = limits_has_come(limits->round_ends, now - TIMING_SECOND)
                                  ? now - TIMING_SECOND
                                  : limits->round_ends;
    limits->round_ends = now + TIMING_SECOND;
}

/* Inlined, so that a report costs no calls more. */
#define INLINED static inline __attribute__((always_inline))

INLINED struct bucket *bucket_of(struct limits *limits, const uint8_t *source, uint64_t now)
{
    struct bucket *set = limits->buckets[limits_hash(source, LIMITS_SOURCE) % LIMITS_SETS];
    struct bucket *mine = NULL;
    uint64_t name;

    memcpy(&name, source, sizeof name);
    for (struct bucket *one = set; one < set + LIMITS_SET_SIZE; one++) {
        if (one->source == name) {
            mine = one;
            break;
        }
        if (limits_has_come(one->full_at, now) &&
            (mine == NULL || !limits_has_come(mine->full_at, one->full_at)))
            mine = one; /* the one that was used longest ago */
    }
    if (mine == NULL)
        return NULL;
    if (mine->source != name)
        *mine = (struct bucket){name, now, limits->round_begun - 1};
    if (!limits_has_left(mine, &limits->each, now))
        return NULL;
    if (!limits_has_come(limits->round_ends, now) &&
        limits_has_come(limits->round_begun, mine->got_at))
        return NULL;
    if (limits_has_left(&limits->everybody, &limits->total, now))
        return mine;
    if (limits->takes_turns)
        note_shortage(limits, now);
    return NULL;
}

bool limits_allow(struct limits *limits, const uint8_t *source, uint64_t now)
{
    struct bucket *const mine = bucket_of(limits, source, now);

    if (mine == NULL)
        return false;
    limits_take(mine, &limits->each, now);
    mine->got_at = now;
    limits_take(&limits->everybody, &limits->total, now);
    return true;
}
