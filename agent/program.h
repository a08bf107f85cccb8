/* What an agent for Linux is made of.   SPDX-License-Identifier: MIT
 *
 * A program defines `program`; agent/main.c has main(), which runs it. One thread and one loop
 * run everything.
 *
 *     log       what it says
 *     options   what it was told
 *     address   Internet addresses, and networks of them
 *     limits    how many reports leave
 *     sources   names in the log who has sent something
 *     counters  what it counts
 *     stats     the same, for programs that connect
 *     timing    the clocks
 *     table     the library's table, and what a packet is
 *     state     the file that keeps the table over a restart
 *     manager   systemd's protocols
 *     sockets   what it waits for
 *     loop      waits, and runs tasks
 *     can       a CAN interface
 *
 * What a header offers begins with the header's name.
 */
#ifndef DUMPULSE_PROGRAM_H
#define DUMPULSE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "options.h"

struct program {
    const char *name, *usage, *notes;  /* the help before and after the options */
    const struct option_spec *options; /* its own ones */
    size_t option_count;
    void (*set_defaults)(void);
    bool (*set_operand)(const char *text); /* an argument that is no option */
    bool (*finish_arguments)(void);        /* after the last one; false: options.wrong says why */
    bool (*open)(void);                    /* false: cannot run, and it has said why */
    void (*say_what_is_served)(void);
    unsigned (*take_packets)(bool polled); /* from those sockets that are ready, if polled */
    void (*finish)(void);                  /* at the end: what still has to leave */
};
extern const struct program program;

#endif
