/* A stand-in for an ESP32, for tests on this machine.     SPDX-License-Identifier: MIT
 *
 * Its UART is the standard input and output. It runs app_main() until the input ends. The clock
 * does not run by itself, so that a test knows every timestamp: each byte that comes takes 16
 * ticks. The transmitter sends a byte whenever one comes, as a line that is equally fast in both
 * directions does, and the rest when the input has paused or ended. A wrong use of the driver, by
 * the rules of its documentation, ends the program.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver/uart.h"
#include "freertos/FreeRTOS.h"
#include "freertos/task.h"

enum { FIFO = 128 /* bytes in hardware: a driver's buffer must be larger */, PAUSE = 20 /* ms */ };
enum { TICKS_PER_BYTE = 16, LARGEST = 4096 };

void app_main(void);

static TickType_t ticks;
static bool has_pins, has_format;
static uint8_t waiting[LARGEST];
static size_t waiting_size, waiting_now;

static void must(bool right, const char *rule)
{
    if (right)
        return;
    fprintf(stderr, "esp32: %s\n", rule);
    exit(1);
}

static void transmit(size_t count)
{
    if (count > waiting_now)
        count = waiting_now;
    for (size_t sent = 0; sent != count;) {
        const ssize_t now = write(STDOUT_FILENO, waiting + sent, count - sent);
        must(now > 0, "nobody takes the output");
        sent += (size_t)now;
    }
    waiting_now -= count;
    memmove(waiting, waiting + count, waiting_now);
}

TickType_t xTaskGetTickCount(void)
{
    return ticks;
}

esp_err_t uart_driver_install(uart_port_t port, int rx_buffer_size, int tx_buffer_size,
                              int queue_size, QueueHandle_t *queue, int intr_alloc_flags)
{
    if (port >= UART_NUM_MAX || rx_buffer_size <= FIFO ||
        (tx_buffer_size != 0 && tx_buffer_size <= FIFO) || tx_buffer_size > LARGEST)
        return ESP_FAIL;
    must(queue_size == 0 && queue == NULL && intr_alloc_flags == 0, "it has no queue of events");
    waiting_size = (size_t)tx_buffer_size;
    return ESP_OK;
}

esp_err_t uart_param_config(uart_port_t port, const uart_config_t *config)
{
    has_format = port < UART_NUM_MAX && config->baud_rate == 115200 &&
                 config->data_bits == UART_DATA_8_BITS && config->parity == UART_PARITY_DISABLE &&
                 config->stop_bits == UART_STOP_BITS_1 &&
                 config->flow_ctrl == UART_HW_FLOWCTRL_DISABLE;
    return port < UART_NUM_MAX ? ESP_OK : ESP_FAIL;
}

esp_err_t uart_set_pin(uart_port_t port, int tx, int rx, int rts, int cts)
{
    has_pins =
        tx >= 0 && rx >= 0 && tx != rx && rts == UART_PIN_NO_CHANGE && cts == UART_PIN_NO_CHANGE;
    return port < UART_NUM_MAX ? ESP_OK : ESP_FAIL;
}

int uart_read_bytes(uart_port_t port, void *buffer, uint32_t length, TickType_t ticks_to_wait)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    must(port < UART_NUM_MAX && waiting_size != 0, "the driver is not installed");
    must(has_format, "the line has another format than that of SPEC.md");
    must(has_pins, "the UART has no pins");
    must(length == 1 && ticks_to_wait == portMAX_DELAY, "it can only wait for one byte");
    if (poll(&input, 1, PAUSE) == 0)
        transmit(waiting_now);
    if (read(STDIN_FILENO, buffer, 1) != 1) {
        transmit(waiting_now);
        exit(0);
    }
    transmit(1);
    ticks += TICKS_PER_BYTE;
    return 1;
}

int uart_write_bytes(uart_port_t port, const void *source, size_t size)
{
    must(port < UART_NUM_MAX && waiting_size != 0, "the driver is not installed");
    must(waiting_now + size <= waiting_size, "the task would wait for room in the buffer");
    memcpy(waiting + waiting_now, source, size);
    waiting_now += size;
    return (int)size;
}

esp_err_t uart_get_tx_buffer_free_size(uart_port_t port, size_t *size)
{
    if (port >= UART_NUM_MAX || size == NULL || waiting_size == 0)
        return ESP_ERR_INVALID_ARG;
    *size = waiting_size - waiting_now;
    return ESP_OK;
}

int main(void)
{
    app_main();
    must(false, "app_main() has ended");
    return 1;
}
