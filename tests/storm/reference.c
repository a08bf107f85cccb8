/* What the agent must put out; see storm.h.   SPDX-License-Identifier: MIT
 *
 * The reference gets each packet when the agent does. In version 1 it knows what becomes of it: the
 * table, the answer, the counter. In version 2 the claims of oracle.c are about what is taken, and
 * those here about reports, sources and counters. */
#include "storm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/counters.h"
#include "server/keys_internal.h"
#include "server/snapshot.h"

enum {
    WRAP = 65536,         /* ticks: a timestamp has 16 bits */
    TOO_OLD = 64992,      /* ticks of an entry that is forgotten */
    AHEAD = 240,          /* ticks that an entry may be younger than its file */
    LOGGED_AT_ONCE = 100, /* lines about changes; then one a second */
    DUE = 64              /* reports: as many as packets of a batch */
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
    return (world->truth.names.readers >> party & 1) != 0;
}

static void expect_report(unsigned to, const uint8_t *table)
{
    struct outputs *const it = outputs();
    const unsigned at = (it->first + it->count++) % DUE;

    CLAIM(REPORTED, true, it->count <= DUE, "%u reports are due", it->count);
    it->due[at].to = (uint8_t)to;
    memcpy(it->due[at].table, table, DUMPULSE_REPORT_SIZE);
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
    use(full_at, outputs()->batch_at, world->rate);
    expect_report(from, outputs()->table);
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
    if (bytes[4] != DUMPULSE_MAGIC)
        return COUNT_MAGIC;
    if (dumpulse_read_(bytes) != adler_of(bytes, DUMPULSE_PACKET_SIZE))
        return COUNT_CHECKSUM;
    if (bytes[5] >= DUMPULSE_VARIABLES)
        return COUNT_VARIABLE;
    uint8_t *const entry = outputs()->table + entry_at(bytes[5]);
    entry[0] = (uint8_t)(ticks_now() >> 8);
    entry[1] = (uint8_t)ticks_now();
    entry[2] = bytes[6];
    entry[3] = bytes[7];
    return COUNT_HEARTBEATS;
}

/* The same. Returns COUNTERS if its tag and count decide. */
static size_t take_keyed(const struct waiting *packet)
{
    const uint8_t *const bytes = packet->bytes;
    const unsigned label = bytes[4] - (unsigned)DUMPULSE_IS_HEARTBEAT_;

    if (packet->length != DUMPULSE_PACKET_SIZE)
        return COUNT_LENGTH;
    if (label > DUMPULSE_READER_LABEL)
        return COUNT_MAGIC;
    if (bytes[5] == 0 && keys.keyed.reached != 0)
        outputs()->of[packet->from].asked++;
    return label == DUMPULSE_READER_LABEL && bytes[5] != 0 && !may_read(packet->from)
               ? COUNT_NOT_ALLOWED
               : COUNTERS;
}

void reference_takes(const struct waiting *packet)
{
    const size_t counter = world->keyed ? take_keyed(packet) : take_unkeyed(packet);

    outputs()->counts[COUNT_PACKETS]++;
    if (counter != COUNTERS)
        outputs()->counts[counter]++;
}

/* Of version 2: the claims of oracle.c hold for it. */
void reference_heard(unsigned node, bool before)
{
    struct outputs *const it = outputs();

    it->counts[COUNT_HEARTBEATS]++;
    if (before)
        it->before |= 1U << node;
    else if (oracle_takes_before())
        it->moved |= 1U << node;
}

void reference_reaps(int status)
{
    outputs()->counts[COUNT_FAILED_PROGRAMS] += status != 0;
}

/* ---- Reports and beacons. */

/* It may have forgotten an entry meanwhile. */
static void compare_report(const uint8_t *report, size_t length, const uint8_t *table)
{
    const size_t head = length - DUMPULSE_REPORT_SIZE; /* what version 2 has before its entries */

    CLAIM(REPORTED, !world->keyed, dumpulse_read_(report) == adler_of(report, DUMPULSE_REPORT_SIZE),
          "the checksum of a report is wrong");
    for (unsigned i = 0; i < DUMPULSE_VARIABLES; i++) {
        const uint8_t *const sent = report + head + entry_at(i), *const kept = table + entry_at(i);
        CLAIM(REPORTED, i < NODES || dumpulse_read_(sent) != 0, memcmp(sent, kept, 4) == 0,
              "a report has %08x of variable %u, and the table had %08x", dumpulse_read_(sent), i,
              dumpulse_read_(kept));
    }
}

/* On a bus one report leaves, and one of version 2 may wait. */
static unsigned kept_on_bus(void)
{
    return world->keyed ? 2 : 1;
}

/* The library makes reports of version 2, and all on a bus. */
void __real_dumpulse_send_packet(void *context, const uint8_t *packet, size_t length);
void __wrap_dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    struct outputs *const it = outputs();

    oracle_look();
    if (length != DUMPULSE_PACKET_SIZE) {
        compare_report(packet, length, world->truth.table);
        expect_report(AGENT, world->truth.table);
        if (machine_has_bus() && it->count > kept_on_bus()) {
            it->first++;
            it->count--;
        }
    }
    __real_dumpulse_send_packet(context, packet, length);
}

void reference_sends(unsigned to, const uint8_t *packet, size_t length)
{
    struct outputs *const it = outputs();
    const unsigned at = it->first % DUE;

    if (length == DUMPULSE_PACKET_SIZE) {
        it->of[to].answered++;
        return;
    }
    it->counts[COUNT_REPORTS] += world->keyed;
    CLAIM(ALLOWED, true, may_read(to), "10.0.0.%u gets a report, and is not allowed to", to);
    CLAIM(REPORTED, true, it->count != 0 && (world->keyed || it->due[at].to == to),
          "10.0.0.%u gets a report that is not due", to);
    compare_report(packet, length, it->due[at].table);
    it->first++;
    it->count--;
}

/* The second beacon of an answer is not counted. */
void reference_does_not_send(unsigned to, size_t length, bool is_second)
{
    struct outputs *const it = outputs();

    it->counts[COUNT_UNSENT] += !is_second;
    if (length == DUMPULSE_PACKET_SIZE) {
        it->of[to].answered++;
        return;
    }
    it->counts[COUNT_REPORTS] -= !world->keyed;
    it->first++;
    it->count--;
}

void reference_sends_on_bus(const uint8_t *report, size_t length)
{
    const size_t size = DUMPULSE_REPORT_SIZE - 4;
    const struct outputs *const it = outputs();
    unsigned i = 0;

    while (i < it->count &&
           memcmp(it->due[(it->first + i) % DUE].table + 4, report + length - size, size) != 0)
        i++;
    CLAIM(REPORTED, true, i < it->count, "a report leaves that was not made");
}

static void check_answers(unsigned party)
{
    const unsigned asked = outputs()->of[party].asked, answered = outputs()->of[party].answered;

    outputs()->of[party].asked = outputs()->of[party].answered = 0;
    CLAIM(ANSWERED, asked != 0, answered >= asked, "10.0.0.%u asks %u times, and gets %u beacons",
          party, asked, answered);
}

/* The answers to the batch before have left. */
void reference_begins_batch(void)
{
    struct outputs *const it = outputs();

    if (machine_has_bus())
        return;
    CLAIM(REPORTED, true, it->count == 0, "%u requests get no report", it->count);
    for (unsigned party = FIRST_NODE; party < PARTIES && world->keyed; party++)
        check_answers(party);
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
    if (!world->keyed)
        CLAIM(FORGED, true, memcmp(it->table, world->truth.table, DUMPULSE_REPORT_SIZE) == 0,
              "the table is not what packets have made it");
    reference_begins_batch();
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
    const uint64_t taken = world->truth.of[node].taken;
    const uint64_t since = taken != 0 ? taken : world->truth.served_from;

    forget_in(it->table, node, entry);
    for (unsigned i = 0; i < it->count && !world->keyed && !machine_has_bus(); i++)
        forget_in(it->due[(it->first + i) % DUE].table, node, entry);
    CLAIM(FORGOTTEN, since != 0 && since > world->truth.clock_set && world->machine.still == 0,
          ticks_now() - world->truth.of[node].stamped >= TOO_OLD,
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

void reference_changes(unsigned node, const char *was, const char *is)
{
    struct outputs *const it = outputs();
    char name[24];

    it->counts[COUNT_CHANGES]++;
    check_logged();
    if (!has_left(it->logged, machine_steady(), 1, LOGGED_AT_ONCE)) {
        it->unsaid++;
        return;
    }
    use(&it->logged, machine_steady(), 1);
    name_of(node, name);
    (void)snprintf(it->line, LINE, "variable %u %s: %s, was %s", node, name, is, was);
}

void reference_starts(char *const arguments[], unsigned variables)
{
    const int changes = __builtin_popcount(variables);
    char name[24] = "";

    outputs()->told += (uint64_t)changes;
    if (changes == 1)
        name_of((unsigned)strtoul(arguments[1], NULL, 10), name);
    CLAIM(LOGGED, true, strcmp(arguments[2], name) == 0, "the program gets the name %s, not %s",
          arguments[2], name);
}

/* The number after this name in a line of counters. */
static uint64_t number_in(const char *line, const char *name)
{
    const char *const at = strstr(line, name);

    return at == NULL ? UINT64_MAX : strtoull(at + strlen(name), NULL, 10);
}

/* Counters whose numbers are known. Of the others of version 2, only the sum is. */
enum { ALWAYS = 1, UDP = 2, UNKEYED = 4 };
static const unsigned known[COUNTERS] = {
    [COUNT_PACKETS] = UDP,        [COUNT_HEARTBEATS] = ALWAYS,
    [COUNT_REPORTS] = UDP,        [COUNT_LENGTH] = UDP,
    [COUNT_MAGIC] = UDP,          [COUNT_CHECKSUM] = ALWAYS,
    [COUNT_VARIABLE] = ALWAYS,    [COUNT_NOT_ALLOWED] = UDP,
    [COUNT_RATE] = UDP | UNKEYED, [COUNT_UNSENT] = UDP,
    [COUNT_DROPS] = ALWAYS,       [COUNT_BEFORE] = ALWAYS,
    [COUNT_CHANGES] = ALWAYS,     [COUNT_FAILED_PROGRAMS] = ALWAYS,
};

static void check_counters(const char *line)
{
    struct outputs *const it = outputs();

    oracle_look();
    it->counts[COUNT_DROPS] = world->machine.drops;
    it->counts[COUNT_BEFORE] = (uint64_t)__builtin_popcount(it->before & ~it->moved);
    if (!oracle_takes_before())
        it->counts[COUNT_BEFORE] = number_in(line, counters_names[COUNT_BEFORE].readable);
    for (unsigned i = 0; i < COUNTERS; i++) {
        char name[40];
        (void)snprintf(name, sizeof name, "%s ", counters_names[i].readable);
        const uint64_t number = number_in(line, name);
        const bool is_known = known[i] != 0 && number != UINT64_MAX &&
                              !((known[i] & UDP) != 0 && machine_has_bus()) &&
                              !((known[i] & UNKEYED) != 0 && world->keyed);
        CLAIM(COUNTED, is_known, number == it->counts[i], "the counter \"%s\" is %llu, not %llu",
              name, (unsigned long long)number, (unsigned long long)it->counts[i]);
    }
    CLAIM(COUNTED, it->is_ending && it->usr1s == 0, /* what waited counts as not told then */
          number_in(line, ", not told ") + it->told == it->counts[COUNT_CHANGES],
          "of %llu changes, %llu were told", (unsigned long long)it->counts[COUNT_CHANGES],
          (unsigned long long)it->told);
    it->usr1s = 0;
}

void __wrap_log_write(int descriptor, const char *line, size_t length)
{
    char text[2048];

    if (descriptor != 1)
        return;
    (void)snprintf(text, sizeof text, "%.*s", (int)length, line);
    check_counters(text);
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

    memcpy(it->loaded, file->now, sizeof it->loaded);
    it->loaded_size =
        dumpulse_read_(it->loaded + SNAPSHOT_CRC_AT) == snapshot_crc32(it->loaded, SNAPSHOT_CRC_AT)
            ? file->size
            : 0; /* it is damaged */
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
    const bool is_set = dumpulse_read_(entry) != 0, is_old = since >= stamped + TOO_OLD;
    const bool may_be_old = ticks_now() >= stamped + TOO_OLD || ticks_now() < written;

    world->truth.of[node].stamped = stamped;
    CLAIM(RESTORED, true,
          (memcmp(now, entry, 4) == 0 && (!is_set || !is_old)) ||
              (dumpulse_read_(now) == 0 && (is_old || may_be_old)),
          "variable %u: it begins with %08x, and the file has %08x", node, dumpulse_read_(now),
          dumpulse_read_(entry));
}

/* The file was read just before the agent began to serve. */
void reference_serves(void)
{
    struct outputs *const it = outputs();
    const uint64_t tick = world->tick, written = unix_in(it->loaded) / tick;

    memcpy(it->table, world->truth.table, DUMPULSE_REPORT_SIZE);
    for (unsigned node = 0; node < NODES && it->loaded_size == SNAPSHOT_SIZE; node++)
        check_loaded(node, it->loaded + SNAPSHOT_ENTRIES_AT + (size_t)4 * node, written,
                     it->loaded_at / tick);
}

void reference_takes_state(void)
{
    struct outputs *const it = outputs();
    const unsigned pause = it->saves == 0 ? 0 : it->saves < 5 ? 1U << (it->saves - 1) : 10;

    memcpy(it->taken, world->truth.table, DUMPULSE_REPORT_SIZE);
    CLAIM(UNCHANGED, oracle_is_calm(), memcmp(it->taken, it->saved, DUMPULSE_REPORT_SIZE) != 0,
          "the table is saved, and has not changed");
    CLAIM(UNCHANGED, it->saves != 0, machine_steady() - it->saving_at >= pause * SECOND,
          "the table is saved %llu ms after it was saved",
          (unsigned long long)((machine_steady() - it->saving_at) / MS));
    it->saves++;
    it->saving_at = machine_steady();
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
    memcpy(it->saved, table, DUMPULSE_REPORT_SIZE);
}

void reference_ends(int status)
{
    const struct file *const file = disk_find("table");

    if (!world->truth.serves || status < 0)
        return;
    oracle_look();
    CLAIM(ENDS, oracle_is_disk_good(), status == 0, "the agent ends with status %d", status);
    CLAIM(ENDS, status == 0, file != NULL && has_table(file, world->truth.table),
          "the agent ends, and its table is not saved");
}

void reference_begins(void)
{
    memset(outputs(), 0, sizeof *outputs());
    world->machine.drops = 0;
}
