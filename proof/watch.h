/* States in ACSL what dumpulse_watch.c does.   SPDX-License-Identifier: MIT
 *
 * Frama-C reads this file before dumpulse_watch.c. README.md in this folder says the same in
 * words. */
#include "protocol.h"

/* What the loops below the manual of dumpulse_watch.h need: the states from the best to the worst
 * are alive (2), waiting (0), out of range (3), late (4), missing (1) and dead (5). */
/*@ logic integer badness(integer state) = state == 2 ? 0 : state == 0 ? 1 : state == 3 ? 2 :
      state == 4 ? 3 : state == 1 ? 4 : 5; */
/*@ ghost int looking; */

#include "dumpulse_watch.h"

/* ---- What a look makes of a line, from the numbers alone. */

/*@ logic integer ticks(integer from, integer to) = (to + 65536 - from) % 65536;

    lemma ticks_cases: \forall integer from, to; 0 <= from <= 65535 && 0 <= to <= 65535 ==>
      ticks(from, to) == (from <= to ? to - from : to + 65536 - from);

    // An entry of four zeros was never heard, unless the state says that it was.
    predicate unheard(integer was, integer time, integer sender, integer value) =
      was <= DUMPULSE_MISSING && time == 0 && sender == 0 && value == 0;

    logic integer waited(integer was, integer since, integer grace, integer later) =
      ticks(since, later) > grace ? DUMPULSE_MISSING : was;

    // By its age, and if it is young enough by its value.
    logic integer fresh(integer late, integer dead, integer lowest, integer span, integer value,
                        integer age) =
      age > dead ? DUMPULSE_DEAD : age > late ? DUMPULSE_LATE :
      (value + 256 - lowest) % 256 > span ? DUMPULSE_OUT_OF_RANGE : DUMPULSE_ALIVE;

    // Late and dead are left by a new heartbeat alone.
    logic integer kept_or(integer was, integer since, integer time, integer next) =
      since == time && was >= DUMPULSE_LATE && next != DUMPULSE_DEAD ? was : next;

    // A variable that is not allowed reads an entry of another.
    logic integer entry_of{L}(dumpulse_line_ *line) = line->variable % 64;
    logic integer entry_time{L}(dumpulse *agent, integer v) = number(&agent->report[4 + 4 * v]);

    logic integer entry_sender{L}(dumpulse *agent, integer v) = agent->report[6 + 4 * v];
    logic integer entry_value{L}(dumpulse *agent, integer v) = agent->report[7 + 4 * v];

    // What a look at a line makes of it: from the state `was` and the time `since` to the state
    // `next` and the time `time_kept`.
    predicate judged(integer grace, integer lowest, integer span, integer late, integer dead,
                     integer time, integer sender, integer value, integer was, integer since,
                     integer later, integer next, integer time_kept) =
      (unheard(was, time, sender, value) ==>
        next == waited(was, since, grace, later) && time_kept == since) &&
      (!unheard(was, time, sender, value) ==>
        next == kept_or(was, since, time,
                        fresh(late, dead, lowest, span, value, ticks(time, later))) &&
        time_kept == time);

    predicate look_is{L}(dumpulse_line_ *line, dumpulse *agent, integer was, integer since,
                         integer later, integer next, integer time_kept) =
      judged(line->grace, line->lowest, line->span, line->late, line->dead,
             entry_time(agent, entry_of(line)), entry_sender(agent, entry_of(line)),
             entry_value(agent, entry_of(line)), was, since, later, next, time_kept); */

/* ---- The hook. Ghost variables keep how often it was called for each line, and what it was told
 * last. `looking` is the number of the line that is looked at, `looks` counts the looks at each,
 * and `watched` is the agent. */

/*@ ghost const dumpulse_line_ *first_line; */
/*@ ghost dumpulse_seen *first_seen; */
/*@ ghost unsigned later_now; */
/*@ ghost int looks[256]; */
/*@ ghost const dumpulse *watched; */
/*@ ghost int told[256], told_was[256], told_is[256]; */

/*@ requires 0 <= looking <= 255 && told[looking] < INT_MAX;
    requires context == watched && variable == first_line[looking].variable;
    // The state is new already.
    requires \valid_read(first_seen + looking) && first_seen[looking].state == is;
    assigns told[looking], told_was[looking], told_is[looking]; exits \false;
    ensures told[looking] == \old(told[looking]) + 1;
    ensures told_was[looking] == was && told_is[looking] == is; */
void dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was, dumpulse_state is);

/*@ predicate not_told{L1, L2}(integer i) = \at(told[i], L2) == \at(told[i], L1) &&
      \at(told_was[i], L2) == \at(told_was[i], L1) &&
      \at(told_is[i], L2) == \at(told_is[i], L1);

    // If the state has changed, the hook was told so once; if not, it was not called.
    predicate told_once{L1, L2}(integer i, integer was, integer next) =
      (was == next ==> not_told{L1, L2}(i)) &&
      (was != next ==> \at(told[i], L2) == \at(told[i], L1) + 1 &&
        \at(told_was[i], L2) == was && \at(told_is[i], L2) == next); */

/* ---- One line. What the state of a node becomes that was heard: */

#define BECOMES \
  kept_or(was, number(&seen->since[0]), high * 256 + low, \
          fresh(line->late, line->dead, line->lowest, line->span, value, age))

/*@ requires \valid_read(line) && \valid(seen) && \valid_read(agent);
    requires \separated(seen, agent) && \separated(seen, line);
    requires 0 <= looking <= 255 && told[looking] < INT_MAX;
    requires line == first_line + looking && seen == first_seen + looking;
    requires watched == agent && later == later_now && looks[looking] < INT_MAX;
    assigns *seen, looks[looking], told[looking], told_was[looking], told_is[looking]; exits \false;
    ensures looks[looking] == \old(looks[looking]) + 1;
    ensures look_is{Pre}(line, agent, \old(seen->state), \at(number(&seen->since[0]), Pre),
      later_now, seen->state, number(&seen->since[0]));
    ensures told_once{Pre, Post}(looking, \old(seen->state), seen->state); */
static void look(const dumpulse_line_ *line, dumpulse_seen *seen, dumpulse *agent, uint16_t later);

/*@ requires now <= 65535 && since <= 65535;
    assigns \nothing; exits \false;
    ensures \result == ticks(since, now); */
static uint16_t minus(unsigned now, unsigned since);

/* ---- The whole table: there is one look at each line, in order, each with its own RAM. What the
 * look does is above. It writes nothing else, so it does not change what others have done. */

/*@ predicate table_is_there{L}(dumpulse_watcher *watch) =
      \valid_read(watch) && \valid_read(watch->table + (0 .. watch->count - 1));

    predicate ram_is_there{L}(dumpulse_watcher *watch) = \valid_read(watch) &&
      \valid(watch->seen + (0 .. watch->count - 1)) &&
      \separated(watch->seen + (0 .. watch->count - 1), watch);

    predicate may_look{L}(dumpulse_watcher *watch, dumpulse *agent) =
      table_is_there(watch) && ram_is_there(watch) && \valid_read(agent) && watched == agent &&
      \separated(watch->seen + (0 .. watch->count - 1), agent,
        watch->table + (0 .. watch->count - 1)) &&
      \forall integer i; 0 <= i <= 255 ==> told[i] < INT_MAX && looks[i] < INT_MAX; */

/*@ requires may_look(watch, agent) && watch->count >= 1;
    assigns watch->seen[0 .. watch->count - 1], looking, first_line, first_seen, later_now,
      looks[0 .. 255], told[0 .. 255], told_was[0 .. 255], told_is[0 .. 255]; exits \false;
    ensures first_line == \old(watch->table) && first_seen == \old(watch->seen);
    ensures later_now == (now + 64) % 65536;
    ensures \forall integer i; 0 <= i < \old(watch->count) ==> looks[i] == \old(looks[i]) + 1;
    ensures \forall integer i; \old(watch->count) <= i <= 255 ==>
      looks[i] == \old(looks[i]) && told[i] == \old(told[i]); */
void dumpulse_watch_lines_(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now);

/* ---- The functions of the header. */

/*@ requires may_look(watch, agent);
    assigns watch->seen[0 .. watch->count - 1], looking, first_line, first_seen, later_now,
      looks[0 .. 255], told[0 .. 255], told_was[0 .. 255], told_is[0 .. 255]; exits \false;
    ensures \old(watch->count) != 0 ==> first_line == \old(watch->table) &&
      first_seen == \old(watch->seen) &&
      later_now == (now + 64) % 65536;
    ensures \forall integer i; 0 <= i < \old(watch->count) ==> looks[i] == \old(looks[i]) + 1;
    ensures \forall integer i; \old(watch->count) <= i <= 255 ==>
      looks[i] == \old(looks[i]) && told[i] == \old(told[i]); */
static inline void dumpulse_watch(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now);

/*@ // How many lines dumpulse_watch_part() looks at.
    logic integer part(integer all, integer first, integer count) =
      first >= all ? 0 : count < all - first ? count : all - first; */

/*@ requires may_look(watch, agent);
    assigns watch->seen[first .. first + part(watch->count, first, count) - 1], looking,
      first_line, first_seen, later_now,
      looks[0 .. 255], told[0 .. 255], told_was[0 .. 255], told_is[0 .. 255]; exits \false;
    ensures part(\old(watch->count), first, count) != 0 ==>
      first_line == \old(watch->table) + first && first_seen == \old(watch->seen) + first &&
      later_now == (now + 64) % 65536;
    ensures \forall integer i; 0 <= i < part(\old(watch->count), first, count) ==>
      looks[i] == \old(looks[i]) + 1;
    ensures \forall integer i; part(\old(watch->count), first, count) <= i <= 255 ==>
      looks[i] == \old(looks[i]) && told[i] == \old(told[i]); */
static inline void dumpulse_watch_part(const dumpulse_watcher *watch, dumpulse *agent, uint16_t now,
                                       uint8_t first, uint8_t count);

/*@ predicate same_seen{L1, L2}(dumpulse_seen *seen) =
      \at(seen->since[0], L2) == \at(seen->since[0], L1) &&
      \at(seen->since[1], L2) == \at(seen->since[1], L1) &&
      \at(seen->state, L2) == \at(seen->state, L1);

    predicate begun{L1, L2}(dumpulse_seen *seen, integer now) =
      (\at(seen->state, L1) == DUMPULSE_WAITING ==>
        \at(number(&seen->since[0]), L2) == now &&
        \at(seen->state, L2) == DUMPULSE_WAITING) &&
      (\at(seen->state, L1) != DUMPULSE_WAITING ==> same_seen{L1, L2}(seen)); */

/*@ requires ram_is_there(watch);
    assigns watch->seen[0 .. watch->count - 1]; exits \false;
    ensures \forall integer i; 0 <= i < watch->count ==> begun{Pre, Post}(watch->seen + i, now); */
static inline void dumpulse_watch_begin(const dumpulse_watcher *watch, uint16_t now);

/*@ requires table_is_there(watch) && ram_is_there(watch);
    assigns \nothing; exits \false;
    ensures (\exists integer i; 0 <= i < watch->count && \result == watch->seen[i].state &&
        watch->table[i].variable == variable &&
        \forall integer k; 0 <= k < i ==> watch->table[k].variable != variable) ||
      (\result == DUMPULSE_WAITING && \forall integer k; 0 <= k < watch->count ==>
        watch->table[k].variable != variable); */
static inline dumpulse_state dumpulse_watch_state(const dumpulse_watcher *watch, uint8_t variable);

/*@ predicate worst_of{L}(dumpulse_seen *seen, integer n, integer state) =
      (state == DUMPULSE_ALIVE || \exists integer i; 0 <= i < n && seen[i].state == state) &&
      \forall integer k; 0 <= k < n ==> badness(seen[k].state) <= badness(state); */

/*@ requires ram_is_there(watch);
    requires \forall integer i; 0 <= i < watch->count ==> watch->seen[i].state <= DUMPULSE_DEAD;
    assigns \nothing; exits \false;
    ensures worst_of(watch->seen, watch->count, \result); */
static inline dumpulse_state dumpulse_watch_worst(const dumpulse_watcher *watch);

/*@ requires ram_is_there(watch);
    assigns \nothing; exits \false;
    ensures \result == how_many(watch->seen, watch->count, state); */
static inline uint8_t dumpulse_watch_count(const dumpulse_watcher *watch, dumpulse_state state);

/*@ assigns \nothing; exits \false;
    behavior allowed:
      assumes variable < 64 && lowest <= highest && late <= 65471 && dead <= 65471 &&
        grace <= 65471;
      ensures \result.variable == variable && \result.grace == grace + 64;
      ensures \result.lowest == lowest && \result.span == highest - lowest;
      ensures \result.late == late + 64 && \result.dead == dead + 64;
    behavior refused:
      assumes !(variable < 64 && lowest <= highest && late <= 65471 && dead <= 65471 &&
        grace <= 65471);
      ensures \result.variable == 0 && \result.grace == 0 && \result.lowest == 0 &&
        \result.span == 0 && \result.late == 0 && \result.dead == 0;
    complete behaviors; disjoint behaviors; */
static inline dumpulse_watched dumpulse_watched_make(uint8_t variable, uint16_t late, uint16_t dead,
                                                     uint16_t grace, uint8_t lowest,
                                                     uint8_t highest);

/*@ // All that a line has is the ticks + 64.
    predicate allowed{L}(dumpulse_line_ *line, integer within) = line->variable < 64 &&
      64 < line->late <= line->dead <= 65535 - within && 64 <= line->grace <= 65535 - within &&
      line->lowest + line->span <= 255; */

/*@ requires table_is_there(watch);
    assigns \nothing; exits \false;
    ensures \result <= watch->count;
    ensures \forall integer i; 0 <= i < \result ==> allowed(watch->table + i, within);
    ensures \result < watch->count ==> !allowed(watch->table + \result, within); */
static inline uint8_t dumpulse_watch_check(const dumpulse_watcher *watch, uint16_t within);
