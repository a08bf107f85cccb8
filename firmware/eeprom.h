/* Reads the EEPROM of an AVR.   SPDX-License-Identifier: MIT */
#ifndef EEPROM_H
#define EEPROM_H

#include <avr/eeprom.h>
#include <avr/io.h>

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
