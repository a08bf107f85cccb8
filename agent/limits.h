/* How many reports leave.   SPDX-License-Identifier: MIT
 *
 * A limit lets a number of reports pass at once (its burst), and then one every `interval`. Times
 * are ns since the machine started; any two differ by less than 2^63.
 */
#ifndef DUMPULSE_LIMITS_H
#define DUMPULSE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct limit {
    uint64_t interval; /* ns from one report to the next */
    uint64_t ahead;    /* ns that `full_at` may be after now */
};

struct bucket {
    uint64_t source;  /* whose reports are counted */
    uint64_t full_at; /* when the whole burst is allowed again: each report makes it later */
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

void limits_set(uint64_t rate, uint64_t burst, uint64_t rate_total);
/* May this source of 8 bytes have a report now? If so, the report is counted. */
bool limits_allow(const uint8_t *source, uint64_t now);

#endif
