/* An agent, and a node.   SPDX-License-Identifier: MIT
 *
 * The attacker has the keys of all other variables. An insider can make this node's beacons, too:
 * he has guessed a tag. */
#include "model.h"

#define BLOCK 2     /* epochs in a block: 256 in spec/keyed.md */
#define LAST 7      /* the last epoch: 1fffffff */
#define TOP 7       /* of a beacon */
#define NO_EPOCH 15 /* the agent has not begun */
#define FULL 2      /* the largest count: 255 */
#define BEATS 3     /* heartbeats that the node makes, and one more when the attacker has gone */
#define RESETS 2    /* of the agent. The node is reset once */

/* What must hold. */
#define AGREEMENT 1 // what is taken was sent: this variable, epoch, count and value
#define REPLAY 2    // nothing is taken twice
#define ORDER 3     // nothing is taken after a later one, if the node was not reset between the two
#define AGE 4       // what is taken was made in this epoch
#define BEACON 5    // the beacon that a node takes was sent
#define TICK 6      // with the attacker gone, after one tick a heartbeat is taken
#define HEARD 7     // without a tick, too, if the node has made none in this epoch
#define NEVER 8     // nothing is taken. This must be false, or the others would say nothing

/* A rule that is broken, and the property that does not hold any more. */
#define RESERVED 1          // REPLAY: a reset lands on a reserved epoch, and not behind it
#define FORGETS 2           // REPLAY: the agent stores nothing
#define LATE 3              // REPLAY: the block is stored some time after the epoch has begun
#define FAILURE_IGNORED 4   // REPLAY: an epoch begins, though its block could not be stored
#define WRAPS 5             // REPLAY: after the last epoch comes the first one
#define COUNT_EQUAL 6       // REPLAY: an equal count is taken
#define COUNT_ANY 7         // REPLAY: counts are not compared
#define NO_NUMBER 8         // REPLAY: a tag does not cover the epoch
#define NO_COUNT 9          // REPLAY: a tag does not cover the count
#define NO_VALUE 10         // AGREEMENT: a tag does not cover the value
#define ONE_KEY 11          // AGREEMENT: all variables have the same key
#define GRACE 12            // AGE: heartbeats of the epoch before are taken, too
#define BEACON_EQUAL 13     // ORDER: a beacon of the same epoch is taken
#define BEACON_OLDER 14     // ORDER: a beacon of an older epoch is taken
#define BEACON_UNCHECKED 15 // BEACON: a beacon's tag is not compared
#define NODE_WRAPS 16       // ORDER: after its largest count the node begins with 1 again
#define NODE_GOES_ON 17     // HEARD: in a new epoch the node goes on to count
#define COUNTS_KEPT 18      // TICK: the count does not become 0 at a tick
#define SILENT 19           // TICK: no beacon is sent at a tick
#define EPOCH_KEPT 20       // REPLAY: an agent that could not begin is in the last epoch before it
#define NO_WAY_OUT 21       // insider TICK: without beacons, the node does not begin again
#define IN_ADVANCE 22       // insider AGE: all nodes share a key for beacons, and one was opened
#define FORGED 23           // insider BEACON: the same
#define TAKEN 24            // NEVER: a heartbeat is taken

byte block;                  /* the agent's memory */
byte epoch = NO_EPOCH;       /* the agent's RAM: its epoch, the last count */
byte last;
byte resets;
bool begun;                  /* an epoch, when the attacker has gone */
bool unsaved;                /* LATE alone: the block still waits to be stored */
bool failed;                 /* the last tick */
byte heard, count;           /* the node's RAM */
byte boots;                  /* of the node */
byte made;                   /* heartbeats. The value of each is its number, so also its time */
byte number[BEATS + 1], counted[BEATS + 1], boot[BEATS + 1];
bool aside[BEATS + 1];       /* it was not made in the epoch that it has */
bool taken[BEATS + 1];
bool beacons[TOP + 1];       /* that were sent */
byte got, value, i; /* of this turn */

inline power_fails()
{
    epoch = NO_EPOCH; last = 0; unsaved = false
}

/* This label comes to the next epoch. If that fails, the epoch goes on. */
inline tick()
{
    outcome = STORED;
    i = epoch;
    if
    :: epoch >= LAST && broken == WRAPS -> i = BLOCK
    :: epoch >= LAST && broken != WRAPS -> outcome = FAILED
    :: epoch < LAST ->
        i++;
        if
        :: i % BLOCK != 0 || broken == FORGETS
        :: i % BLOCK == 0 && broken == LATE -> unsaved = true
        :: i % BLOCK == 0 && broken != LATE && broken != FORGETS ->
            store(block, i / BLOCK, resets < RESETS)
        fi
    fi;
    failed = outcome == FAILED && broken != FAILURE_IGNORED;
    if
    :: outcome == CUT -> resets++; power_fails()
    :: failed
    :: else -> epoch = i; epoch_begins()
    fi;
    outcome = 0; i = 0
}

inline epoch_begins()
{
    begun = calm;
    when(broken != COUNTS_KEPT, last = 0);
    when(broken != SILENT, beacons[epoch] = true)
}

/* After a reset, all labels are in the first epoch of the next block. Anyone may ask for its
 * beacon. */
inline begin()
{
    epoch = block * BLOCK + (broken == RESERVED -> 0 : BLOCK - 1);
    last = (broken == EPOCH_KEPT -> 0 : FULL);
    tick();
    when(failed && broken != EPOCH_KEPT, epoch = NO_EPOCH);
    failed = false
}

/* Was a heartbeat with these four and this tag made by somebody who has the key? */
#define made_by_node(n) \
    (value < made && \
     (number[value] == (n) || broken == NO_NUMBER) && \
     (counted[value] == got || broken == NO_COUNT))
#define right_tag \
    (made_by_node(epoch) || broken == ONE_KEY || \
     (broken == GRACE && made_by_node(epoch - 1)) || \
     (broken == NO_VALUE && value < BEATS && made > 0 && number[0] == epoch && counted[0] == got))

/* The agent gets a heartbeat. */
inline process()
{
    when(epoch != NO_EPOCH && right_tag &&
         (got > last || (broken == COUNT_EQUAL && got == last) || broken == COUNT_ANY),
        last = got;
        must(AGREEMENT, value < made && counted[value] == got && number[value] == epoch);
        must(REPLAY, !taken[value]);
        must(AGE, !aside[value] || (insider && broken != IN_ADVANCE));
        must(NEVER, broken != TAKEN);
        i = value + 1;
        do
        :: i < made -> must(ORDER, !taken[i] || boot[i] != boot[value]); i++
        :: else -> break
        od;
        taken[value] = true)
}

/* The node gets a beacon of epoch i. */
inline hear()
{
    when((i > heard || (i == heard && broken == BEACON_EQUAL) || broken == BEACON_OLDER) &&
         (beacons[i] || insider || broken == BEACON_UNCHECKED),
        must(BEACON, beacons[i] || (insider && broken != FORGED));
        heard = i;
        when(broken != NODE_GOES_ON, count = 0))
}

/* The node makes a heartbeat, if it may. */
inline beat()
{
    when(count == FULL && broken == NODE_WRAPS, count = 0);
    when(heard != 0 && count < FULL,
        count++;
        number[made] = heard; counted[made] = count; boot[made] = boots;
        aside[made] = heard != epoch;
        made++)
}

/* The node beats, and the heartbeat comes to the agent. */
inline is_heard(property)
{
    i = epoch; hear();
    i = made; beat();
    must(property, made > i);
    when(made > i,
        value = made - 1; got = counted[value];
        process();
        must(property, taken[made - 1]))
}

init {
    atomic {
        read_settings();
        begin()
    }
    do
    :: atomic { epoch != NO_EPOCH -> tick() }
    :: atomic { epoch == NO_EPOCH -> begin() }
    :: atomic { resets < RESETS -> resets++; power_fails() }
    :: atomic { unsaved -> block = epoch / BLOCK; unsaved = false }
    :: atomic { boots == 0 -> boots++; heard = 0; count = 0 }
    :: atomic { made < BEATS - insider -> beat() }
    :: atomic { select(i : 1 .. TOP); hear(); i = 0 }
    :: atomic {
        select(got : 0 .. FULL); select(value : 0 .. BEATS - 1);
        process();
        got = 0; value = 0; i = 0
       }
    :: atomic { /* the attacker goes, and a tick comes */
        calm = true;
        when(insider && broken != NO_WAY_OUT, heard = 0; count = 0 /* no beacon for long */);
        if
        :: epoch == NO_EPOCH -> begin()
        :: else -> tick()
        fi;
        when(begun, is_heard(TICK))
       } -> break
    :: atomic { /* the attacker goes, and the beacon is sent again */
        epoch <= LAST && heard < epoch;
        calm = true;
        i = 0;
        do
        :: i < made && number[i] != epoch -> i++
        :: else -> break
        od;
        when(i == made, is_heard(HEARD))
       } -> break
    od
}
