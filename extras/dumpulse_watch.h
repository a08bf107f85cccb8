/* Dumpulse watch: tells an agent which nodes fell silent.   SPDX-License-Identifier: MIT
 *
 * An agent keeps the last heartbeat of each variable. This optional part looks at
 * them, and calls a hook when a node is late, dead, back, missing, or sends a value
 * out of range. So the device can act by itself: light a lamp, open a relay, reset the
 * node. Nothing in the report changes.
 *
 * To use it, compile dumpulse_watch.c beside dumpulse.c. Without it, an agent needs
 * no more code or RAM than before. What dumpulse.h says about compilers is true here,
 * too.
 *
 * HOW TO USE IT
 *   1. Write a table, with one line for each variable to watch:
 *          DUMPULSE_WATCH(watch,
 *              DUMPULSE_WATCHED(variable(3), silence(20), misses(3), grace(200), values(10, 120)),
 *              DUMPULSE_WATCHED(variable(7), silence(50), misses(2), grace(500), values(0, 255)));
 *      Variable 3 may be silent for 20 ticks; then it is late. After 3 such silences,
 *      that is after 60 ticks, it is dead. It has 200 ticks from the start to speak
 *      for the first time. Its value must be 10 to 120. DUMPULSE_WATCHED below says
 *      what each number may be. The compiler rejects numbers that cannot work. A table
 *      may have up to 255 lines.
 *      This defines the watcher `watch`, its table (on AVR in program memory) and its
 *      RAM, 3 bytes for each line.
 *   2. Write the hook dumpulse_changed().
 *   3. Call dumpulse_watch(&watch, &agent, now) again and again, from the main loop
 *      or from a timer. `now` is the time of the same clock that
 *      dumpulse_get_timestamp() reads.
 *
 * STATES
 *   waiting       no node has sent this variable yet, and the grace is not over
 *   missing       no node has sent it yet, and the grace is over
 *   alive         its last heartbeat is not too old
 *   out of range  the same, but its value is below the lowest or above the highest
 *   late          its last heartbeat is older than one silence
 *   dead          its last heartbeat is older than all the silences that it may miss
 *   All start as waiting. A look at an entry makes at most one change, and calls the
 *   hook once for it. The state is new already when the hook is called. Time makes a
 *   node late and then dead, or dead at once. Only a new heartbeat ends these states,
 *   whatever the clock does: it may wrap, jump or stand still. Only the first heartbeat
 *   ends missing. A value out of range is not silence: a silent node is late or dead,
 *   whatever its last value was. A new heartbeat that is old already makes a dead node
 *   late.
 *
 * TIME
 *   The age of a heartbeat is now - timestamp, in ticks of 16 bits. It wraps around.
 *   A node is late when this age is more than its silence, dead when it is more than
 *   its dead limit, which is silence * misses, and missing when more ticks than its
 *   grace have passed from the start.
 *   The tick is that of the agent's timestamps, and readers have to live with it: what
 *   dumpulse.h says under TIME. With a tick of 10 ms, ages wrap around after 655 s.
 *   Look at each line again within 65471 ticks less its dead limit, or a dead node
 *   may seem alive. Look again within 65471 ticks less its grace, too, or a node may
 *   wait for ever. To have both checked, define DUMPULSE_LOOK_WITHIN as the most ticks
 *   that may pass between two looks, before you include this header. Without this, it
 *   is 1024. The compiler rejects a line that does not fit. For a table that is made
 *   at run time, dumpulse_watch_check() says the same. Nothing checks that you do look
 *   so often.
 *   The hook for late, dead and missing comes with the first look after the time. So
 *   dead comes at most silence * misses + 1 ticks, and the time between two looks, after
 *   the last heartbeat. firmware/safety.md, in the project's repository, has what this
 *   means for a relay, and what the watch does not do.
 *   A timestamp may be up to 64 ticks ahead of `now`: then its age counts as 0. So it
 *   does no harm if the clock was read a little too early. If the clock is set back
 *   by more, or forward, nodes may be late or dead until their next heartbeat, and
 *   nodes that were never heard may be missing. While the clock stands still,
 *   no node becomes late, dead or missing.
 *   The grace begins when the clock is at 0, which is right for a clock that starts
 *   with the device. For another clock, call dumpulse_watch_begin(&watch, now) once,
 *   before the first look.
 *
 * WHAT AN ENTRY CANNOT TELL
 *   The table of an agent has the last heartbeat of each variable: 4 bytes. A
 *   heartbeat is new if its timestamp is not that of the last look. So a look does
 *   not notice:
 *   - Heartbeats that came and were overwritten between two looks. So there is no state
 *     for a node that sends too often. firmware/README.md, in the project's repository,
 *     shows how to notice that, and restarts.
 *   - A heartbeat with exactly the timestamp of the one before, from a node that is
 *     late or dead: the node stays so until its next heartbeat. There are two ways to
 *     this. The heartbeat comes 65536 ticks after the last one, or a multiple. Or the
 *     agent's clock was set back after the last one, and has come to the same tick
 *     again.
 *   - That there was a second heartbeat in the same tick, from a node that is not late
 *     or dead. Its value is noticed: alive and out of range follow the value in the
 *     table at each look.
 *   - The sender. A node that takes over the variable of another one is a new
 *     heartbeat and no more. So is a node that restarts with a new sender. Read the
 *     sender in the hook, if you need it.
 *   - A first heartbeat of four zero bytes: value 0 from sender 0 in tick 0. It is
 *     "never heard". From a variable that was heard before, it is a heartbeat like
 *     others.
 *   A table that an agent has kept from before a restart is looked at like any other.
 *   It cannot show that a heartbeat in it is older than 65535 ticks.
 *
 * TRUST AND MISUSE
 *   Heartbeats come from the network. Whatever they are, a look takes the time below,
 *   and writes only the RAM of its entry. The table, the RAM and the count come from
 *   the firmware and are trusted. Numbers that make no sense do no harm: a silence or
 *   misses of 0 make a node dead when it is a tick old; if the lowest value is above
 *   the highest one, values are out of range where they should not be; a variable of 64
 *   or more reads an entry of another. DUMPULSE_WATCHED and dumpulse_watch_check()
 *   reject all three. On AVR, a table that is not in program memory would not be read.
 *   So there only DUMPULSE_WATCH can make one: the type of a line has no other name.
 *   The same variable may be in several lines, with other limits: each line has its own
 *   state and its own calls of the hook.
 *   If you set the agent to zeros again, set the RAM to zeros, too. Otherwise this
 *   counts as a heartbeat at time 0.
 *
 * INTERRUPTS AND THREADS
 *   A look reads the agent, so what dumpulse.h says about calls for one agent is true
 *   here. Make only one call at a time for one RAM, and mask interrupts that record
 *   heartbeats around the call. Read the clock after the mask is set. If a heartbeat
 *   is recorded during a look nevertheless, nothing breaks in memory: a state may be
 *   wrong until the next look.
 *   The hook must not call functions that change the agent or the RAM. It may ask
 *   for a state.
 *
 * WORK
 *   Each look reads 9 bytes of the table, 4 of the agent and 3 of the RAM. It writes
 *   at most 3 bytes of the RAM, and calls the hook at most once. dumpulse_watch() looks
 *   once at each line of the table. To do less in one call, give a part of the table
 *   to dumpulse_watch_part(). performance.md, in the project's repository, says what
 *   it costs.
 *
 * THE COUNT OF THE DEAD IN THE REPORT
 *   To show readers the agent's own judgement, let the agent record it as a variable
 *   of its own, from the main loop, after a round of looks:
 *          const uint8_t gone = dumpulse_watch_count(&watch, DUMPULSE_DEAD);
 *          dumpulse_record(&agent, 60, ME, gone);
 */
#ifndef DUMPULSE_WATCH_H
#define DUMPULSE_WATCH_H

#include "dumpulse.h"

#ifdef __AVR__
#include <avr/pgmspace.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DUMPULSE_WAITING = 0,
    DUMPULSE_MISSING = 1,
    DUMPULSE_ALIVE = 2,
    DUMPULSE_OUT_OF_RANGE = 3,
    DUMPULSE_LATE = 4,
    DUMPULSE_DEAD = 5
};
typedef uint8_t dumpulse_state;

/* A line of the table. */
typedef struct dumpulse_line_ {
    uint8_t variable;
    uint8_t lowest, span;       /* The highest value is lowest + span. */
    uint16_t grace, late, dead; /* ticks + 64: a time above this is too long */
} dumpulse_line_;

/* What is known of a line. Starts as zeros. */
typedef struct dumpulse_seen {
    uint8_t since[2]; /* the last timestamp, or when the grace began; the high byte first */
    dumpulse_state state;
} dumpulse_seen;

/* DUMPULSE_WATCH makes one. */
typedef struct dumpulse_watcher {
    const dumpulse_line_ *table; /* on AVR in program memory */
    dumpulse_seen *seen;         /* RAM of the lines, one for each. */
    uint8_t count;               /* lines of the table */
} dumpulse_watcher;

/* Defines a watcher, static and constant, of these lines: each a DUMPULSE_WATCHED, with commas
 * between. C++ must be C++11 or later for this. */
#define DUMPULSE_WATCH(name, ...)                                                                  \
    static const dumpulse_line_ name##_table_[] DUMPULSE_IN_FLASH_ = {__VA_ARGS__};                \
    static dumpulse_seen name##_seen_[sizeof name##_table_ / sizeof name##_table_[0]];             \
    static const dumpulse_watcher name = {name##_table_, name##_seen_,                             \
                                          DUMPULSE_COUNT_(sizeof name##_seen_ / 3U)}

#define DUMPULSE_AHEAD 64U /* ticks that a timestamp may be ahead of `now` */
#ifndef DUMPULSE_LOOK_WITHIN
#define DUMPULSE_LOOK_WITHIN 1024 /* the most ticks between two looks at a line */
#endif

/* A line of the table. All numbers must be constants.
 *   variable(n)     0 to 63
 *   silence(n)      ticks that may pass from one heartbeat to the next, from 1
 *   misses(n)       silences until the node is dead, from 1; silence * misses is the dead limit
 *   grace(n)        ticks from the start until the first heartbeat, from 0
 *   values(l, h)    the lowest and the highest value, 0 to 255
 * The dead limit and the grace must each be 65471 at most together with DUMPULSE_LOOK_WITHIN. In
 * another order this does not compile: the compiler then calls DUMPULSE_1_silence, for example,
 * undeclared. The compiler names a number that is not allowed; in C99, it says that the size of an
 * array is negative. */
#define DUMPULSE_WATCHED(variable, silence, misses, grace, values)                                 \
    DUMPULSE_LINE_(DUMPULSE_1_##variable, DUMPULSE_2_##silence, DUMPULSE_3_##misses,               \
                   DUMPULSE_4_##grace, DUMPULSE_5_##values)

/* Hook, written by the user: called once for each change of a state. The state is new already when
 * the hook is called. The context is the agent that dumpulse_watch() got. If the hook needs more,
 * put the agent first in a struct of your own. */
void dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was, dumpulse_state is);

/* Looks at each line of the table once. Work: see above, for each line. */
static inline void dumpulse_watch(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now);

/* Looks at `count` lines from line `first` on, or at those that there are. */
static inline void dumpulse_watch_part(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now,
                                       uint8_t first, uint8_t count);

/* Begins the grace of all that are waiting. Needed only if the clock is not 0 at the start. */
static inline void dumpulse_watch_begin(const dumpulse_watcher *watch, uint16_t now);

/* The state of a variable: that of its first line. A variable that is in no line is waiting. */
static inline dumpulse_state dumpulse_watch_state(const dumpulse_watcher *watch, uint8_t variable);

/* The worst state of all, in this order: alive, waiting, out of range, late, missing, dead. Without
 * any line it is alive. */
static inline dumpulse_state dumpulse_watch_worst(const dumpulse_watcher *watch);

/* How many lines are in this state. */
static inline uint8_t dumpulse_watch_count(const dumpulse_watcher *watch, dumpulse_state state);

#ifndef __AVR__
/* For tables that are made at run time, which AVR does not have: a line, for a watcher that is
 * written as {lines, seen, count}. The node is late when it is silent for more than `late` ticks,
 * and dead after more than `dead` ticks. The others are as in DUMPULSE_WATCHED. If a number is not
 * allowed, the line is one that dumpulse_watch_check() rejects. */
typedef dumpulse_line_ dumpulse_watched;
static inline dumpulse_watched dumpulse_watched_make(uint8_t variable, uint16_t late, uint16_t dead,
                                                     uint16_t grace, uint8_t lowest,
                                                     uint8_t highest);
#endif

/* The number of the first line that is not allowed, counted from 0, if up to `within` ticks may
 * pass between two looks. If all are good: the count of lines. */
static inline uint8_t dumpulse_watch_check(const dumpulse_watcher *watch, uint16_t within);

/* ------------------------------------------------------------------------------
 * The manual ends here. What follows is as in dumpulse.h.
 */

/* The largest age that is told from one that has wrapped, + 64. */
#define DUMPULSE_LONGEST_ 65535U

#define DUMPULSE_1_variable(number) number
#define DUMPULSE_2_silence(number) number
#define DUMPULSE_3_misses(number) number
#define DUMPULSE_4_grace(number) number
#define DUMPULSE_5_values(lowest, highest) lowest, highest
#define DUMPULSE_LINE_(...)                                                                        \
    DUMPULSE_NUMBERS_(__VA_ARGS__) /* values() becomes two arguments first */

/* 1, if the condition holds; otherwise it does not compile, and the compiler names the rule. */
#ifdef __cplusplus
extern "C++" {
template <bool holds, class rule> struct dumpulse_must_; /* no such type if it does not hold */
template <class rule> struct dumpulse_must_<true, rule> {
    char one;
};
}
#define DUMPULSE_MUST_(condition, rule) sizeof(dumpulse_must_<(condition), struct rule>)
#elif defined __STDC_VERSION__ && __STDC_VERSION__ >= 201112L
#define DUMPULSE_MUST_(condition, rule)                                                            \
    sizeof(struct {                                                                                \
        _Static_assert(condition, #rule);                                                          \
        char one;                                                                                  \
    })
#else
#define DUMPULSE_MUST_(condition, rule) sizeof(char[(condition) ? 1 : -1])
#endif

#define DUMPULSE_NUMBERS_(variable, silence, misses, grace, lowest, highest)                       \
    {                                                                                              \
        (uint8_t)((variable)*DUMPULSE_MUST_((int64_t)(variable) >= 0 && (variable) < 64,           \
                                            variable_must_be_0_to_63)),                            \
            (uint8_t)((lowest)*DUMPULSE_MUST_((int64_t)(lowest) >= 0 && (highest) <= 255 &&        \
                                                  (lowest) <= (highest),                           \
                                              values_must_be_0_to_255_the_lower_first)),           \
            (uint8_t)((highest) - (lowest)),                                                       \
            (uint16_t)((grace)*DUMPULSE_MUST_((int64_t)(grace) >= 0 && (grace) <= 65535 &&         \
                                                  DUMPULSE_FITS_(grace),                           \
                                              grace_is_negative_or_too_long) +                     \
                       DUMPULSE_AHEAD),                                                            \
            (uint16_t)((silence)*DUMPULSE_MUST_((silence) > 0 && (silence) <= 65535,               \
                                                silence_must_be_1_to_65535) +                      \
                       DUMPULSE_AHEAD),                                                            \
            (uint16_t)((uint64_t)(silence) *                                                       \
                           (misses)*DUMPULSE_MUST_(                                                \
                               (misses) > 0 && (misses) <= 65535 &&                                \
                                   DUMPULSE_FITS_((uint64_t)(silence) * (misses)),                 \
                               misses_is_0_or_silence_times_misses_too_long) +                     \
                       DUMPULSE_AHEAD)                                                             \
    }
#define DUMPULSE_FITS_(ticks)                                                                      \
    ((uint64_t)(ticks) + DUMPULSE_AHEAD + (DUMPULSE_LOOK_WITHIN) <= DUMPULSE_LONGEST_)

/* At most 255 lines. */
#define DUMPULSE_COUNT_(count) (uint8_t)((count) * sizeof(char[(count) <= 255U ? 1 : -1]))

/* A field of a line. On AVR it is read from program memory. */
#ifdef __AVR__
#define DUMPULSE_IN_FLASH_ __attribute__((section(".progmem.data")))
#define DUMPULSE_READ8_(field) pgm_read_byte(&(field))
#define DUMPULSE_READ16_(field) pgm_read_word(&(field))
#else
#define DUMPULSE_IN_FLASH_
#define DUMPULSE_READ8_(field) (field)
#define DUMPULSE_READ16_(field) (field)
#endif

/* The same for a table that has at least one line. */
void dumpulse_watch_lines_(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now);

static inline void dumpulse_watch(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now)
{
    if (watch->count != 0) {
        dumpulse_watch_lines_(watch, agent, now);
    }
}

static inline void dumpulse_watch_part(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now,
                                       uint8_t first, uint8_t count)
{
    if (first < watch->count) {
        dumpulse_watcher part;
        const uint8_t rest = (uint8_t)(watch->count - first);
        part.table = watch->table + first;
        part.seen = watch->seen + first;
        part.count = count < rest ? count : rest;
        dumpulse_watch(&part, agent, now);
    }
}

static inline void dumpulse_watch_begin(const dumpulse_watcher *watch, uint16_t now)
{
    /*@ loop invariant 0 <= i <= watch->count == \at(watch->count, Pre);
        loop invariant \forall integer k; 0 <= k < watch->count ==>
          watch->seen[k].state == \at(watch->seen[k].state, Pre);
        loop invariant \forall integer k; 0 <= k < watch->count ==>
          (k < i && watch->seen[k].state == DUMPULSE_WAITING ?
            number(&watch->seen[k].since[0]) == now :
            watch->seen[k].since[0] == \at(watch->seen[k].since[0], Pre) &&
            watch->seen[k].since[1] == \at(watch->seen[k].since[1], Pre));
        loop assigns i, watch->seen[0 .. \at(watch->count, Pre) - 1];
        loop variant watch->count - i; */
    for (uint8_t i = 0; i != watch->count; i++) {
        if (watch->seen[i].state == DUMPULSE_WAITING) {
            dumpulse_write16_(watch->seen[i].since, now);
        }
    }
}

static inline dumpulse_state dumpulse_watch_state(const dumpulse_watcher *watch, uint8_t variable)
{
    /*@ loop invariant 0 <= i <= watch->count;
        loop invariant \forall integer k; 0 <= k < i ==>
          watch->table[k].variable != variable;
        loop assigns i;
        loop variant watch->count - i; */
    for (uint8_t i = 0; i != watch->count; i++) {
        if (DUMPULSE_READ8_(watch->table[i].variable) == variable) {
            return watch->seen[i].state;
        }
    }
    return DUMPULSE_WAITING;
}

static inline dumpulse_state dumpulse_watch_worst(const dumpulse_watcher *watch)
{
    dumpulse_state worst = DUMPULSE_ALIVE;
    uint8_t rank = 4;

    /*@ loop invariant 0 <= i <= watch->count && worst <= DUMPULSE_DEAD;
        loop invariant rank == (worst <= DUMPULSE_MISSING ? 5 + 4 * worst : 2 * worst);
        loop invariant worst == DUMPULSE_ALIVE ||
          \exists integer k; 0 <= k < i && watch->seen[k].state == worst;
        loop invariant \forall integer k; 0 <= k < i ==>
          badness(watch->seen[k].state) <= badness(worst);
        loop assigns i, worst, rank;
        loop variant watch->count - i; */
    for (uint8_t i = 0; i != watch->count; i++) {
        const dumpulse_state state = watch->seen[i].state;
        /* Waiting is between alive and out of range, missing is between late and dead. */
        const uint8_t its = (uint8_t)(state <= DUMPULSE_MISSING ? 5U + 4U * state : 2U * state);
        if (its > rank) {
            worst = state;
            rank = its;
        }
    }
    return worst;
}

/*@ logic integer how_many{L}(dumpulse_seen *seen, integer n, integer state) =
      n <= 0 ? 0 : how_many(seen, n - 1, state) + (seen[n - 1].state == state ? 1 : 0); */
static inline uint8_t dumpulse_watch_count(const dumpulse_watcher *watch, dumpulse_state state)
{
    uint8_t found = 0;

    /*@ loop invariant 0 <= i <= watch->count && found <= i;
        loop invariant found == how_many(watch->seen, i, state);
        loop assigns i, found;
        loop variant watch->count - i; */
    for (uint8_t i = 0; i != watch->count; i++) {
        if (watch->seen[i].state == state) {
            found++;
        }
    }
    return found;
}

#ifndef __AVR__
static inline dumpulse_watched dumpulse_watched_make(uint8_t variable, uint16_t late, uint16_t dead,
                                                     uint16_t grace, uint8_t lowest,
                                                     uint8_t highest)
{
    const unsigned most = DUMPULSE_LONGEST_ - DUMPULSE_AHEAD;
    dumpulse_watched line = {0, 0, 0, 0, 0, 0};

    if (variable < DUMPULSE_VARIABLES && lowest <= highest && late <= most && dead <= most &&
        grace <= most) {
        line.variable = variable;
        line.lowest = lowest;
        line.span = (uint8_t)(highest - lowest);
        line.grace = (uint16_t)(grace + DUMPULSE_AHEAD);
        line.late = (uint16_t)(late + DUMPULSE_AHEAD);
        line.dead = (uint16_t)(dead + DUMPULSE_AHEAD);
    }
    return line;
}
#endif

static inline uint8_t dumpulse_watch_check(const dumpulse_watcher *watch, uint16_t within)
{
    const uint16_t most = (uint16_t)(DUMPULSE_LONGEST_ - within);
    uint8_t i = 0;

    /*@ loop invariant 0 <= i <= watch->count;
        loop invariant \forall integer k; 0 <= k < i ==>
          watch->table[k].variable < 64 &&
          64 < watch->table[k].late <= watch->table[k].dead <= 65535 - within &&
          64 <= watch->table[k].grace <= 65535 - within &&
          watch->table[k].lowest + watch->table[k].span <= 255;
        loop assigns i;
        loop variant watch->count - i; */
    for (; i != watch->count; i++) {
        const dumpulse_line_ *line = watch->table + i;
        const uint16_t grace = DUMPULSE_READ16_(line->grace);
        const uint16_t late = DUMPULSE_READ16_(line->late);
        const uint16_t dead = DUMPULSE_READ16_(line->dead);
        if (DUMPULSE_READ8_(line->variable) >= DUMPULSE_VARIABLES || late <= DUMPULSE_AHEAD ||
            dead < late || dead > most || grace < DUMPULSE_AHEAD || grace > most ||
            DUMPULSE_READ8_(line->span) > 255U - DUMPULSE_READ8_(line->lowest)) {
            break;
        }
    }
    return i;
}

#ifdef __cplusplus
}
#endif

#endif /* DUMPULSE_WATCH_H */
