/* Runs the firmware of an ATmega328P in simavr, as a slave on an I²C bus.
 *                                                             SPDX-License-Identifier: MIT
 *     i2c_board [--pins=B5D3...] MCU HERTZ IMAGE
 *
 * simavr 1.6 has no TWI slave that refuses a byte, holds the clock or notices a fault. This one is
 * section 22 of the chip's data sheet, Atmel-8271: the status codes of tables 22-4 to 22-6, what
 * TWINT, TWEA, TWSTO and TWEN do, and when TWDR may be written. What it forbids ends the run.
 *
 * The standard input is what the masters do. Each word is one of these:
 *     S             START, or a repeated one. If the firmware holds SDA low, "held" is printed.
 *     P             STOP
 *     HEX           this byte goes to the slave: "A" or "N" is printed, for its acknowledge bit
 *     r, n          a byte of the slave is read and printed; r acknowledges it, n does not
 *     h             four bits of a byte go by, and no more. START and STOP are illegal then.
 *     wait=N        nothing happens for N microseconds
 *     kbits=N       the speed of the bus; 400 at first
 * In the end a line is printed on the standard error:
 *     cycles N asleep N boots N stack N flags N stretched N
 * stretched: for how many microseconds the firmware has held the clock low at most.
 */
#include "avr_board.h"

#include <unistd.h>

#include <simavr/avr_twi.h>

enum { TWINT = 0x80, TWEA = 0x40, TWSTO = 0x10, TWWC = 0x08, TWEN = 0x04 };
enum { R_TWSR = 0xB9, R_TWAR = 0xBA, R_TWDR = 0xBB, R_TWCR = 0xBC };
/* States of TWSR, as a receiver and as a sender. */
enum { OWN_W = 0x60, DATA = 0x80, REFUSED = 0x88, ENDED = 0xA0 };
enum { OWN_R = 0xA8, SENT_ACK = 0xB8, SENT_NACK = 0xC0, LAST = 0xC8, FAULT = 0 };
enum { PATIENCE_US = 3000000 }; /* the longest time that the firmware may hold the clock low */

static avr_t *avr;
static FILE *out;
static avr_twi_t *twi;
static unsigned kbits = 400;
static enum { NOBODY, RECEIVER, SENDER } role; /* role of the slave; NOBODY: it is not addressed */
static bool starts;                            /* the next byte is an address */
static bool cut;                               /* a byte has begun, and is not whole */
static avr_cycle_count_t stretched;

/* While the firmware sleeps, simavr goes from timer to timer. This one comes each microsecond. */
static avr_cycle_count_t on_time(avr_t *chip, avr_cycle_count_t when, void *unused)
{
    (void)unused;
    return when + avr_usec_to_cycles(chip, 1);
}

static void report(uint8_t status)
{
    avr->data[R_TWSR] = status;
    avr_raise_interrupt(avr, &twi->twi);
    avr->data[R_TWCR] |= TWINT;
}

static void on_twdr(avr_t *chip, avr_io_addr_t address, uint8_t value, void *unused)
{
    (void)unused;
    if ((chip->data[R_TWCR] & TWINT) == 0)
        fail("TWDR is written while TWINT is 0: a collision");
    chip->data[address] = value;
}

static void on_twcr(avr_t *chip, avr_io_addr_t address, uint8_t value, void *unused)
{
    const uint8_t before = chip->data[address];
    const bool fault = (before & TWINT) && chip->data[R_TWSR] == FAULT && role != NOBODY;
    (void)unused;
    if (value & TWINT || !(value & TWEN)) { /* one clears it; without TWEN all is switched off */
        if (fault && value & TWEN && !(value & TWSTO))
            fail("a bus error is left without TWSTO");
        avr_clear_interrupt(chip, &twi->twi);
        if (fault || !(value & TWEN))
            role = NOBODY;
        chip->data[address] = value & (uint8_t) ~(TWINT | TWSTO | TWWC);
    } else {
        chip->data[address] = (uint8_t)((value & ~TWINT) | (before & TWINT));
    }
}

/* The clock is low until the firmware has taken note of the last event. */
static void wait_for_clock(void)
{
    const avr_cycle_count_t since = avr->cycle;
    while (avr->data[R_TWCR] & TWINT) {
        step(avr);
        if (avr->cycle - since > avr_usec_to_cycles(avr, PATIENCE_US))
            fail("the clock is held low");
    }
    if (avr->cycle - since > stretched)
        stretched = avr->cycle - since;
}

static void pass_bits(unsigned bits)
{
    wait_for_clock();
    const avr_cycle_count_t end = avr->cycle + bits * avr->frequency / 1000 / kbits;
    while (avr->cycle < end)
        step(avr);
}

static void start_or_stop(bool is_start)
{
    pass_bits(1);
    if (role == SENDER && (avr->data[R_TWDR] & (cut ? 0x08 : 0x80)) == 0) { /* its next bit is 0 */
        fputs("held\n", out);
        return;
    }
    if (role != NOBODY && (cut || role == SENDER)) {
        report(FAULT);
        wait_for_clock();
    } else if (role == RECEIVER) {
        role = NOBODY;
        report(ENDED);
    }
    cut = false;
    starts = is_start;
}

static void send(uint8_t byte)
{
    pass_bits(8);
    const bool willing = (avr->data[R_TWCR] & (TWEN | TWEA)) == (TWEN | TWEA);
    const bool own = starts && willing && byte >> 1 == avr->data[R_TWAR] >> 1;
    pass_bits(1);
    if (own) {
        role = byte & 1 ? SENDER : RECEIVER;
        report(role == SENDER ? OWN_R : OWN_W);
    } else if (role == RECEIVER && !starts) {
        avr->data[R_TWDR] = byte;
        report(willing ? DATA : REFUSED);
        role = willing ? RECEIVER : NOBODY;
    }
    fputs(own || role == RECEIVER ? "A\n" : "N\n", out);
    starts = false;
}

static void read_byte(bool more)
{
    pass_bits(8);
    const bool last = !(avr->data[R_TWCR] & TWEA);
    fprintf(out, "%02x\n", role == SENDER ? avr->data[R_TWDR] : 0xFF);
    pass_bits(1);
    if (role == SENDER)
        report(more ? (last ? LAST : SENT_ACK) : SENT_NACK);
    if (!more || last)
        role = NOBODY;
}

static void do_word(const char *word)
{
    unsigned number;

    if (strcmp(word, "S") == 0 || strcmp(word, "P") == 0)
        start_or_stop(word[0] == 'S');
    else if (strcmp(word, "r") == 0 || strcmp(word, "n") == 0)
        read_byte(word[0] == 'r');
    else if (strcmp(word, "h") == 0)
        pass_bits(4), cut = true;
    else if (sscanf(word, "wait=%u", &number) == 1)
        run_for(avr, number);
    else if (sscanf(word, "kbits=%u", &number) == 1)
        kbits = number;
    else if (strlen(word) == 2 && sscanf(word, "%2x", &number) == 1)
        send((uint8_t)number);
    else
        fail("bad script");
}

static void reset_bus(void)
{
    role = NOBODY;
    avr->data[R_TWSR] = 0xF8; /* nothing to say */
    avr_cycle_timer_register_usec(avr, 1, on_time, NULL);
}

int main(int argc, char **argv)
{
    const char *const pins = pins_option(&argc, &argv);
    char word[32];
    if (argc != 4)
        fail("usage: i2c_board [--pins=C0D3...] MCU HERTZ IMAGE");
    out = fdopen(dup(STDOUT_FILENO), "w");
    if (out == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) /* simavr prints there itself */
        fail("cannot set up the output");
    avr = load_chip(argv[1], argv[3]);
    avr->frequency = (uint32_t)strtoul(argv[2], NULL, 10);
    avr->sleep = count_sleep;
    watch_pins(avr, pins);
    on_boot = reset_bus;
    for (avr_io_t *io = avr->io_port; io != NULL; io = io->next)
        if (strcmp(io->kind, "twi") == 0)
            twi = (avr_twi_t *)io; /* the io is its first member */
    if (twi == NULL || twi->r_twcr != R_TWCR)
        fail("this MCU has no TWI at the addresses of an ATmega328P");
    avr->io[AVR_DATA_TO_IO(R_TWCR)].w.c = on_twcr;
    avr->io[AVR_DATA_TO_IO(R_TWDR)].w.c = on_twdr;
    run_for(avr, 20000); /* time to start */
    while (scanf(" %31s", word) == 1)
        do_word(word);
    run_for(avr, 1000);
    print_board(stderr, avr);
    fprintf(stderr, " stretched %u\n", (unsigned)avr_cycles_to_usec(avr, stretched));
    return fflush(out) != 0;
}
