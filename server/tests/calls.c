/* udpserver for tests. It writes down the calls that matter for the state file, and how long it
 * waits. It can also make something happen just before a call. The linker gives all calls of a
 * function to the one here that has its name after __wrap_.   SPDX-License-Identifier: MIT
 *
 * The environment says what to do:
 *     CALLS     names a file that gets a line for each call.
 *     BEFORE    is such a line, a space, and a shell command that runs before the first such call.
 *     IN_USE    is the number of the call of bind() that fails because its port is in use.
 *     FULL      names a file: as long as it exists, the disk is full.
 *     REASON    is the error number that a full disk has instead.
 *     ENDLESS   is how many packets the first socket always has.
 *     UNSENT    are the error numbers with which the first calls of sendmmsg() fail.
 *     UNTOLD    is the same for sendmsg(), with which nodes get their beacons.
 *     SLOW      is how many ms each fsync() takes.
 *     CLOCK     names a file: its number is added to Unix time, in s.
 *     SLEPT     names a file: its number is how many seconds the machine has slept.
 */
#define _GNU_SOURCE /* NOLINT: for struct mmsghdr */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int __real_open(const char *path, int flags, ...);
int __real_accept4(int descriptor, struct sockaddr *peer, socklen_t *length, int flags);
int __real_flock(int descriptor, int operation);
ssize_t __real_pwrite(int descriptor, const void *bytes, size_t size, off_t at);
int __real_fsync(int descriptor);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __real_rename(const char *from, const char *to);
int __real_bind(int descriptor, const struct sockaddr *address, socklen_t length);
int __real_ppoll(struct pollfd *sockets, nfds_t count, const struct timespec *timeout,
                 const sigset_t *signals);
int __real_sendmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags);
ssize_t __real_sendmsg(int descriptor, const struct msghdr *message, int flags);
int __real_recvmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *timeout);

static const char *before, *calls_to, *in_use, *full, *endless, *slow, *clock_in, *slept, *unsent,
    *untold, *reason;

/* Once, because the server changes its environment while its thread saves. */
__attribute__((constructor)) static void read_environment(void)
{
    before = getenv("BEFORE");
    calls_to = getenv("CALLS");
    in_use = getenv("IN_USE");
    full = getenv("FULL");
    reason = getenv("REASON");
    endless = getenv("ENDLESS");
    slow = getenv("SLOW");
    unsent = getenv("UNSENT");
    untold = getenv("UNTOLD");
    clock_in = getenv("CLOCK");
    slept = getenv("SLEPT");
}

static void note(const char *call, int descriptor)
{
    static int done;
    struct stat status = {0};
    char line[64];

    (void)fstat(descriptor, &status); /* NOLINT: of -1 it tells nothing */
    (void)snprintf(line, sizeof line, "%.40s%s", call,
                   S_ISDIR(status.st_mode)   ? "-directory"
                   : S_ISREG(status.st_mode) ? "-file"
                                             : "");
    FILE *calls = calls_to == NULL ? NULL : fopen(calls_to, "a");
    if (calls != NULL) {
        (void)fprintf(calls, "%s\n", line);
        (void)fclose(calls);
    }
    const size_t length = strlen(line);
    if (done || before == NULL || strncmp(before, line, length) != 0 || before[length] != ' ')
        return;
    done = 1;
    if (system(before + length + 1) != 0) /* NOLINT: the test's own command */
        abort();
}

int __wrap_open(const char *path, int flags, ...)
{
    const char *slash = strrchr(path, '/');
    va_list arguments;

    va_start(arguments, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    /* Not a device; but tests may keep their files in /dev/shm. */
    const bool device = strncmp(path, "/dev/", 5) == 0 && slash == path + 4;
    if (!device && strncmp(path, "/proc/", 6) != 0)
        note(slash == NULL ? path : slash + 1, -1);
    return __real_open(path, flags, mode);
}

int __wrap_accept4(int descriptor, struct sockaddr *peer, socklen_t *length, int flags)
{
    note("accept4", -1);
    return __real_accept4(descriptor, peer, length, flags);
}

int __wrap_flock(int descriptor, int operation)
{
    note("flock", -1);
    return __real_flock(descriptor, operation);
}

ssize_t __wrap_pwrite(int descriptor, const void *bytes, size_t size, off_t at)
{
    note("write", descriptor);
    errno = reason == NULL ? ENOSPC : (int)strtol(reason, NULL, 10);
    return full != NULL && access(full, F_OK) == 0 ? -1
                                                   : __real_pwrite(descriptor, bytes, size, at);
}

int __wrap_fsync(int descriptor)
{
    const long ms = slow == NULL ? 0 : strtol(slow, NULL, 10);
    struct timespec wait = {ms / 1000, ms % 1000 * 1000000};

    note("fsync", descriptor);
    while (nanosleep(&wait, &wait) != 0)
        ; /* a signal does not make a disk faster */
    return __real_fsync(descriptor);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    const char *const added = clock == CLOCK_REALTIME   ? clock_in
                              : clock == CLOCK_BOOTTIME ? slept
                                                        : NULL;
    FILE *file = added == NULL ? NULL : fopen(added, "r");
    char text[32] = "0";
    const int result = __real_clock_gettime(clock, now);

    if (file != NULL) {
        (void)fgets(text, sizeof text, file);
        (void)fclose(file);
    }
    now->tv_sec += strtol(text, NULL, 10);
    return result;
}

int __wrap_rename(const char *from, const char *to)
{
    note("rename", -1);
    return __real_rename(from, to);
}

static int first_bound = -1;

int __wrap_bind(int descriptor, const struct sockaddr *address, socklen_t length)
{
    static long count;

    if (first_bound < 0)
        first_bound = descriptor;
    errno = EADDRINUSE;
    return in_use != NULL && ++count == strtol(in_use, NULL, 10)
               ? -1
               : __real_bind(descriptor, address, length);
}

/* Writes down for how many sockets it waits, and for how long. */
int __wrap_ppoll(struct pollfd *sockets, nfds_t count, const struct timespec *timeout,
                 const sigset_t *signals)
{
    char line[64];

    (void)snprintf(line, sizeof line, "ppoll %lu %ld.%09ld", (unsigned long)count,
                   (long)timeout->tv_sec, timeout->tv_nsec);
    note(line, -1);
    return __real_ppoll(sockets, count, timeout, signals);
}

/* Takes the next number of a list. */
static int next_error(const char **list)
{
    char *end = NULL;
    const int error = *list == NULL ? 0 : (int)strtol(*list, &end, 10);

    *list = end != NULL && *end != '\0' ? end : NULL;
    return error;
}

int __wrap_sendmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags)
{
    errno = next_error(&unsent);
    return errno != 0 ? -1 : __real_sendmmsg(descriptor, messages, count, flags);
}

ssize_t __wrap_sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    note("sendmsg", -1);
    errno = next_error(&untold);
    return errno != 0 ? -1 : __real_sendmsg(descriptor, message, flags);
}

/* The endless packets are empty: they are refused for their length, and get no answer. */
int __wrap_recvmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *timeout)
{
    if (descriptor != first_bound || endless == NULL)
        return __real_recvmmsg(descriptor, messages, count, flags, timeout);
    const unsigned long wanted = strtoul(endless, NULL, 10);
    const unsigned come = wanted < count ? (unsigned)wanted : count;
    for (unsigned i = 0; i < come; i++)
        messages[i].msg_len = 0;
    return (int)come;
}
