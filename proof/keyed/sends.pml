/* An agent, and a node that only sends.   SPDX-License-Identifier: MIT
 *
 * The attacker has the keys of all other variables. An insider has guessed tags of announces, too.
 * Own epochs begin at 1 here, and at 800001 in spec/keyed.md. */
#include "model.h"

#define LAST 6   /* the last own epoch: ffffff. A number that cannot be read is read as this */
#define FULL 2   /* the largest count: 255 */
#define BEATS 3  /* heartbeats that the node makes, and more when the attacker has gone */
#define ROOM 6   /* for all of them */
#define RESETS 2 /* of the agent, and of the node */

/* What must hold. */
#define AGREEMENT 1 // what is taken was sent: this variable, own epoch, count and value
#define REPLAY 2    // nothing is taken twice
#define ORDER 3     // nothing is taken after a later one
#define ANNOUNCED 4 // the own epoch that the agent takes was announced
#define ANNOUNCE 5  // with the attacker gone, an announce and a heartbeat are taken, if the agent
                    // was not reset in this own epoch
#define REST 6      // if it was, they are taken after the rest of the count
#define NEVER 7     // nothing is taken. This must be false, or the others would say nothing
#define OTHERS 8    // an announce is not taken. The same

/* A rule that is broken, and the property that does not hold any more. */
#define FORGETS 1          // REPLAY: the agent stores no own epoch
#define LATE 2             // REPLAY: the agent stores an own epoch some time after it has taken it
#define FAILURE_IGNORED 3  // REPLAY: the agent takes an own epoch that it could not store
#define COUNT_LOST 4       // REPLAY: after a reset the agent's count is 0, and not full
#define UNREADABLE_0 5     // REPLAY: a number of the agent that cannot be read is read as 0
#define COUNT_EQUAL 6      // REPLAY: an equal count is taken
#define COUNT_ANY 7        // REPLAY: counts are not compared
#define OWN_EQUAL 8        // REPLAY: an announce of the same own epoch is taken
#define OWN_OLDER 9        // REPLAY: an announce of an older own epoch is taken
#define TICK_AGES 10       // REPLAY: a tick makes this count 0, too
#define NO_NUMBER 11       // REPLAY: a tag does not cover the own epoch
#define NO_COUNT 12        // REPLAY: a tag does not cover the count
#define NO_VALUE 13        // AGREEMENT: a tag does not cover the value
#define ONE_KEY 14         // AGREEMENT: all variables have the same key
#define ANNOUNCE_KEY 15    // ANNOUNCED: the tag of an announce is not compared
#define NODE_FORGETS 16    // ORDER: the node stores nothing
#define NODE_LATE 17       // ORDER: the node stores its own epoch some time after it has used it
#define NODE_IGNORES 18    // ORDER: the node uses an own epoch that it could not store
#define NODE_STAYS 19      // ORDER: after a reset the node uses the own epoch that it had stored
#define NODE_WRAPS 20      // ORDER: after its largest count the node begins with 1 again
#define NODE_UNREADABLE 21 // ORDER: a number of the node that cannot be read is read as 0
#define NODE_OVERFLOWS 22  // ORDER: after the last own epoch comes the first one
#define COUNT_KEPT 23      // REPLAY: the count does not become that of the first heartbeat
#define NODE_SILENT 24     // REST: the node announces nothing after its count was full
#define TAKEN 25           // NEVER: a heartbeat is taken
#define OWN_TAKEN 26       // OTHERS: an announce is taken
#define AT_ONCE 27         // insider REST: an announce is taken without a heartbeat

byte cell;                 /* the agent's memory */
byte own, last;            /* the agent's RAM */
byte waits;                /* the own epoch of an announce that waits; or 0 */
byte resets;
bool was_reset;            /* the agent, since it has taken this own epoch */
bool unsaved;              /* LATE alone: it still waits to be stored */
byte node_cell;            /* the node's memory */
byte number_, count;       /* the node's RAM: 0, and it must not send */
byte boots;
bool node_unsaved;
bool unreadable;           /* one of the memories */
byte made;                 /* heartbeats. The value of each is its number, which is also its time */
byte number[ROOM], counted[ROOM];
bool taken[ROOM];
bool announced[LAST + 1];
byte got, value, i;        /* of this turn */
bool done;

inline agent_reset()
{
    own = (unreadable && cell == LAST && broken == UNREADABLE_0 -> 0 : cell);
    last = (broken == COUNT_LOST || own == 0 -> 0 : FULL);
    was_reset = true; unsaved = false; waits = 0
}

inline node_reset()
{
    number_ = 0; count = 0; node_unsaved = false
}

/* The node takes its next own epoch. */
inline renew()
{
    i = (unreadable && node_cell == LAST && broken == NODE_UNREADABLE -> 0 : node_cell);
    if
    :: i == LAST && broken != NODE_OVERFLOWS -> i = 0
    :: i == LAST && broken == NODE_OVERFLOWS -> i = 1
    :: i < LAST && i > 0 && broken == NODE_STAYS && number_ == 0
    :: else -> i++
    fi;
    count = 0;
    number_ = 0;
    when(i != 0,
        outcome = STORED;
        if
        :: broken == NODE_FORGETS
        :: broken == NODE_LATE -> node_unsaved = true
        :: else -> store(node_cell, i, boots < RESETS)
        fi;
        if
        :: outcome == CUT -> boots++; node_reset()
        :: outcome == FAILED && broken != NODE_IGNORES
        :: else -> number_ = i
        fi);
    outcome = 0; i = 0
}

/* The node announces its own epoch. */
inline announce()
{
    when(number_ != 0 && !(broken == NODE_SILENT && number_ > 1), announced[number_] = true)
}

/* The node makes a heartbeat. */
inline beat()
{
    when(count == FULL && broken == NODE_WRAPS, count = 0);
    when(number_ != 0 && count < FULL,
        count++;
        number[made] = number_; counted[made] = count;
        made++)
}

/* The agent gets an announce of i: it waits. */
inline hear_announce()
{
    when((announced[i] || insider || broken == ANNOUNCE_KEY || broken == ONE_KEY) && i > waits &&
         (i > own || (i == own && broken == OWN_EQUAL) || broken == OWN_OLDER),
        waits = i;
        when(broken == AT_ONCE, own = i; last = 0; cell = i))
}

/* Was a heartbeat with this value, count and tag made by somebody who has the key? */
#define right_tag(n) \
    ((value < made && \
      (number[value] == (n) || broken == NO_NUMBER) && \
      (counted[value] == got || broken == NO_COUNT)) || \
     broken == ONE_KEY || \
     (broken == NO_VALUE && made > 0 && number[0] == (n) && counted[0] == got))

inline take()
{
    must(AGREEMENT, value < made && counted[value] == got && number[value] == own);
    must(REPLAY, !taken[value]);
    must(NEVER, broken != TAKEN);
    i = value + 1;
    do
    :: i < made -> must(ORDER, !taken[i]); i++
    :: else -> break
    od;
    taken[value] = true
}

/* The first heartbeat of the own epoch that waits: two tags were right. */
inline renewed()
{
    outcome = STORED;
    if
    :: broken == FORGETS
    :: broken == LATE -> unsaved = true
    :: else -> store(cell, waits, resets < RESETS)
    fi;
    if
    :: outcome == CUT -> resets++; agent_reset()
    :: outcome == FAILED && broken != FAILURE_IGNORED
    :: else ->
        must(ANNOUNCED, announced[waits] || insider);
        must(OTHERS, broken != OWN_TAKEN);
        own = waits; was_reset = false; waits = 0;
        last = (broken == COUNT_KEPT -> last : got);
        take()
    fi;
    outcome = 0
}

/* The agent gets a heartbeat. */
inline process()
{
    if
    :: own != 0 && right_tag(own) &&
       (got > last || (broken == COUNT_EQUAL && got == last) || broken == COUNT_ANY) ->
        last = got;
        take()
    :: else ->
        when(waits != 0 && got != 0 && right_tag(waits), renewed())
    fi
}

inline announce_comes()
{
    announce();
    i = number_;
    when(announced[i], hear_announce())
}

inline beat_comes()
{
    i = made; beat();
    if
    :: made > i -> value = made - 1; got = counted[value]; process(); done = taken[made - 1]
    :: else -> done = false
    fi
}

init {
    atomic { read_settings() }
    do
    :: atomic { number_ == 0 -> renew() }
    :: atomic { number_ != 0 && count == FULL -> renew() }
    :: atomic { number_ != 0 && !announced[number_] -> announce() }
    :: atomic { made < BEATS && number_ != 0 -> beat() }
    :: atomic { select(i : 1 .. LAST); hear_announce(); i = 0 }
    :: atomic {
        select(got : 0 .. FULL); select(value : 0 .. BEATS - 1);
        process();
        got = 0; value = 0; i = 0
       }
    :: atomic { resets < RESETS -> resets++; agent_reset() }
    :: atomic { boots < RESETS -> boots++; node_reset() }
    :: atomic { unsaved -> cell = own; unsaved = false }
    :: atomic { node_unsaved -> node_cell = number_; node_unsaved = false }
    :: atomic { broken == TICK_AGES && own != 0 -> last = 0 }
    :: atomic { waits != 0 -> waits = 0 } /* the agent's next epoch begins */
    :: atomic { !unreadable -> unreadable = true; cell = LAST }
    :: atomic { !unreadable -> unreadable = true; node_cell = LAST }
    :: atomic { /* the attacker goes */
        number_ != 0 && count < FULL && !unreadable && !(was_reset && own == number_);
        calm = true; waits = 0;
        announce_comes();
        beat_comes();
        must(ANNOUNCE, done)
       } -> break
    :: atomic { /* the attacker goes, and nobody knows who was reset when */
        !unreadable && node_cell < LAST;
        calm = true;
        do
        :: number_ != 0 && count < FULL -> beat_comes()
        :: else -> break
        od;
        renew();
        waits = 0;
        announce_comes();
        beat_comes();
        must(REST, done)
       } -> break
    od
}
