/* What the programs that host an AVR in simavr share.   SPDX-License-Identifier: MIT */
#ifndef AVR_HOST_H
#define AVR_HOST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>

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

#endif
