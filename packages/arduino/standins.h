/* For tests: what the examples use of the libraries Ethernet and autowp-mcp2515, so that the
 * builder can check them. EthernetUDP is made from the core's class UDP, as the real one is.
 * Nothing here does anything.   SPDX-License-Identifier: MIT */
#ifndef ARDUINO_STANDINS_H
#define ARDUINO_STANDINS_H

#include <Arduino.h>
#include <Udp.h>

/* clang-format off */
static struct {
    void begin(uint8_t *, IPAddress) {}
} Ethernet __attribute__((unused));

struct EthernetUDP : public UDP {
    uint8_t begin(uint16_t) { return 0; }
    void stop() {}
    int beginPacket(IPAddress, uint16_t) { return 0; }
    int beginPacket(const char *, uint16_t) { return 0; }
    int endPacket() { return 0; }
    size_t write(uint8_t) { return 0; }
    size_t write(const uint8_t *, size_t) { return 0; }
    int parsePacket() { return 0; }
    int available() { return 0; }
    int read() { return 0; }
    int read(unsigned char *, size_t) { return 0; }
    int read(char *, size_t) { return 0; }
    int peek() { return 0; }
    void flush() {}
    IPAddress remoteIP() { return IPAddress(); }
    uint16_t remotePort() { return 0; }
};

enum CAN_CLOCK { MCP_20MHZ, MCP_16MHZ, MCP_8MHZ };
enum CAN_SPEED { CAN_125KBPS = 11, CAN_250KBPS = 13, CAN_500KBPS = 14, CAN_1000KBPS = 15 };
struct can_frame {
    uint32_t can_id; /* bit 31: it has 29 bits; bit 30: a remote frame */
    uint8_t can_dlc;
    uint8_t data[8] __attribute__((aligned(8)));
};
struct MCP2515 {
    enum ERROR { ERROR_OK, ERROR_FAIL, ERROR_ALLTXBUSY, ERROR_FAILINIT, ERROR_FAILTX, ERROR_NOMSG };
    explicit MCP2515(uint8_t) {}
    ERROR reset() { return ERROR_OK; }
    ERROR setBitrate(CAN_SPEED, CAN_CLOCK) { return ERROR_OK; }
    ERROR setNormalMode() { return ERROR_OK; }
    ERROR sendMessage(const struct can_frame *) { return ERROR_OK; }
};
/* clang-format on */

#endif
