/* The agent with keys on a serial line, for each board that stores them.
 *                                                       SPDX-License-Identifier: MIT
 * The page of an image describes how to wire, flash and try it. The line has 8 data bits, no
 * parity, 1 stop bit. BOARD is the header of the board, which has the keys and the number, or
 * keyed_avr.c has them.
 *
 * A packet begins to leave only when one of the 65 turns of a second does. So the line rests for
 * at least 2 ms after a beacon: a node without a UART may receive nothing while it checks the tag.
 */
#ifndef BAUD
#define BAUD 9600UL
#endif
#define TICKS 64 /* ticks per second, on boards that count turns by their clock */
#include "keyed.h"
#include "keyed_frame.h"
enum { REPORT_FRAMES = DUMPULSE_KEYED_REPORT_SIZE / DUMPULSE_PACKET_SIZE };
#define PACKET_SIZE (REPORT_FRAMES * KEYED_FRAME)
#include BOARD

_Static_assert(BAUD >= 9600, "the line does not rest long enough after a beacon");
/* Byte 0 of frames: of a report's first one, behind which is a beacon's; and of requests. */
enum { REPORT_AT = KEYED_FIRST + 64, REQUESTS_AT = KEYED_FIRST + 98 };

static keyed_agent keyed; /* zeros: it has not begun */
static keyed_frame window;
static bool turn_begins;

uint16_t dumpulse_get_timestamp(void)
{
    return board_time();
}

bool keyed_may_send(void)
{
    return turn_begins && !board_transmits();
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    const uint8_t count = length == DUMPULSE_PACKET_SIZE ? 1 : REPORT_FRAMES;
    uint8_t at = count == 1 ? REPORT_AT + REPORT_FRAMES : REPORT_AT;
    uint8_t *to = outgoing + sizeof outgoing - (size_t)count * KEYED_FRAME;

    if (!keyed_may_send() || context != NULL)
        return; /* keyed_agent.c sends it later */
    for (; to != outgoing + sizeof outgoing; to += KEYED_FRAME, packet += DUMPULSE_PACKET_SIZE)
        keyed_frame_make(to, at++, packet);
    board_send((uint16_t)(count * KEYED_FRAME));
}

/* A packet of version 1 has no frame: are the last bytes one of a variable in UNKEYED? */
static bool took_unkeyed(void)
{
#ifdef UNKEYED
    const uint8_t *packet = window.bytes + KEYED_FRAME - DUMPULSE_PACKET_SIZE;

    return packet[4] == DUMPULSE_MAGIC && keyed_process(&keyed, packet) == DUMPULSE_HEARTBEAT;
#else
    return false;
#endif
}

/* Takes a byte from the line, if there is one. */
static void take_byte(void)
{
    if (serial_empty(&ring))
        return;
    const bool ends = keyed_frame_ends(&window, serial_get(&ring));
    const uint8_t at = window.bytes[0];
    if (!took_unkeyed()) {
        if (!ends || at < KEYED_FIRST || (at >= REPORT_AT && at < REQUESTS_AT))
            return;
        (void)dumpulse_record(&keyed.agent, SERIAL_SELF, SERIAL_SELF_SENDER, ring.lost);
        (void)keyed_process(&keyed, window.bytes + 1);
    }
    window = (keyed_frame){{0}};
}

int main(void)
{
    uint8_t fed = 0, turn = 0; /* the tick in which the watchdog was fed */
    uint16_t second = 0;

    record_boot(&keyed.agent, board_reset_cause());
    board_start();
    keyed_start();
    for (;;) {
        board_rest();
        const uint8_t now = board_ticks();
        if (now != fed) {
            fed = now;
            board_feed(); /* only here: it resets a chip whose loop or clock stands still */
        }
        const uint16_t time = board_time();
        if (time != second)
            keyed_each_second(&keyed);
        second = time;
        turn_begins = turn != keyed_turns();
        turn = keyed_turns();
        take_byte();
        keyed_go_on(&keyed);
    }
}
