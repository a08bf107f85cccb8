/* What an agent for Linux says; see log.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for O_CLOEXEC */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "timing.h"

static const char *name = "";

void log_begin(const char *program)
{
    name = program;
}

/* Opens a pipe or a terminal again, for writing that never waits. Returns -1 if it is neither. */
static int open_again(int descriptor)
{
    char path[32];
    struct stat status;

    if (fstat(descriptor, &status) != 0 || !(S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)))
        return -1;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static bool is_torn; /* only a part of a line was written: the next one must begin a new line */

/* Others may write to the same pipe or socket, as the programs of --exec do. They may fill it just
 * after poll() has found room, and then write() would wait for its reader. A terminal that is not
 * read has room for a part of a line, and write() waits for the rest. So this uses calls that
 * do not wait. O_NONBLOCK on the descriptor itself would be a change for the others, too. */
bool log_write(int descriptor, const char *line, size_t length)
{
    struct pollfd room = {.fd = descriptor, .events = POLLOUT};

    if (poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0)
        return false;
    const int own = open_again(descriptor);
    ssize_t written = own >= 0 ? write(own, line, length)
                               : send(descriptor, line, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (own >= 0)
        (void)close(own);
    else if (written < 0 && errno == ENOTSOCK)
        written = write(descriptor, line, length);
    if (written > 0 && written < (ssize_t)length)
        __atomic_store_n(&is_torn, true, __ATOMIC_RELAXED);
    return written == (ssize_t)length;
}

/* A character must not be shown if it is
 *     no character at all,
 *     a control character: C0 (below 20), DEL or C1 (80 to 9F), or
 *     one that breaks a line or turns the direction of writing (2028 to 202E, 2066 to 2069).
 * The zero byte at the end of the text cannot continue a character, so no byte after it is read. */
size_t log_character_size(const char *text)
{
    /* The smallest character with 0, 1, 2 and 3 later bytes. A smaller one should have been written
     * with fewer bytes, or is C1. */
    static const uint32_t least[] = {0, 0xA0, 0x800, 0x10000};
    const uint8_t first = (uint8_t)*text;

    if (first < 0x80)
        return first >= 0x20 && first != 0x7F ? 1 : 0;
    if (first < 0xC0 || first >= 0xF8)
        return 0;
    const unsigned later = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    uint32_t character = first & (0x3FU >> later);
    for (unsigned i = 1; i <= later; i++) {
        const uint8_t next = (uint8_t)text[i];
        if ((next & 0xC0U) != 0x80)
            return 0;
        character = character << 6 | (next & 0x3FU);
    }
    const bool surrogate = character >= 0xD800 && character <= 0xDFFF;
    const bool layout = (character >= 0x2028 && character <= 0x202E) ||
                        (character >= 0x2066 && character <= 0x2069);
    return character < least[later] || character > 0x10FFFF || surrogate || layout ? 0 : 1 + later;
}

/* The saving thread logs, too. Atomics of 64 bits would need libatomic on chips of 32 bits. */
static uint32_t lost, told; /* lines that were not written; the log has the number of these */

void log_count_lost(uint32_t lines)
{
    (void)__atomic_fetch_add(&lost, lines, __ATOMIC_RELAXED);
}

uint32_t log_lost(void)
{
    return __atomic_load_n(&lost, __ATOMIC_RELAXED);
}

bool log_say_lost(void)
{
    char line[96];
    const uint32_t now = log_lost(), count = now - __atomic_load_n(&told, __ATOMIC_RELAXED);

    if (count == 0)
        return true;
    const int length = snprintf(line, sizeof line, "%s%s: %u line%s could not be written\n",
                                __atomic_exchange_n(&is_torn, false, __ATOMIC_RELAXED) ? "\n" : "",
                                name, (unsigned)count, count == 1 ? "" : "s");
    if (!log_write(STDERR_FILENO, line, (size_t)length))
        return false;
    __atomic_store_n(&told, now, __ATOMIC_RELAXED);
    return true;
}

enum { KEY_DIGITS = 32, ERROR = 3, BEGIN = 40 };

/* What a line begins with: for the journal its severity, and in a file the time and the severity.
 * Whoever reads a pipe or a terminal has the time. */
static void write_begin(char begin[BEGIN], int severity)
{
    static const char *const words[] = {"", "", "", "error", "warning", "notice", "info", ""};
    const char *const journal = getenv("JOURNAL_STREAM");
    struct stat status;
    struct tm parts;
    char stream[BEGIN];

    begin[0] = '\0';
    if (fstat(STDERR_FILENO, &status) != 0)
        return;
    (void)snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)status.st_dev,
                   (unsigned long long)status.st_ino);
    if (journal != NULL && strcmp(journal, stream) == 0) {
        (void)snprintf(begin, BEGIN, "<%d>", severity);
    } else if (S_ISREG(status.st_mode)) {
        const time_t now = (time_t)(timing_unix_ms() / 1000);
        const size_t length = strftime(begin, BEGIN, "%Y-%m-%dT%H:%M:%SZ ", gmtime_r(&now, &parts));
        (void)snprintf(begin + length, BEGIN - length, "%s: ", words[severity]);
    }
}

bool log_say(const char *format, ...)
{
    const bool has_severity = format[0] == '<';
    char text[1024], begin[BEGIN], line[sizeof text + 16 + BEGIN];
    va_list arguments;

    write_begin(begin, has_severity ? format[1] - '0' : ERROR);
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format + (has_severity ? 3 : 0), arguments);
    va_end(arguments);
    for (char *at = text; *at != '\0';) {
        const size_t digits = strspn(at, "0123456789abcdefABCDEF");
        const size_t length = digits != 0 ? digits : log_character_size(at);
        if (digits >= KEY_DIGITS) /* somebody gave a key where something else belongs */
            memset(at, '*', digits);
        if (length == 0)
            *at = '?';
        at += length == 0 ? 1 : length;
    }
    const int length = snprintf(line, sizeof line, "%s%s: %s\n", begin, name, text);
    if (log_say_lost() && log_write(STDERR_FILENO, line, (size_t)length))
        return true;
    log_count_lost(1);
    return false;
}
