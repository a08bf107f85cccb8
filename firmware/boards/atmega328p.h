/* An ATmega328P, as on an Arduino Uno.   SPDX-License-Identifier: MIT
 *
 * Timer 1 counts seconds. Interrupts receive and send the bytes of the UART, and a packet is sent
 * from a copy: so nothing is lost at full speed. A byte has 10 bits on the line, which is 1,360
 * cycles at 16 MHz and 115,200 baud. The loop leaves the ring alone for the longest time after a
 * request: 3,621 cycles to sum the report (performance.md), 2,600 at most to copy it, and the
 * interrupts. That is less than the time of 8 bytes, and the ring holds 32.
 *
 * With -DRS485, pin PD2 turns on the driver of a transceiver while a packet leaves. A program
 * without a serial line defines BAUD as 0.
 */
#ifndef ATMEGA328P_H
#define ATMEGA328P_H

#ifndef BAUD
#define BAUD 115200UL
#endif
#include "avr.h"

#ifndef PACKET_SIZE
#define PACKET_SIZE DUMPULSE_REPORT_SIZE /* bytes of each packet that is sent */
#endif
enum { SECOND = F_CPU / 1024 - 1 }; /* the last count of timer 1: 15,625 - 1 at 16 MHz */
_Static_assert(SECOND <= 65535, "the clock is too fast for timer 1");

static volatile uint16_t seconds;

ISR(TIMER1_COMPA_vect)
{
    seconds++;
}

static inline uint8_t board_ticks(void)
{
    return low_byte(&seconds);
}

static inline __attribute__((always_inline)) uint16_t board_time(void)
{
    return both_bytes(&seconds);
}

static inline void start_clock(void)
{
    start_watchdog(WDTO_2S);
    OCR1A = SECOND;
    TCCR1B = _BV(WGM12) | _BV(CS12) | _BV(CS10); /* starts again after SECOND; clock / 1024 */
    TIMSK1 = _BV(OCIE1A);
    SMCR = _BV(SE); /* enables sleep; in its mode, idle, the UART and the timers go on */
}

#if BAUD == 0
static inline void board_start(void)
{
    start_clock();
}
#else
enum { UBRR = (F_CPU / 8 + BAUD / 2) / BAUD - 1 }; /* the nearest divider, at double speed */
_Static_assert(UBRR <= 4095, "the baud rate is too low for this clock");
_Static_assert((UBRR + 1UL) * BAUD * 40 <= F_CPU / 8 * 41 &&
                   (UBRR + 1UL) * BAUD * 40 >= F_CPU / 8 * 39,
               "no divider of this clock is within 2.5 % of the baud rate");

ISR(USART_RX_vect)
{
    if (UCSR0A & _BV(DOR0)) /* must be read before the byte */
        serial_lose(&ring);
    serial_put(&ring, UDR0);
}

static uint8_t outgoing[PACKET_SIZE];
static const uint8_t *volatile next; /* only the interrupt writes it while it is on */

#ifdef RS485
/* Only one driver may be on at a time. So the board turns its own on a while after the request, and
 * off when the stop bit of the last byte has left. */
enum { DRIVE = PD2 }; /* wired to DE and /RE of the transceiver: high, it drives the line */
enum { TURN = F_CPU / 64 / 1000 }; /* counts of timer 0 until the other driver is off: 1 ms */
_Static_assert(TURN >= 1 && TURN <= 256, "the clock does not fit timer 0");

ISR(TIMER0_COMPA_vect) /* the other driver is off */
{
    TCCR0B = 0;
    PORTD |= _BV(DRIVE);
    UCSR0B |= _BV(UDRIE0);
}

ISR(USART_TX_vect) /* the last stop bit has left */
{
    PORTD &= (uint8_t)~_BV(DRIVE);
    UCSR0B &= (uint8_t)~_BV(TXCIE0);
}

static inline bool board_transmits(void)
{
    return TCCR0B != 0 || (PORTD & _BV(DRIVE)) != 0;
}
#else
static inline bool board_transmits(void)
{
    return (UCSR0B & _BV(UDRIE0)) != 0;
}
#endif

ISR(USART_UDRE_vect)
{
    UDR0 = *next++;
    if (next == outgoing + sizeof outgoing) {
#ifdef RS485
        UCSR0A = _BV(U2X0) | _BV(TXC0); /* forgets that the line has rested before */
        UCSR0B = (uint8_t)((UCSR0B & ~_BV(UDRIE0)) | _BV(TXCIE0));
#else
        UCSR0B &= (uint8_t)~_BV(UDRIE0);
#endif
    }
}

/* Sends the last bytes of outgoing. The board must not be transmitting. */
static inline void board_send(uint16_t length)
{
    next = outgoing + sizeof outgoing - length;
#ifdef RS485
    TCNT0 = 0;
    TCCR0B = _BV(CS01) | _BV(CS00); /* clock / 64 */
#else
    UCSR0B |= _BV(UDRIE0);
#endif
}

/* Sends a packet of PACKET_SIZE bytes. */
static inline void board_transmit(const uint8_t *packet, size_t length)
{
    if (board_transmits())
        return; /* the last packet is still leaving, so the reader must poll again */
    for (size_t i = 0; i != length; i++)
        outgoing[i] = packet[i];
    board_send(PACKET_SIZE);
}

static inline void board_start(void)
{
    start_clock();
    PORTD = _BV(PD0); /* a pull-up: without a node, the line rests */
    UCSR0A = _BV(U2X0);
    UBRR0 = UBRR;
    UCSR0B = _BV(RXCIE0) | _BV(RXEN0) | _BV(TXEN0);
#ifdef RS485
    DDRD = _BV(DRIVE);
    OCR0A = TURN - 1;
    TCCR0A = _BV(WGM01);
    TIMSK0 = _BV(OCIE0A);
#endif
}
#endif

#endif /* ATMEGA328P_H */
