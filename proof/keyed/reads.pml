/* An agent, and two readers of it.   SPDX-License-Identifier: MIT
 *
 * The attacker has the keys of all variables, so he may change the table at any moment. An insider
 * has the beacons' key, too. */
#include "model.h"

#define LAST 3     /* epochs. hears.pml shows that the agent never uses one twice */
#define FULL 2     /* the largest count: 255 */
#define REQUESTS 3 /* that the readers make, and one more when the attacker has gone */
#define NONE 7

/* What must hold. */
#define ASKED 1     // a report is made for a request that was sent: this epoch, count and nonce
#define ONCE 2      // one report at most is made for a request
#define AGREEMENT 3 // what a reader believes is a report for its last request, as it was made
#define INJECTIVE 4 // no report is believed twice
#define FRESH 5     // a report that is believed was made after the reader asked
#define AGE 6       // if the reader has heard this epoch's beacon, it was made in this epoch
#define TICK 7      // with the attacker gone, after one tick a reader gets a report
#define NEVER 8     // nothing is believed. This must be false, or the others would say nothing

/* A rule that is broken, and the property that does not hold any more. */
#define COUNT_EQUAL 1   // ONCE: an equal count is taken
#define NO_NUMBER 2     // ONCE: a request's tag does not cover the epoch
#define NO_COUNT 3      // ONCE: a request's tag does not cover the count
#define NO_NONCE 4      // ASKED: a request's tag does not cover the nonce
#define UNCHECKED 5     // ASKED: a request's tag is not compared
#define NO_REQUEST 6    // AGREEMENT: a report's tag does not cover the request
#define NO_TABLE 7      // AGREEMENT: a report's tag does not cover the table
#define BELIEVED 8      // AGREEMENT: a report's tag is not compared
#define BELIEVED_ON 9   // INJECTIVE: more than one report is believed for a request
#define SAME_NONCE 10   // FRESH: all nonces are the same
#define WAITS_ON 11     // AGE: the reader waits for a report after it has heard a later beacon
#define COUNT_KEPT 12   // TICK: the readers' count does not become 0 at a tick
#define READER_ON 13    // TICK: in a new epoch a reader goes on to count
#define NO_WAY_OUT 14   // insider TICK: without beacons, the reader does not begin again
#define READERS_KEY 15  // AGREEMENT: who has the readers' key makes reports
#define TAKEN 16        // NEVER: a report is believed

byte epoch = 1, last;                 /* the agent */
bool table;
byte heard[2], count[2];              /* the readers */
byte asked[2] = NONE, after[2];       /* the last request; how many reports were made before it */
bool was_reset;                       /* one of them */
byte requests;                        /* that were made. The nonce of each is its number */
byte q_epoch[REQUESTS + 1], q_count[REQUESTS + 1];
bool answered[REQUESTS + 1];
byte reports;                         /* that were made */
byte r_epoch[REQUESTS + 1], r_count[REQUESTS + 1], r_nonce[REQUESTS + 1];
bool r_table[REQUESTS + 1], believed[REQUESTS + 1];
byte who, got, nonce, i;              /* of this turn */
bool shown;

inline tick()
{
    epoch++;
    last = (broken == COUNT_KEPT -> last : 0)
}

/* A reader gets a beacon of epoch i. */
inline hear()
{
    when(i > heard[who] && (i <= epoch || insider),
        heard[who] = i;
        count[who] = (broken == READER_ON -> count[who] : 0);
        asked[who] = (broken == WAITS_ON -> asked[who] : NONE))
}

inline reader_reset()
{
    heard[who] = 0; count[who] = 0; asked[who] = NONE; after[who] = 0
}

/* A reader makes a request. */
inline ask()
{
    when(heard[who] != 0 && count[who] < FULL,
        count[who]++;
        q_epoch[requests] = heard[who]; q_count[requests] = count[who];
        asked[who] = requests; after[who] = reports;
        requests++)
}

/* The agent gets a request. */
inline answer()
{
    when(((nonce < requests && (q_epoch[nonce] == epoch || broken == NO_NUMBER) &&
           (q_count[nonce] == got || broken == NO_COUNT)) || broken == UNCHECKED ||
          (broken == NO_NONCE && requests != 0 && q_epoch[0] == epoch && q_count[0] == got)) &&
         (got > last || (got == last && broken == COUNT_EQUAL)),
        last = got;
        must(ASKED, nonce < requests && q_epoch[nonce] == epoch && q_count[nonce] == got);
        must(ONCE, !answered[nonce]);
        when(reports <= REQUESTS,
            answered[nonce] = true;
            r_epoch[reports] = epoch; r_count[reports] = got; r_table[reports] = table;
            r_nonce[reports] = (broken == SAME_NONCE -> 0 : nonce);
            reports++))
}

/* A reader gets the tag of report i, with a table. */
inline read()
{
    when(asked[who] != NONE && i < reports &&
         ((r_epoch[i] == q_epoch[asked[who]] && r_count[i] == q_count[asked[who]] &&
           r_nonce[i] == (broken == SAME_NONCE -> 0 : asked[who])) ||
          broken == NO_REQUEST || broken == BELIEVED || broken == READERS_KEY) &&
         (shown == r_table[i] || broken == NO_TABLE || broken == BELIEVED ||
          broken == READERS_KEY),
        must(AGREEMENT, shown == r_table[i] && r_nonce[i] == asked[who] &&
             r_epoch[i] == q_epoch[asked[who]] && r_count[i] == q_count[asked[who]]);
        must(INJECTIVE, !believed[i]);
        must(FRESH, i >= after[who]);
        must(AGE, r_epoch[i] == epoch || heard[who] != epoch);
        must(NEVER, broken != TAKEN);
        believed[i] = true;
        asked[who] = (broken == BELIEVED_ON -> asked[who] : NONE))
}

init {
    atomic { read_settings() }
    do
    :: atomic { epoch < LAST -> tick() }
    :: atomic { table = !table }
    :: atomic { select(who : 0 .. 1); select(i : 1 .. LAST); hear(); who = 0; i = 0 }
    :: atomic { requests < REQUESTS -> select(who : 0 .. 1); ask(); who = 0 }
    :: atomic { !was_reset -> was_reset = true; select(who : 0 .. 1); reader_reset(); who = 0 }
    :: atomic {
        select(got : 0 .. FULL); select(nonce : 0 .. REQUESTS - 1);
        answer();
        got = 0; nonce = 0
       }
    :: atomic {
        select(who : 0 .. 1); select(i : 0 .. REQUESTS - 1); select(shown : 0 .. 1);
        read();
        who = 0; i = 0; shown = false
       }
    :: atomic { /* the attacker goes, and a tick comes */
        epoch < LAST;
        calm = true;
        tick();
        select(who : 0 .. 1);
        when(insider && broken != NO_WAY_OUT, reader_reset() /* 30 ticks without a beacon */);
        i = epoch; hear();
        ask();
        must(TICK, asked[who] != NONE);
        when(asked[who] != NONE,
            nonce = requests - 1; got = q_count[nonce]; i = reports;
            answer();
            must(TICK, reports > i);
            shown = table;
            read();
            must(TICK, reports > i && believed[i]))
       } -> break
    od
}
