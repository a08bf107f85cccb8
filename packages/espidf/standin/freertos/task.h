/* A stand-in for the header of ESP-IDF, for tests on this machine. SPDX-License-Identifier: MIT */
#ifndef FREERTOS_TASK_H
#define FREERTOS_TASK_H

#ifndef FREERTOS_H
#error "include FreeRTOS.h before task.h" /* as FreeRTOS itself says */
#endif

TickType_t xTaskGetTickCount(void);

#endif
