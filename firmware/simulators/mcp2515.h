/* A model of Microchip's MCP2515, a CAN controller on SPI.   SPDX-License-Identifier: MIT
 *
 * It follows the data sheet, DS20001801, in what can_avr.c uses: seven SPI instructions, three
 * modes, masks and filters, two receive buffers with roll-over, one transmit buffer, interrupts,
 * and the error states. It also has the waits of the data sheet:
 * - After power-on and RESET it takes no SPI for 128 periods of its oscillator (section 8.1).
 * - A mode begins when nothing is left to send (section 10.0). The normal mode also waits until the
 *   bus has rested for 11 bits, like every node that joins a CAN bus.
 * - If a frame is taken back while it is being sent, it still goes on to its end. Until then its
 *   buffer cannot be written (section 3.6).
 * In listen-only mode it sends nothing: no acknowledgement, and no error flag. It takes every frame
 * there, whatever its filters say, also a damaged one (section 10.3).
 * The program that uses the model says how much time passes, and what happens on the bus. The model
 * has no other modes, instructions, buffers and pins.
 */
#ifndef MCP2515_H
#define MCP2515_H

#include <stdbool.h>
#include <stdint.h>

enum { MCP2515_REGISTERS = 128, MCP2515_HOLD = 128 /* periods of its oscillator in reset */ };

typedef struct mcp2515_frame {
    uint32_t id;
    bool extended, remote;
    uint8_t length; /* 0 to 8 */
    uint8_t data[8];
} mcp2515_frame;

typedef struct mcp2515 {
    uint8_t registers[MCP2515_REGISTERS];
    uint8_t instruction, address, mask;
    unsigned count; /* bytes on SPI since chip select fell */
    unsigned tec;   /* up to 256; its register goes up to 255 */
    uint64_t held;  /* periods of its oscillator until it leaves reset */
    bool deaf;      /* it was in reset when chip select fell */
    bool sending;   /* its frame is on the bus */
    bool aborted;   /* that frame was taken back meanwhile */
} mcp2515;

/* Time passes: this many periods of its oscillator. */
void mcp2515_pass(mcp2515 *chip, uint64_t periods);

/* The pins. */
void mcp2515_reset(mcp2515 *chip);
void mcp2515_select(mcp2515 *chip, bool selected);
uint8_t mcp2515_spi(mcp2515 *chip, uint8_t byte); /* returns the byte that comes back */
bool mcp2515_interrupt(const mcp2515 *chip);      /* INT is low */

/* The bus. mcp2515_pending gives the frame that the controller wants to send; false: none. The
 * frame begins, and then it is sent, or fails. */
bool mcp2515_pending(const mcp2515 *chip, mcp2515_frame *frame);
void mcp2515_begin(mcp2515 *chip);
void mcp2515_lost(mcp2515 *chip); /* another frame has won the arbitration */
void mcp2515_sent(mcp2515 *chip);
void mcp2515_send_failed(mcp2515 *chip, bool unacknowledged);
void mcp2515_receive(mcp2515 *chip, const mcp2515_frame *frame);
bool mcp2515_receive_failed(mcp2515 *chip);   /* true: its error flag destroys the frame */
bool mcp2515_takes_part(const mcp2515 *chip); /* it acknowledges good frames */
unsigned mcp2515_bit(const mcp2515 *chip);    /* length of a bit, in periods */
void mcp2515_bus_rests(mcp2515 *chip);        /* for 11 bits: ends the wait for the normal mode */
void mcp2515_bus_idle(mcp2515 *chip);         /* for 128 times 11 bits: ends bus-off */

#endif
