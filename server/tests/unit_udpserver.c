/* Unit tests of the parts that only udpserver uses: who gets how many reports, and who is
 * named in the log. A test chooses the times and the secrets.   SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE /* NOLINT: for struct in6_pktinfo */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "server/address.h"
#include "server/counters.h"
#include "server/limits.h"
#include "server/loop.h"
#include "server/sockets.h"
#include "server/timing.h"
#include "server/udp.h"
#include "stand_ins.h"
#include "tools/units.h"

/* ---- Secrets, sources and times ---------------------------------------------------------- */

static struct limits limits;

/* Makes everything as after a start, with a new secret. */
static void start(uint64_t rate, uint64_t burst)
{
    for (size_t i = 0; i < LIMITS_HASHED; i++)
        for (size_t byte = 0; byte < 256; byte++)
            limits_secret[i][byte] = (uint16_t)random_number();
    memset(&limits, 0, sizeof limits);
    limits_set(&limits, rate, burst, 1000000);
}

/* How the 8 bytes of a source follow from its number: sources have neighbouring addresses, or
 * random ones. */
enum kind { IPV4_NEIGHBOURS, IPV6_NEIGHBOURS, IPV4_BY_CHANCE, SOURCE_KINDS };

static const uint8_t *source_of(enum kind kind, unsigned number)
{
    static uint8_t source[LIMITS_SOURCE];
    static const uint8_t ipv4[LIMITS_SOURCE] = {[2] = 0xFF, [3] = 0xFF, 192, 0, 2, 0};
    static const uint8_t ipv6[LIMITS_SOURCE] = {0x20, 0x01, 0x0d, 0xb8};

    memcpy(source, kind == IPV6_NEIGHBOURS ? ipv6 : ipv4, sizeof source);
    if (kind == IPV4_BY_CHANCE)
        number = number * 2654435761U; /* the factor is odd, so no two are the same */
    if (kind == IPV4_BY_CHANCE)
        source[4] = (uint8_t)(number >> 24), source[5] = (uint8_t)(number >> 16);
    source[6] = (uint8_t)(source[6] + (uint8_t)(number >> 8));
    source[7] = (uint8_t)number;
    return source;
}

/* Returns in how many starts one of the sources is refused, if all ask at once. */
static unsigned starts_that_refuse(enum kind kind, unsigned sources, unsigned starts)
{
    unsigned refusing = 0;

    for (unsigned i = 0; i < starts; i++) {
        bool refused = false;
        start(10, 128);
        for (unsigned number = 0; number < sources; number++)
            refused = !limits_allow(&limits, source_of(kind, number), TIMING_SECOND) || refused;
        refusing += refused ? 1 : 0;
    }
    return refusing;
}

/* ---- Who gets a report ------------------------------------------------------------------- */

/* If hashes are random, then in 0.1 % of all starts more than 8 of 1000 sources share one of the
 * 1024 sets. The manual says 1 %. */
TEST(test_how_many_sources_are_served_at_once)
{
    for (enum kind kind = IPV4_NEIGHBOURS; kind < SOURCE_KINDS; kind++) {
        assert_int_equal(starts_that_refuse(kind, 64, 5000), 0);
        assert_in_range(starts_that_refuse(kind, 1000, 1000), 0, 10);
    }
}

TEST(test_a_full_set_refuses_newcomers_and_forgets_nobody)
{
    const uint64_t now = TIMING_SECOND;

    start(1, 1);
    memset(limits_secret, 0, sizeof limits_secret); /* now all sources belong to one set */
    for (unsigned i = 0; i < LIMITS_SET_SIZE; i++)
        assert_true(limits_allow(&limits, source_of(i % SOURCE_KINDS, i), now));
    assert_false(limits_allow(&limits, source_of(IPV4_NEIGHBOURS, 100), now));
    for (unsigned i = 0; i < LIMITS_SET_SIZE; i++)
        assert_false(
            limits_allow(&limits, source_of(i % SOURCE_KINDS, i), now + TIMING_SECOND - 1));
    assert_true(limits_allow(&limits, source_of(IPV4_NEIGHBOURS, 100), now + TIMING_SECOND));
}

static unsigned taken_at(uint64_t now)
{
    unsigned taken = 0;

    while (limits_allow(&limits, source_of(IPV4_NEIGHBOURS, 1), now))
        taken++;
    return taken;
}

/* A burst is allowed at once, then one report each interval. After a silence of any length, no more
 * than a burst is allowed. */
TEST(test_a_burst_and_then_the_rate)
{
    static const struct {
        unsigned rate, burst;
    } tried[] = {{1, 1}, {1, 10}, {10, 1}, {10, 128}, {2, 1000}, {1000, 64}};

    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
        const unsigned burst = tried[i].burst;
        const uint64_t interval = TIMING_SECOND / tried[i].rate, whole = burst * interval;
        for (uint64_t now = TIMING_SECOND; now < 32 * TIMING_SECOND; now += TIMING_SECOND / 3) {
            start(tried[i].rate, burst);
            assert_int_equal(taken_at(now), burst);
            assert_int_equal(taken_at(now + interval - 1), 0);
            assert_int_equal(taken_at(now + interval), 1);
            assert_int_equal(taken_at(now + interval + whole), burst);
            assert_int_equal(taken_at(now + interval + whole + whole / 2), burst / 2);
            assert_int_equal(taken_at(now + 3600 * TIMING_SECOND), burst);
        }
    }
}

/* A source asks all the time. After a silence, it gets the most reports within a second: the burst
 * and, until the end of that second, the rate. */
TEST(test_the_most_that_one_source_gets_within_a_second)
{
    static const struct {
        unsigned rate, burst, most;
    } tried[] = {{10, 128, 138}, {1, 1, 2}, {3, 5, 7}, {7, 1, 7}, {1000, 1, 1001}};
    static uint64_t times[8192];

    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
        unsigned count = 0, most = 0;
        uint64_t now = TIMING_SECOND;
        start(tried[i].rate, tried[i].burst);
        for (unsigned asked = 0; asked < 2500; asked++) {
            for (unsigned taken = taken_at(now); taken > 0; taken--)
                times[count++] = now;
            assert_int_equal(taken_at(now + limits.each.interval - 1), 0);
            now += asked % 1250 == 1249 ? 60 * TIMING_SECOND
                                        : limits.each.interval; /* 60 s: silence */
        }
        for (unsigned first = 0, last = 0; last < count; last++) {
            while (times[last] - times[first] > TIMING_SECOND)
                first++;
            if (last - first + 1 > most)
                most = last - first + 1;
        }
        assert_int_equal(most, tried[i].most);
        assert_true(most <= tried[i].rate + tried[i].burst);
    }
}

TEST(test_the_limit_for_all)
{
    unsigned taken = 0;

    start(10, 128);
    limits_set(&limits, 10, 128, 1000);
    for (unsigned number = 0; number < 3000; number++)
        taken += limits_allow(&limits, source_of(IPV4_BY_CHANCE, number), TIMING_SECOND) ? 1 : 0;
    assert_int_equal(taken, 1000);
    assert_true(
        limits_allow(&limits, source_of(IPV4_BY_CHANCE, 0), TIMING_SECOND + TIMING_SECOND / 1000));
}

/* If the total limit refuses a source, that does not count for the source's own limit. */
TEST(test_who_is_refused_for_all_is_not_charged)
{
    start(1, 1);
    limits_set(&limits, 1, 1, 1);
    assert_true(limits_allow(&limits, source_of(IPV4_NEIGHBOURS, 1), TIMING_SECOND));
    assert_false(limits_allow(&limits, source_of(IPV4_NEIGHBOURS, 2), TIMING_SECOND));
    memset(&limits.everybody, 0, sizeof limits.everybody);
    assert_true(limits_allow(&limits, source_of(IPV4_NEIGHBOURS, 2), TIMING_SECOND));
    assert_false(limits_allow(&limits, source_of(IPV4_NEIGHBOURS, 2), TIMING_SECOND));
}

/* Nobody can know which sources share a set, because all random numbers are new at each start. */
TEST(test_each_start_has_its_own_secret)
{
    static uint16_t earlier[LIMITS_HASHED][256];
    size_t same = 0;

    memset(limits_secret, 0, sizeof limits_secret);
    assert_true(limits_choose_secret());
    memcpy(earlier, limits_secret, sizeof earlier);
    assert_true(limits_choose_secret());
    for (size_t i = 0; i < LIMITS_HASHED; i++)
        for (size_t byte = 0; byte < 256; byte++)
            same += earlier[i][byte] == limits_secret[i][byte] ? 1 : 0;
    assert_in_range(same, 0, 20); /* By chance, it is 0 or 1 of the 4096. */
}

/* 3000 sources ask each second, and there are 1000 reports a second. Nearly all get as many as the
 * others, and nobody less. */
TEST(test_too_many_sources_take_turns)
{
    enum { SOURCES = 3000, SECONDS = 20 };
    static unsigned got[SOURCES], counted[SECONDS + 1];
    uint64_t now = TIMING_SECOND;

    start(10, 128);
    limits_set(&limits, 10, 128, 1000);
    limits.takes_turns = true;
    for (unsigned step = 0; step < SECONDS * SOURCES; step++) {
        const unsigned source = step % SOURCES;
        got[source] += limits_allow(&limits, source_of(IPV4_BY_CHANCE, source), now);
        now += TIMING_SECOND / SOURCES;
    }
    for (unsigned source = 0; source < SOURCES; source++)
        counted[got[source] < SECONDS ? got[source] : SECONDS]++;
    for (unsigned few = 0; few < 6; few++)
        assert_int_equal(counted[few], 0);
    assert_true(counted[6] + counted[7] >= SOURCES * 98 / 100);
}

/* An answer leaves from the address that was asked, which the kernel writes after other messages if
 * there is room. The kernel chooses the interface, unless the address is link-local. */
TEST(test_where_an_answer_leaves_from)
{
    static const struct {
        const char *address;
        unsigned kept;
    } cases[] = {{"192.0.2.7", 0}, {"2001:db8::7", 0}, {"fe80::7", 9}, {"febf::7", 9}};
    struct msghdr reply = {.msg_control = &reply, .msg_controllen = 99}, nothing = {0};

    assert_true(udp_set_reply_address(&reply, &nothing)); /* The answer leaves from any address. */
    assert_true(reply.msg_control == NULL && reply.msg_controllen == 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t control[UDP_CONTROL_ROOM / sizeof(size_t)] = {0};
        uint8_t address[ADDRESS_SIZE];
        struct msghdr request = {.msg_control = control, .msg_controllen = sizeof control};
        struct cmsghdr *header = CMSG_FIRSTHDR(&request);
        struct in_pktinfo v4 = {.ipi_ifindex = 9};
        struct in6_pktinfo v6 = {.ipi6_ifindex = 9};
        assert_true(address_read(cases[i].address, strlen(cases[i].address), address));
        const bool ipv4 = address_is_ipv4(address);
        memcpy(&v4.ipi_spec_dst, address + ADDRESS_MAPPED, sizeof v4.ipi_spec_dst);
        memcpy(&v6.ipi6_addr, address, sizeof v6.ipi6_addr);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SO_TIMESTAMP;
        header->cmsg_len = CMSG_LEN(sizeof(struct timeval));
        header = CMSG_NXTHDR(&request, header);
        header->cmsg_level = ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
        header->cmsg_type = ipv4 ? IP_PKTINFO : IPV6_PKTINFO;
        header->cmsg_len = ipv4 ? CMSG_LEN(sizeof v4) : CMSG_LEN(sizeof v6);
        memcpy(CMSG_DATA(header), ipv4 ? (void *)&v4 : (void *)&v6, ipv4 ? sizeof v4 : sizeof v6);
        assert_true(udp_set_reply_address(&reply, &request));
        v4.ipi_ifindex = (int)cases[i].kept;
        v6.ipi6_ifindex = cases[i].kept;
        assert_true(reply.msg_control == header && reply.msg_controllen == header->cmsg_len);
        assert_memory_equal(CMSG_DATA(header), ipv4 ? (void *)&v4 : (void *)&v6,
                            ipv4 ? sizeof v4 : sizeof v6);
        request.msg_flags = MSG_CTRUNC;
        while (header->cmsg_len-- > sizeof *header)
            assert_false(udp_set_reply_address(&reply, &request));
    }
}

/* ---- Sockets ---------------------------------------------------------------------------- */

/* Nobody takes what comes. What a socket drops before it is closed counts. What one dropped before
 * it was added does not. Here both are the same. */
TEST(test_drops_before_and_after)
{
    const int receiver = socket(AF_INET, SOCK_DGRAM, 0), other = dup(receiver);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof here;
    uint64_t left = 0, sent = 0;

    assert_int_equal(bind(receiver, (const struct sockaddr *)&here, size), 0);
    assert_int_equal(getsockname(receiver, (struct sockaddr *)&here, &size), 0);
    assert_true(sockets_add(receiver, NULL));
    for (; sent < sockets_capacity + 5000; sent++)
        (void)sendto(other, "", 1, 0, (const struct sockaddr *)&here, size);
    assert_true(sockets_replace(0, -1));
    assert_true(sockets_add(other, NULL));
    sockets_count_drops();
    while (recv(other, &(char){0}, 1, MSG_DONTWAIT) == 1)
        left++;
    assert_in_range(left, 1, sent - 1);
    assert_int_equal(counters[COUNT_DROPS], sent - left);
    assert_true(sockets_replace(1, -1));
}

/* ---- Tasks ------------------------------------------------------------------------------ */

/* Last time set by the loop, and the time when the task ran, µs. */
static uint64_t timer_us, waited_us;

/* The linker gives all calls of setitimer() to this. */
int __real_setitimer(int which, const struct itimerval *timer, struct itimerval *before);
int __wrap_setitimer(int which, const struct itimerval *timer, struct itimerval *before)
{
    timer_us = (uint64_t)timer->it_value.tv_sec * 1000000 + (uint64_t)timer->it_value.tv_usec;
    return __real_setitimer(which, timer, before);
}

static void end_loop(void)
{
    waited_us = timer_us;
    (void)raise(SIGTERM);
}

static unsigned reaped, reaped_before_tasks; /* calls of on_child: all; until the tasks ran */

static void reap(void)
{
    reaped++;
}

static void start_lower(void)
{
    reaped_before_tasks = reaped;
    (void)raise(SIGCHLD);
    loop_start_task(LOOP_READY, TIMING_SECOND);
}

/* Only SIGCHLD calls on_child. In the first turn of the loop, it would start programs for changes
 * of the last run before the server has looked at its nodes. */
TEST(test_a_task_starts_one_of_a_lower_number_at_once)
{
    static const struct loop_handlers only_reaps = {.on_child = reap};
    const sigset_t waiting = loop_catch_signals();

    loop_define_task(LOOP_READY, end_loop, 0);
    loop_define_task(LOOP_WATCH, start_lower, TIMING_SECOND);
    loop_serve(&waiting, &only_reaps);
    (void)alarm(0);
    assert_in_range(waited_us, 1, 1000);
    assert_int_equal(reaped_before_tasks, 0);
    assert_int_equal(reaped, 1);
}

int main(void)
{
    return run_units("unit-udpserver");
}
