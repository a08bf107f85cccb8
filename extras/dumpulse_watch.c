/* Looks at nodes. dumpulse_watch.h is the manual.   SPDX-License-Identifier: MIT */
#include "dumpulse_watch.h"

/* now - since, modulo 65536. Compilers make one subtraction of it. The cast alone would say the
 * same, but the prover knows only casts that change nothing. */
static uint16_t minus(unsigned now, unsigned since)
{
    return (uint16_t)(now >= since ? now - since : now + (65535U - since) + 1U);
}

/* Looks at one line. `later` is now + 64, and all limits of a line are higher by 64, too. So a
 * timestamp that is a little ahead of now is not taken for one that is very old. */
static void look(const dumpulse_line_ *line, dumpulse_seen *seen, dumpulse *agent, uint16_t later)
{
    const uint8_t variable = DUMPULSE_READ8_(line->variable);
    const uint8_t offset = (uint8_t)(variable % DUMPULSE_VARIABLES * DUMPULSE_ENTRY_SIZE_);
    const uint8_t *entry = agent->report + offset;
    uint8_t high = entry[DUMPULSE_TIME_AT_];
    uint8_t low = entry[DUMPULSE_TIME_AT_ + 1];
    const uint8_t value = entry[DUMPULSE_VALUE_AT_];
    const dumpulse_state was = seen->state;
    dumpulse_state is = was;
    /* 0 if there was no heartbeat yet: waiting and missing are 0 and 1, and such an entry is 0. */
    const uint8_t heard = (uint8_t)(was / 2U | high | low | entry[DUMPULSE_SENDER_AT_] | value);

    /*@ assert heard == 0 <==> unheard(was, high * 256 + low, entry[6], value); */
    if (heard == 0) {
        high = seen->since[0];
        low = seen->since[1];
    }
    /*@ assert high * 256 + low == number(&seen->since[0]) <==>
          high == seen->since[0] && low == seen->since[1]; */
    const uint16_t age = minus(later, high * 256U + low);
    if (heard == 0) {
        if (age > DUMPULSE_READ16_(line->grace)) {
            is = DUMPULSE_MISSING;
        }
    } else if (age > DUMPULSE_READ16_(line->dead)) {
        is = DUMPULSE_DEAD;
        /*@ assert is == BECOMES; */
    } else if (was < DUMPULSE_LATE || high != seen->since[0] || low != seen->since[1]) {
        const uint8_t above = (uint8_t)((value + 256U - DUMPULSE_READ8_(line->lowest)) % 256U);
        /*@ assert above == (value + 256 - line->lowest) % 256; */
        is = DUMPULSE_ALIVE;
        if (above > DUMPULSE_READ8_(line->span)) {
            is = DUMPULSE_OUT_OF_RANGE;
        }
        if (age > DUMPULSE_READ16_(line->late)) {
            is = DUMPULSE_LATE;
        }
        /*@ assert is == BECOMES; */
    } else {
        /* Without a new heartbeat, time alone makes nobody better. */
        /*@ assert is == BECOMES; */
    }
    /*@ assert heard != 0 ==> is == BECOMES; */
    seen->since[0] = high;
    seen->since[1] = low;
    /*@ ghost looks[looking]++; */
    if (is != was) {
        seen->state = is;
        dumpulse_changed(agent, variable, was, is);
    }
}

void dumpulse_watch_lines_(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now)
{
    const dumpulse_line_ *line = watch->table;
    dumpulse_seen *seen = watch->seen;
    const uint16_t later = minus(now, 65536U - DUMPULSE_AHEAD);
    uint_fast8_t left = watch->count;

    /*@ ghost looking = 0, first_line = line, first_seen = seen, later_now = later; */
    /*@ loop invariant 0 <= looking <= 254 && looking == \at(watch->count, Pre) - left;
        loop invariant left >= 1;
        loop invariant line == first_line + looking && seen == first_seen + looking;
        loop invariant \forall integer i; 0 <= i < looking ==> looks[i] == \at(looks[i], Pre) + 1;
        loop invariant \forall integer i; looking <= i <= 255 ==>
          looks[i] == \at(looks[i], Pre) && told[i] == \at(told[i], Pre);
        loop assigns line, seen, left, looking, first_seen[0 .. \at(watch->count, Pre) - 1],
          looks[0 .. 255], told[0 .. 255], told_was[0 .. 255], told_is[0 .. 255];
        loop variant left; */
    do {
        look(line, seen, agent, later);
        line++;
        seen++;
        /*@ ghost looking++; */
        left--;
    } while (left != 0);
}
