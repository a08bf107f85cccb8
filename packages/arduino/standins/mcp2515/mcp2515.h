/* For tests: what the example uses of the library autowp-mcp2515, so that the builder can check the
 * example. It does nothing.   SPDX-License-Identifier: MIT */
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

    /* clang-format off */
    explicit MCP2515(uint8_t) {}
    ERROR reset() { return ERROR_OK; }
    ERROR setBitrate(CAN_SPEED, CAN_CLOCK) { return ERROR_OK; }
    ERROR setNormalMode() { return ERROR_OK; }
    ERROR sendMessage(const struct can_frame *) { return ERROR_OK; }
    /* clang-format on */
};

#endif
