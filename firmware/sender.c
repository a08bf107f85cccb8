/* A node that only sends.   SPDX-License-Identifier: MIT
 *
 * It sends a heartbeat each second. The value counts the heartbeats; replace it by what you
 * measure. The first one after a reset is in the variable BOOTS, and has the cause, without a
 * count. The page of an image describes how to wire, flash and try it. The line has 8 data bits, no
 * parity, 1 stop bit.
 */
#ifndef BOOTS
#define BOOTS 40
#endif
#include BOARD

#ifndef VARIABLE
#define VARIABLE 7
#endif
#ifndef SENDER
#define SENDER 7
#endif
_Static_assert(VARIABLE < DUMPULSE_VARIABLES && BOOTS < DUMPULSE_VARIABLES,
               "there are 64 variables, from 0");

int main(void)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];
    uint8_t variable = BOOTS, value = (uint8_t)(board_reset_cause() << 5);

    board_start();
    for (uint8_t beat = 0;; beat++) {
        dumpulse_make_heartbeat(packet, variable, SENDER, value);
        board_transmit(packet, sizeof packet);
        board_sleep();
        variable = VARIABLE;
        value = beat;
    }
}
