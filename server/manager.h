/* systemd's notification and socket activation: see sd_notify(3), sd_watchdog_enabled(3) and
 * sd_listen_fds(3).   SPDX-License-Identifier: MIT
 */
#ifndef DUMPULSE_MANAGER_H
#define DUMPULSE_MANAGER_H

#include <stddef.h>

void manager_begin(void);  /* starts the tasks that send "ready" and, if wanted, signs of life */
void manager_reload(void); /* sends "reloading": manager_ready() must follow */
void manager_ready(const char *status); /* sends "ready" again, with a status for people */
void manager_end(void);                 /* sends "stopping" */

enum { MANAGER_FIRST_SOCKET = 3 };   /* descriptor of the first socket that the manager passes */
size_t manager_passed_sockets(void); /* Returns the number of sockets that it passes. */

#endif
