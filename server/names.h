/* The file of names that client.py reads, too: which variables are watched, and their limits.
 * SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_NAMES_H
#define DUMPULSE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NAMES_NO_BOOTS = 64,
    NAMES_LONGEST = 24,                /* characters of a name */
    NAMES_ROOM = 4 * NAMES_LONGEST + 1 /* bytes of a name in UTF-8, and the zero */
};

struct names_variable {
    bool expected;       /* it has a section, and not `expect = no` */
    uint64_t warn, crit; /* ticks that it may be silent */
    uint8_t low, high;   /* values */
    uint8_t boots;       /* the variable that carries its boot count; NAMES_NO_BOOTS: none */
    char name[NAMES_ROOM];
};
extern struct names_variable names_variables[];

/* Reads the file into names_variables. False: options.wrong says what is wrong, and where. */
bool names_read(const char *path);

/* The same for a file that was read already. A zero byte follows its `length` bytes, which this
 * function changes. */
bool names_parse(const char *path, char *text, size_t length);

#endif
