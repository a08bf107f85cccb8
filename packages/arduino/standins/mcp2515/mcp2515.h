/* For tests: stands in for mcp2515.h of the library autowp-mcp2515.   SPDX-License-Identifier: MIT
 *
 * It has the names, the types and the values of those parts that the examples use. Its code was
 * written here, from the data sheet of the MCP2515. It is no replacement for that library.
 */
#ifndef MCP2515_STANDIN_H
#define MCP2515_STANDIN_H

#include <stdint.h>

enum CAN_CLOCK { MCP_20MHZ, MCP_16MHZ, MCP_8MHZ };
enum CAN_SPEED { CAN_125KBPS = 11, CAN_250KBPS = 13, CAN_500KBPS = 14, CAN_1000KBPS = 15 };

struct can_frame {
    uint32_t can_id; /* bit 31: it has 29 bits; bit 30: a remote frame */
    uint8_t can_dlc;
    uint8_t data[8] __attribute__((aligned(8)));
};

class MCP2515
{
  public:
    enum ERROR { ERROR_OK, ERROR_FAIL, ERROR_ALLTXBUSY, ERROR_FAILINIT, ERROR_FAILTX, ERROR_NOMSG };

    explicit MCP2515(uint8_t chip_select);
    ERROR reset();
    ERROR setBitrate(CAN_SPEED speed, CAN_CLOCK clock);
    ERROR setNormalMode();
    ERROR sendMessage(const struct can_frame *frame);

  private:
    const uint8_t select;

    void send(const uint8_t *bytes, uint8_t length);
    uint8_t read(uint8_t address);
};

#endif
