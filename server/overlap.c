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

static int64_t given; /* s from the start to --key-until */
static uint64_t end;  /* ns since the machine was started; 0: there is no overlap */
struct overlap overlap;
static uint64_t moved; /* a bit for each variable that has its new key */

bool overlap_read_until(const char *text)
{
    static const char format[] = "%Y-%m-%dT%H:%MZ";
    struct tm parts = {.tm_mday = 1};
    char again[sizeof "2026-12-31T23:59Z"] = "";

    if (strptime(text, format, &parts) != NULL) {
        given = (int64_t)timegm(&parts) - (int64_t)(timing_unix_ms() / 1000);
        end = given > 0 ? timing_boot_ns() + (uint64_t)given * TIMING_SECOND : 0;
        (void)strftime(again, sizeof again, format, &parts); /* timegm() makes March 2 of Feb. 30 */
    }
    return (again[0] != '\0' && strcmp(text, again) == 0) ||
           options_wrong("--key-until must be a time in UTC like 2026-12-31T23:59Z, not '%.40s'",
                         text);
}

bool overlap_begin(void)
{
    if (given > LONGEST) {
        log_say("--key-until is more than a year ahead: if it is right, set this machine's clock");
        return false;
    }
    if (overlap_left() == 0) {
        log_say("the time of --key-before is over: nothing made with it is accepted; leave out "
                "--key-before and --key-until");
        return true;
    }
    log_say("what is made with the key before is accepted, too, for %lld h %lld min; anyone who "
            "stole it can forge each variable until that has its new key",
            (long long)(given / 3600), (long long)(given / 60 % 60));
    return true;
}

uint64_t overlap_left(void)
{
    const uint64_t now = end == 0 ? 0 : timing_boot_ns();

    return end > now ? end - now : 0;
}

uint64_t overlap_ended(void)
{
    const int64_t ended = (int64_t)(timing_unix_ms() / 1000) + given;

    return given < -LONGEST || ended < 0 ? 0 : (uint64_t)ended;
}

void overlap_end(void)
{
    if (end == 0)
        return;
    end = 0;
    overlap_say("the time of the key before is over, and it is forgotten");
    counters[COUNT_BEFORE] = 0;
}

const char *overlap_list(uint64_t variables)
{
    static char text[DUMPULSE_VARIABLES * 3 + 1];
    size_t length = 0;

    text[0] = '\0';
    for (unsigned first = 0, last; first < DUMPULSE_VARIABLES; first = last + 1) {
        for (last = first; last + 1 < DUMPULSE_VARIABLES && (variables >> last & 3) == 3;)
            last++;
        if ((variables >> first & 1) == 0)
            continue;
        length +=
            (size_t)snprintf(text + length, sizeof text - length, last > first ? "%s%u-%u" : "%s%u",
                             length == 0 ? "" : ",", first, last);
    }
    return text[0] == '\0' ? "none" : text;
}

void overlap_say(const char *what)
{
    log_say("%s; the key before was used for %llu reports, and is all that was received of "
            "variables: %s",
            what, (unsigned long long)overlap.reports, overlap_list(overlap.variables & ~moved));
}

void overlap_count(void)
{
    counters[COUNT_BEFORE] = (uint64_t)__builtin_popcountll(overlap.variables & ~moved);
}

void overlap_retire(uint64_t variables)
{
    for (unsigned variable = 0; variable < DUMPULSE_VARIABLES; variable++) {
        const uint64_t bit = (UINT64_C(1) << variable) & variables & ~moved;
        char what[64];
        moved |= bit;
        overlap_count();
        if ((overlap.variables & bit) == 0)
            continue;
        (void)snprintf(what, sizeof what, "variable %u has its new key", variable);
        overlap_say(what);
    }
}
