/* The blocks of an agent with a clock, and how many it may skip.   SPDX-License-Identifier: MIT
 *
 * The attacker sets the clock, cuts the power, makes storing fail, and brings an old copy back: of
 * the disk, or of the whole machine with its RAM. The date is a block, and goes on by one in a unit
 * of time: 900 s. Epochs are so long that a block lasts for two units. hears.pml is about them. */
#include "model.h"

#define TIME 4  /* units that pass */
#define LAST 8  /* the last block: 1fffff */
#define FAR 5   /* the latest date */
#define SLACK 1 /* blocks behind the date, without a step: 4 */
#define most(block) ((LAST - (block)) / 3) /* that may be skipped: 1/128 of those left */

/* What must hold. */
#define ONCE 1     // no block begins twice, with any clock, if no copy was restored
#define RESTORED 2 // nor if a copy is started, and the clock is right and later than all blocks
#define SNAPSHOT 3 // nor if it has run on, when its clock is set right, and it may skip so many
#define NEXT 4     // when the clock is set forward, a block begins, if one may be skipped
#define FOLLOWS 5  // with the right clock it is never far behind the date, if it may skip so many
#define BUDGET 6   // no clock and no restart skips more than the share, and one in each unit
#define PACE 7     // with the right clock, as many blocks are ahead of it as starts were close
#define NEVER 8    // no block begins. This must be false, or the others would say nothing

/* A rule that is broken, and the property that does not hold any more. */
#define DATE_BACK 1        // ONCE: a start takes the date if it is behind, too
#define SKIP_IN_RAM 2      // ONCE: the block of the date is not stored
#define FAILURE_IGNORED 3  // ONCE: it begins, though it could not be stored
#define NO_DATE 4          // insider RESTORED: a start does not look at the date
#define BEGINS_ANYHOW 5    // insider RESTORED: a start begins, though the date is too far ahead
#define NEXT_ALONE 6       // insider SNAPSHOT: a step begins the next block, not that of the date
#define STEP_IGNORED 7     // NEXT: nobody looks for steps
#define ALL_OR_NOTHING 8   // NEXT: a step that is larger than the budget begins no block
#define LATER_IGNORED 9    // FOLLOWS: only a start looks at the date
#define NO_BUDGET 10       // BUDGET: all blocks may be skipped
#define BUDGET_IN_RAM 11   // BUDGET: a start may skip as many as the first one
#define REFILLED_BY_DATE 12 // BUDGET: the clock that is set forward refills the budget
#define STEP_IS_FREE 13    // BUDGET: the block that begins for a step is not counted
#define SHORT_EPOCHS 14    // PACE: a block is used up in one unit
#define START_TAKES_TWO 15 // PACE: a start leaves a block out
#define BEGINS 16          // NEVER: a block begins

byte now;                     /* the time */
byte disk, disk_skips;        /* the numbers: the last block, and how many may be skipped */
bool runs;
byte date, block, skips, age; /* the machine's RAM: its clock, and how long the block has lasted */
byte step;                    /* by how much the clock was set forward */
bool stepped;
bool copied, copy_runs;
byte copy_disk, copy_skips, copy_date, copy_block;
bool restored, honest = true; /* what has happened, for the properties */
short used;                   /* a bit for each block */
byte close;                   /* starts, one less in two units */
int may_skip = most(0);       /* and was not */
byte i, next, left;           /* of this turn */
bool saved;

#define is_used(b) ((used >> (b)) & 1)
#define right (date == now && used >> now == 0)

/* Stores the numbers; and if that succeeds, or the rule is broken, block `next` begins. It is so
 * many blocks ahead of the one that follows. */
inline begins(ahead)
{
    if
    :: saved = true
    :: !insider -> saved = false
    fi;
    when(saved && (broken != SKIP_IN_RAM || !runs),
         disk = next; disk_skips = left);
    when(saved || broken == FAILURE_IGNORED,
        when(!restored, may_skip = may_skip - ahead; when(!runs, close++));
        must(NEVER, broken != BEGINS);
        must(ONCE, restored || !is_used(next));
        must(BUDGET, restored || may_skip >= 0);
        must(PACE, !honest || restored || next <= now + close);
        block = next; skips = left; age = 0; runs = true;
        used = used | (1 << next))
}

inline stop()
{
    runs = false; date = 0; block = 0; skips = 0; age = 0; step = 0; stepped = false
}

inline restore()
{
    restored = true; honest = false; close = 0; may_skip = 0
}

inline start()
{
    honest = honest && date == now;
    next = disk + (broken == START_TAKES_TWO -> 2 : 1);
    i = (date > next && broken != NO_DATE -> date - next : 0);
    left = (broken == BUDGET_IN_RAM || broken == NO_BUDGET -> LAST : disk_skips);
    when(broken == DATE_BACK && date < next && date > 0, next = date);
    when(i > left && broken == BEGINS_ANYHOW, i = 0);
    if
    :: next > LAST || i > left
    :: else ->
        next = next + i;
        left = (left - i > most(next) -> most(next) : left - i);
        must(RESTORED, !restored || !right || !is_used(next));
        begins(i)
    fi;
    when(!runs, stop());
    i = 0; next = 0; left = 0; saved = false
}

/* The agent looks at its clock. */
inline look()
{
    next = block;
    left = (broken == NO_BUDGET -> LAST : skips);
    when(date > block + (stepped -> 0 : SLACK) && date - block <= left &&
         !(stepped && broken == NEXT_ALONE) && broken != LATER_IGNORED, next = date);
    i = (1 + step <= left -> 1 + step : (broken == ALL_OR_NOTHING -> 0 : left));
    i = (broken == NEXT_ALONE && left > 0 -> 1 : i);
    when(stepped && broken != STEP_IGNORED && next < block + i, next = block + i);
    must(NEXT, !stepped || skips == 0 || next > block);
    must(SNAPSHOT, !stepped || !right || now - block > skips || !is_used(next));
    must(FOLLOWS, date != now || now > block + skips || next + SLACK >= now);
    i = next - block;
    left = (stepped && broken == STEP_IS_FREE -> left : left - i);
    saved = true;
    when(i != 0 && next <= LAST, begins(i));
    when(saved, stepped = false; step = 0);
    i = 0; next = 0; left = 0; saved = false
}

init {
    atomic { read_settings(); disk_skips = most(0) }
    do
    :: atomic { !runs -> select(date : 0 .. FAR); start() }
    :: atomic { runs -> stop() }
    :: atomic { runs && stepped -> look() }
    :: atomic { /* somebody sets the clock. A copy is behind, though perhaps by less than a unit */
        runs;
        select(i : 0 .. FAR);
        when(i > date || (i == date && restored),
            stepped = true;
            step = i - date;
            when(broken == REFILLED_BY_DATE,
                 skips = (skips + step > most(block) -> most(block) : skips + step)));
        date = i;
        honest = honest && date == now;
        look()
       }
    :: atomic { /* time passes, and epochs end */
        now < TIME;
        now++;
        when(now % 2 == 0 && close > 0, close--);
        when(runs,
            when(!restored, may_skip++);
            skips = (skips < most(block) -> skips + 1 : skips);
            date = (date < FAR -> date + 1 : date);
            age++;
            when(block < LAST && age >= (broken == SHORT_EPOCHS -> 1 : 2),
                next = block + 1;
                left = (skips > most(next) -> most(next) : skips);
                begins(0));
            look())
       }
    :: atomic { insider && !copied ->
        copied = true; copy_runs = runs; copy_date = date; copy_block = block;
        copy_disk = disk; copy_skips = disk_skips
       }
    :: atomic { copied && !runs && !restored -> /* the disk alone */
        restore(); disk = copy_disk; disk_skips = copy_skips
       }
    :: atomic { copied && copy_runs && !restored -> /* all of the machine */
        restore(); runs = true; disk = copy_disk; disk_skips = copy_skips;
        date = copy_date; block = copy_block; skips = copy_skips; age = 0;
        stepped = false; step = 0
       }
    od
}
