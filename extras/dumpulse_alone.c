/* An agent that takes nodes that only send, too. dumpulse_keyed.h is the manual.
 * SPDX-License-Identifier: MIT
 */
#include "dumpulse_keyed.h"

enum { OWN_FIRST = 0x80 /* in byte 5 of an announce, at least */ };

/* After a reset, nobody knows which counts of the last own epoch were taken: so none is new. */
bool dumpulse_alone_begin(dumpulse_keyed *keyed, dumpulse_alone *alone, uint8_t count,
                          void *context)
{
    uint8_t variable;

    /*@ loop invariant 0 <= variable <= count;
        loop invariant \forall integer i; 0 <= i < variable ==> alone[i] == after_reset{Pre}(i);
        loop assigns variable, alone[0 .. count - 1];
        loop variant count - variable; */
    for (variable = 0; variable != count; variable++) {
        const uint32_t own = dumpulse_load(variable);

        alone[variable] = own == 0 ? 0 : own * 256U + DUMPULSE_FULL_;
    }
    return dumpulse_keyed_begin(keyed, context);
}

/* The own epoch of an announce, times 256. */
static uint32_t own_of(const uint8_t *four)
{
    const uint32_t own = dumpulse_read_(four) % 0x1000000UL;

    /*@ assert 0 <= three(four + 1) < 0x1000000; */
    /*@ assert big(four) == 0x1000000 * four[0] + three(four + 1); */
    return own * 256U;
}

/* An announce waits until a heartbeat of its own epoch comes, or until the next epoch of the agent.
 * Another one takes its place only with a larger number, as somebody may repeat old ones. */
static dumpulse_result announced(dumpulse_keyed *keyed, dumpulse_alone node, const uint8_t *packet,
                                 uint8_t variable)
{
    const uint8_t at = dumpulse_waiting_(keyed, packet[4]);
    const uint32_t own = own_of(packet + 4);

    if (own <= node || (at != DUMPULSE_PLACES && own <= own_of(keyed->waiting[at]))) {
        return DUMPULSE_OLD;
    }
    if (!dumpulse_right_(packet, variable, 0)) {
        return dumpulse_wrong_(keyed);
    }
    dumpulse_wait_(keyed, at, packet);
    return DUMPULSE_ANNOUNCE;
}

/* A heartbeat is of the last own epoch, or of the one that waits. Of that one, two tags were right
 * now: it is stored, and is the last one from now on. */
static dumpulse_result beaten(dumpulse_keyed *keyed, dumpulse_alone *node, uint8_t at,
                              const uint8_t *packet, uint8_t variable)
{
    const uint8_t count = packet[5];
    bool is_wrong = false;

    if (*node != 0 && count > *node % 256U) {
        const uint32_t own = *node - *node % 256U;

        /*@ assert own == base(\at(*node, Pre)) && own <= 0xFFFFFF00; */
        if (dumpulse_right_(packet, variable, own)) {
            *node = own + count;
            /*@ assert *node == base(\at(*node, Pre)) + \at(packet[5], Pre); */
            /*@ assert waits(keyed, packet) <==> waits{Pre}(keyed, packet); */
            return dumpulse_take_(keyed, packet);
        }
        is_wrong = true;
    }
    if (at != DUMPULSE_PLACES && count != 0) {
        const uint32_t own = own_of(keyed->waiting[at]);

        /*@ assert own == own(&keyed->waiting[at][0]); */
        /*@ assert own == 256 * (own / 256) && own <= 0xFFFFFF00; */
        if (dumpulse_right_(packet, variable, own)) {
            if (!dumpulse_store(variable, own / 256U)) {
                return DUMPULSE_NOT_STORED;
            }
            *node = own + count;
            keyed->waiting[at][0] = 0;
            /*@ assert table_kept{Pre, Here}(keyed) && packet[7] == \at(packet[7], Pre); */
            return dumpulse_record(&keyed->agent, variable, packet[6], packet[7]);
        }
        is_wrong = true;
    }
    if (is_wrong) {
        return dumpulse_wrong_(keyed);
    }
    return DUMPULSE_OLD;
}

dumpulse_result dumpulse_alone_process(dumpulse_keyed *keyed, dumpulse_alone *alone, uint8_t count,
                                       const uint8_t *packet, size_t length, void *context)
{
    if (length == DUMPULSE_PACKET_SIZE && keyed->reached != 0) {
        const uint8_t variable = packet[4] % DUMPULSE_VARIABLES;
        const uint8_t kind = (uint8_t)(packet[4] - variable);
        /*@ assert kind == 0x80 ? variable == packet[4] - 0x80 : !(0x80 <= packet[4] < 0xC0); */
        /*@ assert kind == 0x40 ? variable == packet[4] - 0x40 : !(0x40 <= packet[4] < 0x80); */

        if (variable < count && kind == DUMPULSE_IS_ANNOUNCE_ && packet[5] >= OWN_FIRST) {
            return announced(keyed, alone[variable], packet, variable);
        }
        if (variable < count && kind == DUMPULSE_IS_HEARTBEAT_) {
            const uint8_t at =
                dumpulse_waiting_(keyed, (uint8_t)(DUMPULSE_IS_ANNOUNCE_ + variable));

            if (at != DUMPULSE_PLACES || alone[variable] != 0) {
                /*@ assert last_of(alone, packet) <==>
                      is_last(&alone[variable], packet, variable); */
                /*@ assert at < 8 ==> first_at(keyed, at, packet[4] - 0x40); */
                /*@ assert was_announced(keyed, packet) <==>
                      is_next(keyed, at, packet, variable); */
                return beaten(keyed, &alone[variable], at, packet, variable);
            }
        }
    }
    /*@ assert !announces(keyed, count, packet, length); */
    /*@ assert !beats_alone(keyed, alone, count, packet, length); */
    return dumpulse_keyed_process(keyed, packet, length, context);
}

bool dumpulse_alone_renew(dumpulse_keyed *keyed, dumpulse_alone *alone, uint8_t variable)
{
    if (!dumpulse_store(variable, 0)) {
        return false;
    }
    alone[variable] = 0;
    dumpulse_keyed_renew(keyed, variable);
    return true;
}
