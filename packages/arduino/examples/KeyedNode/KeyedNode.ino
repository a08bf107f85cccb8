/* A node with keys on a serial line: it only sends.      SPDX-License-Identifier: MIT
 *
 * It is as SerialNode, and nobody without its key can speak in its name. `dumpulse key split`
 * makes the key of each node, and dumpulse_keyed.h is the manual. The number that must outlive
 * a reset is in the first 12 bytes of the EEPROM.
 */
#include <EEPROM.h>
#include <dumpulse_keyed.h>

const uint32_t BAUD = 115200;
const uint32_t PERIOD = 1000; // milliseconds
const uint8_t VARIABLE = 3;   // 0 to 63; each node has its own, and the key of that
const uint8_t SENDER = 76;    // who sends: 1 to 255
const uint8_t KEY[16] = {0}; // write the key of this variable here, and show it to nobody

static dumpulse_node node;
static uint8_t value; // means what you like; here it counts the heartbeats

void dumpulse_get_key(uint8_t key[16], uint8_t)
{
    memcpy(key, KEY, sizeof KEY);
}

static void read_memory(uint8_t memory[2 * DUMPULSE_SLOT_SIZE])
{
    for (uint8_t i = 0; i != 2 * DUMPULSE_SLOT_SIZE; i++)
        memory[i] = EEPROM.read(i);
}

uint32_t dumpulse_load(uint8_t)
{
    uint8_t memory[2 * DUMPULSE_SLOT_SIZE];
    uint8_t blank = 0;

    read_memory(memory);
    while (blank != sizeof memory && memory[blank] == 0xFF)
        blank++;
    // A new chip has only such bytes. If somebody has erased them, the agent hears the node again
    // after as many resets as there were before.
    return blank == sizeof memory ? 0x800000 : dumpulse_slots_read(memory);
}

bool dumpulse_store(uint8_t, uint32_t number)
{
    uint8_t memory[2 * DUMPULSE_SLOT_SIZE], slot[DUMPULSE_SLOT_SIZE];

    read_memory(memory);
    const uint8_t at = dumpulse_slots_write(memory, slot, number);
    for (uint8_t i = 0; i != sizeof slot; i++)
        EEPROM.update(at + i, slot[i]);
    read_memory(memory);
    return memcmp(memory + at, slot, sizeof slot) == 0;
}

static void send_heartbeat()
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    if (value % 16 == 0 && dumpulse_sender_announce(&node, packet, VARIABLE))
        Serial.write(packet, sizeof packet);
    if (dumpulse_keyed_heartbeat(&node, packet, VARIABLE, SENDER, value))
        Serial.write(packet, sizeof packet);
    else
        dumpulse_sender_begin(&node, VARIABLE); // 255 heartbeats were made, or a write has failed
    value++;
}

void setup()
{
    Serial.begin(BAUD);
    dumpulse_sender_begin(&node, VARIABLE);
}

void loop()
{
    static uint32_t sent; // milliseconds

    if (millis() - sent >= PERIOD) {
        sent = millis();
        send_heartbeat();
    }
}
