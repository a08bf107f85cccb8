/* The library's own formats, by dumpulse.h: the agent reads heartbeats and makes reports. There is
 * none for lists.   SPDX-License-Identifier: MIT */
#include "dumpulse.h"

/* A bit of the last byte is wrong: the checksum must notice. */
#define DAMAGE(wire, length) (void)(((wire) + (length))[-1] ^= 1)
/* The agent's state is the report. */
#define READY_report(wire, in) record_all((dumpulse *)(wire), in)

struct entry;
static void record_all(dumpulse *agent, const struct entry *in);

#include "format.h"

static dumpulse agent;
static uint16_t lab_now;

uint16_t dumpulse_get_timestamp(void)
{
    return lab_now;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    *(size_t *)context = length;
    (void)packet;
}

static void record_all(dumpulse *to, const struct entry *in)
{
    for (uint8_t i = 0; i < ENTRIES; i++) {
        lab_now = in[i].time;
        dumpulse_record(to, i, in[i].sender, in[i].value);
    }
}

static size_t encode_heartbeat(uint8_t *wire, size_t size, const struct heartbeat *in)
{
    (void)size;
    dumpulse_make_heartbeat(wire, in->variable, in->sender, in->value);
    return DUMPULSE_PACKET_SIZE;
}

static bool decode_heartbeat(const uint8_t *wire, size_t length, struct heartbeat *out)
{
    if (dumpulse_process_packet(&agent, wire, length, NULL) != DUMPULSE_HEARTBEAT)
        return false;
    *out = (struct heartbeat){wire[5], wire[6], wire[7]}; /* as SPEC.md has them */
    return true;
}

static size_t encode_report(uint8_t *wire, size_t size, const struct entry *in)
{
    static const uint8_t lab_request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
    size_t sent = 0;
    (void)size;
    (void)in;
    dumpulse_process_packet((dumpulse *)wire, lab_request, sizeof lab_request, &sent);
    return sent;
}

static bool decode_report(const uint8_t *wire, size_t length, struct entry *out)
{
    if (!dumpulse_check_report(wire, length))
        return false;
    for (uint8_t i = 0; i < ENTRIES; i++) {
        const dumpulse_entry found = dumpulse_read_entry(wire, i);
        out[i] = (struct entry){found.timestamp, found.sender, found.value};
    }
    return true;
}
