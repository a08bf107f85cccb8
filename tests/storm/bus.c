/* The CAN interface of canserver, and the bus; see storm.h.   SPDX-License-Identifier: MIT
 *
 * All parties hear all frames of the agent. Its reports are put together here, as readers do. */
#define _GNU_SOURCE /* NOLINT: for struct mmsghdr */
#include "storm.h"

#include <errno.h>
#include <linux/can.h>
#include <linux/can/error.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

/* SPEC.md, "Transport: CAN". */
enum { BASE = 0x680, REPORT_FROM = 64, BEACON_AT = 97, FD_REQUEST_AT = 126, REQUEST_AT = 127 };
enum { SENT_AHEAD = 10 /* frames that the interface takes */ };
static const uint64_t FRAME = UINT64_C(250000); /* ns, at 500 kbit/s */

bool bus_hears(void)
{
    return world->bus.is_open && world->bus.now == BUS_WORKS;
}

/* What is on its way when the bus fails is lost. */
void bus_change(enum bus to)
{
    static const uint8_t nothing[DUMPULSE_PACKET_SIZE];
    struct interface *const it = &world->bus;

    it->now = to;
    it->busy_until = world->now;
    oracle_disturbed();
    if (to == BUS_WORKS || !it->is_open)
        return;
    it->error = to == BUS_DOWN ? ENETDOWN : to == BUS_GONE ? ENODEV : 0;
    it->is_open = to != BUS_GONE;
    if (to == BUS_OFF)
        machine_queue(AGENT, nothing, sizeof nothing);
}

void bus_close(void)
{
    world->bus.is_open = false;
    world->bus.error = 0;
    world->machine.count = 0;
}

int bus_error(void)
{
    const int error = world->bus.error;

    world->bus.error = 0;
    return error == 0 ? EAGAIN : error;
}

size_t bus_frame(struct canfd_frame *frame, const struct waiting *packet)
{
    const bool asks = packet->from == READER, fd = asks && world->fd;

    memset(frame, 0, sizeof *frame);
    frame->len = (uint8_t)packet->length;
    memcpy(frame->data, packet->bytes, packet->length < 8 ? packet->length : 8);
    if (packet->from == AGENT) { /* The controller itself sends it. */
        frame->can_id = CAN_ERR_FLAG | CAN_ERR_BUSOFF;
        frame->len = CAN_ERR_DLC;
    } else if (asks) {
        frame->can_id = BASE + (fd && !world->keyed ? FD_REQUEST_AT : REQUEST_AT);
    } else {
        frame->can_id = BASE + packet->from - FIRST_NODE;
    }
    return fd ? CANFD_MTU : CAN_MTU;
}

/* The frames must come in their order, and each with as many bytes as it can have. */
static void take_report(const struct canfd_frame *frame, size_t most)
{
    const size_t size = world->keyed ? DUMPULSE_KEYED_REPORT_SIZE : DUMPULSE_REPORT_SIZE;
    struct interface *const it = &world->bus;

    if (frame->can_id == BASE + REPORT_FROM)
        it->frame = 0;
    if (frame->can_id != BASE + REPORT_FROM + it->frame)
        return;
    const size_t at = it->frame++ * most, left = size - at;
    memcpy(it->report + at, frame->data, most);
    if (left > most || frame->len != left)
        return;
    reference_sends_on_bus(it->report, size);
    oracle_reported(it->report, size);
    network_send(AGENT, READER, it->report, size);
}

ssize_t __wrap_send(int descriptor, const void *bytes, size_t size, int flags)
{
    const struct canfd_frame *const frame = bytes;
    struct interface *const it = &world->bus;

    (void)descriptor, (void)flags;
    if (calls_fail("send") != 0)
        return -1;
    oracle_check_epoch();
    errno = it->now == BUS_GONE ? ENXIO : ENETDOWN;
    if (it->now >= BUS_DOWN) {
        it->error = it->now == BUS_GONE ? it->error : 0;
        return -1;
    }
    const uint64_t from = it->busy_until > world->now ? it->busy_until : world->now;
    errno = ENOBUFS;
    if (from - world->now >= SENT_AHEAD * FRAME)
        return -1;
    it->busy_until = it->now == BUS_OFF ? world->now + SECOND : from + FRAME;
    if (it->now == BUS_OFF)
        return (ssize_t)size;
    if (frame->can_id != BASE + BEACON_AT) {
        take_report(frame, size == CANFD_MTU ? CANFD_MAX_DLEN : CAN_MAX_DLEN);
        return (ssize_t)size;
    }
    for (unsigned party = FIRST_NODE; party < PARTIES; party++)
        if (party == READER || world->keyed)
            network_send(AGENT, party, frame->data, DUMPULSE_PACKET_SIZE);
    return (ssize_t)size;
}

/* ---- How canserver opens it. */

int __wrap_socket(int family, int kind, int protocol)
{
    (void)family, (void)kind, (void)protocol;
    if (calls_fail("socket") != 0)
        return -1;
    errno = EMFILE;
    if (world->now < world->disk.shut_until)
        return -1;
    world->machine.serves = true;
    return disk_open(A_SOCKET);
}

unsigned __wrap_if_nametoindex(const char *name)
{
    (void)name;
    if (calls_fail("if_nametoindex") != 0)
        return 0;
    errno = ENODEV;
    return world->bus.now != BUS_GONE;
}

int __wrap_bind(int descriptor, const struct sockaddr *address, socklen_t size)
{
    (void)descriptor, (void)address, (void)size;
    return calls_fail("bind") != 0 ? -1 : 0;
}

int __wrap_ioctl(int descriptor, unsigned long request, struct ifreq *status)
{
    (void)descriptor, (void)request;
    if (calls_fail("ioctl") != 0)
        return -1;
    status->ifr_flags = world->bus.now == BUS_DOWN ? 0 : IFF_UP;
    world->bus.is_open = world->bus.now != BUS_DOWN;
    return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    machine_call();
    world_pass((uint64_t)time->tv_nsec);
    return 0;
}
