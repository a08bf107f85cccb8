/* For tests: stands in for the library Ethernet.   SPDX-License-Identifier: MIT
 *
 * It has the names and the types of those parts that the example uses. Its class EthernetUDP is
 * made from the core's class UDP, as the real one is. Its network is the serial line: each datagram
 * has 4 bytes with the address of the other end, 2 with its port, 2 with the port of this end, and
 * 2 with the length, the high byte first; then come its bytes.
 */
#ifndef ETHERNET_STANDIN_H
#define ETHERNET_STANDIN_H

#include <Arduino.h>
#include <Udp.h>

class EthernetClass
{
  public:
    void begin(uint8_t *mac, IPAddress address);
};
extern EthernetClass Ethernet;

class EthernetUDP : public UDP
{
  public:
    uint8_t begin(uint16_t port);
    void stop();
    int beginPacket(IPAddress address, uint16_t port);
    int beginPacket(const char *host, uint16_t port);
    int endPacket();
    size_t write(uint8_t byte);
    size_t write(const uint8_t *bytes, size_t size);
    using Print::write;
    int parsePacket();
    int available();
    int read();
    int read(unsigned char *bytes, size_t size);
    int read(char *bytes, size_t size);
    int peek();
    void flush();
    IPAddress remoteIP();
    uint16_t remotePort();

  private:
    uint16_t here, other_port, left; /* left: the bytes of this datagram that nobody has read */
    IPAddress other;
    IPAddress to;
    uint16_t to_port, filled;
    bool open;
    uint8_t outgoing[300];
};

#endif
