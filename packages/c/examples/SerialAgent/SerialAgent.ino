/* An agent on a serial line that lights the LED of the board while a node is silent.
 *                                                                SPDX-License-Identifier: MIT
 *
 * It keeps the last heartbeat of each of 64 variables, and a reader polls all of them. From a
 * Linux machine with the client, dumpulse:
 *
 *     dumpulse serial:/dev/ttyACM0 --now-from 0
 *
 * Serial is the line. On an Uno, a Nano and a Mega it is the USB socket, and pins 0 and 1. On a
 * Leonardo it is the USB socket only: write Serial1 everywhere to use its pins 0 and 1.
 *
 * While a report leaves, the sketch waits 17 ms in Serial.write(). Serial keeps 63 bytes that come
 * meanwhile, which are 7 heartbeats. It loses what comes beyond them.
 *
 * The agent watches its own table: if no heartbeat of variable NODE has come for more than LIMIT
 * seconds, it lights the LED. The next heartbeat switches it off. After a start, the node has as
 * long for its first heartbeat. dumpulse_watch.h is the manual of the watch. Without it, an agent
 * needs neither DUMPULSE_WATCH nor dumpulse_changed() nor dumpulse_watch().
 */
#include <dumpulse_serial.h>
#include <dumpulse_watch.h>

const uint32_t BAUD = 115200;
const uint8_t NODE = 3;   // the variable to watch
const uint16_t LIMIT = 3; // seconds; let the node send at least twice in this time

// The agent's own variable. Its timestamp tells the reader what time it is for the agent.
const uint8_t SELF = 0, SELF_SENDER = 1;

static dumpulse agent;     // starts as zeros: no heartbeat has come yet
static dumpulse_line line; // finds packets in the bytes from the line
static uint16_t seconds;   // since the start; after 65535 comes 0

// What to watch: a line for each node. silence() and grace() are in seconds.
DUMPULSE_WATCH(
    watch,
    DUMPULSE_WATCHED(variable(NODE), silence(LIMIT), misses(3), grace(LIMIT), values(0, 255)));

// The library calls this when it records a heartbeat. What it returns becomes the timestamp.
uint16_t dumpulse_get_timestamp(void)
{
    return seconds;
}

// The library calls this after a request. `packet` is the report of 260 bytes.
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context; // there is only one line
    Serial.write(packet, length);
}

// The library calls this once for each change.
void dumpulse_changed(dumpulse *, uint8_t, dumpulse_state, dumpulse_state is)
{
    digitalWrite(LED_BUILTIN, is == DUMPULSE_ALIVE ? LOW : HIGH);
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
    pinMode(LED_BUILTIN, OUTPUT);
}

void loop()
{
    keep_time();
    if (Serial.available() > 0) {
        dumpulse_record(&agent, SELF, SELF_SENDER, 0);
        dumpulse_take_byte(&agent, &line, Serial.read(), NULL);
    }
    dumpulse_watch(&watch, &agent, seconds);
}
