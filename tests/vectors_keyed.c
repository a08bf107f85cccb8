/* Tests dumpulse_keyed.h with vectors_keyed.tsv, on any machine with a C library. The first lines
 * of that file explain its format.   SPDX-License-Identifier: MIT
 *
 *     vectors_keyed FILE
 */
#include "dumpulse_keyed.h"
#include "vectors.h"

enum { LABELS = 65, GUARD = 0x5A, COUNTS = 65, STATE = 6 + COUNTS };

static uint8_t master[16], generations[LABELS];
static uint32_t stored;
static bool storing_fails;
static uint16_t now;
static int bus; /* the context of the agent */
/* The agent between two guards, which nothing may change. */
static struct {
    uint8_t before[16];
    dumpulse_keyed agent;
    uint8_t after[16];
} memory;
static bool is_mixed;                              /* the variables of this list send version 1 */
static uint8_t unkeyed[8];                         /* the list */
static uint8_t state[STATE];                       /* State that the agent should have. */
static uint8_t report[DUMPULSE_KEYED_REPORT_SIZE]; /* its report */
static dumpulse_node node;
static dumpulse_reader reader;
/* What the hooks were asked for in this step. */
static struct {
    unsigned sends, times, loads, stores;
    size_t length; /* Length of all that was sent. */
    uint8_t data[DUMPULSE_KEYED_REPORT_SIZE + 65 * 8];
} seen;

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    if (label >= LABELS)
        quit("no such label");
    memcpy(key, master, 16);
    dumpulse_label_key(key, label, generations[label]);
}

uint32_t dumpulse_load(void)
{
    seen.loads++;
    return stored;
}

bool dumpulse_store(uint32_t following)
{
    seen.stores++;
    if (!storing_fails)
        stored = following;
    return !storing_fails;
}

uint16_t dumpulse_get_timestamp(void)
{
    seen.times++;
    return now;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    expect(context == &bus, "the context");
    if (length > sizeof seen.data - seen.length)
        quit("too much is sent");
    seen.sends++;
    memcpy(seen.data + seen.length, packet, length);
    seen.length += length;
}

static bool same(bytes data, const void *other, size_t length)
{
    return data.length == length && data.data != NULL && memcmp(data.data, other, length) == 0;
}

/* Has this been sent, in so many packets? */
static void expect_sent(const char *hex, unsigned packets)
{
    const bytes sent = bytes_of(hex);

    expect(seen.sends == packets, "the number of packets that were sent");
    expect(packets == 0 ? sent.length == 0 : same(sent, seen.data, seen.length), "what was sent");
    free(sent.data);
}

static uint8_t *report_of(dumpulse_keyed *agent)
{
    return (uint8_t *)agent + offsetof(dumpulse_keyed, tag);
}

static void put(uint8_t to[4], uint32_t epoch)
{
    for (unsigned i = 0; i != 4; i++)
        to[i] = (uint8_t)(epoch >> (24 - 8 * i));
}

/* The agent, as it is written in the vectors. */
static void describe(uint8_t *to)
{
    const dumpulse_keyed *agent = &memory.agent;

    put(to, agent->epoch);
    to[4] = agent->reached;
    to[5] = agent->wrong;
    memcpy(to + 6, agent->last, COUNTS);
}

/* Has the agent become what the step says, and is nothing else changed? */
static void expect_state(const char *hex)
{
    const bytes wanted = bytes_of(hex);
    uint8_t guard[16], is[STATE];

    if (wanted.length != 0) {
        if (wanted.length != STATE)
            quit("not a state");
        memcpy(state, wanted.data, STATE);
    }
    memset(guard, GUARD, sizeof guard);
    describe(is);
    expect(memcmp(is, state, 6) == 0, "the epoch, and what is counted");
    expect(memcmp(is + 6, state + 6, COUNTS) == 0, "the counts");
    expect(memcmp(report_of(&memory.agent), report, sizeof report) == 0, "the report");
    expect(memcmp(memory.before, guard, sizeof guard) == 0, "memory before the agent");
    expect(memcmp(memory.after, guard, sizeof guard) == 0, "memory after the agent");
    free(wanted.data);
}

static bool is_yes(const char *word)
{
    return strcmp(word, "yes") == 0;
}

static dumpulse_result give(const bytes packet)
{
    return is_mixed
               ? dumpulse_mixed_process(&memory.agent, unkeyed, packet.data, packet.length, &bus)
               : dumpulse_keyed_process(&memory.agent, packet.data, packet.length, &bus);
}

static bool process(const char **field)
{
    static const char *const RESULTS[] = {"refused", "heartbeat", "report", "old",
                                          "wrong",   "not_begun", "asks"};
    dumpulse_result result = 0;

    while (result < 7 && strcmp(field[0], RESULTS[result]) != 0)
        result++;
    if (result == 7)
        return false;
    const bytes packet = bytes_of(field[2]), sent = bytes_of(field[3]);
    const bool needs_no_tag = result == DUMPULSE_REFUSED || result == DUMPULSE_OLD ||
                              result == DUMPULSE_NOT_BEGUN || result == DUMPULSE_ASKS;
    now = word_of(field[1]);
    if (!is_mixed) {
        dumpulse_keyed tried = memory.agent;
        expect(dumpulse_keyed_look(&memory.agent, packet.data, packet.length) ==
                   (needs_no_tag ? result : DUMPULSE_NEW),
               "what can be said without a tag");
        expect(dumpulse_keyed_try(&tried, packet.data, packet.length) ==
                   (needs_no_tag || result == DUMPULSE_WRONG_TAG ? result : DUMPULSE_NEW),
               "what can be said with the tag");
        expect(tried.wrong == (uint8_t)(memory.agent.wrong + (result == DUMPULSE_WRONG_TAG)) &&
                   tried.epoch == memory.agent.epoch &&
                   memcmp(tried.last, memory.agent.last, sizeof tried.last) == 0,
               "what a try changes");
    }
    expect(give(packet) == result, "the result");
    expect(seen.times == (result == DUMPULSE_HEARTBEAT), "the clock");
    expect(seen.loads == 0 && seen.stores == 0, "loading and storing");
    if (result == DUMPULSE_HEARTBEAT) {
        const bool is_plain = packet.data[4] == DUMPULSE_MAGIC;
        const uint8_t variable =
            (uint8_t)(is_plain ? packet.data[5] : packet.data[4] - 0x80) % DUMPULSE_VARIABLES;
        uint8_t *entry = report + 8 + 4 * variable;
        entry[0] = (uint8_t)(now / 256U);
        entry[1] = (uint8_t)(now % 256U);
        memcpy(entry + 2, packet.data + 6, 2);
    }
    if (result == DUMPULSE_REPORT && sent.length == DUMPULSE_KEYED_REPORT_SIZE)
        memcpy(report, sent.data, 8);
    expect_sent(field[3], sent.length != 0);
    expect_state(field[4]);
    free(packet.data);
    free(sent.data);
    return true;
}

static void guess(const char **field)
{
    const bytes packet = bytes_of(field[2]);

    for (unsigned i = 0; i != word_of(field[1]); i++)
        expect(give(packet) == DUMPULSE_WRONG_TAG, "the result");
    expect_sent("-", 0);
    expect_state(field[3]);
    free(packet.data);
}

static void check_made(const char *hex, const uint8_t *packet, bool result)
{
    const bytes wanted = bytes_of(hex);

    expect(result == (wanted.length != 0), "whether a packet is made");
    expect(!result || same(wanted, packet, 8), "the packet");
    free(wanted.data);
}

static void hear_beacon(const char **field, dumpulse_node *who, uint8_t label)
{
    const bytes packet = bytes_of(field[1]);
    const dumpulse_node before = *who;
    const bool later = dumpulse_hear(who, label, packet.data, packet.length);

    expect(later == is_yes(field[0]), "whether it is a later epoch");
    if (later && packet.length == 8) {
        uint8_t epoch[4];
        put(epoch, who->epoch);
        expect(memcmp(epoch, packet.data + 4, 4) == 0, "its epoch");
        expect(who->left == 255, "how many are left");
    } else {
        expect(who->epoch == before.epoch && who->left == before.left, "the node");
    }
    free(packet.data);
}

static void check_report(const char **field)
{
    const bytes given = bytes_of(field[1]);
    uint8_t *copy = (uint8_t *)malloc(given.length + 1);

    if (copy == NULL)
        quit("out of memory");
    if (given.length != 0)
        memcpy(copy, given.data, given.length);
    expect(dumpulse_keyed_check(&reader, (dumpulse_keyed_report *)(void *)copy, given.length) ==
               is_yes(field[2]),
           "whether it is believed");
    expect(same(given, copy, given.length), "the report");
    free(copy);
    free(given.data);
}

static uint32_t number_of(const char *hex)
{
    const bytes data = bytes_of(hex);

    if (data.length != 3)
        quit("not a number");
    const uint32_t is = (uint32_t)data.data[0] << 16 | (uint32_t)data.data[1] << 8 | data.data[2];
    free(data.data);
    return is;
}

static void read_slots(const char **field)
{
    const bytes data = bytes_of(field[1]);
    const uint32_t number = number_of(field[2]);

    if (data.length != 2 * DUMPULSE_SLOT_SIZE)
        quit("not slots");
    if (strcmp(field[0], "slots") == 0) {
        expect(dumpulse_slots_read(data.data) == number, "the number");
    } else {
        uint8_t slot[DUMPULSE_SLOT_SIZE];
        const bytes made_of = bytes_of(field[4]);
        expect(dumpulse_slots_write(data.data, slot, number) == byte_of(field[3]),
               "where the slot is");
        expect(same(made_of, slot, sizeof slot), "the slot");
        free(made_of.data);
    }
    free(data.data);
}

static void copied(const char *hex, uint8_t *to, size_t length)
{
    const bytes data = bytes_of(hex);

    if (data.length != length)
        quit("wrong length");
    memcpy(to, data.data, length);
    free(data.data);
}

static void check_key(const char **field)
{
    const uint8_t label = byte_of(field[1]) % LABELS;
    uint8_t wanted[16], key[16];

    copied(field[3], wanted, 16);
    generations[label] = byte_of(field[2]);
    dumpulse_get_key(key, label);
    expect(memcmp(key, wanted, 16) == 0, "the key");
}

static void reset_agent(const char **field)
{
    memset(&memory, GUARD, sizeof memory);
    memset(&memory.agent, 0, sizeof memory.agent);
    memset(state, 0, sizeof state);
    memset(report, 0, sizeof report);
    is_mixed = strcmp(field[1], "-") != 0;
    if (is_mixed)
        copied(field[1], unkeyed, sizeof unkeyed);
}

static void begin(const char **field)
{
    static const char *const RESULTS[] = {"begun", "not_stored", "no_number", "used_up"};
    const dumpulse_beginning result = dumpulse_keyed_begin(&memory.agent);

    expect(result < 4 && strcmp(RESULTS[result], field[1]) == 0, "the result");
    expect(seen.loads == 1 && seen.stores == (result < DUMPULSE_NO_NUMBER), "loading and storing");
    expect_sent("-", 0);
    expect_state(field[2]);
}

static void begin_next(const char **field)
{
    const bool wanted = is_yes(field[1]);

    expect(dumpulse_keyed_next(&memory.agent, &bus) == wanted, "the result");
    expect(seen.loads == 0 && seen.stores <= 1, "loading and storing");
    expect_sent(field[2], wanted);
    expect_state(field[3]);
}

static void go_on(const char **field)
{
    for (unsigned i = 0; i != word_of(field[1]); i++) {
        memset(&seen, 0, sizeof seen);
        expect(dumpulse_keyed_next(&memory.agent, &bus) && seen.length == 8, "the next label");
    }
    expect_state(field[2]);
}

static bool step_of_agent(const char **field)
{
    const char *what = field[0];

    if (strcmp(what, "agent") == 0) {
        reset_agent(field);
    } else if (strcmp(what, "begin") == 0) {
        begin(field);
    } else if (strcmp(what, "next") == 0) {
        begin_next(field);
    } else if (strcmp(what, "nexts") == 0) {
        go_on(field);
    } else if (strcmp(what, "put") == 0) {
        copied(field[1], state, 6);
        memory.agent.epoch = dumpulse_read_(state);
        memory.agent.reached = state[4];
        memory.agent.wrong = state[5];
    } else if (strcmp(what, "beacon") == 0) {
        dumpulse_keyed_beacon(&memory.agent, byte_of(field[1]), &bus);
        expect_sent(field[2], strcmp(field[2], "-") != 0);
        expect_state("-");
    } else if (strcmp(what, "table") == 0) {
        copied(field[1], memory.agent.agent.report + 4, 256);
        copied(field[1], report + 8, 256);
    } else if (strcmp(what, "guesses") == 0) {
        guess(field);
    } else if (strcmp(what, "renew") == 0) {
        dumpulse_keyed_renew(&memory.agent, byte_of(field[1]));
        expect_state(field[2]);
    } else {
        return process(field);
    }
    return true;
}

static bool step_of_node(const char **field)
{
    const char *what = field[0];
    uint8_t packet[8] = {0}, nonce[2];

    if (strcmp(what, "node") == 0) {
        memset(&node, 0, sizeof node);
    } else if (strcmp(what, "hear") == 0) {
        hear_beacon(field + 2, &node, byte_of(field[1]));
    } else if (strcmp(what, "beat") == 0) {
        bool is_made = false;
        for (unsigned i = 0; i != word_of(field[4]); i++)
            is_made = dumpulse_keyed_heartbeat(&node, packet, byte_of(field[1]), byte_of(field[2]),
                                               byte_of(field[3]));
        check_made(field[5], packet, is_made);
    } else if (strcmp(what, "question") == 0) {
        memset(packet, GUARD, sizeof packet);
        dumpulse_ask(packet, byte_of(field[1]));
        check_made(field[2], packet, true);
    } else if (strcmp(what, "reader") == 0) {
        memset(&reader, 0, sizeof reader);
    } else if (strcmp(what, "listen") == 0) {
        hear_beacon(field + 1, &reader.heard, DUMPULSE_READER_LABEL);
    } else if (strcmp(what, "request") == 0) {
        copied(field[1], nonce, 2);
        check_made(field[2], packet, dumpulse_keyed_request(&reader, packet, nonce));
    } else if (strcmp(what, "check") == 0) {
        check_report(field);
    } else {
        return false;
    }
    return true;
}

static void step(const char **field, int fields)
{
    const char *what = field[0];

    (void)fields; /* each kind of step has its number of them */
    memset(&seen, 0, sizeof seen);
    if (strcmp(what, "master") == 0) {
        copied(field[1], master, 16);
        memset(generations, 0, sizeof generations);
        stored = 0;
        storing_fails = false;
    } else if (strcmp(what, "key") == 0) {
        check_key(field);
    } else if (strcmp(what, "number") == 0) {
        stored = number_of(field[1]);
    } else if (strcmp(what, "stored") == 0) {
        expect(stored == number_of(field[1]), "what is stored");
    } else if (strcmp(what, "fails") == 0) {
        storing_fails = is_yes(field[1]);
    } else if (strcmp(what, "slots") == 0 || strcmp(what, "slot") == 0) {
        read_slots(field);
    } else if (!step_of_node(field) && !step_of_agent(field)) {
        quit("unknown step");
    }
}

int main(int argc, char **argv)
{
    return run_vectors(argc, argv, step);
}
