/* Makes the loop of an image hang when a certain packet comes. When another one comes, the
 * interrupt of its clock gets lost. It is linked in with --wrap.   SPDX-License-Identifier: MIT */
#ifdef KEYED
#include "dumpulse_keyed.h"
#define AGENT dumpulse_keyed
#define REAL __real_dumpulse_keyed_process
#define WRAPPED __wrap_dumpulse_keyed_process
#else
#include "dumpulse.h"
#define AGENT dumpulse
#define REAL __real_dumpulse_process_packet
#define WRAPPED __wrap_dumpulse_process_packet
#endif

#ifdef __AVR__
#include <avr/io.h>
#endif
#ifdef TIMSK1
#define STOP (TIMSK1 = 0)
#elif defined __AVR_ATtiny85__
#define STOP (TCCR1 = 0)
#elif defined __arm__
#define STOP (*(volatile uint32_t *)0xE000E010 = 0) /* SysTick */
#endif

/* The linker wants these names:
 * NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
dumpulse_result REAL(AGENT *agent, const uint8_t *packet, size_t length, void *context);
dumpulse_result WRAPPED(AGENT *agent, const uint8_t *packet, size_t length, void *context);

dumpulse_result WRAPPED(AGENT *agent, const uint8_t *packet, size_t length, void *context)
{
    static volatile bool hangs;                   /* only the loop hangs; interrupts go on */
    hangs = packet[0] == 'H' && packet[7] == 'e'; /* "HangHere" */
    while (hangs) {
    }
#ifdef STOP
    if (packet[0] == 'S' && packet[7] == 'e') /* "StopTime" */
        STOP;
#endif
    return REAL(agent, packet, length, context);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
