/* The service manager of an agent for Linux: manager.h tells more.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for SOCK_CLOEXEC */
#include "manager.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"
#include "options.h"

static uint64_t environment_number(const char *name, uint64_t high)
{
    const char *text = getenv(name);
    uint64_t number;

    return text != NULL && options_read_number(text, '\0', 0, high, &number) ? number : 0;
}

/* A failure is said once, and tried again at the next sign of life. */
void manager_notify(const char *message)
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
        log_say("cannot notify NOTIFY_SOCKET=%.110s: %s", path, strerror(errno));
    told = true;
}

uint64_t manager_watchdog_interval(void)
{
    const uint64_t pid = environment_number("WATCHDOG_PID", INT_MAX);

    if (getenv("WATCHDOG_PID") != NULL && pid != (uint64_t)getpid())
        return 0;
    return environment_number("WATCHDOG_USEC", UINT64_C(1000000000000000)) * 1000 / 2;
}

size_t manager_passed_sockets(void)
{
    if (environment_number("LISTEN_PID", INT_MAX) != (uint64_t)getpid())
        return 0;
    return (size_t)environment_number("LISTEN_FDS", INT_MAX);
}
