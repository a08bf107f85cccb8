/* A fake fleet: each address of the loopback from 127.1.0.0 on is an agent of version 1.
 * SPDX-License-Identifier: MIT
 *
 * It shares no code with the project, so the harness may judge the fleet by it. The address to
 * which a request was sent decides which agent answers. Their clocks, with a tick of 1 s, run
 * `speed` times as fast as the system's. Variable 0 is an agent's own clock. Each later one has a
 * heartbeat in each tick, with its number as its value, until it is stopped.
 *
 *     fake_fleet PORT COUNT SPEED VARIABLES BOOT      BOOT: ticks from a boot to the heartbeats
 *
 * It prints its port, and acknowledges each line of the standard input by a line. Lines are like
 * "die 0 9 0", which is for the agents 0 to 9. The last number is for stop and odd: a variable.
 *   die      they do not answer any more        live     they answer again
 *   lie      their reports are damaged          honest   not any more
 *   stop     a variable has no heartbeats any more (0: all of them have none)
 *   go       all variables have heartbeats again
 *   odd      a variable has the value ODD (0: none has)
 *   reboot   they lose their table, and their clock begins at 0
 *   idle S   prints how many agents had no request for S ticks, and for how many this process has
 *            not answered at most since the last such line
 * The end of the input ends the process. */
#define _GNU_SOURCE /* NOLINT: for in_pktinfo */
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

enum { FIRST = 0x7F010000, REPORT = 260, ODD = 255, MOST = 1 << 23 };

struct agent {
    double boot, stop, polled; /* ticks; stop 0: all variables have heartbeats */
    int dead, lies;
    int stopped, odd; /* variables */
};
static struct agent *agents;
static long count;
static int variables;
static double speed, first_beat, longest, seen; /* The last three are in ticks. */

static double ticks(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return ((double)now.tv_sec + (double)now.tv_nsec / 1e9) * speed;
}

static void write_entry(uint8_t *report, int variable, double clock, int value)
{
    const uint16_t stamp = (uint16_t)(uint64_t)clock;
    const uint8_t entry[] = {(uint8_t)(stamp >> 8), (uint8_t)stamp, (uint8_t)(10 + variable),
                             (uint8_t)value};

    memcpy(report + 4 + sizeof entry * (size_t)variable, entry, sizeof entry);
}

static void make_report(uint8_t *report, const struct agent *agent, double now)
{
    uint32_t a = 1, b = 0;

    memset(report, 0, REPORT);
    write_entry(report, 0, now - agent->boot, 0);
    for (int i = 1; i <= variables; i++) {
        const int stops = agent->stop > 0 && (agent->stopped == 0 || agent->stopped == i);
        const double beat = stops ? agent->stop : now;
        if (beat >= agent->boot + first_beat)
            write_entry(report, i, beat - agent->boot, i == agent->odd ? ODD : i);
    }
    for (int i = 4; i < REPORT; i++) {
        a = (a + report[i]) % 65521;
        b = (b + a) % 65521;
    }
    const uint32_t sum = htonl(b << 16 | a);
    memcpy(report, &sum, 4);
    report[100] ^= (uint8_t)agent->lies;
}

/* Answers a request, if there is one. Returns whether there was a packet. */
static int answer(int file)
{
    uint8_t request[16], report[REPORT];
    union {
        char bytes[64];
        struct cmsghdr align;
    } control;
    struct sockaddr_in from;
    struct iovec part = {request, sizeof request};
    struct msghdr message = {.msg_name = &from,
                             .msg_namelen = sizeof from,
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    const ssize_t size = recvmsg(file, &message, MSG_DONTWAIT);
    struct cmsghdr *head = size == 8 ? CMSG_FIRSTHDR(&message) : NULL;

    if (head == NULL || memcmp(request, "AreyouOK", 8) != 0)
        return size >= 0;
    struct in_pktinfo *to = (struct in_pktinfo *)(void *)CMSG_DATA(head);
    const long number = (long)ntohl(to->ipi_addr.s_addr) - FIRST;
    if (number < 0 || number >= count)
        return 1;
    const double now = ticks(CLOCK_MONOTONIC);
    agents[number].polled = now;
    if (agents[number].dead)
        return 1;
    make_report(report, &agents[number], now);
    message.msg_iov = &(struct iovec){report, sizeof report};
    to->ipi_spec_dst = to->ipi_addr;
    to->ipi_ifindex = 0;
    (void)sendmsg(file, &message, 0);
    return 1;
}

static void change(struct agent *agent, const char *verb, int variable, double now)
{
    if (strcmp(verb, "die") == 0 || strcmp(verb, "live") == 0)
        agent->dead = verb[0] == 'd';
    else if (strcmp(verb, "lie") == 0 || strcmp(verb, "honest") == 0)
        agent->lies = verb[0] == 'l';
    else if (strcmp(verb, "reboot") == 0)
        agent->boot = now;
    else if (strcmp(verb, "odd") == 0)
        agent->odd = variable;
    else {
        agent->stop = strcmp(verb, "stop") == 0 ? now : 0;
        agent->stopped = variable;
    }
}

static void obey(void)
{
    char line[100], *rest = line;

    if (fgets(line, sizeof line, stdin) == NULL)
        exit(0);
    const char *verb = strsep(&rest, " ");
    const double first = rest != NULL ? strtod(rest, &rest) : 0;
    const long last = rest != NULL ? strtol(rest, &rest, 10) : 0;
    const int variable = rest != NULL ? (int)strtol(rest, NULL, 10) : 0;
    const double now = ticks(CLOCK_MONOTONIC);
    if (strcmp(verb, "idle") == 0) {
        long idle = 0;
        for (long i = 0; i < count; i++)
            idle += now - agents[i].polled > first;
        (void)printf("%ld %.1f\n", idle, longest);
        longest = 0;
        return;
    }
    for (long i = (long)first; i <= last && i < count; i++)
        change(&agents[i], verb, variable, now);
    (void)puts("done");
}

static int make_agents(void)
{
    agents = count > 0 && count <= MOST ? calloc((size_t)count, sizeof *agents) : NULL;
    if (agents == NULL)
        return 0;
    seen = ticks(CLOCK_MONOTONIC);
    /* Neither near Unix time, which a clock that can be set shows, nor near 0, where a reboot could
     * be a clock that was set back. */
    const double age = ((uint64_t)ticks(CLOCK_REALTIME) & 0x8000) != 0 ? 10000 : 40000;
    for (long i = 0; i < count; i++)
        agents[i] = (struct agent){.boot = seen - age - (double)(i * 7 % 10000), .polled = -1e9};
    return 1;
}

/* Prints the port. Returns -1 if that cannot be used. */
static int listening(const char *port)
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t size = sizeof here;
    const int on = 1, room = 32 << 20, file = socket(AF_INET, SOCK_DGRAM, 0);

    here.sin_port = htons((uint16_t)strtol(port, NULL, 10));
    (void)setsockopt(file, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    if (setsockopt(file, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) != 0)
        (void)setsockopt(file, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (bind(file, (struct sockaddr *)&here, sizeof here) != 0 ||
        getsockname(file, (struct sockaddr *)&here, &size) != 0) {
        perror("fake_fleet");
        return -1;
    }
    (void)printf("%d\n", ntohs(here.sin_port));
    return file;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    (void)setvbuf(stdin, NULL, _IONBF, 0);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    count = strtol(argv[2], NULL, 10);
    speed = strtod(argv[3], NULL);
    variables = (int)strtol(argv[4], NULL, 10);
    first_beat = strtod(argv[5], NULL);
    const int file = make_agents() ? listening(argv[1]) : -1;
    if (file < 0)
        return 1;
    struct pollfd files[] = {{file, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    for (;;) {
        (void)poll(files, 2, 10);
        const double now = ticks(CLOCK_MONOTONIC);
        longest = now - seen > longest ? now - seen : longest;
        seen = now;
        for (int i = 0; i < 64 && answer(file); i++)
            ;
        if (files[1].revents != 0)
            obey();
    }
}
