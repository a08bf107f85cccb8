/* The storm: an agent for Linux, its nodes, a reader and an attacker, in a time of their own.
 * SPDX-License-Identifier: MIT
 *
 * README.md says how a story is told, how to add a fault and how to read a failure.
 *
 * All that the storm knows is in one struct on the heap. So all static data of the program are the
 * agent's, and the agent starts anew when they become what they were at the start of the program.
 */
#ifndef DUMPULSE_STORM_H
#define DUMPULSE_STORM_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "dumpulse_keyed.h"
#include "dumpulse_watch.h"
#include "server/snapshot.h"

enum { NODES = 12, ROUNDS = 2, FAULTS = 24, CLAIMS_MAX = 40, KINDS_MAX = 40 };
enum { AGENT = 0, FIRST_NODE = 1, READER = FIRST_NODE + NODES, PARTIES };
static const uint64_t SECOND = UINT64_C(1000000000); /* ns */
static const uint64_t MS = UINT64_C(1000000);
static const uint64_t MINUTE = UINT64_C(60000000000);

/* ---- world.c: time, chance, and what is written down. */

struct event {
    uint64_t at, order;
    void (*run)(unsigned argument);
    unsigned argument;
};
enum { EVENTS = 8192, LINES = 60, LINE = 160 };

void world_begin(uint64_t seed);
uint32_t world_chance(uint32_t in);                  /* 0 to in - 1 */
uint64_t world_between(uint64_t low, uint64_t high); /* Returns a time between these two. */
void world_plan(uint64_t at, void (*run)(unsigned argument), unsigned argument);
uint64_t world_next(void);          /* when the next event is */
void world_step(void);              /* the next event; the story may end here */
void world_pass(uint64_t duration); /* all events of this time */
void world_note(uint64_t number);   /* into the hash of the trace */
__attribute__((format(printf, 1, 2))) void world_say(const char *format, ...);
/* A claim does not hold. This ends the story, unless a fault excuses the claim. */
__attribute__((format(printf, 2, 3))) void world_broken(unsigned claim, const char *format, ...);
/* If the claim is armed, it must hold. The other arguments say what is wrong if it does not. */
#define CLAIM(claim, is_armed, holds, ...)                                                         \
    do {                                                                                           \
        if (!(is_armed))                                                                           \
            break;                                                                                 \
        world->told.armed[claim]++;                                                                \
        if (!(holds))                                                                              \
            world_broken(claim, __VA_ARGS__);                                                      \
    } while (0)

/* ---- network.c: links that lose, double, reorder, delay, hold back and damage. */

enum { LONGEST_PACKET = DUMPULSE_KEYED_REPORT_SIZE, PACKETS = 4096, RECORDED = 4096 };
struct packet {
    uint8_t bytes[LONGEST_PACKET];
    uint16_t length;
    uint8_t from, to;
    bool used, held;
};
/* One in so many packets; 0: none. */
struct weather {
    uint32_t lost, doubled, damaged;
    uint64_t delay;     /* Maximum delay, ns. */
    bool cut[PARTIES];  /* nothing comes from this party, and nothing to it */
    bool held[PARTIES]; /* Parties whose packets come when the fault ends. */
};
void network_send(unsigned from, unsigned to, const uint8_t *bytes, size_t length);
void network_release(unsigned party); /* Delivers all delayed packets, in any order. */

/* ---- nodes.c: the nodes and the reader. */

enum { MADE = 4096 };
/* What the files say that SIGHUP reads again. */
struct names {
    unsigned warn, crit;           /* ms */
    unsigned left_out;             /* variables that nobody watches, one bit each */
    unsigned low, high;            /* values */
    unsigned edition;              /* a part of each name */
    uint8_t generations[2][NODES]; /* Generations of the keys. */
};
/* Options of the agent, of which each story has some. */
struct chosen {
    bool exec, allow, allow_heartbeats, keep_old, no_state, no_watch;
    unsigned readers;                 /* parties that may request reports, one bit each */
    unsigned senders;                 /* Bits of allowed senders, with --allow-heartbeats. */
    unsigned self, self_sender;       /* 0: there is no --self */
    unsigned state_every, rate_total; /* 0: there is no such option */
};
enum wrong_file { NONE_IS_WRONG, NAMES_ARE_WRONG, KEY_IS_WRONG };
/* A heartbeat that a node has made. Each has another sender and value. */
struct made {
    uint32_t serial; /* sender * 256 + value */
    uint32_t epoch;  /* Epoch of the agent; 0 without keys. */
    uint8_t count;
    bool is_sent;  /* the node had an epoch, and a count left in it */
    uint8_t taken; /* Number of times that it was accepted. */
    uint8_t generation;
    bool before; /* It is made with the key before. */
    uint8_t packet[DUMPULSE_PACKET_SIZE];
    uint64_t made_at; /* the time of the world */
    uint64_t arrived; /* steady: when it came last, until it was taken; 0: never */
};
struct node {
    bool runs;              /* it is not dead, and its power is on */
    bool before;            /* it has the key of --key-before */
    uint8_t generations[2]; /* Generations of its key, and of the one before. */
    uint8_t key[16];
    dumpulse_node keyed;
    uint32_t serial;
    uint64_t every;
    struct made made[MADE];
};
struct reader {
    uint8_t key[16];
    dumpulse_reader keyed;
    uint64_t heard_at, asked_at, requested_at, believed_at;
    unsigned asks_again;
    bool before;         /* it has the key of --key-before */
    uint32_t last_epoch; /* Epoch of the last report that it accepted. */
    unsigned nonce;
};
void nodes_begin(void);
void nodes_start(unsigned node); /* its power comes back */
void nodes_renew(unsigned node); /* it gets its next key */
void nodes_move(unsigned party); /* A node or the reader gets the new key. */
void nodes_take(unsigned party, const struct packet *packet);
void nodes_make_key(uint8_t key[16], unsigned label, bool before, uint8_t generation);
struct made *nodes_find(unsigned node, uint32_t serial); /* NULL: it was never made, or long ago */

/* ---- calls.c: one call of the system fails, once. */

enum { CALL_KINDS = 35 };
/* In place of an error number: fewer bytes or messages than asked for; a bit of what is read is
 * wrong. */
enum { SHORT = -1, FLIPPED = -2 };
struct failure {
    unsigned call; /* its place in the table of calls.c */
    int reason;
    unsigned calls_left; /* Calls of this kind before it; 0: no call fails. */
    bool has_happened;
};
/* At each call of the system. Returns why it fails, which is in errno, too; or 0. */
int calls_fail(const char *name);
const char *calls_name(unsigned call);
bool calls_can_happen(unsigned call);        /* Does this agent make such calls? */
int calls_reason(unsigned call, unsigned i); /* 0: there are no more */
const char *calls_reason_name(int reason);

/* ---- disk.c: files, and what is left of them after a power cut. */

enum { FILES = 48, NAMES = 16, NAME = 48, FILE_SIZE = 4096, OPEN = 16, PAST = 16 };
struct file {
    uint8_t now[FILE_SIZE], synced[FILE_SIZE];
    size_t size, synced_size;
    bool used, dirty;
    uint64_t number;
};
struct folder {
    struct {
        char name[NAME];
        int file; /* -1: the name is free */
    } of[NAMES];
};
struct disk {
    struct file files[FILES];
    struct folder now, past[PAST]; /* past: each change since the folder was synced */
    unsigned changes;
    uint64_t steps; /* all that has changed anything on it */
    struct {
        int file;        /* -1: free; else a file, or one of enum opened */
        size_t at, size; /* Bytes read; size at the first read. */
    } open[OPEN];
    uint64_t failed_at; /* when a call failed last */
    uint64_t numbers, full_until, fails_until, slow_until, lies_until;
    unsigned failing;    /* Calls that fail until then: enum failing. */
    uint64_t shut_until; /* no file can be opened */
    struct file backup;  /* Copy of an older file of numbers. */
    bool brings_back;    /* the backup comes back at the next power cut */
};
enum failing { FILES_FAIL = 1, FOLDERS_FAIL = 2, RENAMES_FAIL = 4 };
enum opened { A_FOLDER = FILES, NULL_DEVICE, A_SOCKET, A_POLLER };
void disk_begin(void);
void disk_put(const char *name, const char *text); /* Writes and syncs a file at once. */
void disk_cut(void);                               /* the power fails */
void disk_close_all(void);                         /* the process has ended */
int disk_open(int file);                           /* returns a descriptor */
/* A descriptor that must be closed while the agent waits: all but those of a lock, a socket and a
 * poller. -1: there is none. */
int disk_left_open(void);
const struct file *disk_find(const char *name);
const struct file *disk_numbers(void);
/* The smallest number of 4 bytes at this byte of a file with numbers that may be left if the power
 * fails now. Its name ends so. */
uint32_t disk_least_number(const char *suffix, size_t at);
unsigned disk_count(void); /* files that have a name */
bool disk_is_synced(void);

/* ---- machine.c: the process of the agent, its clocks, signals and sockets. */

enum trap { TRAP_NONE, TRAP_CRASH, TRAP_CUT, TRAP_CUT_UNSYNCED, TRAP_STOP, TRAP_SLEEP, TRAP_JUMP };
/* Where numbers begin again: a clock that counts ticks in 16 bits, milliseconds or seconds in 32,
 * or epochs of a block in 8. */
enum wrap { TICKS_WRAP, UNIX_MS_WRAP, STEADY_MS_WRAP, SECONDS_WRAP, BLOCK_WRAP, WRAPS };
enum { QUEUE = 8192, FIRST_DESCRIPTOR = 3, PROGRAMS = 8, THREAD_STACK = 131072 };
struct waiting {
    uint8_t bytes[16];
    uint16_t length;
    uint8_t from;
};
struct machine {
    bool up, serves, asleep;
    uint64_t slept;               /* ns that its clocks did not run, while the world went on */
    uint64_t jumped;              /* Time of a jump while nothing else happened. */
    uint64_t jump;                /* ns, of TRAP_JUMP; odd: its machine sleeps, and does not stop */
    uint64_t looked[WRAPS];       /* Times when the agent was idle last, for what can wrap. */
    int32_t drift;                /* ppm */
    uint64_t drifted_at, drifted; /* the steady clock when the drift changed */
    int64_t unix_ahead;           /* ns: Unix time, minus the steady clock */
    uint64_t still;               /* Unix time stands still here; 0: it goes */
    void (*handlers[65])(int number);
    bool pending[65];
    uint64_t signalled;  /* the steady clock when a signal began to wait; 0: none waits */
    uint64_t busy_until; /* a packet comes whenever the agent waits for one */
    uint64_t drops;      /* packets that found no room */
    uint64_t alarm;      /* steady; 0: none */
    unsigned timers;     /* that were set; the last one counts */
    struct waiting queue[QUEUE];
    unsigned first, count; /* packets in the queue */
    enum trap trap;
    unsigned calls_left;
    uint64_t trap_until;
    jmp_buf ends;            /* the process */
    void *(*thread)(void *); /* NULL: none has begun, or it has ended */
    void *thread_argument;
    bool thread_due, in_thread;
    uint64_t thread_waits; /* The thread waits until then. */
    ucontext_t loop, own;  /* Contexts of the loop and of the thread. */
    uint8_t stack[THREAD_STACK];
    uint64_t starts, children;
    bool read_wrong;      /* a file that must not be used now */
    const void *answered; /* the address of the last answer to this batch */
    struct {
        int number; /* 0: none runs */
        int status;
        unsigned variable;
        uint64_t begun; /* the steady clock */
        bool ended, group_killed;
    } programs[PROGRAMS];
};
void machine_begin(void);
void machine_live(void);                      /* Runs the agent until the story ends. */
void machine_call(void);                      /* Counts a call of the system. */
void machine_look_at_programs(uint64_t most); /* ns that one may run */
void machine_signal(int number);
void machine_deliver(const struct packet *packet);
void machine_queue(unsigned from, const uint8_t *bytes, size_t length);
uint64_t machine_steady(void); /* its clocks, in ns */
uint64_t machine_boot(void);   /* the steady clock, and the time for which it slept */
uint64_t machine_unix(void);
bool machine_has_bus(void); /* it runs canserver */
bool machine_runs_program(unsigned node);
void machine_set_clock(int64_t by); /* ns; so it does not wrap by itself */
void machine_drift(int32_t ppm);
void machine_look_for_wraps(void); /* when the agent has nothing to do */
const char *machine_wrap_name(enum wrap wrap);
void machine_trap(enum trap trap, unsigned calls, uint64_t until);

/* ---- bus.c: the CAN interface of canserver, and the bus. */

enum bus { BUS_WORKS, BUS_OFF, BUS_DOWN, BUS_GONE };
struct canfd_frame;
struct interface {
    enum bus now;
    bool is_open;
    int error;           /* errno of which the agent must still be told; 0: none */
    uint64_t busy_until; /* all frames have left by then */
    unsigned frame;      /* Next frame of the report. */
    uint8_t report[DUMPULSE_KEYED_REPORT_SIZE + 64];
};
void bus_change(enum bus to);
void bus_close(void);
bool bus_hears(void); /* packets can come in */
/* As the kernel hands it out. Returns its size. */
size_t bus_frame(struct canfd_frame *frame, const struct waiting *packet);
int bus_error(void); /* errno of a call that finds no frame */

/* ---- The attacker, in network.c: it records all, and has the key of one node. */

void attacker_record(const struct packet *packet);
void attacker_replay(unsigned packets);
void attacker_send_junk(unsigned packets);
void attacker_flood(unsigned party, unsigned packets);
void attacker_forge(unsigned node, unsigned packets); /* all that the key of this node signs */

/* ---- oracle.c: what must be true. */

enum claim {
    FORGED,
    OLD,
    TAKEN_TWICE,
    MOVED,
    IGNORED,
    EPOCH_TWICE,
    STORED,
    TOO_EARLY,
    TOO_LATE,
    NOT_BACK,
    RANGED,
    IN_ORDER,
    STAMPED,
    FORGOTTEN,
    SAVED,
    UNCHANGED,
    RESTORED,
    WHOLE,
    SERVES,
    HEARD,
    READ,
    FRESH,
    REPORTED,
    ALLOWED,
    ANSWERED,
    TOLD,
    COUNTED,
    LOGGED,
    PROMPT,
    ENDS,
    BOUNDED,
    KILLED,
    CLAIMS
};

/* What reference.c expects of this run of the agent. */
enum { ENTRIES = DUMPULSE_REPORT_SIZE - 4, BATCH = 64 /* packets at once */, DUE = 2 * BATCH };
struct outputs {
    uint8_t table[DUMPULSE_REPORT_SIZE]; /* Table after the packets so far. */
    struct due {
        unsigned to;
        size_t length;
        uint8_t bytes[DUMPULSE_KEYED_REPORT_SIZE] __attribute__((aligned(4)));
    } due[DUE];            /* Answers that must be sent next. */
    unsigned first, count; /* The ring keeps their order. */
    struct {
        uint64_t full_at; /* when the whole burst is allowed again */
        uint64_t got_at;  /* when it got a report last; 0: never */
    } of[PARTIES], all;
    uint64_t round_begun, round_ends; /* Round of --rate-total. */
    struct waiting keyed[BATCH];      /* packets of this batch that need keys */
    unsigned keyed_first, keyed_count;
    struct counted {
        uint32_t epoch;
        uint8_t generation, last; /* count that was taken */
    } counted[2][DUMPULSE_READER_LABEL + 1];
    uint32_t told_epoch[2][NODES], idle_epoch[2][NODES];
    uint64_t epoch_at[2][NODES]; /* the steady clock; 0: it did not begin in its turn */
    unsigned retired;            /* variables, one bit each */
    bool takes_before;           /* when the agent looked last */
    uint8_t key[16] __attribute__((aligned(4)));
    uint64_t begun;        /* machine_boot() */
    uint64_t batch_at;     /* Time when packets were handed out last. */
    uint64_t idle_at;      /* Time when the agent was idle last. */
    uint64_t counts[32];   /* Counters of server/counters.h. */
    uint64_t told;         /* changes that programs of --exec got */
    uint64_t logged;       /* when the burst of lines about changes is whole again */
    unsigned unsaid;       /* changes without a line, since the last line */
    unsigned failed_saves; /* that are logged: the same reason is logged once */
    char line[LINE];       /* Next line that the agent must log; "": any. */
    char unwritten[LINE];  /* Logged reason why the table cannot be written, or "". */
    bool is_rewritten;     /* It was written after that. */
    uint64_t written_at;   /* Unix time in ms of the table that is being saved */
    unsigned hups, usr1s;  /* signals that it must act on */
    bool is_ending;
    unsigned before; /* heard with the key before, one bit each */
    struct changed {
        uint64_t at; /* the steady clock */
        uint8_t node, was, is;
    } changed[DUE];                  /* Changes that are not told yet. */
    unsigned change_first, changing; /* The ring keeps their order. */
    uint64_t changed_at;             /* the steady clock at the last change */
    uint64_t carried;                /* changes that the program did not get in the last run */
    uint8_t records[ALARMS_SIZE];    /* Records that were saved last. */
    uint8_t loaded[SNAPSHOT_SIZE], taken[DUMPULSE_REPORT_SIZE], saved[DUMPULSE_REPORT_SIZE];
    size_t loaded_size;
    bool is_damaged;               /* the file of the table, when it was read last */
    uint64_t loaded_at, saving_at; /* Unix time in ms; the steady clock, of the last save */
    unsigned saves;
};

/* All times are of the agent's steady clock. 0: not in this run of the agent. */
struct truth {
    uint8_t table[DUMPULSE_REPORT_SIZE]; /* Table at the last look. */
    bool serves;                         /* this run has begun to */
    uint64_t served_from;
    struct names read, names; /* Files that the agent has read last, and those that it uses. */
    uint64_t named;           /* Time since when it uses them. */
    struct {
        uint64_t taken;     /* when its entry was written last */
        uint64_t noticed;   /* when the agent had nothing to do first after that */
        uint64_t told_bad;  /* when it was called late or dead last */
        uint64_t last;      /* the epoch and count of what was taken last, in all runs */
        uint32_t due;       /* the serial of a heartbeat that must be taken; 0: none */
        uint8_t generation; /* Generation of that key. */
        bool before;        /* It was made with the key before. */
        bool moved;         /* Its new key was taken. */
        bool unsure, known; /* it may be on the disk; it is there */
        uint8_t state;      /* that the watch has told last */
        uint8_t told;       /* State that the program of --exec knows, from any run. */
        uint32_t number;    /* Number of that change. */
        bool is_first;      /* this run has not told it yet */
        uint64_t watched;   /* Time when its watch began again. */
        bool anew;          /* The program does not know this yet. */
        uint8_t value;      /* its last one, also if its entry was forgotten */
        bool in_range;      /* that is */
        uint64_t ranged;    /* Time since when its value is in the range, or not. */
        uint64_t stamped;   /* Unix time of its entry, in ticks of 64 bits */
        bool restored;      /* this run began with an entry of it, */
        uint64_t age;       /* which was so old then, ns; 0: that is not known */
    } of[NODES];
    bool ended, was_ended; /* the key before, for good: in this run, or before it */
    uint32_t used[2],
        retired;         /* the blocks of both keys at the last look; who is retired, stored */
    uint64_t disk_steps; /* Steps of the disk at that look. */
    uint32_t epoch[2], least[2]; /* Epochs of the agent; this run must begin above the least. */
    bool has_read_clock;         /* this run has read Unix time */
    bool was_over;               /* for some start, the time of the key before was over */
    uint64_t before_until;       /* machine_boot(): the key before is taken so long; 0: it is not */
    uint64_t changed;            /* the first change of the table that is not saved */
    uint64_t saves;              /* Number of saves in this run, while it served. */
    uint64_t disturbed;          /* when the process was stopped last, or the disk was not good */
    uint64_t clock_set;
    struct {
        uint64_t hash, at; /* the time of the world */
        bool before_ends;  /* the key before was taken then */
    } reports[256];
    unsigned reported;
    struct outputs outputs;
};
void oracle_begin_run(void);
void oracle_reads_clock(void); /* the agent reads Unix time */
void oracle_serves(void);      /* this run takes packets from now on */
void oracle_look(void);        /* Checks each step of the agent. */
void oracle_idle(void);        /* when it has nothing to do */
void oracle_check_epoch(void);
uint64_t oracle_hears_after(void);
uint64_t oracle_tells_within(void); /* the last fault, nodes are heard again */
void oracle_hears(void);
void oracle_recovered(void); /* a round has been calm for long enough */
void oracle_disturbed(void); /* for some time, the agent may be slow */
void oracle_call_fails(void);
void oracle_reads_wrong(const struct file *file); /* A bit of what it reads is wrong. */
void oracle_jumped(void);                         /* the clocks of the agent's machine, by much */
void oracle_saved(void);
void oracle_reads(const struct file *file); /* The agent reads a file from its beginning. */
bool oracle_is_disk_good(void);
bool oracle_is_calm(void);
bool oracle_takes_before(void);
void oracle_logged(const char *line);
void oracle_arrived(unsigned node, const struct packet *packet);
void oracle_restores(unsigned node, const struct alarms_record *record);
unsigned oracle_told(char *const arguments[]); /* The program of --exec gets these. */
void oracle_reported(const uint8_t *report, size_t length);
void oracle_believed(const uint8_t *report, size_t length, uint64_t asked_at);
void oracle_excuse_disk(void); /* it does not do what the agent must be able to rely on */
const char *oracle_claim(unsigned claim);
bool oracle_can_arm(unsigned claim); /* this kind of agent */

/* ---- reference.c: what the agent must put out. */

void reference_begins(void); /* a run of the agent */
void reference_serves(void);
void reference_begins_batch(void);
void reference_takes(const struct waiting *packet); /* the agent is handed it now */
uint32_t reference_epoch(bool before, unsigned label);
void reference_reaps(int status); /* The agent reaps a program. */
void reference_sends(unsigned to, const uint8_t *packet, size_t length);
void reference_does_not_send(size_t length, bool is_second); /* the call failed */
void reference_tells(unsigned node, const uint8_t *packet);
void reference_sends_on_bus(const uint8_t *report, size_t length);
void reference_idle(void);
void reference_changes(unsigned node, unsigned was, unsigned is);
void reference_starts(char *const arguments[], unsigned variable); /* the program of --exec */
void reference_logged(const char *line);
void reference_signals(int number);
void reference_loads(const struct file *file);
void reference_forgets(unsigned node, const uint8_t *entry);
bool reference_may_send(unsigned party); /* heartbeats */
void reference_takes_state(void);        /* The thread writes the table of now. */
void reference_saves(const struct file *file);
void reference_ends(int status);

/* ---- faults.c: all that can go wrong. */

struct fault {
    uint64_t at, lasts;
    unsigned kind, node;
    uint32_t amount; /* Number of packets, calls or seconds, by kind. */
};
/* What is less in a story than its seed says, so that a failure is easier to understand. */
struct smaller {
    uint64_t faults; /* that do not happen, one bit each */
    unsigned nodes;  /* that never run, one bit each */
    struct {
        uint8_t at, lasts, amount; /* Numbers of times that these are halved. */
    } by[FAULTS];
};
void faults_plan(void);                 /* Plans the story, when nodes have their keys. */
void faults_plan_short(void);           /* a story in which one call fails */
void faults_put_files(void);            /* that SIGHUP reads again */
const char *faults_kind(unsigned kind); /* NULL: there are no more */
bool faults_can_happen(unsigned kind);  /* Can this fault happen to this agent? */
void faults_describe(const struct fault *fault, char text[LINE]);

/* ---- storm.c: stories. */

struct told {
    char lines[LINES][LINE]; /* The last ones. */
    unsigned long said;      /* Number of lines. */
    uint64_t hash;
    char wrong[LINE]; /* the claim that does not hold; "": none */
    unsigned broken;  /* its number */
    unsigned faults, happened;
    struct fault story[FAULTS];
    unsigned armed[CLAIMS_MAX], happened_of[KINDS_MAX], wrapped[WRAPS]; /* Numbers of times. */
};
struct world {
    uint64_t now, end, seed, random, order;
    struct event events[EVENTS];
    unsigned planned;
    jmp_buf over;
    struct told told;
    unsigned excused; /* claims that a fault of this story excuses, one bit each */
    struct smaller smaller;
    uint64_t unused; /* kinds of faults that this story does not have, one bit each */
    struct failure failure;
    uint64_t failure_ends;      /* no call fails from then on */
    bool keyed, two;            /* version 2; with the key before, too */
    bool tells;                 /* all lines are printed at once */
    bool fd;                    /* the reader of a bus asks in frames of CAN FD */
    unsigned tick, epoch;       /* ms, s */
    uint64_t until;             /* s since 1970: the key before is taken so long */
    unsigned rate, burst, room; /* Limits of reports to a source; maximum of waiting packets. */
    struct chosen chosen;
    struct names names;
    enum wrong_file wrong_file;
    const uint8_t *key; /* Key of the present caller of the library; NULL: the agent's. */
    struct weather weather;
    struct packet packets[PACKETS], recorded[RECORDED];
    unsigned next_packet, records;
    struct node nodes[NODES];
    struct reader reader;
    struct disk disk;
    struct machine machine;
    struct interface bus;
    struct truth truth;
};
extern struct world *world;

#endif
