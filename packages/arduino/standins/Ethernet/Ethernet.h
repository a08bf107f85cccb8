/* For tests: what the example uses of the library Ethernet, so that the builder can check the
 * example. Its class EthernetUDP is made from the core's class UDP, as the real one is. It does
 * nothing.   SPDX-License-Identifier: MIT */
#ifndef ETHERNET_STANDIN_H
#define ETHERNET_STANDIN_H

#include <Arduino.h>
#include <Udp.h>

/* clang-format off */
static struct {
    void begin(uint8_t *, IPAddress) {}
} Ethernet;

class EthernetUDP : public UDP
{
  public:
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
/* clang-format on */

#endif
