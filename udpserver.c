/* An agent for Linux: takes heartbeats and answers requests over UDP.   SPDX-License-Identifier: MIT
 *
 * udpserver.8 is its manual, dumpulse.h that of the library. One thread and one loop (the
 * last section) run everything: the options, the counters, the state file and the
 * service manager each have a section above it, and know nothing of sockets.
 */
#define _GNU_SOURCE /* NOLINT: recvmmsg and sendmmsg */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sock_diag.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "dumpulse.h"

enum { EXIT_USAGE = 2 };

static dumpulse agent;
static uint16_t stamp; /* the time now in ticks: what the clock hook returns */

/* ---- Saying things ---------------------------------------------------------------------- */

/* One line to a descriptor, or none: a reader that has stopped reading must not stop the
 * agent. A pipe that polls as writable takes 4096 bytes without blocking. */
static void write_line(int descriptor, const char *line, size_t length)
{
    struct pollfd room = {.fd = descriptor, .events = POLLOUT};

    if (poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0 &&
        write(descriptor, line, length) < 0)
        return; /* there is nobody to tell */
}

/* A line on stderr: at most 1 KB of it. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    static const char who[] = "udpserver: ";
    enum { WHO = sizeof who - 1, ROOM = 1024 };
    char line[ROOM + 1] = "udpserver: ";
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(line + WHO, ROOM - WHO, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if (length >= ROOM - WHO)
        length = ROOM - WHO - 1;
    line[WHO + length] = '\n';
    write_line(STDERR_FILENO, line, (size_t)(WHO + length + 1));
}

/* ---- Options ---------------------------------------------------------------------------- */

enum {
    MAX_BINDS = 16,
    MAX_RULES = 64,
    ADDRESS_SIZE = 16, /* every address is kept as IPv6; ::ffff:a.b.c.d is IPv4's a.b.c.d */
    MAPPED = 12        /* bytes before an IPv4 address in there */
};

struct rule { /* who may ask: the first `bits` of the address must be these */
    uint8_t address[ADDRESS_SIZE];
    unsigned bits;
    const char *text;
};

static struct {
    const char *port_text;
    uint16_t port;
    const char *binds[MAX_BINDS];
    size_t bind_count;
    struct rule rules[MAX_RULES];
    size_t rule_count;
    uint32_t rate, rate_total; /* reports a second, for one source and for all */
    uint32_t tick;             /* ms */
    bool self;
    uint8_t self_variable, self_sender;
    const char *state; /* a path, or NULL */
    uint32_t state_every; /* s */
    bool json, help, version;
    char wrong[256]; /* what is wrong with the arguments */
} options;

/* Always false: for `return wrong(…)` in whatever reads an option. */
__attribute__((format(printf, 1, 2))) static bool wrong(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(options.wrong, sizeof options.wrong, format, arguments);
    va_end(arguments);
    return false;
}

/* A decimal number, digits alone, up to the character `end`; NULL if there is none or it is
 * not in the range, else where it ended. */
static const char *read_number(const char *text, char end, uint32_t low, uint32_t high,
                               uint32_t *number)
{
    uint32_t value = 0;

    if (*text == end)
        return NULL;
    for (; *text != end; text++) {
        if (*text < '0' || *text > '9')
            return NULL;
        value = value * 10 + (uint32_t)(*text - '0'); /* < 10^7 * 10: `high` is below 10^7 */
        if (value > high)
            return NULL;
    }
    *number = value;
    return value >= low ? text : NULL;
}

static bool set_number(const char *name, const char *text, uint32_t low, uint32_t high,
                       uint32_t *number)
{
    if (read_number(text, '\0', low, high, number) != NULL)
        return true;
    return wrong("%s must be a number from %u to %u, not '%.40s'", name, low, high, text);
}

static bool set_port(const char *text)
{
    uint32_t port = 0;

    if (options.port_text != NULL)
        return wrong("one PORT is enough: '%.40s' is too many", text);
    if (!set_number("PORT", text, 0, UINT16_MAX, &port))
        return false;
    options.port_text = text;
    options.port = (uint16_t)port;
    return true;
}

static bool set_bind(const char *text)
{
    if (options.bind_count == MAX_BINDS)
        return wrong("--bind can be given %d times, no more", MAX_BINDS);
    options.binds[options.bind_count++] = text;
    return true;
}

static bool set_allow(const char *text)
{
    struct rule rule = {.text = text};
    char address[INET6_ADDRSTRLEN];
    const char *slash = strchrnul(text, '/');
    const size_t length = (size_t)(slash - text);
    uint32_t bits = 0;
    unsigned before = 0; /* bits of an IPv4 address's place */

    if (options.rule_count == MAX_RULES)
        return wrong("--allow can be given %d times, no more", MAX_RULES);
    if (length >= sizeof address)
        return wrong("--allow wants an address like 192.0.2.0/24 or 2001:db8::/32, not '%.60s'",
                     text);
    memcpy(address, text, length);
    address[length] = '\0';
    if (inet_pton(AF_INET, address, rule.address + MAPPED) == 1) {
        memset(rule.address + MAPPED - 2, 0xFF, 2);
        before = 8 * MAPPED;
    } else if (inet_pton(AF_INET6, address, rule.address) != 1) {
        return wrong("--allow wants an address like 192.0.2.0/24 or 2001:db8::/32, not '%.60s'",
                     text);
    }
    const uint32_t most = 8 * ADDRESS_SIZE - before;
    if (*slash == '\0')
        bits = most;
    else if (read_number(slash + 1, '\0', 0, most, &bits) == NULL)
        return wrong("--allow %.60s: after the slash goes a number from 0 to %u", text, most);
    rule.bits = before + bits;
    for (unsigned bit = rule.bits; bit < 8 * ADDRESS_SIZE; bit++)
        if ((rule.address[bit / 8] & (0x80U >> bit % 8)) != 0)
            return wrong("--allow %.60s: the address has bits set beyond the first %u", text, bits);
    options.rules[options.rule_count++] = rule;
    return true;
}

static bool set_rate(const char *text)
{
    return set_number("--rate", text, 1, 1000000, &options.rate);
}

static bool set_rate_total(const char *text)
{
    return set_number("--rate-total", text, 1, 1000000, &options.rate_total);
}

static bool set_self(const char *text)
{
    uint32_t variable, sender = 1;
    const char *end = strchrnul(text, ':');

    if (read_number(text, *end, 0, DUMPULSE_VARIABLES - 1, &variable) == NULL ||
        (*end == ':' && read_number(end + 1, '\0', 1, UINT8_MAX, &sender) == NULL))
        return wrong("--self wants a variable from 0 to 63, or that and a sender from 1 to 255 "
                     "like 0:1, not '%.40s'",
                     text);
    options.self = true;
    options.self_variable = (uint8_t)variable;
    options.self_sender = (uint8_t)sender;
    return true;
}

static bool set_tick(const char *text)
{
    return set_number("--tick", text, 1, 3600000, &options.tick);
}

static bool set_state(const char *text)
{
    if (*text == '\0' || strlen(text) >= PATH_MAX - sizeof ".damaged")
        return wrong("--state wants the name of a file, shorter than %d bytes", PATH_MAX - 10);
    options.state = text;
    return true;
}

static bool set_state_every(const char *text)
{
    return set_number("--state-every", text, 1, 86400, &options.state_every);
}

static bool set_json(const char *text)
{
    (void)text; /* it has no value */
    return options.json = true;
}

static bool set_help(const char *text)
{
    (void)text;
    return options.help = true;
}

static bool set_version(const char *text)
{
    (void)text;
    return options.version = true;
}

static const struct {
    const char *name, *value; /* value: NULL if the option takes none */
    bool (*set)(const char *text);
    const char *help;
} known[] = {
    {"--bind", "ADDRESS", set_bind, "listen there; may be repeated; :: is all of IPv4 and IPv6"},
    {"--allow", "CIDR", set_allow, "who may ask for reports; may be repeated"},
    {"--rate", "N", set_rate, "reports a second for one source (10)"},
    {"--rate-total", "N", set_rate_total, "reports a second for all of them (1000)"},
    {"--self", "VARIABLE[:SENDER]", set_self, "stamp this variable before every report"},
    {"--tick", "MS", set_tick, "unit of the timestamps in milliseconds (1000)"},
    {"--state", "FILE", set_state, "keep the table there over a restart"},
    {"--state-every", "S", set_state_every, "seconds between two writes of it (10)"},
    {"--stats-json", NULL, set_json, "print the counters as JSON"},
    {"--help", NULL, set_help, "print this"},
    {"--version", NULL, set_version, "print the version"},
};
enum { KNOWN = sizeof known / sizeof known[0] };

static void print_help(void)
{
    char option[40];

    (void)printf("usage: udpserver [OPTION]... [PORT]\n"
                 "\n"
                 "A Dumpulse agent: takes heartbeats and answers requests over UDP, at port 9060\n"
                 "of 127.0.0.1 and ::1 unless told otherwise. Port 0 is any that is free.\n"
                 "\n");
    for (size_t i = 0; i < KNOWN; i++) {
        (void)snprintf(option, sizeof option, "%s %s", known[i].name,
                       known[i].value == NULL ? "" : known[i].value);
        (void)printf("  %-24s %s\n", option, known[i].help);
    }
    (void)printf("\n"
                 "Whoever reaches it can set variables. Only loopback may ask for reports unless\n"
                 "--allow names others. SIGUSR1 prints the counters, SIGTERM and SIGINT end it.\n"
                 "Exit status: 0 ended by a signal, 1 cannot run, 2 wrong arguments.\n");
}

/* One argument, and the one after it (or NULL) in case that is its value. Returns how many
 * were used: 0 if something is wrong with them. */
static int read_argument(const char *argument, const char *next)
{
    const char *equals = strchrnul(argument, '=');
    const size_t length = (size_t)(equals - argument);

    if (argument[0] != '-')
        return set_port(argument) ? 1 : 0;
    for (size_t i = 0; i < KNOWN; i++) {
        if (strlen(known[i].name) != length || memcmp(argument, known[i].name, length) != 0)
            continue;
        if (known[i].value == NULL) {
            if (*equals != '\0')
                return wrong("%s takes no value", known[i].name);
            return known[i].set("") ? 1 : 0;
        }
        if (*equals != '\0')
            return known[i].set(equals + 1) ? 1 : 0;
        if (next == NULL)
            return wrong("%s needs a value: %s", known[i].name, known[i].value);
        return known[i].set(next) ? 2 : 0;
    }
    return wrong("there is no option '%.40s': --help lists them", argument);
}

/* False, and options.wrong says why, if the arguments make no sense. */
static bool read_arguments(int count, char *const *arguments)
{
    memset(&options, 0, sizeof options);
    options.port = 9060;
    options.rate = 10;
    options.rate_total = 1000;
    options.tick = 1000;
    options.state_every = 10;
    for (int i = 1; i < count;) {
        const int used = read_argument(arguments[i], i + 1 < count ? arguments[i + 1] : NULL);
        if (used == 0)
            return false;
        i += used;
    }
    if (options.rule_count == 0)
        return set_allow("127.0.0.0/8") && set_allow("::1");
    return true;
}

/* ---- Counters --------------------------------------------------------------------------- */

/* Every packet is counted once more after PACKETS, up to UNSENT; the rest are no packets
 * that were taken. */
enum {
    PACKETS,
    HEARTBEATS,
    REPORTS,
    LENGTH,
    MAGIC,
    CHECKSUM,
    VARIABLE,
    NOT_ALLOWED,
    RATE,
    UNSENT,
    DROPS,
    FAILED_SAVES,
    COUNTERS
};

static uint64_t counters[COUNTERS];

static const struct {
    const char *readable, *key;
} names[COUNTERS] = {
    [PACKETS] = {"packets", "packets"},
    [HEARTBEATS] = {": heartbeats", "heartbeats"},
    [REPORTS] = {", reports", "reports"},
    [LENGTH] = {"; refused for length", "length"},
    [MAGIC] = {", magic", "magic"},
    [CHECKSUM] = {", checksum", "checksum"},
    [VARIABLE] = {", variable", "variable"},
    [NOT_ALLOWED] = {", not allowed", "not_allowed"},
    [RATE] = {", rate", "rate"},
    [UNSENT] = {"; reports unsent", "unsent"},
    [DROPS] = {"; dropped by the kernel", "drops"},
    [FAILED_SAVES] = {"; failed saves", "failed_saves"},
};

static void print_counters(void)
{
    char line[COUNTERS * 48]; /* a name is below 26 characters, a number below 21 */
    size_t length = 0;

    for (size_t i = 0; i < COUNTERS; i++) {
        const char *format = options.json ? "%s\"%s\":%llu" : "%s%s %llu";
        const char *before = !options.json ? "" : i == 0 ? "{" : ",";
        const char *name = options.json ? names[i].key : names[i].readable;
        length += (size_t)snprintf(line + length, sizeof line - length, format, before, name,
                                   (unsigned long long)counters[i]);
    }
    length += (size_t)snprintf(line + length, sizeof line - length, options.json ? "}\n" : "\n");
    write_line(STDOUT_FILENO, line, length);
}

/* ---- Time ------------------------------------------------------------------------------- */

static uint64_t clock_in(clockid_t clock, uint64_t per_second)
{
    struct timespec now;

    (void)clock_gettime(clock, &now); /* cannot fail for these clocks */
    return (uint64_t)now.tv_sec * per_second +
           (uint64_t)now.tv_nsec / (UINT64_C(1000000000) / per_second);
}

static uint64_t unix_ms(void)
{
    return clock_in(CLOCK_REALTIME, 1000);
}

uint16_t dumpulse_get_timestamp(void)
{
    return stamp;
}

/* ---- Transport -------------------------------------------------------------------------- */

enum {
    BATCH = 64,
    ROUND = 64,           /* batches from one socket before the next gets its turn */
    PACKET_ROOM = 16,     /* more than 8: a longer datagram is seen to be longer */
    BUFFER = 4096 * 1024, /* asked for; the kernel doubles it, and counts 768 for a packet */
    MAX_SOCKETS = MAX_BINDS
};

static struct pollfd sockets[MAX_SOCKETS];
static size_t socket_count;

union source {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static struct mmsghdr incoming[BATCH], outgoing[BATCH];
static struct iovec incoming_bytes[BATCH], outgoing_bytes[BATCH];
static uint8_t packets[BATCH][PACKET_ROOM];
static uint8_t reports[BATCH][DUMPULSE_REPORT_SIZE];
static union source sources[BATCH];
static unsigned outgoing_count;

static void prepare_batches(void)
{
    for (size_t i = 0; i < BATCH; i++) {
        incoming_bytes[i] = (struct iovec){packets[i], PACKET_ROOM};
        incoming[i].msg_hdr = (struct msghdr){.msg_name = &sources[i],
                                              .msg_namelen = sizeof sources[i],
                                              .msg_iov = &incoming_bytes[i],
                                              .msg_iovlen = 1};
        outgoing_bytes[i] = (struct iovec){reports[i], DUMPULSE_REPORT_SIZE};
        outgoing[i].msg_hdr = (struct msghdr){.msg_iov = &outgoing_bytes[i], .msg_iovlen = 1};
    }
}

/* The agent's bytes change with the next heartbeat: they are copied. There is room, as a
 * batch of packets gives a batch of reports at most. */
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    const struct msghdr *request = (const struct msghdr *)context;
    struct msghdr *reply = &outgoing[outgoing_count].msg_hdr;

    memcpy(reports[outgoing_count], packet, length);
    reply->msg_name = request->msg_name;
    reply->msg_namelen = request->msg_namelen;
    outgoing_count++;
}

/* Whatever the kernel does not take at once is lost, and counted. */
static void send_reports(int descriptor)
{
    unsigned done = 0;

    while (done < outgoing_count) {
        const int sent =
            sendmmsg(descriptor, outgoing + done, outgoing_count - done, MSG_DONTWAIT);
        if (sent > 0) {
            counters[REPORTS] += (unsigned)sent;
            done += (unsigned)sent;
        } else { /* nothing to be done for the first of them */
            counters[UNSENT]++;
            done++;
        }
    }
    outgoing_count = 0;
}

/* Why a packet was refused, by the first of these that is wrong with it. */
static size_t refusal(const uint8_t *packet, size_t length)
{
    uint8_t right[DUMPULSE_PACKET_SIZE];

    if (length != DUMPULSE_PACKET_SIZE)
        return LENGTH;
    if (packet[4] != DUMPULSE_MAGIC)
        return MAGIC;
    dumpulse_make_heartbeat(right, packet[5], packet[6], packet[7]);
    return memcmp(right, packet, sizeof right) == 0 ? VARIABLE : CHECKSUM;
}

static unsigned take_batch(int descriptor)
{
    const int count = recvmmsg(descriptor, incoming, BATCH, MSG_DONTWAIT, NULL);

    if (count <= 0)
        return 0;
    stamp = (uint16_t)(unix_ms() / options.tick);
    counters[PACKETS] += (unsigned)count;
    for (size_t i = 0; i < (size_t)count; i++) {
        if (options.self)
            (void)dumpulse_record(&agent, options.self_variable, options.self_sender, 0);
        switch (dumpulse_process_packet(&agent, packets[i], incoming[i].msg_len,
                                        &incoming[i].msg_hdr)) {
        case DUMPULSE_HEARTBEAT: counters[HEARTBEATS]++; break;
        case DUMPULSE_REFUSED: counters[refusal(packets[i], incoming[i].msg_len)]++; break;
        default: break; /* a report: counted when it is sent */
        }
    }
    send_reports(descriptor);
    for (size_t i = 0; i < (size_t)count; i++)
        incoming[i].msg_hdr.msg_namelen = sizeof sources[i];
    return (unsigned)count;
}

static bool open_socket(const char *address, bool optional)
{
    char port[8];
    struct addrinfo *found;
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_DGRAM};
    union source bound;
    socklen_t length = sizeof bound;

    (void)snprintf(port, sizeof port, "%u", options.port);
    if (getaddrinfo(address, port, &hints, &found) != 0) {
        say("--bind wants an address of this machine in numbers, not '%.60s'", address);
        exit(EXIT_USAGE);
    }
    const int made = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int off = 0, buffer = BUFFER;
    if (found->ai_family == AF_INET6)
        (void)setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (setsockopt(made, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) != 0)
        (void)setsockopt(made, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    if (made < 0 || bind(made, found->ai_addr, found->ai_addrlen) != 0) {
        if (!optional)
            say("cannot listen on %s, port %u: %s", address, options.port, strerror(errno));
        freeaddrinfo(found);
        if (made >= 0)
            (void)close(made);
        return optional;
    }
    freeaddrinfo(found);
    (void)getsockname(made, &bound.any, &length);
    options.port = ntohs(bound.v4.sin_port);
    sockets[socket_count++] = (struct pollfd){.fd = made, .events = POLLIN};
    return true;
}

/* ---- The loop --------------------------------------------------------------------------- */

static volatile sig_atomic_t ending, asked;

static void on_signal(int number)
{
    if (number == SIGUSR1)
        asked = 1;
    else
        ending = 1;
}

int main(int argc, char **argv)
{
    if (!read_arguments(argc, argv)) {
        say("%s", options.wrong);
        return EXIT_USAGE;
    }
    if (options.help) {
        print_help();
        return EXIT_SUCCESS;
    }
    sigset_t mine, before;
    const struct sigaction action = {.sa_handler = on_signal};
    (void)sigemptyset(&mine);
    (void)sigaddset(&mine, SIGUSR1);
    (void)sigaddset(&mine, SIGTERM);
    (void)sigaddset(&mine, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &mine, &before);
    (void)sigaction(SIGUSR1, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    prepare_batches();
    if (options.bind_count == 0) {
        if (!open_socket("127.0.0.1", false) || !open_socket("::1", true))
            return EXIT_FAILURE;
    }
    for (size_t i = 0; i < options.bind_count; i++)
        if (!open_socket(options.binds[i], false))
            return EXIT_FAILURE;
    say("listening on 127.0.0.1:%u", options.port);
    say("reports to 127.0.0.0/8");
    do {
        (void)ppoll(sockets, socket_count, NULL, &before);
        for (size_t i = 0; i < socket_count; i++)
            for (size_t round = 0; round < ROUND && take_batch(sockets[i].fd) == BATCH; round++) {
            }
        if (asked) {
            asked = 0;
            print_counters();
        }
    } while (!ending);
    print_counters();
    return EXIT_SUCCESS;
}
