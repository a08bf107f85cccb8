/* An agent on a CAN bus.                                  SPDX-License-Identifier: MIT
 *
 * It takes the bus that the device tree chooses as zephyr,canbus. SPEC.md, "Transport: CAN", has
 * the identifiers. Variable 0 is the agent's own: its timestamp is the current time, its value says
 * how many reports were given up, up to 255. With CONFIG_CAN_FD_MODE, a request in a frame of CAN
 * FD is answered in 5 such frames.
 */
#include <errno.h>
#include <string.h>

#include <zephyr/device.h>
#include <zephyr/drivers/can.h>
#include <zephyr/kernel.h>

#include "dumpulse.h"

enum { BASE = 0x680 /* a multiple of 128 */, REPORT_AT = 64, FD_REQUEST_AT = 126, FRAME = 8 };
enum { SELF = 0, SELF_SENDER = 1 };
/* Frames. While a report leaves, in 9 ms at 500 kbit/s, up to 36 heartbeats may come. */
enum { QUEUE = 64 };

static const struct device *const bus = DEVICE_DT_GET(DT_CHOSEN(zephyr_canbus));
CAN_MSGQ_DEFINE(received, QUEUE);
K_SEM_DEFINE(sent, 0, 1);
static int status; /* Result of the last frame: 0 means that it is on the bus. */

static dumpulse agent; /* zeros: no heartbeat has come yet */
static uint8_t given_up;

/* The unit is a second. The 64 bits of the time never wrap around. */
uint16_t dumpulse_get_timestamp(void)
{
    return (uint16_t)(k_uptime_get() / 1000);
}

static void on_sent(const struct device *dev, int error, void *user_data)
{
    ARG_UNUSED(dev);
    ARG_UNUSED(user_data);
    status = error;
    k_sem_give(&sent);
}

static bool send_frame(const uint8_t *bytes, size_t length, size_t number, bool fd,
                       k_timepoint_t end)
{
    struct can_frame frame = {.id = (uint32_t)(BASE + REPORT_AT + number),
                              .flags = fd ? CAN_FRAME_FDF | CAN_FRAME_BRS : 0,
                              .dlc = can_bytes_to_dlc((uint8_t)length)};

    memcpy(frame.data, bytes, length);
    /* With a callback, because without one, can_send() waits for ever for a bus that is silent. */
    return can_send(bus, &frame, sys_timepoint_timeout(end), on_sent, NULL) == 0 &&
           k_sem_take(&sent, sys_timepoint_timeout(end)) == 0 && status == 0;
}

/* Frames leave one after the other, in order. The table cannot change meanwhile, because only the
 * loop in main() changes it. */
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    const k_timepoint_t end = sys_timepoint_calc(K_SECONDS(1));
    const bool fd = *(const bool *)context; /* The report has the format of the request. */
    const size_t most = fd ? CAN_MAX_DLEN : FRAME;

    k_sem_reset(&sent);
    for (size_t at = 0; at < length; at += most) {
        if (send_frame(packet + at, MIN(length - at, most), at / most, fd, end))
            continue;
        /* Nobody acknowledges. The controller forgets the frame, so that the next report begins
         * with its first one. */
        if (given_up != UINT8_MAX)
            given_up++;
        (void)can_stop(bus);
        (void)can_start(bus);
        return;
    }
}

int main(void)
{
    static const struct can_filter heartbeats = {.id = BASE, .mask = CAN_STD_ID_MASK - 63};
    static const struct can_filter requests = {.id = BASE + FD_REQUEST_AT,
                                               .mask = CAN_STD_ID_MASK - 1};
    static const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
    struct can_frame frame;

    if (!device_is_ready(bus) || can_add_rx_filter_msgq(bus, &received, &heartbeats) < 0 ||
        can_add_rx_filter_msgq(bus, &received, &requests) < 0 ||
        (CAN_MAX_DLEN > FRAME && can_set_mode(bus, CAN_MODE_FD) != 0) || can_start(bus) != 0) {
        printk("can_agent: the CAN bus does not start\n");
        return -EIO;
    }
    for (;;) {
        if (k_msgq_get(&received, &frame, K_FOREVER) != 0)
            continue;
        /* Other flags are those of remote frames. A frame of CAN FD can only be a request, which
         * has an identifier of its own; a classic frame means nothing there. */
        bool fd = (frame.flags & CAN_FRAME_FDF) != 0;
        if ((frame.flags & ~(CAN_FRAME_FDF | CAN_FRAME_BRS | CAN_FRAME_ESI)) != 0 ||
            fd != (frame.id == BASE + FD_REQUEST_AT) ||
            (fd && memcmp(frame.data, request, sizeof request) != 0))
            continue;
        (void)dumpulse_record(&agent, SELF, SELF_SENDER, given_up);
        (void)dumpulse_process_packet(&agent, frame.data, can_dlc_to_bytes(frame.dlc), &fd);
    }
}
