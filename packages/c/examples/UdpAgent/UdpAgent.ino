/* An agent on a network, over UDP.   SPDX-License-Identifier: MIT
 *
 * It needs the library Ethernet from the Library Manager, and its shield or board. From a machine
 * of the same network, with the client, dumpulse:
 *
 *     dumpulse 192.168.1.77:9060 --now-from 0
 *
 * For WiFi, include the WiFi library of your board in place of Ethernet, write WiFiUDP in place of
 * EthernetUDP, and connect in setup() with WiFi.begin(NAME, PASSWORD). The rest is the same: both
 * classes are made from the core's class UDP.
 *
 * There is no password. Everybody who can reach the agent can send it heartbeats and ask it.
 */
#include <SPI.h>
#include <Ethernet.h>
#include <dumpulse.h>

static byte MAC[] = {0x02, 0xDC, 0x00, 0x00, 0x00, 0x01}; // of this board alone in your network
static const IPAddress ADDRESS(192, 168, 1, 77);
const uint16_t PORT = 9060;

const uint8_t SELF = 0, SELF_SENDER = 1; // the agent's own variable tells readers its time

static EthernetUDP udp;
static dumpulse agent;   // starts as zeros: nothing has been heard yet
static uint16_t seconds; // since the start; after 65535 comes 0

// The library calls this when it records a heartbeat. What it returns becomes the timestamp.
uint16_t dumpulse_get_timestamp(void)
{
    return seconds;
}

// The library calls this when a reader has asked. The report goes back to where the request came
// from. `context` is what loop() gives to dumpulse_process_packet.
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    EthernetUDP *const asked = (EthernetUDP *)context;
    if (asked->beginPacket(asked->remoteIP(), asked->remotePort())) {
        asked->write(packet, length);
        asked->endPacket(); // if the report is lost, the reader asks again
    }
}

void setup()
{
    Ethernet.begin(MAC, ADDRESS);
    udp.begin(PORT);
}

void loop()
{
    static uint32_t counted; // milliseconds
    while (millis() - counted >= 1000) {
        counted += 1000;
        seconds++;
    }
    // A datagram of another length is no packet. The next parsePacket() drops it.
    const int length = DUMPULSE_PACKET_SIZE;
    uint8_t packet[length];
    if (udp.parsePacket() == length && udp.read(packet, length) == length) {
        dumpulse_record(&agent, SELF, SELF_SENDER, 0);
        dumpulse_process_packet(&agent, packet, length, &udp);
    }
}
