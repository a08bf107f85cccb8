/* The loop of an agent for Linux, and its tasks.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_LOOP_H
#define DUMPULSE_LOOP_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOOP_READY,
    LOOP_TABLE,
    LOOP_DROPS,
    LOOP_WATCHDOG,
    LOOP_SAVING,
    LOOP_TRANSPORT,
    LOOP_WATCH,
    LOOP_EPOCH,
    LOOP_EPOCH_BEFORE,
    LOOP_ADDRESSES,
    LOOP_ANSWERS,
    LOOP_TASKS
};

/* The loop runs the task at once, and then every `every` ns. 0: never, until it is started. */
void loop_define_task(size_t task, void (*run)(void), uint64_t every);
void loop_start_task(size_t task, uint64_t every);   /* now, and then every `every` ns */
void loop_set_interval(size_t task, uint64_t every); /* a task sets when it runs again */

/* Blocks the signals that the program handles. Returns the mask that lets them in: the loop sets it
 * only while it waits. */
sigset_t loop_catch_signals(void);

/* What the loop does when a signal has come. It calls them between packets. */
struct loop_handlers {
    void (*on_usr1)(void);  /* SIGUSR1 */
    void (*on_hup)(void);   /* SIGHUP */
    void (*on_io)(void);    /* SIGIO: somebody has connected */
    void (*on_child)(void); /* SIGCHLD */
};
/* Takes packets and runs tasks, until a signal ends it. */
void loop_serve(const sigset_t *waiting, const struct loop_handlers *handlers);

#endif
