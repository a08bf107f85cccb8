/* Tests the library with vectors.tsv, on any machine with a C library. The first lines of that file
 * explain its format.   SPDX-License-Identifier: MIT
 *
 *     vectors FILE
 */
#include "dumpulse.h"
#include "vectors.h"

/* The agent between two guards, which nothing may change. */
static struct {
    uint8_t before[16];
    dumpulse agent;
    uint8_t after[16];
} memory;
static uint16_t now;

/* What the hooks were called with since the last step. */
static struct {
    unsigned times, sends;
    void *context;
    const uint8_t *pointer;
    size_t length;
    uint8_t sent[DUMPULSE_REPORT_SIZE];
    dumpulse at_the_clock; /* the agent, when the clock was read */
} seen;
static dumpulse before; /* the agent before the step */

uint16_t dumpulse_get_timestamp(void)
{
    seen.times++;
    seen.at_the_clock = memory.agent;
    return now;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    seen.sends++;
    seen.context = context;
    seen.pointer = packet;
    seen.length = length;
    if (length == sizeof seen.sent)
        memcpy(seen.sent, packet, length);
}

/* The hooks must have been called this many times, and the table must be `table`. */
static void expect_state(const dumpulse *table, unsigned times, unsigned sends)
{
    expect(seen.times == times, "clock hook called more or less often than it should be");
    expect(seen.sends == sends, "send hook called more or less often than it should be");
    expect(memcmp(&memory.agent, table, sizeof *table) == 0, "table is not what it should be");
    for (size_t i = 0; i < sizeof memory.before; i++)
        expect(memory.before[i] == 0 && memory.after[i] == 0, "written outside the agent");
    /* dumpulse.h promises this to the writer of the hook. */
    for (size_t i = 0; times != 0 && i < sizeof table->report; i++)
        expect(seen.at_the_clock.report[i] == (i % 4 < 2 ? before.report[i] : table->report[i]),
               "the entry has not its new sender and value and its old time at the clock");
}

/* Returns the table as it must be after one entry is written. */
static dumpulse with_entry(const char *variable, const char *entry)
{
    dumpulse table = memory.agent;
    const bytes four = bytes_of(entry);
    if (four.length != 0)
        memcpy(table.report + 4 + 4 * (size_t)byte_of(variable), four.data, 4);
    free(four.data);
    return table;
}

static void process(const char **field, dumpulse_result result, const dumpulse *table)
{
    const bytes packet = bytes_of(field[2]);
    int context;

    now = word_of(field[1]);
    expect(dumpulse_process_packet(&memory.agent, packet.data, packet.length, &context) == result,
           "wrong result");
    expect_state(table, result == DUMPULSE_HEARTBEAT, result == DUMPULSE_REPORT);
    if (result == DUMPULSE_REPORT) {
        expect(seen.context == &context, "context not passed on");
        expect(seen.pointer == memory.agent.report, "report not sent from the table");
        expect(seen.length == DUMPULSE_REPORT_SIZE, "report of another length");
        expect(memcmp(seen.sent, table, sizeof seen.sent) == 0, "report not right when sent");
    }
    free(packet.data);
}

static void step(const char **field, int fields)
{
    const char *kind = field[0];
    dumpulse table = memory.agent;

    memset(&seen, 0, sizeof seen);
    before = memory.agent;
    if (strcmp(kind, "table") == 0 && fields == 2) {
        const bytes whole = bytes_of(field[1]);
        memcpy(&memory.agent, whole.data, sizeof memory.agent);
        free(whole.data);
    } else if (strcmp(kind, "refused") == 0 && fields == 3) {
        process(field, DUMPULSE_REFUSED, &table);
    } else if (strcmp(kind, "heartbeat") == 0 && fields == 5) {
        table = with_entry(field[3], field[4]);
        process(field, DUMPULSE_HEARTBEAT, &table);
        const bytes packet = bytes_of(field[2]);
        expect(dumpulse_changed_variable(packet.data) == byte_of(field[3]), "another variable");
        free(packet.data);
    } else if (strcmp(kind, "report") == 0 && fields == 4) {
        const bytes whole = bytes_of(field[3]);
        memcpy(&table, whole.data, sizeof table);
        free(whole.data);
        process(field, DUMPULSE_REPORT, &table);
    } else if (strcmp(kind, "record") == 0 && fields == 6) {
        const bool taken = strcmp(field[5], "-") != 0;
        table = with_entry(field[2], field[5]);
        now = word_of(field[1]);
        expect(dumpulse_record(&memory.agent, byte_of(field[2]), byte_of(field[3]),
                               byte_of(field[4])) ==
                   (taken ? DUMPULSE_HEARTBEAT : DUMPULSE_REFUSED),
               "wrong result");
        expect_state(&table, taken, 0);
    } else if (strcmp(kind, "make") == 0 && fields == 5) {
        const bytes packet = bytes_of(field[4]);
        uint8_t made[DUMPULSE_PACKET_SIZE];
        dumpulse_make_heartbeat(made, byte_of(field[1]), byte_of(field[2]), byte_of(field[3]));
        expect(memcmp(made, packet.data, sizeof made) == 0, "made another packet");
        free(packet.data);
    } else if (strcmp(kind, "check") == 0 && fields == 3) {
        const bytes report = bytes_of(field[1]);
        expect(dumpulse_check_report(report.data, report.length) == (strcmp(field[2], "yes") == 0),
               "wrong answer");
        free(report.data);
    } else if (strcmp(kind, "read") == 0 && fields == 3) {
        const bytes four = bytes_of(field[2]);
        const dumpulse_entry entry = dumpulse_read_entry(memory.agent.report, byte_of(field[1]));
        expect(entry.timestamp == four.data[0] * 256U + four.data[1], "wrong timestamp");
        expect(entry.sender == four.data[2], "wrong sender");
        expect(entry.value == four.data[3], "wrong value");
        expect(dumpulse_was_heard(entry) == (memcmp(four.data, (uint8_t[4]){0}, 4) != 0),
               "wrongly heard");
        for (unsigned age = 0; age <= UINT16_MAX; age++)
            expect(dumpulse_age((uint16_t)(entry.timestamp + age), entry.timestamp) == age,
                   "wrong age");
        free(four.data);
    } else {
        quit("unknown step");
    }
}

int main(int argc, char **argv)
{
    expect(sizeof(dumpulse) == 260 && DUMPULSE_REFUSED == 0 && DUMPULSE_HEARTBEAT == 1 &&
               DUMPULSE_REPORT == 2,
           "not the sizes and numbers of dumpulse.h");
    expect(dumpulse_was_heard((dumpulse_entry){1, 0, 0}) &&
               dumpulse_was_heard((dumpulse_entry){0, 1, 0}) &&
               dumpulse_was_heard((dumpulse_entry){0, 0, 1}),
           "an entry with one byte that is not 0 was heard");
    return run_vectors(argc, argv, step);
}
