/* A fake fleet: each address of the loopback from 127.1.0.0 on is an agent.
 * SPDX-License-Identifier: MIT
 *
 * One process and one socket. The address to which a request was sent says which agent it is for.
 * Each agent has a dumpulse of its own, and answers by the library. Variable 0 is its own; those
 * from 1 on beat every `beat` ms, each with a phase of its own. Nothing is done until a request
 * comes: then the last heartbeat of each variable is recorded, with the time when it was due.
 *
 *   fake_fleet COUNT [name=value]...  variables=15 beat=1000 tick=1000 (ms) seed=1 loss=0 twice=0
 *                                     (percent) delay=0 jitter=0 (ms) keyed=0 (s) vary=0
 *
 * jitter: up to so much is added to the delay, so that answers overtake each other. twice: so many
 * come twice. keyed: they speak version 2, and an epoch begins after so many seconds. The number of
 * an agent is its master key, in 16 bytes. vary: a variable has its number as its value, or up to
 * so much more.
 *
 * Standard input takes lines like "die 0 9", which is for the agents 0 to 9:
 *   die        they do not answer any more        live     they answer again
 *   reboot     they lose their table, and their clock begins at 0
 *   lie        their reports are damaged          honest   not any more
 *   silence    their variables do not beat        speak    they beat again
 *   stop V F L their variable V does not beat any more; with 0, all do
 *   odd V F L  their variable V has the value ODD; with 0, none has
 * The end of the input ends the process. It answers each line with its first word.
 */
#define _GNU_SOURCE /* NOLINT: for recvmmsg and sendmmsg */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dumpulse_keyed.h"

enum { BATCH = 256, FIRST = 0x7F010000, MOST = 1 << 23, WAITING = 1 << 16, ODD = 255 };

struct agent {
    dumpulse_keyed keyed; /* without keys, only its table is used */
    double ticked;        /* when its epoch began */
    double begun;         /* s: when its clock was 0 */
    double quiet;         /* no heartbeat after this time */
    double since;         /* no heartbeat before this time */
    uint8_t dead, lies;
    long stopped, odd; /* a variable; 0: none */
};

static struct agent *agents;
enum { VARIABLES, BEAT, TICK, LOSS, TWICE, DELAY, JITTER, KEYED, VARY, OPTIONS };
static long option[OPTIONS] = {15, 1000, 1000, 0, 0, 0, 0, 0, 0};
static const char *const names[OPTIONS] = {"variables", "beat",   "tick",  "loss", "twice",
                                           "delay",     "jitter", "keyed", "vary"};
static long count;
static uint64_t chance = 1;
static uint16_t stamp;
static long working; /* the number of an agent */
static uint8_t answer[DUMPULSE_KEYED_REPORT_SIZE];
static size_t answered; /* bytes of it */

static uint64_t draw(void)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return chance;
}

static int happens(long percent)
{
    return (long)(draw() >> 11) % 100 < percent;
}

static double seconds(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

uint16_t dumpulse_get_timestamp(void)
{
    return stamp;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context;
    memcpy(answer, packet, length);
    answered = length;
}

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    memset(key, 0, 12);
    for (int i = 0; i < 4; i++)
        key[12 + i] = (uint8_t)((unsigned long)working >> (24 - 8 * i));
    dumpulse_label_key(key, label, 0);
}

uint32_t dumpulse_load(void)
{
    return 0;
}

bool dumpulse_store(uint32_t number)
{
    (void)number;
    return true;
}

/* The next epoch begins for all labels. Their beacons are for nobody. */
static void begin_epoch(struct agent *agent, double now)
{
    if (agent->ticked == 0)
        (void)dumpulse_keyed_begin(&agent->keyed);
    else
        for (int label = 0; label <= (int)DUMPULSE_READER_LABEL; label++)
            (void)dumpulse_keyed_next(&agent->keyed, NULL);
    agent->ticked = now;
}

/* The agent's timestamp at a time of CLOCK_BOOTTIME. */
static uint16_t stamp_at(const struct agent *agent, double when)
{
    return (uint16_t)(int64_t)floor((when - agent->begun) * 1000 / (double)option[TICK]);
}

/* Makes the answer of an agent to a packet that came now. */
static void make_answer(struct agent *agent, const uint8_t *packet, double now)
{
    const double beat = (double)option[BEAT] / 1000;

    for (long i = 1; i <= option[VARIABLES]; i++) {
        const double phase = beat * (double)((i * 37 + (agent - agents) * 11) % 64) / 64;
        const double end = now < agent->quiet ? now : agent->quiet;
        const double last = floor((end - phase) / beat) * beat + phase;
        if (last < agent->since || i == agent->stopped)
            continue;
        stamp = stamp_at(agent, last);
        const long more = option[VARY] > 0 ? (long)(draw() >> 11) % (option[VARY] + 1) : 0;
        (void)dumpulse_record(&agent->keyed.agent, (uint8_t)i, (uint8_t)(i + 10),
                              i == agent->odd ? ODD : (uint8_t)(i + more));
    }
    stamp = stamp_at(agent, now);
    (void)dumpulse_record(&agent->keyed.agent, 0, 10, 0);
    if (option[KEYED]) {
        if (agent->ticked == 0 || now - agent->ticked >= (double)option[KEYED])
            begin_epoch(agent, now);
        answered = 0;
        (void)dumpulse_keyed_process(&agent->keyed, packet, DUMPULSE_PACKET_SIZE, NULL);
    } else {
        (void)dumpulse_process_packet(&agent->keyed.agent, packet, DUMPULSE_PACKET_SIZE, NULL);
    }
    answer[100] ^= agent->lies;
}

static void obey(char *line, double now)
{
    const char *verb = line;
    char *rest = strchr(line, ' ');

    if (rest == NULL)
        return;
    *rest++ = '\0';
    const char *const takes_one[] = {"stop", "odd"};
    double by = 0;
    for (size_t i = 0; i < sizeof takes_one / sizeof takes_one[0]; i++)
        if (strcmp(verb, takes_one[i]) == 0)
            by = strtod(rest, &rest);
    const long first = strtol(rest, &rest, 10), last = strtol(rest, NULL, 10);
    for (long i = first < 0 ? 0 : first; i <= last && i < count; i++) {
        struct agent *agent = &agents[i];
        if (strcmp(verb, "die") == 0)
            agent->dead = 1;
        else if (strcmp(verb, "live") == 0)
            agent->dead = 0;
        else if (strcmp(verb, "lie") == 0)
            agent->lies = 1;
        else if (strcmp(verb, "honest") == 0)
            agent->lies = 0;
        else if (strcmp(verb, "silence") == 0)
            agent->quiet = now;
        else if (strcmp(verb, "speak") == 0)
            agent->quiet = INFINITY;
        else if (strcmp(verb, "stop") == 0)
            agent->stopped = (long)by;
        else if (strcmp(verb, "odd") == 0)
            agent->odd = (long)by;
        else if (strcmp(verb, "reboot") == 0) {
            memset(&agent->keyed.agent, 0, sizeof agent->keyed.agent);
            agent->begun = agent->since = now;
        }
    }
    (void)puts(verb);
    (void)fflush(stdout);
}

static struct mmsghdr messages[BATCH];
static struct iovec vectors[BATCH];
static struct sockaddr_in peers[BATCH];
static uint8_t packets[BATCH][DUMPULSE_KEYED_REPORT_SIZE];
static union {
    char bytes[64];
    struct cmsghdr align;
} controls[BATCH];

static struct waiting {
    double due;
    struct sockaddr_in peer;
    struct in_pktinfo from;
    size_t length;
    uint8_t packet[DUMPULSE_KEYED_REPORT_SIZE];
} * waiting;
static unsigned oldest, newest;

static struct in_pktinfo *info_of(struct msghdr *message)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);

    return header != NULL && header->cmsg_type == IP_PKTINFO
               ? (struct in_pktinfo *)(void *)CMSG_DATA(header)
               : NULL;
}

static void prepare(int i, struct in_pktinfo from, size_t length)
{
    struct msghdr *message = &messages[i].msg_hdr;

    vectors[i] = (struct iovec){packets[i], length};
    *message = (struct msghdr){.msg_name = &peers[i],
                               .msg_namelen = sizeof peers[i],
                               .msg_iov = &vectors[i],
                               .msg_iovlen = 1,
                               .msg_control = controls[i].bytes,
                               .msg_controllen = sizeof controls[i].bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = IPPROTO_IP;
    header->cmsg_type = IP_PKTINFO;
    header->cmsg_len = CMSG_LEN(sizeof from);
    message->msg_controllen = CMSG_SPACE(sizeof from);
    memcpy(CMSG_DATA(header), &from, sizeof from);
}

static void send_all(int where, int ready)
{
    for (int done = 0; done < ready;) {
        const int sent = sendmmsg(where, messages + done, (unsigned)(ready - done), 0);
        done += sent > 0 ? sent : 1;
    }
}

/* Takes requests, and answers them or lets the answers wait. Returns whether there were any. */
static int take(int where, double now)
{
    static const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
    int ready = 0;

    for (int i = 0; i < BATCH; i++)
        prepare(i, (struct in_pktinfo){0}, sizeof packets[i]);
    for (int i = 0; i < BATCH; i++)
        messages[i].msg_hdr.msg_controllen = sizeof controls[i].bytes;
    const int came = recvmmsg(where, messages, BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < came; i++) {
        const struct in_pktinfo *info = info_of(&messages[i].msg_hdr);
        if (info == NULL || messages[i].msg_len != sizeof request ||
            (!option[KEYED] && memcmp(packets[i], request, sizeof request) != 0))
            continue;
        const long which = (long)ntohl(info->ipi_addr.s_addr) - FIRST;
        if (which < 0 || which >= count || agents[which].dead || happens(option[LOSS]))
            continue;
        struct in_pktinfo from = {.ipi_spec_dst = info->ipi_addr};
        const struct sockaddr_in peer = peers[i];
        working = which;
        make_answer(&agents[which], packets[i], now);
        if (answered == 0)
            continue;
        const double due = now + (double)option[DELAY] / 1000 +
                           (double)option[JITTER] / 1000 * (double)(draw() >> 40) / (1 << 24);
        for (int left = happens(option[TWICE]) ? 2 : 1; left > 0; left--) {
            struct waiting *one = &waiting[newest++ % WAITING];
            *one = (struct waiting){due, peer, from, answered, {0}};
            memcpy(one->packet, answer, sizeof answer);
        }
        if (due > now || newest != oldest + 1)
            continue;
        newest--;
        peers[ready] = peer; /* ready <= i: it was read already */
        memcpy(packets[ready], answer, answered);
        prepare(ready++, from, answered);
    }
    send_all(where, ready);
    return came > 0;
}

static void send_waiting(int where, double now)
{
    int ready = 0;

    for (unsigned at = oldest; at != newest && ready < BATCH; at++) {
        struct waiting *one = &waiting[at % WAITING];
        if (one->due <= now) {
            peers[ready] = one->peer;
            memcpy(packets[ready], one->packet, sizeof one->packet);
            prepare(ready++, one->from, one->length);
            one->due = INFINITY; /* it was sent */
        }
        if (at == oldest && isinf(one->due))
            oldest++;
    }
    send_all(where, ready);
}

static bool choose(const char *text) /* NAME=VALUE */
{
    const char *value = strchr(text, '=');

    if (value == NULL)
        return false;
    const size_t length = (size_t)(value++ - text);
    for (size_t which = 0; which < OPTIONS; which++) {
        if (strlen(names[which]) == length && memcmp(text, names[which], length) == 0) {
            option[which] = strtol(value, NULL, 10);
            return true;
        }
    }
    if (strncmp(text, "seed=", 5) != 0)
        return false;
    chance = strtoull(value, NULL, 10) * 2 + 1;
    return true;
}

static bool make_agents(void)
{
    agents = calloc((size_t)count, sizeof *agents);
    waiting = calloc(WAITING, sizeof *waiting);
    if (agents == NULL || waiting == NULL)
        return false;
    const double now = seconds(CLOCK_BOOTTIME);
    const int64_t unix_ticks = (int64_t)(seconds(CLOCK_REALTIME) * 1000) / option[TICK];
    for (long i = 0; i < count; i++) {
        /* Not near Unix time: the collector would take its clock for one that can be set. */
        do
            agents[i].begun = now - (double)((draw() >> 11) % 200000);
        while ((uint16_t)(unix_ticks - stamp_at(&agents[i], now) + 1024) < 2048);
        agents[i].quiet = INFINITY;
        agents[i].since = -INFINITY;
    }
    return true;
}

static int listening(void) /* says the port */
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t size = sizeof here;
    const int on = 1, room = 32 << 20, where = socket(AF_INET, SOCK_DGRAM, 0);

    (void)setsockopt(where, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    if (setsockopt(where, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) != 0)
        (void)setsockopt(where, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (bind(where, (struct sockaddr *)&here, sizeof here) != 0 ||
        getsockname(where, (struct sockaddr *)&here, &size) != 0) {
        perror("fake");
        return -1;
    }
    (void)printf("%d\n", ntohs(here.sin_port));
    (void)fflush(stdout);
    return where;
}

static bool obey_line(void) /* false at the end of the input */
{
    char line[200];
    size_t length = 0;
    ssize_t came;

    while ((came = read(STDIN_FILENO, line + length, 1)) == 1 && line[length] != '\n' &&
           length < sizeof line - 2)
        length++;
    if (came != 1)
        return false;
    line[length + 1] = '\0';
    obey(line, seconds(CLOCK_BOOTTIME));
    return true;
}

int main(int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (!choose(argv[i]))
            return fprintf(stderr, "fake: %s?\n", argv[i]) < 0 ? 1 : 2;
    count = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    if (count < 1 || count > MOST || option[VARIABLES] < 0 || option[VARIABLES] > 63 ||
        option[BEAT] < 1 || option[TICK] < 1) {
        (void)fputs("usage: fake_fleet COUNT [name=value]...; see fake_fleet.c\n", stderr);
        return 2;
    }
    if (!make_agents())
        return 1;
    const int where = listening();
    if (where < 0)
        return 1;
    for (;;) {
        struct pollfd ready[] = {{where, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
        (void)poll(ready, 2, oldest != newest ? 1 : -1);
        if (ready[1].revents != 0 && !obey_line())
            return 0;
        while (take(where, seconds(CLOCK_BOOTTIME)))
            ;
        send_waiting(where, seconds(CLOCK_BOOTTIME));
    }
}
