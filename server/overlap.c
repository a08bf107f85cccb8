/* Two master keys for a stated time; see overlap.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for strptime and timegm */
#include "overlap.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "counters.h"
#include "dumpulse.h"
#include "log.h"
#include "options.h"
#include "timing.h"

enum { LONGEST = 366 * 86400 /* s */ };

static time_t until; /* of --key-until */
static uint64_t end; /* ns since the machine was started; 0: there is no overlap */
/* A bit for each variable that was heard since the start. */
static uint64_t before, moved;
static uint64_t reports; /* under the key before */

bool overlap_read_until(const char *text)
{
    static const char format[] = "%Y-%m-%dT%H:%MZ";
    struct tm parts = {.tm_mday = 1};
    char again[sizeof "2026-12-31T23:59Z"] = "";

    if (strptime(text, format, &parts) != NULL) {
        until = timegm(&parts); /* makes March 2 of February 30 */
        (void)strftime(again, sizeof again, format, &parts);
    }
    return (again[0] != '\0' && strcmp(text, again) == 0) ||
           options_wrong("--key-until must be a time in UTC like 2026-12-31T23:59Z, not '%.40s'",
                         text);
}

bool overlap_begin(void)
{
    const int64_t left = (int64_t)until - (int64_t)(timing_unix_ms() / 1000);

    if (left > LONGEST) {
        log_say("--key-until is more than a year ahead: if it is right, set this machine's clock");
        return false;
    }
    if (left <= 0) {
        log_say("the time of --key-before is over: nothing made with it is taken; leave out "
                "--key-before and --key-until");
        return true;
    }
    end = timing_boot_ns() + (uint64_t)left * TIMING_SECOND;
    log_say("what is made with the key before is taken, too, for %lld h %lld min; whoever stole it "
            "can speak for each variable until that has its new key",
            (long long)(left / 3600), (long long)(left / 60 % 60));
    return true;
}

uint64_t overlap_left(void)
{
    const uint64_t now = end == 0 ? 0 : timing_boot_ns();

    return end > now ? end - now : 0;
}

void overlap_end(void)
{
    end = 0;
    overlap_say("the time of the key before is over, and it is forgotten");
    counters[COUNT_BEFORE] = 0;
}

/* Writes them as 1,3,7-12. */
static const char *list_those_left(void)
{
    static char text[DUMPULSE_VARIABLES * 3 + 1];
    const uint64_t left = before & ~moved;
    size_t length = 0;

    text[0] = '\0';
    for (unsigned first = 0, last; first < DUMPULSE_VARIABLES; first = last + 1) {
        for (last = first; last + 1 < DUMPULSE_VARIABLES && (left >> last & 3) == 3;)
            last++;
        if ((left >> first & 1) == 0)
            continue;
        length +=
            (size_t)snprintf(text + length, sizeof text - length, last > first ? "%s%u-%u" : "%s%u",
                             length == 0 ? "" : ",", first, last);
    }
    return text[0] == '\0' ? "none" : text;
}

void overlap_say(const char *what)
{
    log_say("%s; the key before was used for %llu reports, and is all that was heard of variables: "
            "%s",
            what, (unsigned long long)reports, list_those_left());
}

void overlap_note_report(void)
{
    reports++;
}

void overlap_note(uint8_t variable, bool is_new)
{
    const uint64_t bit = UINT64_C(1) << variable, left = before & ~moved;
    char what[64];

    if (is_new)
        moved |= bit;
    else
        before |= bit;
    counters[COUNT_BEFORE] = (uint64_t)__builtin_popcountll(before & ~moved);
    if (!is_new || (left & bit) == 0)
        return;
    (void)snprintf(what, sizeof what, "variable %u has its new key", variable);
    overlap_say(what);
}
