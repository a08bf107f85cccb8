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

/* All places, as one array: that is easier for the provers than one of arrays. */
#define WAITING (&keyed->waiting[0][0])[0 .. 31]

/* ---- The hooks. Ghost variables keep what they were asked for. */

/*@ ghost int beacons, reports; */
/*@ ghost int beacon_of; */ /* the label of the last one */
/* What was to be stored last, and what the agent was then. */
struct store_call {
    int calls, label;
    uint32_t number, epoch;
    uint8_t reached, last[65];
    bool stored;
};
/*@ ghost struct store_call call; */
/*@ ghost dumpulse_keyed *watched; */

/*@ predicate last_kept{L1, L2}(dumpulse_keyed *keyed) =
      \forall integer i; 0 <= i < 65 ==> \at(keyed->last[i], L1) == \at(keyed->last[i], L2);
    predicate waiting_kept{L1, L2}(dumpulse_keyed *keyed) =
      \forall integer i, k; 0 <= i < 8 && 0 <= k < 4 ==>
        \at(keyed->waiting[i][k], L1) == \at(keyed->waiting[i][k], L2);
    // When the store hook was called, the epoch and the counts were still as before.
    predicate stored_first{L1, L2}(dumpulse_keyed *keyed) =
      \at(call.epoch, L2) == \at(keyed->epoch, L1) &&
      \at(call.reached, L2) == \at(keyed->reached, L1) &&
      \forall integer i; 0 <= i < 65 ==> \at(call.last[i], L2) == \at(keyed->last[i], L1);

    // An agent that has begun is in an epoch, and was in one before it. If its block could not be
    // read, it is in an epoch that does not end.
    predicate sound{L}(dumpulse_keyed *keyed) =
      keyed->reached <= 65 && (keyed->reached != 0 ==> 255 <= keyed->epoch) &&
      (keyed->reached != 0 && keyed->epoch > 0x1FFFFFFF ==>
        keyed->reached == 65 && keyed->epoch % 256 == 255);
    logic integer epoch_of{L}(dumpulse_keyed *keyed, integer label) =
      label < keyed->reached ? keyed->epoch : keyed->epoch - 1;

    predicate counted{L}(uint8_t *packet, integer length) =
      length == 8 && 0x80 <= packet[4] <= 0xC0;
    predicate question{L}(uint8_t *packet) = packet[5] == 0;
    predicate is_new{L}(dumpulse_keyed *keyed, uint8_t *packet) =
      packet[5] > keyed->last[packet[4] - 0x80];
    predicate right{L}(dumpulse_keyed *keyed, uint8_t *packet) =
      tagged(packet, packet[4] - 0x80, epoch_of(keyed, packet[4] - 0x80));
    // The first place where one with this byte 4 waits.
    predicate first_at{L}(dumpulse_keyed *keyed, integer i, integer byte4) =
      0 <= i < 8 && keyed->waiting[i][0] == byte4 &&
        \forall integer k; 0 <= k < i ==> keyed->waiting[k][0] != byte4;
    predicate waits{L}(dumpulse_keyed *keyed, uint8_t *packet) =
      \exists integer i; first_at(keyed, i, packet[4]) &&
        keyed->waiting[i][2] == packet[6] && keyed->waiting[i][3] == packet[7];
    predicate waits_whole{L}(dumpulse_keyed *keyed, uint8_t *packet) =
      \exists integer i; first_at(keyed, i, packet[4]) && keyed->waiting[i][1] == packet[5] &&
        keyed->waiting[i][2] == packet[6] && keyed->waiting[i][3] == packet[7];
    // The entry of a heartbeat's variable has its sender and value.
    predicate recorded{L}(dumpulse_keyed *keyed, uint8_t *packet) =
      keyed->agent.report[6 + 4 * (packet[4] - 0x80)] == packet[6] &&
      keyed->agent.report[7 + 4 * (packet[4] - 0x80)] == packet[7];
    predicate others_kept{L1, L2}(dumpulse_keyed *keyed, uint8_t *packet) =
      \forall integer k; 4 <= k < 260 &&
        (k < 4 + 4 * (\at(packet[4], L1) - 0x80) || k > 7 + 4 * (\at(packet[4], L1) - 0x80)) ==>
        \at(keyed->agent.report[k], L1) == \at(keyed->agent.report[k], L2);
    predicate junk_kept{L1, L2}(dumpulse_keyed *keyed) =
      \at(keyed->junk, L1) == \at(keyed->junk, L2) &&
      \at(keyed->wrong, L1) == \at(keyed->wrong, L2);
    // In a new epoch, nothing waits, no tag was wrong, and junk is nearer to its end.
    predicate anew{L1, L2}(dumpulse_keyed *keyed) =
      \at(keyed->wrong, L2) == 0 &&
      \at(keyed->junk, L2) == (\at(keyed->junk, L1) == 0 ? 0 : \at(keyed->junk, L1) - 1) &&
      \forall integer i; 0 <= i < 8 ==> \at(keyed->waiting[i][0], L2) == 0;
    predicate table_kept{L1, L2}(dumpulse_keyed *keyed) =
      \forall integer k; 4 <= k < 260 ==>
        \at(keyed->agent.report[k], L1) == \at(keyed->agent.report[k], L2);
    predicate one_more_wrong{L1, L2}(dumpulse_keyed *keyed) =
      \at(keyed->wrong, L2) == (\at(keyed->wrong, L1) == 255 ? 0 : \at(keyed->wrong, L1) + 1) &&
      \at(keyed->junk, L2) == (\at(keyed->wrong, L2) >= 100 ? 64 : \at(keyed->junk, L1)); */

/* What becomes of a heartbeat whose tag is right: it is taken, or is the first of two. */
#define IS_FIRST (\old(keyed->junk) != 0 && !waits{Pre}(keyed, packet))
#define TAKEN_OR_FIRST \
    ensures others_kept{Pre, Post}(keyed, packet); \
    ensures IS_FIRST ? \result == DUMPULSE_FIRST : \result == DUMPULSE_HEARTBEAT; \
    ensures !IS_FIRST ==> recorded(keyed, packet); \
    ensures !IS_FIRST ==> waiting_kept{Pre, Post}(keyed); \
    ensures IS_FIRST ==> table_kept{Pre, Post}(keyed); \
    ensures IS_FIRST ==> waits(keyed, packet);

/*@ // What the memory has for a label, as long as nothing more is stored.
    axiomatic memory { logic integer kept{L}(integer label) reads call; } */

/*@ assigns \nothing; exits \false;
    ensures \result <= 0xFFFFFF && \result == kept(label); */
uint32_t dumpulse_load(uint8_t label);

/*@ requires watched == \null || \valid_read(watched);
    assigns call; exits \false;
    ensures call.calls == \old(call.calls) + 1 && call.label == label && call.number == number;
    ensures call.stored <==> \result;
    ensures watched != \null ==> stored_first{Pre, Post}(watched); */
bool dumpulse_store(uint8_t label, uint32_t number);

/*@ assigns \nothing; exits \false; */
uint16_t dumpulse_get_timestamp(void);

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

/*@ requires \valid(bytes + (0 .. 3));
    assigns bytes[0 .. 3]; exits \false;
    ensures big(bytes) == number; */
static inline void dumpulse_write_(uint8_t *bytes, uint32_t number);

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
    ensures reports == \old(reports) + 1 &&
      keyed->last[64] == \old(keyed->last[64]); */
static void answer(dumpulse_keyed *keyed, const uint8_t *packet, void *context);

/* ---- The agent. */

/*@ requires \valid_read(keyed) && sound(keyed);
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
    assigns keyed->wrong, keyed->junk;
    exits \false;
    behavior without_tag:
      assumes !counted(packet, length) || keyed->reached == 0 || question(packet) ||
        !is_new(keyed, packet);
      assigns \nothing;
      ensures !counted(packet, length) ==> \result == DUMPULSE_REFUSED;
      ensures counted(packet, length) ==> \result == (keyed->reached == 0 ? DUMPULSE_NOT_BEGUN :
        packet[5] == 0 ? DUMPULSE_ASKS : DUMPULSE_OLD);
    behavior right:
      assumes counted(packet, length) && keyed->reached != 0 && !question(packet) &&
        is_new(keyed, packet) && right(keyed, packet);
      assigns \nothing;
      ensures \result == DUMPULSE_NEW;
    behavior wrong:
      assumes counted(packet, length) && keyed->reached != 0 && !question(packet) &&
        is_new(keyed, packet) && !right(keyed, packet);
      ensures \result == DUMPULSE_WRONG_TAG && one_more_wrong{Pre, Post}(keyed);
    complete behaviors;
    disjoint behaviors;
*/
dumpulse_result dumpulse_keyed_try(dumpulse_keyed *keyed, const uint8_t *packet, size_t length);

/*@ requires \valid(keyed) && sound(keyed);
    requires length == 8 ==>
      \valid_read(packet + (0 .. 7)) && \separated(keyed, packet + (0 .. 7)); exits \false;
    behavior nothing_known:
      assumes !counted(packet, length) || keyed->reached == 0;
      assigns \nothing;
      ensures counted(packet, length) ==> \result == DUMPULSE_NOT_BEGUN;
      ensures !counted(packet, length) ==> \result == DUMPULSE_REFUSED;
    behavior question:
      assumes counted(packet, length) && keyed->reached != 0 && question(packet);
      assigns beacons, beacon_of;
      ensures \result == DUMPULSE_ASKS && beacons == \old(beacons) + 1;
      ensures beacon_of == packet[4] - 0x80;
    behavior old:
      assumes counted(packet, length) && keyed->reached != 0 && !question(packet) &&
        !is_new(keyed, packet);
      assigns beacons, beacon_of;
      ensures \result == DUMPULSE_OLD;
      ensures beacons == \old(beacons) + (packet[4] == 0xC0 ? 1 : 0);
      ensures packet[4] == 0xC0 ==> beacon_of == 64;
    behavior wrong:
      assumes counted(packet, length) && keyed->reached != 0 && !question(packet) &&
        is_new(keyed, packet) && !right(keyed, packet);
      assigns keyed->wrong, keyed->junk, beacons, beacon_of;
      ensures \result == DUMPULSE_WRONG_TAG && one_more_wrong{Pre, Post}(keyed);
      ensures beacons == \old(beacons) + (packet[4] == 0xC0 ? 1 : 0);
      ensures packet[4] == 0xC0 ==> beacon_of == 64;
    behavior request:
      assumes counted(packet, length) && keyed->reached != 0 && !question(packet) &&
        is_new(keyed, packet) && right(keyed, packet) && packet[4] == 0xC0;
      assigns keyed->last[64], keyed->tag, keyed->agent.report[0 .. 3], reports;
      ensures \result == DUMPULSE_REPORT && reports == \old(reports) + 1;
      ensures keyed->last[64] == \old(packet[5]);
    behavior heartbeat:
      assumes counted(packet, length) && keyed->reached != 0 && !question(packet) &&
        is_new(keyed, packet) && right(keyed, packet) && packet[4] != 0xC0;
      assigns keyed->last[0 .. 63], WAITING, keyed->place,
        keyed->agent.report[4 .. 259];
      ensures keyed->last[\old(packet[4]) - 0x80] == \old(packet[5]);
      ensures \forall integer i; 0 <= i < 65 && i != \old(packet[4]) - 0x80 ==>
        keyed->last[i] == \old(keyed->last[i]);
      TAKEN_OR_FIRST
    complete behaviors; disjoint behaviors; */
dumpulse_result dumpulse_keyed_process(dumpulse_keyed *keyed, const uint8_t *packet, size_t length,
                                       void *context);

/*@ requires \valid(keyed) && sound(keyed) && keyed->reached != 0 && watched == keyed;
    requires \separated(keyed, &call);
    assigns keyed->epoch, keyed->reached, keyed->wrong, keyed->junk,
      WAITING, call; exits \false;
    ensures last_kept{Pre, Post}(keyed);
    behavior next:
      assumes keyed->epoch % 256 != 255;
      ensures \result && call.calls == \old(call.calls);
    behavior block:
      assumes keyed->epoch % 256 == 255 && keyed->epoch < 0x1FFFFFFF;
      ensures call.calls == \old(call.calls) + 1 && call.label == DUMPULSE_BLOCK;
      ensures 256 * call.number == \old(keyed->epoch) + 1 && (\result <==> call.stored);
      ensures stored_first{Pre, Post}(keyed);
    behavior used_up:
      assumes keyed->epoch >= 0x1FFFFFFF;
      ensures !\result && call.calls == \old(call.calls);
    behavior all:
      ensures \result ==> keyed->epoch == \old(keyed->epoch) + 1 && keyed->reached == 0;
      ensures \result ==> keyed->epoch <= 0x1FFFFFFF && anew{Pre, Post}(keyed);
      ensures !\result ==> keyed->epoch == \old(keyed->epoch);
      ensures !\result ==> keyed->reached == \old(keyed->reached);
      ensures !\result ==> waiting_kept{Pre, Post}(keyed) && junk_kept{Pre, Post}(keyed);
    complete behaviors next, block, used_up;
    disjoint behaviors next, block, used_up; */
static bool next_epoch(dumpulse_keyed *keyed);

/*@ requires \valid(keyed) && sound(keyed) && watched == keyed;
    requires \separated(keyed, &call);
    assigns keyed->epoch, keyed->reached, keyed->wrong, keyed->junk, keyed->last[0 .. 64],
      WAITING, call, beacons, beacon_of; exits \false;
    ensures sound(keyed);
    ensures !\result ==> last_kept{Pre, Post}(keyed) && waiting_kept{Pre, Post}(keyed) &&
      junk_kept{Pre, Post}(keyed);
    ensures !\result ==> keyed->epoch == \old(keyed->epoch) && beacons == \old(beacons);
    ensures !\result ==> keyed->reached == \old(keyed->reached);
    ensures \result ==> beacons == \old(beacons) + 1 && beacon_of == keyed->reached - 1;
    ensures \result && keyed->reached == 1 ==> anew{Pre, Post}(keyed);
    ensures \result ==> keyed->last[keyed->reached - 1] == 0;
    ensures \result ==> \forall integer i; 0 <= i < 65 && i != keyed->reached - 1 ==>
      keyed->last[i] == \old(keyed->last[i]);
    behavior not_begun:
      assumes keyed->reached == 0;
      ensures !\result && call.calls == \old(call.calls);
    behavior label:
      assumes 0 < keyed->reached < 65;
      ensures \result && call.calls == \old(call.calls) && call.label == \old(call.label);
      ensures call.number == \old(call.number) && (call.stored <==> \old(call.stored));
      ensures keyed->epoch == \old(keyed->epoch) && keyed->reached == \old(keyed->reached) + 1;
      ensures waiting_kept{Pre, Post}(keyed) && junk_kept{Pre, Post}(keyed);
    behavior epoch:
      assumes keyed->reached == 65 && keyed->epoch % 256 != 255;
      ensures \result && call.calls == \old(call.calls);
      ensures keyed->epoch == \old(keyed->epoch) + 1 && keyed->reached == 1;
    behavior block:
      assumes keyed->reached == 65 && keyed->epoch % 256 == 255 && keyed->epoch < 0x1FFFFFFF;
      ensures call.calls == \old(call.calls) + 1 && call.label == DUMPULSE_BLOCK;
      ensures 256 * call.number == \old(keyed->epoch) + 1 && (\result <==> call.stored);
      ensures stored_first{Pre, Post}(keyed);
      ensures \result ==> keyed->epoch == \old(keyed->epoch) + 1 && keyed->reached == 1;
    behavior used_up:
      assumes keyed->reached == 65 && keyed->epoch >= 0x1FFFFFFF;
      ensures !\result && call.calls == \old(call.calls);
    complete behaviors; disjoint behaviors; */
bool dumpulse_keyed_next(dumpulse_keyed *keyed, void *context);

/*@ requires \valid(keyed) && watched == keyed;
    requires \separated(keyed, &call);
    assigns keyed->epoch, keyed->reached, keyed->wrong, keyed->junk, keyed->last[0 .. 64],
      WAITING, call, beacons, beacon_of; exits \false;
    ensures \result ==> sound(keyed) && keyed->reached == 65 && beacons == \old(beacons) + 65;
    ensures \result ==> call.stored && call.label == DUMPULSE_BLOCK;
    ensures \result ==> call.number == kept{Pre}(DUMPULSE_BLOCK) + 1;
    ensures \result ==> keyed->epoch == 256 * call.number;
    ensures \result ==> \forall integer i; 0 <= i < 65 ==> keyed->last[i] == 0;
    ensures !\result ==> keyed->reached == 0 && beacons == \old(beacons);
    ensures call.calls <= \old(call.calls) + 1; */
bool dumpulse_keyed_begin(dumpulse_keyed *keyed, void *context);

/*@ requires \valid(keyed);
    assigns keyed->wrong, keyed->junk; exits \false;
    ensures \result == DUMPULSE_WRONG_TAG && one_more_wrong{Pre, Post}(keyed); */
dumpulse_result dumpulse_wrong_(dumpulse_keyed *keyed);

/*@ requires \valid_read(keyed);
    assigns \nothing; exits \false;
    ensures \result <= 8;
    ensures \result < 8 ==> keyed->waiting[\result][0] == byte4;
    ensures \forall integer i; 0 <= i < \result ==> keyed->waiting[i][0] != byte4; */
uint8_t dumpulse_waiting_(const dumpulse_keyed *keyed, uint8_t byte4);

/*@ requires \valid(keyed) && at <= 8 && \valid_read(packet + (4 .. 7));
    requires \separated(keyed, packet + (4 .. 7));
    requires at < 8 ? first_at(keyed, at, packet[4]) :
      \forall integer i; 0 <= i < 8 ==> keyed->waiting[i][0] != packet[4];
    assigns WAITING, keyed->place; exits \false;
    ensures waits_whole(keyed, packet);
    ensures \let i = at < 8 ? at : \old(keyed->place) % 8;
      (\forall integer k; 0 <= k < 4 ==> keyed->waiting[i][k] == packet[4 + k]) &&
      \forall integer j, k; 0 <= j < 8 && j != i && 0 <= k < 4 ==>
        keyed->waiting[j][k] == \old(keyed->waiting[j][k]);
    ensures at < 8 ==> keyed->place == \old(keyed->place);
    ensures at == 8 ==> keyed->place % 8 == (\old(keyed->place) + 1) % 8; */
void dumpulse_wait_(dumpulse_keyed *keyed, uint8_t at, const uint8_t *packet);

/*@ requires \valid(keyed) && \valid_read(packet + (0 .. 7)) && 0x80 <= packet[4] < 0xC0;
    requires \separated(keyed, packet + (0 .. 7)); exits \false;
    assigns keyed->agent.report[4 + 4 * (packet[4] - 0x80) .. 7 + 4 * (packet[4] - 0x80)],
      WAITING, keyed->place;
    ensures last_kept{Pre, Post}(keyed) && keyed->junk == \old(keyed->junk);
    ensures \forall integer k; 0 <= k < 8 ==> packet[k] == \old(packet[k]);
    TAKEN_OR_FIRST
*/
dumpulse_result dumpulse_take_(dumpulse_keyed *keyed, const uint8_t *packet);

/*@ predicate forgotten{L1, L2}(dumpulse_keyed *keyed, integer i, integer variable) =
      \let was = \at(keyed->waiting[i][0], L1);
      \at(keyed->waiting[i][0], L2) == (was % 64 == variable ? 0 : was) &&
      \forall integer k; 1 <= k < 4 ==>
        \at(keyed->waiting[i][k], L2) == \at(keyed->waiting[i][k], L1); */

/*@ requires \valid(keyed) && variable < 64;
    assigns keyed->last[variable], WAITING; exits \false;
    ensures keyed->last[variable] == 0;
    ensures \forall integer i; 0 <= i < 8 ==> forgotten{Pre, Post}(keyed, i, variable); */
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
    assigns agent->report[4 + 4 * variable .. 7 + 4 * variable]; exits \false;
    ensures \result == DUMPULSE_HEARTBEAT;
    ensures agent->report[6 + 4 * variable] == sender && agent->report[7 + 4 * variable] == value;
*/
static inline dumpulse_result dumpulse_record(dumpulse *agent, uint8_t variable, uint8_t sender,
                                              uint8_t value);

/* ---- Nodes that only send, at the agent. */

/*@ logic integer own{L}(uint8_t *four) = 256 * three(four + 1);
    // The own epoch, times 256; the rest is the last count.
    logic integer base(integer node) = node - node % 256;
    // After a reset, no count of the last own epoch is new.
    logic integer after_reset{L}(integer label) = kept(label) == 0 ? 0 : 256 * kept(label) + 255;
    predicate is_last{L}(dumpulse_alone *node, uint8_t *packet, integer variable) =
      *node != 0 && packet[5] > *node % 256 && tagged(packet, variable, base(*node));
    predicate is_next{L}(dumpulse_keyed *keyed, integer at, uint8_t *packet, integer variable) =
      at < 8 && packet[5] != 0 && tagged(packet, variable, own(&keyed->waiting[at][0]));
    // The own epoch of an announce is later than the last one, and than that of one that waits.
    predicate later{L}(dumpulse_keyed *keyed, integer node, uint8_t *packet) =
      own(packet + 4) > node && \forall integer i; first_at(keyed, i, packet[4]) ==>
        own(packet + 4) > own(&keyed->waiting[i][0]); */

/*@ requires \valid_read(four + (0 .. 3));
    assigns \nothing; exits \false;
    ensures \result == own(four); */
static uint32_t own_of(const uint8_t *four);

/*@ requires \valid(keyed) && \valid_read(packet + (0 .. 7)) && packet[4] == 0x40 + variable;
    requires variable < 64 && \separated(keyed, packet + (0 .. 7));
    assigns WAITING, keyed->place, keyed->wrong, keyed->junk; exits \false;
    behavior waits:
      assumes later(keyed, node, packet) && tagged(packet, variable, 0);
      assigns WAITING, keyed->place;
      ensures \result == DUMPULSE_ANNOUNCE && waits_whole(keyed, packet);
    behavior wrong:
      assumes later(keyed, node, packet) && !tagged(packet, variable, 0);
      assigns keyed->wrong, keyed->junk;
      ensures \result == DUMPULSE_WRONG_TAG && one_more_wrong{Pre, Post}(keyed);
    behavior old:
      assumes !later(keyed, node, packet);
      assigns \nothing;
      ensures \result == DUMPULSE_OLD;
    complete behaviors; disjoint behaviors; */
static dumpulse_result announced(dumpulse_keyed *keyed, dumpulse_alone node, const uint8_t *packet,
                                 uint8_t variable);

/*@ requires \valid(keyed) && \valid(node) && \separated(keyed, node, packet + (0 .. 7), &call);
    requires \valid_read(packet + (0 .. 7)) && packet[4] == 0x80 + variable && variable < 64;
    requires at <= 8 && watched == \null;
    assigns *node, WAITING, keyed->place, keyed->agent.report[4 .. 259], keyed->wrong, keyed->junk,
      call; exits \false;
    behavior last:
      assumes is_last(node, packet, variable);
      ensures *node == base(\old(*node)) + \old(packet[5]);
      assigns *node, WAITING, keyed->place, keyed->agent.report[4 .. 259];
      ensures call.calls == \old(call.calls);
      TAKEN_OR_FIRST
    behavior next:
      assumes !is_last(node, packet, variable) && is_next(keyed, at, packet, variable);
      ensures call.calls == \old(call.calls) + 1 && call.label == variable;
      ensures 256 * call.number == \old(own(&keyed->waiting[at][0]));
      ensures \result == (call.stored ? DUMPULSE_HEARTBEAT : DUMPULSE_NOT_STORED);
      ensures call.stored ==> *node == 256 * call.number + \old(packet[5]);
      ensures call.stored ==> keyed->waiting[at][0] == 0;
      ensures call.stored ==> keyed->agent.report[6 + 4 * variable] == \old(packet[6]);
      ensures call.stored ==> keyed->agent.report[7 + 4 * variable] == \old(packet[7]);
      ensures others_kept{Pre, Post}(keyed, packet) && junk_kept{Pre, Post}(keyed);
      ensures !call.stored ==> *node == \old(*node) && waiting_kept{Pre, Post}(keyed) &&
        table_kept{Pre, Post}(keyed);
    behavior refused:
      assumes !is_last(node, packet, variable) && !is_next(keyed, at, packet, variable);
      assigns keyed->wrong, keyed->junk;
      ensures *node == \old(*node) && call.calls == \old(call.calls);
      ensures (*node != 0 && packet[5] > *node % 256) || (at < 8 && packet[5] != 0) ?
        \result == DUMPULSE_WRONG_TAG && one_more_wrong{Pre, Post}(keyed) :
        \result == DUMPULSE_OLD && junk_kept{Pre, Post}(keyed);
    complete behaviors; disjoint behaviors; */
static dumpulse_result beaten(dumpulse_keyed *keyed, dumpulse_alone *node, uint8_t at,
                              const uint8_t *packet, uint8_t variable);

/*@ predicate announces{L}(dumpulse_keyed *keyed, integer count, uint8_t *packet,
                           integer length) =
      length == 8 && keyed->reached != 0 && 0x40 <= packet[4] < 0x40 + count && packet[5] >= 0x80;
    predicate beats_alone{L}(dumpulse_keyed *keyed, dumpulse_alone *alone, integer count,
                             uint8_t *packet, integer length) =
      length == 8 && keyed->reached != 0 && 0x80 <= packet[4] < 0x80 + count &&
      (alone[packet[4] - 0x80] != 0 ||
       \exists integer i; 0 <= i < 8 && keyed->waiting[i][0] == packet[4] - 0x40);
    // Is it of the own epoch of the announce that waits for it? And is this number that epoch?
    predicate last_of{L}(dumpulse_alone *alone, uint8_t *packet) =
      is_last(alone + (packet[4] - 0x80), packet, packet[4] - 0x80);
    predicate was_announced{L}(dumpulse_keyed *keyed, uint8_t *packet) =
      \exists integer i; first_at(keyed, i, packet[4] - 0x40) &&
        is_next(keyed, i, packet, packet[4] - 0x80);
    predicate is_own_of{L}(dumpulse_keyed *keyed, uint8_t *packet, integer number) =
      \exists integer i; first_at(keyed, i, packet[4] - 0x40) &&
        number == own(&keyed->waiting[i][0]); */

#define V (\old(packet[4]) - 0x80) /* the variable of a heartbeat */
/*@ requires \valid(keyed) && sound(keyed) && count <= 64 && \valid(alone + (0 .. count - 1));
    requires length == 8 ==> \valid_read(packet + (0 .. 7)) &&
      \separated(keyed, alone + (0 .. count - 1), packet + (0 .. 7), &call);
    requires watched == \null; exits \false;
    behavior announce:
      assumes announces(keyed, count, packet, length);
      assigns WAITING, keyed->place, keyed->wrong, keyed->junk;
      ensures !later{Pre}(keyed, \old(alone[packet[4] - 0x40]), packet) ?
        \result == DUMPULSE_OLD : tagged{Pre}(packet, \old(packet[4]) - 0x40, 0) ?
          \result == DUMPULSE_ANNOUNCE && waits_whole(keyed, packet) :
          \result == DUMPULSE_WRONG_TAG && one_more_wrong{Pre, Post}(keyed);
    behavior alone:
      assumes beats_alone(keyed, alone, count, packet, length);
      assigns alone[packet[4] - 0x80], WAITING, keyed->place, keyed->agent.report[4 .. 259],
        keyed->wrong, keyed->junk, call;
    behavior last:
      assumes beats_alone(keyed, alone, count, packet, length) && last_of(alone, packet);
      ensures alone[V] == base(\old(alone[packet[4] - 0x80])) + \old(packet[5]);
      ensures call.calls == \old(call.calls);
      TAKEN_OR_FIRST
    behavior next:
      assumes beats_alone(keyed, alone, count, packet, length) && !last_of(alone, packet) &&
        was_announced(keyed, packet);
      ensures call.calls == \old(call.calls) + 1 && call.label == V;
      ensures is_own_of{Pre}(keyed, packet, 256 * call.number);
      ensures \result == (call.stored ? DUMPULSE_HEARTBEAT : DUMPULSE_NOT_STORED);
      ensures call.stored ==> alone[V] == 256 * call.number + \old(packet[5]);
      ensures call.stored ==> keyed->agent.report[6 + 4 * V] == \old(packet[6]);
      ensures call.stored ==> keyed->agent.report[7 + 4 * V] == \old(packet[7]);
      ensures !call.stored ==> alone[V] == \old(alone[packet[4] - 0x80]);
    behavior refused:
      assumes beats_alone(keyed, alone, count, packet, length) && !last_of(alone, packet) &&
        !was_announced(keyed, packet);
      ensures \result == DUMPULSE_WRONG_TAG || \result == DUMPULSE_OLD;
      ensures alone[V] == \old(alone[packet[4] - 0x80]);
      ensures call.calls == \old(call.calls);
    behavior hears:
      assumes !announces(keyed, count, packet, length) &&
        !beats_alone(keyed, alone, count, packet, length);
      assigns keyed->last[0 .. 64], keyed->tag, keyed->agent.report[0 .. 259], WAITING,
        keyed->place, keyed->wrong, keyed->junk, reports, beacons, beacon_of;
      ensures !counted{Pre}(packet, length) ==> \result == DUMPULSE_REFUSED;
      ensures counted{Pre}(packet, length) ==> (
        \old(keyed->reached) == 0 ? \result == DUMPULSE_NOT_BEGUN :
        question{Pre}(packet) ? \result == DUMPULSE_ASKS :
        !is_new{Pre}(keyed, packet) ? \result == DUMPULSE_OLD :
        !right{Pre}(keyed, packet) ? \result == DUMPULSE_WRONG_TAG :
        \old(packet[4]) == 0xC0 ? \result == DUMPULSE_REPORT :
        \result == DUMPULSE_HEARTBEAT || \result == DUMPULSE_FIRST);
    complete behaviors announce, alone, hears;
    disjoint behaviors announce, alone, hears; */
dumpulse_result dumpulse_alone_process(dumpulse_keyed *keyed, dumpulse_alone *alone, uint8_t count,
                                       const uint8_t *packet, size_t length, void *context);

/*@ requires \valid(keyed) && watched == keyed && \valid(alone + (0 .. count - 1));
    requires count <= 64 && \separated(keyed, alone + (0 .. count - 1), &call);
    assigns alone[0 .. count - 1], keyed->epoch, keyed->reached, keyed->wrong, keyed->junk,
      keyed->last[0 .. 64], WAITING, call, beacons, beacon_of; exits \false;
    ensures \forall integer i; 0 <= i < count ==> alone[i] == after_reset{Pre}(i);
    ensures \result ==> sound(keyed) && keyed->reached == 65 && call.stored &&
      call.label == DUMPULSE_BLOCK && keyed->epoch == 256 * call.number;
    ensures \result ==> call.number == kept{Pre}(DUMPULSE_BLOCK) + 1;
    ensures !\result ==> keyed->reached == 0; */
bool dumpulse_alone_begin(dumpulse_keyed *keyed, dumpulse_alone *alone, uint8_t count,
                          void *context);

/*@ requires \valid(keyed) && \valid(alone + variable) && variable < 64 && watched == \null;
    requires \separated(keyed, alone + variable, &call);
    assigns alone[variable], keyed->last[variable], WAITING, call; exits \false;
    ensures call.calls == \old(call.calls) + 1 && call.label == variable && call.number == 0;
    ensures \result <==> call.stored;
    ensures \result ==> alone[variable] == 0 && keyed->last[variable] == 0;
    ensures \result ==> \forall integer i; 0 <= i < 8 ==> forgotten{Pre, Post}(keyed, i, variable);
    ensures !\result ==> alone[variable] == \old(alone[variable]) &&
      last_kept{Pre, Post}(keyed) && waiting_kept{Pre, Post}(keyed); */
bool dumpulse_alone_renew(dumpulse_keyed *keyed, dumpulse_alone *alone, uint8_t variable);

/* ---- Nodes. */

/*@ predicate later_beacon{L}(dumpulse_node *node, integer label, uint8_t *packet,
                             integer length) =
      length == 8 && packet[4] < 0x40 && big(packet + 4) % 0x20000000 > node->epoch &&
      tagged(packet, label, big(packet + 4) % 0x20000000); */

/*@ requires \valid(node);
    requires length == 8 ==>
      \valid_read(packet + (0 .. 7)) && \separated(node, packet + (0 .. 7)); exits \false;
    behavior taken:
      assumes later_beacon(node, label, packet, length);
      assigns node->epoch, node->left, node->twice;
      ensures \result && node->left == 255 && (node->twice <==> packet[4] >= 0x20);
      ensures node->epoch == big(packet + 4) % 0x20000000;
    behavior refused:
      assumes !later_beacon(node, label, packet, length);
      assigns \nothing;
      ensures !\result;
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
    exits \false;
    behavior made:
      assumes node->left != 0 && variable < 64;
      assigns node->left, packet[0 .. 7];
      ensures \result && node->left == \old(node->left) - 1;
      ensures tagged(packet, variable, node->epoch);
      ensures packet[4] == 0x80 + variable && packet[5] == 255 - node->left &&
        packet[6] == sender && packet[7] == value;
    behavior none:
      assumes node->left == 0 || variable >= 64;
      assigns \nothing;
      ensures !\result;
    complete behaviors; disjoint behaviors; */
bool dumpulse_keyed_heartbeat(dumpulse_node *node, uint8_t packet[DUMPULSE_PACKET_SIZE],
                              uint8_t variable, uint8_t sender, uint8_t value);

/*@ requires \valid(packet + (0 .. 7)) && label <= 64;
    assigns packet[0 .. 7]; exits \false;
    ensures packet[4] == 0x80 + label && packet[5] == 0; */
void dumpulse_ask(uint8_t packet[DUMPULSE_PACKET_SIZE], uint8_t label);

/*@ requires \valid(node) && watched == \null;
    requires \separated(node, &call);
    assigns node->epoch, node->left, node->twice, call; exits \false;
    ensures node->left == (\result ? 255 : 0);
    behavior begins:
      assumes variable < 64 && 0x7FFFFF <= kept(variable) < 0xFFFFFF;
      ensures call.calls == \old(call.calls) + 1 && call.label == variable;
      ensures call.number == kept{Pre}(variable) + 1 && (\result <==> call.stored);
      ensures \result ==> node->epoch == 256 * call.number && node->twice;
    behavior cannot:
      assumes variable >= 64 || kept(variable) < 0x7FFFFF || kept(variable) == 0xFFFFFF;
      ensures !\result && call.calls == \old(call.calls); disjoint behaviors; */
bool dumpulse_sender_begin(dumpulse_node *node, uint8_t variable);

/*@ requires \valid_read(node) && \valid(packet + (0 .. 7)) && \separated(node, packet + (0 .. 7));
    assigns packet[0 .. 7]; exits \false;
    ensures \result <==> variable < 64 && node->left != 0;
    ensures \result ==> packet[4] == 0x40 + variable && tagged(packet, variable, 0) &&
      three(packet + 5) == node->epoch / 256; */
bool dumpulse_sender_announce(const dumpulse_node *node, uint8_t packet[DUMPULSE_PACKET_SIZE],
                              uint8_t variable);

/* ---- Readers. */

/*@ requires \valid(reader) && \valid(packet + (0 .. 7)) && \valid_read(nonce + (0 .. 1));
    requires \separated(reader, packet + (0 .. 7), nonce + (0 .. 1)); exits \false;
    behavior made:
      assumes reader->heard.left != 0;
      assigns reader->heard.left, reader->epoch, reader->asked[0 .. 7], packet[0 .. 7];
      ensures \result && reader->heard.left == \old(reader->heard.left) - 1;
      ensures reader->epoch == reader->heard.epoch;
      ensures tagged(packet, 64, reader->epoch);
      ensures packet[4] == 0xC0 && packet[5] == 255 - reader->heard.left &&
        packet[6] == nonce[0] && packet[7] == nonce[1];
      ensures \forall integer k; 0 <= k < 8 ==> reader->asked[k] == packet[k];
    behavior none:
      assumes reader->heard.left == 0;
      assigns \nothing;
      ensures !\result;
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
