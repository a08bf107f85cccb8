/* One call of the system fails, once; see storm.h.   SPDX-License-Identifier: MIT
 *
 * Calls that cannot fail with the agent's arguments are not here: clock_gettime, setitimer, the
 * calls about signals, nanosleep and pthread_join. waitpid and kill fail only if there is no such
 * child. */
#define _GNU_SOURCE /* NOLINT: for strerrorname_np */
#include "storm.h"

#include <errno.h>
#include <string.h>

enum agent { OF_BOTH, OF_UDP, OF_CAN };
static const struct {
    const char *name;
    int reasons[6]; /* error numbers, or SHORT; 0 ends them */
    enum agent agent;
} calls[CALL_KINDS] = {
    [CALL_ACCESS] = {"access", {EACCES, EIO, ENOMEM}},
    [CALL_ADDOPEN] = {"posix_spawn_file_actions_addopen", {ENOMEM}},
    [CALL_BIND] = {"bind", {ENODEV, EADDRNOTAVAIL}, OF_CAN},
    [CALL_CLOSE] = {"close", {EINTR, EIO, ENOSPC}},
    [CALL_EPOLL_CREATE1] = {"epoll_create1", {EMFILE, ENFILE, ENOMEM}},
    [CALL_EPOLL_CTL] = {"epoll_ctl", {ENOMEM, ENOSPC}},
    [CALL_EPOLL_PWAIT] = {"epoll_pwait", {EINTR}},
    [CALL_FCHMOD] = {"fchmod", {EIO, EPERM, EROFS}},
    [CALL_FILE_ACTIONS] = {"posix_spawn_file_actions_init", {ENOMEM}},
    [CALL_FLOCK] = {"flock", {EINTR, ENOLCK, EWOULDBLOCK}},
    [CALL_FSTAT] = {"fstat", {EIO, ENOMEM}},
    [CALL_FSYNC] = {"fsync", {EINTR, EIO, ENOSPC, EDQUOT}},
    [CALL_FTRUNCATE] = {"ftruncate", {EINTR, EIO}},
    [CALL_GETRANDOM] = {"getrandom", {EINTR, ENOSYS}, OF_UDP},
    [CALL_GETSOCKOPT] = {"getsockopt", {ENOBUFS, ENOPROTOOPT}},
    [CALL_IF_NAMETOINDEX] = {"if_nametoindex", {EMFILE, ENODEV}, OF_CAN},
    [CALL_IOCTL] = {"ioctl", {ENODEV, ENETDOWN}, OF_CAN},
    [CALL_LSTAT] = {"lstat", {EACCES, EIO, ENOMEM, ENOENT}},
    [CALL_OPEN] = {"open", {EINTR, EIO, EMFILE, ENFILE, ENOMEM, EACCES}},
    [CALL_POSIX_SPAWN] = {"posix_spawn", {EAGAIN, ENOMEM, ENOENT}},
    [CALL_PPOLL] = {"ppoll", {EINTR, ENOMEM}},
    [CALL_PRCTL] = {"prctl", {EINVAL}},
    [CALL_PTHREAD_CREATE] = {"pthread_create", {EAGAIN}},
    [CALL_PWRITE] = {"pwrite", {SHORT, EINTR, EIO, ENOSPC, EDQUOT}},
    [CALL_READ] = {"read", {SHORT, FLIPPED, EINTR, EIO}},
    [CALL_RECVMMSG] = {"recvmmsg", {EAGAIN, EINTR, ENOMEM, ECONNREFUSED}},
    [CALL_RENAME] = {"rename", {EIO, ENOSPC, EDQUOT, EROFS}},
    [CALL_SEND] = {"send", {EAGAIN, EINTR, ENOBUFS}, OF_CAN},
    [CALL_SENDMMSG] = {"sendmmsg", {SHORT, EAGAIN, EINTR, ENOBUFS, EPERM}, OF_UDP},
    [CALL_SENDMSG] = {"sendmsg", {EAGAIN, EINTR, ENOBUFS, ENETUNREACH}, OF_UDP},
    [CALL_SETENV] = {"setenv", {ENOMEM}},
    [CALL_SETSOCKOPT] = {"setsockopt", {ENOBUFS, ENOPROTOOPT, EPERM}},
    [CALL_SOCKET] = {"socket", {EMFILE, ENFILE, ENOBUFS}, OF_CAN},
    [CALL_STAT] = {"stat", {EACCES, EIO, ENOMEM}},
    [CALL_SYSCALL] = {"syscall", {ENOSYS}},
};

const char *calls_name(unsigned call)
{
    return call < CALL_KINDS ? calls[call].name : NULL;
}

int calls_reason(unsigned call, unsigned i)
{
    return i < sizeof calls[0].reasons / sizeof calls[0].reasons[0] ? calls[call].reasons[i] : 0;
}

const char *calls_reason_name(int reason)
{
    return reason == SHORT ? "SHORT" : reason == FLIPPED ? "FLIPPED" : strerrorname_np(reason);
}

bool calls_can_happen(unsigned call)
{
    return calls[call].agent != (machine_has_bus() ? OF_UDP : OF_CAN);
}

int calls_fail(enum call call)
{
    struct failure *const it = &world->failure;

    machine_call();
    if (it->calls_left == 0 || it->call != call || world->now >= world->failure_ends ||
        --it->calls_left != 0)
        return 0;
    it->has_happened = true;
    world_say("%s fails: %s", calls[call].name, calls_reason_name(it->reason));
    oracle_call_fails();
    if (call == CALL_SETENV || call == CALL_FILE_ACTIONS || call == CALL_ADDOPEN ||
        call == CALL_POSIX_SPAWN)
        reference_reaps(-1); /* no program has started */
    if (it->reason > 0)
        errno = it->reason;
    return it->reason;
}
