/* An agent for Linux: takes heartbeats and answers requests over UDP.   SPDX-License-Identifier: MIT
 *
 * udpserver.8 is its manual, dumpulse.h that of the library. One thread and one loop (the
 * last section) run everything: the options, the counters, the state file and the
 * service manager each have a section above it, and know nothing of sockets.
 */
#define _GNU_SOURCE /* NOLINT: for recvmmsg and sendmmsg */
#include <arpa/inet.h>
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sock_diag.h>
#include <net/if.h>
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

/* One line on stderr, cut off at 1 KB, whatever an argument had in it. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char text[1024], line[sizeof text + 16];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *at = text; *at != '\0'; at++)
        if (iscntrl((unsigned char)*at))
            *at = '?';
    const int length = snprintf(line, sizeof line, "udpserver: %s\n", text);
    write_line(STDERR_FILENO, line, (size_t)length);
}

/* ---- Options ---------------------------------------------------------------------------- */

enum {
    MAX_BINDS = 16,
    MAX_RULES = 64,
    ADDRESS_SIZE = 16, /* every address is kept as IPv6: IPv4's a.b.c.d as ::ffff:a.b.c.d */
    ADDRESS_BITS = 128,
    MAPPED = 12, /* bytes before an IPv4 address in there, */
    MAPPED_BITS = 96,
    LONGEST_PATH = PATH_MAX - (int)sizeof ".damaged"
};

static const uint8_t mapped[MAPPED] = {[10] = 0xFF, [11] = 0xFF};

struct place { /* where to listen */
    uint8_t address[ADDRESS_SIZE];
    uint32_t scope; /* the interface of a link-local address */
};

struct rule { /* who may ask: where the mask has a bit, the address must have this one */
    uint8_t address[ADDRESS_SIZE], mask[ADDRESS_SIZE];
    const char *text;
};

static struct {
    const char *port_text;
    uint64_t port;
    struct place binds[MAX_BINDS];
    size_t bind_count;
    struct rule rules[MAX_RULES];
    size_t rule_count;
    uint64_t rate, rate_total; /* reports a second, for one source and for all */
    uint64_t tick;             /* ms */
    uint64_t self_variable, self_sender;
    const char *state;    /* a path, or NULL */
    uint64_t state_every; /* s */
    bool allow, self, json, help, version;
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

/* A decimal number up to the character `end`, digits alone. False if there is none, or it
 * is not in the range. */
static bool read_number(const char *text, char end, uint64_t low, uint64_t high, uint64_t *number)
{
    uint64_t value = 0;

    if (*text == end)
        return false;
    for (; *text != end; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (uint64_t)(*text - '0'); /* no overflow: high <= 10^18 */
        if (value > high)
            return false;
    }
    *number = value;
    return value >= low;
}

static bool set_number(const char *name, const char *text, uint64_t low, uint64_t high,
                       uint64_t *number)
{
    if (read_number(text, '\0', low, high, number))
        return true;
    return wrong("%s must be a number from %llu to %llu, not '%.40s'", name,
                 (unsigned long long)low, (unsigned long long)high, text);
}

static bool set_port(const char *text)
{
    if (options.port_text != NULL)
        return wrong("one PORT is enough: '%.40s' is too many", text);
    options.port_text = text;
    return set_number("PORT", text, 0, UINT16_MAX, &options.port);
}

/* An address in numbers, of so many characters. */
static bool read_address(const char *text, size_t length, uint8_t address[ADDRESS_SIZE])
{
    char copy[INET6_ADDRSTRLEN];

    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    memcpy(address, mapped, MAPPED);
    return inet_pton(AF_INET, copy, address + MAPPED) == 1 ||
           inet_pton(AF_INET6, copy, address) == 1;
}

static bool is_ipv4(const uint8_t address[ADDRESS_SIZE])
{
    return memcmp(address, mapped, MAPPED) == 0;
}

/* Does the first one take in what the other listens on? */
static bool covers(const struct place *all, const struct place *one)
{
    static const uint8_t zeros[ADDRESS_SIZE];
    const size_t prefix = is_ipv4(all->address) ? MAPPED : 0; /* :: has IPv4, too */

    if (memcmp(all, one, sizeof *all) == 0)
        return true;
    return memcmp(all->address, one->address, prefix) == 0 &&
           memcmp(all->address + prefix, zeros, ADDRESS_SIZE - prefix) == 0;
}

static bool set_bind(const char *text)
{
    const char *percent = strchrnul(text, '%');
    struct place *place = &options.binds[options.bind_count];

    if (options.bind_count == MAX_BINDS)
        return wrong("--bind may be given %d times, no more", MAX_BINDS);
    if (!read_address(text, (size_t)(percent - text), place->address))
        return wrong("--bind wants an address in numbers like 192.0.2.1 or :: and not '%.60s'",
                     text);
    if (*percent != '\0' && (place->scope = if_nametoindex(percent + 1)) == 0)
        return wrong("--bind %.60s: there is no such interface", text);
    for (const struct place *earlier = options.binds; earlier != place; earlier++)
        if (covers(place, earlier) || covers(earlier, place))
            return wrong("--bind %.60s has what another --bind has: :: is all of IPv4 and IPv6, "
                         "0.0.0.0 all of IPv4; give it alone",
                         text);
    options.bind_count++;
    return true;
}

static bool add_rule(const char *text)
{
    struct rule *rule = &options.rules[options.rule_count];
    const char *slash = strchrnul(text, '/');

    if (options.rule_count == MAX_RULES)
        return wrong("--allow may be given %d times, no more", MAX_RULES);
    if (!read_address(text, (size_t)(slash - text), rule->address))
        return wrong("--allow wants an address like 192.0.2.0/24 or 2001:db8::/32, not '%.60s'",
                     text);
    const uint64_t before = is_ipv4(rule->address) ? MAPPED_BITS : 0;
    uint64_t bits = ADDRESS_BITS - before;
    if (*slash != '\0' && !read_number(slash + 1, '\0', 0, bits, &bits))
        return wrong(
            "--allow %.60s: after the slash of an IPv%c network goes a number from 0 to %u", text,
            before != 0 ? '4' : '6', (unsigned)bits);
    memset(rule->mask, 0, sizeof rule->mask);
    for (size_t bit = 0; bit < before + bits; bit++)
        rule->mask[bit / 8] |= (uint8_t)(0x80U >> bit % 8);
    for (size_t i = 0; i < ADDRESS_SIZE; i++)
        if ((rule->address[i] & ~rule->mask[i]) != 0)
            return wrong("--allow %.60s: the address has bits set beyond the first %u", text,
                         (unsigned)bits);
    rule->text = text;
    options.rule_count++;
    return true;
}

static bool set_allow(const char *text)
{
    options.allow = true;
    return add_rule(text);
}

static bool set_self(const char *text)
{
    const char *colon = strchrnul(text, ':');

    options.self = true;
    options.self_sender = 1;
    if (read_number(text, *colon, 0, DUMPULSE_VARIABLES - 1, &options.self_variable) &&
        (*colon == '\0' || read_number(colon + 1, '\0', 1, UINT8_MAX, &options.self_sender)))
        return true;
    return wrong("--self wants a variable from 0 to 63, or one and a sender from 1 to 255 "
                 "like 0:1, not '%.40s'",
                 text);
}

static bool set_state(const char *text)
{
    if (*text == '\0' || strlen(text) > LONGEST_PATH)
        return wrong("--state wants the name of a file, of %d bytes at most", LONGEST_PATH);
    options.state = text;
    return true;
}

static const struct {
    const char *name, *value, *help;
    bool (*set)(const char *text); /* false: options.wrong says why; or NULL, and then */
    bool *flag;                    /* what to set if there is no value, or else */
    uint64_t *number, low, high;   /* a number in that range */
} known[] = {
    {"--bind", "ADDRESS", "listen there (repeatable); :: is IPv4 and IPv6", .set = set_bind},
    {"--allow", "CIDR", "who may ask for reports (repeatable)", .set = set_allow},
    {"--rate", "N", "reports a second for one source (10)", NULL, NULL, &options.rate, 1, 1000000},
    {"--rate-total", "N", "reports a second for all of them (1000)", NULL, NULL,
     &options.rate_total, 1, 1000000},
    {"--self", "VARIABLE[:SENDER]", "stamp this variable before every report", .set = set_self},
    {"--tick", "MS", "unit of the timestamps in milliseconds (1000)", NULL, NULL, &options.tick, 1,
     3600000},
    {"--state", "FILE", "keep the table there over a restart", .set = set_state},
    {"--state-every", "S", "seconds between two writes of it (10)", NULL, NULL,
     &options.state_every, 1, 86400},
    {"--stats-json", NULL, "print the counters as JSON", .flag = &options.json},
    {"--help", NULL, "print this", .flag = &options.help},
    {"--version", NULL, "print the version", .flag = &options.version},
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

/* Takes the value of an option (NULL: none was given). */
static bool set_option(size_t i, const char *text)
{
    if (known[i].flag != NULL) {
        *known[i].flag = true;
        return text == NULL || wrong("%s takes no value", known[i].name);
    }
    if (text == NULL)
        return wrong("%s needs a value: %s", known[i].name, known[i].value);
    if (known[i].set != NULL)
        return known[i].set(text);
    return set_number(known[i].name, text, known[i].low, known[i].high, known[i].number);
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
        if (*equals == '=' || known[i].flag != NULL)
            return set_option(i, *equals == '=' ? equals + 1 : NULL) ? 1 : 0;
        return set_option(i, next) ? 2 : 0;
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
    return options.allow || (add_rule("127.0.0.0/8") && add_rule("::1"));
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

static const uint64_t SECOND = UINT64_C(1000000000); /* ns */

static uint64_t nanoseconds(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now); /* these clocks cannot fail */
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static uint64_t unix_ms(void)
{
    return nanoseconds(CLOCK_REALTIME) / 1000000;
}

uint16_t dumpulse_get_timestamp(void)
{
    return stamp;
}

/* ---- The state file --------------------------------------------------------------------- */

/* Numbers are big-endian: 8 bytes "Dumpulse", 4 version, 4 tick in ms, 8 Unix time of the
 * writing in ms, 256 the entries as in a report, 4 CRC-32 (as zlib's) of all before. */
enum {
    STATE_VERSION = 1,
    VERSION_AT = 8,
    TICK_AT = 12,
    WRITTEN_AT = 16,
    ENTRIES_AT = 24,
    ENTRIES_SIZE = DUMPULSE_REPORT_SIZE - 4,
    CRC_AT = ENTRIES_AT + ENTRIES_SIZE,
    STATE_SIZE = CRC_AT + 4
};

static uint8_t saved_entries[ENTRIES_SIZE]; /* what the file holds */
static int state_lock = -1; /* the file itself, locked: no other server may write it */
static bool save_failed;

static void put_number(uint8_t *bytes, size_t size, uint64_t number)
{
    while (size-- != 0) {
        bytes[size] = (uint8_t)number;
        number >>= 8;
    }
}

static uint64_t get_number(const uint8_t *bytes, size_t size)
{
    uint64_t number = 0;

    while (size-- != 0)
        number = number << 8 | *bytes++;
    return number;
}

static uint32_t crc32_of(const uint8_t *bytes, size_t size)
{
    uint32_t crc = UINT32_MAX;

    while (size-- != 0) {
        crc ^= *bytes++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320U : 0);
    }
    return ~crc;
}

static void encode_state(uint8_t state[STATE_SIZE], const dumpulse *from, uint64_t now_ms)
{
    memcpy(state, "Dumpulse", VERSION_AT);
    put_number(state + VERSION_AT, 4, STATE_VERSION);
    put_number(state + TICK_AT, 4, options.tick);
    put_number(state + WRITTEN_AT, 8, now_ms);
    memcpy(state + ENTRIES_AT, from->report + 4, ENTRIES_SIZE);
    put_number(state + CRC_AT, 4, crc32_of(state, CRC_AT));
}

/* What the bytes are: only after STATE_GOOD has `to` changed. */
enum state_kind { STATE_GOOD, STATE_DAMAGED, STATE_OTHER_VERSION, STATE_OTHER_TICK };

static enum state_kind decode_state(const uint8_t *state, size_t size, uint64_t now_ms,
                                    dumpulse *to, unsigned *forgotten)
{
    if (size != STATE_SIZE || memcmp(state, "Dumpulse", VERSION_AT) != 0 ||
        get_number(state + CRC_AT, 4) != crc32_of(state, CRC_AT))
        return STATE_DAMAGED;
    if (get_number(state + VERSION_AT, 4) != STATE_VERSION)
        return STATE_OTHER_VERSION;
    if (get_number(state + TICK_AT, 4) != options.tick)
        return STATE_OTHER_TICK;
    memcpy(to->report + 4, state + ENTRIES_AT, ENTRIES_SIZE);

    /* An entry that has grown older than a timestamp can tell would look young again: it is
     * forgotten. A clock that was set back makes nothing older. */
    const uint64_t written = get_number(state + WRITTEN_AT, 8) / options.tick;
    const uint64_t now = now_ms / options.tick, passed = now > written ? now - written : 0;
    *forgotten = 0;
    for (uint8_t i = 0; i < DUMPULSE_VARIABLES; i++) {
        uint8_t *entry = to->report + 4 + 4 * (size_t)i;
        const uint16_t age = (uint16_t)(written - dumpulse_read_entry(to->report, i).timestamp);
        if (get_number(entry, 4) != 0 && passed > (uint64_t)(UINT16_MAX - age)) {
            put_number(entry, 4, 0);
            ++*forgotten;
        }
    }
    return STATE_GOOD;
}

static bool is_same(const struct stat *one, const struct stat *other)
{
    return one->st_ino == other->st_ino && one->st_dev == other->st_dev;
}

/* A regular file, locked for this server alone; never waits, whatever the path is. Another server
 * may have put a new file in its place just before it was locked: then the path has another. What
 * is to be written must not be somebody else's file by another name. */
static int open_state(const char *path, int flags)
{
    struct stat status, now;
    const int file = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644);

    if (file < 0)
        return -1;
    int reason = EINVAL;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
        reason = EWOULDBLOCK;
        if (flags != O_RDONLY && status.st_nlink > 1)
            reason = EMLINK;
        else if (flock(file, LOCK_EX | LOCK_NB) != 0)
            reason = errno;
        else if (lstat(path, &now) == 0 && is_same(&now, &status))
            return file;
    }
    (void)close(file);
    errno = reason;
    return -1;
}

static const char *state_error(void)
{
    switch (errno) {
    case EINVAL:
    case ENXIO:
    case EISDIR: return "it is not a regular file";
    case ELOOP: return "it is a symbolic link: name the file itself";
    case EMLINK: return "it is a file of several names: remove it";
    case EWOULDBLOCK: return "another server uses it: give each its own";
    default: return strerror(errno);
    }
}

static bool write_state(int file)
{
    uint8_t state[STATE_SIZE];
    char path[PATH_MAX];

    encode_state(state, &agent, unix_ms());
    errno = EIO; /* should fewer bytes be written than asked, without an error */
    if (ftruncate(file, 0) != 0 || write(file, state, STATE_SIZE) != STATE_SIZE || fsync(file) != 0)
        return false;
    (void)snprintf(path, sizeof path, "%s.new", options.state);
    if (rename(path, options.state) != 0)
        return false;

    /* The new name lasts once its directory is on the disk; some file systems cannot say. */
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        slash[1] = '\0';
    const int directory = open(slash == NULL ? "." : path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        (void)fsync(directory);
        (void)close(directory);
    }
    memcpy(saved_entries, agent.report + 4, ENTRIES_SIZE);
    return true;
}

/* Is there a FILE that this server has neither read nor written? Another has, then, which was
 * started at the same time, or after FILE was removed. */
static bool is_taken(void)
{
    struct stat mine, now;

    return lstat(options.state, &now) == 0 &&
           (state_lock < 0 || fstat(state_lock, &mine) != 0 || !is_same(&now, &mine));
}

/* Under another name first: at any moment FILE is a whole one, the old or the new. Whoever has
 * locked that name is the only one to put a FILE in place. Packets wait in the sockets' buffers
 * meanwhile. */
static bool save_state(void)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s.new", options.state);
    const int file = open_state(path, O_WRONLY | O_CREAT);
    const bool taken = file >= 0 && is_taken();
    if (taken) {
        (void)unlink(path);
        errno = EWOULDBLOCK;
    }
    if (file >= 0 && !taken && write_state(file)) {
        if (save_failed)
            say("state is written to %s again", options.state);
        if (state_lock >= 0)
            (void)close(state_lock);
        state_lock = file;
        save_failed = false;
        return true;
    }
    if (!save_failed)
        say("cannot write state to %s.new: %s", options.state, state_error());
    if (file >= 0)
        (void)close(file);
    counters[FAILED_SAVES]++;
    save_failed = true;
    return false;
}

static bool set_state_aside(const char *why)
{
    char aside[PATH_MAX];

    (void)snprintf(aside, sizeof aside, "%s.damaged", options.state);
    const bool older = access(aside, F_OK) == 0;
    if (rename(options.state, aside) != 0) {
        say("%s %s, and cannot be renamed to %s: %s", options.state, why, aside, strerror(errno));
        return false;
    }
    say("%s %s: set aside as %s%s; starting with an empty table", options.state, why, aside,
        older ? " in place of an older one" : "");
    return true;
}

/* Takes the table from an open file, or sets that aside. False, and has said why, if the server
 * must not start. */
static bool read_state(int file)
{
    uint8_t state[STATE_SIZE + 1]; /* one more, to see a longer file */
    unsigned forgotten = 0;
    const ssize_t size = read(file, state, sizeof state);

    if (size < 0) {
        say("cannot read %s: %s", options.state, strerror(errno));
        return false;
    }
    switch (decode_state(state, (size_t)size, unix_ms(), &agent, &forgotten)) {
    case STATE_DAMAGED: return set_state_aside("is damaged");
    case STATE_OTHER_VERSION: return set_state_aside("is of another version");
    case STATE_OTHER_TICK: {
        const unsigned tick = (unsigned)get_number(state + TICK_AT, 4);
        say("%s has ticks of %u ms: give --tick %u, or move it away", options.state, tick, tick);
        return false;
    }
    default: break; /* it is good */
    }
    if (forgotten != 0)
        say("%u variables of %s are too old to tell how old: forgotten", forgotten, options.state);
    return true;
}

/* What the last run has left, if it has; and that it can be written is found out now. */
static bool load_state(void)
{
    state_lock = open_state(options.state, O_RDONLY);
    if (state_lock < 0 && errno != ENOENT) {
        say("cannot use --state %s: %s", options.state, state_error());
        return false;
    }
    return (state_lock < 0 || read_state(state_lock)) && save_state();
}

/* ---- The service manager ---------------------------------------------------------------- */

/* systemd's notification and socket activation: see sd_notify(3), sd_watchdog_enabled(3) and
 * sd_listen_fds(3). */
enum { FIRST_PASSED = 3 }; /* descriptor of the first socket that is passed on */

static uint64_t environment_number(const char *name, uint64_t high)
{
    const char *text = getenv(name);
    uint64_t number;

    return text != NULL && read_number(text, '\0', 0, high, &number) ? number : 0;
}

/* A failure is said once, and tried again at the next sign of life. */
static void notify(const char *message)
{
    static bool told;
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un manager = {.sun_family = AF_UNIX};
    const size_t length = path == NULL ? 0 : strlen(path);

    if (path == NULL)
        return;
    errno = EINVAL;
    if ((path[0] == '/' || path[0] == '@') && length < sizeof manager.sun_path) {
        memcpy(manager.sun_path, path, length);
        if (path[0] == '@') /* a name that is in no directory */
            manager.sun_path[0] = '\0';
        const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        const ssize_t sent = sendto(descriptor, message, strlen(message),
                                    MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&manager,
                                    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
        const int reason = errno;
        if (descriptor >= 0)
            (void)close(descriptor);
        if (sent >= 0)
            return;
        errno = reason;
    }
    if (!told)
        say("cannot notify NOTIFY_SOCKET=%.110s: %s", path, strerror(errno));
    told = true;
}

/* Nanoseconds between two signs of life that the manager wants, or 0. */
static uint64_t watchdog_interval(void)
{
    const uint64_t pid = environment_number("WATCHDOG_PID", INT_MAX);

    if (getenv("WATCHDOG_PID") != NULL && pid != (uint64_t)getpid())
        return 0;
    return environment_number("WATCHDOG_USEC", UINT64_C(1000000000000000)) * 1000 / 2;
}

static size_t passed_sockets(void)
{
    if (environment_number("LISTEN_PID", INT_MAX) != (uint64_t)getpid())
        return 0;
    return (size_t)environment_number("LISTEN_FDS", INT_MAX);
}

/* ---- Who gets a report ------------------------------------------------------------------ */

union source {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Each source may have `rate` reports at once, and one more each 1/rate s. `free_at` is when
 * all of them are owed again: the later, the fewer are left. A source is an IPv4 address,
 * or 64 bits of an IPv6 one, as whoever has one such address has them all. */
struct bucket {
    uint64_t source, free_at; /* ns */
};

/* Sources that are known at a time. Where a source belongs is secret, so that nobody can
 * choose addresses that share a set. When all of its set are in use, a newcomer is refused:
 * forged sources can keep others from being answered, as --rate-total does, too, but nobody
 * gets more than --rate. */
enum { SET_BITS = 10, WAYS = 4 };

static struct bucket buckets[1U << SET_BITS][WAYS];
static struct bucket everybody;
static uint64_t set_secret;

static void choose_set_secret(void)
{
    if (getrandom(&set_secret, sizeof set_secret, GRND_NONBLOCK) != sizeof set_secret)
        set_secret = nanoseconds(CLOCK_REALTIME);
    set_secret |= 1U;
}

static void address_of(const union source *from, uint8_t address[ADDRESS_SIZE])
{
    if (from->any.sa_family == AF_INET6) {
        memcpy(address, &from->v6.sin6_addr, ADDRESS_SIZE);
    } else {
        memcpy(address, mapped, MAPPED);
        memcpy(address + MAPPED, &from->v4.sin_addr, ADDRESS_SIZE - MAPPED);
    }
}

/* IPv4 has rules of its own: ::/0 is all of IPv6 alone. */
static bool is_allowed(const uint8_t address[ADDRESS_SIZE])
{
    uint64_t from[2], rule[2], mask[2]; /* in whatever order of bytes: nothing is carried */

    memcpy(from, address, sizeof from);
    for (size_t i = 0; i < options.rule_count; i++) {
        memcpy(rule, options.rules[i].address, sizeof rule);
        memcpy(mask, options.rules[i].mask, sizeof mask);
        if ((((from[0] ^ rule[0]) & mask[0]) | ((from[1] ^ rule[1]) & mask[1])) == 0 &&
            is_ipv4(address) == is_ipv4(options.rules[i].address))
            return true;
    }
    return false;
}

/* Is another one due, of so many a second? */
static bool has_left(const struct bucket *bucket, uint64_t rate, uint64_t now)
{
    return bucket->free_at <= now + SECOND - SECOND / rate;
}

static void take_one(struct bucket *bucket, uint64_t rate, uint64_t now)
{
    if (bucket->free_at < now)
        bucket->free_at = now;
    bucket->free_at += SECOND / rate;
}

static bool is_within_rate(const uint8_t address[ADDRESS_SIZE])
{
    const uint64_t now = nanoseconds(CLOCK_MONOTONIC);
    uint64_t source;

    memcpy(&source, is_ipv4(address) ? address + 8 : address, sizeof source);
    source = be64toh(source);
    struct bucket *set = buckets[source * set_secret >> (64 - SET_BITS)];
    struct bucket *mine = NULL;

    for (size_t i = 0; i < WAYS && (mine == NULL || mine->source != source); i++)
        if (set[i].source == source || set[i].free_at <= now)
            mine = &set[i];
    if (mine == NULL)
        return false;
    if (mine->source != source)
        *mine = (struct bucket){source, now};
    if (!has_left(mine, options.rate, now) || !has_left(&everybody, options.rate_total, now))
        return false;
    take_one(mine, options.rate, now);
    take_one(&everybody, options.rate_total, now);
    return true;
}

/* ---- Packets ---------------------------------------------------------------------------- */

enum {
    BATCH = 64,       /* packets that are taken at once: what belongs to them fits in 16 KB */
    ROUND = 64,       /* batches from one socket, before the next one gets its turn */
    PACKET_ROOM = 16, /* more than 8: a longer datagram is seen to be longer */
    CONTROL_ROOM = CMSG_SPACE(sizeof(struct in6_pktinfo)),
    BUFFER = 4096 * 1024, /* bytes asked for; the kernel doubles it, and counts */
    PACKET_COST = 768,    /* that many for a packet */
    MAX_SOCKETS = MAX_BINDS
};

static struct pollfd sockets[MAX_SOCKETS];
static uint32_t drops[MAX_SOCKETS]; /* as the kernel counted them when it was asked last */
static size_t socket_count;
static uint64_t capacity = UINT64_MAX; /* packets that the smallest buffer holds */

static struct mmsghdr incoming[BATCH], outgoing[BATCH];
static struct iovec incoming_bytes[BATCH], outgoing_bytes[BATCH];
static uint8_t packets[BATCH][PACKET_ROOM];
static uint8_t reports[BATCH][DUMPULSE_REPORT_SIZE];
static union source sources[BATCH];
static size_t controls[BATCH][CONTROL_ROOM / sizeof(size_t)]; /* aligned as control messages are */
static unsigned outgoing_count;

static void prepare_batches(void)
{
    for (size_t i = 0; i < BATCH; i++) {
        incoming_bytes[i] = (struct iovec){packets[i], PACKET_ROOM};
        incoming[i].msg_hdr = (struct msghdr){.msg_name = &sources[i],
                                              .msg_iov = &incoming_bytes[i],
                                              .msg_iovlen = 1,
                                              .msg_control = &controls[i]};
        outgoing_bytes[i] = (struct iovec){reports[i], DUMPULSE_REPORT_SIZE};
        outgoing[i].msg_hdr = (struct msghdr){.msg_iov = &outgoing_bytes[i], .msg_iovlen = 1};
    }
}

/* Has the report leave from the address that was asked, of all that this machine has, by whatever
 * route: a reader believes no other. A link-local address means nothing without its interface. */
static void answer_from_there(struct msghdr *reply, struct msghdr *request)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(request);
    struct in6_pktinfo info;

    reply->msg_control = NULL;
    reply->msg_controllen = 0;
    if (header == NULL)
        return;
    if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
        memset(CMSG_DATA(header) + offsetof(struct in_pktinfo, ipi_ifindex), 0, sizeof(int));
    } else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_PKTINFO) {
        memcpy(&info, CMSG_DATA(header), sizeof info);
        if (!IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr))
            info.ipi6_ifindex = 0;
        memcpy(CMSG_DATA(header), &info, sizeof info);
    } else {
        return;
    }
    reply->msg_control = header;
    reply->msg_controllen = request->msg_controllen;
}

/* The agent's bytes change with the next heartbeat: they are copied. There is room, as a
 * batch of packets asks for a batch of reports at most. */
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    struct msghdr *request = (struct msghdr *)context;
    struct msghdr *reply = &outgoing[outgoing_count].msg_hdr;

    memcpy(reports[outgoing_count], packet, length);
    reply->msg_name = request->msg_name;
    reply->msg_namelen = request->msg_namelen;
    answer_from_there(reply, request);
    outgoing_count++;
}

/* What the kernel does not take at once is lost, and counted. An error is that of the first one
 * alone. Where it was sent to may be no address to send from, but one of a group or of everybody:
 * then it leaves from any. */
static void send_reports(int descriptor)
{
    unsigned done = 0;

    while (done < outgoing_count) {
        struct msghdr *first = &outgoing[done].msg_hdr;
        const int sent = sendmmsg(descriptor, outgoing + done, outgoing_count - done, MSG_DONTWAIT);
        if (sent <= 0 && errno != EAGAIN && first->msg_controllen != 0) {
            first->msg_controllen = 0;
            continue;
        }
        counters[sent > 0 ? REPORTS : UNSENT] += sent > 0 ? (unsigned)sent : 1;
        done += sent > 0 ? (unsigned)sent : 1;
    }
    outgoing_count = 0;
}

static void take_request(const uint8_t *packet, struct msghdr *from)
{
    uint8_t address[ADDRESS_SIZE];

    address_of((const union source *)from->msg_name, address);
    if (!is_allowed(address)) {
        counters[NOT_ALLOWED]++;
    } else if (!is_within_rate(address)) {
        counters[RATE]++;
    } else {
        if (options.self)
            (void)dumpulse_record(&agent, (uint8_t)options.self_variable,
                                  (uint8_t)options.self_sender, 0);
        (void)dumpulse_process_packet(&agent, packet, DUMPULSE_PACKET_SIZE, from);
    }
}

/* What to count for 8 bytes that are no request: HEARTBEATS, or the first thing that is wrong.
 * dumpulse_process_packet() would decide the same, but not say why; and a heartbeat would take
 * half as many instructions again, as the compiler does not know there how many bytes are summed. */
static size_t take_heartbeat(const uint8_t *packet)
{
    uint8_t right[DUMPULSE_PACKET_SIZE];

    if (packet[4] != DUMPULSE_MAGIC)
        return MAGIC;
    dumpulse_make_heartbeat(right, packet[5], packet[6], packet[7]);
    if (memcmp(packet, right, 4) != 0) /* of the rest they share every byte */
        return CHECKSUM;
    return dumpulse_record(&agent, packet[5], packet[6], packet[7]) == DUMPULSE_HEARTBEAT
               ? HEARTBEATS
               : VARIABLE;
}

/* Takes the packets that have come, BATCH at most; returns how many. The clock is read once, when
 * they are all here: no stamp is earlier than its packet's coming, and a clock that was read for
 * each packet would show another time only if it ticked in the few µs that a batch takes. */
static unsigned take_batch(size_t socket)
{
    static const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
    static unsigned used = BATCH; /* slots that the kernel has written to */

    for (size_t i = 0; i < used; i++) {
        incoming[i].msg_hdr.msg_namelen = sizeof sources[i];
        incoming[i].msg_hdr.msg_controllen = CONTROL_ROOM; /* whatever socket used it last */
    }
    const int count = recvmmsg(sockets[socket].fd, incoming, BATCH, MSG_DONTWAIT, NULL);
    used = count > 0 ? (unsigned)count : 0;
    if (used == 0)
        return 0;
    stamp = (uint16_t)(unix_ms() / options.tick);
    counters[PACKETS] += used;
    for (size_t i = 0; i < used; i++) {
        const uint8_t *packet = packets[i];
        const size_t length = incoming[i].msg_len;
        if (length != DUMPULSE_PACKET_SIZE)
            counters[LENGTH]++;
        else if (memcmp(packet, request, sizeof request) == 0)
            take_request(packet, &incoming[i].msg_hdr);
        else
            counters[take_heartbeat(packet)]++;
    }
    send_reports(sockets[socket].fd);
    return used;
}

/* One round: from each socket what it has, in bounds; only from those that are said to be
 * ready, if they were `polled`. Returns the number of packets. */
static unsigned take_packets(bool polled)
{
    unsigned taken = 0, batch;

    for (size_t socket = 0; socket < socket_count; socket++) {
        if (polled && sockets[socket].revents == 0)
            continue;
        for (unsigned i = 0; i < ROUND; i++) {
            taken += batch = take_batch(socket);
            if (batch < BATCH)
                break;
        }
    }
    return taken;
}

/* The kernel's counter, of 32 bits, is the one that SO_RXQ_OVFL attaches to packets; here it is
 * read when it is wanted, at no cost for the packets, and tells of the last ones, too. */
static uint32_t drops_of(int descriptor)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof memory;

    (void)getsockopt(descriptor, SOL_SOCKET, SO_MEMINFO, memory, &size);
    return memory[SK_MEMINFO_DROPS];
}

/* To be called before any has grown by 2^32. */
static void count_drops(void)
{
    for (size_t i = 0; i < socket_count; i++) {
        const uint32_t now = drops_of(sockets[i].fd);
        counters[DROPS] += (uint32_t)(now - drops[i]);
        drops[i] = now;
    }
}

/* ---- Sockets ---------------------------------------------------------------------------- */

/* Takes a bound socket into service. */
static bool add_socket(int descriptor)
{
    union source bound = {.any = {0}};
    socklen_t size = sizeof bound;
    const int wanted = BUFFER;
    int type = 0, granted = 0, everywhere;
    socklen_t int_size = sizeof type;

    if (socket_count == MAX_SOCKETS || getsockname(descriptor, &bound.any, &size) != 0 ||
        getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &int_size) != 0 || type != SOCK_DGRAM ||
        (bound.any.sa_family != AF_INET && bound.any.sa_family != AF_INET6))
        return false;
    (void)getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &granted, &int_size);
    if (granted < 2 * wanted) { /* the service manager may have had the right to set more */
        if (setsockopt(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof wanted) != 0)
            (void)setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted);
        (void)getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &granted, &int_size);
    }
    if ((uint64_t)granted / PACKET_COST < capacity)
        capacity = (uint64_t)granted / PACKET_COST;
    if (bound.any.sa_family == AF_INET) {
        everywhere = bound.v4.sin_addr.s_addr == htonl(INADDR_ANY);
        (void)setsockopt(descriptor, IPPROTO_IP, IP_PKTINFO, &everywhere, sizeof everywhere);
    } else {
        everywhere = IN6_IS_ADDR_UNSPECIFIED(&bound.v6.sin6_addr);
        (void)setsockopt(descriptor, IPPROTO_IPV6, IPV6_RECVPKTINFO, &everywhere,
                         sizeof everywhere);
    }
    drops[socket_count] = drops_of(descriptor); /* a passed one may have some from before */
    sockets[socket_count++] = (struct pollfd){.fd = descriptor, .events = POLLIN};
    return true;
}

static const char *describe(const union source *place)
{
    static char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 16];
    char address[INET6_ADDRSTRLEN + IF_NAMESIZE] = "?", port[8] = "?";

    (void)getnameinfo(&place->any, sizeof *place, address, sizeof address, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV | NI_DGRAM);
    (void)snprintf(text, sizeof text, place->any.sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
                   address, port);
    return text;
}

/* Returns 0 or an error number; `here` is where. */
static int open_socket(const struct place *place, union source *here)
{
    const int off = 0;
    const in_port_t port = htons((uint16_t)options.port);
    socklen_t size = sizeof *here;

    *here = (union source){.v6 = {.sin6_family = AF_INET6, .sin6_port = port}};
    memcpy(&here->v6.sin6_addr, place->address, ADDRESS_SIZE);
    here->v6.sin6_scope_id = place->scope;
    if (is_ipv4(place->address)) {
        here->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
        memcpy(&here->v4.sin_addr, place->address + MAPPED, ADDRESS_SIZE - MAPPED);
    }
    const int made = socket(here->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (made < 0)
        return errno;
    if (here->any.sa_family == AF_INET6) /* :: is for IPv4, too */
        (void)setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(made, &here->any, sizeof *here) != 0) {
        const int reason = errno;
        (void)close(made);
        return reason;
    }
    (void)getsockname(made, &here->any, &size);
    options.port = ntohs(here->v4.sin_port); /* IPv6 has it in the same place */
    (void)add_socket(made);
    return 0;
}

/* All sockets have one port: one that the first finds free may be taken for the next. */
static bool open_own_sockets(void)
{
    static const struct place loopback[] = {{.address = {[10] = 0xFF, [11] = 0xFF, 127, 0, 0, 1}},
                                            {.address = {[15] = 1}}};
    const bool unasked = options.bind_count == 0, any_port = options.port == 0;
    const struct place *places = unasked ? loopback : options.binds;
    const size_t count = unasked ? 2 : options.bind_count;
    unsigned tries = 16;
    union source here;

    for (size_t i = 0; i < count; i++) {
        const int reason = open_socket(&places[i], &here);
        if (reason == 0 || (unasked && i == 1 && reason != EADDRINUSE))
            continue; /* a machine may have no IPv6 */
        if (reason != EADDRINUSE || !any_port || i == 0 || --tries == 0) {
            say("cannot listen on %s: %s", describe(&here),
                reason == EADDRINUSE
                    ? "the port is in use; stop what listens there, or give another PORT"
                    : strerror(reason));
            return false;
        }
        while (socket_count != 0)
            (void)close(sockets[--socket_count].fd);
        options.port = 0;
        i = SIZE_MAX; /* begin again */
    }
    return true;
}

/* Those of the service manager, if it passes any. */
static bool open_sockets(void)
{
    const size_t passed = passed_sockets();

    if (passed == 0)
        return open_own_sockets();
    if (options.port_text != NULL || options.bind_count != 0) {
        say("sockets were passed by the service manager: give neither PORT nor --bind");
        return false;
    }
    for (size_t i = 0; i < passed; i++)
        if (!add_socket(FIRST_PASSED + (int)i)) {
            say("descriptor %d, passed by the service manager, is no UDP socket, or one too many",
                FIRST_PASSED + (int)i);
            return false;
        }
    return true;
}

static void say_what_is_served(void)
{
    char text[MAX_SOCKETS * (INET6_ADDRSTRLEN + IF_NAMESIZE + 16)];
    union source bound = {.any = {0}};
    size_t length = 0;

    for (size_t i = 0; i < socket_count; i++) {
        socklen_t size = sizeof bound;
        (void)getsockname(sockets[i].fd, &bound.any, &size);
        length += (size_t)snprintf(text + length, sizeof text - length, " %s", describe(&bound));
    }
    say("listening on%s", text);
    if (capacity < BUFFER / PACKET_COST)
        say("the kernel buffers %u packets only: for bursts raise net.core.rmem_max to %d",
            (unsigned)capacity, BUFFER);
    length = 0;
    for (size_t i = 0; i < options.rule_count; i++)
        if (length < sizeof text)
            length +=
                (size_t)snprintf(text + length, sizeof text - length, " %s", options.rules[i].text);
    say("reports to%s; %u a second each, %u in all%s", text, (unsigned)options.rate,
        (unsigned)options.rate_total, options.allow ? "" : "; --allow CIDR names others");
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

/* Signals come only while the loop waits, with the mask that this returns. */
static sigset_t catch_signals(void)
{
    static const int caught[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
    const struct sigaction action = {.sa_handler = on_signal};
    struct sigaction before;
    sigset_t blocked, waiting;

    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        (void)sigaction(caught[i], NULL, &before);
        if (caught[i] == SIGHUP && before.sa_handler == SIG_IGN)
            continue; /* as nohup wants it */
        (void)sigaddset(&blocked, caught[i]);
        (void)sigaction(caught[i], &action, NULL);
    }
    (void)sigprocmask(SIG_BLOCK, &blocked, &waiting);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
        (void)sigdelset(&waiting, caught[i]);
    return waiting;
}

static void show_life(void)
{
    notify("WATCHDOG=1");
}

static void save_if_changed(void)
{
    if (memcmp(saved_entries, agent.report + 4, ENTRIES_SIZE) != 0)
        (void)save_state();
}

static struct {
    void (*run)(void);
    uint64_t every, at; /* ns; every 0: never */
} tasks[] = {{count_drops, 60 * 1000000000ULL, 0}, {show_life, 0, 0}, {save_if_changed, 0, 0}};
enum { WATCHDOG = 1, SAVING = 2, TASKS = 3 };

/* Runs what is due, and returns when there will be something next. */
static uint64_t run_tasks(uint64_t now)
{
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < TASKS; i++) {
        if (tasks[i].every == 0)
            continue;
        if (tasks[i].at <= now) {
            tasks[i].run();
            tasks[i].at = now + tasks[i].every;
        }
        if (tasks[i].at < next)
            next = tasks[i].at;
    }
    return next;
}

/* Under load, to be woken for every packet costs more than to take it: at BUSY packets in a
 * round (32,000 a second, if it slept before) the server sleeps on for NAP and lets them queue up,
 * unless those of a nap might fill a quarter of a buffer. Packets and signals wait no longer than
 * that. It also sleeps when a socket was ready and had nothing: one that was passed may have errors
 * queued, or be shut down, and would be ready for ever. */
enum { BUSY = 16, NAP = 500000 /* ns */ };

static void serve(const sigset_t *waiting)
{
    uint64_t taken = 0, now = nanoseconds(CLOCK_MONOTONIC);
    int ready = 0;

    do {
        const uint64_t next = run_tasks(now);
        const bool behind = taken >= capacity / 4;
        const bool busy = taken >= BUSY || (ready > 0 && taken == 0);
        const uint64_t wait = behind ? 0 : busy ? NAP : next - now;
        const struct timespec timeout = {(time_t)(wait / SECOND), (long)(wait % SECOND)};
        ready = ppoll(sockets, busy ? 0 : socket_count, &timeout, waiting);
        taken = take_packets(ready > 0);
        if (asked) {
            asked = 0;
            count_drops();
            print_counters();
        }
        now = nanoseconds(CLOCK_MONOTONIC);
    } while (!ending);
    /* What had come before the signal is taken: at most what a buffer holds. */
    for (uint64_t last = 0; taken != 0 && last < capacity; last += taken)
        taken = take_packets(false);
}

/* Descriptors 0 to 2 that somebody has closed would be given to the first files that are opened,
 * and messages be written there. Those from 3 are left alone: they may be passed sockets. */
static void keep_standard_descriptors(void)
{
    int descriptor = STDIN_FILENO;

    while (descriptor >= 0 && descriptor <= STDERR_FILENO)
        descriptor = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (descriptor >= 0)
        (void)close(descriptor);
}

int main(int argc, char **argv)
{
    keep_standard_descriptors();
    if (!read_arguments(argc, argv)) {
        say("%s", options.wrong);
        return EXIT_USAGE;
    }
    if (options.help || options.version) {
        if (options.help)
            print_help();
        else
            (void)printf("udpserver %s\n", DUMPULSE_VERSION);
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    const sigset_t waiting = catch_signals();
    choose_set_secret();
    prepare_batches();
    if (!open_sockets() || (options.state != NULL && !load_state()))
        return EXIT_FAILURE;
    tasks[WATCHDOG].every = watchdog_interval();
    tasks[SAVING].every = options.state == NULL ? 0 : options.state_every * SECOND;
    say_what_is_served();
    notify("READY=1");
    serve(&waiting);
    notify("STOPPING=1");
    count_drops();
    print_counters();
    return options.state == NULL || save_state() ? EXIT_SUCCESS : EXIT_FAILURE;
}
