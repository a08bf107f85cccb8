/* A fuzzer for dumpulse_keyed.h.   SPDX-License-Identifier: MIT
 *
 * An input is a list of steps: the next label, or the next epoch, a reset, a packet as it is, or
 * one that gets its right tag. The sanitizers see what is wrong in memory. After each packet this
 * program looks at what must hold: what is refused changes nothing, a count grows with each
 * heartbeat, and what is sent is the agent's own. */
#include "dumpulse_keyed.h"
#include "fuzz_check.h"

#include <stdlib.h>
#include <string.h>

enum { ALONE = 8, LABELS = 65 };

static dumpulse_keyed keyed;
static dumpulse_alone alone[ALONE];
static uint32_t numbers[LABELS + 1];
static uint32_t epoch; /* the last one whose beacon was sent */
static bool storing_fails;
static unsigned sends, stores, times;

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    memset(key, label, 16);
}

uint32_t dumpulse_load(uint8_t label)
{
    return numbers[label];
}

bool dumpulse_store(uint8_t label, uint32_t number)
{
    CHECK(number > numbers[label] && number <= 0xFFFFFF);
    stores++;
    if (!storing_fails)
        numbers[label] = number;
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
    CHECK(length == 264 ? packet == report : length == 8 && packet[4] < 0x40);
    CHECK(length == 264 || (packet[4] >= 0x20) == (keyed.junk != 0));
    sends++;
}

static void reset(void)
{
    memset(&keyed, 0, sizeof keyed);
    if (!dumpulse_alone_begin(&keyed, alone, ALONE, &keyed))
        return;
    CHECK(keyed.epoch > epoch && sends == LABELS);
    epoch = keyed.epoch;
}

static void next(void)
{
    const uint8_t reached = keyed.reached;

    sends = 0;
    if (!dumpulse_keyed_next(&keyed, &keyed)) {
        CHECK(sends == 0 && keyed.reached == reached);
        return;
    }
    CHECK(sends == 1 && keyed.reached == (reached == LABELS ? 1 : reached + 1));
    CHECK(keyed.epoch == epoch + (reached == LABELS) && keyed.epoch <= 0x1FFFFFFF);
    epoch = keyed.epoch;
}

/* The number with which a packet would be right: one of those that the agent tries. */
static uint32_t number_of(const uint8_t *packet, bool waiting)
{
    const uint8_t variable = packet[4] % 64;

    if (packet[4] < 0x80)
        return 0;
    if (packet[4] < 0xC0 && variable < ALONE)
        for (unsigned i = 0; i != DUMPULSE_PLACES && waiting; i++)
            if (keyed.waiting[i][0] == 0x40 + variable)
                return dumpulse_read_(keyed.waiting[i]) * 256U;
    if (packet[4] < 0xC0 && variable < ALONE && alone[variable] != 0)
        return alone[variable] - alone[variable] % 256;
    return keyed.epoch - (packet[4] - 0x80U >= keyed.reached);
}

/* Is the agent what it was, but for what may have changed? */
static void check_kept(const dumpulse_keyed *before, dumpulse_result result)
{
    dumpulse_keyed now;

    memcpy(&now, &keyed, sizeof now); /* with what lies between its members */
    if (result == DUMPULSE_WRONG_TAG) {
        CHECK(now.wrong == (uint8_t)(before->wrong + 1));
        CHECK(now.junk == (now.wrong >= 100 ? 64 : before->junk));
        now.wrong = before->wrong;
        now.junk = before->junk;
    } else if (result == DUMPULSE_ANNOUNCE || result == DUMPULSE_FIRST) {
        CHECK(now.epoch == before->epoch && now.wrong == before->wrong);
        CHECK(memcmp(&now.agent, &before->agent, sizeof now.agent) == 0);
        return;
    }
    CHECK(memcmp((const uint8_t *)before, (const uint8_t *)&now, sizeof now) == 0);
}

static void give(uint8_t packet[8], bool tagged, bool waiting)
{
    const uint8_t variable = packet[4] % 64;
    dumpulse_alone nodes[ALONE];
    dumpulse_keyed before;

    if (tagged)
        dumpulse_make_(packet, packet[4] == 0xC0 ? DUMPULSE_READER_LABEL : variable,
                       number_of(packet, waiting));
    memcpy(&before, &keyed, sizeof keyed);
    memcpy(nodes, alone, sizeof alone);
    const dumpulse_result result = dumpulse_alone_process(&keyed, alone, ALONE, packet, 8, &keyed);
    CHECK(result <= DUMPULSE_ASKS);
    if (variable >= ALONE || packet[4] < 0x80 || packet[4] >= 0xC0) {
        const dumpulse_result look = dumpulse_keyed_look(&before, packet, 8);
        CHECK(look == DUMPULSE_NEW || look == result || packet[4] < 0x80);
        dumpulse_keyed tried = before;
        const dumpulse_result try = dumpulse_keyed_try(&tried, packet, 8);
        CHECK(try == (packet[4] >= 0x80 && result == DUMPULSE_WRONG_TAG ? result : look));
    }
    CHECK(times == (result == DUMPULSE_HEARTBEAT));
    CHECK(stores == 0 || (result == (storing_fails ? DUMPULSE_NOT_STORED : DUMPULSE_HEARTBEAT)));
    CHECK(sends == (result == DUMPULSE_REPORT || result == DUMPULSE_ASKS ||
                    (packet[4] == 0xC0 && result != DUMPULSE_NOT_BEGUN)));
    if (result == DUMPULSE_HEARTBEAT || result == DUMPULSE_FIRST) {
        CHECK(variable < ALONE && alone[variable] != 0
                  ? alone[variable] > nodes[variable]
                  : keyed.last[variable] > before.last[variable]);
    } else {
        CHECK(memcmp(nodes, alone, sizeof alone) == 0);
    }
    if (result == DUMPULSE_HEARTBEAT)
        CHECK(packet[7] == dumpulse_read_entry(keyed.agent.report, variable).value);
    else if (result != DUMPULSE_REPORT)
        check_kept(&before, result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memset(numbers, 0, sizeof numbers);
    epoch = 0;
    storing_fails = false;
    sends = 0;
    reset();
    while (size != 0) {
        const uint8_t kind = *data++;
        size--;
        sends = stores = times = 0;
        if (kind % 8 == 0) {
            for (unsigned i = 0; i != (kind < 64 ? LABELS : 1U); i++)
                next();
        } else if (kind % 8 == 1) {
            reset();
        } else if (kind % 8 == 2) {
            storing_fails = !storing_fails;
        } else if (size >= 8) {
            uint8_t *packet = (uint8_t *)malloc(8); /* so that a sanitizer knows its end */
            if (packet == NULL)
                return 0;
            memcpy(packet, data, 8);
            /* the same again, with other counts: as many wrong tags as there must be for junk */
            for (unsigned i = 0; i != (kind >= 240 ? 100U : 1U); i++) {
                sends = stores = times = 0;
                give(packet, kind % 8 > 3, kind % 2 == 0);
            }
            free(packet);
            data += 8;
            size -= 8;
        }
    }
    return 0;
}
