/* For tests: stands in for mcp2515.h of the library autowp-mcp2515.   SPDX-License-Identifier: MIT
 *
 * It has the names, the types and the values of those parts that the examples use. Its code was
 * written here, from the data sheet of the MCP2515. It is no replacement for that library.
 */
#ifndef MCP2515_STANDIN_H
#define MCP2515_STANDIN_H

#include <Arduino.h>
#include <SPI.h>

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

    explicit MCP2515(uint8_t chip_select) : select(chip_select)
    {
        pinMode(select, OUTPUT);
        digitalWrite(select, HIGH);
    }
    ERROR reset()
    {
        const uint8_t reset[] = {0xC0};
        send(reset, sizeof reset);
        delay(1); /* the controller needs 128 periods of its oscillator */
        return (read(CANSTAT) & MODE) == 0x80 ? ERROR_OK : ERROR_FAIL;
    }
    ERROR setBitrate(CAN_SPEED speed, CAN_CLOCK clock)
    {
        const uint8_t set[] = {WRITE, CNF3, 0x01, 0xB5, 0x00}; /* 500 kbit/s at 16 MHz */
        if (speed != CAN_500KBPS || clock != MCP_16MHZ)
            return ERROR_FAIL;
        send(set, sizeof set);
        return ERROR_OK;
    }
    ERROR setNormalMode()
    {
        const uint8_t set[] = {WRITE, CANCTRL, 0};
        send(set, sizeof set);
        for (uint8_t i = 0; i < 10; i++, delay(1))
            if ((read(CANSTAT) & MODE) == 0)
                return ERROR_OK;
        return ERROR_FAIL;
    }
    ERROR sendMessage(const struct can_frame *frame)
    {
        if (frame->can_id >= 0x800 || frame->can_dlc > sizeof frame->data)
            return ERROR_FAILTX; /* the examples send no such frames */
        for (uint8_t buffer = 0; buffer < 3; buffer++) {
            if (read((uint8_t)(TXB0CTRL + 16 * buffer)) & TXREQ)
                continue;
            uint8_t load[6 + sizeof frame->data] = {(uint8_t)(LOAD + 2 * buffer),
                                                    (uint8_t)(frame->can_id >> 3),
                                                    (uint8_t)(frame->can_id << 5),
                                                    0,
                                                    0,
                                                    frame->can_dlc};
            memcpy(load + 6, frame->data, frame->can_dlc);
            send(load, (uint8_t)(6 + frame->can_dlc));
            const uint8_t leave[] = {(uint8_t)(SEND | 1 << buffer)};
            send(leave, sizeof leave);
            return ERROR_OK;
        }
        return ERROR_ALLTXBUSY;
    }

  private:
    enum { READ = 0x03, WRITE = 0x02, LOAD = 0x40, SEND = 0x80 };          /* instructions */
    enum { CANSTAT = 0x0E, CANCTRL = 0x0F, CNF3 = 0x28, TXB0CTRL = 0x30 }; /* registers */
    enum { MODE = 0xE0, TXREQ = 0x08 };
    const uint8_t select;

    /* Returns what the controller says while the last byte goes out. */
    uint8_t send(const uint8_t *bytes, uint8_t length)
    {
        uint8_t said = 0;
        SPI.beginTransaction(SPISettings(10000000, MSBFIRST, SPI_MODE0));
        digitalWrite(select, LOW);
        for (uint8_t i = 0; i < length; i++)
            said = SPI.transfer(bytes[i]);
        digitalWrite(select, HIGH);
        SPI.endTransaction();
        return said;
    }
    uint8_t read(uint8_t address)
    {
        const uint8_t ask[] = {READ, address, 0};
        return send(ask, sizeof ask);
    }
};

#endif
