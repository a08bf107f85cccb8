/* A node with keys on a serial line.                     SPDX-License-Identifier: MIT
 *
 * Nobody without its key can speak in its name. The page of this library says how to bring the key
 * in, and dumpulse_keyed.h is the manual. The node receives its beacons, and stores nothing.
 */
#include <dumpulse_keyed.h>

const uint32_t BAUD = 9600;   // as the agent's
const uint16_t PERIOD = 1000; // milliseconds, at most 50000, also of an epoch
const uint16_t EPOCH = 10000; // as the agent's: a beacon comes in each
const uint8_t VARIABLE = 3;   // 0 to 63; each node has its own, and the key of that
const uint8_t SENDER = 76;    // who sends: 1 to 255
const uint8_t KEY[16] = {0};  // the key of this variable: show it to nobody

const uint8_t FRAME = DUMPULSE_PACKET_SIZE + 2;
const uint8_t BEACON = 0x80 + 97; // the first byte of its frame

static const dumpulse_pace pace = {EPOCH, PERIOD, VARIABLE, SENDER};
static dumpulse_node node; // zeros: no beacon has come yet
static uint8_t value;      // means what you like; here it counts

void dumpulse_get_key(uint8_t key[16], uint8_t)
{
    memcpy(key, KEY, sizeof KEY);
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

static void receive(uint8_t byte)
{
    static uint8_t frame[FRAME];
    uint8_t sum = byte;

    for (uint8_t i = 0; i != FRAME - 1; i++) {
        frame[i] = frame[i + 1];
        sum += frame[i];
    }
    frame[FRAME - 1] = byte;
    if (frame[0] == BEACON && sum == 0)
        dumpulse_hear(&node, VARIABLE, frame + 1, DUMPULSE_PACKET_SIZE);
}

void setup()
{
    Serial.begin(BAUD);
    delay(PERIOD);
}

void loop()
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    while (Serial.available() != 0)
        receive(uint8_t(Serial.read()));
    while (dumpulse_node_tick(&node, &pace, uint16_t(millis()), value, packet)) {
        send(packet);
        if (packet[5] != 0) // it is no question
            value++;
    }
}
