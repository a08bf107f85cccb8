/* The agent. dumpulse.h is the manual.   SPDX-License-Identifier: MIT */
#include "dumpulse.h"

#ifdef __AVR__ /* where a plain constant takes RAM, too */
#include <avr/pgmspace.h>
#else
#define PROGMEM
#define pgm_read_byte(address) (*(address))
#endif

static const uint8_t request[DUMPULSE_PACKET_SIZE] PROGMEM = DUMPULSE_REQUEST;

static bool is_request(const uint8_t *packet)
{
    /*@ loop invariant 0 <= i <= 8;
        loop invariant \forall integer k; 0 <= k < i ==> packet[k] == request[k];
        loop assigns i;
        loop variant 8 - i; */
    for (uint8_t i = 0; i != DUMPULSE_PACKET_SIZE; i++)
        if (packet[i] != pgm_read_byte(&request[i]))
            return false;
    return true;
}

/* Does the packet start with this checksum? One comparison of 32 bits, or four of
 * bytes where an int has 16 bits: either is the smaller code there. */
static bool starts_with(const uint8_t *packet, unsigned b, unsigned a)
{
    /*@ assert !DUMPULSE_NARROW_ ==>
          ((uint32_t)packet[0] << 24) + ((uint32_t)packet[1] << 16) + ((uint32_t)packet[2] << 8) +
          packet[3] == number(packet) * 65536 + number(packet + 2); */
    if (!DUMPULSE_NARROW_)
        return ((uint32_t)packet[0] << 24) + ((uint32_t)packet[1] << 16) +
                   ((uint32_t)packet[2] << 8) + packet[3] ==
               ((uint32_t)b << 16) + a;
    const uint8_t b_high = (uint8_t)(b / 256U), b_low = (uint8_t)(b % 256U);
    const uint8_t a_high = (uint8_t)(a / 256U), a_low = (uint8_t)(a % 256U);
    if (packet[0] != b_high)
        return false;
    if (packet[1] != b_low)
        return false;
    if (packet[2] != a_high)
        return false;
    return packet[3] == a_low;
}

/* Writes the report's checksum, and has the report sent. */
static dumpulse_result report(dumpulse *agent, unsigned b, unsigned a, void *context)
{
    dumpulse_write16_(agent->report, b);
    dumpulse_write16_(agent->report + 2, a);
    /* Writing the checksum has not changed what it is the checksum of: by induction. */
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
    if (length != DUMPULSE_PACKET_SIZE)
        return DUMPULSE_REFUSED;

    /* Either way a checksum is due: a heartbeat's own, or the report's. */
    const uint8_t *summed = packet;
    uint_fast8_t last = DUMPULSE_PACKET_LAST_;
    if (packet[DUMPULSE_MAGIC_AT_] != DUMPULSE_MAGIC) {
        if (!is_request(packet))
            return DUMPULSE_REFUSED;
        summed = agent->report;
        last = DUMPULSE_REPORT_LAST_;
    }
    unsigned a, b;
    dumpulse_sum_(summed + DUMPULSE_SUM_SIZE_, last, &a, &b);

    /* Was it the report that was summed? The cast is for the prover, to which pointers of two
     * types are unrelated. */
    if (summed == (const uint8_t *)agent->report)
        return report(agent, b, a, context);
    /*@ assert summed == packet; */
    if (!starts_with(summed, b, a))
        return DUMPULSE_REFUSED;
    return dumpulse_record(agent, summed[DUMPULSE_VARIABLE_AT_], summed[DUMPULSE_SENDER_AT_],
                           summed[DUMPULSE_VALUE_AT_]);
}
