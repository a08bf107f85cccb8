/* Runs the firmware of an AVR in simavr. A script says what comes on its serial line.
 *                                                       SPDX-License-Identifier: MIT
 *     avr_uart MCU HERTZ IMAGE
 *
 * The input is a script. "send HEX" sends bytes, one each 100 microseconds of the firmware's time.
 * "wait MICROSECONDS" sends nothing for this time. The script begins when the firmware has enabled
 * its receiver. The output is the bytes that the firmware sends. The program ends when the script
 * is at its end and the firmware has been silent for 50 milliseconds.
 */
#include "avr_host.h" /* first: simavr's other headers need what it includes */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <simavr/avr_uart.h>

enum { BYTE_US = 100, SILENCE_US = 50000, ENABLE_US = 1000000 };
enum { UCSR0B = 0xC1, RXEN0 = 0x10 }; /* an ATmega328P's, section 20.11 of its data sheet */

static avr_t *avr;
static FILE *line_out;
static avr_cycle_count_t last_output;

static void on_output(struct avr_irq_t *irq, uint32_t byte, void *unused)
{
    (void)irq, (void)unused;
    last_output = avr->cycle;
    putc((int)byte, line_out);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        fail("usage: avr_uart MCU HERTZ IMAGE");
    line_out = fdopen(dup(STDOUT_FILENO), "wb");
    /* simavr itself prints on the standard output: that goes to the standard error. */
    if (line_out == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        fail("cannot set up the output");
    avr = load_chip(argv[1], argv[3]);
    avr->frequency = (uint32_t)strtoul(argv[2], NULL, 10);
    uint32_t flags = 0; /* simavr prints no lines, and does not sleep when it is polled */
    avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);
    avr_irq_t *const input = avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUTPUT),
                            on_output, NULL);

    for (int waited = 0; !(avr->data[UCSR0B] & RXEN0); waited += BYTE_US) {
        if (waited >= ENABLE_US)
            fail("the firmware does not enable its receiver");
        run_for(avr, BYTE_US);
    }
    char word[8];
    while (scanf(" %7s", word) == 1) {
        unsigned number;
        if (strcmp(word, "wait") == 0 && scanf("%u", &number) == 1) {
            run_for(avr, number);
        } else if (strcmp(word, "send") == 0) {
            for (getchar(); scanf("%2x", &number) == 1;) {
                avr_raise_irq(input, number);
                run_for(avr, BYTE_US);
                const int next = getchar();
                if (next == '\n' || next == EOF)
                    break;
                ungetc(next, stdin);
            }
        } else {
            fail("bad script");
        }
    }
    do
        run_for(avr, SILENCE_US);
    while (avr->cycle - last_output < avr_usec_to_cycles(avr, SILENCE_US));
    return fflush(line_out) != 0;
}
