/* systemd's notification and socket activation: see sd_notify(3), sd_watchdog_enabled(3) and
 * sd_listen_fds(3).   SPDX-License-Identifier: MIT
 */
#ifndef DUMPULSE_MANAGER_H
#define DUMPULSE_MANAGER_H

#include <stddef.h>
#include <stdint.h>

void manager_notify(const char *message);

/* Nanoseconds between two signs of life that the manager wants, or 0. */
uint64_t manager_watchdog_interval(void);

enum { MANAGER_FIRST_SOCKET = 3 }; /* descriptor of the first socket that it passes */
size_t manager_passed_sockets(void);

#endif
