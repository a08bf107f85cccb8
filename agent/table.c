/* The table of an agent for Linux: table.h tells more.   SPDX-License-Identifier: MIT */
#include "table.h"

#include "options.h"
#include "timing.h"

dumpulse table_agent;
uint16_t table_stamp;

uint16_t dumpulse_get_timestamp(void)
{
    return table_stamp;
}

void table_read_clock(void)
{
    table_stamp = (uint16_t)(timing_unix_ms() / options.tick);
}

void table_stamp_self(void)
{
    if (options.self)
        (void)dumpulse_record(&table_agent, (uint8_t)options.self_variable,
                              (uint8_t)options.self_sender, 0);
}
