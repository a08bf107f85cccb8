/* For tests: mcp2515.h says what it is.   SPDX-License-Identifier: MIT */
#include "mcp2515.h"

#include <Arduino.h>
#include <SPI.h>
#include <string.h>

enum { RESET = 0xC0, READ = 0x03, WRITE = 0x02, LOAD = 0x40, SEND = 0x80 }; /* instructions */
enum { CANSTAT = 0x0E, CANCTRL = 0x0F, CNF3 = 0x28, TXB0CTRL = 0x30 };      /* registers */
enum { MODE = 0xE0, TXREQ = 0x08, BUFFERS = 3, HEADER = 5 };

static const SPISettings settings(10000000, MSBFIRST, SPI_MODE0);

MCP2515::MCP2515(uint8_t chip_select) : select(chip_select)
{
    pinMode(select, OUTPUT);
    digitalWrite(select, HIGH);
}

void MCP2515::send(const uint8_t *bytes, uint8_t length)
{
    SPI.beginTransaction(settings);
    digitalWrite(select, LOW);
    for (uint8_t i = 0; i < length; i++)
        SPI.transfer(bytes[i]);
    digitalWrite(select, HIGH);
    SPI.endTransaction();
}

uint8_t MCP2515::read(uint8_t address)
{
    SPI.beginTransaction(settings);
    digitalWrite(select, LOW);
    SPI.transfer(READ);
    SPI.transfer(address);
    const uint8_t value = SPI.transfer(0);
    digitalWrite(select, HIGH);
    SPI.endTransaction();
    return value;
}

MCP2515::ERROR MCP2515::reset()
{
    const uint8_t reset[] = {RESET};
    send(reset, sizeof reset);
    delay(1); /* the controller needs 128 periods of its oscillator */
    return (read(CANSTAT) & MODE) == 0x80 ? ERROR_OK : ERROR_FAIL;
}

MCP2515::ERROR MCP2515::setBitrate(CAN_SPEED speed, CAN_CLOCK clock)
{
    const uint8_t set[] = {WRITE, CNF3, 0x01, 0xB5, 0x00}; /* 500 kbit/s at 16 MHz */
    if (speed != CAN_500KBPS || clock != MCP_16MHZ)
        return ERROR_FAIL;
    send(set, sizeof set);
    return ERROR_OK;
}

MCP2515::ERROR MCP2515::setNormalMode()
{
    const uint8_t set[] = {WRITE, CANCTRL, 0};
    send(set, sizeof set);
    for (uint8_t i = 0; i < 10; i++, delay(1))
        if ((read(CANSTAT) & MODE) == 0)
            return ERROR_OK;
    return ERROR_FAIL;
}

MCP2515::ERROR MCP2515::sendMessage(const struct can_frame *frame)
{
    if (frame->can_id >= 0x800 || frame->can_dlc > sizeof frame->data)
        return ERROR_FAILTX; /* the examples send no such frames */
    for (uint8_t buffer = 0; buffer < BUFFERS; buffer++) {
        if (read((uint8_t)(TXB0CTRL + 16 * buffer)) & TXREQ)
            continue;
        uint8_t load[1 + HEADER + sizeof frame->data] = {(uint8_t)(LOAD + 2 * buffer),
                                                         (uint8_t)(frame->can_id >> 3),
                                                         (uint8_t)(frame->can_id << 5),
                                                         0,
                                                         0,
                                                         frame->can_dlc};
        memcpy(load + 1 + HEADER, frame->data, frame->can_dlc);
        send(load, (uint8_t)(1 + HEADER + frame->can_dlc));
        const uint8_t leave[] = {(uint8_t)(SEND | 1 << buffer)};
        send(leave, sizeof leave);
        return ERROR_OK;
    }
    return ERROR_ALLTXBUSY;
}
