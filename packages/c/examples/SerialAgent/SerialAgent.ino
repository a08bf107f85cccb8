/* An agent on a serial line.   SPDX-License-Identifier: MIT
 *
 * It keeps the last heartbeat of each of 64 variables. A reader that asks gets all of them. From a
 * Linux machine with the client, dumpulse:
 *
 *     dumpulse serial:/dev/ttyACM0 --now-from 0
 *
 * Serial is the line. On an Uno, a Nano and a Mega it is the USB socket, and pins 0 and 1. On a
 * Leonardo it is the USB socket only: write Serial1 everywhere to use its pins 0 and 1.
 *
 * While a report leaves, the sketch waits 17 ms in Serial.write(). Serial keeps 63 bytes that come
 * meanwhile, which are 7 heartbeats. It loses what comes beyond them.
 */
#include <dumpulse_serial.h>

const uint32_t BAUD = 115200;

// The agent's own variable. Its timestamp tells the reader what time it is for the agent.
const uint8_t SELF = 0, SELF_SENDER = 1;

static dumpulse agent;     // starts as zeros: nothing has been heard yet
static dumpulse_line line; // finds packets in the bytes from the line
static uint16_t seconds;   // since the start; after 65535 comes 0

// The library calls this when it records a heartbeat. What it returns becomes the timestamp.
uint16_t dumpulse_get_timestamp(void)
{
    return seconds;
}

// The library calls this when a reader has asked. `packet` is the report of 260 bytes.
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context; // there is only one line
    Serial.write(packet, length);
}

// Counts seconds. This stays right when millis() starts again at 0, which it does after 50 days.
static void keep_time()
{
    static uint32_t counted; // milliseconds
    while (millis() - counted >= 1000) {
        counted += 1000;
        seconds++;
    }
}

void setup()
{
    Serial.begin(BAUD);
}

void loop()
{
    keep_time();
    if (Serial.available() > 0) {
        dumpulse_record(&agent, SELF, SELF_SENDER, 0);
        dumpulse_take_byte(&agent, &line, Serial.read(), NULL);
    }
}
