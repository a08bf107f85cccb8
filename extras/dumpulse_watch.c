/* Looks at nodes. dumpulse_watch.h is the manual.   SPDX-License-Identifier: MIT
 *
 * The code is small on AVR and on a Cortex-M0+ for two reasons. First, all that a line says is read
 * once, in order. Second, a timestamp is kept as each processor handles it best: on AVR as two
 * bytes, elsewhere as one number. avr-gcc would compute the address of each byte of program memory
 * anew, and would move bytes around to make a number of them.
 *
 * STAYS is true if a node that was late or dead stays so: without a new heartbeat, time alone
 * makes nobody better. UNHEARD is true if there was no heartbeat yet. Their order is the fastest on
 * AVR, and the smallest elsewhere. */
#include "dumpulse_watch.h"

#ifdef __AVR__
typedef struct stamp {
    uint8_t high, low;
} stamp;
typedef uint8_t any_bits;
#define LATER(now) ((now) + DUMPULSE_AHEAD)

static inline stamp load(const uint8_t *bytes)
{
    const stamp time = {bytes[0], bytes[1]};
    return time;
}

static inline void store(uint8_t *bytes, stamp time)
{
    bytes[0] = time.high;
    bytes[1] = time.low;
}

#define STAYS(was, is, time, last) ((is) < (was) && (was) >= DUMPULSE_LATE && equal((time), (last)))
#define UNHEARD(was, any) ((was) <= DUMPULSE_MISSING && (any) == 0)

static inline bool equal(stamp one, stamp other)
{
    return ((one.high ^ other.high) | (one.low ^ other.low)) == 0;
}

static inline uint16_t minus(uint16_t now, stamp time)
{
    /* The & keeps the high byte of the time out of the register that the first line changes. */
    __asm__("sub %A0, %1\n\tsbc %B0, %2" : "+&r"(now) : "r"(time.low), "r"(time.high));
    return now;
}
#else
typedef unsigned stamp;
typedef unsigned any_bits;
#define LATER(now)                                                                                 \
    ((unsigned)(DUMPULSE_NARROW_ ? ((now) + (uint32_t)DUMPULSE_AHEAD) % 65536U                     \
                                 : (now) + (uint32_t)DUMPULSE_AHEAD))

static inline stamp load(const uint8_t *bytes)
{
    return dumpulse_read16_(bytes);
}

static inline void store(uint8_t *bytes, stamp time)
{
    dumpulse_write16_(bytes, time);
}

#define STAYS(was, is, time, last) ((time) == (last) && (was) >= DUMPULSE_LATE && (is) < (was))
#define UNHEARD(was, any) ((any) == 0 && (was) <= DUMPULSE_MISSING)

static inline uint16_t minus(unsigned now, stamp time)
{
    /* Modulo 65536. Compilers make one subtraction of all this. It says what a cast to uint16_t
     * would say: the prover knows only casts that change nothing. */
    return (uint16_t)(now < time             ? now + 65536UL - time
                      : now - time < 65536UL ? now - time
                                             : now - time - 65536UL);
}
#endif

/* What an entry of the agent says. */
typedef struct heard {
    stamp time;
    any_bits any; /* 0 if and only if all four bytes are 0 */
    uint8_t value;
} heard;

/* A line is read from its first byte to its last. On AVR, each READ takes what comes next, and
 * leaves the address of what follows in `line`. */
#ifdef __AVR__
typedef const uint8_t *place;
#define FIRST(table) ((place)(table))
#define READ8(line, field) next8(&(line))
#define READ16(line, field) next16(&(line))
#define NEXT(line) (line)
#define ENTRY(agent, grace) ((agent)->report + (uint8_t)((grace)*4U))

static inline uint8_t next8(place *line)
{
    uint8_t byte;
    __asm__ volatile("lpm %0, Z+" : "=r"(byte), "+z"(*line));
    return byte;
}

static inline uint16_t next16(place *line)
{
    uint16_t word;
    __asm__ volatile("lpm %A0, Z+\n\tlpm %B0, Z+" : "=r"(word), "+z"(*line));
    return word;
}

static inline heard hear(const uint8_t *entry)
{
    heard it;
    __asm__ volatile("adiw r26, 4\n\t"
                     "ld %0, X+\n\tld %1, X+\n\tld %2, X+\n\tld %3, X\n\t"
                     "or %2, %0\n\tor %2, %1\n\tor %2, %3"
                     : "=&r"(it.time.high), "=&r"(it.time.low), "=&r"(it.any), "=&r"(it.value),
                       "+x"(entry)
                     :
                     : "memory");
    return it;
}
#else
typedef const dumpulse_watched *place;
#define FIRST(table) (table)
#define READ8(line, field) ((line)->field)
#define READ16(line, field) ((line)->field)
#define NEXT(line) ((line) + 1)
#define ENTRY(agent, grace) ((agent)->report + (size_t)((grace) % 64U) * 4U)

/*@ requires \valid_read(entry + (4 .. 7));
    assigns \nothing;
    exits \false;
    ensures \result.time == number(entry + 4) && \result.value == entry[7];
    ensures \result.any == 0 <==> number(entry + 4) == 0 && entry[6] == 0 && entry[7] == 0; */
static inline heard hear(const uint8_t *entry)
{
    heard it;
    it.time = load(entry + DUMPULSE_TIME_AT_);
    it.value = entry[DUMPULSE_VALUE_AT_];
    it.any = it.time | entry[DUMPULSE_SENDER_AT_] | it.value;
    return it;
}
#endif

/* Looks at one line, and returns where the next one begins. */
static place look(place line, dumpulse_seen *seen, dumpulse *agent, unsigned later)
{
    const uint16_t grace = READ16(line, grace);
    const uint8_t variable = (uint8_t)(grace % 64U);
    const heard it = hear(ENTRY(agent, grace));
    const uint8_t offset = (uint8_t)((it.value + 256U - READ8(line, lowest)) % 256U);
    const uint16_t age = minus(later, it.time);
    const dumpulse_state was = seen->state;
    dumpulse_state is = DUMPULSE_ALIVE;

    /*@ assert offset == (it.value + 256 - line->lowest) % 256; */
    /*@ assert age == ticks(it.time, later); */
    if (offset > READ8(line, span)) {
        is = DUMPULSE_OUT_OF_RANGE;
    }
    if (age > READ16(line, late)) {
        is = DUMPULSE_LATE;
    }
    if (age > READ16(line, dead)) {
        is = DUMPULSE_DEAD;
    }
    /*@ assert is == fresh(line->late, line->dead, line->lowest, line->span, it.value, age); */
    const stamp last = load(seen->since);
    if (UNHEARD(was, it.any)) {
        /* Never heard. The time is 0, so the age is the time now. */
        /*@ assert ticks(last, age) == ticks(last, later); */
        is = was;
        if (minus(age, last) > grace) {
            is = DUMPULSE_MISSING;
        }
        /*@ assert is == waited(was, last, grace, later); */
    } else {
        store(seen->since, it.time);
        if (STAYS(was, is, it.time, last)) {
            is = was;
        }
        /*@ assert is == kept_or(was, last, it.time, fresh(line->late, line->dead, line->lowest,
                                                           line->span, it.value, age)); */
    }
    /*@ ghost looks[looking]++; */
    if (is != was) {
        seen->state = is;
        dumpulse_changed(agent, variable, was, is);
    }
    return NEXT(line);
}

void dumpulse_watch_lines_(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now)
{
    place line = FIRST(watch->table);
    dumpulse_seen *seen = watch->seen;
    /* All limits of the table are higher by this, too. So a timestamp that is a little ahead of
     * `now` is not taken for one that is very old. */
    const unsigned later = LATER(now);

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
        line = look(line, seen, agent, later);
        seen++;
        /*@ ghost looking++; */
        left--;
    } while (left != 0);
}
