/* udpserver for tests: it writes down the calls that a state file depends on, and how long it waits,
 * and has something happen just before one of them.   SPDX-License-Identifier: MIT
 *
 * CALLS names a file that gets a line for each. BEFORE is such a line, a space and a command for
 * the shell, which is run when that call comes for the first time. IN_USE is the number of the
 * call of bind() that fails because its port is in use. While there is a file FULL, the disk is full.
 * With ENDLESS set, the first socket has more packets whenever it is asked.
 */
#define _GNU_SOURCE /* NOLINT: as udpserver.c has it */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

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

static int noted_open(const char *path, int flags, ...)
{
    const char *slash = strrchr(path, '/');
    va_list arguments;

    va_start(arguments, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    note(slash == NULL ? path : slash + 1, -1);
    return open(path, flags, mode);
}

static int noted_flock(int descriptor, int operation)
{
    note("flock", -1);
    return flock(descriptor, operation);
}

static ssize_t noted_pwrite(int descriptor, const void *bytes, size_t size, off_t at)
{
    const char *full = getenv("FULL");

    note("write", descriptor);
    errno = ENOSPC;
    return full != NULL && access(full, F_OK) == 0 ? -1 : pwrite(descriptor, bytes, size, at);
}

static int noted_fsync(int descriptor)
{
    note("fsync", descriptor);
    return fsync(descriptor);
}

static int noted_rename(const char *from, const char *to)
{
    note("rename", -1);
    return rename(from, to);
}

static int first_bound = -1;

static int noted_bind(int descriptor, const struct sockaddr *address, socklen_t length)
{
    static long count;
    const char *in_use = getenv("IN_USE");

    if (first_bound < 0)
        first_bound = descriptor;
    errno = EADDRINUSE;
    return in_use != NULL && ++count == strtol(in_use, NULL, 10)
               ? -1
               : bind(descriptor, address, length);
}

/* For how many sockets it waits, and for how long. */
static int noted_ppoll(struct pollfd *sockets, nfds_t count, const struct timespec *timeout,
                       const sigset_t *signals)
{
    char line[64];

    (void)snprintf(line, sizeof line, "ppoll %lu %ld.%09ld", (unsigned long)count,
                   (long)timeout->tv_sec, timeout->tv_nsec);
    note(line, -1);
    return ppoll(sockets, count, timeout, signals);
}

/* Empty packets are told by their length, and make no answer. */
static int noted_recvmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags,
                          struct timespec *timeout)
{
    if (descriptor != first_bound || getenv("ENDLESS") == NULL)
        return recvmmsg(descriptor, messages, count, flags, timeout);
    for (unsigned i = 0; i < count; i++)
        messages[i].msg_len = 0;
    return (int)count;
}

#define open noted_open
#define flock noted_flock
#define pwrite noted_pwrite
#define fsync noted_fsync
#define rename noted_rename
#define bind noted_bind
#define ppoll noted_ppoll
#define recvmmsg noted_recvmmsg
#undef _GNU_SOURCE
#include "../agent/loop.c"  /* NOLINT: it waits in there, */
#include "../agent/state.c" /* NOLINT: most of the calls are in there, */
#include "../udpserver.c"   /* NOLINT: and the others here */
