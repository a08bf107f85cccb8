/* Runs the firmware of an ATmega328P in simavr, with an MCP2515 on a CAN bus.
 *                                                       SPDX-License-Identifier: MIT
 *     can_board [--pins=C0D3...] MCU HERTZ IMAGE [EEPROM [silent]]
 *
 * The MCP2515's chip select is at pin PB2, its INT at PD2. Its oscillator has 16 MHz. A byte on SPI
 * takes 8 periods of the SPI clock that the firmware has set. EEPROM is a file with the bytes that
 * the EEPROM has at first. The bus has 500 kbit/s, and other nodes. Unless it is silent, they send
 * a frame 10 ms after each start of the firmware. If the controller has another bit rate, every
 * frame is an error to it.
 *
 * The standard input is a script. Each of its lines is one of these:
 *     683#0472014AF1034C09    this frame comes. 683#R8 is a remote frame of length 8. An identifier
 *                             of 8 digits has 29 bits.
 *     flood COUNT FRAME       this frame comes so many times, and the next one always waits: it
 *                             wins the arbitration against a frame with a higher identifier
 *     wait MICROSECONDS       nothing comes for this time
 *     until MICROSECONDS      nothing comes until this time since the start
 *     gap MICROSECONDS        from now on, the pause after each frame that comes (at first 250)
 *     frame MICROSECONDS      from now on, the time of a frame from the board (at first 250)
 *     alone                   from now on, nobody acknowledges what the board sends
 *     fail                    from now on, every frame that the board sends fails
 *     stuck                   from now on, the bus does not rest
 *     pair                    from now on, only one other node is there. A frame from it that the
 *                             board does not acknowledge is sent again, up to 100 times
 *     together                ends `alone`, `fail`, `stuck` and `pair`
 *     crystal MHZ             from now on, the oscillator of the controller has this frequency
 *     idle                    the bus is idle for so long that it ends bus-off
 *     reset                   the controller loses its power for a moment
 *     set ADDRESS VALUE       a disturbance changes a register of the controller (hexadecimal)
 *     show ADDRESS            prints ADDRESS#VALUE for this register (hexadecimal)
 *     writing BYTES           nothing comes until the firmware has begun to write this many bytes
 *                             more of its EEPROM, and for 20 seconds at most
 *     cut BYTE                the power is cut, and comes back. A byte of the EEPROM that is being
 *                             written becomes this one (hexadecimal), and so does all RAM.
 *
 * The program prints every frame that the firmware sends as `candump -L` does. It ends when the
 * script is at its end and the firmware has been silent for 100 ms. Then it prints one line on the
 * standard error:
 *     cycles N asleep N boots N stack N flags N errors N destroyed N
 *
 *     cycles    all cycles
 *     asleep    the cycles during which the AVR was asleep
 *     boots     how often the firmware began at address 0
 *     stack     the most bytes that the stack had
 *     errors    the controller's register EFLG
 *     destroyed how often the controller has destroyed a frame of others
 *
 * With --pins, it also prints a line like "pin C0 1 at 160000" for each change of these pins: the
 * name, the new level and the cycle, lines "sent 03 at 170000" and "answer ff at 170000" for each
 * byte on SPI, and "int 00 at 180000" for each change of INT.
 */
#include "avr_board.h" /* first: simavr's other headers need what it includes */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <simavr/avr_ioport.h>
#include <simavr/avr_spi.h>

#include "mcp2515.h"

enum { FRAME_US = 250, TICK_US = 50, SILENCE_US = 100000, GREETING_US = 10000, EFLG = 0x2D };
enum { KBITS = 500 };                    /* bit rate of the bus, kbit/s */
enum { ACTIVE_TRIES = 16, TRIES = 100 }; /* attempts to send a frame without acknowledgement */
enum { SPCR = 0x4C, SPSR = 0x4D, SPDR = 0x4E, SPR = 3, SPI2X = 1 }; /* an ATmega328P's */

static avr_t *avr;
static mcp2515 chip;
static avr_irq_t *spi_input, *interrupt_pin;
static FILE *frames_out;
static avr_cycle_count_t last_sent;
static avr_cycle_count_t sending_since; /* 0: nothing is being sent */
static avr_spi_t *spi;
static avr_io_write_t write_spi;                        /* simavr's own */
static uint32_t frame_us = FRAME_US, gap_us = FRAME_US; /* for a frame, and after it */
static enum { TOGETHER, ALONE, FAILING, STUCK, PAIR } bus;
static bool silent;
static unsigned destroyed;    /* frames of others */
static unsigned crystal = 16; /* MHz */
static struct {
    mcp2515_frame frame;
    unsigned left;
    avr_cycle_count_t since; /* 0: it is not on the bus */
} flood;

/* Lets the controller's time go on as far as the AVR's. */
static void catch_up(void)
{
    static avr_cycle_count_t passed;
    const avr_cycle_count_t now = avr->cycle * crystal / (avr->frequency / 1000000);
    mcp2515_pass(&chip, now - passed);
    passed = now;
}

static void show_interrupt(void)
{
    const bool level = !mcp2515_interrupt(&chip);
    if (level != (interrupt_pin->value & 1))
        print_event("int", level);
    avr_raise_irq(interrupt_pin, level);
}

static void on_spi(struct avr_irq_t *irq, uint32_t byte, void *unused)
{
    (void)irq, (void)unused;
    catch_up();
    const uint8_t answer = mcp2515_spi(&chip, (uint8_t)byte);
    print_event("sent", byte);
    print_event("answer", answer);
    avr_raise_irq(spi_input, answer);
    show_interrupt();
}

/* In simavr 1.6 every byte takes 100 microseconds. So we set its timer again. */
static void on_spi_write(avr_t *unused, avr_io_addr_t address, uint8_t byte, void *context)
{
    static const unsigned dividers[] = {4, 16, 64, 128};

    (void)unused;
    write_spi(avr, address, byte, context);
    const avr_cycle_timer_slot_t *slot = avr->cycle_timers.timer;
    while (slot != NULL && slot->param != spi)
        slot = slot->next;
    if (slot == NULL)
        return; /* SPI is off */
    const avr_cycle_timer_t at_end = slot->timer;
    const unsigned divider = dividers[avr->data[SPCR] & SPR] >> (avr->data[SPSR] & SPI2X);
    avr_cycle_timer_cancel(avr, at_end, spi);
    avr_cycle_timer_register(avr, 8 * divider, at_end, spi);
}

static void on_select(struct avr_irq_t *irq, uint32_t level, void *unused)
{
    (void)irq, (void)unused;
    catch_up();
    mcp2515_select(&chip, level == 0);
    show_interrupt();
}

static void print_frame(const mcp2515_frame *frame)
{
    fprintf(frames_out, frame->extended ? "%08X#" : "%03X#", (unsigned)frame->id);
    for (unsigned i = 0; i < frame->length; i++)
        fprintf(frames_out, "%02X", frame->data[i]);
    fprintf(frames_out, "\n");
}

static bool has_bit_rate(void)
{
    return mcp2515_bit(&chip) * KBITS == crystal * 1000;
}

/* A frame of another node comes, once. Returns whether somebody acknowledges it. A sender whose
 * frame nobody acknowledges sends an error flag, so the frame is an error to all. After 16 times it
 * is passive: then its flag is not seen, and a node that only listens takes the frame for a good
 * one. */
static bool comes(const mcp2515_frame *frame, unsigned tries)
{
    const bool good = has_bit_rate();
    const bool acknowledged = bus != PAIR || (good && mcp2515_takes_part(&chip));

    if (good && (acknowledged || tries > ACTIVE_TRIES))
        mcp2515_receive(&chip, frame);
    else
        destroyed += mcp2515_receive_failed(&chip);
    show_interrupt();
    return acknowledged;
}

/* The bits that the arbitration compares (ISO 11898-1): the lowest wins. */
static uint32_t priority(const mcp2515_frame *frame)
{
    return frame->extended
               ? (frame->id >> 18) << 21 | 3U << 19 | (frame->id & 0x3FFFF) << 1 | frame->remote
               : frame->id << 21 | (uint32_t)frame->remote << 20;
}

/* Is a frame of the flood on the bus? If the bus is free, the next one begins, unless the board has
 * a frame that wins. */
static bool is_flooded(void)
{
    mcp2515_frame frame;

    if (flood.since != 0 && avr->cycle - flood.since >= avr_usec_to_cycles(avr, frame_us)) {
        flood.since = 0;
        flood.left--;
        comes(&flood.frame, 1);
    }
    if (flood.left != 0 && flood.since == 0 && sending_since == 0) {
        const bool waits = mcp2515_pending(&chip, &frame);
        if (!waits || priority(&flood.frame) < priority(&frame)) {
            flood.since = avr->cycle;
            if (waits)
                mcp2515_lost(&chip);
        }
    }
    return flood.since != 0;
}

/* simavr calls this every TICK_US, also while the AVR sleeps. A frame that has been on its way for
 * frame_us has been sent, or has failed. */
static avr_cycle_count_t run_bus(avr_t *unused, avr_cycle_count_t when, void *context)
{
    mcp2515_frame frame;

    (void)unused, (void)context;
    if (is_flooded())
        return when + avr_usec_to_cycles(avr, TICK_US);
    if (!mcp2515_pending(&chip, &frame)) {
        sending_since = 0;
        if (bus != STUCK)
            mcp2515_bus_rests(&chip);
    } else if (sending_since == 0) {
        sending_since = avr->cycle;
        mcp2515_begin(&chip);
    } else if (avr->cycle - sending_since >= avr_usec_to_cycles(avr, frame_us)) {
        sending_since = 0;
        if (!has_bit_rate()) {
            destroyed++;
            mcp2515_send_failed(&chip, false);
        } else if (bus == TOGETHER || bus == PAIR) {
            print_frame(&frame);
            mcp2515_sent(&chip);
            last_sent = avr->cycle;
        } else {
            mcp2515_send_failed(&chip, bus == ALONE);
        }
        show_interrupt();
    }
    return when + avr_usec_to_cycles(avr, TICK_US);
}

static avr_cycle_count_t greet(avr_t *unused, avr_cycle_count_t when, void *context)
{
    static const mcp2515_frame greeting = {.id = 0x7FF};

    (void)unused, (void)when, (void)context;
    comes(&greeting, 1);
    return 0; /* not again */
}

static void start_bus(void)
{
    restart_eeprom();
    avr_cycle_timer_register_usec(avr, TICK_US, run_bus, NULL);
    if (!silent)
        avr_cycle_timer_register_usec(avr, GREETING_US, greet, NULL);
    show_interrupt();
}

/* The frame that a line of the script has. */
static mcp2515_frame read_frame(const char *text)
{
    mcp2515_frame frame = {0};
    char *end;
    const char *hash = strchr(text, '#');

    if (hash == NULL)
        fail("bad script");
    frame.extended = hash - text == 8;
    frame.id = (uint32_t)strtoul(text, NULL, 16);
    frame.remote = hash[1] == 'R';
    if (frame.remote)
        frame.length = (uint8_t)strtoul(hash + 2, &end, 10);
    unsigned byte;
    for (const char *at = hash + 1;
         !frame.remote && frame.length < 8 && sscanf(at, "%2x", &byte) == 1; at += 2)
        frame.data[frame.length++] = (uint8_t)byte;
    return frame;
}

static void receive(const mcp2515_frame frame)
{
    for (unsigned tries = 1; !comes(&frame, tries) && tries < TRIES; tries++)
        run_for(avr, frame_us);
}

/* Wires the chip to the pins and to the SPI of the AVR. */
static void connect_chip(void)
{
    for (avr_io_t *io = avr->io_port; io != NULL; io = io->next)
        if (strcmp(io->kind, "spi") == 0)
            spi = (avr_spi_t *)io; /* the io is its first member */
    write_spi = avr->io[AVR_DATA_TO_IO(SPDR)].w.c;
    if (spi == NULL || avr->io[AVR_DATA_TO_IO(SPDR)].w.param != spi)
        fail("this MCU has no SPI at the addresses of an ATmega328P");
    avr->io[AVR_DATA_TO_IO(SPDR)].w.c = on_spi_write;
    spi_input = avr_io_getirq(avr, AVR_IOCTL_SPI_GETIRQ(0), SPI_IRQ_INPUT);
    interrupt_pin = avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ('D'), 2);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_SPI_GETIRQ(0), SPI_IRQ_OUTPUT), on_spi,
                            NULL);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ('B'), 2), on_select, NULL);
}

/* Does what a line of the script says, or sends the frame that it has. */
static void run_line(const char *line)
{
    unsigned number, address;
    int after = 0;

    if (sscanf(line, "flood %u %n", &number, &after) == 1) {
        flood.frame = read_frame(line + after);
        flood.left = number;
        while (flood.left != 0)
            step(avr);
    } else if (sscanf(line, "wait %u", &number) == 1) {
        run_for(avr, number);
    } else if (sscanf(line, "until %u", &number) == 1) {
        while (avr->cycle < avr_usec_to_cycles(avr, number))
            step(avr);
    } else if (sscanf(line, "gap %u", &number) == 1) {
        gap_us = number;
    } else if (sscanf(line, "frame %u", &number) == 1) {
        frame_us = number;
    } else if (sscanf(line, "crystal %u", &number) == 1) {
        crystal = number;
    } else if (strcmp(line, "alone") == 0) {
        bus = ALONE;
    } else if (strcmp(line, "fail") == 0) {
        bus = FAILING;
    } else if (strcmp(line, "pair") == 0) {
        bus = PAIR;
    } else if (strcmp(line, "together") == 0) {
        bus = TOGETHER;
    } else if (strcmp(line, "idle") == 0) {
        mcp2515_bus_idle(&chip);
    } else if (strcmp(line, "stuck") == 0) {
        bus = STUCK;
    } else if (sscanf(line, "set %x %x", &address, &number) == 2 && address < MCP2515_REGISTERS) {
        chip.registers[address] = (uint8_t)number;
    } else if (sscanf(line, "show %x", &address) == 1 && address < MCP2515_REGISTERS) {
        fprintf(frames_out, "%02X#%02X\n", address, chip.registers[address]);
    } else if (sscanf(line, "writing %u", &number) == 1) {
        run_until_writing(avr, number);
    } else if (sscanf(line, "cut %x", &number) == 1) {
        catch_up();
        cut_power((uint8_t)number);
        mcp2515_reset(&chip);
        sending_since = 0;
    } else if (strcmp(line, "reset") == 0) {
        catch_up();
        mcp2515_reset(&chip);
        show_interrupt();
    } else {
        receive(read_frame(line));
        run_for(avr, gap_us);
    }
}

int main(int argc, char **argv)
{
    const char *const pins = pins_option(&argc, &argv);
    if (argc < 4 || argc > 6)
        fail("usage: can_board [--pins=C0D3...] MCU HERTZ IMAGE [EEPROM [silent]]");
    silent = argc == 6;
    frames_out = fdopen(dup(STDOUT_FILENO), "w");
    if (frames_out == NULL ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0) /* simavr itself prints on the standard output */
        fail("cannot set up the output");
    setvbuf(frames_out, NULL, _IOLBF, BUFSIZ); /* the writer of the script may wait for a frame */
    avr = load_chip(argv[1], argv[3]);
    avr->frequency = (uint32_t)strtoul(argv[2], NULL, 10);
    avr->sleep = count_sleep;
    watch_pins(avr, pins);
    on_boot = start_bus;
    connect_chip();
    mcp2515_reset(&chip);
    start_eeprom(avr, argc > 4 ? argv[4] : "");

    char line[64];
    run_for(avr, 20000); /* time to start */
    while (scanf(" %63[^\n]", line) == 1)
        run_line(line);
    do
        run_for(avr, SILENCE_US);
    while (avr->cycle - last_sent < avr_usec_to_cycles(avr, SILENCE_US));
    print_board(stderr, avr);
    fprintf(stderr, " errors %u destroyed %u\n", chip.registers[EFLG], destroyed);
    return fflush(frames_out) != 0;
}
