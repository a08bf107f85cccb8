/* An agent that lights the LED of the board when a node is silent.   SPDX-License-Identifier: MIT
 *
 * It is the agent of the example SerialAgent. In addition it watches its own table: if no heartbeat
 * of variable NODE has come for more than LIMIT seconds, it lights the LED. The next heartbeat
 * switches the LED off again. After a start, the node has as long for its first heartbeat.
 * dumpulse_watch.h says what else the table below can do.
 */
#include <dumpulse_serial.h>
#include <dumpulse_watch.h>

const uint32_t BAUD = 115200;
const uint8_t NODE = 3;   // the variable to watch
const uint16_t LIMIT = 3; // seconds; let the node send at least twice in this time
const uint8_t SELF = 0, SELF_SENDER = 1; // the agent's own variable tells readers its time

static dumpulse agent;     // starts as zeros: nothing has been heard yet
static dumpulse_line line; // finds packets in the bytes from the line
static uint16_t seconds;   // since the start; after 65535 comes 0

// What to watch: a line for each node.
DUMPULSE_WATCH(
    watch,
    // silence() and grace() are in seconds
    DUMPULSE_WATCHED(variable(NODE), silence(LIMIT), misses(3), grace(LIMIT), values(0, 255)));

uint16_t dumpulse_get_timestamp(void)
{
    return seconds;
}

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

void setup()
{
    Serial.begin(BAUD);
    pinMode(LED_BUILTIN, OUTPUT);
}

void loop()
{
    static uint32_t counted; // milliseconds
    while (millis() - counted >= 1000) {
        counted += 1000;
        seconds++;
    }
    if (Serial.available() > 0) {
        dumpulse_record(&agent, SELF, SELF_SENDER, 0);
        dumpulse_take_byte(&agent, &line, Serial.read(), NULL);
    }
    dumpulse_watch(&watch, &agent, seconds);
}
