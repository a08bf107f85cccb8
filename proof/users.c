/* Firmware that uses the library, and asserts what SPEC.md and dumpulse.h promise it.
 * SPDX-License-Identifier: MIT
 *
 * WP proves the assertions from the contracts in spec.h alone, without the code of the library. So
 * they fail if a contract promises less than it should, or asks for more. */
#include "dumpulse.h"

static dumpulse agent;
static uint8_t packet[8];
static uint8_t other; /* stands for all other memory */

/*@ predicate entry_kept{L1, L2}(integer v) =
      \forall integer i; 4 + 4 * v <= i < 8 + 4 * v ==>
        \at(agent.report[i], L2) == \at(agent.report[i], L1);
    predicate checksum_kept{L1, L2} =
      \forall integer i; 0 <= i < 4 ==> \at(agent.report[i], L2) == \at(agent.report[i], L1);
    predicate others_kept{L1, L2} = \at(other, L2) == \at(other, L1) &&
      \forall integer i; 0 <= i < 8 ==> \at(packet[i], L2) == \at(packet[i], L1); */

#define ALL \
    agent, packet[0 .. 7], clock_calls, clock_time, clock_saw[0 .. 259], send_calls, sent_context, \
        sent_packet, sent_length

/*@ requires watched == &agent;
    requires packet[4] == 0xF1 && packet[5] < 64 && summed(&packet[0], 4);
    assigns ALL; exits \false; */
void a_heartbeat_is_stored(void *context)
{
    const dumpulse_result result = dumpulse_process_packet(&agent, packet, 8, context);
    /*@ ghost const uint8_t v = packet[5]; */
    //@ assert result == 1;
    //@ assert number(&agent.report[4 + 4 * v]) == clock_time;
    //@ assert agent.report[6 + 4 * v] == packet[6] && agent.report[7 + 4 * v] == packet[7];
    //@ assert \forall integer w; 0 <= w < 64 && w != v ==> entry_kept{Pre, Here}(w);
    //@ assert checksum_kept{Pre, Here} && others_kept{Pre, Here};
    //@ assert clock_calls == \at(clock_calls, Pre) + 1 && send_calls == \at(send_calls, Pre);
    /* When the clock was read, the new sender and value were there, and the old time. */
    //@ assert clock_saw[6 + 4 * v] == packet[6] && clock_saw[7 + 4 * v] == packet[7];
    /*@ assert \forall integer i; 0 <= i < 260 && i != 6 + 4 * v && i != 7 + 4 * v ==>
          clock_saw[i] == \at(agent.report[i], Pre); */
}

/*@ requires watched == &agent;
    requires packet[0] == 0x41 && packet[1] == 0x72 && packet[2] == 0x65 && packet[3] == 0x79;
    requires packet[4] == 0x6F && packet[5] == 0x75 && packet[6] == 0x4F && packet[7] == 0x4B;
    assigns ALL; exits \false; */
void a_request_is_answered(void *context)
{
    const dumpulse_result result = dumpulse_process_packet(&agent, packet, 8, context);
    //@ assert result == 2;
    //@ assert summed(&agent.report[0], 256);
    //@ assert \forall integer v; 0 <= v < 64 ==> entry_kept{Pre, Here}(v);
    //@ assert clock_calls == \at(clock_calls, Pre) && others_kept{Pre, Here};
    //@ assert send_calls == \at(send_calls, Pre) + 1 && sent_context == context;
    //@ assert sent_packet == &agent.report[0] && sent_length == 260;
}

/*@ requires watched == &agent;
    requires packet[0] != 0x41 || packet[1] != 0x72 || packet[2] != 0x65 || packet[3] != 0x79 ||
      packet[4] != 0x6F || packet[5] != 0x75 || packet[6] != 0x4F || packet[7] != 0x4B;
    requires packet[4] != 0xF1 || packet[5] >= 64 || !summed(&packet[0], 4);
    assigns ALL; exits \false; */
void other_packets_change_nothing(void *context)
{
    const dumpulse_result result = dumpulse_process_packet(&agent, packet, 8, context);
    //@ assert result == 0;
    //@ assert \forall integer v; 0 <= v < 64 ==> entry_kept{Pre, Here}(v);
    //@ assert checksum_kept{Pre, Here} && others_kept{Pre, Here};
    //@ assert clock_calls == \at(clock_calls, Pre) && send_calls == \at(send_calls, Pre);
}

/*@ requires watched == &agent && length != 8;
    assigns ALL; exits \false; */
void nothing_is_read_of_other_lengths(size_t length)
{
    const dumpulse_result result = dumpulse_process_packet(&agent, NULL, length, NULL);
    //@ assert result == 0;
    //@ assert \forall integer v; 0 <= v < 64 ==> entry_kept{Pre, Here}(v);
    //@ assert checksum_kept{Pre, Here} && others_kept{Pre, Here};
    //@ assert clock_calls == \at(clock_calls, Pre) && send_calls == \at(send_calls, Pre);
}

/*@ requires watched == &agent;
    assigns agent, clock_calls, clock_time, clock_saw[0 .. 259]; exits \false; */
void a_variable_is_recorded(uint8_t v, uint8_t sender, uint8_t value)
{
    const dumpulse_result result = dumpulse_record(&agent, v, sender, value);
    //@ assert checksum_kept{Pre, Here} && others_kept{Pre, Here};
    //@ assert send_calls == \at(send_calls, Pre);
    //@ assert \forall integer w; 0 <= w < 64 && w != v ==> entry_kept{Pre, Here}(w);
    if (v >= 64) {
        //@ assert result == 0 && clock_calls == \at(clock_calls, Pre);
        return;
    }
    //@ assert result == 1 && clock_calls == \at(clock_calls, Pre) + 1;
    //@ assert number(&agent.report[4 + 4 * v]) == clock_time;
    //@ assert agent.report[6 + 4 * v] == sender && agent.report[7 + 4 * v] == value;
    //@ assert clock_saw[6 + 4 * v] == sender && clock_saw[7 + 4 * v] == value;
    /*@ assert \forall integer i; 0 <= i < 260 && i != 6 + 4 * v && i != 7 + 4 * v ==>
          clock_saw[i] == \at(agent.report[i], Pre); */
}

/*@ assigns packet[0 .. 7]; exits \false; */
void a_node_makes_its_packet(uint8_t v, uint8_t sender, uint8_t value)
{
    dumpulse_make_heartbeat(packet, v, sender, value);
    //@ assert summed(&packet[0], 4) && packet[4] == 0xF1;
    //@ assert packet[5] == v && packet[6] == sender && packet[7] == value;
    const uint8_t changed = dumpulse_changed_variable(packet);
    //@ assert changed == v && other == \at(other, Pre);
}

/*@ requires length == 260 ==> \valid_read(report + (0 .. 259));
    assigns \nothing; exits \false; */
void a_reader_checks(const uint8_t *report, size_t length, uint8_t v, uint16_t now)
{
    const bool good = dumpulse_check_report(report, length);
    //@ assert good <==> (length == 260 && summed(report, 256));
    if (length != 260)
        return;
    const dumpulse_entry entry = dumpulse_read_entry(report, v);
    const bool was_heard = dumpulse_was_heard(entry);
    const uint16_t age = dumpulse_age(now, entry.timestamp);
    //@ assert age == (now >= entry.timestamp ? 0 : 65536) + now - entry.timestamp;
    /*@ assert v < 64 ==> entry.timestamp == number(report + 4 + 4 * v) &&
          entry.sender == report[6 + 4 * v] && entry.value == report[7 + 4 * v]; */
    //@ assert v >= 64 ==> entry.timestamp == 0 && entry.sender == 0 && entry.value == 0;
    //@ assert was_heard <==> entry.timestamp != 0 || entry.sender != 0 || entry.value != 0;
}

/* The send hook of the firmware. Its contract is what the library guarantees it. */
void dumpulse_send_packet(void *context, const uint8_t *report, size_t length)
{
    (void)context;
    //@ assert length == 260 && summed(report, 256);
    //@ assert \valid_read(report + (0 .. 259));
}
