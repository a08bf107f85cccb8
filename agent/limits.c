/* How many reports leave; see limits.h.   SPDX-License-Identifier: MIT */
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

/* A bucket for each of at most 8192 sources at a time. The hash of a source chooses its set. When
 * all buckets of a set are in use, a new source is refused. So whoever forges many sources can stop
 * others from getting answers (the total limit lets him do that, too), but no source gets more than
 * its limit. */
enum { SETS = 1024, SET_SIZE = 8, SOURCE_SIZE = 8 };

static struct bucket buckets[SETS][SET_SIZE];
static struct bucket everybody;
static struct limit each, total;

void limits_set(uint64_t rate, uint64_t burst, uint64_t rate_total)
{
    each = limits_make(rate, burst);
    total = limits_make(rate_total, rate_total);
}

bool limits_allow(const uint8_t *source, uint64_t now)
{
    struct bucket *set = buckets[limits_hash(source, SOURCE_SIZE) % SETS], *mine = NULL;
    uint64_t name;

    memcpy(&name, source, sizeof name);
    for (struct bucket *one = set; one < set + SET_SIZE; one++) {
        if (one->source == name) {
            mine = one;
            break;
        }
        if (mine == NULL && limits_has_come(one->full_at, now))
            mine = one;
    }
    if (mine == NULL)
        return false;
    if (mine->source != name)
        *mine = (struct bucket){name, now};
    if (!limits_has_left(mine, &each, now) || !limits_has_left(&everybody, &total, now))
        return false;
    limits_take(mine, &each, now);
    limits_take(&everybody, &total, now);
    return true;
}
