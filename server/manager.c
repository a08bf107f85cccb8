/* The service manager of an agent for Linux; see manager.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for SOCK_CLOEXEC */
#include "manager.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
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

/* Sends the message. If the manager is busy and its queue is full, waits for `patience` µs at most
 * (0: it does not wait). Logs the first failure only. */
static bool notify(const char *message, suseconds_t patience)
{
    static bool failure_said;
    const char *path = getenv("NOTIFY_SOCKET");
    const struct timeval longest = {.tv_usec = patience};
    struct sockaddr_un manager = {.sun_family = AF_UNIX};
    const size_t length = path == NULL ? 0 : strlen(path);

    if (path == NULL)
        return true;
    errno = EINVAL;
    if ((path[0] == '/' || path[0] == '@') && length < sizeof manager.sun_path) {
        memcpy(manager.sun_path, path, length);
        if (path[0] == '@') /* an abstract name, which is in no directory */
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
    if (!failure_said)
        log_say("cannot notify NOTIFY_SOCKET=%.110s: %s", path, strerror(errno));
    failure_said = true;
    return false;
}

/* Repeats until the manager has taken the message. If the manager never gets it, it ends the server
 * when the time for starting is over. */
static char ready[128] = "READY=1\nSTATUS=serving";

static void say_ready(void)
{
    if (notify(ready, 0))
        loop_set_interval(LOOP_READY, 0);
}

static void feed_watchdog(void)
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
    loop_define_task(LOOP_WATCHDOG, feed_watchdog, watchdog_interval());
}

void manager_reload(void)
{
    char text[64];

    (void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%llu",
                   (unsigned long long)(timing_ns() / 1000));
    (void)notify(text, 0);
}

void manager_ready(const char *status)
{
    (void)snprintf(ready, sizeof ready, "READY=1\nSTATUS=%s", status);
    loop_start_task(LOOP_READY, TIMING_SECOND / 2);
}

/* The server ends soon, and the manager sees that, too. So the message is not worth a long wait. */
void manager_end(void)
{
    enum { PATIENCE = 500000 }; /* µs */

    (void)notify("STOPPING=1", PATIENCE);
}

size_t manager_passed_sockets(void)
{
    if (environment_number("LISTEN_PID", INT_MAX) != (uint64_t)getpid())
        return 0;
    return (size_t)environment_number("LISTEN_FDS", INT_MAX);
}
