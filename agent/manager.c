/* The service manager of an agent for Linux: manager.h tells more.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for SOCK_CLOEXEC */
#include "manager.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"
#include "loop.h"
#include "options.h"
#include "timing.h"

static uint64_t environment_number(const char *name, uint64_t high)
{
    const char *text = getenv(name);
    uint64_t number;

    return text != NULL && options_read_number(text, '\0', 0, high, &number) ? number : 0;
}

/* Sends it, in `patience` µs at most (0: at once or not at all). A manager that is busy has a full
 * queue. A failure is said once. */
static bool notify(const char *message, suseconds_t patience)
{
    static bool told;
    const char *path = getenv("NOTIFY_SOCKET");
    const struct timeval longest = {.tv_usec = patience};
    struct sockaddr_un manager = {.sun_family = AF_UNIX};
    const size_t length = path == NULL ? 0 : strlen(path);

    if (path == NULL)
        return true;
    errno = EINVAL;
    if ((path[0] == '/' || path[0] == '@') && length < sizeof manager.sun_path) {
        memcpy(manager.sun_path, path, length);
        if (path[0] == '@') /* a name that is in no directory */
            manager.sun_path[0] = '\0';
        const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (descriptor >= 0) {
            (void)setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
            const ssize_t sent =
                sendto(descriptor, message, strlen(message),
                       MSG_NOSIGNAL | (patience == 0 ? MSG_DONTWAIT : 0),
                       (const struct sockaddr *)&manager,
                       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
            const int reason = errno;
            (void)close(descriptor);
            if (sent >= 0)
                return true;
            errno = reason;
        }
    }
    if (!told)
        log_say("cannot notify NOTIFY_SOCKET=%.110s: %s", path, strerror(errno));
    told = true;
    return false;
}

/* Until the manager has taken it: without it, it ends the server when its time to start is over. */
static void say_ready(void)
{
    if (notify("READY=1", 0))
        loop_pace_task(LOOP_READY, 0);
}

static void show_life(void)
{
    (void)notify("WATCHDOG=1", 0);
}

static uint64_t watchdog_interval(void)
{
    const uint64_t pid = environment_number("WATCHDOG_PID", INT_MAX);

    if (getenv("WATCHDOG_PID") != NULL && pid != (uint64_t)getpid())
        return 0;
    return environment_number("WATCHDOG_USEC", UINT64_C(1000000000000000)) * 1000 / 2;
}

void manager_begin(void)
{
    loop_define_task(LOOP_READY, say_ready, TIMING_SECOND / 2);
    loop_define_task(LOOP_WATCHDOG, show_life, watchdog_interval());
}

/* The loop has ended, and the manager sees soon that the server has, too: it is not worth a long
 * wait. */
void manager_end(void)
{
    enum { PATIENCE = 500000 };

    (void)notify("STOPPING=1", PATIENCE);
}

size_t manager_passed_sockets(void)
{
    if (environment_number("LISTEN_PID", INT_MAX) != (uint64_t)getpid())
        return 0;
    return (size_t)environment_number("LISTEN_FDS", INT_MAX);
}
