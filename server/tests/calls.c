/* udpserver for tests. It writes down the calls that matter for the state file, and how long it
 * waits. It can also make something happen just before a call. The linker gives all calls of a
 * function to the one here that has its name after __wrap_.   SPDX-License-Identifier: MIT
 *
 * The environment says what to do:
 *     CALLS     names a file that gets a line for each call.
 *     BEFORE    is such a line, a space, and a shell command that runs before the first such call.
 *     IN_USE    is the number of the call of bind() that fails because its port is in use.
 *     FULL      names a file: as long as it exists, the disk is full.
 *     ENDLESS   is how many packets the first socket always has.
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
#include <unistd.h>

int __real_open(const char *path, int flags, ...);
int __real_flock(int descriptor, int operation);
ssize_t __real_pwrite(int descriptor, const void *bytes, size_t size, off_t at);
int __real_fsync(int descriptor);
int __real_rename(const char *from, const char *to);
int __real_bind(int descriptor, const struct sockaddr *address, socklen_t length);
int __real_ppoll(struct pollfd *sockets, nfds_t count, const struct timespec *timeout,
                 const sigset_t *signals);
int __real_recvmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *timeout);

static void note(const char *call, int descriptor)
{
    static int done;
    const char *before = getenv("BEFORE"), *path = getenv("CALLS");
    struct stat status = {0};
    char line[64];

    (void)fstat(descriptor, &status); /* NOLINT: of -1 it tells nothing */
    (void)snprintf(line, sizeof line, "%.40s%s", call,
                   S_ISDIR(status.st_mode)   ? "-directory"
                   : S_ISREG(status.st_mode) ? "-file"
                                             : "");
    FILE *calls = path == NULL ? NULL : fopen(path, "a");
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

int __wrap_flock(int descriptor, int operation)
{
    note("flock", -1);
    return __real_flock(descriptor, operation);
}

ssize_t __wrap_pwrite(int descriptor, const void *bytes, size_t size, off_t at)
{
    const char *full = getenv("FULL");

    note("write", descriptor);
    errno = ENOSPC;
    return full != NULL && access(full, F_OK) == 0 ? -1
                                                   : __real_pwrite(descriptor, bytes, size, at);
}

int __wrap_fsync(int descriptor)
{
    note("fsync", descriptor);
    return __real_fsync(descriptor);
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
    const char *in_use = getenv("IN_USE");

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

/* The endless packets are empty: they are refused for their length, and get no answer. */
int __wrap_recvmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *timeout)
{
    const char *endless = getenv("ENDLESS");

    if (descriptor != first_bound || endless == NULL)
        return __real_recvmmsg(descriptor, messages, count, flags, timeout);
    const unsigned long wanted = strtoul(endless, NULL, 10);
    const unsigned come = wanted < count ? (unsigned)wanted : count;
    for (unsigned i = 0; i < come; i++)
        messages[i].msg_len = 0;
    return (int)come;
}
