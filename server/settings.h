/* The settings of dumpulse_keyed.c in the agents for Linux.   SPDX-License-Identifier: MIT
 *
 * The sizes of its structures depend on them. So dumpulse_keyed.c is compiled with
 * `-include server/settings.h`, and keys.h includes this, too.
 */
#ifndef DUMPULSE_SETTINGS_H
#define DUMPULSE_SETTINGS_H

/* Each variable may belong to a node that only sends. */
#define DUMPULSE_ALONE 64

/* With these settings, the function has another name. So an agent cannot be linked with a
 * dumpulse_keyed.c that was compiled without them. */
#define dumpulse_keyed_begin dumpulse_keyed_begin_of_server

#endif
