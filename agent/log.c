/* What an agent for Linux says: log.h tells more.   SPDX-License-Identifier: MIT */
#include "log.h"

#include <ctype.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "program.h"

void log_write(int descriptor, const char *line, size_t length)
{
    struct pollfd room = {.fd = descriptor, .events = POLLOUT};

    if (poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0 &&
        write(descriptor, line, length) < 0)
        return; /* there is nobody to tell */
}

void log_say(const char *format, ...)
{
    char text[1024], line[sizeof text + 16];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *at = text; *at != '\0'; at++)
        if (iscntrl((unsigned char)*at))
            *at = '?';
    const int length = snprintf(line, sizeof line, "%s: %s\n", program.name, text);
    log_write(STDERR_FILENO, line, (size_t)length);
}
