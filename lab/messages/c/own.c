/* Version 1, by dumpulse.h: a node makes a heartbeat, the agent reads it, and refuses one with a
 * wrong bit. Each step has been taken once before it is counted.   SPDX-License-Identifier: MIT */
#include "dumpulse.h"

#include "vectors.h"

#include <string.h>

struct heartbeat {
    uint8_t variable, sender, value;
};

static dumpulse agent;
static struct heartbeat lab_values, lab_read;
static uint8_t lab_wire[DUMPULSE_PACKET_SIZE];
static bool lab_answer;

STEP(make_heartbeat)
STEP(read_heartbeat)
STEP(refuse_heartbeat)

uint16_t dumpulse_get_timestamp(void)
{
    return 0;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    *(size_t *)context = length;
    (void)packet;
}

void make_heartbeat_prepare(unsigned n)
{
    (void)n;
    lab_values = (struct heartbeat){42, 99, 77};
    make_heartbeat_run();
    memset(lab_wire, 0, sizeof lab_wire);
}

void make_heartbeat_run(void)
{
    dumpulse_make_heartbeat(lab_wire, lab_values.variable, lab_values.sender, lab_values.value);
}

/* Adler-32 of the last four bytes comes first. */
bool make_heartbeat_right(void)
{
    static const uint8_t lab_expected[] = {0x05, 0x59, 0x01, 0xCC, 0xF1, 0x2A, 0x63, 0x4D};
    return lab_same(lab_wire, lab_expected, sizeof lab_expected);
}

void read_heartbeat_prepare(unsigned n)
{
    make_heartbeat_prepare(n);
    make_heartbeat_run();
    read_heartbeat_run();
    memset(&lab_read, 0, sizeof lab_read);
}

void read_heartbeat_run(void)
{
    lab_answer =
        dumpulse_process_packet(&agent, lab_wire, sizeof lab_wire, NULL) == DUMPULSE_HEARTBEAT;
    if (lab_answer)
        lab_read = (struct heartbeat){lab_wire[5], lab_wire[6], lab_wire[7]}; /* See SPEC.md. */
}

bool read_heartbeat_right(void)
{
    return lab_answer && memcmp(&lab_values, &lab_read, sizeof lab_values) == 0;
}

void refuse_heartbeat_prepare(unsigned n)
{
    read_heartbeat_prepare(n);
    lab_wire[sizeof lab_wire - 1] ^= 1;
    lab_answer = true;
}

void refuse_heartbeat_run(void)
{
    read_heartbeat_run();
}

bool refuse_heartbeat_right(void)
{
    return !lab_answer;
}

static bool vectors_agree(void)
{
    read_heartbeat_prepare(0);
    if (!make_heartbeat_right())
        return false;
    read_heartbeat_run();
    return read_heartbeat_right();
}
