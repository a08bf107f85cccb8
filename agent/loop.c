/* The loop of an agent for Linux: loop.h tells more.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for ppoll */
#include "loop.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include "counters.h"
#include "program.h"
#include "sockets.h"
#include "stats.h"
#include "timing.h"

/* The last of them: any of the others is set, so that the loop looks at one only. */
static volatile sig_atomic_t ending, asked, connected, signalled;

static void on_signal(int number)
{
    if (number == SIGUSR1)
        asked = 1;
    else if (number == SIGIO)
        connected = 1;
    else
        ending = 1;
    signalled = 1;
}

/* Shows the counters to whoever wants them; false: it shall end. Signals are let in only while the
 * loop waits, and so not between these lines. */
__attribute__((noinline, cold)) static bool heed_signals(void)
{
    signalled = 0;
    if (asked)
        counters_print();
    asked = 0;
    if (connected)
        stats_answer();
    connected = 0;
    return !ending;
}

sigset_t loop_catch_signals(void)
{
    static const int caught[] = {SIGTERM, SIGINT, SIGUSR1, SIGIO, SIGHUP};
    const struct sigaction action = {.sa_handler = on_signal};
    struct sigaction before;
    sigset_t blocked, waiting;

    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        (void)sigaction(caught[i], NULL, &before);
        if (caught[i] == SIGHUP && before.sa_handler == SIG_IGN)
            continue; /* as nohup wants it */
        (void)sigaddset(&blocked, caught[i]);
        (void)sigaction(caught[i], &action, NULL);
    }
    (void)sigprocmask(SIG_BLOCK, &blocked, &waiting);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
        (void)sigdelset(&waiting, caught[i]);
    return waiting;
}

static struct {
    void (*run)(void);
    uint64_t every, at; /* ns; every 0: never */
} tasks[LOOP_TASKS];

static uint64_t due; /* when the next task is */

void loop_define_task(size_t task, void (*run)(void), uint64_t every)
{
    tasks[task].run = run;
    loop_start_task(task, every);
}

void loop_start_task(size_t task, uint64_t every)
{
    tasks[task].every = every;
    tasks[task].at = due = 0;
}

void loop_pace_task(size_t task, uint64_t every)
{
    tasks[task].every = every;
}

/* Runs what is due, and finds out when there will be something next. Inlined, it would take the loop's
 * registers. */
__attribute__((noinline)) static void run_tasks(uint64_t now)
{
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < LOOP_TASKS; i++) {
        if (tasks[i].every != 0 && tasks[i].at <= now) {
            tasks[i].run();
            tasks[i].at = now + tasks[i].every;
        }
        if (tasks[i].every != 0 && tasks[i].at < next)
            next = tasks[i].at;
    }
    due = next;
}

/* Under load, to be woken for every packet costs more than to take it: at BUSY packets in a
 * round (16,000 a second, if it slept before) the server sleeps on for NAP and lets them queue up,
 * unless those of a nap might fill a quarter of a buffer. Packets and signals wait no longer than
 * that. It also sleeps when a socket was ready and had nothing: one that was passed may have errors
 * queued, or be shut down, and would be ready for ever. */
enum { BUSY = 16, NAP = 1000000 /* ns */ };

void loop_serve(const sigset_t *waiting)
{
    uint64_t taken = 0, now = timing_ns();
    int ready = 0;

    do {
        if (due <= now)
            run_tasks(now);
        const bool busy = taken >= BUSY || (ready > 0 && taken == 0);
        uint64_t wait = due - now;
        if (busy)
            wait = taken >= sockets_capacity / 4 ? 0 : NAP;
        const struct timespec timeout = {(time_t)(wait / TIMING_SECOND),
                                         (long)(wait % TIMING_SECOND)};
        ready = ppoll(sockets, busy ? 0 : sockets_count, &timeout, waiting);
        taken = program.take_packets(ready > 0);
        now = timing_ns();
    } while (!signalled || heed_signals());
    /* What had come before the signal is taken: at most what a buffer holds. */
    for (uint64_t last = 0; taken != 0 && last < sockets_capacity; last += taken)
        taken = program.take_packets(false);
}
