/* What tests/agree.py needs of server/watch.c and dumpulse_watch.c: clocks that it sets, and the
 * changes that the hook is told.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for sigset_t, in loop.h */
#include <string.h>

#include "../server/hook.h"
#include "../server/log.h"
#include "../server/loop.h"
#include "../server/names.h"
#include "../server/options.h"
#include "../server/sockets.h"
#include "../server/table.h"
#include "../server/timing.h"
#include "../server/watch.h"

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context, (void)packet, (void)length;
}

/* The linker gives all calls of log_say() to this: the server says what it forgets. */
void __wrap_log_say(const char *format, ...);
void __wrap_log_say(const char *format, ...)
{
    (void)format;
}

static uint64_t unix_ms, steady_ms;
uint64_t timing_unix_ns(void)
{
    return unix_ms * 1000000;
}

uint64_t timing_ns(void)
{
    return steady_ms * 1000000;
}

void sockets_take_waiting(void)
{
}

static uint64_t pause_ns;
void loop_define_task(size_t task, void (*run)(void), uint64_t every)
{
    (void)task, (void)run, (void)every;
}

void loop_set_interval(size_t task, uint64_t every)
{
    if (task == LOOP_WATCH)
        pause_ns = every;
}

/* The changes since the last call of agree_changes(). */
static uint8_t told[1024][3];
static unsigned told_count;
void hook_tell(uint8_t variable, uint8_t was, uint8_t is)
{
    const uint8_t change[3] = {variable, was, is};

    if (told_count < sizeof told / sizeof told[0])
        memcpy(told[told_count++], change, sizeof change);
}

unsigned agree_changes(uint8_t *changes);
unsigned agree_changes(uint8_t *changes)
{
    const unsigned count = told_count;

    memcpy(changes, told, (size_t)count * sizeof told[0]);
    told_count = 0;
    return count;
}

const char *const hook_states[DUMPULSE_DEAD + 1];
bool hook_check(void)
{
    return true;
}
void hook_begin(void)
{
}
void hook_run(void)
{
}
void hook_reap(void)
{
}
void hook_finish(void)
{
}

/* Reads a file of names. Returns "", or what is wrong with it. */
const char *agree_read(const char *path, uint64_t tick);
const char *agree_read(const char *path, uint64_t tick)
{
    memset(&options, 0, sizeof options);
    options.tick = tick;
    options.watch = path;
    options.exec = "told";
    (void)watch_read_names();
    return options.wrong;
}

void agree_begin(uint64_t now, uint64_t up);
void agree_begin(uint64_t now, uint64_t up)
{
    unix_ms = now;
    steady_ms = up;
    told_count = 0;
    memset(&table_agent, 0, sizeof table_agent);
    memset(watch_watcher.seen, 0, DUMPULSE_VARIABLES * sizeof *watch_watcher.seen);
    table_begin();
    watch_begin();
}

void agree_record(uint64_t now, uint64_t up, uint8_t variable, uint8_t sender, uint8_t value);
void agree_record(uint64_t now, uint64_t up, uint8_t variable, uint8_t sender, uint8_t value)
{
    unix_ms = now;
    steady_ms = up;
    table_read_clock();
    (void)dumpulse_record(&table_agent, variable, sender, value);
}

/* The server looks. Returns the ns until it wants to look again. */
uint64_t agree_look(uint64_t now, uint64_t up);
uint64_t agree_look(uint64_t now, uint64_t up)
{
    unix_ms = now;
    steady_ms = up;
    table_read_clock();
    watch_look();
    return pause_ns;
}

uint8_t agree_state(uint8_t variable);
uint8_t agree_state(uint8_t variable)
{
    return dumpulse_watch_state(&watch_watcher, variable);
}
