/* A node with keys on a serial line.                     SPDX-License-Identifier: MIT
 *
 * Nobody without its key can speak in its name. The page of this library says how to bring the key
 * in, and dumpulse_keyed.h is the manual. The node receives its beacons, and stores nothing.
 */
#include <dumpulse_keyed.h>

const uint32_t BAUD = 9600;   // as the agent's
const uint32_t PERIOD = 1000; // milliseconds
const uint32_t EPOCH = 10000; // as the agent's: a beacon comes in each
const uint8_t VARIABLE = 3;   // 0 to 63; each node has its own, and the key of that
const uint8_t SENDER = 76;    // who sends: 1 to 255
const uint8_t KEY[16] = {0};  // the key of this variable: show it to nobody

const uint8_t FRAME = DUMPULSE_PACKET_SIZE + 2;
const uint8_t BEACON = 0x80 + 97; // the first byte of its frame
const uint8_t FORGET = 30;        // questions: then the node forgets its epoch

static dumpulse_node node; // zeros: no beacon has come yet
static uint8_t epoch[4];   // as its beacon has it
static uint32_t confirmed; // milliseconds: when a beacon of this epoch came, or a question left
static uint8_t questions;  // without an answer
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
    if (frame[0] != BEACON || sum != 0)
        return;
    if (dumpulse_hear(&node, VARIABLE, frame + 1, DUMPULSE_PACKET_SIZE))
        memcpy(epoch, frame + 5, sizeof epoch);
    // Another node's beacon of this epoch shows as well that the epoch still lasts.
    if (node.epoch != 0 && memcmp(epoch, frame + 5, sizeof epoch) == 0) {
        confirmed = millis();
        questions = 0;
    }
}

static void ask()
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    if (++questions == FORGET)
        memset(&node, 0, sizeof node);
    dumpulse_ask(packet, VARIABLE);
    send(packet);
    confirmed = millis();
}

void setup()
{
    Serial.begin(BAUD);
    delay(PERIOD);
    ask();
}

void loop()
{
    static uint32_t sent; // milliseconds
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    while (Serial.available() != 0)
        receive(uint8_t(Serial.read()));
    if (millis() - confirmed >= EPOCH + EPOCH / 8)
        ask();
    if (millis() - sent >= PERIOD) {
        sent = millis();
        if (dumpulse_keyed_heartbeat(&node, packet, VARIABLE, SENDER, value)) {
            send(packet);
            value++;
        }
    }
}
