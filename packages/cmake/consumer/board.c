/* What a board needs beside agent.c.                      SPDX-License-Identifier: MIT */
#ifdef __AVR__ /* standard input and output are its UART */

#include <avr/io.h>
#include <stdio.h>

#define BAUD 115200
#define BAUD_TOL 3 /* percent; the UART has 117,647 baud, 2.1 % more */
#include <util/setbaud.h>

static int receive(FILE *stream)
{
    (void)stream;
    loop_until_bit_is_set(UCSR0A, RXC0);
    return UDR0;
}

static int send(char byte, FILE *stream)
{
    (void)stream;
    loop_until_bit_is_set(UCSR0A, UDRE0);
    UDR0 = (uint8_t)byte;
    return 0;
}

/* Runs before main(). The loop is too slow for a byte in between to be lost. */
__attribute__((constructor)) static void open_uart(void)
{
    UBRR0 = UBRR_VALUE;
    UCSR0A = USE_2X << U2X0;
    UCSR0B = _BV(RXEN0) | _BV(TXEN0);
    fdevopen(send, receive);
}

#else /* where a Cortex-M begins; QEMU has its standard input and output */

#include <stdint.h>

void _start(void); /* Newlib's entry point. */

enum { STACK_TOP = 0x400000 }; /* the end of the first RAM of QEMU's board mps2-an385 */

/* The linker puts this at address 0, where the processor looks for it. */
__attribute__((section(".vectors"))) const struct {
    uint32_t stack;
    void (*reset)(void);
} vectors = {STACK_TOP, _start};

#endif
