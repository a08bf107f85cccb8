/* What the agent must put out; see storm.h.   SPDX-License-Identifier: MIT
 *
 * The reference gets each packet when the agent does, and computes what becomes of it: the table,
 * the answers, the counter. Only the epochs of version 2 are those of the agent: oracle.c has the
 * claims about these. */
#include "storm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/counters.h"
#include "server/hook.h"
#include "server/hook_internal.h"
#include "server/keys_internal.h"
#include "server/snapshot.h"
#include "server/table.h"

enum {
    WRAP = 65536,        /* ticks: a timestamp has 16 bits */
    TOO_OLD = 64992,     /* ticks of an entry that is forgotten */
    AHEAD = 240,         /* ticks that an entry may be younger than its file */
    LOGGED_AT_ONCE = 100 /* lines about changes; then one a second */
};

static struct outputs *outputs(void)
{
    return &world->truth.outputs;
}

/* Where a table or a report has the entry of a variable. */
static size_t entry_at(unsigned variable)
{
    return 4 + (size_t)4 * variable;
}

static uint64_t ticks_now(void)
{
    return machine_unix() / (world->tick * MS);
}

/* SPEC.md: Adler-32 of what follows it. */
static uint32_t adler_of(const uint8_t *bytes, size_t size)
{
    uint32_t a = 1, b = 0;

    for (size_t i = 4; i < size; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

/* ---- Limits: so many a second, and so many at once. */

static bool has_left(uint64_t full_at, uint64_t now, uint64_t rate, uint64_t burst)
{
    return full_at <= now + (SECOND + rate - 1) / rate * (burst - 1);
}

static void use(uint64_t *full_at, uint64_t now, uint64_t rate)
{
    *full_at = (*full_at > now ? *full_at : now) + (SECOND + rate - 1) / rate;
}

/* ---- Packets. */

static bool may_read(unsigned party)
{
    return world->chosen.allow ? (world->chosen.readers >> party & 1) != 0 : world->keyed;
}

bool reference_may_send(unsigned party)
{
    return !world->chosen.allow_heartbeats || (world->chosen.senders >> party & 1) != 0;
}

static struct due *due(unsigned place)
{
    return &outputs()->due[(outputs()->first + place) % DUE];
}

static struct due *expect(unsigned to, size_t length)
{
    struct outputs *const it = outputs();
    struct due *const last = due(it->count++);

    CLAIM(REPORTED, true, it->count <= DUE, "%u answers are due", it->count);
    last->to = (uint8_t)to;
    last->length = length;
    return last;
}

/* The sum or the tag comes before the entries. */
static struct due *expect_report(unsigned to, size_t length)
{
    struct due *const report = expect(to, length);

    memcpy(report->bytes + length - ENTRIES, outputs()->table + 4, ENTRIES);
    return report;
}

static void record(unsigned variable, const uint8_t *sender_and_value, uint16_t stamp)
{
    uint8_t *const entry = outputs()->table + entry_at(variable);

    entry[0] = (uint8_t)(stamp >> 8);
    entry[1] = (uint8_t)stamp;
    memcpy(entry + 2, sender_and_value, 2);
}

/* The agent records its own heartbeat before each report. Its other packets may have taken time. */
static void record_self(bool now)
{
    uint8_t *const entry = outputs()->table + entry_at(world->chosen.self);

    if (world->chosen.self == 0)
        return;
    if (now)
        dumpulse_write_(entry, (uint32_t)ticks_now() << 16 | world->chosen.self_sender << 8 |
                                   table_own_value());
    else
        memcpy(entry, world->truth.table + entry_at(world->chosen.self), 4);
}

/* By the rules of server/limits.h: when all together get no more, a round begins. It ends when none
 * was refused for that for a second. Until then, each source gets one report. */
static bool has_turn(unsigned from, uint64_t now)
{
    struct outputs *const it = outputs();
    const unsigned total = world->chosen.rate_total;

    if (total == 0)
        return true;
    if (now < it->round_ends && it->of[from].got_at != 0 && it->of[from].got_at >= it->round_begun)
        return false;
    if (has_left(it->all.full_at, now, total, total)) {
        use(&it->all.full_at, now, total);
        it->of[from].got_at = now;
        return true;
    }
    if (now >= it->round_ends)
        it->round_begun = now >= it->round_ends + SECOND ? now - SECOND : it->round_ends;
    it->round_ends = now + SECOND;
    return false;
}

static size_t take_request(unsigned from)
{
    uint64_t *const full_at = &outputs()->of[from].full_at;

    if (machine_has_bus())
        return COUNT_REPORTS;
    if (!may_read(from))
        return COUNT_NOT_ALLOWED;
    if (!has_left(*full_at, outputs()->batch_at, world->rate, world->burst))
        return COUNT_RATE;
    if (!has_turn(from, outputs()->batch_at))
        return COUNT_RATE;
    use(full_at, outputs()->batch_at, world->rate);
    record_self(true);
    (void)expect_report(from, DUMPULSE_REPORT_SIZE);
    return COUNT_REPORTS;
}

/* Returns the counter, by the rules of udpserver.8. */
static size_t take_unkeyed(const struct waiting *packet)
{
    static const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
    const uint8_t *const bytes = packet->bytes;

    if (packet->length != DUMPULSE_PACKET_SIZE)
        return COUNT_LENGTH;
    if (memcmp(bytes, request, sizeof request) == 0)
        return take_request(packet->from);
    if (!reference_may_send(packet->from))
        return COUNT_NOT_ALLOWED;
    if (bytes[4] != DUMPULSE_MAGIC)
        return COUNT_MAGIC;
    if (dumpulse_read_(bytes) != adler_of(bytes, DUMPULSE_PACKET_SIZE))
        return COUNT_CHECKSUM;
    if (bytes[5] >= DUMPULSE_VARIABLES)
        return COUNT_VARIABLE;
    record(bytes[5], bytes + 6, (uint16_t)ticks_now());
    return COUNT_HEARTBEATS;
}

static bool is_request(const uint8_t *packet)
{
    return packet[4] == DUMPULSE_IS_HEARTBEAT_ + DUMPULSE_READER_LABEL && packet[5] != 0;
}

static bool asks(const uint8_t *packet)
{
    return packet[4] - (unsigned)DUMPULSE_IS_HEARTBEAT_ <= DUMPULSE_READER_LABEL && packet[5] == 0;
}

/* The same. Returns COUNTERS if keys decide. */
static size_t take_keyed(const struct waiting *packet)
{
    struct outputs *const it = outputs();

    if (packet->length != DUMPULSE_PACKET_SIZE)
        return COUNT_LENGTH;
    if (is_request(packet->bytes) && !may_read(packet->from))
        return COUNT_NOT_ALLOWED;
    if (!is_request(packet->bytes) && !asks(packet->bytes) && !reference_may_send(packet->from))
        return COUNT_NOT_ALLOWED;
    if (!machine_has_bus())
        it->keyed[it->keyed_count++ % BATCH] = *packet;
    return COUNTERS;
}

void reference_takes(const struct waiting *packet)
{
    const size_t counter = world->keyed ? take_keyed(packet) : take_unkeyed(packet);

    outputs()->counts[COUNT_PACKETS]++;
    if (counter != COUNTERS)
        outputs()->counts[counter]++;
}

/* ---- Packets of version 2. */

static const struct keys *const both[] = {&keys, &keys_before};

uint32_t reference_epoch(bool before, unsigned label)
{
    return both[before]->keyed.epoch - (label >= both[before]->keyed.reached);
}

/* Until world->key is NULL again, the library uses the key of this label. */
static void use_key(bool before, unsigned label)
{
    const uint8_t generation = label < NODES ? world->truth.names.generations[before][label] : 0;

    nodes_make_key(outputs()->key, label, before, generation);
    world->key = outputs()->key;
}

static bool has_tag(bool before, unsigned label, const uint8_t *packet)
{
    use_key(before, label);
    const bool is_right = dumpulse_right_(packet, (uint8_t)label, reference_epoch(before, label));
    world->key = NULL;
    return is_right;
}

static void make_beacon(bool before, unsigned label, uint8_t packet[DUMPULSE_PACKET_SIZE])
{
    use_key(before, label);
    dumpulse_write_(packet + 4, reference_epoch(before, label));
    dumpulse_make_(packet, (uint8_t)label, reference_epoch(before, label));
    world->key = NULL;
}

/* Under the key before, once it was heard under the new one, or if that key was lost. */
static bool is_retired(bool before, unsigned label)
{
    return before && label < NODES &&
           ((outputs()->retired >> label & 1) != 0 ||
            world->truth.names.generations[false][label] != 0);
}

static void expect_beacon(bool before, unsigned to, unsigned label)
{
    if (both[before]->keyed.reached != 0 && !is_retired(before, label) && !machine_has_bus())
        make_beacon(before, label, expect(to, DUMPULSE_PACKET_SIZE)->bytes);
}

static void answer(bool before, unsigned to, const uint8_t *request)
{
    struct due *const report = expect_report(to, DUMPULSE_KEYED_REPORT_SIZE);

    use_key(before, DUMPULSE_READER_LABEL);
    dumpulse_report_tag_(request, reference_epoch(before, DUMPULSE_READER_LABEL), report->bytes);
    world->key = NULL;
}

/* Returns the counter, if there were no other key. Each key and each epoch has counts of its own.
 */
static size_t judge(bool before, const uint8_t *packet)
{
    const unsigned label = packet[4] - (unsigned)DUMPULSE_IS_HEARTBEAT_;

    if (label > DUMPULSE_READER_LABEL)
        return COUNT_MAGIC;
    if (is_retired(before, label) || both[before]->keyed.reached == 0)
        return COUNT_OLD;
    if (packet[5] == 0)
        return COUNT_BEACONS;
    struct counted *const it = &outputs()->counted[before][label];
    const uint8_t generation = label < NODES ? world->truth.names.generations[before][label] : 0;
    const uint32_t epoch = reference_epoch(before, label);
    if (it->epoch != epoch || it->generation != generation)
        *it = (struct counted){epoch, generation, 0};
    if (packet[5] <= it->last)
        return COUNT_OLD;
    if (!has_tag(before, label, packet))
        return COUNT_TAG;
    it->last = packet[5];
    return label == DUMPULSE_READER_LABEL ? COUNT_REPORTS : COUNT_HEARTBEATS;
}

static bool is_taken(size_t counter)
{
    return counter == COUNT_REPORTS || counter == COUNT_HEARTBEATS;
}

static void hear(bool before, const uint8_t *packet, uint16_t stamp)
{
    struct outputs *const it = outputs();
    const unsigned node = packet[4] - (unsigned)DUMPULSE_IS_HEARTBEAT_;

    record(node, packet + 6, stamp);
    if (before)
        it->before |= 1U << node % NODES;
    else if (it->takes_before)
        it->retired |= 1U << node % NODES;
}

/* Returns the counter. "Two master keys at the same time" in spec/keyed.md: the key before is tried
 * first. */
static size_t take_with_keys(unsigned from, const uint8_t *packet, uint16_t stamp)
{
    const bool two = outputs()->takes_before, asks = packet[5] == 0;
    const unsigned label = packet[4] - (unsigned)DUMPULSE_IS_HEARTBEAT_;
    size_t counter = two && !asks ? judge(true, packet) : COUNTERS;
    const bool before = is_taken(counter);

    if (!before)
        counter = judge(false, packet);
    if (counter == COUNT_HEARTBEATS)
        hear(before, packet, stamp);
    if (counter == COUNT_REPORTS)
        answer(before, from, packet);
    if (counter != COUNT_BEACONS &&
        (is_taken(counter) || !is_request(packet) || keys.keyed.reached == 0))
        return counter;
    expect_beacon(false, from, label);
    if (two)
        expect_beacon(true, from, label);
    return COUNT_BEACONS;
}

uint64_t __real_overlap_left(void);
uint64_t __wrap_overlap_left(void)
{
    outputs()->takes_before = oracle_takes_before();
    return __real_overlap_left();
}

/* The agent begins epochs before it looks at the packet, and may write to a slow disk after it. */
size_t __real_keys_take(const uint8_t *packet, void *to);
size_t __wrap_keys_take(const uint8_t *packet, void *to)
{
    struct outputs *const it = outputs();
    const struct waiting *const next = &it->keyed[it->keyed_first++ % BATCH];
    const uint64_t began = machine_boot();
    const size_t counter = __real_keys_take(packet, to);
    const unsigned node = (packet[4] - (unsigned)DUMPULSE_IS_HEARTBEAT_) % NODES;

    oracle_look();
    CLAIM(COUNTED, !machine_has_bus(),
          it->keyed_first <= it->keyed_count &&
              memcmp(next->bytes, packet, DUMPULSE_PACKET_SIZE) == 0,
          "packets are not taken in their order");
    const uint64_t stamp = machine_boot() == began ? ticks_now() : world->truth.of[node].stamped;
    if (is_request(packet))
        record_self(false);
    const size_t right = take_with_keys(next->from, packet, (uint16_t)stamp);
    CLAIM(COUNTED, true, counter == right, "a packet counts as \"%s\", not as \"%s\"",
          counters_names[counter].readable, counters_names[right].readable);
    it->counts[right]++;
    return counter;
}

void reference_reaps(int status)
{
    outputs()->counts[COUNT_FAILED_PROGRAMS] += status != 0;
}

/* ---- Reports and beacons. */

/* The sum of version 1 is made only now: until it leaves, an entry may be forgotten. */
static bool is_due(const uint8_t *packet, size_t length, struct due *due)
{
    if (length == DUMPULSE_REPORT_SIZE)
        dumpulse_write_(due->bytes, adler_of(due->bytes, length));
    return due->length == length && memcmp(due->bytes, packet, length) == 0;
}

static void say_what_is_wrong(const uint8_t *packet, const struct due *due)
{
    for (size_t at = 0; at < due->length; at += 4)
        if (memcmp(packet + at, due->bytes + at, 4) != 0)
            world_say("at byte %u it has %08x, not %08x", (unsigned)at, dumpulse_read_(packet + at),
                      dumpulse_read_(due->bytes + at));
}

static void is_done(void)
{
    outputs()->first++;
    outputs()->count--;
}

/* On a bus one report leaves, and one of version 2 may wait. */
static void keep_on_bus(void)
{
    while (machine_has_bus() && outputs()->count > (world->keyed ? 2 : 1))
        is_done();
}

/* On a bus, a report of version 1 is made when it begins to leave. */
void __real_dumpulse_send_packet(void *context, const uint8_t *packet, size_t length);
void __wrap_dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    oracle_look();
    record_self(false);
    if (length == DUMPULSE_REPORT_SIZE)
        (void)expect_report(AGENT, length);
    keep_on_bus();
    __real_dumpulse_send_packet(context, packet, length);
}

void reference_sends(unsigned to, const uint8_t *packet, size_t length)
{
    const bool any = outputs()->count != 0, is_beacon = length == DUMPULSE_PACKET_SIZE;

    CLAIM(ALLOWED, !is_beacon, may_read(to), "10.0.0.%u gets a report, and is not allowed to", to);
    if (any && !is_due(packet, length, due(0)) && due(0)->length == length)
        say_what_is_wrong(packet, due(0));
    CLAIM(is_beacon ? ANSWERED : REPORTED, true,
          any && due(0)->to == to && is_due(packet, length, due(0)),
          "10.0.0.%u gets %u bytes that are not what is due", to, (unsigned)length);
    is_done();
}

/* The second beacon of an answer is not counted. */
void reference_does_not_send(size_t length, bool is_second)
{
    struct outputs *const it = outputs();

    it->counts[COUNT_UNSENT] += !is_second;
    it->counts[length == DUMPULSE_PACKET_SIZE ? COUNT_BEACONS : COUNT_REPORTS] -= !is_second;
    is_done();
}

void reference_sends_on_bus(const uint8_t *report, size_t length)
{
    unsigned i = 0;

    while (i < outputs()->count && !is_due(report, length, due(i)))
        i++;
    for (unsigned j = 0; j < outputs()->count && i == outputs()->count; j++)
        say_what_is_wrong(report, due(j));
    CLAIM(REPORTED, true, i < outputs()->count, "a report leaves that was not made");
}

/* The beacon of a new epoch. */
void reference_tells(unsigned node, const uint8_t *packet)
{
    uint8_t right[2][DUMPULSE_PACKET_SIZE];

    for (unsigned before = 0; before < 2; before++) {
        make_beacon(before, node, right[before]);
        if (memcmp(packet, right[before], sizeof right[before]) != 0)
            continue;
        outputs()->told_epoch[before][node] = reference_epoch(before, node);
        return;
    }
    CLAIM(TOLD, true, false, "variable %u gets a beacon that is not its own", node);
}

/* From one epoch of a node to the next one. An agent that is busy is not looked at for 3 s. */
static void check_length(bool before, unsigned node, bool is_next)
{
    uint64_t *const at = &outputs()->epoch_at[before][node];
    const uint64_t now = machine_steady(), lasted = now - *at, length = world->epoch * SECOND;
    const uint64_t slack = length / 10 + 4 * SECOND;

    CLAIM(TOLD, is_next && *at > world->truth.disturbed && oracle_is_calm(),
          lasted + slack > length && lasted < length + slack,
          "an epoch of variable %u lasted %llu ms", node, (unsigned long long)(lasted / MS));
    *at = oracle_is_calm() && is_next ? now : 0;
}

/* A node that was heard in the last three epochs gets the beacon of each new one. One that was
 * heard since the last look may have been heard after the epoch began. */
static void check_told(bool before, unsigned node)
{
    const uint64_t taken = world->truth.of[node].taken;
    const uint32_t epoch = reference_epoch(before, node);

    if (both[before]->keyed.reached == 0 || outputs()->idle_epoch[before][node] == epoch)
        return;
    CLAIM(TOLD,
          outputs()->idle_epoch[before][node] != 0 && taken != 0 && taken <= outputs()->idle_at &&
              oracle_is_calm() && !machine_has_bus() && !is_retired(before, node) &&
              (!before || oracle_takes_before()) &&
              machine_steady() - taken < (3 * world->epoch - 1) * SECOND,
          outputs()->told_epoch[before][node] == epoch,
          "variable %u does not get the beacon of epoch %u", node, epoch);
    check_length(before, node, epoch == outputs()->idle_epoch[before][node] + 1);
    outputs()->idle_epoch[before][node] = epoch;
}

/* The answers to the batch before have left. */
void reference_begins_batch(void)
{
    struct outputs *const it = outputs();

    if (machine_has_bus())
        return;
    CLAIM(REPORTED, true, it->count == 0, "%u answers are due, and do not leave", it->count);
    CLAIM(COUNTED, true, it->keyed_first == it->keyed_count, "packets are not taken");
    it->batch_at = machine_steady();
}

static void check_logged(void)
{
    CLAIM(LOGGED, true, outputs()->line[0] == '\0', "this is not logged: %.120s", outputs()->line);
}

static void check_signals(void)
{
    const struct outputs *const it = outputs();
    bool is_left = false;

    for (unsigned i = 0; i < PROGRAMS; i++)
        is_left |= world->machine.programs[i].number != 0 && world->machine.programs[i].ended;
    CLAIM(PROMPT, true, !it->is_ending && it->hups == 0 && it->usr1s == 0 && !is_left,
          "a signal waits: %s",
          it->is_ending ? "to end"
          : it->hups    ? "to read its files"
          : it->usr1s   ? "to print its counters"
                        : "a program has ended");
}

void reference_idle(void)
{
    struct outputs *const it = outputs();

    check_signals();
    check_logged();
    if (machine_has_bus())
        record_self(false); /* The request has got no report yet. */
    CLAIM(FORGED, true, memcmp(it->table, world->truth.table, DUMPULSE_REPORT_SIZE) == 0,
          "the table is not what packets have made it");
    reference_begins_batch();
    for (unsigned i = 0; i < 2 * NODES && world->keyed; i++)
        check_told(i >= NODES, i % NODES);
    it->idle_at = machine_steady();
}

static void forget_in(uint8_t *table, unsigned node, const uint8_t *entry)
{
    if (memcmp(table + entry_at(node), entry, 4) == 0)
        memset(table + entry_at(node), 0, 4);
}

/* It may have been heard again since, in the same batch. After the clock was set back, it may look
 * very old. */
void reference_forgets(unsigned node, const uint8_t *entry)
{
    struct outputs *const it = outputs();
    const uint64_t taken = node < NODES ? world->truth.of[node].taken : 0;
    const uint64_t since = taken != 0 ? taken : world->truth.served_from;

    forget_in(it->table, node, entry);
    for (unsigned i = 0; i < it->count && !world->keyed && !machine_has_bus(); i++)
        forget_in(due(i)->bytes, node, entry);
    CLAIM(FORGOTTEN,
          node < NODES && since != 0 && since > world->truth.clock_set && world->machine.still == 0,
          !world->chosen.keep_old && ticks_now() - world->truth.of[node].stamped >= TOO_OLD,
          "variable %u: its entry is forgotten after %llu ticks", node,
          (unsigned long long)(ticks_now() - world->truth.of[node].stamped));
}

/* ---- What it says. */

static void name_of(unsigned node, char name[24])
{
    name[0] = '\0';
    if ((world->truth.names.left_out >> node & 1) == 0)
        (void)snprintf(name, 24, "n%u.%u", node, world->truth.names.edition);
}

void reference_changes(unsigned node, unsigned was, unsigned is)
{
    struct outputs *const it = outputs();

    it->counts[COUNT_CHANGES]++;
    it->changed[(it->change_first + it->changing++) % DUE] =
        (struct changed){machine_steady(), (uint8_t)node, (uint8_t)was, (uint8_t)is};
    it->changed_at = machine_steady();
}

/* It must be stored before, unless that takes too long. On a good disk it does not. */
static void check_stored(const struct alarms_change *change, uint64_t since)
{
    const size_t at = SNAPSHOT_ALARMS_AT + 8 * (size_t)change->variable;

    CLAIM(STORED, !world->chosen.no_state && !outputs()->is_ending && oracle_is_calm(),
          disk_least_number("", at) >= change->number,
          "variable %u: change %u is told, and a power cut would leave %u", change->variable,
          (unsigned)change->number, (unsigned)disk_least_number("", at));
    CLAIM(LOGGED, oracle_is_calm(), machine_steady() - since <= oracle_tells_within(),
          "variable %u: a change waits for %llu ms", change->variable,
          (unsigned long long)((machine_steady() - since) / MS));
}

/* A change is told now. Before the agent serves, that is one which the last run has not told. */
void __real_alarms_log(const struct alarms_change *change);
void __wrap_alarms_log(const struct alarms_change *change)
{
    struct outputs *const it = outputs();
    const struct changed *const next = &it->changed[it->change_first % DUE];
    char name[24];

    if (world->truth.serves) {
        CLAIM(LOGGED, true,
              it->changing != 0 && next->node == change->variable && next->was == change->was &&
                  next->is == change->is,
              "variable %u: a change is told that is not the next one", change->variable);
        check_stored(change, next->at);
        it->change_first++;
        it->changing--;
    }
    __real_alarms_log(change);
    check_logged();
    if (!has_left(it->logged, machine_steady(), 1, LOGGED_AT_ONCE)) {
        it->unsaid++;
        return;
    }
    use(&it->logged, machine_steady(), 1);
    name_of(change->variable, name);
    (void)snprintf(it->line, LINE, "variable %u%s%s: %s, was %s; number %u", change->variable,
                   *name == '\0' ? "" : " ", name, hook_states[change->is],
                   hook_states[change->was], (unsigned)change->number);
}

void reference_starts(char *const arguments[], unsigned variable)
{
    char name[24];

    outputs()->told++;
    name_of(variable, name);
    CLAIM(LOGGED, true, strcmp(arguments[2], name) == 0, "the program gets the name %s, not %s",
          arguments[2], name);
}

/* The number after this name in a line of counters. */
static uint64_t number_in(const char *line, const char *name)
{
    const char *const at = strstr(line, name);

    return at == NULL ? UINT64_MAX : strtoull(at + strlen(name), NULL, 10);
}

/* Counters whose numbers are known. */
enum { ALWAYS = 1, UDP = 2 };
static const unsigned known[COUNTERS] = {
    [COUNT_PACKETS] = UDP,
    [COUNT_HEARTBEATS] = ALWAYS,
    [COUNT_REPORTS] = UDP,
    [COUNT_BEACONS] = ALWAYS,
    [COUNT_LENGTH] = UDP,
    [COUNT_MAGIC] = UDP,
    [COUNT_CHECKSUM] = ALWAYS,
    [COUNT_VARIABLE] = ALWAYS,
    [COUNT_NOT_ALLOWED] = UDP,
    [COUNT_RATE] = UDP,
    [COUNT_OLD] = ALWAYS,
    [COUNT_TAG] = ALWAYS,
    [COUNT_UNSENT] = UDP,
    [COUNT_DROPS] = ALWAYS,
    [COUNT_BEFORE] = ALWAYS,
    [COUNT_CHANGES] = ALWAYS,
    [COUNT_FAILED_PROGRAMS] = ALWAYS,
};

static void check_counters(const char *line)
{
    struct outputs *const it = outputs();

    oracle_look();
    it->counts[COUNT_DROPS] = world->machine.drops;
    it->counts[COUNT_BEFORE] =
        (uint64_t)__builtin_popcount(it->before & ~(unsigned)keys_before.stored.retired);
    if (!oracle_takes_before())
        it->counts[COUNT_BEFORE] = number_in(line, counters_names[COUNT_BEFORE].readable);
    for (unsigned i = 0; i < COUNTERS; i++) {
        char name[40];
        (void)snprintf(name, sizeof name, "%s ", counters_names[i].readable);
        const uint64_t number = number_in(line, name);
        CLAIM(COUNTED,
              known[i] != 0 && number != UINT64_MAX && (known[i] != UDP || !machine_has_bus()),
              number == it->counts[i], "the counter \"%s\" is %llu, not %llu", name,
              (unsigned long long)number, (unsigned long long)it->counts[i]);
    }
    CLAIM(COUNTED, it->failed_saves != 0,
          number_in(line, counters_names[COUNT_FAILED_SAVES].readable) >= it->failed_saves,
          "of %u failures of a save that are logged, fewer are counted", it->failed_saves);
    /* If it is stored, the next run tells what waits at the end. Otherwise, it counts as not
     * told. */
    uint64_t left = 0;
    for (unsigned i = 0; i < NODES && !world->chosen.no_state && state_is_saved(); i++)
        left += hook.of[i].count;
    CLAIM(COUNTED, world->chosen.exec && it->is_ending && it->usr1s == 0,
          number_in(line, ", not told ") + it->told + left ==
              it->counts[COUNT_CHANGES] + it->carried,
          "of %llu changes, %llu were told, and %llu wait",
          (unsigned long long)(it->counts[COUNT_CHANGES] + it->carried),
          (unsigned long long)it->told, (unsigned long long)left);
    it->usr1s = 0;
}

bool __wrap_log_write(int descriptor, const char *line, size_t length)
{
    char text[2048];

    if (descriptor != 1)
        return true;
    (void)snprintf(text, sizeof text, "%.*s", (int)length, line);
    check_counters(text);
    return true;
}

/* With keys, another file has lines like these. */
static void log_save(const char *line)
{
    struct outputs *const it = outputs();

    if (strncmp(line, "cannot write state: ", 20) == 0) {
        CLAIM(LOGGED, !world->keyed, strcmp(line, it->unwritten) != 0, "it is logged again: %.120s",
              line);
        it->failed_saves++;
        (void)snprintf(it->unwritten, sizeof it->unwritten, "%s", line);
        it->is_rewritten = false;
    } else if (strncmp(line, "state is written to ", 20) == 0) {
        CLAIM(LOGGED, !world->keyed, it->unwritten[0] != '\0' && it->is_rewritten,
              "nothing has failed before this is logged: %.120s", line);
        it->unwritten[0] = '\0';
    }
}

void reference_logged(const char *line)
{
    struct outputs *const it = outputs();
    char text[LINE];

    if (strstr(line, "has read its files again") != NULL || strstr(line, "nothing has changed"))
        it->hups = 0;
    if (strstr(line, "more changes: too many") != NULL) {
        (void)snprintf(text, sizeof text, "%u more changes: too many came at once", it->unsaid);
        CLAIM(LOGGED, true, strcmp(line, text) == 0, "it is not logged that there are %s", text);
        it->unsaid = 0;
        return;
    }
    log_save(line);
    if (strncmp(line, "variable ", 9) != 0 || strstr(line, ", was ") == NULL)
        return;
    CLAIM(LOGGED, true, it->unsaid == 0 && strcmp(line, it->line) == 0,
          "this is not logged: %.120s", it->line);
    it->line[0] = '\0';
}

/* These signals have come to the agent. */
void reference_signals(int number)
{
    outputs()->hups += number == SIGHUP;
    outputs()->usr1s += number == SIGUSR1;
    outputs()->is_ending |= number == SIGTERM;
}

/* ---- What it keeps. */

static uint64_t unix_in(const uint8_t *file)
{
    return (uint64_t)dumpulse_read_(file + SNAPSHOT_WRITTEN_AT) << 32 |
           dumpulse_read_(file + SNAPSHOT_WRITTEN_AT + 4);
}

void reference_loads(const struct file *file)
{
    struct outputs *const it = outputs();
    const bool again = memcmp(it->loaded, file->now, sizeof it->loaded) == 0;

    memcpy(it->loaded, file->now, sizeof it->loaded);
    it->loaded_size =
        dumpulse_read_(it->loaded + SNAPSHOT_CRC_AT) == snapshot_crc32(it->loaded, SNAPSHOT_CRC_AT)
            ? file->size
            : 0; /* it is damaged */
    it->is_damaged = it->loaded_size == 0 && file->size != 0;
    if (!again) /* it is read once more before it is replaced */
        it->loaded_at = machine_unix() / MS;
}

/* From the file, entries are as old as when it was written, if the clock was set back since. A
 * moment later, they may look very old then. */
static void check_loaded(unsigned node, const uint8_t *entry, uint64_t written, uint64_t then)
{
    const uint8_t *const now = world->truth.table + entry_at(node);
    const uint16_t ahead = (uint16_t)(entry[0] * 256U + entry[1] - written);
    const uint64_t stamped = written + ahead - (ahead < AHEAD ? 0 : WRAP);
    const uint64_t since = then > written ? then : written;
    const uint64_t since_begin = (machine_boot() - outputs()->begun) / (world->tick * MS);
    const uint64_t limit = world->chosen.keep_old ? WRAP : TOO_OLD;
    const bool is_set = dumpulse_read_(entry) != 0, is_old = since >= stamped + limit;
    const bool may_be_old = ticks_now() >= stamped + limit || ticks_now() < written + since_begin;

    world->truth.of[node].stamped = stamped;
    world->truth.of[node].restored = dumpulse_read_(now) != 0;
    if (world->truth.of[node].restored && outputs()->begun == machine_boot() &&
        world->machine.still == 0)
        world->truth.of[node].age = (since > stamped ? since - stamped : 0) * world->tick * MS + 1;
    CLAIM(RESTORED, true,
          (memcmp(now, entry, 4) == 0 && (!is_set || !is_old)) ||
              (dumpulse_read_(now) == 0 && (is_old || may_be_old)),
          "variable %u: it begins with %08x, and the file has %08x", node, dumpulse_read_(now),
          dumpulse_read_(entry));
}

/* What is not watched any more begins anew when it is watched again. */
static void restore_changes(void)
{
    struct outputs *const it = outputs();

    for (unsigned node = 0; node < NODES && !world->chosen.no_watch; node++) {
        const uint8_t *const bytes = it->loaded + SNAPSHOT_ALARMS_AT + 8 * (size_t)node;
        struct alarms_record record = {0};
        if (it->loaded_size == SNAPSHOT_SIZE)
            record = (struct alarms_record){
                .number = dumpulse_read_(bytes), .is = bytes[4] & 15, .untold = bytes[6]};
        if ((world->truth.names.left_out >> node & 1) != 0)
            record.is = record.untold = 0;
        if (world->chosen.exec && record.is != DUMPULSE_WAITING)
            it->carried += record.untold;
        oracle_restores(node, &record);
    }
}

/* The file was read just before the agent began to serve. */
void reference_serves(void)
{
    struct outputs *const it = outputs();
    const uint64_t tick = world->tick, written = unix_in(it->loaded) / tick;

    memcpy(it->table, world->truth.table, DUMPULSE_REPORT_SIZE);
    for (unsigned node = 0; node < NODES; node++)
        CLAIM(RESTORED, it->is_damaged, dumpulse_read_(it->table + entry_at(node)) == 0,
              "variable %u: it begins with an entry of a damaged file", node);
    it->retired = (unsigned)keys_before.numbers.retired;
    restore_changes();
    for (unsigned node = 0; node < NODES && it->loaded_size == SNAPSHOT_SIZE; node++)
        check_loaded(node, it->loaded + SNAPSHOT_ENTRIES_AT + (size_t)4 * node, written,
                     it->loaded_at / tick);
}

void reference_takes_state(void)
{
    struct outputs *const it = outputs();
    const unsigned every = world->chosen.state_every != 0 ? world->chosen.state_every : 10;
    const unsigned slower = it->saves == 0 ? 0 : it->saves < 6 ? 1U << (it->saves - 1) : every;
    const unsigned pause = slower < every ? slower : every;

    memcpy(it->taken, world->truth.table, DUMPULSE_REPORT_SIZE);
    CLAIM(LOGGED, !world->keyed, it->unwritten[0] == '\0' || !it->is_rewritten,
          "it is not logged that the table is written again, after: %.120s", it->unwritten);
    uint8_t records[ALARMS_SIZE];
    alarms_encode(records);
    CLAIM(UNCHANGED, oracle_is_calm(),
          memcmp(it->taken, it->saved, DUMPULSE_REPORT_SIZE) != 0 ||
              memcmp(records, it->records, sizeof records) != 0,
          "the table is saved, and has not changed");
    CLAIM(UNCHANGED, it->saves != 0 && it->changed_at < it->saving_at,
          machine_steady() - it->saving_at >= pause * SECOND,
          "the table is saved %llu ms after it was saved",
          (unsigned long long)((machine_steady() - it->saving_at) / MS));
    it->saves++;
    it->saving_at = machine_steady();
    it->written_at = machine_unix() / MS;
}

static bool has_table(const struct file *file, const uint8_t *table)
{
    return memcmp(file->now + SNAPSHOT_ENTRIES_AT, table + 4, SNAPSHOT_ENTRIES_SIZE) == 0;
}

void reference_saves(const struct file *file)
{
    struct outputs *const it = outputs();
    const uint8_t *const table = world->machine.in_thread ? it->taken : world->truth.table;

    CLAIM(SAVED, true, file->size == SNAPSHOT_SIZE && has_table(file, table),
          "what is saved is not the table");
    CLAIM(SAVED, world->machine.in_thread, unix_in(file->now) == it->written_at,
          "a table of %llu ms is saved with the time %llu ms", (unsigned long long)it->written_at,
          (unsigned long long)unix_in(file->now));
    memcpy(it->saved, table, DUMPULSE_REPORT_SIZE);
    memcpy(it->records, file->now + SNAPSHOT_ALARMS_AT, sizeof it->records);
    it->is_rewritten = true;
}

void reference_ends(int status)
{
    const struct file *const file = disk_find("table");

    if (!world->truth.serves || status < 0)
        return;
    oracle_look();
    CLAIM(ENDS, oracle_is_disk_good(), status == 0, "the agent ends with status %d", status);
    CLAIM(ENDS, status == 0 && !world->chosen.no_state,
          file != NULL && has_table(file, world->truth.table),
          "the agent ends, and its table is not saved");
    for (unsigned node = 0; node < NODES; node++)
        CLAIM(ENDS, status == 0 && world->chosen.exec, alarms[node].untold <= hook.of[node].count,
              "variable %u: the next run would tell a change again", node);
}

void reference_begins(void)
{
    memset(outputs(), 0, sizeof *outputs());
    outputs()->begun = machine_boot();
    world->machine.drops = 0;
}
