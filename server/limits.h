/* How much one source gets, and all together: reports.
 * SPDX-License-Identifier: MIT
 *
 * A limit lets a number of things pass at once (its burst), and then one every `interval`. Times
 * are ns since the machine started; any two differ by less than 2^63.
 */
#ifndef DUMPULSE_LIMITS_H
#define DUMPULSE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct limit {
    uint64_t interval; /* ns from one thing to the next */
    uint64_t ahead;    /* ns that `full_at` may be after now */
};

struct bucket {
    uint64_t source;  /* whose things are counted */
    uint64_t full_at; /* when the whole burst is allowed again: each thing makes it later */
    uint64_t got_at;  /* when it got something last */
};

static inline bool limits_has_come(uint64_t time, uint64_t now)
{
    return (int64_t)(now - time) >= 0;
}

static inline bool limits_has_left(const struct bucket *bucket, const struct limit *limit,
                                   uint64_t now)
{
    return limits_has_come(bucket->full_at, now + limit->ahead);
}

static inline void limits_take(struct bucket *bucket, const struct limit *limit, uint64_t now)
{
    if (limits_has_come(bucket->full_at, now))
        bucket->full_at = now;
    bucket->full_at += limit->interval;
}

/* A limit of `rate` a second in the long run, and of `burst` at once; both at most a million. */
struct limit limits_make(uint64_t rate, uint64_t burst);

/* Tabulation hashing: each byte chooses a random number, and the hash is the XOR of these numbers.
 * Sources that differ in one byte only, as neighbours do, have hashes as independent as these
 * numbers. Nobody outside knows the numbers, so nobody can choose sources that have the same
 * hash. */
enum { LIMITS_HASHED = 16 }; /* bytes of a source at most */
extern uint16_t limits_secret[LIMITS_HASHED][256];
bool limits_choose_secret(void); /* false: the kernel gives no random numbers; errno says why */

static inline unsigned limits_hash(const uint8_t *bytes, size_t count)
{
    unsigned hash = 0;

    for (size_t i = 0; i < count; i++)
        hash ^= limits_secret[i][bytes[i]];
    return hash;
}

/* A bucket for each of at most 8192 sources at a time. The hash of a source chooses its set. When
 * all buckets of a set are in use, a new source is refused. So whoever forges many sources can stop
 * others (the total limit lets him do that, too), but no source gets more than its limit.
 *
 * When the total is used up, a round begins. Until no source was refused for the total for a
 * second, who has got something in this round gets nothing more. So if too many ask, each
 * has its turn. */
enum { LIMITS_SETS = 1024, LIMITS_SET_SIZE = 8, LIMITS_SOURCE = 8 /* bytes */ };
struct limits {
    struct limit each, total;
    struct bucket everybody;
    uint64_t round_begun, round_ends;
    bool takes_turns;
    struct bucket buckets[LIMITS_SETS][LIMITS_SET_SIZE];
};

void limits_set(struct limits *limits, uint64_t rate, uint64_t burst, uint64_t rate_total);
/* May this source have one now? If so, it is counted. */
bool limits_allow(struct limits *limits, const uint8_t *source, uint64_t now);

#endif
