/* Runs the firmware of an AVR in simavr. Its serial line is the standard input and output.
 *                                                       SPDX-License-Identifier: MIT
 *     serial_board [--pins=B5D3...] MCU HERTZ BAUD IMAGE [REST]...
 *     serial_board --script MCU HERTZ BAUD IMAGE EEPROM
 *
 * The bytes of the input go to the firmware without a pause, at the full speed of the line in the
 * firmware's time. After the first 8 bytes the line rests for REST cycles, after the next 8 bytes
 * for the next REST, and so on. The line is the UART. A chip that has none has an input pin and an
 * output pin instead.
 *
 * The firmware's time passes as fast as the program can simulate it. Only while the firmware sleeps
 * and no input comes, it passes like real time.
 *
 * The program ends after SIGTERM, or when the input is at its end and the line has been silent for
 * SILENCE seconds of the firmware's time. Then it prints one line on the standard error:
 *     cycles N asleep N boots N stack N flags N bytes N unread N resumed N answered N jitter N
 *     oscillator N
 *
 *     cycles      all cycles
 *     asleep      the cycles during which the AVR was asleep
 *     boots       how often the firmware began at address 0
 *     stack       the most bytes that the stack had
 *     flags       MCUSR in the end: the causes of resets that the firmware has not cleared
 *     bytes       the bytes that went to the firmware
 *     unread      how many whole bytes waited in the UART at most: an AVR's holds two
 *     resumed     the cycle in which the 9th of them began
 *     answered    the cycle in which the first byte from the output pin began
 *     jitter      by how many cycles an edge at the output pin was early or late at most
 *     oscillator  OSCCAL of an ATtiny in the end
 *
 * With --pins, it also prints a line like "pin B5 1 at 160000" for each change of these pins: the
 * name, the new level and the cycle. It prints "came 5a at 160000" when a byte to the firmware
 * begins, and "sent 5a at 170000" when one from it begins.
 *
 * It fails if the firmware sets its UART to another baud rate.
 *
 * With --script, EEPROM is a file with the bytes that the EEPROM has at first, and the standard
 * input is a script. Each of its lines is one of these:
 *     send BYTE               this byte goes to the firmware (hexadecimal)
 *     wait MICROSECONDS       the line rests for this time
 *     cut BYTE                the power is cut, and comes back. A byte of the EEPROM that is being
 *                             written becomes this one (hexadecimal), and so does all RAM.
 *     protect                 from now on, the EEPROM is worn: what is written changes nothing
 *     show                    prints "shown"
 * A byte from the firmware is a line with two hexadecimal digits.
 */
#include "avr_board.h" /* first: simavr's other headers need what it includes */

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
#include <simavr/avr_timer.h>
#include <simavr/avr_uart.h>
#include <simavr/sim_regbit.h>

enum { BITS = 10 };               /* bits of a byte on the line */
enum { PIN_IN = 2, PIN_OUT = 1 }; /* pins of port B */
enum { OSCCAL = 0x51, PORF = 1 }; /* an address, in the data space of an ATtiny */
enum { IDLE_US = 1000 };          /* interval between checks of an idle line for input */
enum { PATIENCE_MS = 1000 };      /* the longest time that a reader may take for a byte */
static const double SILENCE = 2.0;
static const double BAUD_ERROR = 0.03; /* the two ends of a line may differ by 5 % in all */

static avr_t *avr;
static int line_out;
static avr_irq_t *input;
static avr_uart_t *uart; /* NULL: the line has pins */
static double cycles_per_bit;
static uint64_t bytes_in;
static unsigned unread;
static avr_cycle_count_t last_event; /* when a byte began or ended on the line, in or out */
static bool input_ended, scripted;
static char **rests; /* the arguments; NULL comes after the last one */
static avr_cycle_count_t resumed, answered;
static double jitter;

static volatile sig_atomic_t told_to_end;
static void on_term(int number)
{
    told_to_end = number;
}

static uint8_t buffer[4096];
static size_t filled, taken;

/* The next byte to the firmware. -1: there is none at the moment. */
static int next_byte(int patience_ms)
{
    if (taken == filled && !input_ended && !scripted) {
        struct pollfd in = {.fd = 0, .events = POLLIN};
        if (poll(&in, 1, patience_ms) <= 0)
            return -1;
        const ssize_t got = read(0, buffer, sizeof buffer);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            return -1;
        input_ended = got <= 0; /* also if nobody has the terminal open any more */
        filled = got > 0 ? (size_t)got : 0;
        taken = 0;
    }
    return taken < filled ? buffer[taken++] : -1;
}

static void output(uint8_t byte)
{
    struct pollfd out = {.fd = line_out, .events = POLLOUT};
    last_event = avr->cycle;
    print_event("sent", byte);
    if (scripted)
        dprintf(line_out, "%02x\n", byte);
    else if (poll(&out, 1, PATIENCE_MS) > 0 &&
             (out.revents & POLLOUT)) /* if nobody reads, it is lost */
        if (write(line_out, &byte, 1) < 0 && errno != EAGAIN)
            input_ended = true;
}

/* simavr itself passes whole bytes, whatever the baud rates are, and 1.6 takes 11 bits for one, not
 * 10. The firmware sends at its own baud rate: ATmega328P (DS40002061), 20.3.1. */
static void check_baud(void)
{
    const unsigned divider =
        avr_regbit_get(avr, uart->ubrrl) | (unsigned)avr_regbit_get(avr, uart->ubrrh) << 8;
    const double cycles = (divider + 1) * (avr_regbit_get(avr, uart->u2x) ? 8.0 : 16.0);
    if (cycles > cycles_per_bit * (1 + BAUD_ERROR) || cycles < cycles_per_bit * (1 - BAUD_ERROR))
        fail("the firmware has set another baud rate");
    uart->cycles_per_byte = (avr_cycle_count_t)(BITS * cycles);
}

static void on_output(struct avr_irq_t *irq, uint32_t byte, void *unused)
{
    (void)irq, (void)unused;
    check_baud();
    output((uint8_t)byte);
}

/* The line to the firmware: each call sends one bit to the pin, or one byte to the UART. */
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
        print_event("came", (unsigned)byte);
        if (uart != NULL)
            check_baud();
        frame = (1U << 9) | ((unsigned)byte << 1);
        bits_left = uart == NULL ? BITS : 1;
        if (uart != NULL) {
            const unsigned waiting =
                (unsigned)(uart->input.write - uart->input.read) % uart_fifo_fifo_size;
            unread = waiting > unread ? waiting : unread;
            avr_raise_irq(input, (uint32_t)byte);
        }
    }
    if (uart == NULL)
        avr_raise_irq(input, frame & 1);
    frame >>= 1;
    bits_left--;
    last_event = when;
    due = (due == 0 ? (double)when : due) + cycles_per_bit * (uart == NULL ? 1 : BITS);
    if (bytes_in % 8 == 0 && bits_left == 0 && *rests != NULL)
        due += strtod(*rests++, NULL);
    return (avr_cycle_count_t)due;
}

/* The line from the firmware's pin: reads each bit at its middle. */
static unsigned bits_seen, frame_out;
static avr_cycle_count_t on_middle(avr_t *chip, avr_cycle_count_t when, void *level)
{
    (void)chip;
    frame_out |= (unsigned)*(bool *)level << bits_seen;
    if (++bits_seen < BITS)
        return when + (avr_cycle_count_t)cycles_per_bit;
    if ((frame_out & 1) == 0 && (frame_out >> 9) == 1)
        output((uint8_t)(frame_out >> 1));
    else if (!scripted) /* else the power was cut meanwhile */
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

/* The firmware loses bytes that come before its receiver is enabled. 10 ms are enough for that. */
static void start_line(void)
{
    restart_eeprom();
    frame = bits_left = bits_seen = 0;
    due = 0;
    last_event = avr->cycle;
    avr_cycle_timer_register_usec(avr, 10 * IDLE_US, on_input, NULL);
}

/* The firmware sleeps for this many cycles: until its own next timer, or ours. */
static void on_sleep(avr_t *chip, avr_cycle_count_t cycles)
{
    static avr_cycle_count_t ahead; /* the firmware's time less real time */
    count_sleep(chip, cycles);
    if (taken < filled || input_ended || scripted ||
        chip->cycle - last_event <= avr_usec_to_cycles(chip, IDLE_US)) {
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

static void play_script(void)
{
    char line[64];
    unsigned number;

    while (scanf(" %63[^\n]", line) == 1) {
        if (sscanf(line, "send %x", &number) == 1) {
            buffer[0] = (uint8_t)number;
            taken = 0;
            filled = 1;
            while (taken < filled || bits_left != 0)
                step(avr);
        } else if (sscanf(line, "wait %u", &number) == 1) {
            run_for(avr, number);
        } else if (sscanf(line, "cut %x", &number) == 1) {
            cut_power((uint8_t)number);
        } else if (strcmp(line, "protect") == 0) {
            eeprom.is_worn = true;
        } else if (strcmp(line, "show") == 0) {
            dprintf(line_out, "shown\n");
        } else {
            fail("bad script");
        }
    }
}

static avr_int_vector_t *compare; /* timer 1 of an ATtiny85, whose flag is in its TIFR */
static avr_io_write_t write_flags;
static void *parameter_of_flags;

/* simavr 1.6 clears the flags of one timer when the program clears those of the other. */
static void keep_flags(avr_t *chip, avr_io_addr_t at, uint8_t value, void *unused)
{
    const uint8_t kept = chip->data[at] & (uint8_t)~value & (uint8_t)(1U << compare->raised.bit);

    (void)unused;
    write_flags(chip, at, value, parameter_of_flags);
    chip->data[at] |= kept;
}

/* Nor does it look at a flag when the interrupt is enabled. */
static void enable_interrupts(avr_t *chip, avr_io_addr_t at, uint8_t value, void *unused)
{
    (void)unused;
    avr_core_watch_write(chip, at, value);
    if (avr_regbit_get(chip, compare->raised) != 0)
        avr_raise_interrupt(chip, compare);
}

/* simavr 1.6 lacks the mode of an ATtiny85's timer 1, and most of its dividers (2586Q, 12.3.1). */
static void complete_timer(avr_timer_t *timer)
{
    if (timer->wgm_op[0].kind != avr_timer_wgm_none)
        return;
    timer->wgm_op[0] = (avr_timer_wgm_t)AVR_TIMER_WGM_NORMAL8();
    for (uint8_t i = 1; i != 16; i++)
        timer->cs_div[i] = i - 1;
    compare = &timer->comp[AVR_TIMER_COMPA].interrupt;
    const avr_io_addr_t flags = AVR_DATA_TO_IO(compare->raised.reg);
    write_flags = avr->io[flags].w.c;
    parameter_of_flags = avr->io[flags].w.param;
    avr->io[flags].w.c = keep_flags;
    avr_register_io_write(avr, compare->enable.reg, enable_interrupts, NULL);
}

int main(int argc, char **argv)
{
    const char *const pins = pins_option(&argc, &argv);
    scripted = argc == 7 && strcmp(argv[1], "--script") == 0;
    argv += scripted;
    if (argc < 5)
        fail("usage: serial_board [--pins=B5D3...] MCU HERTZ BAUD IMAGE [REST]...");
    rests = argv + 5 + scripted;
    line_out = dup(STDOUT_FILENO);
    /* simavr itself prints on the standard output: that goes to the standard error. */
    if (line_out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        fail("cannot set up the output");
    avr = load_chip(argv[1], argv[4]);
    avr->frequency = (uint32_t)strtoul(argv[2], NULL, 10);
    avr->data[MCUSR] |= PORF; /* which simavr's ATtiny13A does not set */
    avr->sleep = on_sleep;
    watch_pins(avr, pins);
    on_boot = start_line;
    cycles_per_bit = avr->frequency / strtod(argv[3], NULL);
    input = avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT);
    for (avr_io_t *io = avr->io_port; io != NULL; io = io->next)
        if (strcmp(io->kind, "uart") == 0)
            uart = (avr_uart_t *)io; /* the io is its first member */
        else if (strcmp(io->kind, "timer") == 0)
            complete_timer((avr_timer_t *)io);
    if (uart == NULL) {
        input = avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ('B'), PIN_IN);
        avr_raise_irq(input, 1);
        avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ('B'), PIN_OUT), on_pin,
                                NULL);
    } else {
        uint32_t flags = 0; /* simavr prints no lines, and does not sleep when it is polled */
        avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);
        avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUTPUT),
                                on_output, NULL);
    }
    const avr_cycle_count_t silence = (avr_cycle_count_t)(SILENCE * avr->frequency);
    signal(SIGTERM, on_term);
    if (scripted) {
        start_eeprom(avr, argv[5]);
        play_script();
    }
    while (!scripted && !told_to_end &&
           !(input_ended && taken == filled && avr->cycle - last_event > silence))
        step(avr);
    print_board(stderr, avr);
    fprintf(stderr, " bytes %llu unread %u resumed %llu answered %llu jitter %.0f oscillator %u\n",
            (unsigned long long)bytes_in, unread, (unsigned long long)resumed,
            (unsigned long long)answered, jitter, avr->data[OSCCAL]);
    return 0;
}
