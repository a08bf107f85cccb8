/* A fuzzer for dumpulse_keyed.c.   SPDX-License-Identifier: MIT
 *
 * An input is a list of steps: a tick, a reset, a packet as it is, or one that gets its right tag.
 * It must be compiled with DUMPULSE_ALONE=8. The sanitizers see what is wrong in memory. After
 * each packet this program looks at what must hold: what is refused changes nothing, a count grows
 * with each heartbeat, and what is sent is the agent's own. */
#ifndef DUMPULSE_ALONE
#define DUMPULSE_ALONE 8
#endif
#include "dumpulse_keyed.h"
#include "fuzz_check.h"

#include <stdlib.h>
#include <string.h>

static dumpulse_keyed keyed;
static uint8_t numbers[66][3];
static uint32_t epoch; /* the last one whose beacon was sent */
static bool storing_fails;
static unsigned sends, times;

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    memset(key, label, 16);
}

void dumpulse_load(uint8_t label, uint8_t number[3])
{
    memcpy(number, numbers[label], 3);
}

bool dumpulse_store(uint8_t label, const uint8_t number[3])
{
    CHECK(memcmp(number, numbers[label], 3) > 0);
    if (!storing_fails)
        memcpy(numbers[label], number, 3);
    return !storing_fails;
}

uint16_t dumpulse_get_timestamp(void)
{
    times++;
    return 7;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    const uint8_t *report = (const uint8_t *)&keyed + offsetof(dumpulse_keyed, tag);

    CHECK(context == &keyed);
    CHECK((length == 8 && packet == (const uint8_t *)&keyed) ||
          (length == 264 && packet == report));
    sends++;
}

/* A tick or a reset. */
static void begin(bool after_reset)
{
    if (after_reset)
        memset(&keyed, 0, sizeof keyed);
    if (after_reset ? !dumpulse_keyed_begin(&keyed, &keyed) : !dumpulse_keyed_tick(&keyed, &keyed))
        return;
    const uint32_t now = (uint32_t)keyed.epoch[0] << 24 | (uint32_t)keyed.epoch[1] << 16 |
                         (uint32_t)keyed.epoch[2] << 8 | keyed.epoch[3];
    CHECK(now > epoch && now <= 0x3F000000U && sends == 1);
    epoch = now;
}

static void give(uint8_t packet[8], bool tagged)
{
    static const uint8_t ZEROS[4];
    const uint8_t variable = packet[4] % 64;
    const uint8_t *number = keyed.epoch;

    if (tagged) {
        if (packet[4] < 0xC0 && variable < DUMPULSE_ALONE && keyed.own[variable][0] != 0)
            number = keyed.own[variable];
        if (packet[4] >= 0x40 && packet[4] < 0x80)
            number = ZEROS;
        const uint32_t tag = dumpulse_tag_(
            packet, packet[4] == 0xC0 ? DUMPULSE_READER_LABEL : variable, number, NULL);
        for (unsigned i = 0; i != 4; i++)
            packet[i] = (uint8_t)(tag >> 8 * i & 0xFFU);
    }
    dumpulse_keyed before;
    memcpy(&before, &keyed, sizeof keyed); /* with what lies between its members */
    const dumpulse_result look = dumpulse_keyed_look(&keyed, packet, 8),
                          result = dumpulse_keyed_process(&keyed, packet, 8, &keyed);
    const bool taken = result >= DUMPULSE_HEARTBEAT && result <= DUMPULSE_ANNOUNCE;
    CHECK(look == DUMPULSE_NEW ? taken || result == DUMPULSE_WRONG_TAG ||
                                     (storing_fails && result == DUMPULSE_NOT_STORED)
                               : look == result);
    if (!taken)
        CHECK(memcmp((const uint8_t *)&before, (const uint8_t *)&keyed, sizeof keyed) == 0);
    if (result == DUMPULSE_HEARTBEAT)
        CHECK(times == 1 && before.last[variable] < keyed.last[variable] &&
              packet[7] == dumpulse_read_entry(keyed.agent.report, variable).value);
    if (result == DUMPULSE_ANNOUNCE)
        CHECK(memcmp(numbers[variable], packet + 5, 3) == 0 && keyed.last[variable] == 0);
    CHECK(sends == (packet[4] == 0xC0 && result != DUMPULSE_NOT_BEGUN));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memset(numbers, 0, sizeof numbers);
    epoch = 0;
    storing_fails = false;
    sends = 0;
    begin(true);
    while (size != 0) {
        const uint8_t kind = *data++;
        size--;
        sends = times = 0;
        if (kind % 8 < 2) {
            begin(kind % 8 == 1);
        } else if (kind % 8 == 2) {
            storing_fails = !storing_fails;
        } else if (size >= 8) {
            uint8_t *packet = (uint8_t *)malloc(8); /* so that a sanitizer knows its end */
            if (packet == NULL)
                return 0;
            memcpy(packet, data, 8);
            give(packet, kind % 8 > 3);
            free(packet);
            data += 8;
            size -= 8;
        }
    }
    return 0;
}
