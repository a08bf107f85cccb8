/* Calls of version 2 what WP does not prove, a node's clock and a number's memory, in any order and
 * with any bytes. In this program Frama-C's Eva looks for undefined behaviour.
 *                                                            SPDX-License-Identifier: MIT */
#include "dumpulse_node.c"
#include "dumpulse_slots.c"

enum { PAGE = 2 * DUMPULSE_RECORD_SIZE };

static volatile uint8_t anything;
static volatile uint16_t any_time;
static volatile uint32_t any_number;
static volatile size_t any_length;
static uint8_t memory[2 * PAGE];
static dumpulse_node node;

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

static void fill(uint8_t *destination, size_t count)
{
    for (size_t i = 0; i != count; i++)
        destination[i] = anything;
}

int main(void)
{
    while (anything) {
        uint8_t packet[DUMPULSE_PACKET_SIZE]; /* it is never longer, even if the length says so */
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
    return 0;
}
