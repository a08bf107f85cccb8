/* Firmware that uses the library, the watch or keys, and asserts what headers and SPEC.md promise.
 * SPDX-License-Identifier: MIT
 *
 * WP proves the assertions from the contracts in spec.h, watch.h and keyed.h alone, without the
 * code. So they fail if a contract promises less than it should, or asks for more. */
#include "dumpulse.h"

static uint8_t other; /* stands for all other memory */

#if !defined DUMPULSE_WATCH_H && !defined DUMPULSE_KEYED_H
static dumpulse agent;
static uint8_t packet[8];

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

#elif defined DUMPULSE_WATCH_H

/*@ predicate is_there(dumpulse_watcher *watch, dumpulse *agent) = watched == agent &&
      \valid_read(watch) && \valid_read(watch->table + (0 .. watch->count - 1)) &&
      \valid(watch->seen + (0 .. watch->count - 1)) && \valid_read(agent) &&
      \separated(watch->seen + (0 .. watch->count - 1), agent, watch,
        watch->table + (0 .. watch->count - 1), &other) &&
      \forall integer i; 0 <= i <= 255 ==> told[i] < INT_MAX && looks[i] < INT_MAX;
    predicate looked_at{L1, L2}(integer n) =
      (\forall integer i; 0 <= i < n ==> \at(looks[i], L2) == \at(looks[i], L1) + 1) &&
      \forall integer i; n <= i <= 255 ==>
        \at(looks[i], L2) == \at(looks[i], L1) && \at(told[i], L2) == \at(told[i], L1); */

#define TOLD \
    looking, first_line, first_seen, later_now, looks[0 .. 255], told[0 .. 255], \
        told_was[0 .. 255], told_is[0 .. 255]

/*@ requires is_there(watch, watcher);
    assigns watch->seen[0 .. watch->count - 1], TOLD; exits \false; */
void each_line_has_one_look(const dumpulse_watcher *watch, dumpulse *watcher, uint16_t now)
{
    dumpulse_watch(watch, watcher, now);
    //@ assert looked_at{Pre, Here}(watch->count) && other == \at(other, Pre);
    /*@ assert watch->count != 0 ==> first_line == watch->table && first_seen == watch->seen &&
          later_now == (now + 64) % 65536; */
}

/*@ requires is_there(watch, watcher) && first < watch->count;
    assigns watch->seen[first .. watch->count - 1], TOLD; exits \false; */
void a_part_has_one_look(const dumpulse_watcher *watch, dumpulse *watcher, uint16_t now,
                         uint8_t first, uint8_t count)
{
    dumpulse_watch_part(watch, watcher, now, first, count);
    /*@ assert looked_at{Pre, Here}(first + count < watch->count ? count
                                                                 : watch->count - first); */
    /*@ assert count != 0 ==> first_line == watch->table + first &&
          first_seen == watch->seen + first && later_now == (now + 64) % 65536; */
    //@ assert other == \at(other, Pre);
}

/*@ logic integer elapsed(integer from, integer to) =
      to >= from ? to - from : to - from + 65536; */

/*@ requires \valid_read(line) && \valid(seen) && \valid_read(watcher);
    requires \separated(seen, watcher) && \separated(seen, line) && \separated(seen, &other);
    requires 0 <= looking <= 255 && told[looking] < INT_MAX && looks[looking] < INT_MAX;
    requires line == first_line + looking && seen == first_seen + looking;
    requires watched == watcher && later == later_now && line->variable < 64;
    requires line->lowest + line->span <= 255;
    assigns *seen, looks[looking], told[looking], told_was[looking], told_is[looking];
    exits \false; */
void a_look_decides(const dumpulse_line_ *line, dumpulse_seen *seen, dumpulse *watcher,
                    uint16_t later)
{
    /*@ ghost const uint8_t was = seen->state, v = line->variable; */
    /*@ ghost const unsigned since = seen->since[0] * 256U + seen->since[1]; */
    /*@ ghost const unsigned time = watcher->report[4 + 4 * v] * 256U +
          watcher->report[5 + 4 * v]; */
    //@ ghost const uint8_t sender = watcher->report[6 + 4 * v];
    //@ ghost const uint8_t value = watcher->report[7 + 4 * v];
    look(line, seen, watcher, later);
    //@ ghost const uint8_t heard = was > 1 || time != 0 || sender != 0 || value != 0;
    //@ ghost const uint8_t kept = was >= 4 && since == time;
    //@ assert line->variable % 64 == v && time == entry_time(watcher, v);
    //@ assert elapsed(time, later) == ticks(time, later);
    //@ assert elapsed(since, later) == ticks(since, later);
    /*@ assert (value + 256 - line->lowest) % 256 > line->span <==>
          value < line->lowest || value > line->lowest + line->span; */
    //@ assert heard == 0 ==> seen->state == (elapsed(since, later) > line->grace ? 1 : was);
    //@ assert heard != 0 && elapsed(time, later) > line->dead ==> seen->state == 5;
    //@ assert heard != 0 && elapsed(time, later) <= line->dead && kept != 0 ==> seen->state == was;
    /*@ assert heard != 0 && elapsed(time, later) <= line->dead && kept == 0 &&
          elapsed(time, later) > line->late ==> seen->state == 4; */
    /*@ assert heard != 0 && elapsed(time, later) <= line->dead && kept == 0 &&
          elapsed(time, later) <= line->late ==> seen->state ==
            (value < line->lowest || value > line->lowest + line->span ? 3 : 2); */
    //@ assert number(&seen->since[0]) == (heard == 0 ? since : time);
    //@ assert looks[looking] == \at(looks[looking], Pre) + 1;
    //@ assert seen->state == was ==> told[looking] == \at(told[looking], Pre);
    /*@ assert seen->state == was ==> told_was[looking] == \at(told_was[looking], Pre) &&
          told_is[looking] == \at(told_is[looking], Pre); */
    /*@ assert seen->state != was ==> told[looking] == \at(told[looking], Pre) + 1 &&
          told_was[looking] == was && told_is[looking] == seen->state; */
}

/*@ requires \valid_read(watch) && \valid(watch->seen + (0 .. watch->count - 1));
    requires \separated(watch->seen + (0 .. watch->count - 1), watch, &other);
    assigns watch->seen[0 .. watch->count - 1]; exits \false; */
void a_grace_begins(const dumpulse_watcher *watch, uint16_t now)
{
    dumpulse_watch_begin(watch, now);
    /*@ assert \forall integer i; 0 <= i < watch->count ==>
          watch->seen[i].state == \at(watch->seen[i].state, Pre); */
    /*@ assert \forall integer i; 0 <= i < watch->count ==>
          number(&watch->seen[i].since[0]) == (watch->seen[i].state == 0 ? now :
            \at(number(&watch->seen[i].since[0]), Pre)); */
    //@ assert other == \at(other, Pre);
}

/*@ requires \valid_read(watch) && \valid_read(watch->table + (0 .. watch->count - 1));
    requires \valid(watch->seen + (0 .. watch->count - 1)) && watch->count >= 1;
    requires \separated(watch->seen + (0 .. watch->count - 1), watch);
    requires \forall integer i; 0 <= i < watch->count ==> watch->seen[i].state <= 5;
    assigns \nothing; exits \false; */
void states_are_read(const dumpulse_watcher *watch, uint8_t v, uint16_t within)
{
    const dumpulse_state worst = dumpulse_watch_worst(watch);
    /*@ assert worst != 2 ==>
          \exists integer i; 0 <= i < watch->count && watch->seen[i].state == worst; */
    /*@ assert \forall integer i; 0 <= i < watch->count ==>
          badness(watch->seen[i].state) <= badness(worst); */
    const dumpulse_state state = dumpulse_watch_state(watch, v);
    //@ assert watch->table[0].variable == v ==> state == watch->seen[0].state;
    /*@ assert (\forall integer i; 0 <= i < watch->count ==> watch->table[i].variable != v) ==>
          state == 0; */
    /*@ assert watch->count >= 2 && watch->table[0].variable != v && watch->table[1].variable == v
          ==> state == watch->seen[1].state; */
    const uint8_t count = dumpulse_watch_count(watch, state);
    //@ assert count == how_many(watch->seen, watch->count, state);
    const uint8_t good = dumpulse_watch_check(watch, within);
    /*@ assert \forall integer i; 0 <= i < good ==>
          watch->table[i].variable <= 63 && watch->table[i].late >= 65 &&
          watch->table[i].dead >= watch->table[i].late && watch->table[i].dead + within <= 65535 &&
          watch->table[i].grace >= 64 && watch->table[i].grace + within <= 65535 &&
          watch->table[i].lowest + watch->table[i].span <= 255; */
    /*@ assert good == watch->count || good < watch->count && !(watch->table[good].variable <= 63 &&
          watch->table[good].late >= 65 && watch->table[good].dead >= watch->table[good].late &&
          watch->table[good].dead + within <= 65535 && watch->table[good].grace >= 64 &&
          watch->table[good].grace + within <= 65535 &&
          watch->table[good].lowest + watch->table[good].span <= 255); */
}

/*@ assigns \nothing; exits \false; */
void a_line_is_made(uint8_t v, uint16_t late, uint16_t dead, uint16_t grace, uint8_t lowest,
                    uint8_t highest)
{
    const dumpulse_watched line = dumpulse_watched_make(v, late, dead, grace, lowest, highest);
    /*@ ghost const uint8_t good = v < 64 && lowest <= highest && late <= 65535 - 64 &&
          dead <= 65535 - 64 && grace <= 65535 - 64; */
    //@ assert line.variable == (good != 0 ? v : 0) && line.grace == (good != 0 ? grace + 64 : 0);
    //@ assert line.lowest == (good != 0 ? lowest : 0);
    //@ assert line.span == (good != 0 ? highest - lowest : 0);
    //@ assert line.late == (good != 0 ? late + 64 : 0) && line.dead == (good != 0 ? dead + 64 : 0);
}

/* The hook of the firmware. */
void dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was, dumpulse_state is)
{
    (void)context, (void)variable, (void)was, (void)is;
    //@ assert 0 <= looking <= 255 && told[looking] < INT_MAX;
    //@ assert context == watched && variable == first_line[looking].variable;
    //@ assert \valid_read(first_seen + looking) && first_seen[looking].state == is;
}

#elif defined DUMPULSE_KEYED_H

static dumpulse_keyed keyed;
static dumpulse_node node;
static dumpulse_reader reader;
static uint8_t packet[8], unkeyed[8], nonce[2], received[264];

#define BEGUN 1 <= keyed.reached <= 65 && 256 <= keyed.epoch <= 0x1FFFFFFF
#define COUNTED 0x80 <= packet[4] <= 0xC0
#define REACHED (packet[4] - 0x80 < keyed.reached ? keyed.epoch : keyed.epoch - 1)
#define TAGGED(label, number) word(&packet[0]) == tag(label, number, word(&packet[4]))
#define IS_NEW packet[5] != 0 && packet[5] > keyed.last[packet[4] - 0x80]
#define BEFORE(field) ((field) == \at(field, Pre))

/*@ predicate counts_stay{L1, L2}(integer but) = \forall integer i; 0 <= i < 65 && i != but ==>
      \at(keyed.last[i], L2) == \at(keyed.last[i], L1);
    predicate bytes_stay{L1, L2}(integer from, integer to) = \forall integer i; from <= i < to ==>
      \at(keyed.agent.report[i], L2) == \at(keyed.agent.report[i], L1);
    predicate others_stay{L1, L2} = \at(other, L2) == \at(other, L1) &&
      \at(keyed.epoch, L2) == \at(keyed.epoch, L1) &&
      \at(keyed.reached, L2) == \at(keyed.reached, L1); */

#define PROCESSED_BYTES \
    keyed.last[0 .. 64], keyed.tag, keyed.agent.report[0 .. 259], keyed.wrong, reports, beacons, \
        beacon_of
#define ALL_STAY \
    counts_stay{Pre, Here}(-1) && bytes_stay{Pre, Here}(0, 260) && others_stay{Pre, Here} && \
        BEFORE(keyed.tag) && BEFORE(reports)

/*@ requires keyed.reached == 0 || (BEGUN);
    assigns \nothing; exits \false; */
void a_packet_is_looked_at(size_t length)
{
    const dumpulse_result result = dumpulse_keyed_look(&keyed, packet, length);
    //@ assert length != 8 || !(COUNTED) ==> result == 0;
    //@ assert length == 8 && COUNTED && keyed.reached == 0 ==> result == 5;
    /*@ assert length == 8 && COUNTED && keyed.reached != 0 ==>
          result == (packet[5] == 0 ? 6 : packet[5] > keyed.last[packet[4] - 0x80] ? 7 : 3); */
}

/*@ requires keyed.reached == 0 || (BEGUN);
    assigns keyed.wrong; exits \false; */
void a_packet_is_tried(size_t length)
{
    const dumpulse_result result = dumpulse_keyed_try(&keyed, packet, length);
    //@ assert length != 8 || !(COUNTED) ==> result == 0;
    //@ assert length == 8 && COUNTED && keyed.reached == 0 ==> result == 5;
    /*@ assert length == 8 && COUNTED && keyed.reached != 0 && !(IS_NEW) ==>
          result == (packet[5] == 0 ? 6 : 3); */
    /*@ assert length == 8 && COUNTED && keyed.reached != 0 && IS_NEW ==>
          result == (TAGGED(packet[4] - 0x80, REACHED) ? 7 : 4); */
    //@ assert result == 4 ==> keyed.wrong == (\at(keyed.wrong, Pre) + 1) % 256;
    //@ assert result != 4 ==> BEFORE(keyed.wrong);
}

/*@ requires keyed.reached == 0 || (BEGUN);
    requires length != 8 || !(COUNTED) || keyed.reached == 0;
    assigns PROCESSED_BYTES; exits \false; */
void a_packet_without_an_epoch_changes_nothing(size_t length)
{
    const dumpulse_result result = dumpulse_keyed_process(&keyed, packet, length, NULL);
    //@ assert result == (length == 8 && COUNTED ? 5 : 0);
    //@ assert ALL_STAY && BEFORE(keyed.wrong) && BEFORE(beacons);
}

/*@ requires BEGUN && COUNTED && packet[5] == 0;
    assigns PROCESSED_BYTES; exits \false; */
void a_question_is_answered(void)
{
    const dumpulse_result result = dumpulse_keyed_process(&keyed, packet, 8, NULL);
    //@ assert result == 6 && beacons == \at(beacons, Pre) + 1;
    //@ assert beacon_of == packet[4] - 0x80 && ALL_STAY && BEFORE(keyed.wrong);
}

/*@ requires BEGUN && COUNTED && packet[5] != 0;
    requires !(IS_NEW) || !(TAGGED(packet[4] - 0x80, REACHED));
    assigns PROCESSED_BYTES; exits \false; */
void a_replay_changes_nothing(void)
{
    const dumpulse_result result = dumpulse_keyed_process(&keyed, packet, 8, NULL);
    //@ assert \at(IS_NEW, Pre) ==> result == 4;
    //@ assert !\at(IS_NEW, Pre) ==> result == 3;
    //@ assert ALL_STAY;
    /*@ assert keyed.wrong == (result == 4 ? (\at(keyed.wrong, Pre) + 1) % 256 :
          \at(keyed.wrong, Pre)); */
    //@ assert packet[4] == 0xC0 ==> beacons == \at(beacons, Pre) + 1 && beacon_of == 64;
    //@ assert packet[4] != 0xC0 ==> BEFORE(beacons);
}

/*@ requires BEGUN && packet[4] == 0xC0 && IS_NEW && TAGGED(64, REACHED);
    assigns PROCESSED_BYTES; exits \false; */
void a_new_request_is_answered(void)
{
    const dumpulse_result result = dumpulse_keyed_process(&keyed, packet, 8, NULL);
    //@ assert result == 2;
    //@ assert keyed.last[64] == packet[5] && counts_stay{Pre, Here}(64);
    //@ assert others_stay{Pre, Here} && BEFORE(keyed.wrong) && BEFORE(beacons);
    //@ assert bytes_stay{Pre, Here}(4, 260) && reports == \at(reports, Pre) + 1;
}

/*@ requires BEGUN && 0x80 <= packet[4] < 0xC0 && IS_NEW && TAGGED(packet[4] - 0x80, REACHED);
    assigns PROCESSED_BYTES; exits \false; */
void a_new_heartbeat_is_stored(void)
{
    const dumpulse_result result = dumpulse_keyed_process(&keyed, packet, 8, NULL);
    //@ assert result == 1;
    //@ ghost const uint8_t v = packet[4] - 0x80;
    //@ assert keyed.last[v] == packet[5] && counts_stay{Pre, Here}(v);
    //@ assert others_stay{Pre, Here} && BEFORE(keyed.wrong) && BEFORE(beacons);
    /*@ assert keyed.agent.report[6 + 4 * v] == packet[6] &&
          keyed.agent.report[7 + 4 * v] == packet[7]; */
    //@ assert bytes_stay{Pre, Here}(0, 4 + 4 * v) && BEFORE(keyed.tag);
    //@ assert bytes_stay{Pre, Here}(8 + 4 * v, 260) && BEFORE(reports);
}

/*@ requires keyed.reached == 0 || (BEGUN);
    requires packet[4] == 0xF1 && packet[5] < 64 && bit(unkeyed[packet[5] / 8], packet[5] % 8);
    assigns PROCESSED_BYTES; exits \false; */
void a_listed_variable_needs_no_key(void)
{
    const dumpulse_result result = dumpulse_mixed_process(&keyed, unkeyed, packet, 8, NULL);
    //@ ghost const uint8_t v = packet[5];
    //@ assert \at(summed(&packet[0], 4), Pre) ==> result == 1;
    //@ assert !\at(summed(&packet[0], 4), Pre) ==> result == 0;
    //@ assert counts_stay{Pre, Here}(-1) && others_stay{Pre, Here} && BEFORE(keyed.tag);
    //@ assert BEFORE(keyed.wrong) && BEFORE(beacons) && BEFORE(reports);
    /*@ assert result == 1 ==> keyed.agent.report[6 + 4 * v] == packet[6] &&
          keyed.agent.report[7 + 4 * v] == packet[7]; */
    //@ assert bytes_stay{Pre, Here}(0, 4 + 4 * v) && bytes_stay{Pre, Here}(8 + 4 * v, 260);
    //@ assert result == 0 ==> bytes_stay{Pre, Here}(0, 260);
}

/*@ requires label <= 64 && (keyed.reached == 0 || (BEGUN));
    assigns beacons, beacon_of; exits \false; */
void a_beacon_is_sent_after_the_beginning(uint8_t label)
{
    dumpulse_keyed_beacon(&keyed, label, NULL);
    //@ assert keyed.reached == 0 ==> BEFORE(beacons) && BEFORE(beacon_of);
    //@ assert keyed.reached != 0 ==> beacons == \at(beacons, Pre) + 1 && beacon_of == label;
}

/*@ requires watched == &keyed && (keyed.reached == 0 || (BEGUN));
    assigns keyed, call, beacons, beacon_of; exits \false; */
void epochs_grow(void)
{
    //@ ghost const uint8_t was = keyed.reached;
    const bool begun = dumpulse_keyed_next(&keyed, NULL);
    //@ assert other == \at(other, Pre) && bytes_stay{Pre, Here}(0, 260) && BEFORE(keyed.tag);
    //@ assert keyed.reached == 0 || (BEGUN);
    /*@ assert !begun ==> counts_stay{Pre, Here}(-1) && others_stay{Pre, Here} &&
          BEFORE(beacons) && BEFORE(keyed.wrong); */
    /*@ assert begun ==> beacons == \at(beacons, Pre) + 1 && beacon_of == keyed.reached - 1 &&
          keyed.last[keyed.reached - 1] == 0 && counts_stay{Pre, Here}(keyed.reached - 1); */
    //@ assert was == 0 ==> !begun && BEFORE(call.calls);
    /*@ assert 0 < was < 65 ==> begun && BEFORE(call.calls) && BEFORE(keyed.epoch) &&
          BEFORE(keyed.wrong) && keyed.reached == was + 1 && BEFORE(call.number) &&
          (call.stored <==> \at(call.stored, Pre)); */
    /*@ assert was == 65 && begun ==> keyed.epoch == \at(keyed.epoch, Pre) + 1 &&
          keyed.reached == 1 && keyed.wrong == 0; */
    //@ assert was == 65 && \at(keyed.epoch, Pre) == 0x1FFFFFFF ==> !begun && BEFORE(call.calls);
    //@ assert was == 65 && \at(keyed.epoch, Pre) % 256 != 255 ==> begun && BEFORE(call.calls);
    /*@ assert was == 65 && \at(keyed.epoch, Pre) % 256 == 255 &&
          \at(keyed.epoch, Pre) < 0x1FFFFFFF ==> call.calls == \at(call.calls, Pre) + 1 &&
          256 * call.number == \at(keyed.epoch, Pre) + 1 && (begun <==> call.stored) &&
          call.epoch == \at(keyed.epoch, Pre) && call.reached == was; */
    /*@ assert was == 65 && \at(keyed.epoch, Pre) % 256 == 255 &&
          \at(keyed.epoch, Pre) < 0x1FFFFFFF ==>
          \forall integer i; 0 <= i < 65 ==> call.last[i] == \at(keyed.last[i], Pre); */
}

/*@ requires watched == &keyed;
    assigns keyed, call; exits \false; */
void an_agent_begins(void)
{
    const dumpulse_beginning beginning = dumpulse_keyed_begin(&keyed);
    //@ assert other == \at(other, Pre) && bytes_stay{Pre, Here}(0, 260) && BEFORE(keyed.tag);
    //@ assert beginning != DUMPULSE_BEGUN ==> keyed.reached == 0;
    //@ assert \at(kept, Pre) == 0xFFFFFF ==> beginning == DUMPULSE_NO_NUMBER && BEFORE(call.calls);
    /*@ assert 0x1FFFFF <= \at(kept, Pre) && \at(kept, Pre) != 0xFFFFFF ==>
          beginning == DUMPULSE_USED_UP && BEFORE(call.calls); */
    /*@ assert \at(kept, Pre) < 0x1FFFFF ==> call.calls == \at(call.calls, Pre) + 1 &&
          call.number == \at(kept, Pre) + 1 && call.reached == 0 &&
          beginning == (call.stored ? DUMPULSE_BEGUN : DUMPULSE_NOT_STORED); */
    /*@ assert beginning == DUMPULSE_BEGUN ==> BEGUN && keyed.reached == 65 && keyed.wrong == 0 &&
          keyed.epoch == 256 * call.number; */
    /*@ assert beginning == DUMPULSE_BEGUN ==>
          \forall integer i; 0 <= i < 65 ==> keyed.last[i] == 0; */
}

/*@ requires v < 64;
    assigns keyed.last[v]; exits \false; */
void a_key_is_renewed(uint8_t v)
{
    dumpulse_keyed_renew(&keyed, v);
    //@ assert keyed.last[v] == 0 && others_stay{Pre, Here};
}

#define IS_BEACON length == 8 && packet[4] < 0x20 && TAGGED(label, big(&packet[4]))

/*@ assigns node.epoch, node.left, node.heard, node.answered; exits \false; */
void a_node_receives_its_beacon(uint8_t label, size_t length)
{
    //@ ghost const uint32_t was = node.epoch;
    const bool is_later = dumpulse_hear(&node, label, packet, length);
    //@ assert is_later <==> IS_BEACON && big(&packet[4]) > was;
    //@ assert is_later ==> node.epoch == big(&packet[4]) && node.left == 255;
    //@ assert is_later ==> node.answered == node.questions;
    /*@ assert !is_later ==>
          node.epoch == was && BEFORE(node.left) && BEFORE(node.answered); */
    //@ assert IS_BEACON && big(&packet[4]) >= was ==> node.heard;
    //@ assert !(IS_BEACON && big(&packet[4]) >= was) ==> (node.heard <==> \at(node.heard, Pre));
}

/*@ assigns node.left, packet[0 .. 7]; exits \false; */
void a_node_makes_a_heartbeat(uint8_t v, uint8_t sender, uint8_t value)
{
    const bool is_made = dumpulse_keyed_heartbeat(&node, packet, v, sender, value);
    //@ assert is_made <==> \at(node.left, Pre) != 0 && v < 64;
    //@ assert is_made ==> node.left == \at(node.left, Pre) - 1;
    //@ assert !is_made ==> BEFORE(node.left);
    /*@ assert is_made ==> TAGGED(v, node.epoch) && packet[4] == 0x80 + v &&
          packet[5] == 255 - node.left && packet[6] == sender && packet[7] == value; */
    /*@ assert !is_made ==> \forall integer i; 0 <= i < 8 ==> packet[i] == \at(packet[i], Pre); */
}

/*@ requires label <= 64;
    assigns packet[0 .. 7]; exits \false; */
void a_node_asks(uint8_t label)
{
    dumpulse_ask(packet, label);
    //@ assert packet[4] == 0x80 + label && packet[5] == 0;
}

/*@ assigns reader.heard.left, reader.epoch, reader.asked[0 .. 7], packet[0 .. 7]; exits \false; */
void a_reader_requests(void)
{
    const bool is_made = dumpulse_keyed_request(&reader, packet, nonce);
    //@ assert is_made <==> \at(reader.heard.left, Pre) != 0;
    //@ assert is_made ==> reader.heard.left == \at(reader.heard.left, Pre) - 1;
    //@ assert is_made ==> reader.epoch == reader.heard.epoch;
    //@ assert !is_made ==> BEFORE(reader.heard.left) && BEFORE(reader.epoch);
    /*@ assert is_made ==> TAGGED(64, reader.epoch) && packet[4] == 0xC0 &&
          packet[5] == 255 - reader.heard.left && packet[6] == nonce[0] && packet[7] == nonce[1]; */
    //@ assert is_made ==> \forall integer k; 0 <= k < 8 ==> reader.asked[k] == packet[k];
    /*@ assert !is_made ==> \forall integer k; 0 <= k < 8 ==>
          packet[k] == \at(packet[k], Pre) && reader.asked[k] == \at(reader.asked[k], Pre); */
}

/*@ assigns reader.epoch, received[0 .. 7]; exits \false; */
void a_report_is_accepted_once(size_t length)
{
    //@ ghost const uint32_t waited = reader.epoch;
    const bool is_authentic = believed(&reader, received, length);
    /*@ assert is_authentic <==> length == 264 && waited != 0 && waited == reader.heard.epoch &&
          (\forall integer k; 0 <= k < 8 ==> \at(received[k] ==
            report_tag(k, word(&reader.asked[0] + 4), reader.epoch, &received[0]), Pre)); */
    //@ assert reader.epoch == (is_authentic ? 0 : waited);
    //@ assert \forall integer k; 0 <= k < 264 ==> received[k] == \at(received[k], Pre);
}

/* What is not proved relies on its callers for this. */
bool dumpulse_store(uint32_t number)
{
    (void)number;
    //@ assert watched == \null || \valid_read(watched);
    return false;
}

bool dumpulse_right_(const uint8_t *bytes, uint8_t label, uint32_t number)
{
    (void)bytes, (void)label, (void)number;
    //@ assert \valid_read(bytes + (0 .. 7));
    return false;
}

void dumpulse_make_(uint8_t *bytes, uint8_t label, uint32_t number)
{
    (void)bytes, (void)label, (void)number;
    //@ assert \valid(bytes + (0 .. 7));
}

void dumpulse_report_tag_(const uint8_t *request, uint32_t number, uint8_t *report)
{
    (void)request, (void)number, (void)report;
    //@ assert \valid_read(request + (0 .. 7)) && \valid(report + (0 .. 263));
    //@ assert \separated(request + (0 .. 7), report + (0 .. 263));
}

void dumpulse_keyed_beacon(const dumpulse_keyed *agent, uint8_t label, void *context)
{
    (void)agent, (void)label, (void)context;
    //@ assert \valid_read(agent) && label <= 64 && agent->reached <= 65;
    //@ assert agent->reached != 0 ==> 256 <= agent->epoch <= 0x1FFFFFFF;
}

#endif
