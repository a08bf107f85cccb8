/* A number that survives: two slots, as dumpulse_slots_read() and dumpulse_slots_write() use them.
 * SPDX-License-Identifier: MIT
 *
 * A number has two digits of two bits, where dumpulse_keyed.h has three bytes. While a digit is
 * written, power may fail, and then it is anything. */
#include "model.h"

#define UNREADABLE 15 /* ffffff */
#define ONES 3        /* a digit with all its bits 1 */

/* What must hold. */
#define KEPT 1    // what is read is never smaller than the number that was stored
#define EITHER 2  // it is this or the one that was being stored, if the last write was not cut off
#define NEW 3     // when a write has ended, what is read is what it wrote
#define WHOLE 4   // a number can be read
#define NEVER 5   // no write ends. This must be false, or the others would say nothing

/* A rule that is broken, and the property that does not hold any more. */
#define SAME_SLOT 1  // KEPT: the slot is written that has the number
#define FIRST_SLOT 2 // KEPT: the first slot is always written
#define SMALLER 3    // NEW: the smaller number is read
#define FIRST_READ 4 // NEW: the first slot is read if it is whole
#define UNCHECKED 5  // EITHER: a slot is read that is not whole
#define ONE_DIGIT 6  // EITHER: only the first inverted digit is compared
#define TWICE 7      // EITHER: the write before this one was cut off, too
#define NO_SLOT 8    // NEW: nothing is written
#define ONE_SLOT 9   // WHOLE: there is only one slot
#define ENDS 10      // NEVER: a write ends

byte memory[8];       /* two slots: two digits, and the same inverted */
byte number;          /* what was read when the device began, or was stored last */
bool cut;             /* the last write was cut off */
byte to_store, at, k, read, digit;

#define digit_of(k) \
    ((k) == 0 -> to_store / 4 : ((k) == 1 -> to_store % 4 : \
    ((k) == 2 -> ONES - to_store / 4 : ONES - to_store % 4)))
#define whole(s) \
    ((broken == UNCHECKED || \
      (memory[s] + memory[s + 2] == ONES && \
       (memory[s + 1] + memory[s + 3] == ONES || broken == ONE_DIGIT))) && \
     !(broken == ONE_SLOT && s == 4))
#define value(s) (4 * memory[s] + memory[s + 1])
#define first_has_it \
    (broken == FIRST_READ || \
     (broken == SMALLER -> value(0) <= value(4) : value(0) >= value(4)))

/* Sets `at` to the slot that has the number: 0, 4, or 8 if none is whole. */
inline place()
{
    if
    :: whole(0) && (!whole(4) || first_has_it) -> at = 0
    :: else -> at = (whole(4) -> 4 : 8)
    fi
}

/* The power fails, or not, while the number is written. */
inline write()
{
    place();
    at = (broken == FIRST_SLOT || broken == ONE_SLOT -> 0 :
          (broken == SAME_SLOT -> at % 8 : (at == 0 -> 4 : 0)));
    k = 0;
    do
    :: k < 4 && broken != NO_SLOT -> memory[at + k] = digit_of(k); k++
    :: k < 4 && broken != NO_SLOT ->
        select(digit : 0 .. ONES);
        memory[at + k] = digit;
        break
    :: k == 4 || broken == NO_SLOT -> k = 4; break
    od;
    place();
    read = (at == 8 -> UNREADABLE : value(at));
    must(WHOLE, at != 8);
    must(KEPT, read >= number && at != 8);
    must(EITHER, (cut && broken != TWICE) || read == number || read == to_store);
    must(NEW, k < 4 || read == to_store);
    must(NEVER, k < 4 || broken != ENDS);
    cut = k < 4;
    number = read;
    to_store = 0; at = 0; k = 0; digit = 0; read = 0
}

init {
    atomic {
        read_settings();
        memory[2] = ONES; memory[3] = ONES; /* the first slot has 0, and the other one nothing */
        memory[4] = ONES; memory[5] = ONES; memory[6] = ONES; memory[7] = ONES
    }
    do
    :: atomic { number < UNREADABLE -> select(to_store : number + 1 .. UNREADABLE); write() }
    :: number == UNREADABLE -> break
    od
}
