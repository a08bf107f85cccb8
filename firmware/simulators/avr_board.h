/* What the boards with an AVR share beside tools/processors/avr_host.h. The lab's counts are made
 * with that file: each change of its code makes every count on an AVR stale.
 * SPDX-License-Identifier: MIT */
#ifndef AVR_BOARD_H
#define AVR_BOARD_H

#include "avr_host.h" /* first: simavr's other headers need what it includes */

#include <simavr/avr_eeprom.h>

enum { MCUSR = 0x54 }; /* data address of the cause of a reset, on each chip of firmware/ */

/* Replaces simavr's own function, which really sleeps. */
static inline void count_sleep(avr_t *unused, avr_cycle_count_t cycles)
{
    (void)unused;
    asleep += cycles + 1;
}

static inline void print_board(FILE *file, const avr_t *chip)
{
    print_counts(file, chip);
    fprintf(file, " flags %u", chip->data[MCUSR]);
}

/* ---- The EEPROM, which survives when the power is cut ------------------------------------
 *
 * simavr 1.6 writes a byte at once. In a real chip that takes 3.4 ms; meanwhile EEPE is 1, and
 * nothing can be read. If the power is cut meanwhile, the byte can become anything. This model does
 * both. It fails if the firmware reads while a byte is being written, as then it would get nothing.
 */

/* ATmega328P (DS40002061), 8.6.3: the mode bits' table has the time of a write; EEMPE lasts for 4
 * cycles, and 2 of the instruction; EEPE halts the core for 2 cycles, EERE for 4. */
enum { EE_WRITE_US = 3400, EE_ENABLED_CYCLES = 6, EE_WRITE_HALTS = 2, EE_READ_HALTS = 4 };
enum { EE_RE = 1, EE_PE = 2, EE_MPE = 4, EE_RIE = 8 }; /* bits of EECR */

static struct {
    avr_t *avr;
    avr_eeprom_t *io;               /* simavr's own, which has the bytes */
    avr_cycle_count_t enabled_till; /* EEMPE was set a moment ago */
    uint64_t begun;                 /* bytes whose writing the firmware has begun */
    uint16_t at;                    /* address of the last one */
    bool busy;                      /* a byte is being written */
    bool is_worn;                   /* writing a byte changes nothing */
} eeprom;

static avr_cycle_count_t eeprom_written(avr_t *chip, avr_cycle_count_t when, void *unused)
{
    (void)when, (void)unused;
    chip->data[eeprom.io->r_eecr] &= (uint8_t)~EE_PE;
    eeprom.busy = false;
    avr_raise_interrupt(chip, &eeprom.io->ready); /* if it is enabled */
    return 0;
}

/* The firmware writes to EECR. */
static void on_eecr(avr_t *chip, avr_io_addr_t address, uint8_t value, void *unused)
{
    uint8_t *const data = chip->data;
    const unsigned at = data[eeprom.io->r_eearl] | (unsigned)data[eeprom.io->r_eearh] << 8;

    (void)unused;
    if ((value & (EE_RE | EE_PE)) != 0 && at >= eeprom.io->size)
        fail("the EEPROM has no such address");
    if ((value & EE_PE) != 0 && chip->cycle <= eeprom.enabled_till) {
        if (eeprom.busy)
            fail("the firmware writes its EEPROM while a byte is being written");
        if (!eeprom.is_worn)
            eeprom.io->eeprom[at] = data[eeprom.io->r_eedr];
        eeprom.at = (uint16_t)at;
        eeprom.busy = true;
        eeprom.begun++;
        chip->cycle += EE_WRITE_HALTS;
        avr_cycle_timer_register_usec(chip, EE_WRITE_US, eeprom_written, NULL);
    } else if ((value & EE_MPE) != 0) {
        eeprom.enabled_till = chip->cycle + EE_ENABLED_CYCLES;
    }
    if ((value & EE_RE) != 0) {
        if (eeprom.busy)
            fail("the firmware reads its EEPROM while a byte is being written");
        data[eeprom.io->r_eedr] = eeprom.io->eeprom[at];
        chip->cycle += EE_READ_HALTS;
    }
    data[address] = (uint8_t)((value & EE_RIE) | (eeprom.busy ? EE_PE : 0));
    if (eeprom.busy)
        avr_clear_interrupt(chip, &eeprom.io->ready);
    else
        avr_raise_interrupt(chip, &eeprom.io->ready);
}

/* Puts the model in the place of simavr's. If there is a file, the EEPROM begins with its bytes. */
static inline void start_eeprom(avr_t *chip, const char *file)
{
    eeprom.avr = chip;
    for (avr_io_t *io = chip->io_port; io != NULL; io = io->next)
        if (strcmp(io->kind, "eeprom") == 0)
            eeprom.io = (avr_eeprom_t *)io; /* the io is its first member */
    if (eeprom.io == NULL)
        fail("this MCU has no EEPROM");
    chip->io[AVR_DATA_TO_IO(eeprom.io->r_eecr)].w.c = on_eecr;
    if (*file == 0)
        return;
    FILE *const bytes = fopen(file, "rb");
    if (bytes == NULL || fread(eeprom.io->eeprom, 1, eeprom.io->size, bytes) == 0)
        fail("cannot read the bytes of the EEPROM");
    fclose(bytes);
}

/* After any reset: it ends no write. */
static inline void restart_eeprom(void)
{
    eeprom.enabled_till = 0;
    if (eeprom.busy) {
        eeprom.avr->data[eeprom.io->r_eecr] = EE_PE;
        avr_cycle_timer_register_usec(eeprom.avr, EE_WRITE_US, eeprom_written, NULL);
    }
}

/* The power is cut, and comes back. A byte that is being written becomes this one, and RAM is full
 * of it. */
static inline void cut_power(uint8_t byte)
{
    if (eeprom.busy)
        eeprom.io->eeprom[eeprom.at] = byte;
    eeprom.busy = false;
    const unsigned ram = eeprom.avr->ioend + 1U;
    memset(eeprom.avr->data + ram, byte, eeprom.avr->ramend + 1U - ram);
    avr_reset(eeprom.avr);
}

/* Runs until this many bytes more have begun to be written, and at most for 20 seconds. */
static inline void run_until_writing(avr_t *chip, unsigned bytes)
{
    const uint64_t goal = eeprom.begun + bytes;
    const avr_cycle_count_t end = chip->cycle + avr_usec_to_cycles(chip, 20000000);
    while (eeprom.begun < goal && chip->cycle < end)
        step(chip);
}

#endif
