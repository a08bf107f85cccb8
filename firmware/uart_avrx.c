/* The agent on a tinyAVR 1, an AVR DA or an AVR EB.   SPDX-License-Identifier: MIT
 *
 * No simulator here has these chips: README.md, "What runs, and what only compiles". USART 0 has
 * 115,200 baud, 8 data bits, no parity, 1 stop bit. It sends at PB2 and receives at PB3 of a
 * tinyAVR; of the others, at PA0 and PA1. The fuse for the oscillator is 20 MHz, as it comes.
 */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/wdt.h>

#include "serial_agent.h"

/* At 20 MHz: 115,200 baud, and a second, which is 13 millionths short. */
enum { DIVIDER = (4 * 20000000UL + 115200 / 2) / 115200, SECOND = 20000000UL / 1024 - 1 };

#ifdef TCE0 /* of an AVR EB, whose bits are those of a TCA */
#define TIMER TCE0
#define TIMER_vect TCE0_OVF_vect
#define TIMER_vect_num TCE0_OVF_vect_num
#else
#define TIMER TCA0.SINGLE
#define TIMER_vect TCA0_OVF_vect
#define TIMER_vect_num TCA0_OVF_vect_num
#endif
enum { OVERFLOWS = 1, COUNTS = 7 << 1 | 1 }; /* bits; enabled, the clock divided by 1024 */

static volatile uint8_t beats; /* of the clock, one a second */

ISR(TIMER_vect)
{
    TIMER.INTFLAGS = OVERFLOWS;
    beats++;
}

ISR(USART0_RXC_vect)
{
    if (USART0.RXDATAH & USART_BUFOVF_bm) /* must be read before the byte */
        serial_lose(&ring);
    serial_put(&ring, USART0.RXDATAL);
}

static bool chip_send(uint8_t byte)
{
    if (!(USART0.STATUS & USART_DREIF_bm))
        return false;
    USART0.TXDATAL = byte;
    return true;
}

static void chip_start(void)
{
    _PROTECTED_WRITE(WDT.CTRLA, WDT_PERIOD_2KCLK_gc); /* 2 s */
#ifdef CLKCTRL_FRQSEL_gm
    _PROTECTED_WRITE(CLKCTRL.OSCHFCTRLA, CLKCTRL_FRQSEL_20M_gc);
#else
    _PROTECTED_WRITE(CLKCTRL.MCLKCTRLB, 0); /* no prescaler */
#endif
#if defined CLKCTRL_FRQSEL_gm || defined TCE0
    PORTA.PIN1CTRL = PORT_PULLUPEN_bm; /* an open line rests */
    PORTA.DIRSET = PIN0_bm;
#else
    PORTB.PIN3CTRL = PORT_PULLUPEN_bm;
    PORTB.DIRSET = PIN2_bm;
#endif
    TIMER.PER = SECOND;
    TIMER.INTCTRL = OVERFLOWS;
    TIMER.CTRLA = COUNTS;
    USART0.BAUD = DIVIDER;
    USART0.CTRLA = USART_RXCIE_bm;
    USART0.CTRLB = USART_RXEN_bm | USART_TXEN_bm;
}

int main(void)
{
    chip_start();
    sei();
    for (uint8_t counted = 0;;) {
        if (beats != counted) { /* only the loop changes `seconds`, which has two bytes */
            counted++;
            seconds++;
            wdt_reset(); /* only here: it resets a chip whose loop or clock stands still */
        }
        serve();
    }
}

/* The package of avr-gcc 14.2 has no start-up files for these chips. A reset sets their stack. */
#define TEXT_(what) #what
#define TEXT(what) TEXT_(what)
#define VECTOR(name) __asm__(".org 4 * " TEXT(name##_num) "\n jmp " TEXT(name))
__asm__(".section .vectors, \"ax\", @progbits\n jmp begin");
VECTOR(TIMER_vect);
VECTOR(USART0_RXC_vect);
__asm__(".section .init2, \"ax\", @progbits\n"
        "begin: clr r1\n ldi r26, lo8(__bss_start)\n ldi r27, hi8(__bss_start)\n"
        "0: st X+, r1\n cpi r26, lo8(__bss_end)\n ldi r24, hi8(__bss_end)\n cpc r27, r24\n"
        "brne 0b\n jmp main\n.text\n");
