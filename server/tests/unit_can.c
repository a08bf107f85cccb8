/* Unit tests of server/can.c with a simulated kernel and clock, which do what a test says.
 *                                                             SPDX-License-Identifier: MIT
 * They test what happens to reports when an interface goes away while they leave, and at the end of
 * the program. With a real interface, it is chance whether send() or recvmmsg() gets the error.
 * vm_can.py tests the rest, with the real kernel. The functions of other parts that matter to these
 * tests are replaced here by simple ones.
 */
#define _GNU_SOURCE /* NOLINT: for struct mmsghdr */
#include <errno.h>
#include <linux/can.h>
#include <linux/can/error.h>
#include <linux/can/raw.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/can.h"
#include "server/counters.h"
#include "server/keys.h"
#include "server/loop.h"
#include "server/options.h"
#include "server/sockets.h"
#include "server/table.h"
#include "server/timing.h"
#include "stand_ins.h"
#include "tools/units.h"

/* ---- The kernel: one interface, its socket, and the time --------------------------------- */

enum { SOCKET = 7, REPORT_FRAMES = 33, FD_FRAMES = 5 };
static const uint64_t RETRY = 1000000;     /* ns until a full queue is tried again */
static const uint64_t QUIET = 10000000000; /* ns between two lines about a bus that is off */

static struct {
    enum { UP, DOWN, GONE } state;
    int pending_error; /* the next call gets this error, once; 0: none */
    unsigned room;     /* frames that the queue still takes */
    bool drains;       /* the queue takes one frame more after each sleep */
    unsigned sent;     /* frames of a report that is not complete yet */
    unsigned reports;  /* complete reports */
    unsigned last;     /* bytes in the last frame of a report */
    unsigned beacons;
    uint8_t bytes[REPORT_FRAMES][CAN_MAX_DLEN]; /* Frames of the last report. */
    unsigned fd_reports;                        /* Number of reports in CAN FD frames. */
    struct canfd_frame coming;                  /* a classic one begins like this */
    bool coming_fd;                             /* it is one of CAN FD */
    unsigned times;                             /* Number of times that this frame comes. */
} can0;

static uint64_t started; /* ns: when the test has begun */
static const uint8_t BEACON[] = {9, 9, 9, 9, 1, 2, 3, 4};

static void become(int state)
{
    can0.state = state;
    can0.pending_error = state == DOWN ? ENETDOWN : state == GONE ? ENODEV : 0;
    can0.sent = 0; /* the frames so far are no part of the next report */
}

static int fail_with(int reason)
{
    errno = reason;
    return -1;
}

static int fail_as_told(void)
{
    const int reason = can0.pending_error;

    can0.pending_error = 0;
    return fail_with(reason);
}

/* The linker gives all calls of these system calls to the functions here. */
ssize_t __wrap_send(int descriptor, const void *bytes, size_t size, int flags)
{
    const struct canfd_frame *frame = bytes;
    const bool fd = size == CANFD_MTU;
    const unsigned frames = fd ? FD_FRAMES : REPORT_FRAMES;
    const size_t most = fd ? CANFD_MAX_DLEN : CAN_MAX_DLEN;

    assert_true(fd || size == CAN_MTU);
    assert_int_equal(descriptor, SOCKET);
    assert_int_equal(flags, MSG_DONTWAIT);
    if (can0.state == GONE)
        return fail_with(ENXIO);
    if (can0.pending_error != 0)
        return fail_as_told();
    if (can0.state == DOWN)
        return fail_with(ENETDOWN);
    if (can0.room == 0)
        return fail_with(ENOBUFS);
    if (frame->can_id == 0x680 + 97) {
        assert_int_equal(frame->len, 8);
        assert_memory_equal(frame->data, BEACON, 8);
        can0.beacons++;
        return (ssize_t)size;
    }
    assert_int_equal(frame->can_id, 0x680 + 64 + can0.sent);
    can0.last = frame->len;
    if (can0.sent == frames - 1)
        assert_in_range(frame->len, 4, 8);
    else
        assert_int_equal(frame->len, most);
    assert_int_equal(frame->flags, fd ? CANFD_BRS : 0);
    memcpy((uint8_t *)can0.bytes + can0.sent * most, frame->data, frame->len);
    can0.room--;
    if (++can0.sent == frames) {
        can0.sent = 0;
        can0.reports++;
        can0.fd_reports += fd ? 1 : 0;
    }
    return (ssize_t)size;
}

int __wrap_recvmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *timeout)
{
    unsigned taken = 0;

    (void)flags, (void)timeout;
    assert_int_equal(descriptor, SOCKET);
    if (can0.pending_error != 0)
        return fail_as_told();
    while (taken < count && can0.times > 0) {
        messages[taken].msg_len = can0.coming_fd ? CANFD_MTU : CAN_MTU;
        memcpy(messages[taken].msg_hdr.msg_iov->iov_base, &can0.coming, messages[taken].msg_len);
        taken++;
        can0.times--;
    }
    return taken == 0 ? fail_with(EAGAIN) : (int)taken;
}

int __wrap_ioctl(int descriptor, unsigned long request, struct ifreq *interface)
{
    (void)descriptor, (void)request;
    interface->ifr_flags = can0.state == UP ? IFF_UP : 0;
    return 0;
}

static struct can_filter filters_set[8];
static size_t filters_count;

int __wrap_setsockopt(int descriptor, int level, int name, const void *value, socklen_t size)
{
    (void)descriptor, (void)level;
    if (name == CAN_RAW_FILTER) {
        assert_in_range(size, 1, sizeof filters_set);
        memcpy(filters_set, value, size);
        filters_count = size / sizeof filters_set[0];
    }
    return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    clock_ns += (uint64_t)time->tv_nsec;
    can0.room += can0.drains ? 1 : 0;
    if (clock_ns > started + 60 * TIMING_SECOND)
        fail_msg("it sleeps for ever");
    return 0;
}

int __wrap_socket(int family, int type, int protocol)
{
    (void)family, (void)protocol;
    assert_int_equal(type, SOCK_RAW | SOCK_CLOEXEC);
    return SOCKET;
}

int __wrap_bind(int descriptor, const struct sockaddr *address, socklen_t size)
{
    (void)descriptor, (void)address, (void)size;
    return 0;
}

int __wrap_close(int descriptor)
{
    (void)descriptor;
    return 0;
}

unsigned __wrap_if_nametoindex(const char *name)
{
    (void)name;
    errno = ENODEV;
    return can0.state == GONE ? 0 : 1;
}

/* ---- The service ------------------------------------------------------------------------ */

dumpulse table_agent __attribute__((aligned(sizeof(table_entry))));
table_entry *table_entries = (table_entry *)(void *)(table_agent.report + 4);
uint64_t sockets_capacity;
size_t sockets_count;
struct sockets_one sockets[SOCKETS_MAX];
static void (*task_run)(void); /* the task LOOP_TRANSPORT */
static uint64_t task_every;    /* ns between two runs of it */
void loop_define_task(size_t task, void (*run)(void), uint64_t every)
{
    task_run = run;
    loop_set_interval(task, every);
}

void loop_start_task(size_t task, uint64_t every)
{
    loop_set_interval(task, every);
}

void loop_set_interval(size_t task, uint64_t every)
{
    assert_int_equal(task, LOOP_TRANSPORT);
    task_every = every;
}

bool sockets_add(int descriptor, unsigned (*take)(int fd))
{
    sockets[sockets_count++] = (struct sockets_one){descriptor, take};
    return true;
}

bool sockets_replace(size_t socket, int descriptor)
{
    sockets[socket].fd = descriptor;
    return true;
}

uint16_t table_stamp;
uint64_t table_tick = 1, table_tick_begun;

void table_begin_tick(uint64_t now)
{
    assert_int_equal(now, 0);
}

bool table_to_prepare;

void table_prepare_now(void)
{
    fail_msg("nothing is to be prepared here");
}

uint16_t dumpulse_get_timestamp(void)
{
    return 0;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    assert_null(context);
    can_send(packet, length);
}

/* The other side of server/keys.h: every request is right, and every heartbeat is taken. A report
 * has the request's count in all bytes. */
static unsigned keyed_taken;

bool keys_leaves(const uint8_t *packet)
{
    return options.also_unkeyed && packet[4] != 0xC0;
}

bool keys_is_request(const uint8_t *packet)
{
    return packet[4] == 0xC0 && packet[5] != 0;
}

size_t keys_take(const uint8_t *packet, void *to)
{
    uint8_t bytes[DUMPULSE_KEYED_REPORT_SIZE];

    keyed_taken++;
    if (packet[4] != 0xC0)
        return COUNT_HEARTBEATS;
    memset(bytes, packet[5], sizeof bytes);
    if (packet[5] != 0)
        dumpulse_send_packet(to, bytes, sizeof bytes);
    else
        dumpulse_send_packet(to, BEACON, sizeof BEACON);
    return packet[5] != 0 ? COUNT_REPORTS : COUNT_BEACONS;
}

/* ---- The tests -------------------------------------------------------------------------- */

static const struct can_frame REQUEST = {0x680 + 127, .can_dlc = 8, .data = DUMPULSE_REQUEST};

static void come_round(void)
{
    if (task_every != 0)
        task_run();
}

static void come(struct can_frame frame, unsigned times)
{
    memcpy(&can0.coming, &frame, sizeof frame);
    can0.times = times;
    if (sockets[0].fd >= 0)
        (void)sockets[0].take(sockets[0].fd);
}

/* The same as a frame of CAN FD. */
static void come_fd(struct can_frame frame, canid_t id)
{
    frame.can_id = id;
    can0.coming_fd = true;
    come(frame, 1);
    can0.coming_fd = false;
}

/* Nothing is leaving, and the interface takes all. */
static void start(const char *key)
{
    memset(&can0, 0, sizeof can0);
    memset(counters, 0, sizeof counters);
    sockets_count = keyed_taken = 0;
    sockets_capacity = 1000;
    started = clock_ns += 3600 * TIMING_SECOND;
    can_set_defaults();
    options.key = key;
    assert_true(can_set_interface("can0") && can_open());
    can0.room = 1000;
}

static int with_key(void **state)
{
    (void)state;
    start("key");
    return 0;
}

static int without_key(void **state)
{
    (void)state;
    start(NULL);
    return 0;
}

/* A report is leaving, the interface's queue is full, and two more requests have come. */
static int stuck(void **state)
{
    (void)state;
    start(NULL);
    can0.room = 10;
    come(REQUEST, 1);
    come_round();
    come(REQUEST, 2);
    assert_int_equal(can0.sent, 10);
    assert_int_equal(counters[COUNT_REPORTS], 3);
    return 0;
}

static void assert_all_unsent(void)
{
    assert_int_equal(counters[COUNT_REPORTS], 0);
    assert_int_equal(counters[COUNT_UNSENT], 3);
}

/* The next report leaves completely, without frames of an earlier one. */
static void assert_that_the_next_report_leaves(void)
{
    can0.room = 100;
    come_round();
    assert_int_equal(can0.sent, 0);
    come(REQUEST, 1);
    come_round();
    assert_int_equal(can0.reports, 1);
    assert_int_equal(counters[COUNT_REPORTS], 1);
    assert_int_equal(counters[COUNT_UNSENT], 3);
}

/* ---- Version 2 ---------------------------------------------------------------------------- */

static struct can_frame keyed_request(uint8_t count)
{
    return (struct can_frame){0x680 + 98, .can_dlc = 8, .data = {[4] = 0xC0, count}};
}

/* Nothing is left of what was asked for. */
static int end(void **state)
{
    (void)state;
    become(DOWN);
    if (sockets[0].fd >= 0)
        (void)sockets[0].take(sockets[0].fd);
    options.key = NULL;
    options.also_unkeyed = false;
    return 0;
}

static void assert_report(unsigned reports, uint8_t count)
{
    assert_int_equal(can0.reports, reports);
    assert_int_equal(can0.last, 8);
    for (size_t i = 0; i < sizeof can0.bytes; i++)
        assert_int_equal(((const uint8_t *)can0.bytes)[i], count);
}

/* The second one waits until the first one has left. A third one has to come again. */
TEST_BETWEEN(test_with_a_key_each_request_gets_its_own_report, with_key, end)
{
    can0.room = 10;
    come(keyed_request(1), 1);
    come_round();
    come(keyed_request(2), 1);
    come(keyed_request(3), 1);
    assert_int_equal(keyed_taken, 2);
    can0.room = 23;
    come_round();
    assert_report(1, 1);
    can0.room = 33;
    come_round();
    assert_report(2, 2);
    assert_int_equal(task_every, 0);
    assert_int_equal(counters[COUNT_REPORTS], 2);
    assert_int_equal(counters[COUNT_RATE], 1);
}

TEST_BETWEEN(test_with_a_key_reports_have_a_rate, with_key, end)
{
    for (uint8_t count = 1; count <= 30; count++) {
        come(keyed_request(count), 1);
        come_round();
    }
    assert_report(10, 10);
    assert_int_equal(counters[COUNT_RATE], 20);
    assert_int_equal(keyed_taken, 10); /* the others have used up no count */
    clock_ns += TIMING_SECOND / 10;
    come(keyed_request(31), 1);
    come_round();
    assert_report(11, 31);
    options.also_unkeyed = true;
    come(REQUEST, 1); /* This request is of version 1. */
    assert_int_equal(counters[COUNT_RATE], 21);
}

/* It waits for room, before a report, but not for long. */
TEST_BETWEEN(test_a_beacon_is_one_frame_at_any_time, with_key, end)
{
    enum { TRIES = 25 };

    can0.room = 10;
    come(keyed_request(1), 1);
    come_round();
    come(keyed_request(2), 1);
    can_send(BEACON, sizeof BEACON); /* the queue is full */
    task_run();
    assert_true(can0.beacons == 0 && task_every != 0);
    can0.room = 1;
    for (unsigned i = 0; i < 2; i++)
        task_run();
    assert_true(can0.beacons == 1 && can0.room == 0);
    can_send(BEACON, sizeof BEACON);
    for (unsigned i = 1; i < TRIES; i++)
        task_run();
    can0.room = 1;
    task_run();
    assert_int_equal(can0.beacons, 1);
    can0.room = 1;
    come(keyed_request(0), 1);
    assert_int_equal(can0.beacons, 2);
    can_send(BEACON, sizeof BEACON);
    assert_int_equal(can0.beacons, 3);
    assert_int_equal(counters[COUNT_BEACONS], 1);
    become(DOWN);
    (void)sockets[0].take(sockets[0].fd);
    can_send(BEACON, sizeof BEACON); /* there is no socket now */
    assert_int_equal(can0.beacons, 3);
    assert_int_equal(counters[COUNT_UNSENT], 2);
}

/* A request in a frame of CAN FD gets a report in such frames, and a classic one in classic frames.
 * If both wait, they take turns. */
TEST_BETWEEN(test_can_fd, without_key, end)
{
    memset(table_agent.report, 0x5A, sizeof table_agent.report);
    come_fd(REQUEST, 0x680 + 126);
    come_round();
    assert_int_equal(can0.fd_reports, 1);
    assert_int_equal(can0.last, 4);
    assert_memory_equal(can0.bytes, table_agent.report, DUMPULSE_REPORT_SIZE);
    can0.room = 3;
    for (unsigned times = 0; times < 3; times++) {
        come_fd(REQUEST, 0x680 + 126);
        come(REQUEST, 2);
        come_round(); /* the first of these begins, and the others wait */
    }
    can0.room = 1000;
    for (unsigned reports = 2; reports <= 4; reports++) {
        assert_int_not_equal(task_every, 0);
        come_round();
        assert_int_equal(can0.reports, reports);
        assert_int_equal(can0.fd_reports, reports == 3 ? 2 : reports / 2);
    }
    assert_int_equal(task_every, 0);
    assert_int_equal(counters[COUNT_REPORTS], 10);
}

TEST_BETWEEN(test_which_frames_of_can_fd_are_no_requests, without_key, end)
{
    struct can_frame heartbeat = {.can_dlc = 8}, classic = REQUEST;

    dumpulse_make_heartbeat(heartbeat.data, 3, 1, 5);
    come_fd(heartbeat, 0x683);
    come_fd(heartbeat, 0x680 + 126);
    come_fd(REQUEST, 0x680 + 127);
    classic.can_id = 0x680 + 126;
    come(classic, 1);
    for (size_t i = 0; i < COUNTERS; i++)
        assert_int_equal(counters[i], 0);
    assert_int_equal(task_every, 0);
    classic.can_dlc = 7;
    come_fd(classic, 0x680 + 126);
    assert_int_equal(counters[COUNT_LENGTH], 1);
}

TEST_BETWEEN(test_the_content_decides_what_a_packet_is, without_key, end)
{
    struct can_frame heartbeat = {.can_id = 0x680 + 127, .can_dlc = 8}, request = REQUEST;

    dumpulse_make_heartbeat(heartbeat.data, 9, 1, 5);
    request.can_id = 0x685;
    come(heartbeat, 1);
    come(request, 1);
    assert_int_equal(counters[COUNT_HEARTBEATS], 1);
    assert_int_equal(counters[COUNT_REPORTS], 1);
}

TEST_BETWEEN(test_can_fd_with_a_key, with_key, end)
{
    come_fd(keyed_request(5), 0x680 + 98);
    come_round();
    assert_int_equal(can0.fd_reports, 1);
    assert_report(1, 5);
    come(keyed_request(6), 1);
    come_round();
    assert_int_equal(can0.fd_reports, 1);
    assert_report(2, 6);
}

/* Which of the 128 identifiers the kernel gives to the server, and how often. */
TEST_BETWEEN(test_which_identifiers_pass, with_key, end)
{
    for (int kind = 0; kind < 4; kind++) {
        const bool keyed = kind % 2 != 0, apart = kind >= 2;
        options.key = keyed ? "key" : NULL;
        sockets_count = 0;
        assert_true(can_set_id(apart ? "680:700" : "680"));
        assert_true(can_open());
        for (canid_t id = 0; id < 0x800; id++) {
            unsigned passes = 0;
            for (size_t i = 0; i < filters_count; i++)
                passes += (id & filters_set[i].can_mask) ==
                                  (filters_set[i].can_id & filters_set[i].can_mask)
                              ? 1
                              : 0;
            const canid_t at = id - (apart ? 0x700 : 0x680);
            assert_int_equal(passes, id - 0x680 < 64 || at == 126 || at == 127 ||
                                         (keyed && at >= 98 && at < 128));
        }
    }
    assert_true(can_set_id("680"));
}

/* The interface is lost. The error comes first to sending or to receiving. */
static void lose(int how, bool sending_first, const char *message)
{
    become(how);
    if (sending_first)
        come_round();
    if (sockets[0].fd >= 0)
        (void)sockets[0].take(sockets[0].fd);
    assert_string_equal(last_logged(), message);
    assert_int_equal(sockets[0].fd, -1);
    assert_all_unsent();
    come_round();
    assert_int_equal(sockets[0].fd, -1);
    become(UP);
    come_round();
    assert_string_equal(last_logged(), "can0 is back");
    assert_that_the_next_report_leaves();
}

#define TEST_LOSS(name, state, sending, said)                                                      \
    TEST_BETWEEN(name, stuck, end)                                                                 \
    {                                                                                              \
        lose(state, sending, said);                                                                \
    }
TEST_LOSS(test_sending_learns_that_it_is_down, DOWN, true, "can0 is down: waiting for it")
TEST_LOSS(test_receiving_learns_that_it_is_down, DOWN, false, "can0 is down: waiting for it")
TEST_LOSS(test_sending_learns_that_it_is_gone, GONE, true, "can0 is gone: waiting for it")
TEST_LOSS(test_receiving_learns_that_it_is_gone, GONE, false, "can0 is gone: waiting for it")

TEST_BETWEEN(test_a_report_is_the_table, stuck, end)
{
    memset(&table_agent, 0, sizeof table_agent);
    for (uint8_t variable = 0; variable < 64; variable++) {
        struct can_frame heartbeat = {0x680U + variable, .can_dlc = 8};
        dumpulse_make_heartbeat(heartbeat.data, variable, (uint8_t)(variable + 1), 5);
        come(heartbeat, 1);
    }
    can0.drains = true;
    can_finish(); /* the second report that leaves has the table as it is now */
    assert_int_equal(can0.reports, 2);
    assert_memory_equal(can0.bytes, table_agent.report, DUMPULSE_REPORT_SIZE);
    for (unsigned variable = 0; variable < 64; variable++)
        assert_int_equal(((const uint8_t *)can0.bytes)[4 + 4 * variable + 2], variable + 1);
}

/* The interface is up again before all packets that came earlier were taken. */
TEST_BETWEEN(test_a_flood_does_not_keep_a_lost_interface, stuck, end)
{
    static const struct can_frame empty;

    become(DOWN);
    come(empty, 1000 * 1000);
    assert_int_equal(sockets[0].fd, -1);
    assert_in_range(counters[COUNT_LENGTH], sockets_capacity, sockets_capacity + SOCKETS_BATCH - 1);
}

TEST_BETWEEN(test_a_bus_that_is_off, stuck, end)
{
    static const struct can_frame off = {CAN_ERR_FLAG | CAN_ERR_BUSOFF, .can_dlc = 8};

    come(off, 1);
    assert_all_unsent();
    assert_ptr_equal(strstr(last_logged(), "can0 is off the bus after too many errors"),
                     last_logged());
    logged_count = 0;
    clock_ns += QUIET - 1;
    come(off, 1);
    assert_int_equal(logged_count, 0);
    clock_ns += QUIET;
    come(off, 1);
    assert_int_equal(logged_count, 1);
    come((struct can_frame){CAN_ERR_FLAG | CAN_ERR_CRTL, .can_dlc = 8}, 1); /* a warning */
    assert_true(counters[COUNT_ERROR_FRAMES] == 4 && counters[COUNT_BUS_OFFS] == 3);
    can0.sent = 0;
    assert_that_the_next_report_leaves();
}

TEST_BETWEEN(test_the_end_takes_two_seconds_at_most, stuck, end)
{
    const uint64_t begun = clock_ns;

    can_finish();
    assert_all_unsent();
    assert_in_range(clock_ns - begun, 0, 2 * TIMING_SECOND + 2 * RETRY);
}

TEST_BETWEEN(test_which_identifiers_it_says, stuck, end)
{
    assert_string_equal(can_describe(), "can0, identifiers 680 to 6ff");
    assert_true(can_set_id("1fffff80"));
    assert_string_equal(can_describe(), "can0, identifiers 1fffff80 to 1fffffff");
    assert_true(can_set_id("00000080"));
    assert_string_equal(can_describe(), "can0, identifiers 00000080 to 000000ff");
}

int main(void)
{
    return run_units("unit-can");
}
