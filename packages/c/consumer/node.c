/* A node and a reader, which need only the header.        SPDX-License-Identifier: MIT
 *
 *     node VARIABLE SENDER VALUE   writes a heartbeat to the output
 *     node NOW                     prints the entries of the report on the input, with their age
 */
#include <dumpulse.h>
#include <stdio.h>
#include <stdlib.h>

static uint8_t byte(const char *text)
{
    return (uint8_t)strtoul(text, NULL, 10);
}

int main(int count, char **words)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];
    uint8_t report[DUMPULSE_REPORT_SIZE];

    if (count == 4) {
        dumpulse_make_heartbeat(packet, byte(words[1]), byte(words[2]), byte(words[3]));
        return fwrite(packet, sizeof packet, 1, stdout) == 1 ? 0 : 1;
    }
    if (count != 2) {
        fputs("usage: node VARIABLE SENDER VALUE, or node NOW\n", stderr);
        return 2;
    }
    if (!dumpulse_check_report(report, fread(report, 1, sizeof report, stdin))) {
        fputs("node: this is no report\n", stderr);
        return 1;
    }
    const uint16_t now = (uint16_t)strtoul(words[1], NULL, 10);
    for (uint8_t variable = 0; variable < DUMPULSE_VARIABLES; variable++) {
        const dumpulse_entry entry = dumpulse_read_entry(report, variable);
        if (dumpulse_was_heard(entry))
            printf("%u: sender %u, value %u, age %u\n", (unsigned)variable, (unsigned)entry.sender,
                   (unsigned)entry.value, (unsigned)dumpulse_age(now, entry.timestamp));
    }
    return 0;
}
