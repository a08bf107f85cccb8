/* An agent on an ESP8266 or an ESP32, whose nodes send by ESP-NOW.   SPDX-License-Identifier: MIT
 *
 * A node sends its heartbeat of 8 bytes to everybody, FF:FF:FF:FF:FF:FF. The reader asks at the USB
 * socket, because a report of 260 bytes is longer than a frame of ESP-NOW. From a Linux machine
 * with the project's client:
 *
 *     ./client.py serial:/dev/ttyUSB0 --now-from 0
 *
 * Frames come in the task of the Wi-Fi, on an ESP32 on the other core. An agent may be called from
 * one place only. So that task puts packets into a queue, and the loop takes them.
 */
#include <dumpulse.h>
#ifdef ESP8266
#include <ESP8266WiFi.h>
#include <espnow.h>
#else // an ESP32, with version 3 of its core
#include <WiFi.h>
#include <esp_now.h>
#include <esp_wifi.h>
#endif

const uint32_t BAUD = 115200;
const uint8_t CHANNEL = 1; // of the Wi-Fi: that of the nodes
const uint8_t QUEUE = 64;  // packets; divides 256

// The agent's own variable. Its value says how many packets came while the queue was full.
const uint8_t SELF = 0, SELF_SENDER = 1;

static dumpulse agent; // starts as zeros: nothing has been heard yet
static uint8_t queue[QUEUE][DUMPULSE_PACKET_SIZE];
static uint8_t written, taken, lost;         // each has one writer, and starts again at 0 after 255
static uint8_t window[DUMPULSE_PACKET_SIZE]; // the last 8 bytes from the line
static uint8_t unused_bytes;                 // how many of these belong to no packet yet
static uint16_t seconds;                     // since the start; after 65535 comes 0

uint16_t dumpulse_get_timestamp(void)
{
    return seconds;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context;                // there is only one line
    Serial.write(packet, length); // waits until the last bytes have room; the queue goes on
}

#ifdef ESP8266
static void heard(uint8_t *, uint8_t *data, uint8_t length)
#else
static void heard(const esp_now_recv_info_t *, const uint8_t *data, int length)
#endif
{
    if (length != DUMPULSE_PACKET_SIZE)
        return;
    if ((uint8_t)(written - __atomic_load_n(&taken, __ATOMIC_ACQUIRE)) == QUEUE) {
        if (lost != UINT8_MAX)
            lost++;
        return;
    }
    memcpy(queue[written % QUEUE], data, DUMPULSE_PACKET_SIZE);
    __atomic_store_n(&written, (uint8_t)(written + 1), __ATOMIC_RELEASE);
}

static dumpulse_result process(const uint8_t *packet, uint8_t length)
{
    dumpulse_record(&agent, SELF, SELF_SENDER, lost);
    return dumpulse_process_packet(&agent, packet, length, NULL);
}

void setup()
{
    Serial.begin(BAUD);
    WiFi.mode(WIFI_STA);
#ifdef ESP8266
    wifi_set_channel(CHANNEL);
#else
    esp_wifi_set_channel(CHANNEL, WIFI_SECOND_CHAN_NONE);
#endif
    esp_now_init();
    esp_now_register_recv_cb(heard);
}

void loop()
{
    static uint32_t counted; // milliseconds; this stays right when millis() starts again at 0
    while (millis() - counted >= 1000) {
        counted += 1000;
        seconds++;
    }
    if (taken != __atomic_load_n(&written, __ATOMIC_ACQUIRE)) {
        if (queue[taken % QUEUE][0] != 'A') // requests come on the line only
            process(queue[taken % QUEUE], DUMPULSE_PACKET_SIZE);
        __atomic_store_n(&taken, (uint8_t)(taken + 1), __ATOMIC_RELEASE);
    }
    if (Serial.available() > 0) {
        memmove(window, window + 1, sizeof window - 1);
        window[sizeof window - 1] = Serial.read();
        if (unused_bytes < sizeof window)
            unused_bytes++;
        if (process(window, unused_bytes) != DUMPULSE_REFUSED)
            unused_bytes = 0;
    }
}
