/* What the agents for Linux share: all that has nothing to do with a network.
 *                                                             SPDX-License-Identifier: MIT
 * A program defines `program`, and includes this; agent/service.c has main(). One thread and
 * one loop run everything.
 */
#ifndef DUMPULSE_SERVICE_H
#define DUMPULSE_SERVICE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "dumpulse.h"

struct option {
    const char *name, *value, *help;
    bool (*set)(const char *text); /* false: options.wrong says why; or NULL, and then */
    bool *flag;                    /* what to set if there is no value, or else */
    uint64_t *number, low, high;   /* a number in that range */
};

/* What a program is, and what it does with its network. */
struct program {
    const char *name, *usage, *notes; /* the help before and after the options */
    const struct option *options;     /* its own ones */
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

/* The options that all have. */
extern struct options {
    uint64_t tick; /* ms */
    uint64_t self_variable, self_sender;
    const char *state;    /* a path, or NULL */
    uint64_t state_every; /* s */
    bool self, json, help, version;
    char wrong[256]; /* what is wrong with the arguments */
} options;

/* One line on stderr, cut off at 1 KB, whatever an argument had in it. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* Always false: for `return wrong(…)` in whatever reads an option. */
__attribute__((format(printf, 1, 2))) bool wrong(const char *format, ...);

/* A decimal number up to the character `end`, digits alone. False if there is none, or it
 * is not in the range. */
bool read_number(const char *text, char end, uint64_t low, uint64_t high, uint64_t *number);
bool set_number(const char *name, const char *text, uint64_t low, uint64_t high, uint64_t *number);

bool read_arguments(int count, char *const *arguments);

/* Every packet is counted once more after PACKETS, up to UNSENT; the rest are no packets
 * that were taken. Those from ERROR_FRAMES on are printed if there is a CAN interface. */
enum {
    PACKETS,
    HEARTBEATS,
    REPORTS,
    LENGTH,
    MAGIC,
    CHECKSUM,
    VARIABLE,
    NOT_ALLOWED,
    RATE,
    UNSENT,
    DROPS,
    FAILED_SAVES,
    ERROR_FRAMES,
    BUS_OFFS,
    COUNTERS
};

extern uint64_t counters[COUNTERS];
extern size_t counted; /* how many of them are printed */

static const uint64_t SECOND = UINT64_C(1000000000); /* ns */
uint64_t nanoseconds(clockid_t clock);

uint64_t get_number(const uint8_t *bytes, size_t size); /* big-endian */

enum { FIRST_PASSED = 3 }; /* descriptor of the first socket that the service manager passes */
size_t passed_sockets(void);

/* What the loop waits for, and how many packets the smallest buffer of them holds. */
enum { MAX_SOCKETS = 17 };
extern struct pollfd sockets[MAX_SOCKETS];
extern size_t socket_count;
extern uint64_t capacity;

/* Takes a bound socket into service, with a large buffer, as the last one or in the place of one
 * that is then closed; -1 keeps its place. False: there are MAX_SOCKETS already. */
bool add_socket(int descriptor);
void replace_socket(size_t socket, int descriptor);
void say_if_buffers_are_small(void);

/* What the loop runs each so many ns. */
enum { DROPS_TASK, WATCHDOG_TASK, SAVING_TASK, TRANSPORT_TASK, TASKS };
extern struct task {
    void (*run)(void);
    uint64_t every, at; /* ns; every 0: never */
} tasks[TASKS];

/* From now on: at once, and then each so many ns. */
void start_task(size_t task, uint64_t every);

extern dumpulse agent;
extern uint16_t stamp; /* the time now in ticks: what the clock hook returns */

void read_clock(void); /* sets the stamp */
void stamp_self(void); /* before a report, if --self is given */

/* What to count for 8 bytes that are no request: HEARTBEATS, or the first thing that is wrong.
 * dumpulse_process_packet() would decide the same, but not say why; and a heartbeat would take
 * half as many instructions again, as the compiler does not know there how many bytes are summed. */
static inline size_t take_heartbeat(const uint8_t *packet)
{
    uint8_t right[DUMPULSE_PACKET_SIZE];

    if (packet[4] != DUMPULSE_MAGIC)
        return MAGIC;
    dumpulse_make_heartbeat(right, packet[5], packet[6], packet[7]);
    if (memcmp(packet, right, 4) != 0) /* of the rest they share every byte */
        return CHECKSUM;
    return dumpulse_record(&agent, packet[5], packet[6], packet[7]) == DUMPULSE_HEARTBEAT
               ? HEARTBEATS
               : VARIABLE;
}

#endif
