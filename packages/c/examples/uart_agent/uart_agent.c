/* An agent on a UART of an ESP32.                         SPDX-License-Identifier: MIT
 *
 * The line has 115,200 baud, 8 data bits, no parity, 1 stop bit. GPIO 17 sends and GPIO 16
 * receives: change them for your board. Another machine asks the agent over this line:
 *
 *     dumpulse get serial:/dev/ttyUSB0@115200 --now-from 0 --tick 1280ms
 */
#include "driver/uart.h"
#include "dumpulse_serial.h"
#include "freertos/FreeRTOS.h"
#include "freertos/task.h"

#define PORT UART_NUM_1
enum { TRANSMIT_PIN = 17, RECEIVE_PIN = 16, BAUD = 115200 };
/* Bytes. Up to 260 come in while a report of 260 bytes leaves: this is enough for three reports. */
enum { BUFFER = 1024 };
/* The agent's own variable: it tells a reader the time of the agent. */
enum { SELF = 0, SELF_SENDER = 1 };

static dumpulse agent; /* zeros: no heartbeat has come yet */
static dumpulse_line line;

/* The unit is 128 ticks: 1.28 s if FreeRTOS has 100 ticks a second, as it has by default. It is a
 * power of two, so that the time goes on evenly when the 32 bits of the tick count wrap around. */
uint16_t dumpulse_get_timestamp(void)
{
    return (uint16_t)(xTaskGetTickCount() / 128U);
}

/* The driver copies the bytes and sends them later. If too many wait already, the report is
 * dropped, and the reader asks again: so a flood of requests cannot make the agent wait. */
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    size_t room = 0;

    (void)context; /* there is only one line */
    if (uart_get_tx_buffer_free_size(PORT, &room) == ESP_OK && room >= length)
        (void)uart_write_bytes(PORT, packet, length);
}

void app_main(void)
{
    const uart_config_t config = {
        .baud_rate = BAUD,
        .data_bits = UART_DATA_8_BITS,
        .parity = UART_PARITY_DISABLE,
        .stop_bits = UART_STOP_BITS_1,
        .flow_ctrl = UART_HW_FLOWCTRL_DISABLE,
        .source_clk = UART_SCLK_DEFAULT,
    };
    uint8_t byte;

    ESP_ERROR_CHECK(uart_driver_install(PORT, BUFFER, BUFFER, 0, NULL, 0));
    ESP_ERROR_CHECK(uart_param_config(PORT, &config));
    ESP_ERROR_CHECK(
        uart_set_pin(PORT, TRANSMIT_PIN, RECEIVE_PIN, UART_PIN_NO_CHANGE, UART_PIN_NO_CHANGE));
    for (;;) {
        if (uart_read_bytes(PORT, &byte, 1, portMAX_DELAY) != 1)
            continue;
        (void)dumpulse_record(&agent, SELF, SELF_SENDER, 0);
        (void)dumpulse_take_byte(&agent, &line, byte, NULL);
    }
}
