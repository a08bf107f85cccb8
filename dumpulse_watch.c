/* Looks at nodes. dumpulse_watch.h is the manual.   SPDX-License-Identifier: MIT */
#include "dumpulse_watch.h"

/* What an entry of the agent says. */
typedef struct heard {
    uint8_t high, low; /* of the timestamp */
    uint8_t any;       /* 0 if and only if all four bytes are 0 */
    uint8_t value;
} heard;

/* The lines of the table are read from the first byte to the last. On AVR, each READ takes the next
 * byte or two from program memory. These instructions also count up the address. avr-gcc would
 * compute each address anew: that takes 60 bytes more. */
#ifdef __AVR__
typedef const uint8_t *place;
#define FIRST(table) ((place)(table))
#define READ8(line, field) read8(&(line))
#define READ16(line, field) read16(&(line))
#define NEXT(line) (line)
/* A line's variable is in the lowest 6 bits of its first two bytes, and an entry has 4 bytes. */
#define ENTRY(agent, grace) ((agent)->report + (uint8_t)((grace)*4U))

static inline uint8_t read8(place *line)
{
    uint8_t byte;
    __asm__ volatile("lpm %0, Z+" : "=r"(byte), "+z"(*line));
    return byte;
}

static inline uint16_t read16(place *line)
{
    uint16_t word;
    __asm__ volatile("lpm %A0, Z+\n\tlpm %B0, Z+" : "=r"(word), "+z"(*line));
    return word;
}

static inline heard hear(const uint8_t *entry)
{
    heard it;
    __asm__ volatile("adiw %4, 4\n\t"
                     "ld %0, %a4+\n\tld %1, %a4+\n\tld %2, %a4+\n\tld %3, %a4\n\t"
                     "or %2, %0\n\tor %2, %1\n\tor %2, %3"
                     : "=&r"(it.high), "=&r"(it.low), "=&r"(it.any), "=&r"(it.value), "+x"(entry)
                     :
                     : "memory");
    return it;
}

static inline uint16_t minus(uint16_t now, uint8_t high, uint8_t low)
{
    __asm__("sub %A0, %1\n\tsbc %B0, %2" : "+r"(now) : "r"(low), "r"(high));
    return now;
}
#else
typedef const dumpulse_watched *place;
#define FIRST(table) (table)
#define READ8(line, field) ((line)->field)
#define READ16(line, field) ((line)->field)
#define NEXT(line) ((line) + 1)
#define ENTRY(agent, grace) ((agent)->report + ((grace) % 64U) * 4U)

static inline heard hear(const uint8_t *entry)
{
    heard it;
    it.high = entry[DUMPULSE_TIME_AT_];
    it.low = entry[DUMPULSE_TIME_AT_ + 1];
    it.value = entry[DUMPULSE_VALUE_AT_];
    it.any = (uint8_t)(it.high | it.low | entry[DUMPULSE_SENDER_AT_] | it.value);
    return it;
}

static inline uint16_t minus(uint16_t now, uint8_t high, uint8_t low)
{
    return (uint16_t)((now + 65536UL - high * 256UL - low) % 65536UL);
}
#endif

void dumpulse_watch(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now)
{
    place line = FIRST(watch->table);
    dumpulse_seen *seen = watch->seen;

    now = (uint16_t)(now + DUMPULSE_AHEAD);
    for (uint_fast8_t left = watch->count; left != 0; left--) {
        const uint16_t grace = READ16(line, grace);
        const heard it = hear(ENTRY(agent, grace));
        const uint8_t offset = (uint8_t)(it.value - READ8(line, lowest));
        const uint16_t age = minus(now, it.high, it.low);
        const dumpulse_state was = seen->state;
        dumpulse_state is = DUMPULSE_ALIVE;

        if (offset > READ8(line, span)) {
            is = DUMPULSE_OUT_OF_RANGE;
        }
        if (age > READ16(line, late)) {
            is = DUMPULSE_LATE;
        }
        if (age > READ16(line, dead)) {
            is = DUMPULSE_DEAD;
        }
        if (it.any == 0 && was <= DUMPULSE_MISSING) {
            is = was;
            if (minus(age, seen->since[0], seen->since[1]) > grace) {
                is = DUMPULSE_MISSING;
            }
        } else {
            const uint8_t moved = (uint8_t)((seen->since[0] ^ it.high) | (seen->since[1] ^ it.low));
            seen->since[0] = it.high;
            seen->since[1] = it.low;
            if (moved == 0 && was >= DUMPULSE_LATE && is < was) {
                is = was;
            }
        }
        if (is != was) {
            seen->state = is;
            dumpulse_changed(agent, (uint8_t)(grace % 64U), was, is);
        }
        seen++;
        line = NEXT(line);
    }
}
