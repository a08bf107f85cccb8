/* The agent. dumpulse.h is the manual.   SPDX-License-Identifier: MIT */
#include "dumpulse.h"

/* On AVR a plain constant takes RAM, too. This one stays in flash, in the section that PROGMEM
 * uses. PROGMEM itself does not work with clang, which only warns. */
#ifdef __AVR__
#include <avr/pgmspace.h>
#define IN_FLASH __attribute__((section(".progmem.data")))
#else
#define IN_FLASH
#define pgm_read_byte(address) (*(address))
#endif

/* Can the processor load 32 bits from any address? Then compilers make one load of four bytes. */
#if defined __ARM_FEATURE_UNALIGNED || defined __i386__ || defined __x86_64__ || defined __powerpc__
#define LOADS_ANYWHERE true
#else
#define LOADS_ANYWHERE false
#endif

static const uint8_t request[DUMPULSE_PACKET_SIZE] IN_FLASH = DUMPULSE_REQUEST;

static bool is_request(const uint8_t *packet)
{
    uint8_t i = 0;
    /*@ loop invariant 0 <= i <= 8;
        loop invariant \forall integer k; 0 <= k < i ==> packet[k] == request[k];
        loop assigns i;
        loop variant 8 - i; */
    for (; i != DUMPULSE_PACKET_SIZE; i++) {
        if (packet[i] != pgm_read_byte(&request[i])) {
            break;
        }
    }
    return i == DUMPULSE_PACKET_SIZE;
}

/* Does the packet start with this checksum? Each target takes the way that is smallest there: one
 * comparison of 32 bits, two of 16 bits, or, if an int has 16 bits, two bytes at a time. */
static bool starts_with(const uint8_t *packet, unsigned b, unsigned a)
{
    /*@ assert !DUMPULSE_NARROW_ ==>
          ((uint32_t)packet[0] << 24) + ((uint32_t)packet[1] << 16) + ((uint32_t)packet[2] << 8) +
          packet[3] == number(packet) * 65536 + number(packet + 2); */
    if (!DUMPULSE_NARROW_) {
        if (LOADS_ANYWHERE) {
            return ((uint32_t)packet[0] << 24) + ((uint32_t)packet[1] << 16) +
                       ((uint32_t)packet[2] << 8) + packet[3] ==
                   ((uint32_t)b << 16) + a;
        }
        return dumpulse_read16_(packet) == b && dumpulse_read16_(packet + 2) == a;
    }
    uint8_t differ = (uint8_t)(packet[0] ^ (b / 256U));
    /*@ assert differ == (packet[0] ^ (b / 256)); */
    differ |= (uint8_t)(packet[1] ^ (b % 256U));
    /*@ assert differ == ((packet[0] ^ (b / 256)) | (packet[1] ^ (b % 256))); */
    /*@ assert differ == 0 <==> packet[0] == b / 256 && packet[1] == b % 256; */
    if (differ != 0U) {
        return false;
    }
    differ = (uint8_t)(packet[2] ^ (a / 256U));
    differ |= (uint8_t)(packet[3] ^ (a % 256U));
    /*@ assert differ == ((packet[2] ^ (a / 256)) | (packet[3] ^ (a % 256))); */
    /*@ assert differ == 0 <==> packet[2] == a / 256 && packet[3] == a % 256; */
    return differ == 0U;
}

/* Writes the report's checksum, and has the report sent. */
static dumpulse_result report(dumpulse *agent, unsigned b, unsigned a, void *context)
{
    dumpulse_write16_(agent->report, b);
    dumpulse_write16_(agent->report + 2, a);
    /* By induction: writing the checksum has not changed the bytes under it. */
    /*@ ghost
        int k = 0;
        /@ loop invariant 0 <= k <= 256;
           loop invariant adler_a(&agent->report[4], k) ==
                          \at(adler_a(&agent->report[4], \at(k, Here)), Pre);
           loop invariant adler_b(&agent->report[4], k) ==
                          \at(adler_b(&agent->report[4], \at(k, Here)), Pre);
           loop assigns k;
           loop variant 256 - k; @/
        while (k < 256) k++;
    */
    dumpulse_send_packet(context, agent->report, DUMPULSE_REPORT_SIZE);
    return DUMPULSE_REPORT;
}

dumpulse_result dumpulse_process_packet(dumpulse *agent, const uint8_t *packet, size_t length,
                                        void *context)
{
    if (length != DUMPULSE_PACKET_SIZE) {
        return DUMPULSE_REFUSED;
    }

    /* A request needs the checksum of the report, and a heartbeat needs its own. One call computes
     * either: two calls would take 38 bytes more on AVR, and 24 on a Cortex-M0+. So the kind of
     * packet is decided here. Below, `summed` tells the kind, without another variable. */
    const uint8_t *summed = agent->report;
    uint_fast8_t last = DUMPULSE_REPORT_LAST_;
    if (packet[DUMPULSE_MAGIC_AT_] == DUMPULSE_MAGIC) {
        summed = packet;
        last = DUMPULSE_PACKET_LAST_;
    } else {
        if (!is_request(packet)) {
            return DUMPULSE_REFUSED;
        }
    }
    unsigned a;
    unsigned b;
    dumpulse_sum_(summed + DUMPULSE_SUM_SIZE_, last, &a, &b);

    /* Is it the report that was summed? The cast is for the prover, which knows no relation between
     * pointers of two types. */
    if (summed == (const uint8_t *)agent->report) {
        return report(agent, b, a, context);
    }
    /*@ assert summed == packet; */
    if (!starts_with(summed, b, a)) {
        return DUMPULSE_REFUSED;
    }
    return dumpulse_record(agent, summed[DUMPULSE_VARIABLE_AT_], summed[DUMPULSE_SENDER_AT_],
                           summed[DUMPULSE_VALUE_AT_]);
}
