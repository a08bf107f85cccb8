/* Tests dumpulse_keyed.h with vectors_keyed.tsv, on any machine with a C library. The first lines
 * of that file explain its format.   SPDX-License-Identifier: MIT
 *
 *     vectors_keyed FILE
 *
 * It must be compiled with DUMPULSE_ALONE=8. With DUMPULSE_LABEL_KEYS, too, it uses the keys of the
 * labels, and else the master key.
 */
#ifndef DUMPULSE_ALONE
#define DUMPULSE_ALONE 8
#endif
#include "dumpulse_keyed.h"
#include "vectors.h"

enum { LABELS = 66, GUARD = 0x5A, STATE_SIZE = 8 + 65 + 4 * DUMPULSE_ALONE };

static uint8_t master[16], label_keys[LABELS][16], numbers[LABELS][3];
static bool storing_fails;
static uint16_t now;
static int bus; /* the context of the agent */
/* The agent between two guards, which nothing may change. */
static struct {
    uint8_t before[16];
    dumpulse_keyed agent;
    uint8_t after[16];
} memory;
static dumpulse_keyed expected;
static dumpulse_node node;
static dumpulse_reader reader;
/* What the hooks were asked for in this step. */
static struct {
    unsigned sends, times, loads, stores;
    size_t length;
    uint8_t data[DUMPULSE_KEYED_REPORT_SIZE];
} seen;

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    if (label >= LABELS)
        quit("no such label");
#ifdef DUMPULSE_LABEL_KEYS
    memcpy(key, label_keys[label], 16);
#else
    memcpy(key, master, 16);
#endif
}

void dumpulse_load(uint8_t label, uint8_t number[3])
{
    if (label >= LABELS)
        quit("no such number");
    seen.loads++;
    memcpy(number, numbers[label], 3);
}

bool dumpulse_store(uint8_t label, const uint8_t number[3])
{
    if (label >= LABELS)
        quit("no such number");
    seen.stores++;
    if (storing_fails)
        return false;
    memcpy(numbers[label], number, 3);
    return true;
}

uint16_t dumpulse_get_timestamp(void)
{
    seen.times++;
    return now;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    expect(context == &bus, "the context");
    if (length > sizeof seen.data)
        quit("too much is sent");
    seen.sends++;
    seen.length = length;
    memcpy(seen.data, packet, length);
}

static bool same(bytes data, const void *other, size_t length)
{
    return data.length == length && data.data != NULL && memcmp(data.data, other, length) == 0;
}

/* Has what is sent been sent, once? */
static void expect_sent(bytes sent)
{
    expect(seen.sends == (sent.length != 0), "the number of packets that were sent");
    expect(seen.sends == 0 || same(sent, seen.data, seen.length), "what was sent");
}

static uint8_t *report_of(dumpulse_keyed *agent)
{
    return (uint8_t *)agent + offsetof(dumpulse_keyed, tag);
}

/* Has the agent become what the step says, and is nothing else changed? */
static void expect_state(bytes state)
{
    uint8_t guard[16];

    if (state.length != 0) {
        if (state.length != STATE_SIZE)
            quit("not a state");
        memcpy(&expected, state.data, 8);
        memcpy(expected.last, state.data + 8, 65);
        memcpy(expected.own, state.data + 8 + 65, sizeof expected.own);
    }
    memset(guard, GUARD, sizeof guard);
    expect(memcmp(&memory.agent, &expected, 8) == 0, "the beacon");
    expect(memcmp(memory.agent.last, expected.last, sizeof expected.last) == 0, "the counts");
    expect(memcmp(report_of(&memory.agent), report_of(&expected), 264) == 0, "the report");
    expect(memcmp(memory.agent.own, expected.own, sizeof expected.own) == 0, "the own epochs");
    expect(memcmp(memory.before, guard, sizeof guard) == 0, "memory before the agent");
    expect(memcmp(memory.after, guard, sizeof guard) == 0, "memory after the agent");
}

static bool process(const char **field)
{
    static const char *const RESULTS[] = {"refused", "heartbeat", "report",    "announce",
                                          "old",     "wrong",     "not_begun", "not_stored"};
    dumpulse_result result = 0;

    while (result < 8 && strcmp(field[0], RESULTS[result]) != 0)
        result++;
    if (result == 8)
        return false;
    const bytes packet = bytes_of(field[2]), sent = bytes_of(field[3]);
    const bool needs_tag =
        result != DUMPULSE_REFUSED && result != DUMPULSE_OLD && result != DUMPULSE_NOT_BEGUN;
    now = word_of(field[1]);
    expect(dumpulse_keyed_look(&memory.agent, packet.data, packet.length) ==
               (needs_tag ? DUMPULSE_NEW : result),
           "what can be said without a tag");
    expect(dumpulse_keyed_process(&memory.agent, packet.data, packet.length, &bus) == result,
           "the result");
    expect(seen.times == (result == DUMPULSE_HEARTBEAT), "the clock");
    expect(seen.loads == 0, "a number is loaded");
    expect(seen.stores <= 1 && (result != DUMPULSE_ANNOUNCE || seen.stores == 1), "storing");
    if (result == DUMPULSE_HEARTBEAT) {
        uint8_t *entry = expected.agent.report + 4 + 4 * (packet.data[4] - 0x80);
        entry[0] = (uint8_t)(now / 256U);
        entry[1] = (uint8_t)(now % 256U);
        memcpy(entry + 2, packet.data + 6, 2);
    }
    if (result == DUMPULSE_REPORT && sent.length == DUMPULSE_KEYED_REPORT_SIZE)
        memcpy(report_of(&expected), sent.data, 8);
    expect_sent(sent);
    const bytes state = bytes_of(field[4]);
    expect_state(state);
    free(state.data);
    free(packet.data);
    free(sent.data);
    return true;
}

static void run_tick(const char **field, bool result)
{
    const bytes sent = bytes_of(field[2]), state = bytes_of(field[3]);

    expect(result == (strcmp(field[1], "yes") == 0), "the result");
    expect_sent(sent);
    expect_state(state);
    free(sent.data);
    free(state.data);
}

static void check_made(const char *hex, const uint8_t *packet, bool result)
{
    const bytes wanted = bytes_of(hex);

    expect(result == (wanted.length != 0), "whether a packet is made");
    expect(!result || same(wanted, packet, 8), "the packet");
    free(wanted.data);
}

static void hear_beacon(const char **field, dumpulse_node *who)
{
    const bytes packet = bytes_of(field[2]);
    const dumpulse_node before = *who;
    const bool later = dumpulse_hear(who, packet.data, packet.length);

    expect(later == (strcmp(field[1], "yes") == 0), "whether it is a later epoch");
    expect(later || memcmp(who, &before, sizeof before) == 0, "the node");
    expect(!later || (memcmp(who->epoch, packet.data + 4, 4) == 0 && who->left == 255),
           "its epoch");
    free(packet.data);
}

static void check_report(const char **field)
{
    const bytes report = bytes_of(field[1]);
    uint8_t *copy = (uint8_t *)malloc(report.length + 1);

    if (copy == NULL)
        quit("out of memory");
    if (report.length != 0)
        memcpy(copy, report.data, report.length);
    expect(dumpulse_keyed_check(&reader, (dumpulse_keyed_report *)(void *)copy, report.length) ==
               (strcmp(field[2], "yes") == 0),
           "whether it is believed");
    expect(same(report, copy, report.length), "the report");
    free(copy);
    free(report.data);
}

static void read_slots(const char **field)
{
    const bytes data = bytes_of(field[1]), wanted = bytes_of(field[2]);

    if (data.length != 2 * DUMPULSE_SLOT_SIZE || wanted.length != 3)
        quit("not slots");
    if (strcmp(field[0], "slots") == 0) {
        uint8_t number[3];
        dumpulse_slots_read(data.data, number);
        expect(same(wanted, number, 3), "the number");
    } else {
        uint8_t slot[DUMPULSE_SLOT_SIZE];
        const bytes made_of = bytes_of(field[4]);
        expect(dumpulse_slots_write(data.data, slot, wanted.data) == byte_of(field[3]),
               "where the slot is");
        expect(same(made_of, slot, sizeof slot), "the slot");
        free(made_of.data);
    }
    free(data.data);
    free(wanted.data);
}

static void copied(const char *hex, uint8_t *to, size_t length)
{
    const bytes data = bytes_of(hex);

    if (data.length != length)
        quit("wrong length");
    memcpy(to, data.data, length);
    free(data.data);
}

static void step(const char **field, int fields)
{
    const char *what = field[0];
    uint8_t packet[8] = {0}, nonce[2];

    (void)fields; /* each kind of step has its number of them */
    memset(&seen, 0, sizeof seen);
    if (strcmp(what, "master") == 0) {
        copied(field[1], master, 16);
        memset(numbers, 0, sizeof numbers);
        storing_fails = false;
    } else if (strcmp(what, "key") == 0) {
        copied(field[2], label_keys[byte_of(field[1]) % LABELS], 16);
    } else if (strcmp(what, "number") == 0) {
        copied(field[2], numbers[byte_of(field[1]) % LABELS], 3);
    } else if (strcmp(what, "stored") == 0) {
        uint8_t wanted[3];
        copied(field[2], wanted, 3);
        expect(memcmp(wanted, numbers[byte_of(field[1]) % LABELS], 3) == 0, "what is stored");
    } else if (strcmp(what, "fails") == 0) {
        storing_fails = strcmp(field[1], "yes") == 0;
    } else if (strcmp(what, "agent") == 0) {
        memset(&memory, GUARD, sizeof memory);
        memset(&memory.agent, 0, sizeof memory.agent);
        memset(&expected, 0, sizeof expected);
    } else if (strcmp(what, "begin") == 0) {
        run_tick(field, dumpulse_keyed_begin(&memory.agent, &bus));
    } else if (strcmp(what, "tick") == 0) {
        run_tick(field, dumpulse_keyed_tick(&memory.agent, &bus));
    } else if (strcmp(what, "beacon") == 0) {
        dumpulse_keyed_beacon(&memory.agent, &bus);
        const bytes sent = bytes_of(field[1]), none = {0, NULL};
        expect_sent(sent);
        expect_state(none);
        free(sent.data);
    } else if (strcmp(what, "table") == 0) {
        copied(field[1], memory.agent.agent.report + 4, 256);
        copied(field[1], expected.agent.report + 4, 256);
    } else if (strcmp(what, "node") == 0) {
        memset(&node, 0, sizeof node);
    } else if (strcmp(what, "hear") == 0) {
        hear_beacon(field, &node);
    } else if (strcmp(what, "sender") == 0) {
        expect(dumpulse_sender_begin(&node, byte_of(field[1])) == (strcmp(field[2], "yes") == 0),
               "whether the node may send");
        expect(seen.loads == 1 && seen.stores <= 1, "loading and storing");
    } else if (strcmp(what, "announced") == 0) {
        dumpulse_sender_announce(&node, packet, byte_of(field[1]));
        check_made(field[2], packet, true);
    } else if (strcmp(what, "beat") == 0) {
        check_made(field[4], packet,
                   dumpulse_keyed_heartbeat(&node, packet, byte_of(field[1]), byte_of(field[2]),
                                            byte_of(field[3])));
    } else if (strcmp(what, "reader") == 0) {
        memset(&reader, 0, sizeof reader);
    } else if (strcmp(what, "listen") == 0) {
        hear_beacon(field, &reader.heard);
    } else if (strcmp(what, "request") == 0) {
        copied(field[1], nonce, 2);
        check_made(field[2], packet, dumpulse_keyed_request(&reader, packet, nonce));
    } else if (strcmp(what, "check") == 0) {
        check_report(field);
    } else if (strcmp(what, "slots") == 0 || strcmp(what, "slot") == 0) {
        read_slots(field);
    } else if (!process(field)) {
        quit("unknown step");
    }
}

int main(int argc, char **argv)
{
    return run_vectors(argc, argv, step);
}
