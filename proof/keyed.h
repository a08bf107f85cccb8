/* States in ACSL what dumpulse_keyed.c does, for any function that makes tags.
 * SPDX-License-Identifier: MIT
 *
 * Frama-C reads this file before dumpulse_keyed.c, and takes each contract for the function of the
 * same name. README.md in this folder says the same in words, and what is not proved. */
#include "protocol.h"

#define DUMPULSE_ALONE 32
#define DUMPULSE_OWN_TAG

/*@ // Four bytes, little-endian and big-endian.
    logic integer word{L}(uint8_t *s) = s[0] + 256 * s[1] + 65536 * s[2] + 16777216 * s[3];
    logic integer big{L}(uint8_t *s) = 16777216 * s[0] + 65536 * s[1] + 256 * s[2] + s[3];

    // What the C standard says of a number that is made a byte. WP knows it of 0 to 255 only.
    axiomatic bytes {
      axiom byte: \forall integer x; -256 <= x < 512 ==>
        (uint8_t)x == (x < 0 ? x + 256 : x < 256 ? x : x - 256);
    }

    // The tag of a label, a number and bytes 4 to 7 of a packet. Nothing is known of it.
    axiomatic tags { logic integer tag(integer label, integer number, integer four); }

    predicate tagged{L}(uint8_t *packet, integer label, integer number) =
      word(packet) == tag(label, number, word(packet + 4));
*/

/* ---- The hooks. Ghost variables keep what they were asked for. */

#include "dumpulse_keyed.h"

/*@ ghost int beacons, reports, loaded; */
/* What was to be stored last, and what the agent was then. */
struct store_call {
    int calls, label, beacons, value;
    bool stored;
    uint8_t number[3], last[65], own[32][3];
};
/*@ ghost struct store_call call; */
/*@ ghost dumpulse_keyed *watched; */

/*@ // Does the agent have an own epoch of this label?
    predicate sends_only{L}(dumpulse_keyed *keyed, integer label) =
      label < 32 && keyed->own[label][0] != 0;

    predicate last_kept{L1, L2}(dumpulse_keyed *keyed) =
      \forall integer i; 0 <= i < 65 ==> \at(keyed->last[i], L1) == \at(keyed->last[i], L2);
    predicate epoch_kept{L1, L2}(dumpulse_keyed *keyed) =
      \at(keyed->epoch[0], L1) == \at(keyed->epoch[0], L2) &&
      \at(keyed->epoch[1], L1) == \at(keyed->epoch[1], L2) &&
      \at(keyed->epoch[2], L1) == \at(keyed->epoch[2], L2) &&
      \at(keyed->epoch[3], L1) == \at(keyed->epoch[3], L2);
    predicate counts_cleared{L1, L2}(dumpulse_keyed *keyed) =
      \forall integer i; 0 <= i < 65 ==>
        (sends_only{L1}(keyed, i) ==> \at(keyed->last[i], L2) == \at(keyed->last[i], L1)) &&
        (!sends_only{L1}(keyed, i) ==> \at(keyed->last[i], L2) == 0);
    predicate own_kept{L1, L2}(dumpulse_keyed *keyed) =
      \forall integer i; 0 <= i < 32 ==>
        \at(keyed->own[i][0], L1) == \at(keyed->own[i][0], L2) &&
        \at(keyed->own[i][1], L1) == \at(keyed->own[i][1], L2) &&
        \at(keyed->own[i][2], L1) == \at(keyed->own[i][2], L2);

    // When the store hook was called, counts and own epochs were still as before.
    predicate stored_first{L1, L2}(dumpulse_keyed *keyed) =
      (\forall integer i; 0 <= i < 65 ==> \at(call.last[i], L2) == \at(keyed->last[i], L1)) &&
      (\forall integer i; 0 <= i < 32 ==>
        \at(call.own[i][0], L2) == \at(keyed->own[i][0], L1) &&
        \at(call.own[i][1], L2) == \at(keyed->own[i][1], L1) &&
        \at(call.own[i][2], L2) == \at(keyed->own[i][2], L1));

    // Is there no epoch to count in?
    predicate idle{L}(dumpulse_keyed *keyed, integer label) =
      !keyed->begun || (sends_only(keyed, label) && keyed->own[label][0] == 0x7F) ||
      (!sends_only(keyed, label) && keyed->epoch[0] == 0x7F);
    // The count is larger, and the tag is made with the node's own epoch or with the agent's.
    predicate counts{L}(dumpulse_keyed *keyed, uint8_t *packet, integer label) =
      !idle(keyed, label) && packet[5] > keyed->last[label] &&
      (sends_only(keyed, label) ==> tagged(packet, label, big(&keyed->own[label][0]))) &&
      (!sends_only(keyed, label) ==> tagged(packet, label, big(&keyed->epoch[0])));
    predicate heartbeat{L}(dumpulse_keyed *keyed, uint8_t *packet, integer length) =
      length == 8 && 0x80 <= packet[4] < 0xC0 && counts(keyed, packet, packet[4] - 0x80);
    predicate asks{L}(uint8_t *packet, integer length) = length == 8 && packet[4] == 0xC0;
    predicate request{L}(dumpulse_keyed *keyed, uint8_t *packet, integer length) =
      asks(packet, length) && counts(keyed, packet, 64);
    predicate is_announce{L}(uint8_t *packet, integer length) =
      length == 8 && 0x40 <= packet[4] < 0x60 && packet[5] >= 0x80;
    predicate new_own{L}(dumpulse_keyed *keyed, uint8_t *packet, integer variable) =
      three(packet + 5) > three(&keyed->own[variable][0]);
    predicate announce{L}(dumpulse_keyed *keyed, uint8_t *packet, integer length) =
      is_announce(packet, length) && keyed->begun &&
      new_own(keyed, packet, packet[4] - 0x40) && tagged(packet, packet[4] - 0x40, 0);

    predicate is_counted{L}(uint8_t *packet, integer length) =
      length == 8 && 0x80 <= packet[4] <= 0xC0;

    // What can be said without a tag; and what becomes of a packet that is not taken.
    predicate looks{L}(integer result, dumpulse_keyed *keyed, uint8_t *packet, integer length) =
      (!is_announce(packet, length) && !is_counted(packet, length) ==>
        result == DUMPULSE_REFUSED) &&
      (is_announce(packet, length) ==>
        (!keyed->begun ==> result == DUMPULSE_NOT_BEGUN) &&
        (keyed->begun && new_own(keyed, packet, packet[4] - 0x40) ==> result == DUMPULSE_NEW) &&
        (keyed->begun && !new_own(keyed, packet, packet[4] - 0x40) ==> result == DUMPULSE_OLD)) &&
      (is_counted(packet, length) ==>
        (idle(keyed, packet[4] - 0x80) ==> result == DUMPULSE_NOT_BEGUN) &&
        (!idle(keyed, packet[4] - 0x80) ==>
          result == (packet[5] > keyed->last[packet[4] - 0x80] ? DUMPULSE_NEW : DUMPULSE_OLD)));
    predicate refused_as{L}(integer result, dumpulse_keyed *keyed, uint8_t *packet,
                            integer length) =
      result != DUMPULSE_NEW &&
      looks(result == DUMPULSE_WRONG_TAG ? DUMPULSE_NEW : result, keyed, packet, length);
*/

/*@ requires report == \null && \valid_read(packet + (4 .. 7)) && \valid_read(number + (0 .. 3));
    assigns \nothing;
    exits \false;
    ensures \result == tag(label, big(number), word(packet + 4));
*/
uint32_t dumpulse_tag_(const uint8_t *packet, uint8_t label, const uint8_t number[4],
                       uint8_t *report);

/*@ requires \valid(number + (0 .. 2));
    assigns number[0 .. 2], loaded;
    exits \false;
    ensures loaded == three(number);
*/
void dumpulse_load(uint8_t label, uint8_t number[3]);

/*@ requires \valid_read(number + (0 .. 2)) && (watched == \null || \valid_read(watched));
    assigns call;
    exits \false;
    ensures call.calls == \old(call.calls) + 1 && call.label == label && (call.stored <==> \result);
    ensures call.beacons == beacons && call.value == three(\old(number));
    ensures \forall integer i; 0 <= i < 3 ==> call.number[i] == \old(number[i]);
    ensures watched != \null ==> stored_first{Pre, Post}(watched);
    ensures watched != \null ==> epoch_kept{Pre, Post}(watched) &&
      last_kept{Pre, Post}(watched) && own_kept{Pre, Post}(watched);
*/
bool dumpulse_store(uint8_t label, const uint8_t number[3]);

/*@ assigns \nothing;
    exits \false; */
uint16_t dumpulse_get_timestamp(void);

/* ---- The agent. */

/*@ requires \valid_read(keyed) && (length == 8 ==> \valid_read(packet + (0 .. 7)));
    assigns \nothing;
    exits \false;
    ensures looks(\result, keyed, packet, length);
*/
dumpulse_result dumpulse_keyed_look(const dumpulse_keyed *keyed, const uint8_t *packet,
                                    size_t length);

/*@ requires \valid(keyed) && watched == keyed;
    requires length == 8 ==>
      \valid_read(packet + (0 .. 7)) && \separated(keyed, packet + (0 .. 7));
    requires \separated(keyed, &call);
    requires length == 8 ==> \separated(packet + (0 .. 7), &call);
    exits \false;
    behavior heartbeat:
      assumes heartbeat(keyed, packet, length);
      assigns keyed->last[packet[4] - 0x80],
        keyed->agent.report[4 + 4 * (packet[4] - 0x80) .. 7 + 4 * (packet[4] - 0x80)];
      ensures \result == DUMPULSE_HEARTBEAT;
      ensures keyed->last[\old(packet[4]) - 0x80] == \old(packet[5]);
    behavior request:
      assumes request(keyed, packet, length);
      assigns keyed->last[64], keyed->tag, keyed->agent.report[0 .. 3], reports;
      ensures \result == DUMPULSE_REPORT && reports == \old(reports) + 1;
      ensures keyed->last[64] == \old(packet[5]);
    behavior beacon:
      assumes asks(packet, length) && !idle(keyed, 64) && !request(keyed, packet, length);
      assigns beacons;
      ensures refused_as{Pre}(\result, \old(keyed), \old(packet), \old(length));
      ensures beacons == \old(beacons) + 1;
    behavior no_beacon:
      assumes asks(packet, length) && idle(keyed, 64);
      assigns \nothing;
      ensures \result == DUMPULSE_NOT_BEGUN;
    behavior announce:
      assumes announce(keyed, packet, length);
      ensures call.calls == \old(call.calls) + 1 && call.label == \old(packet[4]) - 0x40;
      ensures \result == (call.stored ? DUMPULSE_ANNOUNCE : DUMPULSE_NOT_STORED);
      ensures call.stored ==> keyed->last[\old(packet[4]) - 0x40] == 0;
      ensures !call.stored ==> last_kept{Pre, Post}(keyed) && own_kept{Pre, Post}(keyed);
    behavior refused_announce:
      assumes length == 8 && 0x40 <= packet[4] < 0x80 && !announce(keyed, packet, length);
      ensures refused_as{Pre}(\result, \old(keyed), \old(packet), \old(length));
      ensures call.calls == \old(call.calls);
      ensures last_kept{Pre, Post}(keyed) && own_kept{Pre, Post}(keyed);
    behavior refused_heartbeat:
      assumes length == 8 && 0x80 <= packet[4] < 0xC0 && !heartbeat(keyed, packet, length);
      assigns \nothing;
      ensures refused_as{Pre}(\result, \old(keyed), \old(packet), \old(length));
    behavior nothing_known:
      assumes length != 8 || packet[4] < 0x40 || packet[4] > 0xC0;
      assigns \nothing;
      ensures \result == DUMPULSE_REFUSED;
    complete behaviors;
    disjoint behaviors;
*/
dumpulse_result dumpulse_keyed_process(dumpulse_keyed *keyed, const uint8_t *packet, size_t length,
                                       void *context);

/*@ requires \valid(keyed) && watched == keyed;
    requires \separated(keyed, &call);
    exits \false;
    ensures \result ==> beacons == \old(beacons) + 1;
    ensures \result ==> counts_cleared{Pre, Post}(keyed);
    ensures !\result ==> keyed->epoch[0] == 0x7F && beacons == \old(beacons);
    ensures !\result ==> last_kept{Pre, Post}(keyed);
    ensures keyed->begun == \old(keyed->begun);
    behavior used_up:
      assumes keyed->epoch[0] >= 0x3F || !keyed->begun;
      assigns keyed->epoch[0];
      ensures !\result;
    behavior next:
      assumes keyed->epoch[0] < 0x3F && keyed->begun;
      assigns keyed->epoch[0 .. 3], keyed->last[0 .. 64], keyed->beacon, beacons, call;
      ensures \result ==> big(&keyed->epoch[0]) == \old(big(&keyed->epoch[0])) + 1;
      ensures keyed->epoch[3] != 0 ==> \result && call.calls == \old(call.calls);
      ensures keyed->epoch[3] == 0 ==> call.calls == \old(call.calls) + 1 && call.label == 65;
      ensures keyed->epoch[3] == 0 ==> (\result <==> call.stored);
      ensures keyed->epoch[3] == 0 ==> call.beacons == \old(beacons);
      ensures keyed->epoch[3] == 0 ==> 256 * call.value == \old(big(&keyed->epoch[0])) + 1;
      ensures \old(keyed->epoch[3]) == 255 <==> keyed->epoch[3] == 0;
    complete behaviors;
    disjoint behaviors;
*/
bool dumpulse_keyed_tick(dumpulse_keyed *keyed, void *context);

/*@ requires \valid(keyed) && watched == keyed;
    requires \separated(keyed, &call);
    exits \false;
    ensures keyed->begun;
    ensures \result ==> keyed->epoch[3] == 0 && call.stored && call.label == 65 &&
      call.beacons == \old(beacons) && beacons == \old(beacons) + 1 &&
      256 * call.value == big(&keyed->epoch[0]);
    ensures !\result ==> keyed->epoch[0] == 0x7F && beacons == \old(beacons);
*/
bool dumpulse_keyed_begin(dumpulse_keyed *keyed, void *context);

/* ---- Nodes. */

/*@ predicate later_beacon{L}(dumpulse_node *node, uint8_t *packet, integer length) =
      length == 8 && packet[4] < 0x40 && big(packet + 4) > big(&node->epoch[0]) &&
      tagged(packet, 65, big(packet + 4)); */

/*@ requires \valid(node);
    requires length == 8 ==>
      \valid_read(packet + (0 .. 7)) && \separated(node, packet + (0 .. 7));
    exits \false;
    behavior taken:
      assumes later_beacon(node, packet, length);
      assigns node->epoch[0 .. 3], node->left;
      ensures \result && node->left == 255;
      ensures \forall integer i; 0 <= i < 4 ==> node->epoch[i] == packet[4 + i];
    behavior refused:
      assumes !later_beacon(node, packet, length);
      assigns \nothing;
      ensures !\result;
    complete behaviors;
    disjoint behaviors;
*/
bool dumpulse_hear(dumpulse_node *node, const uint8_t *packet, size_t length);

/*@ requires \valid(node) && \valid(packet + (0 .. 7)) && \separated(node, packet + (0 .. 7));
    exits \false;
    behavior made:
      assumes node->left != 0 && variable < 64;
      assigns node->left, packet[0 .. 7];
      ensures \result && node->left == \old(node->left) - 1;
      ensures packet[4] == 0x80 + variable && packet[5] == 255 - node->left &&
        packet[6] == sender && packet[7] == value;
    behavior none:
      assumes node->left == 0 || variable >= 64;
      assigns \nothing;
      ensures !\result;
    complete behaviors;
    disjoint behaviors;
*/
bool dumpulse_keyed_heartbeat(dumpulse_node *node, uint8_t packet[DUMPULSE_PACKET_SIZE],
                              uint8_t variable, uint8_t sender, uint8_t value);

/*@ requires \valid(node) && watched == \null;
    requires \separated(node, &call);
    assigns node->epoch[0 .. 3], node->left, call, loaded;
    exits \false;
    ensures \result ==> three(&node->epoch[0]) == loaded + 1;
    ensures \result ==> call.calls == \old(call.calls) + 1 && call.stored && call.label == variable;
    ensures \result ==> node->epoch[0] >= 0x80 && node->epoch[3] == 0 && node->left == 255;
    ensures \result ==> \forall integer i; 0 <= i < 3 ==> call.number[i] == node->epoch[i];
    ensures !\result ==> node->left == 0;
*/
bool dumpulse_sender_begin(dumpulse_node *node, uint8_t variable);

/*@ requires \valid_read(node) && \valid(packet + (0 .. 7)) && \separated(node, packet + (0 .. 7));
    requires variable < 64;
    assigns packet[0 .. 7];
    exits \false;
    ensures packet[4] == 0x40 + variable && packet[5] == node->epoch[0] &&
      packet[6] == node->epoch[1] && packet[7] == node->epoch[2];
*/
void dumpulse_sender_announce(const dumpulse_node *node, uint8_t packet[DUMPULSE_PACKET_SIZE],
                              uint8_t variable);

/* ---- Their parts. */

/*@ requires \valid(bytes + (0 .. 3));
    assigns bytes[0 .. 3];
    exits \false;
    ensures word(bytes) == value; */
static inline void store32(uint8_t *bytes, uint32_t value);

/*@ requires \valid_read(packet + (0 .. 7)) && \valid_read(number + (0 .. 3));
    assigns \nothing;
    exits \false;
    ensures \result <==> tagged(packet, label, big(number)); */
static inline bool right(const uint8_t *packet, uint8_t label, const uint8_t number[4]);

/*@ requires \valid(packet + (0 .. 7)) && \valid_read(number + (0 .. 3));
    assigns packet[0 .. 3];
    exits \false;
    ensures word(packet) == tag(label, \old(big(number)), \old(word(packet + 4))); */
static void make(uint8_t *packet, uint8_t label, const uint8_t number[4]);

/*@ requires \valid(node) && \valid(packet + (0 .. 7)) && \separated(node, packet + (0 .. 7));
    requires label <= 64 && node->left != 0;
    assigns node->left, packet[0 .. 7];
    exits \false;
    ensures node->left == \old(node->left) - 1;
    ensures packet[4] == 0x80 + label && packet[5] == 255 - node->left &&
      packet[6] == first && packet[7] == second; */
static inline void count(dumpulse_node *node, uint8_t *packet, uint8_t label, uint8_t first,
                         uint8_t second);

/*@ requires \valid_read(keyed);
    assigns \nothing;
    exits \false;
    behavior own:
      assumes sends_only(keyed, label);
      ensures \result == &keyed->own[label][0];
    behavior agents:
      assumes !sends_only(keyed, label);
      ensures \result == &keyed->epoch[0];
    complete behaviors;
    disjoint behaviors; */
static inline const uint8_t *number_of(const dumpulse_keyed *keyed, uint8_t label);

/*@ requires \valid_read(keyed) && \valid_read(packet + (0 .. 7)) && packet[4] == 0x40 + variable;
    requires variable < 64;
    assigns \nothing;
    exits \false;
    ensures looks(\result, keyed, packet, 8); */
static inline dumpulse_result look_at_announce(const dumpulse_keyed *keyed, const uint8_t *packet,
                                               uint8_t variable);

/*@ requires \valid(keyed) && watched == keyed && variable < 32;
    requires \valid_read(packet + (0 .. 7)) && \separated(keyed, packet + (0 .. 7));
    requires \separated(keyed, &call) && \separated(packet + (0 .. 7), &call);
    exits \false;
    behavior announce:
      assumes tagged(packet, variable, 0);
      assigns keyed->own[variable][0 .. 2], keyed->last[variable], call;
      ensures call.calls == \old(call.calls) + 1 && call.label == variable;
      ensures \forall integer i; 0 <= i < 3 ==> call.number[i] == \old(packet[5 + i]);
      ensures stored_first{Pre, Post}(keyed);
      ensures call.stored ==> \result == DUMPULSE_ANNOUNCE && keyed->last[variable] == 0;
      ensures call.stored ==> keyed->own[variable][0] == \old(packet[5]);
      ensures call.stored ==> keyed->own[variable][1] == \old(packet[6]);
      ensures call.stored ==> keyed->own[variable][2] == \old(packet[7]);
      ensures !call.stored ==> \result == DUMPULSE_NOT_STORED;
      ensures !call.stored ==> last_kept{Pre, Post}(keyed) && own_kept{Pre, Post}(keyed);
    behavior refused:
      assumes !tagged(packet, variable, 0);
      assigns \nothing;
      ensures \result == DUMPULSE_WRONG_TAG && call.calls == \old(call.calls);
      ensures last_kept{Pre, Post}(keyed) && own_kept{Pre, Post}(keyed);
    complete behaviors;
    disjoint behaviors;
*/
static dumpulse_result announced(dumpulse_keyed *keyed, const uint8_t *packet, uint8_t variable);

/*@ requires \valid(keyed) && keyed->epoch[0] < 0x3F;
    assigns keyed->epoch[0 .. 3];
    exits \false;
    ensures big(&keyed->epoch[0]) == \old(big(&keyed->epoch[0])) + 1;
    ensures \old(keyed->epoch[3]) == 255 <==> keyed->epoch[3] == 0;
    ensures last_kept{Pre, Post}(keyed) && own_kept{Pre, Post}(keyed); */
static inline void count_up(dumpulse_keyed *keyed);

/*@ requires \valid(number + (0 .. 2));
    assigns number[0 .. 2];
    exits \false;
    ensures three(number) == (\old(three(number)) == 0xFFFFFF ? 0 : \old(three(number)) + 1); */
static inline void count_own(uint8_t *number);

/*@ requires \valid(keyed);
    assigns keyed->last[0 .. 64], keyed->beacon, beacons;
    exits \false;
    ensures counts_cleared{Pre, Post}(keyed) && own_kept{Pre, Post}(keyed);
    ensures epoch_kept{Pre, Post}(keyed) && beacons == \old(beacons) + 1; */
static inline void start_epoch(dumpulse_keyed *keyed, void *context);

/*@ requires \valid(keyed);
    assigns keyed->last[0 .. 64];
    exits \false;
    ensures counts_cleared{Pre, Post}(keyed);
    ensures epoch_kept{Pre, Post}(keyed) && own_kept{Pre, Post}(keyed); */
static inline void clear_counts(dumpulse_keyed *keyed);

/*@ assigns \nothing;
    exits \false;
    ensures \result == (byte4 < 128 ? byte4 + 128 : byte4 - 128); */
static inline uint8_t label_of(uint8_t byte4);

/*@ requires \valid(agent) && variable < 64;
    assigns agent->report[4 + 4 * variable .. 7 + 4 * variable];
    exits \false;
    ensures \result == DUMPULSE_HEARTBEAT;
    ensures agent->report[6 + 4 * variable] == sender && agent->report[7 + 4 * variable] == value;
*/
static inline dumpulse_result dumpulse_record(dumpulse *agent, uint8_t variable, uint8_t sender,
                                              uint8_t value);

/*@ requires \valid(bytes + (0 .. 1)) && value <= 65535;
    assigns bytes[0 .. 1];
    exits \false; */
static inline void dumpulse_write16_(uint8_t *bytes, unsigned value);

/* ---- Taken as they are, because WP does not know shifted bits, or the same memory as bytes and as
 * words. README.md says what checks them. */

/*@ requires \valid_read(bytes + (0 .. 3));
    assigns \nothing;
    exits \false;
    ensures \result == word(bytes); */
static uint32_t load32(const uint8_t *bytes);

/*@ requires \valid_read(bytes + (0 .. 2));
    assigns \nothing;
    exits \false;
    ensures \result == three(bytes); */
static inline uint32_t read24(const uint8_t *bytes);

/*@ requires \valid_read(keyed);
    assigns beacons;
    exits \false;
    ensures beacons == \old(beacons) + 1; */
void dumpulse_keyed_beacon(const dumpulse_keyed *keyed, void *context);

/*@ requires \valid(keyed);
    assigns keyed->beacon;
    exits \false; */
static inline void make_beacon(dumpulse_keyed *keyed);

/*@ requires \valid(keyed) && \valid_read(packet + (0 .. 7));
    assigns keyed->tag, keyed->agent.report[0 .. 3], reports;
    exits \false;
    ensures reports == \old(reports) + 1; */
static inline void send_report(dumpulse_keyed *keyed, const uint8_t *packet, void *context);
