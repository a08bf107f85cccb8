/* The loop of an agent for Linux; see loop.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for ppoll */
#include "loop.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include "counters.h"
#include "hook.h"
#include "program.h"
#include "sockets.h"
#include "stats.h"
#include "timing.h"

/* `signalled` is set with each of the others, so that the loop has to read only that one. */
static volatile sig_atomic_t ending, counters_asked, connected, child_ended, signalled;

static void on_signal(int number)
{
    if (number == SIGUSR1)
        counters_asked = 1;
    else if (number == SIGIO)
        connected = 1;
    else if (number == SIGCHLD)
        child_ended = 1;
    else
        ending = 1;
    signalled = 1;
}

/* Does what the signals ask for. Returns false if the program has to end. A signal can come only
 * while the loop waits, so never between these lines. */
__attribute__((noinline, cold)) static bool handle_signals(void)
{
    signalled = 0;
    if (counters_asked)
        counters_print();
    counters_asked = 0;
    if (connected)
        stats_answer();
    connected = 0;
    if (child_ended)
        hook_reap();
    child_ended = 0;
    return !ending;
}

sigset_t loop_catch_signals(void)
{
    static const int caught[] = {SIGTERM, SIGINT, SIGUSR1, SIGIO, SIGCHLD, SIGHUP};
    const struct sigaction action = {.sa_handler = on_signal};
    struct sigaction before;
    sigset_t blocked, waiting;

    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        (void)sigaction(caught[i], NULL, &before);
        if (caught[i] == SIGHUP && before.sa_handler == SIG_IGN)
            continue; /* nohup has set that, and it stays */
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
    uint64_t every; /* ns; 0: the task never runs */
    uint64_t at;    /* ns: when it runs next */
} tasks[LOOP_TASKS];

static uint64_t due; /* ns: when the next task runs */

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

void loop_set_interval(size_t task, uint64_t every)
{
    tasks[task].every = every;
}

/* Runs the tasks that are due, and finds out when the next one is. If this were inlined, the loop
 * would have too few registers. */
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

/* Under load, it costs more to wake up for a packet than to take it. So when a round had BUSY
 * packets (16,000 a second, if the loop slept before), the server sleeps for NAP, and the packets
 * queue up. It does not sleep if the last round had so many packets that those of one NAP might
 * fill a quarter of a buffer. Packets and signals never wait longer than NAP.
 * The server also sleeps when a socket was ready but had no packet. A socket that was passed to it
 * may have errors queued, or be shut down: such a socket is always ready. */
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
    } while (!signalled || handle_signals());
    /* Takes the packets that came before the signal: at most as many as a buffer holds. */
    for (uint64_t last = 0; taken != 0 && last < sockets_capacity; last += taken)
        taken = program.take_packets(false);
}
