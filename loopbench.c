/* Measures how long a packet takes on this machine, in a loop.   SPDX-License-Identifier: MIT
 *
 * loopbench [PACKETS]; `make figures ONLY=loopbench` builds and runs it.
 *
 * It gives each stream of packets to dumpulse_process_packet in rounds, and compares every result
 * with the right one. Before each round it times the same loop without the library; this time is
 * subtracted. The empty assembler statements do nothing, but the compiler must assume that they
 * change memory. So it can neither know a packet in advance nor leave out a call, not even where it
 * optimises across files.
 */
#define _POSIX_C_SOURCE 199309L /* NOLINT: for clock_gettime */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dumpulse.h"

enum {
    EXIT_USAGE = 2,
    ROUNDS = 9,
    SLOTS = 65536,      /* packets of the longest stream; must be a power of two */
    REPORT_SHARE = 50,  /* a report takes about 50 times as long as a heartbeat */
    DEFAULT = 30000000, /* packets of each stream, which take about a second */
    PACKETS_MIN = 450,  /* enough for one report in each round */
    STREAMS = 3
};
static const uint64_t PACKETS_MAX = UINT64_C(1000000000000000); /* no sum here overflows */

static dumpulse agent;
static uint8_t packets[SLOTS][DUMPULSE_PACKET_SIZE];
static dumpulse_result expected[SLOTS];
static uint64_t clock_calls, send_calls;

uint16_t dumpulse_get_timestamp(void)
{
    return (uint16_t)clock_calls++;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context;
    __asm__ volatile("" : : "r"(packet), "r"(length) : "memory");
    send_calls++;
}

/* ---- Streams: each function fills the first packets, and returns how many it has filled --- */

static uint64_t random_state;

static uint64_t next_random(void) /* Marsaglia's xorshift */
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static size_t fill_distinct(void) /* each pair of sender and value, once */
{
    for (size_t i = 0; i < SLOTS; i++) {
        dumpulse_make_heartbeat(packets[i], i % DUMPULSE_VARIABLES, (uint8_t)(i / 256),
                                (uint8_t)(i % 256));
        expected[i] = DUMPULSE_HEARTBEAT;
    }
    return SLOTS;
}

static size_t fill_nonsense(void) /* the seed is fixed: none of these is a heartbeat */
{
    for (size_t i = 0; i < SLOTS; i++) {
        const uint64_t bytes = next_random();
        memcpy(packets[i], &bytes, DUMPULSE_PACKET_SIZE);
        expected[i] = DUMPULSE_REFUSED;
    }
    return SLOTS;
}

static size_t fill_reports(void) /* The reports are those of a table of random bytes. */
{
    static const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;

    memcpy(packets[0], request, sizeof request);
    expected[0] = DUMPULSE_REPORT;
    for (size_t i = 0; i < DUMPULSE_REPORT_SIZE; i++)
        agent.report[i] = (uint8_t)(next_random() >> 32);
    return 1;
}

static const struct {
    const char *name;
    size_t (*fill)(void);
    unsigned share; /* the count that was asked for is divided by this */
} streams[STREAMS] = {
    {"heartbeats, distinct", fill_distinct, 1},
    {"nonsense", fill_nonsense, 1},
    {"reports", fill_reports, REPORT_SHARE},
};

/* ---- Rounds ----------------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Returns how many results were wrong. Both loops read a packet's address and its right result. */
static uint64_t run_loop(uint64_t count, size_t mask)
{
    uint64_t wrong = 0;

    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *packet = packets[i & mask];
        __asm__ volatile("" : "+r"(packet) : : "memory");
        wrong += dumpulse_process_packet(&agent, packet, DUMPULSE_PACKET_SIZE, NULL) !=
                 expected[i & mask];
    }
    return wrong;
}

static uint64_t run_empty_loop(uint64_t count, size_t mask)
{
    uint64_t wrong = 0;

    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *packet = packets[i & mask];
        dumpulse_result result = expected[i & mask];
        __asm__ volatile("" : "+r"(packet), "+r"(result) : : "memory");
        wrong += result != expected[i & mask]; /* cppcheck-suppress knownConditionTrueFalse */
    }
    return wrong;
}

struct times {
    double least, median, most; /* ns a packet */
};

static int compare(const void *a, const void *b)
{
    const double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static struct times summarise(double rounds[ROUNDS])
{
    qsort(rounds, ROUNDS, sizeof rounds[0], compare);
    return (struct times){rounds[0], rounds[ROUNDS / 2], rounds[ROUNDS - 1]};
}

/* Writes a line to stderr and returns false if a result is wrong. */
static bool measure(size_t stream, uint64_t count, struct times *times, struct times *empty)
{
    double with[ROUNDS], without[ROUNDS];
    uint64_t wrong = 0;

    random_state = UINT64_C(0x9E3779B97F4A7C15);
    const size_t mask = streams[stream].fill() - 1;
    for (unsigned round = 0; round < ROUNDS; round++) {
        /* The remainder of the division goes to the first rounds, one packet each. */
        const uint64_t packets_now = count / ROUNDS + (round < count % ROUNDS);
        uint64_t heartbeats = clock_calls, reports = send_calls;
        const double start = seconds();
        wrong += run_empty_loop(packets_now, mask);
        const double middle = seconds();
        wrong += run_loop(packets_now, mask);
        const double end = seconds();
        /* Each right heartbeat and report calls its hook once, and nothing else does. */
        for (size_t i = 0; i <= mask; i++) {
            const uint64_t times_fed = packets_now / (mask + 1) + (i < packets_now % (mask + 1));
            heartbeats += expected[i] == DUMPULSE_HEARTBEAT ? times_fed : 0;
            reports += expected[i] == DUMPULSE_REPORT ? times_fed : 0;
        }
        wrong += heartbeats != clock_calls || reports != send_calls;
        without[round] = (middle - start) / (double)packets_now * 1e9;
        with[round] = (end - middle) / (double)packets_now * 1e9 - without[round];
    }
    if (expected[0] == DUMPULSE_REPORT)
        wrong += !dumpulse_check_report(agent.report, sizeof agent.report);
    if (wrong != 0)
        (void)fprintf(stderr, "loopbench: %s: %" PRIu64 " results are wrong: run make test\n",
                      streams[stream].name, wrong);
    *times = summarise(with);
    *empty = summarise(without);
    return wrong == 0;
}

/* ---- Arguments and output ---------------------------------------------------------------- */

static int print_help(void)
{
    (void)printf("usage: loopbench [PACKETS]\n\n"
                 "Measures the time of dumpulse_process_packet in a loop, in %u rounds.\n"
                 "The time of an empty loop is subtracted.\n\n"
                 "  PACKETS   of each stream, %u to 10^15; default %u, which takes\n"
                 "            about a second; of the reports, one for each %u of them\n"
                 "  --help    print this\n",
                 (unsigned)ROUNDS, (unsigned)PACKETS_MIN, (unsigned)DEFAULT,
                 (unsigned)REPORT_SHARE);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool read_count(const char *text, uint64_t *count)
{
    uint64_t value = 0;

    for (; *text >= '0' && *text <= '9' && value <= PACKETS_MAX; text++)
        value = value * 10 + (uint64_t)(*text - '0'); /* no overflow: below 10^17 */
    *count = value;
    return *text == '\0' && value >= PACKETS_MIN && value <= PACKETS_MAX;
}

int main(int argc, char **argv)
{
    uint64_t count = DEFAULT;
    bool counted = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return print_help();
        if (!counted && read_count(argv[i], &count)) {
            counted = true;
        } else {
            (void)fprintf(stderr,
                          "loopbench: '%.40s': give one number of packets from %u to 10^15; "
                          "--help has more\n",
                          argv[i], (unsigned)PACKETS_MIN);
            return EXIT_USAGE;
        }
    }
    (void)printf("loopbench: GCC %s; %" PRIu64 " packets of each stream, %u rounds\n"
                 "ns a packet              median   least    most   empty loop\n",
                 __VERSION__, count, (unsigned)ROUNDS);
    for (size_t i = 0; i < STREAMS; i++) {
        struct times times, empty;
        if (!measure(i, count / streams[i].share, &times, &empty))
            return EXIT_FAILURE;
        (void)printf("%-22s%9.2f%8.2f%8.2f%13.2f\n", streams[i].name, times.median, times.least,
                     times.most, empty.median);
    }
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
