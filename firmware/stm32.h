/* What agents on an STM32F1 or F4 share: the independent watchdog, IWDG.
 *                                                           SPDX-License-Identifier: MIT */
#ifndef STM32_H
#define STM32_H

#define DOG_KEY REGISTER(0x40003000)
#define DOG_PRESCALER REGISTER(0x40003004)
#define DOG_RELOAD REGISTER(0x40003008)

enum { DOG_UNLOCK = 0x5555, DOG_FEED = 0xAAAA, DOG_START = 0xCCCC };

/* The watchdog counts down from DOG_RELOAD, each count 256 clocks of its oscillator: 2 s at 32 kHz
 * (STM32F4), 1.6 s at 40 kHz (STM32F1). They differ by half from chip to chip. */
static inline void start_dog(void)
{
    DOG_KEY = DOG_UNLOCK;
    DOG_PRESCALER = 6;
    DOG_RELOAD = 250;
    DOG_KEY = DOG_START;
}

static void chip_feed(void)
{
    DOG_KEY = DOG_FEED;
}

#endif /* STM32_H */
