/* The counters, for programs: stats.h tells more.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for accept4 and O_ASYNC */
#include "stats.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "counters.h"
#include "log.h"
#include "options.h"

/* Connections that the kernel keeps, and those that are answered before packets get their turn. */
enum { WAITING = 128, AT_ONCE = 16 };

static int listening = -1;
static struct stat mine; /* what is at the path, as long as it is ours */

static bool refuse(const char *why)
{
    log_say("cannot use --stats %s: %s", options.stats, why);
    return false;
}

/* A server that was killed has left its socket, which nobody listens to. That may go; nothing else
 * may. */
static bool make_room(const struct sockaddr_un *place)
{
    struct stat there;

    if (lstat(options.stats, &there) != 0)
        return errno == ENOENT || refuse(strerror(errno));
    if (!S_ISSOCK(there.st_mode))
        return refuse("there is something that is no socket: name another place");
    const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return refuse(strerror(errno));
    const bool answered = connect(probe, (const struct sockaddr *)place, sizeof *place) == 0;
    const int reason = errno;
    (void)close(probe);
    if (answered || reason == EAGAIN || reason == EPROTOTYPE)
        return refuse("another program listens there: give each its own");
    if (reason != ECONNREFUSED)
        return refuse(strerror(reason));
    return unlink(options.stats) == 0 || refuse(strerror(errno));
}

/* Anybody may connect whom the directory lets: the numbers tell less than a report, which any local
 * user may have by default. The kernel sends SIGIO when somebody connects, so that the loop has
 * nothing more to look at for each packet, and sees it under load, too. */
bool stats_open(void)
{
    struct sockaddr_un place = {.sun_family = AF_UNIX};

    memcpy(place.sun_path, options.stats, strlen(options.stats));
    if (!make_room(&place))
        return false;
    listening = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listening < 0)
        return refuse(strerror(errno));
    const mode_t before = umask(0111);
    const bool bound = bind(listening, (const struct sockaddr *)&place, sizeof place) == 0;
    const int reason = errno;
    (void)umask(before);
    if (!bound)
        return refuse(strerror(reason));
    if (lstat(options.stats, &mine) != 0 || fcntl(listening, F_SETOWN, getpid()) != 0 ||
        fcntl(listening, F_SETFL, O_NONBLOCK | O_ASYNC) != 0 || listen(listening, WAITING) != 0)
        return refuse(strerror(errno));
    return true;
}

/* A line fits into the empty buffer of a new connection: nobody is waited for. If there may be more
 * of them, they get theirs when the loop waits next. */
void stats_answer(void)
{
    char line[COUNTERS_LINE];

    for (unsigned i = 0; i < AT_ONCE; i++) {
        const int reader = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        if (reader < 0)
            return;
        (void)send(reader, line, counters_write_all(line), MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)close(reader);
    }
    (void)raise(SIGIO);
}

void stats_close(void)
{
    struct stat there;

    if (listening < 0)
        return;
    (void)close(listening);
    if (lstat(options.stats, &there) == 0 && there.st_ino == mine.st_ino &&
        there.st_dev == mine.st_dev)
        (void)unlink(options.stats);
}
