/* The parts of an agent for Linux.   SPDX-License-Identifier: MIT
 *
 * Each agent defines `program`. main() in agent/main.c runs it, in one thread with one loop.
 *
 *     log       writes messages
 *     options   reads the arguments
 *     address   reads and compares Internet addresses and networks
 *     limits    decides how many reports leave
 *     sources   logs who has sent something
 *     counters  counts packets and what became of them
 *     stats     shows the counters to programs that connect
 *     timing    reads the clocks
 *     table     keeps the library's table, and gives it heartbeats
 *     state     saves the table in a file, and loads it after a restart
 *     names     reads the file of names: limits of variables
 *     watch     decides which variables are late or dead
 *     hook      runs a program for each such change
 *     manager   speaks systemd's protocols
 *     sockets   keeps the sockets that the loop waits for
 *     loop      waits, and runs tasks
 *     can       serves a CAN interface
 *
 * All names that a header declares begin with the header's name.
 */
#ifndef DUMPULSE_PROGRAM_H
#define DUMPULSE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "options.h"

struct program {
    const char *name;
    const char *usage;                 /* the help before the options */
    const char *notes;                 /* the help after the options */
    const struct option_spec *options; /* options that only this agent has */
    size_t option_count;
    void (*set_defaults)(void);
    bool (*set_operand)(const char *text); /* reads an argument that is no option */
    bool (*finish_arguments)(void); /* checks them all; false: options.wrong says what is wrong */
    bool (*open)(void);             /* false: it cannot run, and it has logged why */
    void (*say_what_is_served)(void);

    /* Takes packets that have come, a bounded number of them, and returns how many. If `polled`, it
     * takes them only from sockets that poll() has found ready. */
    unsigned (*take_packets)(bool polled);

    void (*finish)(void); /* at the end: sends and logs what is left */
};
extern const struct program program;

#endif
