/* The counters and the table as text; see stats.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for accept4 and O_ASYNC */
#include "stats.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "alarms.h"
#include "can.h"
#include "counters.h"
#include "dumpulse.h"
#include "hook.h"
#include "log.h"
#include "loop.h"
#include "names.h"
#include "options.h"
#include "sockets.h"
#include "table.h"
#include "timing.h"

enum {
    WAITING = 128, /* connections that the kernel keeps */
    AT_ONCE = 16   /* connections that are answered before packets get their turn */
};
/* A name has at most 25 characters, a number at most 20. */
enum { LINE = (COUNTERS + 5) * 48, ARGUMENTS = 4096, ANSWER = 32768 };

/* ---- A line --------------------------------------------------------------------------------- */

static const char *program;
static char *const *arguments; /* Arguments of main(). */
static uint64_t begun;         /* ns: timing_ns() at the start */

/* Brings the counters up to date that are not counted packet by packet. */
static void complete_counters(void)
{
    sockets_count_drops();
    counters[COUNT_LOST_LINES] = log_lost();
    counters[COUNT_PACKETS] = 0;
    for (size_t i = COUNT_HEARTBEATS; i <= COUNT_UNSENT; i++)
        counters[COUNT_PACKETS] += counters[i];
}

static bool is_shown(size_t counter)
{
    if (counter == COUNT_BEACONS || counter == COUNT_OLD || counter == COUNT_TAG ||
        counter == COUNT_EPOCH_TAGS)
        return options.key != NULL;
    if (counter == COUNT_BEFORE)
        return options.key_before != NULL;
    return counter < COUNT_CHANGES ||
           (counter < COUNT_ERROR_FRAMES ? options.watch : can_interface) != NULL;
}

/* Appends the counters to a line that has `length` characters. Returns its new length. */
static size_t write_counters(char *line, size_t length, bool json)
{
    for (size_t i = 0; i < COUNTERS; i++) {
        if (!is_shown(i))
            continue;
        const char *format = json ? "%s\"%s\":%llu" : "%s%s %llu";
        const char *before = json && i != 0 ? "," : "";
        const char *name = json ? counters_names[i].key : counters_names[i].readable;
        length += (size_t)snprintf(line + length, LINE - length, format, before, name,
                                   (unsigned long long)counters[i]);
    }
    return length + (size_t)snprintf(line + length, LINE - length, json ? "" : "\n");
}

void stats_print(void)
{
    char line[LINE];

    complete_counters();
    (void)log_write(STDOUT_FILENO, line, write_counters(line, 0, false));
}

void stats_begin(const char *of_program, char *const *given)
{
    program = of_program;
    arguments = given;
    begun = timing_ns();
    loop_define_task(LOOP_ANSWERS, stats_answer, 0);
}

/* Appends a string of JSON. What is no part of a printable character becomes a question mark. */
static size_t write_string(char *line, size_t length, const char *text)
{
    line[length++] = '"';
    while (*text != '\0') {
        const size_t size = log_character_size(text);
        if (*text == '"' || *text == '\\')
            line[length++] = '\\';
        if (size == 0)
            line[length] = '?';
        else
            memcpy(line + length, text, size);
        length += size == 0 ? 1 : size;
        text += size == 0 ? 1 : size;
    }
    line[length++] = '"';
    return length;
}

/* Appends a list of the arguments that have room. */
static size_t write_arguments(char *line, size_t length)
{
    size_t left = ARGUMENTS;

    length += (size_t)sprintf(line + length, ",\"arguments\":[");
    for (char *const *argument = arguments + 1; *argument != NULL; argument++) {
        const size_t size = strlen(*argument);
        if (size > left)
            break;
        left -= size;
        if (argument != arguments + 1)
            line[length++] = ',';
        length = write_string(line, length, *argument);
    }
    line[length++] = ']';
    return length;
}

/* Appends what is known of a variable. `state` and `change` are null if it is not watched, and what
 * comes of its heartbeat is null if it has none. */
static size_t write_variable(char *line, size_t length, uint8_t variable, uint16_t now)
{
    const dumpulse_entry entry = dumpulse_read_entry(table_agent.report, variable);
    const uint64_t age = (uint64_t)dumpulse_age(now, entry.timestamp) * options.tick;

    length += (size_t)sprintf(line + length,
                              "%s{\"variable\":%u,\"name\":", variable == 0 ? "" : ",", variable);
    length = write_string(line, length, names_variables[variable].name);
    if (options.watch != NULL && names_variables[variable].expected)
        length +=
            (size_t)sprintf(line + length, ",\"state\":\"%s\",\"number\":%u",
                            hook_states[alarms[variable].is], (unsigned)alarms[variable].number);
    else
        length += (size_t)sprintf(line + length, ",\"state\":null,\"number\":null");
    if (!dumpulse_was_heard(entry))
        return length +
               (size_t)sprintf(line + length, ",\"age_ms\":null,\"sender\":null,\"value\":null}");
    return length + (size_t)sprintf(line + length, ",\"age_ms\":%llu,\"sender\":%u,\"value\":%u}",
                                    (unsigned long long)age, entry.sender, entry.value);
}

/* Writes a line of JSON: the program, its version, start and uptime, the number of variables that
 * are set, the counters, the tick, the arguments and the table. Returns its length. */
static size_t write_json(char line[ANSWER])
{
    const uint64_t up = (timing_ns() - begun) / TIMING_SECOND;

    complete_counters();
    size_t length = (size_t)snprintf(
        line, LINE,
        "{\"program\":\"%s\",\"version\":\"%s\",\"started\":%llu,\"uptime\":%llu,\"variables\":%u,",
        program, DUMPULSE_VERSION, (unsigned long long)(timing_unix_ms() / 1000 - up),
        (unsigned long long)up, (unsigned)table_count());
    length = write_counters(line, length, true);
    length += (size_t)sprintf(line + length, ",\"tick_ms\":%llu", (unsigned long long)options.tick);
    length = write_arguments(line, length);
    length += (size_t)sprintf(line + length, ",\"table\":[");
    for (uint8_t i = 0; i < DUMPULSE_VARIABLES; i++)
        length = write_variable(line, length, i, (uint16_t)table_ticks());
    return length + (size_t)sprintf(line + length, "]}\n");
}

/* ---- The socket ----------------------------------------------------------------------------- */

static int listening = -1;
static struct stat mine; /* the file of our socket, to recognise it at the end */

static bool refuse(const char *why)
{
    log_say("cannot use --stats %s: %s", options.stats, why);
    return false;
}

static struct sockaddr_un make_address(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memcpy(address.sun_path, options.stats, strlen(options.stats));
    return address;
}

enum { LONGEST = 5 /* s */ };

/* Connects to the server that listens there. Returns the socket, or -1 and errno. The socket waits
 * no longer than LONGEST: a server that is stopped does not answer. */
static int connect_to_server(int flags)
{
    const struct sockaddr_un address = make_address();
    const struct timeval longest = {.tv_sec = LONGEST};
    const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

    if (descriptor < 0)
        return -1;
    (void)setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
    (void)setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
    if (connect(descriptor, (const struct sockaddr *)&address, sizeof address) == 0)
        return descriptor;
    const int reason = errno;
    (void)close(descriptor);
    errno = reason;
    return -1;
}

/* A server that was killed leaves a socket behind that nobody listens to. That is removed, and
 * nothing else. */
static bool remove_stale_socket(void)
{
    struct stat found;

    if (lstat(options.stats, &found) != 0)
        return errno == ENOENT || refuse(strerror(errno));
    if (!S_ISSOCK(found.st_mode))
        return refuse("it is not a socket: give another path");
    const int probe = connect_to_server(SOCK_NONBLOCK);
    if (probe >= 0 || errno == EAGAIN || errno == EPROTOTYPE)
        return refuse("another program listens there: give each its own socket");
    if (errno != ECONNREFUSED)
        return refuse(strerror(errno));
    return unlink(options.stats) == 0 || refuse(strerror(errno));
}

/* Every local user who can reach the directory may connect. What they get is what a report has,
 * which any local user may have by default, with names, states, counters and arguments. The kernel
 * sends SIGIO when somebody connects. So the loop needs no extra work for each packet, and a
 * connection is seen under load, too. */
bool stats_open(void)
{
    const struct sockaddr_un address = make_address();

    if (!remove_stale_socket())
        return false;
    listening = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listening < 0)
        return refuse(strerror(errno));
    const mode_t before = umask(0111);
    const bool bound = bind(listening, (const struct sockaddr *)&address, sizeof address) == 0;
    const int reason = errno;
    (void)umask(before);
    if (!bound)
        return refuse(strerror(reason));
    if (lstat(options.stats, &mine) != 0 || fcntl(listening, F_SETOWN, getpid()) != 0 ||
        fcntl(listening, F_SETFL, O_NONBLOCK | O_ASYNC) != 0 || listen(listening, WAITING) != 0)
        return refuse(strerror(errno));
    return true;
}

/* A line fits into the empty buffer of a new connection, so send() never has to wait. After AT_ONCE
 * connections there may be more: a new SIGIO lets the loop answer them after the next packets. A
 * reader that connects while a SIGHUP waits is answered after it: --reload needs the new count. For
 * readers that wait for a descriptor, no signal comes again: a task looks for one each second. */
void stats_answer(void)
{
    static char line[ANSWER];
    static int held = -1;

    for (unsigned i = 0; i < AT_ONCE; i++) {
        const int reader = held >= 0 ? held : accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        sigset_t pending;
        if (reader < 0) {
            if (errno == EMFILE || errno == ENFILE)
                loop_start_task(LOOP_ANSWERS, TIMING_SECOND);
            else
                loop_set_interval(LOOP_ANSWERS, 0);
            return;
        }
        held = sigpending(&pending) == 0 && sigismember(&pending, SIGHUP) == 1 ? reader : -1;
        if (held >= 0)
            break;
        (void)send(reader, line, write_json(line), MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)close(reader);
    }
    (void)raise(SIGIO);
}

void stats_close(void)
{
    struct stat found;

    if (listening < 0)
        return;
    (void)close(listening);
    if (lstat(options.stats, &found) == 0 && found.st_ino == mine.st_ino &&
        found.st_dev == mine.st_dev)
        (void)unlink(options.stats);
}

/* Reads how often the server has read its files again, and sets which process it is. */
static bool read_reloads(pid_t *server, unsigned long long *reloads)
{
    static const char silent[] = "the server there does not answer within 5 s: is it stopped?";
    static char line[ANSWER + 1];
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    const int descriptor = connect_to_server(0);

    if (descriptor < 0)
        return refuse(errno == EAGAIN ? silent : strerror(errno));
    (void)getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    const ssize_t length = options_read_all(descriptor, line, ANSWER);
    const int reason = errno;
    (void)close(descriptor);
    if (length < 0)
        return refuse(reason == EAGAIN ? silent : strerror(reason));
    line[length] = '\0';
    const char *const found = strstr(line, "\"reloads\":");
    if (found == NULL || peer.pid == 0)
        return refuse("no server of this version answers there");
    *reloads = strtoull(strchr(found, ':') + 1, NULL, 10);
    *server = peer.pid;
    return true;
}

/* The server handles a signal before it answers a connection that was made after it. */
bool stats_reload(void)
{
    unsigned long long before, after;
    pid_t server;

    if (!read_reloads(&server, &before))
        return false;
    if (kill(server, SIGHUP) != 0)
        return refuse(strerror(errno));
    return read_reloads(&server, &after) &&
           (after > before || refuse("the server there has not read its files: its log has why"));
}
