/* Runs an AVR firmware on simavr, its serial line on descriptors 0 and 1.
 *                                                       SPDX-License-Identifier: MIT
 *     serial_board MCU HERTZ BAUD IMAGE [REST]
 *
 * What is there to read goes to the firmware back to back, at the line's full speed in
 * the firmware's time; that passes as fast as it can be simulated, or as real time does
 * while the firmware sleeps and nothing comes. With REST, the line rests for so many cycles after
 * the first 8 bytes. The line is the UART, or, on chips without one,
 * a pin in and a pin out. After the end of the input and a silence of SILENCE seconds of
 * the firmware's time, or on SIGTERM, it prints on descriptor 2 what became of it:
 *     cycles N asleep N boots N stack N bytes N resumed N answered N jitter N
 * all cycles, those of them asleep, times that it began at address 0, the deepest that its stack
 * has been, bytes received, and in which cycle the 9th began. Of a pin out also in which cycle the
 * first byte began, and how many cycles an edge was away at most from its place within its byte.
 */
#include "avr_host.h" /* first: simavr's other headers need what it includes */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <simavr/avr_ioport.h>
#include <simavr/avr_uart.h>

enum { BITS = 10, PIN_IN = 2, PIN_OUT = 1 }; /* of a byte on the line; of port B */
enum {
    IDLE_US = 1000,
    PATIENCE_MS = 1000
}; /* how often an idle line is looked at; with a reader */
static const double SILENCE = 2.0;

static avr_t *avr;
static int line_out;
static avr_irq_t *input;
static avr_uart_t *uart; /* none: by pins */
static double cycles_per_bit;
static uint64_t bytes_in;
static avr_cycle_count_t last_event; /* on the line, either way */
static bool ended;
static avr_cycle_count_t rest, resumed, answered;
static double jitter;

static volatile sig_atomic_t told; /* to end */
static void on_term(int number)
{
    told = number;
}

static uint8_t buffer[4096];
static size_t filled, taken;

/* The next byte to the firmware, or -1: nothing is there for now. */
static int next_byte(int patience_ms)
{
    if (taken == filled && !ended) {
        struct pollfd in = {.fd = 0, .events = POLLIN};
        if (poll(&in, 1, patience_ms) <= 0)
            return -1;
        const ssize_t got = read(0, buffer, sizeof buffer);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            return -1;
        ended = got <= 0; /* a pty that nobody holds open any more is an end, too */
        filled = got > 0 ? (size_t)got : 0;
        taken = 0;
    }
    return taken < filled ? buffer[taken++] : -1;
}

static void output(uint8_t byte)
{
    struct pollfd out = {.fd = line_out, .events = POLLOUT};
    last_event = avr->cycle;
    if (poll(&out, 1, PATIENCE_MS) > 0 && (out.revents & POLLOUT)) /* or nobody reads: it is lost */
        if (write(line_out, &byte, 1) < 0 && errno != EAGAIN)
            ended = true;
}

static void on_output(struct avr_irq_t *irq, uint32_t byte, void *unused)
{
    (void)irq, (void)unused;
    output((uint8_t)byte);
}

/* The line to the firmware: one bit a call on a pin, one byte a call on the UART. */
static unsigned frame, bits_left; /* start bit 0, data, stop bit 1; lowest first */
static double due;
static avr_cycle_count_t on_input(avr_t *chip, avr_cycle_count_t when, void *unused)
{
    (void)unused;
    if (bits_left == 0) {
        const int byte = next_byte(0);
        if (byte < 0) {
            due = 0;
            return when + avr_usec_to_cycles(chip, IDLE_US);
        }
        if (++bytes_in == 9)
            resumed = when;
        if (uart != NULL) /* simavr 1.6 takes 11 bits for what are 10 */
            uart->cycles_per_byte = (avr_cycle_count_t)(BITS * cycles_per_bit);
        frame = (1U << 9) | ((unsigned)byte << 1);
        bits_left = uart == NULL ? BITS : 1;
        if (uart != NULL)
            avr_raise_irq(input, (uint32_t)byte);
    }
    if (uart == NULL)
        avr_raise_irq(input, frame & 1);
    frame >>= 1;
    bits_left--;
    last_event = when;
    due = (due == 0 ? (double)when : due) + cycles_per_bit * (uart == NULL ? 1 : BITS);
    if (bytes_in == 8 && bits_left == 0)
        due += (double)rest;
    return (avr_cycle_count_t)due;
}

/* The line from the firmware's pin: each bit is read at its middle. */
static unsigned bits_seen, frame_out;
static avr_cycle_count_t on_middle(avr_t *chip, avr_cycle_count_t when, void *level)
{
    (void)chip;
    frame_out |= (unsigned)*(bool *)level << bits_seen;
    if (++bits_seen < BITS)
        return when + (avr_cycle_count_t)cycles_per_bit;
    if ((frame_out & 1) == 0 && (frame_out >> 9) == 1)
        output((uint8_t)(frame_out >> 1));
    else
        fail("a byte that the firmware sent has no start or no stop bit");
    bits_seen = 0;
    return 0;
}

static void on_pin(struct avr_irq_t *irq, uint32_t value, void *unused)
{
    static bool level = true;
    static avr_cycle_count_t began;
    (void)irq, (void)unused;
    const bool fell = level && !value;
    if (level != value && avr_cycle_timer_status(avr, on_middle, &level) != 0) {
        const double bits = (double)(avr->cycle - began) / cycles_per_bit;
        const double off = (bits - (double)(unsigned)(bits + 0.5)) * cycles_per_bit;
        jitter = off > jitter ? off : -off > jitter ? -off : jitter;
    }
    level = value;
    if (fell && bits_seen == 0 && avr_cycle_timer_status(avr, on_middle, &level) == 0) {
        frame_out = 0;
        began = avr->cycle;
        if (answered == 0)
            answered = began;
        avr_cycle_timer_register(avr, (avr_cycle_count_t)(cycles_per_bit / 2), on_middle, &level);
    }
}

/* What comes before a receiver is enabled would be lost: 10 ms are enough to begin. */
static void start_line(void)
{
    frame = bits_left = bits_seen = 0;
    due = 0;
    last_event = avr->cycle;
    avr_cycle_timer_register_usec(avr, 10 * IDLE_US, on_input, NULL);
}

/* The firmware sleeps for so many cycles: until the next timer, ours or its own. */
static void on_sleep(avr_t *chip, avr_cycle_count_t cycles)
{
    static avr_cycle_count_t ahead; /* of real time */
    asleep += cycles + 1;
    if (taken < filled || ended || chip->cycle - last_event <= avr_usec_to_cycles(chip, IDLE_US)) {
        ahead = 0;
        return;
    }
    ahead += cycles;
    const int ahead_ms = (int)(avr_cycles_to_usec(chip, ahead) / 1000);
    if (ahead_ms > 0) {
        struct pollfd in = {.fd = 0, .events = POLLIN};
        poll(&in, 1, ahead_ms);
        ahead = 0;
    }
}

int main(int argc, char **argv)
{
    if (argc != 5 && argc != 6)
        fail("usage: serial_board MCU HERTZ BAUD IMAGE [REST]");
    rest = argc == 6 ? strtoul(argv[5], NULL, 10) : 0;
    line_out = dup(STDOUT_FILENO);
    if (line_out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) /* what simavr itself prints */
        fail("cannot set up the output");
    avr = load_chip(argv[1], argv[4]);
    avr->frequency = (uint32_t)strtoul(argv[2], NULL, 10);
    avr->sleep = on_sleep;
    on_boot = start_line;
    cycles_per_bit = avr->frequency / strtod(argv[3], NULL);
    input = avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT);
    for (avr_io_t *io = avr->io_port; io != NULL; io = io->next)
        if (strcmp(io->kind, "uart") == 0)
            uart = (avr_uart_t *)io; /* its first member */
    if (uart == NULL) {
        input = avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ('B'), PIN_IN);
        avr_raise_irq(input, 1);
        avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ('B'), PIN_OUT), on_pin,
                                NULL);
    } else {
        uint32_t flags = 0; /* neither print lines nor sleep when polled */
        avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);
        avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUTPUT),
                                on_output, NULL);
    }
    const avr_cycle_count_t silence = (avr_cycle_count_t)(SILENCE * avr->frequency);
    signal(SIGTERM, on_term);
    while (!told && !(ended && taken == filled && avr->cycle - last_event > silence))
        step(avr);
    print_counts(stderr, avr);
    fprintf(stderr, " bytes %llu resumed %llu answered %llu jitter %.0f\n",
            (unsigned long long)bytes_in, (unsigned long long)resumed, (unsigned long long)answered,
            jitter);
    return 0;
}
