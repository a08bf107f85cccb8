/* States in ACSL everything that dumpulse.c and dumpulse.h do.   SPDX-License-Identifier: MIT
 *
 * Frama-C reads this file before dumpulse.c, and takes each contract for the function of the same
 * name. README.md in this folder says the same in words. */
#include "protocol.h"

/* ---- The hooks. Ghost variables keep their arguments. */

/*@ ghost int clock_calls, send_calls; */
/*@ ghost uint16_t clock_time; */
/*@ ghost void *sent_context; */
/*@ ghost const uint8_t *sent_packet; */
/*@ ghost size_t sent_length; */

#include "dumpulse.h"

/* When the clock hook is called, it keeps a copy of a table. The proof chooses whose table: that of
 * the agent about which it proves something. */
/*@ ghost dumpulse *watched; */
/*@ ghost uint8_t clock_saw[260]; */

/*@ predicate kept{L1, L2}(dumpulse *agent, integer from, integer to) =
      \forall integer i; from <= i < to ==>
        \at(agent->report[i], L1) == \at(agent->report[i], L2);

    predicate entry_is{L}(dumpulse *agent, integer v, integer time, integer sender,
                          integer value) =
      number(&agent->report[4 + 4 * v]) == time &&
      agent->report[6 + 4 * v] == sender && agent->report[7 + 4 * v] == value;

    // When the clock was read, the entry had its new sender and value; nothing else had changed.
    predicate stamped_last{L1, L2}(dumpulse *agent, integer v, integer sender, integer value) =
      \at(clock_saw[6 + 4 * v], L2) == sender && \at(clock_saw[7 + 4 * v], L2) == value &&
      \forall integer i; 0 <= i < 260 && i != 6 + 4 * v && i != 7 + 4 * v ==>
        \at(clock_saw[i], L2) == \at(agent->report[i], L1);

    predicate sent_once{L1, L2}(dumpulse *agent, void *context) =
      \at(send_calls, L2) == \at(send_calls, L1) + 1 &&
      \at(sent_context, L2) == context && \at(sent_packet == &agent->report[0], L2) &&
      \at(sent_length, L2) == 260; */

/*@ assigns clock_calls, clock_time, clock_saw[0 .. 259]; exits \false;
    ensures clock_calls == \old(clock_calls) + 1 && \result == clock_time;
    ensures \forall integer i; 0 <= i < 260 ==> clock_saw[i] == \old(watched->report[i]); */
uint16_t dumpulse_get_timestamp(void);

/*@ requires length == 260 && \valid_read(packet + (0 .. 259));
    requires summed(packet, 256); // the checksum is right when the report is sent
    assigns send_calls, sent_context, sent_packet, sent_length; exits \false;
    ensures send_calls == \old(send_calls) + 1;
    ensures sent_context == context && sent_packet == packet && sent_length == length; */
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length);

/* ---- The library. */

/*@ requires \valid(agent) && watched == agent;
    requires length == 8 ==>
      \valid_read(packet + (0 .. 7)) && \separated(agent, packet + (0 .. 7));
    assigns agent->report[0 .. 259], clock_calls, clock_time, clock_saw[0 .. 259], send_calls,
      sent_context, sent_packet, sent_length; exits \false;
    behavior heartbeat:
      assumes heartbeat(packet, length);
      ensures \result == DUMPULSE_HEARTBEAT;
      ensures clock_calls == \old(clock_calls) + 1 && send_calls == \old(send_calls);
      ensures entry_is(agent, \old(packet[5]), clock_time, \old(packet[6]), \old(packet[7]));
      ensures stamped_last{Pre, Post}(agent, \old(packet[5]), \old(packet[6]), \old(packet[7]));
      ensures kept{Pre, Post}(agent, 0, 4 + 4 * \old(packet[5]));
      ensures kept{Pre, Post}(agent, 8 + 4 * \old(packet[5]), 260);
    behavior request:
      assumes request(packet, length);
      ensures \result == DUMPULSE_REPORT;
      ensures summed(&agent->report[0], 256) && kept{Pre, Post}(agent, 4, 260);
      ensures clock_calls == \old(clock_calls) && sent_once{Pre, Post}(agent, context);
    behavior refused:
      assumes !heartbeat(packet, length) && !request(packet, length);
      ensures \result == DUMPULSE_REFUSED;
      ensures kept{Pre, Post}(agent, 0, 260);
      ensures clock_calls == \old(clock_calls) && send_calls == \old(send_calls);
    complete behaviors; disjoint behaviors; */
dumpulse_result dumpulse_process_packet(dumpulse *agent, const uint8_t *packet, size_t length,
                                        void *context);

/*@ requires \valid(agent) && watched == agent;
    assigns agent->report[4 .. 259], clock_calls, clock_time, clock_saw[0 .. 259]; exits \false;
    behavior recorded:
      assumes variable < 64;
      ensures \result == DUMPULSE_HEARTBEAT && clock_calls == \old(clock_calls) + 1;
      ensures entry_is(agent, variable, clock_time, sender, value);
      ensures stamped_last{Pre, Post}(agent, variable, sender, value);
      ensures kept{Pre, Post}(agent, 0, 4 + 4 * variable);
      ensures kept{Pre, Post}(agent, 8 + 4 * variable, 260);
    behavior refused:
      assumes variable >= 64;
      ensures \result == DUMPULSE_REFUSED && clock_calls == \old(clock_calls);
      ensures kept{Pre, Post}(agent, 0, 260);
    complete behaviors; disjoint behaviors; */
static inline dumpulse_result dumpulse_record(dumpulse *agent, uint8_t variable, uint8_t sender,
                                              uint8_t value);

/*@ requires \valid(packet + (0 .. 7));
    assigns packet[0 .. 7]; exits \false;
    ensures packet[4] == 0xF1 && packet[5] == variable && packet[6] == sender &&
      packet[7] == value && summed(packet, 4); */
static inline void dumpulse_make_heartbeat(uint8_t packet[DUMPULSE_PACKET_SIZE], uint8_t variable,
                                           uint8_t sender, uint8_t value);

/*@ requires length == 260 ==> \valid_read(report + (0 .. 259));
    assigns \nothing; exits \false;
    ensures \result <==> length == 260 && summed(report, 256); */
static inline bool dumpulse_check_report(const uint8_t *report, size_t length);

/*@ requires \valid_read(report + (0 .. 259));
    assigns \nothing; exits \false;
    ensures variable < 64 ==> \result.timestamp == number(report + 4 + 4 * variable) &&
      \result.sender == report[6 + 4 * variable] && \result.value == report[7 + 4 * variable];
    ensures variable >= 64 ==>
      \result.timestamp == 0 && \result.sender == 0 && \result.value == 0; */
static inline dumpulse_entry dumpulse_read_entry(const uint8_t report[DUMPULSE_REPORT_SIZE],
                                                 uint8_t variable);

/*@ assigns \nothing; exits \false;
    ensures \result <==> entry.timestamp != 0 || entry.sender != 0 || entry.value != 0; */
static inline bool dumpulse_was_heard(dumpulse_entry entry);

/*@ assigns \nothing; exits \false;
    ensures \result == now - timestamp || \result == now - timestamp + 65536; */
static inline uint16_t dumpulse_age(uint16_t now, uint16_t timestamp);

/*@ requires \valid_read(packet + (0 .. 7));
    assigns \nothing; exits \false;
    ensures \result == packet[5]; */
static inline uint8_t dumpulse_changed_variable(const uint8_t packet[DUMPULSE_PACKET_SIZE]);

/* ---- The parts of the library. */

/*@ requires last <= 255 && \valid_read(bytes + (0 .. last));
    requires \valid(sum_a) && \valid(sum_b) && \separated(sum_a, sum_b, bytes + (0 .. last));
    assigns *sum_a, *sum_b; exits \false;
    ensures *sum_a == adler_a(bytes, last + 1) && *sum_b == adler_b(bytes, last + 1); */
static inline void dumpulse_sum_(const uint8_t *bytes, uint_fast8_t last, unsigned *sum_a,
                                 unsigned *sum_b);

/*@ requires \valid_read(packet + (0 .. 7));
    assigns \nothing; exits \false;
    ensures \result <==> request(packet, 8); */
static bool is_request(const uint8_t *packet);

/*@ requires \valid_read(packet + (0 .. 3));
    requires b <= 65535 && a <= 65535;
    assigns \nothing; exits \false;
    ensures \result <==> number(packet) == b && number(packet + 2) == a; */
static bool starts_with(const uint8_t *packet, unsigned b, unsigned a);

/*@ requires \valid(agent);
    requires a == adler_a(&agent->report[4], 256) && b == adler_b(&agent->report[4], 256);
    assigns agent->report[0 .. 3], send_calls, sent_context, sent_packet, sent_length; exits \false;
    ensures \result == DUMPULSE_REPORT;
    ensures summed(&agent->report[0], 256) && sent_once{Pre, Post}(agent, context); */
static dumpulse_result report(dumpulse *agent, unsigned b, unsigned a, void *context);

/* ---- Arithmetic that helps the provers. Each lemma is proved, too. */

/*@ lemma mod_one_turn: \forall integer x; 0 <= x < 2 * 65521 ==>
      x % 65521 == (x < 65521 ? x : x - 65521);
    lemma mod_of_sum: \forall integer x, y; 0 <= x && 0 <= y ==>
      (x % 65521 + y) % 65521 == (x + y) % 65521;
    lemma halves: \forall integer x, y, u, v; 0 <= y < 65536 && 0 <= v < 65536 ==>
      (x * 65536 + y == u * 65536 + v <==> x == u && y == v);

    logic integer shift(integer x, integer n) = x << n;
    lemma shift_add: \forall integer x, p, q; 0 <= p && 0 <= q ==>
      shift(shift(x, p), q) == shift(x, p + q);
    lemma shift_1: \forall integer x; shift(x, 1) == 2 * x;
    lemma shift_2: \forall integer x; shift(x, 2) == shift(shift(x, 1), 1) == 4 * x;
    lemma shift_4: \forall integer x; shift(x, 4) == shift(shift(x, 2), 2) == 16 * x;
    lemma shift_8: \forall integer x; shift(x, 8) == shift(shift(x, 4), 4) == 256 * x;
    lemma shift_16: \forall integer x; shift(x, 16) == shift(shift(x, 8), 8) == 65536 * x;
    lemma shift_24: \forall integer x; shift(x, 24) == shift(shift(x, 16), 8) == 16777216 * x;
    lemma shifted_8: \forall integer x; (x << 8) == shift(x, 8);
    lemma shifted_16: \forall integer x; (x << 16) == shift(x, 16);
    lemma shifted_24: \forall integer x; (x << 24) == shift(x, 24); */
