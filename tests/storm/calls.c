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
    enum agent agent;
    int reasons[6]; /* error numbers, or SHORT; 0 ends them */
} calls[CALL_KINDS] = {
    {"access", OF_BOTH, {EACCES, EIO, ENOMEM}},
    {"posix_spawn_file_actions_addopen", OF_BOTH, {ENOMEM}},
    {"bind", OF_CAN, {ENODEV, EADDRNOTAVAIL}},
    {"close", OF_BOTH, {EINTR, EIO, ENOSPC}},
    {"epoll_create1", OF_BOTH, {EMFILE, ENFILE, ENOMEM}},
    {"epoll_ctl", OF_BOTH, {ENOMEM, ENOSPC}},
    {"epoll_pwait", OF_BOTH, {EINTR}},
    {"fchmod", OF_BOTH, {EIO, EPERM, EROFS}},
    {"posix_spawn_file_actions_init", OF_BOTH, {ENOMEM}},
    {"flock", OF_BOTH, {EINTR, ENOLCK, EWOULDBLOCK}},
    {"fstat", OF_BOTH, {EIO, ENOMEM}},
    {"fsync", OF_BOTH, {EINTR, EIO, ENOSPC, EDQUOT}},
    {"ftruncate", OF_BOTH, {EINTR, EIO}},
    {"getrandom", OF_UDP, {EINTR, ENOSYS}},
    {"getsockopt", OF_BOTH, {ENOBUFS, ENOPROTOOPT}},
    {"if_nametoindex", OF_CAN, {EMFILE, ENODEV}},
    {"ioctl", OF_CAN, {ENODEV, ENETDOWN}},
    {"lstat", OF_BOTH, {EACCES, EIO, ENOMEM, ENOENT}},
    {"open", OF_BOTH, {EINTR, EIO, EMFILE, ENFILE, ENOMEM, EACCES}},
    {"posix_spawn", OF_BOTH, {EAGAIN, ENOMEM, ENOENT}},
    {"ppoll", OF_BOTH, {EINTR, ENOMEM}},
    {"prctl", OF_BOTH, {EINVAL}},
    {"pthread_create", OF_BOTH, {EAGAIN}},
    {"pwrite", OF_BOTH, {SHORT, EINTR, EIO, ENOSPC, EDQUOT}},
    {"read", OF_BOTH, {SHORT, FLIPPED, EINTR, EIO}},
    {"recvmmsg", OF_BOTH, {EAGAIN, EINTR, ENOMEM, ECONNREFUSED}},
    {"rename", OF_BOTH, {EIO, ENOSPC, EDQUOT, EROFS}},
    {"send", OF_CAN, {EAGAIN, EINTR, ENOBUFS}},
    {"sendmmsg", OF_UDP, {SHORT, EAGAIN, EINTR, ENOBUFS, EPERM}},
    {"sendmsg", OF_UDP, {EAGAIN, EINTR, ENOBUFS, ENETUNREACH}},
    {"setenv", OF_BOTH, {ENOMEM}},
    {"setsockopt", OF_BOTH, {ENOBUFS, ENOPROTOOPT, EPERM}},
    {"socket", OF_CAN, {EMFILE, ENFILE, ENOBUFS}},
    {"stat", OF_BOTH, {EACCES, EIO, ENOMEM}},
    {"syscall", OF_BOTH, {ENOSYS}},
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

int calls_fail(const char *name)
{
    struct failure *const it = &world->failure;

    machine_call();
    if (it->calls_left == 0 || strcmp(calls[it->call].name, name) != 0 ||
        world->now >= world->failure_ends || --it->calls_left != 0)
        return 0;
    it->has_happened = true;
    world_say("%s fails: %s", name, calls_reason_name(it->reason));
    oracle_call_fails();
    if (strcmp(name, "setenv") == 0 || strncmp(name, "posix_spawn", 11) == 0)
        reference_reaps(-1); /* no program has started */
    if (it->reason > 0)
        errno = it->reason;
    return it->reason;
}
