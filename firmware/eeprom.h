/* Reads the EEPROM of an AVR.   SPDX-License-Identifier: MIT */
#ifndef EEPROM_H
#define EEPROM_H

#include <avr/eeprom.h>
#include <avr/io.h>

#include "dumpulse_keyed.h"

/* A number that survives when the power is cut, and its bytes before the first start. */
enum { SLOTS = 2 * DUMPULSE_SLOT_SIZE };
#define BYTE(number, at) (uint8_t)((number) >> (at)&0xFF)
/* clang-format off */
#define NUMBER(number) \
    {BYTE(number, 16), BYTE(number, 8), BYTE(number, 0), \
     BYTE(~(number), 16), BYTE(~(number), 8), BYTE(~(number), 0)}
/* clang-format on */

/* `make eeprom` defines SINCE_2020, in seconds. With numbers from the date, a device that replaces
 * another one uses none again: spec/keyed.md, "Replacing". A node that sends two heartbeats each
 * second uses a number in 127 s. Both last until 2049. */
#define FIRST_BLOCK (SINCE_2020 / 450)
#define FIRST_OWN (0x800000 + SINCE_2020 / 112)

/* Waits until nothing is being written. */
static inline void memory_read(uint8_t *to, const uint8_t *from, uint8_t count)
{
    loop_until_bit_is_clear(EECR, EEPE);
    while (count-- != 0) {
        EEAR = (uint16_t)from++;
        EECR |= _BV(EERE);
        *to++ = EEDR;
    }
}

#endif /* EEPROM_H */
