/* The keys of a device with an STM32F103, and an agent's number, in the last three pages of its
 * flash; and an agent's LED.   SPDX-License-Identifier: MIT
 *
 * PM0075 is the manual of the flash. It has pages of 1,024 bytes, and 64 KB. The firmware lies in
 * the first pages, and flashing it leaves these as they are. While the flash is written, the core
 * waits, as its instructions are there: 0.2 ms for a number, and 40 ms if a page is erased first.
 */
#ifndef STM32_FLASH_H
#define STM32_FLASH_H

#include "dumpulse_keyed.h"

enum { PAGE = 1024, SETTINGS_AT = 0x0800F400, NUMBERS_AT = SETTINGS_AT + PAGE };

/* `client.py key eeprom` makes a file with these. An agent has the master key, and the generation
 * of each label's key; and a number from the date, as in keyed_avr.c. A node has its own key. */
typedef struct settings {
    uint8_t key[16];
    uint8_t labels[DUMPULSE_READER_LABEL + 2]; /* an agent's generations; a node's own label */
    uint16_t epoch_seconds;                    /* duration of an epoch, s; only a node's */
    uint8_t rest[PAGE - 16 - DUMPULSE_READER_LABEL - 4];
    uint8_t number[DUMPULSE_RECORD_SIZE];
} settings;
_Static_assert(offsetof(settings, number) == PAGE, "the number does not begin the next page");

#define SETTINGS ((const settings *)SETTINGS_AT)

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    for (uint8_t i = 0; i != 16; i++)
        key[i] = SETTINGS->key[i];
#ifdef KEYED_NODE
    (void)label;
#else
    dumpulse_label_key(key, label, SETTINGS->labels[label]);
#endif
}

#ifdef KEYED_NODE
static inline void read_pace(dumpulse_pace *pace)
{
    pace->variable = SETTINGS->labels[0];
    pace->epoch = SETTINGS->epoch_seconds;
}
#else
#define FLASH_KEY REGISTER(0x40022004)     /* PM0075, 3.2 */
#define FLASH_STATE REGISTER(0x4002200C)   /* 3.4 */
#define FLASH_CONTROL REGISTER(0x40022010) /* 3.5 */
#define FLASH_ADDRESS REGISTER(0x40022014) /* 3.6 */
enum { BUSY = 1, PROGRAMS = 1, ERASES = 2, STARTS = 0x40, LOCKS = 0x80 };
#define NUMBERS ((const uint8_t *)NUMBERS_AT)

static void wait_for_flash(void)
{
    while (FLASH_STATE & BUSY) {
    }
}

uint32_t dumpulse_load(void)
{
    return dumpulse_flash_read(NUMBERS, PAGE);
}

bool dumpulse_store(uint32_t number)
{
    union {
        uint8_t bytes[DUMPULSE_RECORD_SIZE];
        uint16_t halves[DUMPULSE_RECORD_SIZE / 2];
    } record;
    const size_t at = dumpulse_flash_write(NUMBERS, PAGE, record.bytes, number);

    FLASH_KEY = 0x45670123; /* 2.3.1 */
    FLASH_KEY = 0xCDEF89AB;
    if (at % PAGE == 0) { /* 2.3.4 */
        FLASH_CONTROL = ERASES;
        FLASH_ADDRESS = NUMBERS_AT + at;
        FLASH_CONTROL = ERASES | STARTS;
        wait_for_flash();
    }
    FLASH_CONTROL = PROGRAMS; /* 2.3.3: half a word at a time */
    for (size_t i = 0; i != DUMPULSE_RECORD_SIZE / 2; i++) {
        ((volatile uint16_t *)(NUMBERS_AT + at))[i] = record.halves[i];
        wait_for_flash();
    }
    FLASH_CONTROL = LOCKS;
    return dumpulse_load() == number;
}

#define LED_HIGH REGISTER(0x40011004) /* port C's pins 8 to 15 */
#define LED_SET REGISTER(0x40011010)
enum { LED = 13 }; /* PC13 of a Blue Pill: lit when it is low */

void keyed_show(bool is_lit)
{
    LED_SET = 1U << (is_lit ? LED + 16 : LED);
}

void keyed_start(void)
{
    CLOCKS |= 1U << 4; /* port C */
    keyed_show(false);
    LED_HIGH = 0x44644444; /* an open-drain output */
}

uint8_t keyed_turns(void)
{
    return board_ticks(); /* 64 in a second: an epoch has 10.16 seconds */
}
#endif

#endif /* STM32_FLASH_H */
