/* A stand-in for the header of ESP-IDF, for tests on this machine. SPDX-License-Identifier: MIT */
#ifndef FREERTOS_H
#define FREERTOS_H

#include <stdint.h>

typedef uint32_t TickType_t;
#define portMAX_DELAY ((TickType_t)0xFFFFFFFFUL)

#endif
