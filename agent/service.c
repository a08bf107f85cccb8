/* What the agents for Linux share; agent/service.h tells what for.   SPDX-License-Identifier: MIT
 *
 * The options, the counters, the state file and the service manager each have a section, and
 * the loop is the last one.
 */
#define _GNU_SOURCE /* NOLINT: for strchrnul and ppoll */
#include "service.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sock_diag.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    EXIT_USAGE = 2,
    BUFFER = 4096 * 1024, /* bytes asked for; the kernel doubles it, and counts */
    PACKET_COST = 768     /* that many for a packet */
};

dumpulse agent;
uint16_t stamp;
struct options options;
struct pollfd sockets[MAX_SOCKETS];
size_t socket_count;
uint64_t capacity = UINT64_MAX;
size_t counted = ERROR_FRAMES;

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

void say(const char *format, ...)
{
    char text[1024], line[sizeof text + 16];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *at = text; *at != '\0'; at++)
        if (iscntrl((unsigned char)*at))
            *at = '?';
    const int length = snprintf(line, sizeof line, "%s: %s\n", program.name, text);
    write_line(STDERR_FILENO, line, (size_t)length);
}

/* ---- Options ---------------------------------------------------------------------------- */

enum { LONGEST_PATH = PATH_MAX - (int)sizeof ".damaged" };

bool wrong(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(options.wrong, sizeof options.wrong, format, arguments);
    va_end(arguments);
    return false;
}

bool read_number(const char *text, char end, uint64_t low, uint64_t high, uint64_t *number)
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

bool set_number(const char *name, const char *text, uint64_t low, uint64_t high, uint64_t *number)
{
    if (read_number(text, '\0', low, high, number))
        return true;
    return wrong("%s must be a number from %llu to %llu, not '%.40s'", name,
                 (unsigned long long)low, (unsigned long long)high, text);
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

static const struct option common[] = {
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
enum { COMMON = sizeof common / sizeof common[0] };

/* The program's own options come first. */
static const struct option *known(size_t i)
{
    return i < program.option_count ? &program.options[i] : &common[i - program.option_count];
}

static size_t known_count(void)
{
    return program.option_count + COMMON;
}

static void print_help(void)
{
    char text[40];

    (void)printf("%s\n", program.usage);
    for (size_t i = 0; i < known_count(); i++) {
        const struct option *option = known(i);
        (void)snprintf(text, sizeof text, "%s %s", option->name,
                       option->value == NULL ? "" : option->value);
        (void)printf("  %-24s %s\n", text, option->help);
    }
    (void)printf("\n%s"
                 "SIGUSR1 prints the counters; SIGTERM, SIGINT and SIGHUP save FILE and end it.\n"
                 "Exit status: 0 ended by a signal, 1 cannot run, 2 wrong arguments.\n",
                 program.notes);
}

/* Takes the value of an option (NULL: none was given). */
static bool set_option(const struct option *option, const char *text)
{
    if (option->flag != NULL) {
        *option->flag = true;
        return text == NULL || wrong("%s takes no value", option->name);
    }
    if (text == NULL)
        return wrong("%s needs a value: %s", option->name, option->value);
    if (option->set != NULL)
        return option->set(text);
    return set_number(option->name, text, option->low, option->high, option->number);
}

/* One argument, and the one after it (or NULL) in case that is its value. Returns how many
 * were used: 0 if something is wrong with them. */
static int read_argument(const char *argument, const char *next)
{
    const char *equals = strchrnul(argument, '=');
    const size_t length = (size_t)(equals - argument);

    if (argument[0] != '-')
        return program.set_operand(argument) ? 1 : 0;
    for (size_t i = 0; i < known_count(); i++) {
        const struct option *option = known(i);
        if (strlen(option->name) != length || memcmp(argument, option->name, length) != 0)
            continue;
        if (*equals == '=' || option->flag != NULL)
            return set_option(option, *equals == '=' ? equals + 1 : NULL) ? 1 : 0;
        return set_option(option, next) ? 2 : 0;
    }
    return wrong("there is no option '%.40s': --help lists them", argument);
}

/* False, and options.wrong says why, if the arguments make no sense. */
bool read_arguments(int count, char *const *arguments)
{
    memset(&options, 0, sizeof options);
    options.tick = 1000;
    options.state_every = 10;
    program.set_defaults();
    for (int i = 1; i < count;) {
        const int used = read_argument(arguments[i], i + 1 < count ? arguments[i + 1] : NULL);
        if (used == 0)
            return false;
        i += used;
    }
    return program.finish_arguments();
}

/* ---- Counters --------------------------------------------------------------------------- */

uint64_t counters[COUNTERS];

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
    [ERROR_FRAMES] = {"; error frames", "error_frames"},
    [BUS_OFFS] = {", bus-offs", "bus_offs"},
};

static void print_counters(void)
{
    char line[COUNTERS * 48]; /* a name is below 26 characters, a number below 21 */
    size_t length = 0;

    for (size_t i = 0; i < counted; i++) {
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

uint64_t nanoseconds(clockid_t clock)
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

void read_clock(void)
{
    stamp = (uint16_t)(unix_ms() / options.tick);
}

void stamp_self(void)
{
    if (options.self)
        (void)dumpulse_record(&agent, (uint8_t)options.self_variable, (uint8_t)options.self_sender,
                              0);
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

uint64_t get_number(const uint8_t *bytes, size_t size)
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

size_t passed_sockets(void)
{
    if (environment_number("LISTEN_PID", INT_MAX) != (uint64_t)getpid())
        return 0;
    return (size_t)environment_number("LISTEN_FDS", INT_MAX);
}

/* ---- Sockets ---------------------------------------------------------------------------- */

static uint32_t drops[MAX_SOCKETS]; /* as the kernel counted them when it was asked last */

/* The kernel's counter, of 32 bits, is the one that SO_RXQ_OVFL attaches to packets; here it is
 * read when it is wanted, at no cost for the packets, and tells of the last ones, too. */
static uint32_t drops_of(int descriptor)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof memory;

    (void)getsockopt(descriptor, SOL_SOCKET, SO_MEMINFO, memory, &size);
    return memory[SK_MEMINFO_DROPS];
}

/* To be called before it has dropped 2^32. */
static void count_drops_of(size_t socket)
{
    const uint32_t now = drops_of(sockets[socket].fd);

    counters[DROPS] += (uint32_t)(now - drops[socket]);
    drops[socket] = now;
}

static void count_drops(void)
{
    for (size_t i = 0; i < socket_count; i++)
        if (sockets[i].fd >= 0)
            count_drops_of(i);
}

bool add_socket(int descriptor)
{
    if (socket_count == MAX_SOCKETS)
        return false;
    sockets[socket_count++] = (struct pollfd){.fd = -1, .events = POLLIN};
    replace_socket(socket_count - 1, descriptor);
    return true;
}

void replace_socket(size_t socket, int descriptor)
{
    const int wanted = BUFFER;
    int granted = 0;
    socklen_t int_size = sizeof granted;

    if (sockets[socket].fd >= 0) {
        count_drops_of(socket);
        (void)close(sockets[socket].fd);
    }
    sockets[socket].fd = descriptor;
    if (descriptor < 0)
        return;
    drops[socket] = drops_of(descriptor); /* a passed one may have some from before */
    (void)getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &granted, &int_size);
    if (granted < 2 * wanted) { /* the service manager may have had the right to set more */
        if (setsockopt(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof wanted) != 0)
            (void)setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted);
        (void)getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &granted, &int_size);
    }
    if ((uint64_t)granted / PACKET_COST < capacity)
        capacity = (uint64_t)granted / PACKET_COST;
}

void say_if_buffers_are_small(void)
{
    if (capacity < BUFFER / PACKET_COST)
        say("the kernel buffers %u packets only: for bursts raise net.core.rmem_max to %d",
            (unsigned)capacity, BUFFER);
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

struct task tasks[TASKS] = {[DROPS_TASK] = {count_drops, 60 * 1000000000ULL, 0},
                            [WATCHDOG_TASK] = {show_life, 0, 0},
                            [SAVING_TASK] = {save_if_changed, 0, 0}};

static uint64_t due; /* when the next task is */

void start_task(size_t task, uint64_t every)
{
    tasks[task].every = every;
    tasks[task].at = due = 0;
}

/* Runs what is due, and finds out when there will be something next. */
static void run_tasks(uint64_t now)
{
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < TASKS; i++) {
        if (tasks[i].every != 0 && tasks[i].at <= now) {
            tasks[i].run();
            tasks[i].at = now + tasks[i].every;
        }
        if (tasks[i].every != 0 && tasks[i].at < next)
            next = tasks[i].at;
    }
    due = next;
}

/* Under load, to be woken for every packet costs more than to take it: at BUSY packets in a
 * round (16,000 a second, if it slept before) the server sleeps on for NAP and lets them queue up,
 * unless those of a nap might fill a quarter of a buffer. Packets and signals wait no longer than
 * that. It also sleeps when a socket was ready and had nothing: one that was passed may have errors
 * queued, or be shut down, and would be ready for ever. */
enum { BUSY = 16, NAP = 1000000 /* ns */ };

static void serve(const sigset_t *waiting)
{
    uint64_t taken = 0, now = nanoseconds(CLOCK_MONOTONIC);
    int ready = 0;

    do {
        if (due <= now)
            run_tasks(now);
        const bool behind = taken >= capacity / 4;
        const bool busy = taken >= BUSY || (ready > 0 && taken == 0);
        const uint64_t wait = behind ? 0 : busy ? NAP : due - now;
        const struct timespec timeout = {(time_t)(wait / SECOND), (long)(wait % SECOND)};
        ready = ppoll(sockets, busy ? 0 : socket_count, &timeout, waiting);
        taken = program.take_packets(ready > 0);
        if (asked) {
            asked = 0;
            count_drops();
            print_counters();
        }
        now = nanoseconds(CLOCK_MONOTONIC);
    } while (!ending);
    /* What had come before the signal is taken: at most what a buffer holds. */
    for (uint64_t last = 0; taken != 0 && last < capacity; last += taken)
        taken = program.take_packets(false);
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
            (void)printf("%s %s\n", program.name, DUMPULSE_VERSION);
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    const sigset_t waiting = catch_signals();
    if (!program.open() || (options.state != NULL && !load_state()))
        return EXIT_FAILURE;
    tasks[WATCHDOG_TASK].every = watchdog_interval();
    tasks[SAVING_TASK].every = options.state == NULL ? 0 : options.state_every * SECOND;
    program.say_what_is_served();
    notify("READY=1");
    serve(&waiting);
    notify("STOPPING=1");
    program.finish();
    count_drops();
    print_counters();
    return options.state == NULL || save_state() ? EXIT_SUCCESS : EXIT_FAILURE;
}
