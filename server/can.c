/* Dumpulse over a Linux CAN interface; see can.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for recvmmsg */
#include "can.h"

#include <errno.h>
#include <linux/can.h>
#include <linux/can/error.h>
#include <linux/can/raw.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "counters.h"
#include "keys.h"
#include "limits.h"
#include "log.h"
#include "loop.h"
#include "options.h"
#include "sockets.h"
#include "table.h"
#include "timing.h"

/* SPEC.md and spec/keyed.md, "Transport: CAN": a block of 128 identifiers. */
enum {
    HEARTBEATS_FROM = 0, /* 64 identifiers */
    REPORT_FROM = 64,    /* 33 identifiers, one for each frame of a report */
    BEACON_AT = 97,
    KEYED_REQUESTS_FROM = 98, /* With keys, each reader has its own identifier, 98 to 127. */
    FD_REQUEST_AT = 126,      /* A frame of CAN FD requests a report in frames of CAN FD. */
    REQUEST_AT = 127,
    BLOCK = 128,
    DEFAULT_BASE = 0x680
};

enum { BATCH = SOCKETS_BATCH };             /* frames that one system call takes at most */
enum { TRIES = 25 };                        /* of a beacon, one each RETRY */
static const uint64_t RETRY = 1000000;      /* ns until a full queue is tried again, in which
                                               500 kbit/s carries 4 frames of 8 bytes */
static const uint64_t REOPEN = 200000000;   /* ns until a lost interface is looked for again */
static const uint64_t GIVE_UP = 1000000000; /* ns after which an unfinished report is given up */
static const uint64_t QUIET = 10000000000;  /* ns between two lines about a bus that is off */

const char *can_interface;
uint64_t can_rate;
static canid_t base, reports; /* the first identifiers for heartbeats, and for the rest */
static size_t socket_at;
static bool is_open;

/* What a report answers: requests in classic frames, in frames of CAN FD, or one of version 2. */
enum kind { CLASSIC, FD, KEYED, KINDS };

static struct {
    bool leaving;
    bool fd;                 /* it leaves in frames of CAN FD */
    unsigned frame;          /* which frame is sent next */
    unsigned waiting[KINDS]; /* requests that the next report of a kind will answer */
    unsigned answers;        /* requests that the report which is leaving answers */
    enum kind kind;          /* Kind of the last report. */
    bool next_fd;            /* the report of version 2 in `next`, which waits, leaves like this */
    size_t size;             /* bytes of the report which is leaving */
    uint64_t begun;          /* ns: when this report began to leave */
    uint64_t next_allowed;   /* ns: when can_rate allows the next report */
    uint8_t bytes[DUMPULSE_KEYED_REPORT_SIZE], next[DUMPULSE_KEYED_REPORT_SIZE];
} report;

/* The last beacon. If the queue is full of a report, it waits for room, or else until the next one
 * comes. If it were lost, a reader that requests in step with the epochs would always keep the same
 * node from its beacon. */
static struct {
    unsigned tries; /* how often it may still be tried */
    struct can_frame frame;
} beacon;

/* ---- Options ---------------------------------------------------------------------------- */

void can_set_defaults(void)
{
    can_interface = NULL;
    can_rate = 10;
    base = reports = DEFAULT_BASE;
}

bool can_set_interface(const char *text)
{
    if (can_interface != NULL)
        return options_wrong("one CAN interface is enough: '%.40s' is too many", text);
    if (*text == '\0' || strlen(text) >= IFNAMSIZ)
        return options_wrong("a CAN interface has a name like can0, not '%.40s'", text);
    can_interface = text;
    return true;
}

/* Reads an identifier as cansend writes it: three hexadecimal digits are an identifier of 11 bits,
 * eight digits one of 29 bits. */
static bool read_id(const char *text, size_t length, canid_t *to)
{
    char *end;

    if ((length != 3 && length != 8) || strspn(text, "0123456789abcdefABCDEF") < length)
        return false;
    const canid_t id = (canid_t)strtoul(text, &end, 16); /* The text has at most 32 bits. */
    *to = id | (length == 3 ? 0 : CAN_EFF_FLAG);
    return id % BLOCK == 0 && id <= (length == 3 ? CAN_SFF_MASK : CAN_EFF_MASK);
}

bool can_set_id(const char *text)
{
    const size_t length = strcspn(text, ":");
    const char *second = text[length] == '\0' ? text : text + length + 1;

    if (read_id(text, length, &base) && read_id(second, strlen(second), &reports))
        return true;
    return options_wrong(
        "--can-id must be three hexadecimal digits, or eight for 29 bits, that are a multiple "
        "of 80, like 680 or 18ff5080, or two of these like 680:700: not '%.40s'",
        text);
}

const char *can_describe(void)
{
    static char text[IFNAMSIZ + 80];
    const canid_t id = base & CAN_EFF_MASK, second = reports & CAN_EFF_MASK;
    const int digits = (base & CAN_EFF_FLAG) != 0 ? 8 : 3;

    if (reports == base)
        (void)snprintf(text, sizeof text, "%s, identifiers %0*x to %0*x", can_interface, digits, id,
                       digits, id + BLOCK - 1);
    else
        (void)snprintf(text, sizeof text, "%s, heartbeats from %0*x, reports from %0*x",
                       can_interface, digits, id, (reports & CAN_EFF_FLAG) != 0 ? 8 : 3, second);
    return text;
}

/* ---- The socket ------------------------------------------------------------------------- */

static bool is_up(const struct ifreq *interface)
{
    errno = ENETDOWN;
    return (interface->ifr_flags & IFF_UP) != 0;
}

/* Returns a bound socket, or -1 and errno. ENETDOWN: the interface exists, but is down. */
static int open_socket(void)
{
    static const can_err_mask_t errors = CAN_ERR_MASK;
    /* Only heartbeats and requests with our identifiers pass, and only in data frames. */
    const canid_t all = CAN_EFF_FLAG | CAN_RTR_FLAG | CAN_EFF_MASK;
    const struct can_filter filters[] = {
        {reports + FD_REQUEST_AT, all & ~(canid_t)1},
        {base + HEARTBEATS_FROM, all & ~(canid_t)(REPORT_FROM - 1)},
        /* the requests of version 2, 98 to 127: blocks of 2, 4, 8 and 16 identifiers */
        {reports + KEYED_REQUESTS_FROM, all & ~(canid_t)1},
        {reports + 100, all & ~(canid_t)3},
        {reports + 104, all & ~(canid_t)7},
        {reports + 112, all & ~(canid_t)15}};
    /* With keys, the first filter is a part of the last one. */
    const bool keyed = options.key != NULL;
    static const int also_fd = 1; /* without CAN FD, this changes nothing */
    struct sockaddr_can here = {.can_family = AF_CAN};
    struct ifreq status = {0};

    const int descriptor = socket(AF_CAN, SOCK_RAW | SOCK_CLOEXEC, CAN_RAW);
    if (descriptor < 0)
        return -1;
    memcpy(status.ifr_name, can_interface, strlen(can_interface) + 1);
    here.can_ifindex = (int)if_nametoindex(can_interface); /* 0, with ENODEV, if there is none */
    if (here.can_ifindex == 0 ||
        setsockopt(descriptor, SOL_CAN_RAW, CAN_RAW_FILTER, keyed ? filters + 1 : filters,
                   (keyed ? 5 : 2) * sizeof filters[0]) != 0 ||
        setsockopt(descriptor, SOL_CAN_RAW, CAN_RAW_ERR_FILTER, &errors, sizeof errors) != 0 ||
        setsockopt(descriptor, SOL_CAN_RAW, CAN_RAW_FD_FRAMES, &also_fd, sizeof also_fd) != 0 ||
        bind(descriptor, (const struct sockaddr *)&here, sizeof here) != 0 ||
        ioctl(descriptor, SIOCGIFFLAGS, &status) != 0 || !is_up(&status)) {
        const int reason = errno;
        (void)close(descriptor);
        errno = reason;
        return -1;
    }
    return descriptor;
}

/* ---- Reports ---------------------------------------------------------------------------- */

/* These requests were counted as answered. They get no answer, so they are counted as unsent. */
static void give_up(unsigned *requests)
{
    counters[COUNT_REPORTS] -= *requests;
    counters[COUNT_UNSENT] += *requests;
    *requests = 0;
}

/* Nothing can leave now: all requests so far get no report. */
static void give_up_reports(void)
{
    give_up(&report.answers);
    for (size_t kind = 0; kind < KINDS; kind++)
        give_up(&report.waiting[kind]);
    report.leaving = false;
    beacon.tries = 0;
    loop_set_interval(LOOP_TRANSPORT, 0);
}

static void try_beacon(void)
{
    const ssize_t size = sizeof beacon.frame;

    if (beacon.tries == 0)
        return;
    beacon.tries--;
    if (send(sockets[socket_at].fd, &beacon.frame, sizeof beacon.frame, MSG_DONTWAIT) == size ||
        (errno != ENOBUFS && errno != EAGAIN))
        beacon.tries = 0;
}

void can_send(const uint8_t *bytes, size_t length)
{
    if (length == DUMPULSE_PACKET_SIZE && is_open) {
        beacon.frame.can_id = reports + BEACON_AT;
        beacon.frame.can_dlc = DUMPULSE_PACKET_SIZE;
        memcpy(beacon.frame.data, bytes, length);
        beacon.tries = TRIES;
        try_beacon();
        if (beacon.tries != 0)
            loop_start_task(LOOP_TRANSPORT, RETRY);
    } else if (length == DUMPULSE_REPORT_SIZE) {
        memcpy(report.bytes, bytes, length);
        report.size = length;
    } else if (length == DUMPULSE_KEYED_REPORT_SIZE) {
        memcpy(report.next, bytes, length);
    }
}

static bool is_waited_for(void)
{
    return report.waiting[CLASSIC] + report.waiting[FD] + report.waiting[KEYED] != 0;
}

/* Makes a report of the table as it is now. It answers all requests of its kind so far, and both
 * kinds of version 1 take turns. One of version 2 is made already, and answers one request. */
static void begin_report(void)
{
    static const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;

    if (report.waiting[KEYED] != 0) {
        memcpy(report.bytes, report.next, sizeof report.next);
        report.size = sizeof report.next;
        report.kind = KEYED;
        report.fd = report.next_fd;
    } else {
        table_read_clock();
        table_prepare();
        (void)dumpulse_process_packet(&table_agent, request, sizeof request, NULL);
        const enum kind other = report.kind == CLASSIC ? FD : CLASSIC;
        report.kind = report.waiting[other] != 0 ? other : other == FD ? CLASSIC : FD;
        report.fd = report.kind == FD;
    }
    report.answers = report.waiting[report.kind];
    report.waiting[report.kind] = 0;
    report.leaving = true;
    report.frame = 0;
    report.begun = timing_ns();
}

/* Sends as many frames as the interface takes: its queue is short, and the bus is slow. Returns 0,
 * or the number of the error that ended the report. */
static int send_frames(void)
{
    int reason = 0;

    try_beacon();
    if (!report.leaving && is_waited_for())
        begin_report();
    const size_t most = report.fd ? CANFD_MAX_DLEN : CAN_MAX_DLEN;
    const size_t size = report.fd ? CANFD_MTU : CAN_MTU; /* the other one begins like this one */
    while (report.leaving && report.frame * most < report.size) {
        const size_t at = report.frame * most, left = report.size - at;
        struct canfd_frame frame = {.can_id = reports + REPORT_FROM + report.frame,
                                    .len = (uint8_t)(left < most ? left : most),
                                    .flags = report.fd ? CANFD_BRS : 0};
        memcpy(frame.data, report.bytes + at, frame.len);
        if (send(sockets[socket_at].fd, &frame, size, MSG_DONTWAIT) != (ssize_t)size) {
            const bool full = errno == ENOBUFS || errno == EAGAIN;
            if (full && timing_ns() - report.begun < GIVE_UP)
                return 0; /* the task runs again after RETRY */
            reason = errno;
            give_up(&report.answers);
            break;
        }
        report.frame++;
    }
    report.answers = 0; /* these requests are done: a later error does not take a report back */
    report.leaving = false;
    loop_set_interval(LOOP_TRANSPORT, is_waited_for() || beacon.tries != 0 ? RETRY : 0);
    return reason;
}

static bool may_report(uint64_t now)
{
    return report.next_allowed <= now + TIMING_SECOND - TIMING_SECOND / can_rate;
}

/* Has the task send one more report. */
static void plan_report(enum kind kind, uint64_t now)
{
    report.next_allowed =
        (report.next_allowed < now ? now : report.next_allowed) + TIMING_SECOND / can_rate;
    loop_start_task(LOOP_TRANSPORT, RETRY);
    report.waiting[kind]++;
}

/* Everybody on the bus sees each report. A request that comes before a report begins is answered by
 * it. A later request is answered by the next report, which begins when this one has left. Returns
 * which counter counts the request. */
static size_t take_request(enum kind kind)
{
    const uint64_t now = timing_ns();

    if (report.waiting[kind] != 0)
        report.waiting[kind]++;
    else if (may_report(now))
        plan_report(kind, now);
    else
        return COUNT_RATE;
    return COUNT_REPORTS;
}

/* A packet of version 2. Its report is made at once, and waits if another one is leaving. So at
 * most one waits: another request is refused, and may come again with a larger count. */
static size_t take_keyed(const uint8_t *packet, bool fd)
{
    const uint64_t now = timing_ns();

    if (keys_is_request(packet) && (report.waiting[KEYED] != 0 || !may_report(now)))
        return COUNT_RATE;
    const size_t outcome = keys_take(packet, NULL);
    if (outcome == COUNT_REPORTS) {
        plan_report(KEYED, now);
        report.next_fd = fd;
    }
    return outcome;
}

/* ---- Frames ----------------------------------------------------------------------------- */

static void take_error(canid_t id)
{
    static uint64_t last_said; /* ns; 0: never */
    const uint64_t now = timing_ns();

    counters[COUNT_ERROR_FRAMES]++;
    if ((id & CAN_ERR_BUSOFF) == 0)
        return;
    counters[COUNT_BUS_OFFS]++;
    give_up_reports(); /* the queued frames are lost, and no call to send() needs to fail */
    if (last_said == 0 || now - last_said >= QUIET)
        log_say("%s is off the bus after too many errors: check wiring and bit rate; a restart is "
                "ip link set %s type can restart-ms 100",
                can_interface, can_interface);
    last_said = now;
}

/* A frame of CAN FD can only be a request. One of version 1 has an identifier of its own there, in
 * which a classic frame means nothing. */
static void take_frame(const struct canfd_frame *frame, bool fd)
{
    static const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
    const bool keyed = options.key != NULL && !keys_leaves(frame->data);
    const bool asks =
        keyed ? keys_is_request(frame->data) : memcmp(frame->data, request, sizeof request) == 0;

    if ((frame->can_id & CAN_ERR_FLAG) != 0) {
        take_error(frame->can_id);
        return;
    }
    if ((fd && !asks) || (!keyed && fd != (frame->can_id == reports + FD_REQUEST_AT)))
        return;
    const size_t outcome = frame->len != DUMPULSE_PACKET_SIZE ? (size_t)COUNT_LENGTH
                           : keyed                            ? take_keyed(frame->data, fd)
                           : asks                             ? take_request(fd ? FD : CLASSIC)
                                                              : table_take_heartbeat(frame->data);
    counters[outcome]++;
}

/* Takes the frames that have come, at most BATCH. Returns how many; if 0, errno has the reason. */
static unsigned take_batch(void)
{
    static struct canfd_frame frames[BATCH]; /* a classic frame begins like one of CAN FD */
    static struct iovec buffers[BATCH];
    static struct mmsghdr incoming[BATCH];

    for (size_t i = 0; i < BATCH; i++) {
        buffers[i] = (struct iovec){&frames[i], sizeof frames[i]};
        incoming[i].msg_hdr = (struct msghdr){.msg_iov = &buffers[i], .msg_iovlen = 1};
    }
    const int count = recvmmsg(sockets[socket_at].fd, incoming, BATCH, MSG_DONTWAIT, NULL);
    if (count <= 0)
        return 0;
    table_read_clock();
    for (int i = 0; i < count; i++)
        take_frame(&frames[i], incoming[i].msg_len == CANFD_MTU);
    return (unsigned)count;
}

/* ---- An interface that comes and goes --------------------------------------------------- */

/* The kernel reports the loss first, and then hands out the packets that came before it: these are
 * still taken. */
static void lose_interface(const char *why)
{
    uint64_t taken = 0;
    unsigned batch;

    log_say("%s %s: waiting for it", can_interface, why);
    is_open = false;
    do {
        taken += batch = take_batch();
    } while (batch != 0 && taken < sockets_capacity);
    give_up_reports();
    (void)sockets_replace(socket_at, -1);
    loop_start_task(LOOP_TRANSPORT, REOPEN);
}

/* The kernel reports only once that an interface is down: to the first call, which may be one that
 * sends. Only take_batch() learns that an interface is gone: send() fails with ENXIO then. */
static void handle_error(int reason)
{
    if (reason == ENETDOWN)
        lose_interface("is down");
    else if (reason == ENODEV)
        lose_interface("is gone");
}

static unsigned take_from_interface(int descriptor)
{
    const unsigned taken = take_batch();

    (void)descriptor; /* it is that of `socket_at` */
    if (taken == 0)
        handle_error(errno);
    return taken;
}

static void attend_interface(void)
{
    if (is_open) {
        handle_error(send_frames());
        return;
    }
    const int descriptor = open_socket();
    if (descriptor < 0)
        return;
    if (!sockets_replace(socket_at, descriptor))
        return; /* the task runs again */
    is_open = true;
    loop_set_interval(LOOP_TRANSPORT, 0);
    log_say("%s is back", can_interface);
}

void can_finish(void)
{
    const struct timespec pause = {0, (long)RETRY};

    while (report.leaving || is_waited_for()) {
        (void)send_frames(); /* an error only ends the report: the program ends, too */
        (void)nanosleep(&pause, NULL);
    }
}

bool can_open(void)
{
    const int descriptor = open_socket();

    if (descriptor < 0 && errno != ENETDOWN) {
        log_say("cannot use %s: %s", can_interface,
                errno == EAFNOSUPPORT || errno == EPROTONOSUPPORT
                    ? "this kernel has no CAN; modprobe can-raw may load it"
                : errno == ENODEV ? "there is no such CAN interface; ip link lists them"
                                  : strerror(errno));
        return false;
    }
    socket_at = sockets_count;
    is_open = true;
    loop_define_task(LOOP_TRANSPORT, attend_interface, 0);
    if (!sockets_add(descriptor, take_from_interface)) {
        log_say("cannot use %s: %s", can_interface, strerror(errno));
        return false;
    }
    if (descriptor < 0)
        lose_interface("is down");
    return true;
}
