/* What the programs share that run an AVR in simavr.   SPDX-License-Identifier: MIT */
#ifndef AVR_HOST_H
#define AVR_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <simavr/avr_ioport.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>
#include <simavr/sim_time.h>

enum { OUT_SPH = 0xBE0E, OUT_SPL = 0xBE0D }; /* opcodes without the number of their register */

static uint64_t asleep;               /* cycles */
static uint64_t boots;                /* starts of the firmware at address 0 */
static uint16_t deepest = UINT16_MAX; /* the lowest value that the stack pointer has had */
static void (*on_boot)(void) = NULL;  /* every reset stops all timers; this starts ours again */

static void fail(const char *what)
{
    fprintf(stderr, "simavr host: %s\n", what);
    exit(2);
}

/* A chip that is ready to run, with an image in its flash. Where RAMEND is not 0, it is the last
 * address of a RAM that is larger or smaller than the chip's. */
static avr_t *load_chip_with_ram(const char *mcu, const char *image, uint16_t ramend)
{
    elf_firmware_t firmware;
    memset(&firmware, 0, sizeof firmware);
    if (elf_read_firmware(image, &firmware) != 0)
        fail("cannot read the image");
    avr_t *const chip = avr_make_mcu_by_name(mcu);
    if (chip == NULL)
        fail("simavr does not know this MCU");
    if (ramend != 0)
        chip->ramend = ramend;
    avr_init(chip);
    chip->log = LOG_ERROR;
    avr_load_firmware(chip, &firmware);
    return chip;
}

static inline avr_t *load_chip(const char *mcu, const char *image)
{
    return load_chip_with_ram(mcu, image, 0);
}

/* Takes the option --pins=B5D3... away from the arguments. */
static inline const char *pins_option(int *argc, char ***argv)
{
    static const char option[] = "--pins=";
    if (*argc < 2 || strncmp((*argv)[1], option, sizeof option - 1) != 0)
        return "";
    (*argc)--;
    return *++*argv + sizeof option - 1;
}

static avr_t *watched;
static const char *watched_pins = "";

static inline avr_irq_t *irq_of(avr_t *chip, const char *pin)
{
    avr_irq_t *const port = avr_io_getirq(chip, AVR_IOCTL_IOPORT_GETIRQ(pin[0]), 0);
    return port == NULL ? NULL : port + (pin[1] - '0');
}

/* A watched pin may have another level: tells it on the standard error. */
static inline void on_watched_pin(struct avr_irq_t *irq, uint32_t value, void *name)
{
    if ((value & 1) != (irq->value & 1)) /* other bits say whether it is an output */
        fprintf(stderr, "pin %.2s %u at %llu\n", (const char *)name, (unsigned)value & 1,
                (unsigned long long)watched->cycle);
}

/* Prints an event and its cycle on the standard error, if pins are watched: "sent 5a at 170000". */
static inline void print_event(const char *event, unsigned value)
{
    if (*watched_pins != 0)
        fprintf(stderr, "%s %02x at %llu\n", event, value, (unsigned long long)watched->cycle);
}

/* Tells each change of some pins: "B5C0" are PB5 and PC0. */
static inline void watch_pins(avr_t *chip, const char *pins)
{
    watched = chip;
    watched_pins = pins;
    for (; pins[0] != 0 && pins[1] >= '0' && pins[1] < '8'; pins += 2) {
        if (irq_of(chip, pins) == NULL)
            break;
        avr_irq_register_notify(irq_of(chip, pins), on_watched_pin, (void *)pins);
    }
    if (pins[0] != 0)
        fail("this MCU has no such pin");
}

static inline uint16_t stack_pointer(const avr_t *chip)
{
    return (uint16_t)(chip->data[R_SPL] | chip->data[R_SPH] << 8);
}

/* How deep the stack is after the instruction at this address. A function moves the stack pointer
 * in two halves, the upper one first. Between them it is wrong, and does not count. */
static inline void see_stack(const avr_t *chip, avr_flashaddr_t ran)
{
    static bool half_moved;
    const uint16_t stack = stack_pointer(chip);
    if (stack >= deepest) {
        half_moved = false;
        return;
    }
    const unsigned out = (unsigned)(chip->flash[ran] | chip->flash[ran + 1] << 8) & 0xFE0FU;
    if (out == OUT_SPH || out == OUT_SPL)
        half_moved = out == OUT_SPH;
    if (!half_moved)
        deepest = stack;
}

/* Runs one instruction. If the firmware sleeps, goes on to its own next timer, or to ours. */
static inline void step(avr_t *chip)
{
    if (chip->pc == 0 && chip->state == cpu_Running) {
        boots++;
        print_event("boot", (unsigned)boots);
        for (const char *pin = watched_pins; *pin != 0; pin += 2)
            avr_raise_irq(irq_of(chip, pin), 0); /* a reset makes all pins inputs */
        if (on_boot != NULL)
            on_boot();
    }
    const avr_flashaddr_t ran = chip->pc;
    const int state = avr_run(chip);
    if (state == cpu_Done || state == cpu_Crashed)
        fail("the firmware has stopped");
    see_stack(chip, ran);
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
