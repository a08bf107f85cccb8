/* libFuzzer target: compares the library with a model that is written in another way, for any
 * sequence of packets and calls.   SPDX-License-Identifier: MIT
 *
 * An input is a sequence of commands. A command has a byte that says what to do (see below) and how
 * many bytes follow (0 to 50; 51: all that are left), two bytes of timestamp, and these bytes. A
 * failure prints a command that runs it again:
 *     make part ONLY=replay INPUT=build/fuzz/crash-…
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dumpulse.h"
#include "fuzz_check.h"

enum { PACKET, HEARTBEAT, REQUEST, RECORD, READ, KINDS };

static const uint8_t request_bytes[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
static dumpulse agent, model;
static uint16_t now;
static unsigned times, sends;

uint16_t dumpulse_get_timestamp(void)
{
    times++;
    return now;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    sends++;
    CHECK(context == &model);
    CHECK(packet == agent.report);
    CHECK(length == sizeof agent.report);
    CHECK(dumpulse_check_report(packet, length));
}

/* Adler-32 as in RFC 1950: both sums are reduced at every byte. */
static void put_sum(uint8_t *sum, const uint8_t *bytes, size_t length)
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < length; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    sum[0] = (uint8_t)(b >> 8);
    sum[1] = (uint8_t)b;
    sum[2] = (uint8_t)(a >> 8);
    sum[3] = (uint8_t)a;
}

static dumpulse_result model_record(uint8_t variable, uint8_t sender, uint8_t value)
{
    if (variable > 63)
        return DUMPULSE_REFUSED;
    const uint8_t entry[4] = {(uint8_t)(now / 256), (uint8_t)(now % 256), sender, value};
    memcpy(model.report + 4 + 4 * variable, entry, sizeof entry);
    return DUMPULSE_HEARTBEAT;
}

static dumpulse_result model_process(const uint8_t *packet, size_t length)
{
    uint8_t sum[4];
    if (length != 8)
        return DUMPULSE_REFUSED;
    if (memcmp(packet, "AreyouOK", 8) == 0) {
        put_sum(model.report, model.report + 4, 256);
        return DUMPULSE_REPORT;
    }
    put_sum(sum, packet + 4, 4);
    if (memcmp(sum, packet, 4) != 0 || packet[4] != 0xF1)
        return DUMPULSE_REFUSED;
    return model_record(packet[5], packet[6], packet[7]);
}

static void process(const uint8_t *bytes, size_t length)
{
    /* The packet gets a block of its own, so that AddressSanitizer finds a read past its end. */
    uint8_t *packet = (uint8_t *)malloc(length);
    CHECK(packet != NULL || length == 0);
    if (length != 0)
        memcpy(packet, bytes, length);
    const dumpulse_result expected = model_process(packet, length);
    CHECK(dumpulse_process_packet(&agent, packet, length, &model) == expected);
    CHECK(times == (expected == DUMPULSE_HEARTBEAT));
    CHECK(sends == (expected == DUMPULSE_REPORT));
    free(packet);
}

static void step(unsigned kind, const uint8_t *bytes, size_t length)
{
    const uint8_t variable = length > 0 ? bytes[0] : 0;
    const uint8_t sender = length > 1 ? bytes[1] : 0, value = length > 2 ? bytes[2] : 0;
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    times = sends = 0;
    switch (kind) {
    case HEARTBEAT: /* a right one, which the fuzzer would seldom find by itself */
        dumpulse_make_heartbeat(packet, variable, sender, value);
        process(packet, sizeof packet);
        break;
    case REQUEST: process(request_bytes, sizeof request_bytes); break;
    case RECORD: {
        const dumpulse_result expected = model_record(variable, sender, value);
        CHECK(dumpulse_record(&agent, variable, sender, value) == expected);
        CHECK(times == (expected == DUMPULSE_HEARTBEAT));
        CHECK(sends == 0);
        break;
    }
    case READ: {
        const dumpulse_entry entry = dumpulse_read_entry(agent.report, variable);
        const uint8_t none[4] = {0};
        const uint8_t *expected = variable < 64 ? model.report + 4 + 4 * variable : none;
        CHECK(entry.timestamp == expected[0] * 256 + expected[1]);
        CHECK(entry.sender == expected[2]);
        CHECK(entry.value == expected[3]);
        break;
    }
    default: process(bytes, length);
    }
    CHECK(memcmp(&agent, &model, sizeof agent) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memset(&agent, 0, sizeof agent);
    memset(&model, 0, sizeof model);
    while (size >= 3) {
        const unsigned kind = data[0] % KINDS;
        size_t length = data[0] / KINDS; /* 0 to 51 */
        now = (uint16_t)(data[1] * 256U + data[2]);
        data += 3;
        size -= 3;
        if (length > size || length == 51)
            length = size;
        step(kind, data, length);
        data += length;
        size -= length;
    }
    return 0;
}
