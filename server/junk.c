/* Tells that somebody sends junk; see junk.h.   SPDX-License-Identifier: MIT */
#include "junk.h"

#include <stdio.h>
#include <string.h>

#include "address.h"
#include "counters.h"
#include "limits.h"
#include "log.h"
#include "timing.h"

/* Of all tags so far, more than one in MOST + 1 must come from a source so that it surely stays in
 * the list: each source that is not there, and finds no free place, takes one from all counts. So a
 * count may be too small, but never too large: nobody is blamed for what others have sent. */
enum { MOST = 8 };
static struct {
    uint64_t tags;  /* wrong ones since `begun` */
    uint64_t begun; /* ns: when the first of them came */
    uint64_t last;  /* ns: when the last one came */
    bool said;      /* has the log a line that junk comes? */
    struct {
        uint8_t source[LIMITS_SOURCE];
        uint64_t count; /* 0: this place is free */
    } most[MOST];
} junk;

static void count(const uint8_t *source)
{
    size_t place = MOST;

    for (size_t i = MOST; i-- != 0;) {
        if (junk.most[i].count == 0) {
            place = i;
        } else if (memcmp(junk.most[i].source, source, LIMITS_SOURCE) == 0) {
            junk.most[i].count++;
            return;
        }
    }
    if (place != MOST) {
        memcpy(junk.most[place].source, source, LIMITS_SOURCE);
        junk.most[place].count = 1;
        return;
    }
    for (size_t i = 0; i < MOST; i++)
        junk.most[i].count--;
}

/* A source is an IPv4 address, the first half of an IPv6 address, or a CAN bus. Returns it as text,
 * until the next call. */
static const char *describe(const uint8_t source[LIMITS_SOURCE])
{
    static char text[64];
    uint8_t address[ADDRESS_SIZE] = {0};

    if (source[0] == UINT8_MAX)
        return "the bus";
    memcpy(address + ADDRESS_SIZE - LIMITS_SOURCE, source, LIMITS_SOURCE);
    if (address_is_ipv4(address))
        return address_write(address);
    memcpy(address, source, LIMITS_SOURCE);
    memset(address + LIMITS_SOURCE, 0, ADDRESS_SIZE - LIMITS_SOURCE);
    (void)snprintf(text, sizeof text, "%s/64", address_write(address));
    return text;
}

static void say(const char *what, const char *advice)
{
    char from[96] = "from many sources";
    size_t first = 0;

    for (size_t i = 1; i < MOST; i++)
        if (junk.most[i].count > junk.most[first].count)
            first = i;
    if (junk.most[first].count > junk.tags / (MOST + 1))
        (void)snprintf(from, sizeof from, "at least %llu from %s",
                       (unsigned long long)junk.most[first].count,
                       describe(junk.most[first].source));
    log_say("%s: %llu wrong tags in %llu s, %s%s", what, (unsigned long long)junk.tags,
            (unsigned long long)((junk.last - junk.begun + TIMING_SECOND - 1) / TIMING_SECOND),
            from, advice);
}

void junk_note(const uint8_t *source, bool is_junk, uint64_t now)
{
    if (junk.tags == 0)
        junk.begun = now;
    junk.tags++;
    junk.last = now;
    count(source);
    if (!is_junk || junk.said)
        return;
    junk.said = true;
    counters[COUNT_JUNK]++;
    say("junk comes", "; until it ends, each heartbeat needs a second one that is equal");
}

void junk_begin_epoch(bool is_junk)
{
    if (is_junk)
        return;
    if (junk.said)
        say("no more junk", "");
    memset(&junk, 0, sizeof junk);
}
