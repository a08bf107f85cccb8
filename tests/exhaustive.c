/* Tries all 2^24 heartbeats, each with its right checksum and with a wrong one. With the right one,
 * a heartbeat is taken if and only if its variable is below 64. With a wrong one it is refused. No
 * byte outside of the one entry ever changes. dumpulse_make_heartbeat() makes the same bytes, and
 * dumpulse_read_entry() reads what was sent.
 *
 * For a few tables, it also tries all 2^16 values of each half of a report's checksum, and every
 * change of one byte. dumpulse_check_report() must accept only the right report.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dumpulse.h"

static unsigned long times, sends;

uint16_t dumpulse_get_timestamp(void)
{
    times++;
    return 0x7E57;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context, (void)packet, (void)length;
    sends++;
}

static void fail(const uint8_t *packet, const char *what)
{
    printf("exhaustive: ");
    for (int i = 0; i < 8; i++)
        printf("%02x", packet[i]);
    printf(": %s\n", what);
    exit(1);
}

/* Adler-32 of four bytes with each sum written out, so that it is not the library's code again. */
static uint32_t sum_of_four(unsigned p, unsigned q, unsigned r, unsigned s)
{
    return (4 + 4 * p + 3 * q + 2 * r + s) << 16 | (1 + p + q + r + s);
}

/* Adler-32 as in RFC 1950: both sums are reduced at every byte. */
static void put_sum(uint8_t report[DUMPULSE_REPORT_SIZE])
{
    uint32_t a = 1, b = 0;

    for (size_t i = 4; i < DUMPULSE_REPORT_SIZE; i++) {
        a = (a + report[i]) % 65521;
        b = (b + a) % 65521;
    }
    report[0] = (uint8_t)(b >> 8);
    report[1] = (uint8_t)b;
    report[2] = (uint8_t)(a >> 8);
    report[3] = (uint8_t)a;
}

static void must(const uint8_t *report, bool answer, const char *what)
{
    if (dumpulse_check_report(report, DUMPULSE_REPORT_SIZE) != answer)
        fail(report, what);
}

/* Checks reports, and returns how many. */
static unsigned long check_reports(void)
{
    unsigned long asked = 0;

    for (unsigned table = 0; table < 4; table++) {
        uint8_t report[DUMPULSE_REPORT_SIZE], right[4];
        for (unsigned i = 0; i < sizeof report; i++) /* zeros, ones, and two mixtures */
            report[i] = (uint8_t)(table == 0 ? 0 : table == 1 ? 0xFF : i * table * 37 ^ i >> 2);
        put_sum(report);
        memcpy(right, report, 4);
        for (unsigned half = 0; half < 4; half += 2) {
            for (unsigned sum = 0; sum < 1U << 16; sum++) {
                report[half] = (uint8_t)(sum >> 8);
                report[half + 1] = (uint8_t)sum;
                must(report, memcmp(report, right, 4) == 0, "a report's checksum is taken wrongly");
                asked++;
            }
            memcpy(report, right, 4);
        }
        for (unsigned at = 0; at < sizeof report; at++)
            for (unsigned change = 0; change < 256; change++) {
                report[at] ^= (uint8_t)change;
                must(report, change == 0, "a report with a changed byte is taken wrongly");
                report[at] ^= (uint8_t)change;
                asked++;
            }
    }
    return asked;
}

int main(void)
{
    /* The agent that is used is between two others, which nothing may change. */
    static const dumpulse before[3] = {{{0x99}}, {{0x88}}, {{0x77}}};
    dumpulse agents[3];
    dumpulse *const agent = &agents[1];
    unsigned long taken = 0, refused = 0;

    memcpy(agents, before, sizeof agents);
    for (uint32_t payload = 0; payload < 1UL << 24; payload++) {
        const uint8_t variable = (uint8_t)(payload >> 16), sender = (uint8_t)(payload >> 8);
        const uint8_t value = (uint8_t)payload;
        const uint32_t right = sum_of_four(0xF1, variable, sender, value);
        const uint32_t wrong = right ^ 1UL << payload % 32; /* another bit each time */
        uint8_t packet[8] = {(uint8_t)(wrong >> 24),
                             (uint8_t)(wrong >> 16),
                             (uint8_t)(wrong >> 8),
                             (uint8_t)wrong,
                             0xF1,
                             variable,
                             sender,
                             value};

        if (dumpulse_process_packet(agent, packet, 8, NULL) != DUMPULSE_REFUSED)
            fail(packet, "taken with a wrong checksum");
        if (memcmp(agents, before, sizeof agents) != 0)
            fail(packet, "refused, but the table has changed");
        refused++;
        packet[0] = (uint8_t)(right >> 24);
        packet[1] = (uint8_t)(right >> 16);
        packet[2] = (uint8_t)(right >> 8);
        packet[3] = (uint8_t)right;
        uint8_t made[8];
        dumpulse_make_heartbeat(made, variable, sender, value);
        if (memcmp(made, packet, 8) != 0)
            fail(packet, "made otherwise");
        if (variable >= 64) {
            if (dumpulse_process_packet(agent, packet, 8, NULL) != DUMPULSE_REFUSED)
                fail(packet, "taken with a variable out of range");
            const dumpulse_entry none = dumpulse_read_entry(agent->report, variable);
            if (none.timestamp != 0 || none.sender != 0 || none.value != 0)
                fail(packet, "read though out of range");
            refused++;
        } else {
            uint8_t *entry = agent->report + 4 + 4 * variable;
            const uint8_t expected[4] = {0x7E, 0x57, sender, value};
            if (dumpulse_process_packet(agent, packet, 8, NULL) != DUMPULSE_HEARTBEAT)
                fail(packet, "refused");
            if (memcmp(entry, expected, 4) != 0)
                fail(packet, "entry not written");
            const dumpulse_entry read = dumpulse_read_entry(agent->report, variable);
            if (read.timestamp != 0x7E57 || read.sender != sender || read.value != value)
                fail(packet, "entry read otherwise");
            memcpy(entry, before[1].report + 4 + 4 * variable, 4);
            taken++;
        }
        if (memcmp(agents, before, sizeof agents) != 0)
            fail(packet, "more than its entry has changed");
    }
    if (taken != 1UL << 22 || times != taken || sends != 0) {
        printf("exhaustive: %lu taken, clock hook called %lu times, send hook %lu\n", taken, times,
               sends);
        return 1;
    }
    const unsigned long reports = check_reports();
    printf("exhaustive: %lu taken, %lu refused, %lu reports: %lu passed, 0 failed\n", taken,
           refused, reports, taken + refused + reports);
    return 0;
}
