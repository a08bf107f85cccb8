/* Calls the library, its watch, and of version 2 a node's clock and a number's memory, in any
 * order, with any bytes, on any table. In this program Frama-C's Eva looks for undefined behaviour;
 * its method is another one than WP's.
 *                                                            SPDX-License-Identifier: MIT */
#include "dumpulse.c"
#include "dumpulse_node.c"
#include "dumpulse_slots.c"
#include "dumpulse_watch.c"

enum { LINES = 3, PAGE = 2 * DUMPULSE_RECORD_SIZE };

static dumpulse agent;
static uint8_t bytes[DUMPULSE_REPORT_SIZE];
static dumpulse_watched table[LINES];
static dumpulse_seen seen[LINES];
static volatile uint8_t anything;
static volatile uint16_t any_time;
static volatile uint32_t any_number;
static volatile size_t any_length;
static uint8_t memory[2 * PAGE];
static dumpulse_node node;

uint16_t dumpulse_get_timestamp(void)
{
    return any_time;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    const dumpulse *sender = context;
    /* If an argument is wrong, the index is out of range, which Eva reports. */
    (void)sender->report[packet == agent.report && length == 260 ? 259 : 260];
}

void dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was, dumpulse_state is)
{
    /* The same, for what the hook of the watch gets. */
    (void)context->report[variable < DUMPULSE_VARIABLES && was != is ? 259 : 260];
}

bool dumpulse_right_(const uint8_t *packet, uint8_t label, uint32_t number)
{
    (void)label, (void)number;
    return packet[DUMPULSE_PACKET_SIZE - 1] == anything;
}

void dumpulse_make_(uint8_t *packet, uint8_t label, uint32_t number)
{
    (void)label, (void)number;
    packet[3] = anything;
}

/* Any lines, also those that make no sense, and any states. */
static void fill_lines(void)
{
    for (size_t i = 0; i != LINES; i++) {
        table[i].variable = anything;
        table[i].grace = any_time;
        table[i].lowest = anything;
        table[i].span = anything;
        table[i].late = any_time;
        table[i].dead = any_time;
        seen[i].since[0] = anything;
        seen[i].since[1] = anything;
        seen[i].state = anything;
    }
}

static void fill(uint8_t *destination, size_t count)
{
    for (size_t i = 0; i != count; i++)
        destination[i] = anything;
}

/* A node of any state, and numbers in memory that has any bytes. */
static void call_version_2(void)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];
    uint32_t words[4] = {any_number, any_number, any_number, any_number};
    const dumpulse_pace pace = {any_time, any_time, anything, anything};
    uint8_t record[DUMPULSE_RECORD_SIZE];
    size_t at;

    fill(packet, sizeof packet);
    node.questions = anything;
    dumpulse_hear(&node, anything, packet, any_length);
    dumpulse_node_tick(&node, &pace, any_time, anything, packet);
    fill(memory, sizeof memory);
    dumpulse_to_words_(words);
    at = dumpulse_slots_write(memory, record,
                              dumpulse_slots_read(memory) + dumpulse_load32_(packet));
    (void)memory[at + DUMPULSE_SLOT_SIZE - 1];
    at = dumpulse_flash_write(memory, PAGE, record, dumpulse_flash_read(memory, PAGE));
    (void)memory[at + DUMPULSE_RECORD_SIZE - 1];
}

int main(void)
{
    dumpulse_watcher watch = {table, seen, 0};

    fill(agent.report, sizeof agent.report);
    while (anything) {
        uint8_t packet[DUMPULSE_PACKET_SIZE]; /* it is never longer, even if the length says so */
        fill(packet, sizeof packet);
        dumpulse_process_packet(&agent, packet, any_length, &agent);
        dumpulse_record(&agent, anything, anything, anything);
        dumpulse_make_heartbeat(packet, anything, anything, anything);
        call_version_2();
        fill(bytes, sizeof bytes);
        dumpulse_check_report(bytes, any_length);
        dumpulse_was_heard(dumpulse_read_entry(bytes, anything));
        dumpulse_age(any_time, any_time);
        dumpulse_changed_variable(bytes);
        /* Eva knows no relation between the two numbers, so it gets each pair. */
        for (watch.count = 0; watch.count <= LINES; watch.count++) {
            for (uint8_t first = 0; first <= LINES; first++) {
                fill_lines();
                dumpulse_watch_part(&watch, &agent, any_time, first, anything);
            }
            table[0] =
                dumpulse_watched_make(anything, any_time, any_time, any_time, anything, anything);
            dumpulse_watch_begin(&watch, any_time);
            dumpulse_watch(&watch, &agent, any_time);
            dumpulse_watch_state(&watch, anything);
            dumpulse_watch_worst(&watch);
            dumpulse_watch_count(&watch, anything);
            dumpulse_watch_check(&watch, any_time);
        }
    }
    return 0;
}
