/* A stand-in for Zephyr's header, for tests on this machine. SPDX-License-Identifier: MIT
 *
 * It has the names and types of "CAN Controller" in Zephyr's documentation, version 3.7, as far as
 * the sample uses them.
 */
#ifndef ZEPHYR_DRIVERS_CAN_H
#define ZEPHYR_DRIVERS_CAN_H

#include <zephyr/device.h>
#include <zephyr/kernel.h>

#define CAN_STD_ID_MASK 0x7FFU
#define CAN_FRAME_IDE 1U
#define CAN_FRAME_RTR 2U

struct can_frame {
    uint32_t id;
    uint8_t dlc;
    uint8_t flags;
    union {
        uint8_t data[8];
        uint32_t data_32[2];
    };
};

struct can_filter {
    uint32_t id;
    uint32_t mask;
    uint8_t flags;
};

typedef void (*can_tx_callback_t)(const struct device *dev, int error, void *user_data);

#define CAN_MSGQ_DEFINE(name, most) struct k_msgq name = {most}

static inline uint8_t can_dlc_to_bytes(uint8_t dlc)
{
    return MIN(dlc, 8);
}

int can_add_rx_filter_msgq(const struct device *dev, struct k_msgq *msgq,
                           const struct can_filter *filter);
int can_start(const struct device *dev);
int can_stop(const struct device *dev);
int can_send(const struct device *dev, const struct can_frame *frame, k_timeout_t timeout,
             can_tx_callback_t callback, void *user_data);

#endif
