// An agent on an ESP8266 or an ESP32, whose nodes send by ESP-NOW: README.md of this library.
#include <dumpulse.h>
#ifdef ESP8266
#include <ESP8266WiFi.h>
#include <espnow.h>
#define RECEIVED uint8_t *, uint8_t *data, uint8_t length
#else // an ESP32, with version 3 of its core
#include <WiFi.h>
#include <esp_now.h>
#include <esp_wifi.h>
#define RECEIVED const esp_now_recv_info_t *, const uint8_t *data, int length
#define wifi_set_channel(channel) esp_wifi_set_channel(channel, WIFI_SECOND_CHAN_NONE)
#endif

const uint8_t CHANNEL = 1; // of the Wi-Fi: that of the nodes
const uint8_t QUEUE = 64;  // packets; divides 256

static dumpulse agent; // starts as zeros: nothing has been heard yet
static uint8_t queue[QUEUE][DUMPULSE_PACKET_SIZE];
static uint8_t written, taken, lost; // each has one writer, and starts again at 0 after 255
static uint8_t window[DUMPULSE_PACKET_SIZE], unused_bytes; // the last bytes from the line
static uint16_t seconds; // since the start; after 65535 comes 0

uint16_t dumpulse_get_timestamp(void) { return seconds; }

void dumpulse_send_packet(void *, const uint8_t *packet, size_t length)
{
    Serial.write(packet, length); // waits until the last bytes have room; the queue goes on
}

static void heard(RECEIVED) // on an ESP32, on the other core
{
    if (length != DUMPULSE_PACKET_SIZE || data[0] == 'A') // requests come on the line only
        return;
    if ((uint8_t)(written - __atomic_load_n(&taken, __ATOMIC_ACQUIRE)) == QUEUE) {
        lost += lost != UINT8_MAX;
        return;
    }
    memcpy(queue[written % QUEUE], data, DUMPULSE_PACKET_SIZE);
    __atomic_store_n(&written, (uint8_t)(written + 1), __ATOMIC_RELEASE);
}

void setup()
{
    Serial.begin(115200);
    WiFi.mode(WIFI_STA);
    wifi_set_channel(CHANNEL);
    esp_now_init();
    esp_now_register_recv_cb(heard);
}

void loop()
{
    static uint32_t counted; // milliseconds; this stays right when millis() starts again at 0
    for (; millis() - counted >= 1000; counted += 1000)
        seconds++;
    dumpulse_record(&agent, 0, 1, lost); // its own variable, 0
    if (taken != __atomic_load_n(&written, __ATOMIC_ACQUIRE)) {
        dumpulse_process_packet(&agent, queue[taken % QUEUE], DUMPULSE_PACKET_SIZE, NULL);
        __atomic_store_n(&taken, (uint8_t)(taken + 1), __ATOMIC_RELEASE);
    }
    if (Serial.available() > 0) {
        memmove(window, window + 1, sizeof window - 1);
        window[sizeof window - 1] = Serial.read();
        unused_bytes += unused_bytes != sizeof window;
        if (dumpulse_process_packet(&agent, window, unused_bytes, NULL) != DUMPULSE_REFUSED)
            unused_bytes = 0; // a byte belongs to one packet only
    }
}
