/* An agent that takes nodes that only send, too. dumpulse_keyed.h is the manual.
 * SPDX-License-Identifier: MIT
 */
#include "dumpulse_keyed.h"

enum { FULL = 255 };

/* After a reset, nobody knows which counts of the last own epoch were taken: so none is new. */
bool dumpulse_alone_begin(dumpulse_keyed *keyed, dumpulse_alone *alone, uint8_t count,
                          void *context)
{
    uint8_t variable;

    for (variable = 0; variable != count; variable++) {
        const uint32_t own = dumpulse_load(variable);

        alone[variable] = own == 0 ? 0 : own << 8 | FULL;
    }
    return dumpulse_keyed_begin(keyed, context);
}

/* The own epoch of an announce, times 256: bytes 1 to 3 of four, and a 0. */
static uint32_t own_of(const uint8_t *four)
{
    return dumpulse_read_(four) << 8;
}

/* An announce waits until a heartbeat of its own epoch comes, or until the next epoch of the agent.
 * Another one takes its place only with a larger number, as somebody may repeat old ones. */
static dumpulse_result announced(dumpulse_keyed *keyed, const dumpulse_alone *node,
                                 const uint8_t *packet, uint8_t variable)
{
    uint8_t *waits = dumpulse_waiting_(keyed, packet[4]);
    const uint32_t own = own_of(packet + 4);

    if (own <= *node || (waits != NULL && own <= own_of(waits))) {
        return DUMPULSE_OLD;
    }
    if (!dumpulse_right_(packet, variable, 0)) {
        return dumpulse_wrong_(keyed);
    }
    dumpulse_wait_(keyed, waits, packet);
    return DUMPULSE_ANNOUNCE;
}

/* A heartbeat is of the last own epoch, or of the one that waits. Of that one, two tags were right
 * now: it is stored, and is the last one from now on. */
static dumpulse_result beaten(dumpulse_keyed *keyed, dumpulse_alone *node, uint8_t *waits,
                              const uint8_t *packet, uint8_t variable)
{
    const uint8_t count = packet[5];
    bool is_wrong = false;

    if (*node != 0 && count > (uint8_t)*node) {
        const uint32_t own = *node & ~(uint32_t)FULL;

        if (dumpulse_right_(packet, variable, own)) {
            *node = own | count;
            return dumpulse_take_(keyed, packet);
        }
        is_wrong = true;
    }
    if (waits != NULL && count != 0) {
        const uint32_t own = own_of(waits);

        if (dumpulse_right_(packet, variable, own)) {
            if (!dumpulse_store(variable, own >> 8)) {
                return DUMPULSE_NOT_STORED;
            }
            *node = own | count;
            waits[0] = 0;
            return dumpulse_record(&keyed->agent, variable, packet[6], packet[7]);
        }
        is_wrong = true;
    }
    return is_wrong ? dumpulse_wrong_(keyed) : DUMPULSE_OLD;
}

dumpulse_result dumpulse_alone_process(dumpulse_keyed *keyed, dumpulse_alone *alone, uint8_t count,
                                       const uint8_t *packet, size_t length, void *context)
{
    const uint8_t variable = packet[4] % DUMPULSE_VARIABLES;

    if (length == DUMPULSE_PACKET_SIZE && keyed->reached != 0 && variable < count) {
        const uint8_t kind = packet[4] - variable;
        dumpulse_alone *node = alone + variable;

        if (kind == DUMPULSE_IS_ANNOUNCE_ && packet[5] >= DUMPULSE_OWN_FIRST_ >> 24) {
            return announced(keyed, node, packet, variable);
        }
        if (kind == DUMPULSE_IS_HEARTBEAT_) {
            uint8_t *waits = dumpulse_waiting_(keyed, DUMPULSE_IS_ANNOUNCE_ + variable);

            if (waits != NULL || *node != 0) {
                return beaten(keyed, node, waits, packet, variable);
            }
        }
    }
    return dumpulse_keyed_process(keyed, packet, length, context);
}

bool dumpulse_alone_renew(dumpulse_alone *alone, uint8_t variable)
{
    if (!dumpulse_store(variable, 0)) {
        return false;
    }
    alone[variable] = 0;
    return true;
}
