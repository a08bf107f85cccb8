/* What agents on an STM32 or a CH32V003 share: the independent watchdog, IWDG.
 *                                                           SPDX-License-Identifier: MIT */
#ifndef STM32_H
#define STM32_H

#define DOG_KEY REGISTER(0x40003000)
#define DOG_PRESCALER REGISTER(0x40003004)
#define DOG_RELOAD REGISTER(0x40003008)
#define DOG_UPDATES REGISTER(0x4000300C) /* IWDG_SR: not 0 while a register is being updated */

enum { DOG_UNLOCK = 0x5555, DOG_FEED = 0xAAAA, DOG_START = 0xCCCC };

/* The watchdog counts down, each count 256 clocks of its oscillator. 250 are 2 s at 32 kHz
 * (STM32F4) and 1.6 s at 40 kHz (STM32F1), 1000 are 2 s at 128 kHz (CH32V003). The oscillators
 * differ by half from chip to chip. It starts from 0xFFF, with 4 clocks each: 0.5 s, which also end
 * the wait. Only feeding it loads its counter (RM0090, 21.3 and 21.4.4). */
static inline void start_dog(uint32_t counts)
{
    DOG_KEY = DOG_START;
    DOG_KEY = DOG_UNLOCK;
    DOG_PRESCALER = 6;
    DOG_RELOAD = counts;
    while (DOG_UPDATES) {
    }
    DOG_KEY = DOG_FEED;
}

static void chip_feed(void)
{
    DOG_KEY = DOG_FEED;
}

#endif /* STM32_H */
