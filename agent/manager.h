/* systemd's notification and socket activation: see sd_notify(3), sd_watchdog_enabled(3) and
 * sd_listen_fds(3).   SPDX-License-Identifier: MIT
 */
#ifndef DUMPULSE_MANAGER_H
#define DUMPULSE_MANAGER_H

#include <stddef.h>

void manager_begin(void); /* "ready", as soon as it is taken; signs of life, if they are wanted */
void manager_end(void);   /* "stopping" */

enum { MANAGER_FIRST_SOCKET = 3 }; /* descriptor of the first socket that it passes */
size_t manager_passed_sockets(void);

#endif
