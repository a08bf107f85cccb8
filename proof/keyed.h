/* States in ACSL what the files of version 2 do, for any function that makes tags.
 * SPDX-License-Identifier: MIT
 *
 * Frama-C reads this file before each of them, and takes each contract for the function of the same
 * name. README.md in this folder says the same in words, and what is not proved. */
#include "protocol.h"

/*@ // Four bytes, little-endian and big-endian.
    logic integer word{L}(uint8_t *s) = s[0] + 256 * s[1] + 65536 * s[2] + 16777216 * s[3];
    logic integer big{L}(uint8_t *s) = 16777216 * s[0] + 65536 * s[1] + 256 * s[2] + s[3];

    // What the C standard says of a number that is made a byte. WP knows it of 0 to 255 only.
    axiomatic bytes {
      axiom byte: \forall integer x; -256 <= x < 512 ==>
        (uint8_t)x == (x < 0 ? x + 256 : x < 256 ? x : x - 256);
      axiom low_byte: \forall integer x; 0 <= x ==> (uint8_t)x == x % 256;
    }

    // The tag of a label, a number and bytes 4 to 7 of a packet. Nothing is known of it.
    axiomatic tags { logic integer tag(integer label, integer number, integer four); }

    predicate tagged{L}(uint8_t *packet, integer label, integer number) =
      word(packet) == tag(label, number, word(packet + 4)); */

#include "dumpulse_keyed.h"

/* ---- The hooks. Ghost variables keep what they were asked for. */

/*@ ghost int beacons, reports; */
/*@ ghost int beacon_of; */ /* the label of the last one */
/* What was to be stored last, and what the agent was then. */
struct store_call {
    int calls;
    uint32_t number, epoch;
    uint8_t reached, last[65];
    bool stored;
};
/*@ ghost struct store_call call; */
/*@ ghost dumpulse_keyed *watched; */

/*@ // No count changes, but that of one label; no byte of a report, but those of one entry. Those
    // of the tag are there as if the entry of variable -1 had them.
    predicate counts_kept{L1, L2}(dumpulse_keyed *keyed, integer label) =
      \forall integer i; 0 <= i < 65 && i != label ==>
        \at(keyed->last[i], L1) == \at(keyed->last[i], L2);
    predicate report_kept{L1, L2}(dumpulse *agent, integer variable) =
      \forall integer k; 0 <= k < 260 && (k < 4 + 4 * variable || 8 + 4 * variable <= k) ==>
        \at(agent->report[k], L1) == \at(agent->report[k], L2);
    // When the store hook was called, the epoch and the counts were still as before.
    predicate stored_first{L1, L2}(dumpulse_keyed *keyed) =
      \at(call.epoch, L2) == \at(keyed->epoch, L1) &&
      \at(call.reached, L2) == \at(keyed->reached, L1) &&
      \forall integer i; 0 <= i < 65 ==> \at(call.last[i], L2) == \at(keyed->last[i], L1);

    // An agent that has begun is in an epoch, and was in one before it.
    predicate sound{L}(dumpulse_keyed *keyed) =
      keyed->reached <= 65 && (keyed->reached != 0 ==> 256 <= keyed->epoch <= 0x1FFFFFFF);
    logic integer epoch_of{L}(dumpulse_keyed *keyed, integer label) =
      label < keyed->reached ? keyed->epoch : keyed->epoch - 1;

    predicate counted{L}(uint8_t *packet, integer length) =
      length == 8 && 0x80 <= packet[4] <= 0xC0;
    predicate question{L}(uint8_t *packet) = packet[5] == 0;
    predicate is_new{L}(dumpulse_keyed *keyed, uint8_t *packet) =
      packet[5] > keyed->last[packet[4] - 0x80];
    predicate right{L}(dumpulse_keyed *keyed, uint8_t *packet) =
      tagged(packet, packet[4] - 0x80, epoch_of(keyed, packet[4] - 0x80));
    predicate one_more_wrong{L1, L2}(dumpulse_keyed *keyed) =
      \at(keyed->wrong, L2) == (\at(keyed->wrong, L1) == 255 ? 0 : \at(keyed->wrong, L1) + 1);
    // A heartbeat was recorded, and nothing else has changed in the table.
    predicate recorded{L1, L2}(dumpulse *agent, integer variable, integer sender, integer value) =
      \at(agent->report[6 + 4 * variable], L2) == sender &&
      \at(agent->report[7 + 4 * variable], L2) == value && report_kept{L1, L2}(agent, variable); */

#define NONE 65 /* no label, and no variable */

/*@ // What the memory has, as long as nothing more is stored.
    axiomatic memory { logic integer kept{L} reads call; } */

/*@ assigns \nothing; exits \false;
    ensures \result == kept; */
uint32_t dumpulse_load(void);

/*@ requires watched == \null || \valid_read(watched);
    assigns call; exits \false;
    ensures call.calls == \old(call.calls) + 1 && call.number == number;
    ensures call.stored <==> \result;
    ensures watched != \null ==> stored_first{Pre, Post}(watched); */
bool dumpulse_store(uint32_t number);

/* ---- Tags, and what else is taken as it is, because WP does not know the same memory as bytes and
 * as words. README.md says what checks them. */

/*@ requires \valid_read(packet + (0 .. 7));
    assigns \nothing; exits \false;
    ensures \result <==> tagged(packet, label, number); */
bool dumpulse_right_(const uint8_t *packet, uint8_t label, uint32_t number);

/*@ requires \valid(packet + (0 .. 7));
    assigns packet[0 .. 3]; exits \false;
    ensures word(packet) == tag(label, number, \old(word(packet + 4))); */
void dumpulse_make_(uint8_t *packet, uint8_t label, uint32_t number);

/*@ requires \valid_read(bytes + (0 .. 3));
    assigns \nothing; exits \false;
    ensures \result == big(bytes); */
static inline uint32_t dumpulse_read_(const uint8_t *bytes);

/*@ // Byte k of the tag of a report, for this request and its epoch. Nothing is known of it.
    axiomatic report_tags {
      logic integer report_tag{L}(integer k, integer four, integer epoch, uint8_t *report)
        reads report[8 .. 263];
    }
    // The tag in front of a report is the one for this request.
    predicate report_tagged{L}(uint8_t *report, uint8_t *request, integer epoch) =
      \forall integer k; 0 <= k < 8 ==>
        report[k] == report_tag(k, word(request + 4), epoch, report); */

/*@ requires \valid_read(request + (0 .. 7)) && \valid(report + (0 .. 263));
    requires \separated(request + (0 .. 7), report + (0 .. 263));
    assigns report[0 .. 7]; exits \false;
    ensures \forall integer k; 0 <= k < 8 ==>
      report[k] == \old(report_tag(k, word(request + 4), number, report)); */
void dumpulse_report_tag_(const uint8_t *request, uint32_t number, uint8_t *report);

/*@ requires \valid_read(keyed) && label <= 64 && sound(keyed);
    assigns beacons, beacon_of; exits \false;
    ensures keyed->reached != 0 ==> beacons == \old(beacons) + 1 && beacon_of == label;
    ensures keyed->reached == 0 ==> beacons == \old(beacons) && beacon_of == \old(beacon_of); */
void dumpulse_keyed_beacon(const dumpulse_keyed *keyed, uint8_t label, void *context);

/*@ requires \valid(keyed) && \valid_read(packet + (0 .. 7));
    assigns keyed->tag, keyed->agent.report[0 .. 3], reports; exits \false;
    ensures reports == \old(reports) + 1; */
static void answer(dumpulse_keyed *keyed, const uint8_t *packet, void *context);

/* ---- The agent. */

/*@ requires \valid_read(keyed);
    requires length == 8 ==> \valid_read(packet + (0 .. 7));
    assigns \nothing; exits \false;
    ensures !counted(packet, length) ==> \result == DUMPULSE_REFUSED;
    ensures counted(packet, length) && keyed->reached == 0 ==> \result == DUMPULSE_NOT_BEGUN;
    ensures counted(packet, length) && keyed->reached != 0 ==>
      \result == (packet[5] == 0 ? DUMPULSE_ASKS :
                  packet[5] > keyed->last[packet[4] - 0x80] ? DUMPULSE_NEW : DUMPULSE_OLD); */
dumpulse_result dumpulse_keyed_look(const dumpulse_keyed *keyed, const uint8_t *packet,
                                    size_t length);

/*@ requires \valid(keyed) && sound(keyed);
    requires length == 8 ==> \valid_read(packet + (0 .. 7));
    assigns keyed->wrong;
    exits \false;
    behavior without_tag:
      assumes !counted(packet, length) || keyed->reached == 0 || question(packet) ||
        !is_new(keyed, packet);
      ensures !counted(packet, length) ==> \result == DUMPULSE_REFUSED;
      ensures keyed->wrong == \old(keyed->wrong);
      ensures counted(packet, length) ==> \result == (keyed->reached == 0 ? DUMPULSE_NOT_BEGUN :
        packet[5] == 0 ? DUMPULSE_ASKS : DUMPULSE_OLD);
    behavior right:
      assumes counted(packet, length) && keyed->reached != 0 && !question(packet) &&
        is_new(keyed, packet) && right(keyed, packet);
      ensures \result == DUMPULSE_NEW && keyed->wrong == \old(keyed->wrong);
    behavior wrong:
      assumes counted(packet, length) && keyed->reached != 0 && !question(packet) &&
        is_new(keyed, packet) && !right(keyed, packet);
      ensures \result == DUMPULSE_WRONG_TAG && one_more_wrong{Pre, Post}(keyed);
    complete behaviors;
    disjoint behaviors;
*/
dumpulse_result dumpulse_keyed_try(dumpulse_keyed *keyed, const uint8_t *packet, size_t length);

/* What becomes of a packet, if it is for the agent with keys. Behaviors promise what stays, as WP
 * knows only what all of them together assign. */
#define SAME(field) (field) == \old(field)
#define KEPT(label) \
    counts_kept{Pre, Post}(keyed, label) && SAME(keyed->wrong) && SAME(keyed->tag) && \
        SAME(reports) && SAME(beacons)
#define ALL_KEPT KEPT(NONE) && report_kept{Pre, Post}(&keyed->agent, NONE)
#define BUT_A_BEACON \
    counts_kept{Pre, Post}(keyed, NONE) && SAME(keyed->tag) && SAME(reports) && \
        report_kept{Pre, Post}(&keyed->agent, NONE)
#define BEACON_TO_READERS \
    beacons == \old(beacons) + (packet[4] == 0xC0 ? 1 : 0) && \
        (packet[4] == 0xC0 ==> beacon_of == 64)
#define NEW \
    counted(packet, length) && keyed->reached != 0 && !question(packet) && is_new(keyed, packet)
#define PROCESSED(given) \
    assigns keyed->last[0 .. 64], keyed->tag, keyed->agent.report[0 .. 259], keyed->wrong; \
    assigns reports, beacons, beacon_of; \
    behavior nothing_known: \
      assumes (given) && (!counted(packet, length) || keyed->reached == 0); \
      ensures counted(packet, length) ==> \result == DUMPULSE_NOT_BEGUN; \
      ensures !counted(packet, length) ==> \result == DUMPULSE_REFUSED; \
      ensures ALL_KEPT; \
    behavior question: \
      assumes (given) && counted(packet, length) && keyed->reached != 0 && question(packet); \
      ensures \result == DUMPULSE_ASKS && beacons == \old(beacons) + 1; \
      ensures beacon_of == packet[4] - 0x80 && SAME(keyed->wrong) && BUT_A_BEACON; \
    behavior old: \
      assumes (given) && counted(packet, length) && keyed->reached != 0 && !question(packet) && \
        !is_new(keyed, packet); \
      ensures \result == DUMPULSE_OLD && BEACON_TO_READERS; \
      ensures SAME(keyed->wrong) && BUT_A_BEACON; \
    behavior wrong: \
      assumes (given) && NEW && !right(keyed, packet); \
      ensures \result == DUMPULSE_WRONG_TAG && one_more_wrong{Pre, Post}(keyed); \
      ensures BEACON_TO_READERS && BUT_A_BEACON; \
    behavior request: \
      assumes (given) && NEW && right(keyed, packet) && packet[4] == 0xC0; \
      ensures \result == DUMPULSE_REPORT && reports == \old(reports) + 1; \
      ensures keyed->last[64] == \old(packet[5]) && counts_kept{Pre, Post}(keyed, 64); \
      ensures report_kept{Pre, Post}(&keyed->agent, -1) && SAME(keyed->wrong) && SAME(beacons); \
    behavior heartbeat: \
      assumes (given) && NEW && right(keyed, packet) && packet[4] != 0xC0; \
      ensures \result == DUMPULSE_HEARTBEAT && KEPT(\old(packet[4]) - 0x80); \
      ensures keyed->last[\old(packet[4]) - 0x80] == \old(packet[5]); \
      ensures recorded{Pre, Post}(&keyed->agent, \old(packet[4]) - 0x80, \old(packet[6]), \
                                  \old(packet[7]));

/*@ requires \valid(keyed) && sound(keyed);
    requires length == 8 ==>
      \valid_read(packet + (0 .. 7)) && \separated(keyed, packet + (0 .. 7)); exits \false;
    PROCESSED(\true)
    complete behaviors; disjoint behaviors; */
dumpulse_result dumpulse_keyed_process(dumpulse_keyed *keyed, const uint8_t *packet, size_t length,
                                       void *context);

/*@ requires \valid(keyed) && sound(keyed) && keyed->reached != 0 && watched == keyed;
    assigns keyed->epoch, keyed->reached, keyed->wrong, call; exits \false;
    behavior next:
      assumes keyed->epoch % 256 != 255;
      ensures \result && call.calls == \old(call.calls);
    behavior block:
      assumes keyed->epoch % 256 == 255 && keyed->epoch < 0x1FFFFFFF;
      ensures call.calls == \old(call.calls) + 1;
      ensures 256 * call.number == \old(keyed->epoch) + 1 && (\result <==> call.stored);
      ensures stored_first{Pre, Post}(keyed);
    behavior used_up:
      assumes keyed->epoch >= 0x1FFFFFFF;
      ensures call.calls == \old(call.calls);
    behavior all:
      ensures \result ==> keyed->epoch == \old(keyed->epoch) + 1 && keyed->reached == 0;
      ensures \result ==> keyed->epoch <= 0x1FFFFFFF && keyed->wrong == 0;
      ensures !\result ==> keyed->epoch == \old(keyed->epoch);
      ensures !\result ==> keyed->reached == \old(keyed->reached);
      ensures !\result ==> keyed->wrong == \old(keyed->wrong);
    complete behaviors next, block, used_up;
    disjoint behaviors next, block, used_up; */
static bool next_epoch(dumpulse_keyed *keyed);

/*@ requires \valid(keyed) && sound(keyed) && watched == keyed;
    assigns keyed->epoch, keyed->reached, keyed->wrong, keyed->last[0 .. 64], call,
      beacons, beacon_of; exits \false;
    ensures !\result ==> counts_kept{Pre, Post}(keyed, NONE) && keyed->wrong == \old(keyed->wrong);
    ensures !\result ==> keyed->epoch == \old(keyed->epoch) && beacons == \old(beacons);
    ensures !\result ==> keyed->reached == \old(keyed->reached);
    ensures \result ==> beacons == \old(beacons) + 1 && beacon_of == keyed->reached - 1;
    ensures \result && keyed->reached == 1 ==> keyed->wrong == 0;
    ensures \result ==> keyed->last[keyed->reached - 1] == 0;
    ensures \result ==> counts_kept{Pre, Post}(keyed, keyed->reached - 1);
    behavior not_begun:
      assumes keyed->reached == 0;
      ensures !\result && call.calls == \old(call.calls);
    behavior label:
      assumes 0 < keyed->reached < 65;
      ensures call.calls == \old(call.calls);
      ensures call.number == \old(call.number) && (call.stored <==> \old(call.stored));
      ensures keyed->epoch == \old(keyed->epoch) && keyed->reached == \old(keyed->reached) + 1;
      ensures keyed->wrong == \old(keyed->wrong);
    behavior epoch:
      assumes keyed->reached == 65 && keyed->epoch % 256 != 255;
      ensures call.calls == \old(call.calls);
      ensures keyed->epoch == \old(keyed->epoch) + 1 && keyed->reached == 1;
    behavior block:
      assumes keyed->reached == 65 && keyed->epoch % 256 == 255 && keyed->epoch < 0x1FFFFFFF;
      ensures call.calls == \old(call.calls) + 1;
      ensures 256 * call.number == \old(keyed->epoch) + 1 && (\result <==> call.stored);
      ensures stored_first{Pre, Post}(keyed);
      ensures \result ==> keyed->epoch == \old(keyed->epoch) + 1 && keyed->reached == 1;
    behavior used_up:
      assumes keyed->reached == 65 && keyed->epoch >= 0x1FFFFFFF;
      ensures !\result && call.calls == \old(call.calls);
    complete behaviors; disjoint behaviors; */
bool dumpulse_keyed_next(dumpulse_keyed *keyed, void *context);

/*@ requires \valid(keyed) && watched == keyed;
    assigns keyed->epoch, keyed->reached, keyed->wrong, keyed->last[0 .. 64], call; exits \false;
    ensures \result != DUMPULSE_BEGUN ==> keyed->reached == 0;
    behavior unreadable:
      assumes kept == 0xFFFFFF;
      ensures \result == DUMPULSE_NO_NUMBER && call.calls == \old(call.calls);
    behavior used_up:
      assumes 0x1FFFFF <= kept && kept != 0xFFFFFF;
      ensures \result == DUMPULSE_USED_UP && call.calls == \old(call.calls);
    behavior block:
      assumes kept < 0x1FFFFF;
      ensures call.calls == \old(call.calls) + 1 && call.number == kept{Pre} + 1;
      ensures call.reached == 0 && \result == (call.stored ? DUMPULSE_BEGUN : DUMPULSE_NOT_STORED);
      ensures call.stored ==> sound(keyed) && keyed->reached == 65 && keyed->wrong == 0;
      ensures call.stored ==> keyed->epoch == 256 * call.number;
      ensures call.stored ==> \forall integer i; 0 <= i < 65 ==> keyed->last[i] == 0;
    complete behaviors; disjoint behaviors; */
dumpulse_beginning dumpulse_keyed_begin(dumpulse_keyed *keyed);

/*@ requires \valid(keyed) && variable < 64;
    assigns keyed->last[variable]; exits \false;
    ensures keyed->last[variable] == 0; */
void dumpulse_keyed_renew(dumpulse_keyed *keyed, uint8_t variable);

/*@ requires \valid_read(packet + (4 .. 4));
    assigns \nothing; exits \false;
    ensures \result == (packet[4] < 128 ? packet[4] + 128 : packet[4] - 128); */
static uint8_t label_of(const uint8_t *packet);

/*@ requires \valid_read(keyed) && sound(keyed) && keyed->reached != 0;
    assigns \nothing; exits \false;
    ensures \result == epoch_of(keyed, label); */
static uint32_t epoch_of(const dumpulse_keyed *keyed, uint8_t label);

/*@ requires \valid(agent) && variable < 64;
    assigns agent->report[4 .. 259]; exits \false;
    ensures \result == DUMPULSE_HEARTBEAT;
    ensures recorded{Pre, Post}(agent, variable, sender, value); */
static inline dumpulse_result dumpulse_record(dumpulse *agent, uint8_t variable, uint8_t sender,
                                              uint8_t value);

/*@ requires \valid(agent) && length == 8 && \valid_read(packet + (0 .. 7));
    requires packet[4] == 0xF1 && \separated(agent, packet + (0 .. 7));
    assigns agent->report[0 .. 259]; exits \false;
    behavior heartbeat:
      assumes heartbeat(packet, length);
      ensures \result == DUMPULSE_HEARTBEAT;
      ensures recorded{Pre, Post}(agent, \old(packet[5]), \old(packet[6]), \old(packet[7]));
    behavior refused:
      assumes !heartbeat(packet, length);
      ensures \result == DUMPULSE_REFUSED && report_kept{Pre, Post}(agent, NONE);
    complete behaviors; disjoint behaviors; */
dumpulse_result dumpulse_process_packet(dumpulse *agent, const uint8_t *packet, size_t length,
                                        void *context);

/* ---- An agent, some of whose nodes send version 1. */

#define SHIFTED(n) (\forall integer x; 0 <= x ==> (bit(x, n) <==> (x >> n) % 2 == 1))
/*@ // Bit n of a number, and the list of variables that has one bit for each.
    predicate bit(integer x, integer n) = n <= 0 ? x % 2 == 1 : bit(x / 2, n - 1);
    lemma bit_0: SHIFTED(0); lemma bit_1: SHIFTED(1); lemma bit_2: SHIFTED(2);
    lemma bit_3: SHIFTED(3); lemma bit_4: SHIFTED(4); lemma bit_5: SHIFTED(5);
    lemma bit_6: SHIFTED(6); lemma bit_7: SHIFTED(7);
    lemma bits: \forall integer n; 0 <= n < 8 ==> SHIFTED(n);
    lemma not_negative: \forall integer x, n; 0 <= x && 0 <= n < 8 ==> 0 <= (x >> n);
    predicate listed{L}(uint8_t *unkeyed, integer v) =
      0 <= v < 64 && bit(unkeyed[v / 8], v % 8);
    // Is this packet of version 1, or of version 2 for a variable that is in the list?
    predicate unkeyed{L}(uint8_t *unkeyed, uint8_t *packet, integer length) =
      length == 8 && listed(unkeyed, packet[4] == 0xF1 ? packet[5] : packet[4] - 0x80); */

/*@ requires \valid_read(unkeyed + (0 .. 7));
    assigns \nothing; exits \false;
    ensures \result <==> listed(unkeyed, variable); */
static bool is_unkeyed(const uint8_t *unkeyed, uint8_t variable);

/*@ requires \valid(keyed) && sound(keyed) && \valid_read(unkeyed + (0 .. 7));
    requires length == 8 ==>
      \valid_read(packet + (0 .. 7)) && \separated(keyed, packet + (0 .. 7)); exits \false;
    PROCESSED(!unkeyed(unkeyed, packet, length))
    behavior version_1:
      assumes heartbeat(packet, length) && listed(unkeyed, packet[5]);
      ensures \result == DUMPULSE_HEARTBEAT && KEPT(NONE);
      ensures recorded{Pre, Post}(&keyed->agent, \old(packet[5]), \old(packet[6]),
                                  \old(packet[7]));
    behavior refused:
      assumes unkeyed(unkeyed, packet, length) && !heartbeat(packet, length);
      ensures \result == DUMPULSE_REFUSED && ALL_KEPT;
    complete behaviors; disjoint behaviors; */
dumpulse_result dumpulse_mixed_process(dumpulse_keyed *keyed,
                                       const uint8_t unkeyed[DUMPULSE_VARIABLES / 8],
                                       const uint8_t *packet, size_t length, void *context);

/* ---- Nodes. */

/*@ predicate own_beacon{L}(integer label, uint8_t *packet, integer length) =
      length == 8 && packet[4] < 0x20 && tagged(packet, label, big(packet + 4)); */

/*@ requires \valid(node);
    requires length == 8 ==>
      \valid_read(packet + (0 .. 7)) && \separated(node, packet + (0 .. 7)); exits \false;
    assigns node->epoch, node->left, node->heard, node->answered;
    behavior taken:
      assumes own_beacon(label, packet, length) && big(packet + 4) > node->epoch;
      ensures \result && node->left == 255 && node->epoch == big(packet + 4);
      ensures node->heard && node->answered == \old(node->questions);
    behavior again:
      assumes own_beacon(label, packet, length) && big(packet + 4) == node->epoch;
      ensures !\result && node->heard && node->epoch == \old(node->epoch);
      ensures node->left == \old(node->left) && node->answered == \old(node->answered);
    behavior refused:
      assumes !own_beacon(label, packet, length) || big(packet + 4) < node->epoch;
      ensures !\result && node->epoch == \old(node->epoch);
      ensures node->left == \old(node->left) && node->answered == \old(node->answered);
      ensures node->heard <==> \old(node->heard);
    complete behaviors; disjoint behaviors; */
bool dumpulse_hear(dumpulse_node *node, uint8_t label, const uint8_t *packet, size_t length);

/*@ requires \valid(node) && \valid(packet + (0 .. 7)) && \separated(node, packet + (0 .. 7));
    requires label <= 64 && node->left != 0;
    assigns node->left, packet[0 .. 7]; exits \false;
    ensures node->left == \old(node->left) - 1;
    ensures tagged(packet, label, node->epoch);
    ensures packet[4] == 0x80 + label && packet[5] == 255 - node->left &&
      packet[6] == first && packet[7] == second; */
void dumpulse_count_(dumpulse_node *node, uint8_t *packet, uint8_t label, uint8_t first,
                     uint8_t second);

/*@ requires \valid(node) && \valid(packet + (0 .. 7)) && \separated(node, packet + (0 .. 7));
    assigns node->left, packet[0 .. 7]; exits \false;
    behavior made:
      assumes node->left != 0 && variable < 64;
      ensures \result && node->left == \old(node->left) - 1;
      ensures tagged(packet, variable, node->epoch);
      ensures packet[4] == 0x80 + variable && packet[5] == 255 - node->left &&
        packet[6] == sender && packet[7] == value;
    behavior none:
      assumes node->left == 0 || variable >= 64;
      ensures !\result && node->left == \old(node->left);
      ensures \forall integer k; 0 <= k < 8 ==> packet[k] == \old(packet[k]);
    complete behaviors; disjoint behaviors; */
bool dumpulse_keyed_heartbeat(dumpulse_node *node, uint8_t packet[DUMPULSE_PACKET_SIZE],
                              uint8_t variable, uint8_t sender, uint8_t value);

/*@ requires \valid(packet + (0 .. 7)) && label <= 64;
    assigns packet[0 .. 7]; exits \false;
    ensures packet[4] == 0x80 + label && packet[5] == 0; */
void dumpulse_ask(uint8_t packet[DUMPULSE_PACKET_SIZE], uint8_t label);

/* ---- Readers. */

/*@ requires \valid(reader) && \valid(packet + (0 .. 7)) && \valid_read(nonce + (0 .. 1));
    requires \separated(reader, packet + (0 .. 7), nonce + (0 .. 1)); exits \false;
    assigns reader->heard.left, reader->epoch, reader->asked[0 .. 7], packet[0 .. 7];
    behavior made:
      assumes reader->heard.left != 0;
      ensures \result && reader->heard.left == \old(reader->heard.left) - 1;
      ensures reader->epoch == reader->heard.epoch;
      ensures tagged(packet, 64, reader->epoch);
      ensures packet[4] == 0xC0 && packet[5] == 255 - reader->heard.left &&
        packet[6] == nonce[0] && packet[7] == nonce[1];
      ensures \forall integer k; 0 <= k < 8 ==> reader->asked[k] == packet[k];
    behavior none:
      assumes reader->heard.left == 0;
      ensures !\result && reader->heard.left == \old(reader->heard.left);
      ensures reader->epoch == \old(reader->epoch);
      ensures \forall integer k; 0 <= k < 8 ==>
        packet[k] == \old(packet[k]) && reader->asked[k] == \old(reader->asked[k]);
    complete behaviors; disjoint behaviors; */
bool dumpulse_keyed_request(dumpulse_reader *reader, uint8_t packet[DUMPULSE_PACKET_SIZE],
                            const uint8_t nonce[2]);

/*@ predicate asks{L}(dumpulse_reader *reader) =
      reader->epoch != 0 && reader->epoch == reader->heard.epoch; */

/*@ requires \valid(reader) && \valid(report + (0 .. 263));
    requires \separated(reader, report + (0 .. 263));
    assigns reader->epoch, report[0 .. 7]; exits \false;
    ensures \result <==> length == 264 && asks{Pre}(reader) &&
      report_tagged{Pre}(report, &reader->asked[0], \old(reader->epoch));
    ensures reader->epoch == (\result ? 0 : \old(reader->epoch));
    ensures \forall integer k; 0 <= k < 8 ==> report[k] == \old(report[k]); */
static bool believed(dumpulse_reader *reader, uint8_t *report, size_t length);
