/* The loop of an agent for Linux; see loop.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for ppoll */
#include "loop.h"

#include <signal.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <time.h>

#include "sockets.h"
#include "timing.h"

/* `signalled` is set with each of the others, so that the loop has to read only that one. */
static volatile sig_atomic_t ending, usr1_came, hup_came, io_came, tasks_due, child_came, signalled;

static void on_signal(int number)
{
    if (number == SIGUSR1)
        usr1_came = 1;
    else if (number == SIGHUP)
        hup_came = 1;
    else if (number == SIGIO)
        io_came = 1;
    else if (number == SIGALRM)
        tasks_due = 1;
    else if (number == SIGCHLD)
        child_came = 1;
    else
        ending = 1;
    signalled = 1;
}

sigset_t loop_catch_signals(void)
{
    static const int caught[] = {SIGTERM, SIGINT, SIGUSR1, SIGIO, SIGALRM, SIGCHLD, SIGHUP};
    const struct sigaction action = {.sa_handler = on_signal};
    struct sigaction before;
    sigset_t blocked, waiting;

    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file of the log or --state at its limit is no end */
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

void loop_define_task(size_t task, void (*run)(void), uint64_t every)
{
    tasks[task].run = run;
    loop_start_task(task, every);
}

void loop_start_task(size_t task, uint64_t every)
{
    tasks[task].every = every;
    tasks[task].at = 0;
    tasks_due = signalled = 1;
}

void loop_set_interval(size_t task, uint64_t every)
{
    tasks[task].every = every;
}

/* Runs the tasks that are due, and has the kernel send SIGALRM when the next one is. So the loop
 * does not have to read the clock for each packet. */
static void run_tasks(void)
{
    const uint64_t now = timing_ns();
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < LOOP_TASKS; i++) {
        if (tasks[i].every != 0 && tasks[i].at <= now) {
            tasks[i].run();
            tasks[i].at = now + tasks[i].every;
        }
    }
    for (size_t i = 0; i < LOOP_TASKS; i++) /* one may have started another */
        if (tasks[i].every != 0 && tasks[i].at < next)
            next = tasks[i].at;
    next = next > now ? next : now;
    const uint64_t wait = (next - now) / 1000 + 1; /* µs, rounded up: 0 would stop the timer */
    struct itimerval timer = {.it_value = {0}};
    if (next != UINT64_MAX) {
        timer.it_value.tv_sec = (time_t)(wait / 1000000);
        timer.it_value.tv_usec = (suseconds_t)(wait % 1000000);
    }
    (void)setitimer(ITIMER_REAL, &timer, NULL);
}

/* Does what the signals ask for. Returns false if the program has to end. A signal can come only
 * while the loop waits, so never between these lines. */
__attribute__((noinline, cold)) static bool handle_signals(const struct loop_handlers *call)
{
    signalled = 0;
    if (usr1_came)
        call->on_usr1();
    usr1_came = 0;
    if (hup_came)
        call->on_hup();
    hup_came = 0;
    if (io_came)
        call->on_io();
    io_came = 0;
    if (child_came)
        call->on_child();
    child_came = 0;
    if (tasks_due)
        run_tasks();
    tasks_due = 0;
    return !ending;
}

/* Under load, it costs more to wake up for a packet than to take it. So when a socket had BUSY
 * packets (16,000 a second, if the loop slept before), the server sleeps for NAP, and the packets
 * queue up. It does not sleep if the last round had so many packets that those of one NAP might
 * fill a quarter of a buffer. Packets and signals never wait longer than NAP.
 * The server also sleeps when a socket was ready but had no packet. A socket that was passed to it
 * may have errors queued, or be shut down: such a socket is always ready. */
enum { BUSY = 16, NAP = 1000000 /* ns */ };
static const struct timespec nap = {0, NAP}, at_once = {0, 0};

/* Not inlined: the loop would have too few registers. */
__attribute__((noinline)) static void nap_while_busy(unsigned taken, const sigset_t *waiting)
{
    do {
        (void)ppoll(NULL, 0, taken >= sockets_capacity / 4 ? &at_once : &nap, waiting);
        taken = sockets_take_all();
    } while (taken >= BUSY && !signalled);
}

/* The kernel lets no signal in while a socket is ready. There may always be one, with fewer packets
 * than BUSY. So each SIGNAL_TURNS turns, the loop lets signals in without looking at the
 * sockets. */
enum { SIGNAL_TURNS = 1024 };

void loop_serve(const sigset_t *waiting, const struct loop_handlers *handlers)
{
    struct epoll_event event; /* the kernel names one ready socket at a time, each in its turn */
    unsigned turns = 0;

    while (!signalled || handle_signals(handlers)) {
        if (++turns % SIGNAL_TURNS == 0 && ppoll(NULL, 0, &at_once, waiting) < 0)
            continue; /* there was a signal: perhaps nothing else comes */
        if (epoll_pwait(sockets_poller, &event, 1, -1, waiting) <= 0)
            continue; /* there was a signal */
        const unsigned taken = sockets_take(event.data.ptr);
        if (taken == 0 || taken >= BUSY)
            nap_while_busy(taken, waiting);
    }
    sockets_take_waiting(); /* they came before the signal */
}
