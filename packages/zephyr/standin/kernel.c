/* A stand-in for Zephyr, for tests on this machine.       SPDX-License-Identifier: MIT
 *
 * Each line of the standard input is a frame as candump writes it, such as 683#0472014AF1034C09,
 * 683#R8 or 00000683#00, or one of these:
 *     wait MS   time goes on
 *     deaf      from now on, nobody on the bus acknowledges a frame
 *     hears     somebody does
 * What the sample sends goes to the standard output, in the same form. The clock stands still but
 * for `wait`, and when the sample waits in vain.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zephyr/device.h>
#include <zephyr/drivers/can.h>
#include <zephyr/kernel.h>

enum { FILTERS = 4 };

const struct device chosen_zephyr_canbus = {"can"};
static struct can_filter filters[FILTERS];
static int filters_used;
static int64_t now;
static bool started, deaf;
static can_tx_callback_t pending; /* of a frame that nobody acknowledges */
static void *pending_data;

static void must(bool right, const char *rule)
{
    if (right)
        return;
    fprintf(stderr, "zephyr: %s\n", rule);
    exit(1);
}

bool device_is_ready(const struct device *dev)
{
    return dev == &chosen_zephyr_canbus;
}

int64_t k_uptime_get(void)
{
    return now;
}

k_timepoint_t sys_timepoint_calc(k_timeout_t timeout)
{
    return (k_timepoint_t){now + timeout.ms};
}

k_timeout_t sys_timepoint_timeout(k_timepoint_t timepoint)
{
    return (k_timeout_t){timepoint.ms > now ? timepoint.ms - now : 0};
}

void printk(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
}

int k_sem_take(struct k_sem *sem, k_timeout_t timeout)
{
    if (sem->count != 0) {
        sem->count--;
        return 0;
    }
    must(timeout.ms >= 0, "it waits for ever");
    now += timeout.ms;
    return -EAGAIN;
}

void k_sem_give(struct k_sem *sem)
{
    sem->count = MIN(sem->count + 1, sem->limit);
}

void k_sem_reset(struct k_sem *sem)
{
    sem->count = 0;
}

int can_add_rx_filter_msgq(const struct device *dev, struct k_msgq *msgq,
                           const struct can_filter *filter)
{
    must(device_is_ready(dev) && msgq->most != 0, "the filter has no bus or no queue");
    if (filters_used == FILTERS)
        return -ENOSPC;
    filters[filters_used] = *filter;
    return filters_used++;
}

int can_start(const struct device *dev)
{
    must(device_is_ready(dev), "it is no bus");
    if (started)
        return -EALREADY;
    started = true;
    return 0;
}

int can_stop(const struct device *dev)
{
    must(device_is_ready(dev), "it is no bus");
    if (!started)
        return -EALREADY;
    started = false;
    if (pending != NULL)
        pending(dev, -ENETDOWN, pending_data);
    pending = NULL;
    return 0;
}

int can_send(const struct device *dev, const struct can_frame *frame, k_timeout_t timeout,
             can_tx_callback_t callback, void *user_data)
{
    must(device_is_ready(dev) && frame->dlc <= 8 && frame->flags == 0, "the frame is wrong");
    if (!started)
        return -ENETDOWN;
    must(callback != NULL, "without a callback, it may wait for ever");
    if (pending != NULL) { /* the only mailbox is full */
        now += timeout.ms;
        return -EAGAIN;
    }
    if (deaf) {
        pending = callback;
        pending_data = user_data;
        return 0;
    }
    printf("%03X#", (unsigned)frame->id);
    for (size_t i = 0; i < frame->dlc; i++)
        printf("%02X", frame->data[i]);
    printf("\n");
    callback(dev, 0, user_data);
    return 0;
}

/* Reads a line that is a frame, and returns whether it passes the filters. */
static bool passes(const char *line, struct can_frame *frame)
{
    const char *data = strchr(line, '#');

    must(data != NULL, line);
    frame->id = (uint32_t)strtoul(line, NULL, 16);
    frame->dlc = frame->flags = 0; /* the data of a remote frame are those of an earlier frame */
    if (data - line == 8)
        frame->flags |= CAN_FRAME_IDE;
    if (*++data == 'R') {
        frame->flags |= CAN_FRAME_RTR;
        frame->dlc = (uint8_t)strtoul(data + 1, NULL, 10);
    }
    for (; frame->dlc < 8 && sscanf(data, "%2hhx", &frame->data[frame->dlc]) == 1; data += 2)
        frame->dlc++;
    for (int i = 0; started && i < filters_used; i++)
        if ((filters[i].flags & CAN_FRAME_IDE) == (frame->flags & CAN_FRAME_IDE) &&
            ((filters[i].id ^ frame->id) & filters[i].mask) == 0)
            return true;
    return false;
}

int k_msgq_get(struct k_msgq *msgq, void *data, k_timeout_t timeout)
{
    char line[100];

    must(msgq->most != 0 && timeout.ms < 0, "it waits only for frames");
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strncmp(line, "wait ", 5) == 0)
            now += strtol(line + 5, NULL, 10);
        else if (strcmp(line, "deaf\n") == 0 || strcmp(line, "hears\n") == 0)
            deaf = line[0] == 'd';
        else if (passes(line, data))
            return 0;
    }
    exit(0);
}
