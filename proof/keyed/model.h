/* What all models share.   SPDX-License-Identifier: MIT
 *
 * A model is one loop. Each turn is one thing that the attacker lets happen: somebody makes a
 * packet, gets one, or loses power. So he drops, delays, repeats and reorders as he likes. He also
 * sends any bytes that he likes. Tags are perfect: a tag is right if and only if somebody who has
 * the key made it, over the same label, number and bytes 4 to 7.
 *
 * proof/spin.py sets BROKEN, the number of a rule that is broken, or 0; CHECKED, the number of the
 * only property to check, or 0 for all; and INSIDER, 1 if the attacker has one more key. */
c_decl {
\#include <stdlib.h>
}
byte broken, checked, violated;
bool insider;
bool calm; /* the attacker has gone, and neither power nor memory fails any more */

#define read_settings() \
    c_code { \
        now.broken = (unsigned char)atoi(getenv("BROKEN")); \
        now.checked = (unsigned char)atoi(getenv("CHECKED")); \
        now.insider = atoi(getenv("INSIDER")) != 0; \
    }

/* The property holds here if the condition is true. */
#define must(property, condition) \
    if \
    :: (condition) || (checked != 0 && checked != property) \
    :: else -> violated = property; assert(violated == 0) \
    fi

/* Does something if the condition is true. */
#define when(condition, action) \
    if \
    :: (condition) -> action \
    :: else \
    fi

/* Somebody stores a number, and may fail, or lose power meanwhile. Then his memory has the old
 * number or the new one, and never another: the vectors of slots are about that. */
#define STORED 1
#define FAILED 2 /* The hook reports a failure. The number may be stored nevertheless. */
#define CUT 3
#define store(cell, number, may_lose_power) \
    if \
    :: cell = number; outcome = STORED \
    :: !calm -> outcome = FAILED \
    :: !calm -> cell = number; outcome = FAILED \
    :: !calm && may_lose_power -> outcome = CUT \
    :: !calm && may_lose_power -> cell = number; outcome = CUT \
    fi
byte outcome;
