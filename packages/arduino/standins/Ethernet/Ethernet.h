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

static struct {
    void begin(uint8_t *, IPAddress)
    {
        Serial.begin(115200);
    }
} Ethernet;

class EthernetUDP : public UDP
{
  public:
    uint8_t begin(uint16_t port)
    {
        here = port;
        return 1;
    }
    int beginPacket(IPAddress address, uint16_t port)
    {
        to = address;
        to_port = port;
        filled = 0;
        open = true;
        return 1;
    }
    int endPacket()
    {
        if (!open)
            return 0;
        open = false;
        for (int i = 0; i < 4; i++)
            Serial.write(to[i]);
        const uint16_t numbers[] = {to_port, here, filled};
        for (const uint16_t number : numbers) {
            Serial.write((uint8_t)(number / 256U));
            Serial.write((uint8_t)(number % 256U));
        }
        Serial.write(outgoing, filled);
        return 1;
    }
    size_t write(const uint8_t *bytes, size_t size)
    {
        if (!open || size > sizeof outgoing - filled)
            return 0;
        memcpy(outgoing + filled, bytes, size);
        filled += (uint16_t)size;
        return size;
    }
    int parsePacket()
    {
        while (read() >= 0)
            ;
        if (Serial.available() == 0)
            return 0;
        for (int i = 0; i < 4; i++)
            other[i] = next_byte();
        other_port = next_number();
        const uint16_t port = next_number();
        left = next_number();
        return port == here ? (int)left : 0;
    }
    int read()
    {
        if (left == 0)
            return -1;
        left--;
        return next_byte();
    }
    int read(unsigned char *bytes, size_t size)
    {
        size_t count = 0;
        while (count < size && left != 0)
            bytes[count++] = (unsigned char)read();
        return (int)count;
    }
    IPAddress remoteIP()
    {
        return other;
    }
    uint16_t remotePort()
    {
        return other_port;
    }

    /* The class UDP has these, too, and the example needs none of them. */
    void stop()
    {
    }
    int beginPacket(const char *, uint16_t)
    {
        return 0;
    }
    size_t write(uint8_t byte)
    {
        return write(&byte, 1);
    }
    int available()
    {
        return (int)left;
    }
    int read(char *bytes, size_t size)
    {
        return read((unsigned char *)bytes, size);
    }
    int peek()
    {
        return -1;
    }
    void flush()
    {
    }

  private:
    uint16_t here, other_port, left; /* left: the bytes of this datagram that nobody has read */
    IPAddress other, to;
    uint16_t to_port, filled;
    bool open;
    uint8_t outgoing[300];

    static uint8_t next_byte()
    {
        while (Serial.available() == 0)
            ;
        return (uint8_t)Serial.read();
    }
    static uint16_t next_number()
    {
        const uint8_t high = next_byte();
        return (uint16_t)(high * 256U + next_byte());
    }
};

#endif
