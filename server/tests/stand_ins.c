/* See stand_ins.h.   SPDX-License-Identifier: MIT */
#include "stand_ins.h"

#include <stdarg.h>
#include <stdio.h>

#include "server/log.h"
#include "server/timing.h"

char logged[LOGGED_LINES][200];
size_t logged_count;
bool log_is_full;
uint64_t clock_ns, clock_unix_ns;

static char *line_of(size_t number)
{
    return logged[number < LOGGED_LINES ? number : LOGGED_LINES - 1];
}

bool log_say(const char *format, ...)
{
    va_list arguments;

    if (log_is_full)
        return false;
    if (format[0] == '<') /* its severity */
        format += 3;
    va_start(arguments, format);
    (void)vsnprintf(line_of(logged_count++), sizeof logged[0], format, arguments);
    va_end(arguments);
    return true;
}

void log_count_lost(uint32_t lines)
{
    logged_count += lines;
}

bool log_say_lost(void)
{
    return true;
}

const char *last_logged(void)
{
    return logged_count == 0 ? "" : line_of(logged_count - 1);
}

uint64_t timing_ns(void)
{
    return clock_ns;
}

uint64_t timing_boot_ns(void)
{
    return clock_ns;
}

uint64_t timing_unix_ns(void)
{
    return clock_unix_ns;
}

uint64_t random_number(void)
{
    static uint64_t state;
    uint64_t mixed = state += UINT64_C(0x9E3779B97F4A7C15);

    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94D049BB133111EB);
    return mixed ^ mixed >> 31;
}
