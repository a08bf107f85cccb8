/* Agents of version 1 for the harness. It shares no code with the project. One process answers for
 * `count` agents at 127.10.0.0 and the addresses after it. Their clocks, with a tick of 1 s, run
 * `speed` times as fast as the system's. Variable 0 is an agent's own clock, and variable 1 has a
 * heartbeat each second, until it is stopped. SPDX-License-Identifier: MIT
 *
 *     agents PORT COUNT SPEED
 *
 * Lines of the standard input, each acknowledged by a line: die, live, stop, go or reboot FIRST
 * LAST; idle S 0 prints how many agents had no request for S seconds of their clocks, and for how
 * long this process has not answered at most since the last such line. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FIRST = 0x7F0A0000, REPORT = 260, FIRST_BEAT = 15 /* s after a boot */ };
struct agent {
    double boot, stopped, polled; /* s; stopped 0: variable 1 beats */
    int dead;
};
static struct agent *agents;
static long count;
static double speed, longest, seen;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return ((double)t.tv_sec + (double)t.tv_nsec * 1e-9) * speed;
}

static void entry(uint8_t *at, double time, uint8_t sender)
{
    const uint16_t stamp = (uint16_t)(uint64_t)time;
    at[0] = (uint8_t)(stamp >> 8);
    at[1] = (uint8_t)stamp;
    at[2] = sender;
    at[3] = 7;
}

static void make_report(uint8_t *report, const struct agent *agent, double time)
{
    uint32_t a = 1, b = 0;
    memset(report, 0, REPORT);
    entry(report + 4, time - agent->boot, 1);
    const double beat = agent->stopped > 0 ? agent->stopped : time;
    if (beat > agent->boot + FIRST_BEAT)
        entry(report + 8, beat - agent->boot, 2);
    for (int i = 4; i < REPORT; i++) {
        a = (a + report[i]) % 65521;
        b = (b + a) % 65521;
    }
    const uint32_t sum = htonl(b << 16 | a);
    memcpy(report, &sum, 4);
}

static void answer(int file)
{
    uint8_t request[16], report[REPORT];
    char control[64];
    struct sockaddr_in from;
    struct iovec part = {request, sizeof request};
    struct msghdr message = {&from, sizeof from, &part, 1, control, sizeof control, 0};
    const ssize_t size = recvmsg(file, &message, MSG_DONTWAIT);
    const struct cmsghdr *head = size == 8 ? CMSG_FIRSTHDR(&message) : NULL;
    if (!head || memcmp(request, "AreyouOK", 8) != 0)
        return;
    struct in_pktinfo *to = (struct in_pktinfo *)(void *)CMSG_DATA(head);
    const long number = (long)ntohl(to->ipi_addr.s_addr) - FIRST;
    if (number < 0 || number >= count)
        return;
    agents[number].polled = now();
    if (agents[number].dead)
        return;
    make_report(report, &agents[number], now());
    part = (struct iovec){report, sizeof report};
    to->ipi_spec_dst = to->ipi_addr;
    to->ipi_ifindex = 0;
    (void)sendmsg(file, &message, 0);
}

static void obey(void)
{
    char line[64], verb[16];
    double first, last;
    if (!fgets(line, sizeof line, stdin) || sscanf(line, "%15s %lf %lf", verb, &first, &last) != 3)
        exit(0);
    if (strcmp(verb, "idle") == 0) {
        long idle = 0;
        for (long i = 0; i < count; i++)
            idle += now() - agents[i].polled > first;
        printf("%ld %.1f\n", idle, longest);
        longest = 0;
        return;
    }
    for (long i = (long)first; i <= (long)last && i < count; i++) {
        struct agent *agent = &agents[i];
        if (strcmp(verb, "reboot") == 0)
            agent->boot = now();
        else if (verb[0] == 'd' || verb[0] == 'l')
            agent->dead = verb[0] == 'd';
        else
            agent->stopped = verb[0] == 's' ? now() : 0;
    }
    puts("done");
}

int main(int argc, char **argv)
{
    const int file = socket(AF_INET, SOCK_DGRAM, 0), on = 1, room = 8 << 20;
    struct sockaddr_in here = {.sin_family = AF_INET};
    if (argc != 4)
        return 2;
    here.sin_port = htons((uint16_t)strtol(argv[1], NULL, 10));
    count = strtol(argv[2], NULL, 10);
    speed = strtod(argv[3], NULL);
    agents = calloc((size_t)count, sizeof *agents);
    setsockopt(file, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    setsockopt(file, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    setsockopt(file, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    if (!agents || bind(file, (struct sockaddr *)&here, sizeof here) != 0)
        return 1;
    (void)setvbuf(stdin, NULL, _IONBF, 0);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    seen = now();
    for (long i = 0; i < count; i++)
        agents[i] = (struct agent){.boot = seen - 1000, .polled = -1e9};
    struct pollfd files[] = {{file, POLLIN, 0}, {0, POLLIN, 0}};
    for (;;) {
        poll(files, 2, 10);
        longest = now() - seen > longest ? now() - seen : longest;
        seen = now();
        for (int i = 0; files[0].revents && i < 64; i++)
            answer(file);
        if (files[1].revents)
            obey();
    }
}
