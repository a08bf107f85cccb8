/* What the programs that host an AVR in simavr share.   SPDX-License-Identifier: MIT */
#ifndef AVR_HOST_H
#define AVR_HOST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>
#include <simavr/sim_time.h>

static uint64_t asleep, boots;        /* cycles, and times that it began at address 0 */
static uint16_t deepest = UINT16_MAX; /* the lowest that the stack pointer has been */
static void (*on_boot)(void) = NULL;  /* a reset, the watchdog's too, has stopped all timers */

static void fail(const char *what)
{
    fprintf(stderr, "simavr host: %s\n", what);
    exit(2);
}

/* A chip with an image in its flash, about to run. */
static avr_t *load_chip(const char *mcu, const char *image)
{
    elf_firmware_t firmware;
    memset(&firmware, 0, sizeof firmware);
    if (elf_read_firmware(image, &firmware) != 0)
        fail("cannot read the image");
    avr_t *const chip = avr_make_mcu_by_name(mcu);
    if (chip == NULL)
        fail("simavr does not know this MCU");
    avr_init(chip);
    chip->log = LOG_ERROR;
    avr_load_firmware(chip, &firmware);
    return chip;
}

/* The firmware goes on: by an instruction or, asleep, to the next timer, ours or its own. */
static inline void step(avr_t *chip)
{
    if (chip->pc == 0 && chip->state == cpu_Running) {
        boots++;
        if (on_boot != NULL)
            on_boot();
    }
    const int state = avr_run(chip);
    if (state == cpu_Done || state == cpu_Crashed)
        fail("the firmware has stopped");
    const uint16_t stack = (uint16_t)(chip->data[R_SPL] | chip->data[R_SPH] << 8);
    if (stack < deepest)
        deepest = stack;
}

static inline void run_for(avr_t *chip, uint32_t microseconds)
{
    const avr_cycle_count_t end = chip->cycle + avr_usec_to_cycles(chip, microseconds);
    while (chip->cycle < end)
        step(chip);
}

static inline void print_counts(FILE *file, const avr_t *chip)
{
    fprintf(file, "cycles %llu asleep %llu boots %llu stack %u", (unsigned long long)chip->cycle,
            (unsigned long long)asleep, (unsigned long long)boots, chip->ramend - deepest);
}

#endif
