/* Gives functions of dumpulse_keyed.h names that a simulator can call, which passes up to four
 * arguments of 16 bits.   SPDX-License-Identifier: MIT */
#include "dumpulse_keyed.h"

bool export_keyed_heartbeat(dumpulse_node *node, uint8_t *packet, uint8_t variable, uint16_t more);
dumpulse_result export_mixed_process(dumpulse_keyed *keyed, const uint8_t *packet, uint16_t length,
                                     void *context);
void export_slots_read(const uint8_t *memory, uint8_t number[4]);
uint8_t export_slots_write(const uint8_t *memory, uint8_t *slot, const uint8_t number[4]);

/* More is the sender * 256 + the value. */
bool export_keyed_heartbeat(dumpulse_node *node, uint8_t *packet, uint8_t variable, uint16_t more)
{
    return dumpulse_keyed_heartbeat(node, packet, variable, (uint8_t)(more / 256U),
                                    (uint8_t)(more % 256U));
}

/* The list of variables lies behind the agent. */
dumpulse_result export_mixed_process(dumpulse_keyed *keyed, const uint8_t *packet, uint16_t length,
                                     void *context)
{
    return dumpulse_mixed_process(keyed, (const uint8_t *)(keyed + 1), packet, length, context);
}

/* Numbers as bytes, the high byte first on every machine. */
void export_slots_read(const uint8_t *memory, uint8_t number[4])
{
    dumpulse_write_(number, dumpulse_slots_read(memory));
}

uint8_t export_slots_write(const uint8_t *memory, uint8_t *slot, const uint8_t number[4])
{
    return dumpulse_slots_write(memory, slot, dumpulse_read_(number));
}
