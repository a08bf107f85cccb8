/* Runs an AVR firmware on simavr with an MCP2515 on a CAN bus.     SPDX-License-Identifier: MIT
 *     avr_can IMAGE
 *
 * Chip select is PB2, INT is PD2, the clock 16 MHz. The input is a script; what the firmware sends
 * is printed as `candump -L` writes frames. A line of the script is one of
 *     683#0472014AF1034C09    a frame comes; 683#R8 a remote one; 8 digits: 29 bits
 *     wait MICROSECONDS
 *     gap MICROSECONDS        between two frames from now on (250)
 *     frame MICROSECONDS      a frame that it sends takes from now on (250)
 *     alone                   nobody acknowledges from now on; `together` ends that
 *     fail                    each sending fails from now on, but for bus-off; `together` ends that
 *     idle                    the bus is idle as long as ends bus-off
 *     stuck                   the bus does not rest from now on; `together` ends that
 *     reset                   the controller loses its power
 *     set ADDRESS VALUE       a disturbance changes one of its registers; both are hexadecimal
 *     show ADDRESS            is answered with ADDRESS#VALUE, as a frame is written
 * The controller's oscillator has the AVR's 16 MHz: one period is one cycle. A byte on SPI takes
 * 8 periods of SPI's clock, as the firmware has set it. At the end, when the firmware has been
 * silent for 100 ms, it prints
 *     cycles N asleep N boots N stack N errors N
 * all cycles, those of them asleep, times that it began at address 0, the deepest that its stack has
 * been, and the controller's EFLG.
 */
#include "avr_host.h" /* first: simavr's other headers need what it includes */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <simavr/avr_ioport.h>
#include <simavr/avr_spi.h>

#include "mcp2515.h"

enum { FRAME_US = 250, TICK_US = 50, SILENCE_US = 100000, EFLG = 0x2D };
enum { SPCR = 0x4C, SPSR = 0x4D, SPDR = 0x4E, SPR = 3, SPI2X = 1 }; /* of an ATmega328P */

static avr_t *avr;
static mcp2515 chip;
static avr_irq_t *spi_input, *interrupt_pin;
static FILE *frames_out;
static avr_cycle_count_t last_sent, sending_since;
static avr_spi_t *spi;
static avr_io_write_t write_spi; /* simavr's own */
static uint32_t frame_us = FRAME_US;
static enum { TOGETHER, ALONE, FAILING, STUCK } bus;

/* The controller's time goes on as far as the AVR's. */
static void catch_up(void)
{
    static avr_cycle_count_t seen;
    mcp2515_pass(&chip, avr->cycle - seen);
    seen = avr->cycle;
}

static void show_interrupt(void)
{
    avr_raise_irq(interrupt_pin, !mcp2515_interrupt(&chip));
}

static void on_spi(struct avr_irq_t *irq, uint32_t byte, void *unused)
{
    (void)irq, (void)unused;
    catch_up();
    avr_raise_irq(spi_input, mcp2515_spi(&chip, (uint8_t)byte));
    show_interrupt();
}

/* simavr 1.6 has every byte take 100 microseconds: its timer is set again. */
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
    if (frame->remote)
        fprintf(frames_out, "R");
    for (unsigned i = 0; !frame->remote && i < frame->length; i++)
        fprintf(frames_out, "%02X", frame->data[i]);
    fprintf(frames_out, "\n");
}

/* A frame on its way has left, or failed, after frame_us. Looked at each TICK_US, as a
 * sleeping chip's time goes on to the next event. */
static avr_cycle_count_t run_bus(avr_t *unused, avr_cycle_count_t when, void *context)
{
    mcp2515_frame frame;

    (void)unused, (void)context;
    if (!mcp2515_pending(&chip, &frame)) {
        sending_since = 0;
        if (bus != STUCK)
            mcp2515_bus_rests(&chip);
    } else if (sending_since == 0) {
        sending_since = avr->cycle;
        mcp2515_begin(&chip);
    } else if (avr->cycle - sending_since >= avr_usec_to_cycles(avr, frame_us)) {
        sending_since = 0;
        if (bus == TOGETHER) {
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

static void start_bus(void)
{
    avr_cycle_timer_register_usec(avr, TICK_US, run_bus, NULL);
    show_interrupt();
}

/* Or simavr would sleep as long as the firmware does. */
static void on_sleep(avr_t *unused, avr_cycle_count_t cycles)
{
    (void)unused;
    asleep += cycles + 1;
}

static void receive(const char *text)
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
    mcp2515_receive(&chip, &frame);
    show_interrupt();
}

int main(int argc, char **argv)
{
    if (argc != 2)
        fail("usage: avr_can IMAGE");
    frames_out = fdopen(dup(STDOUT_FILENO), "w");
    if (frames_out == NULL ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0) /* what simavr itself prints */
        fail("cannot set up the output");
    setvbuf(frames_out, NULL, _IOLBF, BUFSIZ); /* the script may depend on it */
    avr = load_chip("atmega328p", argv[1]);
    avr->frequency = 16000000;
    avr->sleep = on_sleep;
    on_boot = start_bus;
    for (avr_io_t *io = avr->io_port; io != NULL; io = io->next)
        if (strcmp(io->kind, "spi") == 0)
            spi = (avr_spi_t *)io; /* its first member */
    write_spi = avr->io[AVR_DATA_TO_IO(SPDR)].w.c;
    if (spi == NULL || avr->io[AVR_DATA_TO_IO(SPDR)].w.param != spi)
        fail("SPI is not where it was");
    avr->io[AVR_DATA_TO_IO(SPDR)].w.c = on_spi_write;
    spi_input = avr_io_getirq(avr, AVR_IOCTL_SPI_GETIRQ(0), SPI_IRQ_INPUT);
    interrupt_pin = avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ('D'), 2);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_SPI_GETIRQ(0), SPI_IRQ_OUTPUT), on_spi,
                            NULL);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ('B'), 2), on_select, NULL);
    mcp2515_reset(&chip);

    char line[64];
    uint32_t gap = FRAME_US;
    run_for(avr, 20000); /* it starts */
    while (scanf(" %63[^\n]", line) == 1) {
        unsigned number, address;
        if (sscanf(line, "wait %u", &number) == 1) {
            run_for(avr, number);
        } else if (sscanf(line, "gap %u", &number) == 1) {
            gap = number;
        } else if (sscanf(line, "frame %u", &number) == 1) {
            frame_us = number;
        } else if (strcmp(line, "alone") == 0) {
            bus = ALONE;
        } else if (strcmp(line, "fail") == 0) {
            bus = FAILING;
        } else if (strcmp(line, "together") == 0) {
            bus = TOGETHER;
        } else if (strcmp(line, "idle") == 0) {
            mcp2515_bus_idle(&chip);
        } else if (strcmp(line, "stuck") == 0) {
            bus = STUCK;
        } else if (sscanf(line, "set %x %x", &address, &number) == 2 &&
                   address < MCP2515_REGISTERS) {
            chip.registers[address] = (uint8_t)number;
        } else if (sscanf(line, "show %x", &address) == 1 && address < MCP2515_REGISTERS) {
            fprintf(frames_out, "%02X#%02X\n", address, chip.registers[address]);
        } else if (strcmp(line, "reset") == 0) {
            catch_up();
            mcp2515_reset(&chip);
            show_interrupt();
        } else {
            receive(line);
            run_for(avr, gap);
        }
    }
    do
        run_for(avr, SILENCE_US);
    while (avr->cycle - last_sent < avr_usec_to_cycles(avr, SILENCE_US));
    print_counts(frames_out, avr);
    fprintf(frames_out, " errors %u\n", chip.registers[EFLG]);
    return fflush(frames_out) != 0;
}
