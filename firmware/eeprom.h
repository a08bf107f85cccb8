/* The EEPROM of an AVR, and what a node with a key has there.   SPDX-License-Identifier: MIT */
#ifndef EEPROM_H
#define EEPROM_H

#include <avr/eeprom.h>
#include <avr/io.h>

#include "dumpulse_keyed.h"

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

#ifdef KEYED_NODE
/* From the first byte on, as `client.py key eeprom` makes it. */
static struct {
    uint8_t variable;
    uint8_t key[16];    /* the variable's own key */
    uint8_t seconds[2]; /* duration of the agent's epochs, s, low byte first */
} memory EEMEM;

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    (void)label;
    memory_read(key, memory.key, 16);
}

static inline void read_pace(dumpulse_pace *pace)
{
    memory_read(&pace->variable, &memory.variable, 1);
    memory_read((uint8_t *)&pace->epoch, memory.seconds, 2);
}
#endif

#endif /* EEPROM_H */
