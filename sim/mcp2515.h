/* A model of Microchip's MCP2515, a CAN controller on SPI.   SPDX-License-Identifier: MIT
 *
 * From its data sheet, DS20001801: the nine SPI instructions, modes, masks and filters, both
 * receive buffers with roll-over, three transmit buffers with priorities, interrupts, and the
 * error states. Its waits, too:
 * - After power-on and RESET it takes no SPI for 128 periods of its oscillator (section 8.1).
 * - A mode begins when nothing is left to send (section 10.0). The normal mode also waits until the
 *   bus has rested for 11 bits, as every node does that joins a CAN bus.
 * - A frame that is being sent goes on although it was taken back, and until it is over its buffer
 *   cannot be written (section 3.6).
 * The host says how much time passes, and when the bus takes or brings a frame.
 * Left out: bit timing, the RXnBF and TXnRTS pins, start of frame, wake-up by the bus.
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
    unsigned count; /* bytes since chip select fell */
    unsigned tec;   /* up to 256, which the register does not show */
    uint64_t held;  /* periods of its oscillator until it leaves reset */
    bool deaf;      /* it was in reset when chip select fell */
    bool sending;   /* a frame is on the bus: that of `buffer` */
    bool aborted;   /* and was taken back meanwhile */
    int buffer;
} mcp2515;

/* Time, in periods of its oscillator. */
void mcp2515_pass(mcp2515 *chip, uint64_t periods);

/* The pins. */
void mcp2515_reset(mcp2515 *chip);
void mcp2515_select(mcp2515 *chip, bool selected);
uint8_t mcp2515_spi(mcp2515 *chip, uint8_t byte); /* the byte that comes back meanwhile */
bool mcp2515_interrupt(const mcp2515 *chip);      /* INT is low */

/* The bus. Which frame would it send now? False: none. It begins, and then what became of it. */
bool mcp2515_pending(const mcp2515 *chip, mcp2515_frame *frame);
void mcp2515_begin(mcp2515 *chip);
void mcp2515_sent(mcp2515 *chip);
void mcp2515_send_failed(mcp2515 *chip, bool unacknowledged);
void mcp2515_receive(mcp2515 *chip, const mcp2515_frame *frame);
void mcp2515_receive_failed(mcp2515 *chip);
void mcp2515_bus_rests(mcp2515 *chip); /* 11 recessive bits: ends the wait for the normal mode */
void mcp2515_bus_idle(mcp2515 *chip);  /* 128 times 11 recessive bits: ends bus-off */

#endif
