/* A stand-in for Zephyr's header, for tests on this machine. SPDX-License-Identifier: MIT */
#ifndef ZEPHYR_KERNEL_H
#define ZEPHYR_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define ARG_UNUSED(argument) (void)(argument)
#define MIN(a, b) ((a) < (b) ? (a) : (b))

typedef struct {
    int64_t ms; /* -1: for ever */
} k_timeout_t;
#define K_FOREVER ((k_timeout_t){-1})
#define K_SECONDS(seconds) ((k_timeout_t){1000 * (int64_t)(seconds)})

typedef struct {
    int64_t ms; /* of k_uptime_get() */
} k_timepoint_t;

k_timepoint_t sys_timepoint_calc(k_timeout_t timeout);
k_timeout_t sys_timepoint_timeout(k_timepoint_t timepoint);
int64_t k_uptime_get(void);
void printk(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct k_sem {
    unsigned count, limit;
};
#define K_SEM_DEFINE(name, initial, most) struct k_sem name = {initial, most}
int k_sem_take(struct k_sem *sem, k_timeout_t timeout);
void k_sem_give(struct k_sem *sem);
void k_sem_reset(struct k_sem *sem);

struct k_msgq {
    size_t most;
};
int k_msgq_get(struct k_msgq *msgq, void *data, k_timeout_t timeout);

#endif
