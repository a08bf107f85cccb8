/* Tests dumpulse_watch.h with vectors_watch.tsv, on any machine with a C library. The first lines
 * of that file explain its format.   SPDX-License-Identifier: MIT
 *
 *     vectors_watch FILE
 */
#include "dumpulse_watch.h"
#include "vectors.h"

enum { LINES_MAX = 8, GUARD = 0x5A };

static dumpulse agent, agent_before;
static dumpulse_watched table[LINES_MAX];
static dumpulse_watcher watch;
/* The RAM of the lines between two guards, which nothing may change. */
static struct {
    uint8_t before[16];
    dumpulse_seen seen[LINES_MAX];
    uint8_t after[16];
} memory;

/* What the hook was called with in this step. */
static struct {
    size_t length;
    uint8_t changes[3 * LINES_MAX];
    bool is_agent;
} told;

void dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was, dumpulse_state is)
{
    if (told.length == sizeof told.changes)
        quit("the hook is called more often than there are lines");
    /* The state is new already, in one of the lines of this variable. */
    bool is_new = false;
    for (size_t i = 0; i != watch.count; i++)
        is_new = is_new || (table[i].variable == variable && memory.seen[i].state == is);
    expect(is_new, "the hook is called before the state is new");
    told.changes[told.length++] = variable;
    told.changes[told.length++] = was;
    told.changes[told.length++] = is;
    told.is_agent = told.is_agent && context == &agent;
}

/* The library's clock is not used: the vectors have the entries. */
uint16_t dumpulse_get_timestamp(void)
{
    return 0;
}

static dumpulse_watched line_of(const uint8_t *data)
{
    dumpulse_watched line;
    line.variable = data[0];
    line.lowest = data[1];
    line.span = data[2];
    line.grace = (uint16_t)(data[3] * 256U + data[4]);
    line.late = (uint16_t)(data[5] * 256U + data[6]);
    line.dead = (uint16_t)(data[7] * 256U + data[8]);
    return line;
}

static void new_table(const char *hex)
{
    const bytes lines = bytes_of(hex);
    if (lines.length % 9 != 0 || lines.length > 9 * LINES_MAX)
        quit("not a table");
    for (size_t i = 0; i < lines.length / 9; i++)
        table[i] = line_of(lines.data + 9 * i);
    free(lines.data);
    memset(&agent, 0, sizeof agent);
    memset(&memory, GUARD, sizeof memory);
    memset(memory.seen, 0, sizeof *memory.seen * (lines.length / 9));
    watch.table = table;
    watch.seen = memory.seen;
    watch.count = (uint8_t)(lines.length / 9);
}

static void write_to(uint8_t *destination, size_t size, const char *hex)
{
    const bytes data = bytes_of(hex);
    if (data.length != size)
        quit("not so many bytes");
    memcpy(destination, data.data, size);
    free(data.data);
}

/* The hook must have been called with these changes, and the RAM must hold this. */
static void expect_state(const char *changes, const char *seen)
{
    const bytes calls = bytes_of(changes), known = bytes_of(seen);
    const uint8_t *ram = (const uint8_t *)memory.seen;

    expect(calls.length == told.length &&
               (told.length == 0 || memcmp(calls.data, told.changes, told.length) == 0),
           "other calls of the hook");
    expect(told.is_agent, "the hook did not get the agent");
    expect(known.length == sizeof *memory.seen * watch.count &&
               memcmp(known.data, ram, known.length) == 0,
           "the RAM is not what it should be");
    for (size_t i = known.length; i < sizeof memory.seen; i++)
        expect(ram[i] == GUARD, "written behind the RAM of the lines");
    for (size_t i = 0; i < sizeof memory.before; i++)
        expect(memory.before[i] == GUARD && memory.after[i] == GUARD, "written outside the RAM");
    expect(memcmp(&agent, &agent_before, sizeof agent) == 0, "the agent has changed");
    free(calls.data);
    free(known.data);
}

static void expect_number(unsigned answer, const char *number)
{
    expect(answer == byte_of(number), "wrong answer");
}

static void expect_line(dumpulse_watched made, const char *hex)
{
    const bytes wanted = bytes_of(hex);
    const dumpulse_watched line = line_of(wanted.data);
    expect(made.variable == line.variable && made.grace == line.grace &&
               made.lowest == line.lowest && made.span == line.span && made.late == line.late &&
               made.dead == line.dead,
           "made another line");
    free(wanted.data);
}

static void step(const char **field, int fields)
{
    const char *kind = field[0];

    told.length = 0;
    told.is_agent = true;
    agent_before = agent;
    if (strcmp(kind, "lines") == 0 && fields == 2) {
        new_table(field[1]);
    } else if (strcmp(kind, "seen") == 0 && fields == 2) {
        write_to((uint8_t *)memory.seen, sizeof *memory.seen * watch.count, field[1]);
    } else if (strcmp(kind, "entry") == 0 && fields == 3) {
        write_to(agent.report + 4 + 4 * (size_t)(byte_of(field[1]) % 64), 4, field[2]);
    } else if (strcmp(kind, "begin") == 0 && fields == 3) {
        dumpulse_watch_begin(&watch, word_of(field[1]));
        expect_state("-", field[2]);
    } else if (strcmp(kind, "look") == 0 && fields == 4) {
        dumpulse_watch(&watch, &agent, word_of(field[1]));
        expect_state(field[2], field[3]);
    } else if (strcmp(kind, "part") == 0 && fields == 6) {
        dumpulse_watch_part(&watch, &agent, word_of(field[1]), byte_of(field[2]),
                            byte_of(field[3]));
        expect_state(field[4], field[5]);
    } else if (strcmp(kind, "state") == 0 && fields == 3) {
        expect_number(dumpulse_watch_state(&watch, byte_of(field[1])), field[2]);
    } else if (strcmp(kind, "worst") == 0 && fields == 2) {
        expect_number(dumpulse_watch_worst(&watch), field[1]);
    } else if (strcmp(kind, "count") == 0 && fields == 3) {
        expect_number(dumpulse_watch_count(&watch, byte_of(field[1])), field[2]);
    } else if (strcmp(kind, "check") == 0 && fields == 3) {
        expect_number(dumpulse_watch_check(&watch, word_of(field[1])), field[2]);
    } else if (strcmp(kind, "make") == 0 && fields == 8) {
        expect_line(dumpulse_watched_make(byte_of(field[1]), word_of(field[2]), word_of(field[3]),
                                          word_of(field[4]), byte_of(field[5]), byte_of(field[6])),
                    field[7]);
    } else {
        quit("unknown step");
    }
}

int main(int argc, char **argv)
{
    return run_vectors(argc, argv, step);
}
