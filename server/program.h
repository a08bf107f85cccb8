/* The parts of an agent for Linux.   SPDX-License-Identifier: MIT
 *
 * Each agent defines `program`. main() in server/main.c runs it, in one thread with one loop.
 *
 *     log       writes messages
 *     options   reads the arguments
 *     address   reads and compares Internet addresses and networks
 *     limits    decides how many reports leave
 *     counters  counts packets and what became of them
 *     stats     writes the counters as text, and shows them to programs that connect
 *     timing    reads the clocks
 *     table     keeps the library's table, and gives it heartbeats
 *     keys      takes packets of version 2, and keeps their numbers
 *     numbers   makes the bytes of these, and reads them
 *     overlap   knows how long the key before a new one is taken, and who still uses it
 *     snapshot  makes the bytes of a state file, and reads them
 *     state     saves the table in a file, and loads it after a restart
 *     names     reads the file of names: limits of variables
 *     alarms    numbers the changes that watch finds, and keeps what was told
 *     watch     decides which variables are late or dead
 *     hook      runs a program for each such change
 *     manager   speaks systemd's protocols
 *     sockets   keeps the sockets that the loop waits for
 *     udp       reads the addresses of UDP packets, and sets that of an answer
 *     endpoints opens the UDP sockets, or takes those that are passed
 *     listeners sends beacons to the nodes that hear them
 *     loop      waits, and runs tasks
 *     can       serves a CAN interface
 *
 * No two parts use each other. All names that a header declares begin with the header's name. What
 * only the test of a part needs is in a header of its own, like keys_internal.h for keys.
 */
#ifndef DUMPULSE_PROGRAM_H
#define DUMPULSE_PROGRAM_H

#include <stdbool.h>

#include "options.h"

struct program {
    const char *name;
    const struct options_own *options;
    bool (*open)(void); /* false: it cannot run, and it has logged why */
    void (*say_what_is_served)(void);
    void (*finish)(void); /* Sends and logs what is left, at the end. */
};
extern const struct program program;

#endif
