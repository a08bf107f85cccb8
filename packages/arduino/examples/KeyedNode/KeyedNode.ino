/* A node with keys on a serial line: it only sends.      SPDX-License-Identifier: MIT
 *
 * Nobody without its key can speak in its name. The page of this library says how to bring the key
 * in, and dumpulse_keyed.h is the manual. The number that must outlive a reset is in the first 12
 * bytes of the EEPROM.
 */
#include <EEPROM.h>
#include <dumpulse_keyed.h>

const uint32_t BAUD = 9600;    // as the agent's
const uint32_t PERIOD = 10000; // milliseconds; if it is 1000, the EEPROM is worn out in a year
const uint8_t VARIABLE = 3;    // 0 to 63; each node has its own, and the key of that
const uint8_t SENDER = 76;     // who sends: 1 to 255
const uint8_t KEY[16] = {0};   // the key of this variable: show it to nobody

static dumpulse_node node;
static uint8_t value; // means what you like; here it counts

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
    // A new chip has only such bytes. If somebody has erased them, the agent does not hear the node
    // until its number is as large again.
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

// Version 2 travels in frames on a serial line: the sum of their 10 bytes is 0.
static void send(const uint8_t packet[DUMPULSE_PACKET_SIZE])
{
    uint8_t sum = 0x80 + VARIABLE;

    Serial.write(sum);
    for (uint8_t i = 0; i != DUMPULSE_PACKET_SIZE; i++)
        sum += packet[i];
    Serial.write(packet, DUMPULSE_PACKET_SIZE);
    Serial.write(uint8_t(-sum));
}

static void send_heartbeats()
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    if (node.left < 2 && !dumpulse_sender_begin(&node, VARIABLE))
        return;                 // nothing can be stored: it must not send
    if (node.left % 16 == 15) { // at first, and again and again, as it may get lost
        dumpulse_sender_announce(&node, packet, VARIABLE);
        send(packet);
    }
    // While somebody sends junk, agents take only what comes twice.
    for (uint8_t times = 0; times != 2; times++)
        if (dumpulse_keyed_heartbeat(&node, packet, VARIABLE, SENDER, value))
            send(packet);
    value++;
}

void setup()
{
    Serial.begin(BAUD);
}

void loop()
{
    static uint32_t sent; // milliseconds

    if (millis() - sent >= PERIOD) {
        sent = millis();
        send_heartbeats();
    }
}
