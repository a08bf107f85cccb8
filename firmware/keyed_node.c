/* A node with a key on a serial line, for each board that stores one.
 *                                                       SPDX-License-Identifier: MIT
 *
 * It sends a heartbeat each second. The value counts the seconds; replace it by what you measure.
 * The page of an image describes how to wire, flash and try it, and how to bring the key in. The
 * line has 8 data bits, no parity, 1 stop bit. The node writes nothing to the memory of its key.
 * The key is for one variable, so a node does not send its boots.
 */
#ifndef BAUD
#define BAUD 9600UL
#endif
#define TICKS 2 /* ticks per second */
#define KEYED_NODE
#include "keyed_frame.h"
#define PACKET_SIZE KEYED_FRAME
#include BOARD

#ifndef SENDER
#define SENDER 7
#endif
enum { BEACON = KEYED_FIRST + 97 };

static dumpulse_node node; /* zeros: no epoch has begun yet */
static dumpulse_pace pace;
static keyed_frame window;

static void serve(uint16_t now)
{
    if (!serial_empty(&ring) && keyed_frame_ends(&window, serial_get(&ring)) &&
        window.bytes[0] == BEACON) {
        (void)dumpulse_hear(&node, pace.variable, window.bytes + 1, DUMPULSE_PACKET_SIZE);
        window = (keyed_frame){{0}};
    }
    if (pace.variable < DUMPULSE_VARIABLES && !board_transmits() &&
        dumpulse_node_tick(&node, &pace, now, (uint8_t)now, outgoing + 1)) {
        keyed_frame_make(outgoing, (uint8_t)(KEYED_FIRST + pace.variable), outgoing + 1);
        board_send(KEYED_FRAME);
    }
}

int main(void)
{
    uint8_t last = 0;
    uint16_t now = 0;

    (void)board_reset_cause(); /* clears the flags */
    board_start();
    pace.period = 1;
    pace.sender = SENDER;
    read_pace(&pace);
    for (;;) {
        const uint8_t tick = board_ticks();
        if (tick != last) {
            last = tick;
            if (tick % TICKS == 0)
                now++;
            board_feed(); /* only here: it resets a chip whose loop or clock stands still */
        }
        serve(now);
        board_rest();
    }
}
