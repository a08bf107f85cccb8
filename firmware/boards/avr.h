/* What the boards with an AVR share.   SPDX-License-Identifier: MIT */
#ifndef AVR_H
#define AVR_H

#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include <avr/wdt.h>
#include <util/atomic.h>

#include "reset.h"
#include "serial.h"

/* Returns the cause of the reset. To be called first. It clears the flags: otherwise they would
 * stay for the next reset, and the watchdog would keep its shortest time. Optiboot starts a program
 * by the watchdog, so a reset by the pin sets both flags. Old ones clear all flags. */
_Static_assert(_BV(WDRF) >> 1 == RESET_WATCHDOG, "the flag does not give the cause");
static inline uint8_t board_reset_cause(void)
{
    const uint8_t flags = MCUSR;
    uint8_t cause = flags >> 1 & RESET_WATCHDOG; /* without this flag, RESET_UNKNOWN */

    MCUSR = 0;
    if (flags & _BV(EXTRF))
        cause = RESET_PIN;
    if (flags & _BV(BORF))
        cause = RESET_BROWN_OUT;
    if (flags & _BV(PORF))
        cause = RESET_POWER_UP;
    return cause;
}

#ifndef WDTCSR
#define WDTCSR WDTCR
#endif

/* Starts the watchdog. A period is WDTO_2S or the like. The second write must come within 4 cycles,
 * and no interrupt is enabled yet. */
static inline void start_watchdog(uint8_t period)
{
    WDTCSR = _BV(WDCE) | _BV(WDE);
    WDTCSR = (uint8_t)(_BV(WDE) | period);
    wdt_reset(); /* the period begins */
}

static inline uint8_t low_byte(const volatile uint16_t *number)
{
    return *(const volatile uint8_t *)number;
}

/* Both bytes of a number that an interrupt writes. */
static inline __attribute__((always_inline)) uint16_t both_bytes(const volatile uint16_t *number)
{
    uint16_t copy;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        copy = *number;
    }
    return copy;
}

static inline void board_feed(void)
{
    wdt_reset();
}

#if BAUD != 0
static serial_ring ring; /* received bytes */

/* Sleeps until an interrupt, if no byte waits. */
static inline void board_rest(void)
{
    cli();
    if (serial_empty(&ring)) {
        sei(); /* works after the next instruction, so no byte can come in between */
        sleep_cpu();
    }
    sei();
}
#endif

/* Sets the internal oscillator by the last byte of the EEPROM, which serial.md describes.
 * 0xFF: the chip keeps its value from the factory. */
static inline void calibrate(void)
{
    EEAR = E2END;
    EECR |= _BV(EERE);
    const uint8_t setting = EEDR;
    if (setting != UINT8_MAX)
        OSCCAL = setting;
}

#endif /* AVR_H */
