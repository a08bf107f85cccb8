/* What hook.c shows to its test: what runs, and what waits.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_HOOK_INTERNAL_H
#define DUMPULSE_HOOK_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dumpulse.h"
#include "limits.h"

enum { HOOK_WAITING = 4 }; /* changes of one variable that wait */

struct hook_change {
    uint8_t was, is;
    uint32_t number;
};

/* Starts as zeros. */
extern struct hook {
    struct {
        size_t count;   /* Number of changes that wait. */
        uint64_t begun; /* ns: when the program was started that runs */
        pid_t child;    /* its process; 0: none runs for this variable */
        bool killed;
        struct hook_change told; /* Change that the program got last. */
        struct hook_change waiting[HOOK_WAITING];
    } of[DUMPULSE_VARIABLES];
    size_t running;
    size_t last;        /* the variable whose program was started last */
    uint64_t merged;    /* changes that were not told as too many waited, and not yet said */
    int start_error;    /* Logged reason why the last start failed, or 0. */
    struct bucket said; /* limits the lines about trouble */
} hook;

#endif
