/* The agent on a serial line, for each board that has one.   SPDX-License-Identifier: MIT
 *
 * The page of a board's image describes how to wire, flash and try it. The line has 8 data bits, no
 * parity, 1 stop bit. BOARD is the header of the board, by which it receives and sends.
 */
#include BOARD
#include "reset.h"
#include "serial.h"
#include "watch.h"

static dumpulse agent; /* zeros: no heartbeat has come yet */
static dumpulse_line line;

uint16_t dumpulse_get_timestamp(void)
{
    return board_time();
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context; /* there is only one line */
    board_transmit(packet, length);
}

int main(void)
{
    uint8_t fed = 0; /* the tick in which the watchdog was fed */

    record_boot(&agent, board_reset_cause());
    board_start();
    watch_start();
    for (;;) {
        const uint8_t now = board_ticks();
        if (now != fed) {
            fed = now;
            board_feed(); /* only here: it resets a chip whose loop or clock stands still */
        }
        board_rest();
        watch_nodes(&agent, serial_serve(&agent, &line, &ring) == DUMPULSE_HEARTBEAT);
    }
}
