/* Two master keys, and the generations of their labels.   SPDX-License-Identifier: MIT
 *
 * The attacker has stolen all keys. He sets the clock of the machine, and brings old copies of the
 * files of keys back. There are one variable and the readers. hears.pml is about epochs: here,
 * each label has one count in an epoch, and a start begins an epoch that is new. */
#include "model.h"

#define OLD 0
#define NEW 2
#define VARIABLE 0
#define READERS 1 /* OLD + READERS is the readers' key under the old master key */
#define KEYS 4
#define LAST 1    /* the largest generation: 255 */

/* What must hold. */
#define REPLAY 1  // nothing is taken twice
#define RENEWED 2 // nothing is taken of a generation before the newest one
#define BOTH 3    // nor under the old master key, if the label was renewed under the new one
#define RETIRED 4 // nor under the old one, after a heartbeat under the new one
#define END 5     // nor under the old one, after its end
#define HEARD 6   // with the attacker gone, a renewed variable is taken at once
#define OTHERS 7  // who is neither renewed nor retired is taken under the old key
#define NEVER 8   // nothing is taken. This must be false, or the others would say nothing

/* A rule that is broken, and the property that does not hold any more. */
#define RENEWS_AGAIN 1     // REPLAY: a generation that holds already clears the count, too
#define GRACE 2            // RENEWED: the generation before is taken, too
#define COMES_BACK 3       // RENEWED: a start takes a smaller generation
#define RUNS_BACK 4        // RENEWED: a running agent takes a smaller generation
#define NOT_KEPT 5         // RENEWED: generations are not stored
#define ONE_MASTER 6       // BOTH: a label that was renewed stays under the old key
#define NOT_RETIRED 7      // RETIRED: a heartbeat under the new key changes nothing
#define RETIRED_IN_RAM 8   // RETIRED: this is not stored
#define UNRETIRES 9        // RETIRED: renewed under the old key, a retired variable is taken again
#define ALONE 10           // RETIRED: if the old key is the only one, nothing is retired
#define END_BY_DATE 11     // END: the end follows a clock that can be set
#define END_IN_RAM 12      // END: the end is not stored
#define LATE_END_IN_RAM 13 // END: it is not stored if the agent did not run then
#define COUNT_KEPT 14      // HEARD: a new key keeps the last count
#define RETIRES_ALL 15     // OTHERS: a heartbeat retires all labels
#define READERS_RETIRE 16  // OTHERS: a request under the new key retires the variable
#define TAKEN 17           // NEVER: a heartbeat is taken

byte file[KEYS];                 /* generations in the files of keys */
byte stored[KEYS];               /* the numbers of both keys: generations, */
bool stored_retired, stored_end; /* is the variable retired, and has the old key ended? */
bool runs, alone;                /* the agent's RAM. With the old key alone? */
byte held[KEYS];
bool retired, ended, counted[KEYS];
bool date_is_later;              /* is the machine's clock behind the end? */
bool failed[KEYS];               /* could the last change of the numbers not be stored? */
byte newest[KEYS];               /* what has happened, for the properties */
bool moved, over, taken[KEYS];
byte k, generation;              /* of this turn */

/* Stores the numbers of a master key. If it fails, the next block has them. */
inline save(m)
{
    if
    :: failed[m] = false;
       when(broken != NOT_KEPT, stored[m] = held[m]; stored[m + 1] = held[m + 1]);
       when(m == OLD, stored_retired = (broken == RETIRED_IN_RAM -> false : retired);
            stored_end = (broken == END_IN_RAM -> false : ended))
    :: !calm -> failed[m] = true
    fi
}

/* What could not be stored is lost. */
inline power_fails()
{
    runs = false;
    when(failed[OLD], newest[OLD] = stored[OLD]; newest[OLD + READERS] = stored[OLD + READERS];
         moved = stored_retired; over = stored_end; failed[OLD] = false);
    when(failed[NEW], newest[NEW] = stored[NEW]; newest[NEW + READERS] = stored[NEW + READERS];
         failed[NEW] = false)
}

inline epoch_begins()
{
    k = 0;
    do
    :: k < KEYS -> counted[k] = false; taken[k] = false; k++
    :: else -> k = 0; break
    od
}

/* Reads a file of keys. */
inline read_file(m, backwards)
{
    when((file[m] >= held[m] && file[m + 1] >= held[m + 1]) || broken == backwards,
        k = m;
        do
        :: k < m + 2 ->
            when((file[k] != held[k] && broken != COUNT_KEPT) || broken == RENEWS_AGAIN,
                 counted[k] = false);
            when(file[k] != held[k], taken[k] = false);
            when(k == OLD && file[k] != held[k] && broken == UNRETIRES, retired = false);
            held[k] = file[k];
            newest[k] = (held[k] > newest[k] -> held[k] : newest[k]);
            k++
        :: else -> k = 0; break
        od;
        save(m))
}

inline start()
{
    k = 0;
    do
    :: k < KEYS -> held[k] = stored[k]; k++
    :: else -> k = 0; break
    od;
    retired = stored_retired; ended = stored_end;
    if
    :: alone = true
    :: alone = false;
       when(date_is_later, ended = true)
    fi;
    when((file[OLD] >= held[OLD] && file[OLD + READERS] >= held[OLD + READERS] &&
          file[NEW] >= held[NEW] && file[NEW + READERS] >= held[NEW + READERS]) ||
         broken == COMES_BACK,
        runs = true;
        epoch_begins();
        read_file(OLD, COMES_BACK); read_file(NEW, COMES_BACK);
        /* Nothing is taken before a block of both keys is stored. */
        runs = !failed[OLD] && !failed[NEW];
        when(runs && ended, over = true);
        when(broken == LATE_END_IN_RAM, stored_end = stored_end && !date_is_later));
    when(!runs, power_fails())
}

#define is_taken \
    (runs && !counted[k] && \
     (generation == held[k] || (broken == GRACE && generation + 1 == held[k])) && \
     (k >= NEW -> !alone : \
      !(broken == END_BY_DATE -> date_is_later : ended) && \
      !(retired && (k == VARIABLE || broken == RETIRES_ALL) && (!alone || broken != ALONE)) && \
      (alone || broken == ONE_MASTER || held[NEW + k] == 0)))

/* The agent gets a heartbeat or a request under key k. */
inline process()
{
    when(is_taken,
        must(REPLAY, !taken[k] || generation != held[k]);
        must(RENEWED, generation >= newest[k]);
        must(BOTH, k >= NEW || alone || newest[NEW + k] == 0);
        must(RETIRED, k != OLD + VARIABLE || !moved);
        must(END, k >= NEW || !over);
        must(NEVER, broken != TAKEN);
        counted[k] = true; taken[k] = true;
        moved = moved || k == NEW + VARIABLE;
        when(broken != NOT_RETIRED &&
             (k == NEW + VARIABLE || (k == NEW + READERS && broken == READERS_RETIRE)),
            retired = true;
            save(OLD)))
}

init {
    atomic { read_settings() }
    do
    :: atomic { !runs -> start() }
    :: atomic { runs -> power_fails() }
    :: atomic { runs -> epoch_begins(); save(OLD); save(NEW) }
    :: atomic { runs && !alone && !over -> over = true; ended = true; save(OLD) }
    :: date_is_later = !date_is_later
    :: atomic {
        select(k : 0 .. KEYS - 1); file[k] = (file[k] < LAST -> file[k] + 1 : 0); k = 0
       }
    :: atomic { runs -> read_file(OLD, RUNS_BACK) }
    :: atomic { runs && !alone -> read_file(NEW, RUNS_BACK) }
    :: atomic {
        select(k : 0 .. KEYS - 1); select(generation : 0 .. LAST);
        process();
        k = 0; generation = 0
       }
    :: atomic { /* the attacker goes, and a variable is renewed under the new key */
        runs && !alone && held[NEW] < LAST && file[NEW + READERS] >= held[NEW + READERS];
        calm = true;
        file[NEW] = held[NEW] + 1;
        read_file(NEW, RUNS_BACK);
        k = NEW; generation = held[k]; process();
        must(HEARD, taken[NEW])
       } -> break
    :: atomic { /* the attacker goes, and an epoch begins */
        runs && !alone && !over;
        calm = true;
        epoch_begins();
        k = 0;
        do
        :: k < NEW && held[NEW + k] == 0 && (k == READERS || !moved) ->
            generation = held[k]; process();
            must(OTHERS, taken[k]);
            k++
        :: k < NEW && !(held[NEW + k] == 0 && (k == READERS || !moved)) -> k++
        :: k == NEW -> break
        od
       } -> break
    od
}
