/* The nodes that hear udpserver's beacons, with --key.   SPDX-License-Identifier: MIT
 *
 * A node is where its variable was last heard. It gets the beacon of each epoch, so that it does
 * not have to ask for one. Else its heartbeats would be refused from each new epoch on until it has
 * asked. Only somebody with the key can put an address here, or bring a heartbeat here from another
 * address before it comes from its own; and that address gets 8 bytes in each of three epochs.
 */
#ifndef DUMPULSE_LISTENERS_H
#define DUMPULSE_LISTENERS_H

#include <stdint.h>
#include <sys/socket.h>

/* A heartbeat of the variable was right, which came from there to this socket. Unless another one
 * comes until then (ns), the node is forgotten. */
void listeners_note(uint8_t variable, int descriptor, struct msghdr *from, uint64_t until);
void listeners_tell(uint8_t label, const uint8_t *beacon); /* sends it to the node */

#endif
