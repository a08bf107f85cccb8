/* For tests: Ethernet.h says what it is.   SPDX-License-Identifier: MIT */
#include "Ethernet.h"

EthernetClass Ethernet;

void EthernetClass::begin(uint8_t *, IPAddress)
{
    Serial.begin(115200);
}

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

static void send_number(uint16_t number)
{
    Serial.write((uint8_t)(number / 256U));
    Serial.write((uint8_t)(number % 256U));
}

uint8_t EthernetUDP::begin(uint16_t port)
{
    here = port;
    return 1;
}

int EthernetUDP::beginPacket(IPAddress address, uint16_t port)
{
    to = address;
    to_port = port;
    filled = 0;
    open = true;
    return 1;
}

int EthernetUDP::endPacket()
{
    if (!open)
        return 0;
    open = false;
    for (int i = 0; i < 4; i++)
        Serial.write(to[i]);
    send_number(to_port);
    send_number(here);
    send_number(filled);
    Serial.write(outgoing, filled);
    return 1;
}

size_t EthernetUDP::write(uint8_t byte)
{
    return write(&byte, 1);
}

size_t EthernetUDP::write(const uint8_t *bytes, size_t size)
{
    if (!open || size > sizeof outgoing - filled)
        return 0;
    memcpy(outgoing + filled, bytes, size);
    filled += (uint16_t)size;
    return size;
}

int EthernetUDP::parsePacket()
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

int EthernetUDP::available()
{
    return (int)left;
}

int EthernetUDP::read()
{
    if (left == 0)
        return -1;
    left--;
    return next_byte();
}

int EthernetUDP::read(unsigned char *bytes, size_t size)
{
    size_t count = 0;
    while (count < size && left != 0)
        bytes[count++] = (unsigned char)read();
    return (int)count;
}

int EthernetUDP::read(char *bytes, size_t size)
{
    return read((unsigned char *)bytes, size);
}

IPAddress EthernetUDP::remoteIP()
{
    return other;
}

uint16_t EthernetUDP::remotePort()
{
    return other_port;
}

/* The example needs none of these. */
void EthernetUDP::stop()
{
}

int EthernetUDP::beginPacket(const char *, uint16_t)
{
    return 0;
}

int EthernetUDP::peek()
{
    return -1;
}

void EthernetUDP::flush()
{
}
