/* A stand-in for the header of ESP-IDF, for tests on this machine. SPDX-License-Identifier: MIT */
#ifndef ESP_ERR_H
#define ESP_ERR_H

#include <stdlib.h>

typedef int esp_err_t;
#define ESP_OK 0
#define ESP_FAIL (-1)
#define ESP_ERR_INVALID_ARG 0x102
#define ESP_ERR_INVALID_STATE 0x103
#define ESP_ERROR_CHECK(call)                                                                      \
    do {                                                                                           \
        if ((call) != ESP_OK)                                                                      \
            abort();                                                                               \
    } while (0)

#endif
