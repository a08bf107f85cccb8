/* What the example uses of ESP-IDF 5, by its documentation: so that a compiler can check the
 * example where there is no ESP-IDF. It cannot run.               SPDX-License-Identifier: MIT */
#ifndef ESPIDF_STANDIN_H
#define ESPIDF_STANDIN_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef uint32_t TickType_t;
#define portMAX_DELAY ((TickType_t)0xFFFFFFFFUL)
TickType_t xTaskGetTickCount(void);

typedef int esp_err_t;
#define ESP_OK 0
#define ESP_ERROR_CHECK(call) ((call) == ESP_OK ? (void)0 : abort())

typedef enum { UART_NUM_1 = 1 } uart_port_t;
typedef enum { UART_DATA_8_BITS = 3 } uart_word_length_t;
typedef enum { UART_PARITY_DISABLE } uart_parity_t;
typedef enum { UART_STOP_BITS_1 = 1 } uart_stop_bits_t;
typedef enum { UART_HW_FLOWCTRL_DISABLE } uart_hw_flowcontrol_t;
typedef enum { UART_SCLK_DEFAULT = 4 } uart_sclk_t;
typedef struct QueueDefinition *QueueHandle_t;

typedef struct {
    int baud_rate;
    uart_word_length_t data_bits;
    uart_parity_t parity;
    uart_stop_bits_t stop_bits;
    uart_hw_flowcontrol_t flow_ctrl;
    uint8_t rx_flow_ctrl_thresh;
    uart_sclk_t source_clk;
} uart_config_t;

#define UART_PIN_NO_CHANGE (-1)

esp_err_t uart_driver_install(uart_port_t port, int rx, int tx, int size, QueueHandle_t *, int);
esp_err_t uart_param_config(uart_port_t port, const uart_config_t *config);
esp_err_t uart_set_pin(uart_port_t port, int tx, int rx, int rts, int cts);
int uart_read_bytes(uart_port_t port, void *buffer, uint32_t length, TickType_t ticks_to_wait);
int uart_write_bytes(uart_port_t port, const void *source, size_t size);
esp_err_t uart_get_tx_buffer_free_size(uart_port_t port, size_t *size);

#endif
