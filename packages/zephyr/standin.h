/* What the sample uses of Zephyr 3.7, by its documentation: so that a compiler can check the sample
 * where there is no Zephyr. It cannot run.                SPDX-License-Identifier: MIT */
#ifndef ZEPHYR_STANDIN_H
#define ZEPHYR_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARG_UNUSED(argument) (void)(argument)
#define MIN(a, b) ((a) < (b) ? (a) : (b))

typedef const struct timeout *k_timeout_t; /* no number, as there */
typedef const struct timepoint *k_timepoint_t;
#define K_FOREVER ((k_timeout_t)-1)
#define K_SECONDS(seconds) ((k_timeout_t)(1000 * (intptr_t)(seconds)))

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

struct device {
    const char *name;
};
extern const struct device chosen_zephyr_canbus; /* the device tree chooses nothing else */
#define DT_CHOSEN(property) chosen_##property
#define DEVICE_DT_GET(node) (&node)
bool device_is_ready(const struct device *dev);

#define CAN_STD_ID_MASK 0x7FFU
#ifdef CONFIG_CAN_FD_MODE
#define CAN_MAX_DLEN 64U
#else
#define CAN_MAX_DLEN 8U
#endif
enum { CAN_MODE_FD = 4, CAN_FRAME_FDF = 4, CAN_FRAME_BRS = 8, CAN_FRAME_ESI = 16 };
struct can_frame {
    uint32_t id;
    uint8_t dlc, flags;
    uint8_t data[CAN_MAX_DLEN];
};
struct can_filter {
    uint32_t id, mask;
    uint8_t flags;
};
typedef void (*can_tx_callback_t)(const struct device *dev, int error, void *user_data);
#define CAN_MSGQ_DEFINE(name, most) struct k_msgq name = {most}
uint8_t can_dlc_to_bytes(uint8_t dlc);
uint8_t can_bytes_to_dlc(uint8_t length);
int can_set_mode(const struct device *dev, uint32_t mode);
int can_add_rx_filter_msgq(const struct device *dev, struct k_msgq *msgq,
                           const struct can_filter *filter);
int can_start(const struct device *dev);
int can_stop(const struct device *dev);
int can_send(const struct device *dev, const struct can_frame *frame, k_timeout_t timeout,
             can_tx_callback_t callback, void *user_data);

#endif
