/* A node on a serial line: it sends a heartbeat each second.   SPDX-License-Identifier: MIT
 *
 * Connect pin 1 (TX) of this board to the receiving pin of the agent, and ground to ground. On a
 * Leonardo, write Serial1 everywhere: its Serial is the USB socket only.
 *
 * A node needs nothing but the header. It has no hooks and keeps no table.
 */
#include <dumpulse.h>

const uint32_t BAUD = 115200;
const uint32_t PERIOD = 1000; // milliseconds; let it be less than half of what you call dead

const uint8_t VARIABLE = 3; // 0 to 63; each node has its own
const uint8_t SENDER = 76;  // who sends: 1 to 255

static uint8_t value; // means what you like; here it counts the heartbeats

static void send_heartbeat()
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];
    dumpulse_make_heartbeat(packet, VARIABLE, SENDER, value);
    Serial.write(packet, sizeof packet);
    value++;
}

void setup()
{
    Serial.begin(BAUD);
}

void loop()
{
    static uint32_t sent; // milliseconds

    // Your own work goes here. A heartbeat says that the loop still runs.
    if (millis() - sent >= PERIOD) {
        sent = millis();
        send_heartbeat();
    }
}
