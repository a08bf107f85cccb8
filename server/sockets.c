/* The sockets of an agent for Linux; see sockets.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for SO_RCVBUFFORCE */
#include "sockets.h"

#include <linux/sock_diag.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "counters.h"
#include "log.h"

enum {
    BUFFER = 4096 * 1024, /* bytes asked for; the kernel grants twice as many */
    PACKET_COST = 768,    /* bytes of the buffer that the kernel counts for one packet */
    ROUND = 4096          /* packets from one socket, before the next one gets its turn */
};

struct sockets_one sockets[SOCKETS_MAX];
size_t sockets_count;
int sockets_poller = -1;
uint64_t sockets_capacity = UINT64_MAX;
static uint32_t drops[SOCKETS_MAX]; /* the kernel's counter of each socket when last read */

/* Reads the kernel's counter of dropped packets, which has 32 bits. SO_RXQ_OVFL would attach the
 * same counter to each packet. Reading it here costs nothing for a packet. It also counts drops
 * after which no packet came. */
static uint32_t drops_of(int descriptor)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof memory;

    (void)getsockopt(descriptor, SOL_SOCKET, SO_MEMINFO, memory, &size);
    return memory[SK_MEMINFO_DROPS];
}

static void count_drops_of(size_t socket)
{
    const uint32_t now = drops_of(sockets[socket].fd);

    counters[COUNT_DROPS] += (uint32_t)(now - drops[socket]);
    drops[socket] = now;
}

void sockets_count_drops(void)
{
    for (size_t i = 0; i < sockets_count; i++)
        if (sockets[i].fd >= 0)
            count_drops_of(i);
}

bool sockets_add(int descriptor, unsigned (*take)(int fd))
{
    if (sockets_poller < 0)
        sockets_poller = epoll_create1(EPOLL_CLOEXEC);
    if (sockets_poller < 0 || sockets_count == SOCKETS_MAX)
        return false;
    sockets[sockets_count++] = (struct sockets_one){-1, take};
    return sockets_replace(sockets_count - 1, descriptor);
}

bool sockets_replace(size_t socket, int descriptor)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = &sockets[socket]}};
    const int wanted = BUFFER;
    int granted = 0;
    socklen_t int_size = sizeof granted;

    if (sockets[socket].fd >= 0) {
        count_drops_of(socket);
        (void)close(sockets[socket].fd);
    }
    sockets[socket].fd = descriptor;
    if (descriptor < 0)
        return true;
    drops[socket] = drops_of(descriptor); /* a passed socket may have dropped packets before */
    (void)getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &granted, &int_size);
    if (granted < 2 * wanted) { /* the service manager may have had the right to set more */
        if (setsockopt(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof wanted) != 0)
            (void)setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted);
        (void)getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &granted, &int_size);
    }
    if ((uint64_t)granted / PACKET_COST < sockets_capacity)
        sockets_capacity = (uint64_t)granted / PACKET_COST;
    return epoll_ctl(sockets_poller, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

unsigned sockets_take(const struct sockets_one *socket)
{
    unsigned taken = 0, batch;

    do {
        taken += batch = socket->take(socket->fd);
    } while (batch == SOCKETS_BATCH && taken < ROUND);
    return taken;
}

unsigned sockets_take_all(void)
{
    unsigned taken = 0;

    for (size_t i = 0; i < sockets_count; i++)
        if (sockets[i].fd >= 0)
            taken += sockets_take(&sockets[i]);
    return taken;
}

void sockets_take_waiting(void)
{
    uint64_t taken, all = 0;

    do {
        all += taken = sockets_take_all();
    } while (taken != 0 && all < sockets_capacity);
}

void sockets_say_if_small(void)
{
    if (sockets_capacity < BUFFER / PACKET_COST)
        log_say("the kernel buffers %u packets only: for bursts raise net.core.rmem_max to %d",
                (unsigned)sockets_capacity, BUFFER);
}
