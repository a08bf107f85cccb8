/* A node with keys on an STM32F103.   SPDX-License-Identifier: MIT
 *
 * It sends a heartbeat each second. The value counts the seconds; replace it by what you measure.
 * node_stm32.md describes how to wire, flash and try it. The line has 9600 baud, 8 data bits, no
 * parity, 1 stop bit. The node writes nothing to its flash.
 */
#define BAUD 9600
#define TICKS 8 /* in a second: the unit of time of this node */
#define OWN_SENDER
#include BOARD
#include "keyed_frame.h"
#include "stm32_flash.h"

#ifndef SENDER
#define SENDER 7
#endif
enum { BEACON = KEYED_FIRST + 97 };

static dumpulse_node node; /* zeros: no epoch has begun yet */
static dumpulse_pace pace;
static keyed_frame window;

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    (void)label;
    copy_key(key);
}

static void send_byte(uint8_t byte)
{
    while (!uart_send(byte)) {
    }
}

static void send_frame(const uint8_t *packet)
{
    uint8_t sum = (uint8_t)(KEYED_FIRST + pace.variable);

    send_byte(sum);
    for (uint8_t i = 0; i != DUMPULSE_PACKET_SIZE; i++) {
        sum = (uint8_t)(sum + packet[i]);
        send_byte(packet[i]);
    }
    send_byte((uint8_t)-sum);
}

static void on_uart(void)
{
    serve_uart();
}

static void serve(void)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    if (!serial_empty(&ring) && keyed_frame_ends(&window, serial_get(&ring)) &&
        window.bytes[0] == BEACON) {
        window.length = 0;
        (void)dumpulse_hear(&node, pace.variable, window.bytes + 1, DUMPULSE_PACKET_SIZE);
    }
    while (pace.variable < DUMPULSE_VARIABLES &&
           dumpulse_node_tick(&node, &pace, ticks, (uint8_t)seconds, packet))
        send_frame(packet);
}

int main(void)
{
    uint8_t fed = 0; /* the tick in which the watchdog was fed */

    pace = (dumpulse_pace){.epoch = (uint16_t)(SETTINGS->epoch_seconds * TICKS),
                           .period = TICKS,
                           .variable = SETTINGS->labels[0],
                           .sender = SENDER};
    board_start();
    for (;;) {
        const uint8_t now = board_ticks();
        if (now != fed)
            board_feed(); /* only here: it resets a chip whose loop or clock stands still */
        fed = now;
        board_rest();
        serve();
    }
}
