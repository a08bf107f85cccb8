/* Runs the program of --exec; see hook.h.   SPDX-License-Identifier: MIT
 *
 * The changes of a variable are told one after another, in their order: of two programs at the same
 * time, the one that says "dead" might come after the one that says "alive". Some changes of each
 * variable may wait. When there are more, the last one that waits becomes a change to the newest
 * state, and a restart is not told. So the program always learns the newest state, and nothing
 * grows. */
#define _GNU_SOURCE /* NOLINT: for environ and syscall */
#include "hook.h"
#include "hook_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counters.h"
#include "dumpulse_watch.h"
#include "limits.h"
#include "log.h"
#include "names.h"
#include "options.h"
#include "timing.h"

enum {
    AT_ONCE = 8,               /* programs that run at the same time */
    LONGEST = 60,              /* s that a program may run */
    FIRST = STDERR_FILENO + 1, /* descriptor that no program gets */
    INHERITED = 1024           /* descriptors that whoever started the server may have left open */
};

const char *const hook_states[] = {
    [DUMPULSE_WAITING] = "waiting",   [DUMPULSE_MISSING] = "missing",
    [DUMPULSE_ALIVE] = "alive",       [DUMPULSE_OUT_OF_RANGE] = "out-of-range",
    [DUMPULSE_LATE] = "late",         [DUMPULSE_DEAD] = "dead",
    [ALARMS_RESTARTED] = "restarted",
};

struct hook hook;

static bool may_say(void)
{
    const struct limit limit = limits_make(1, 10); /* lines: 10 at once, and then one a second */
    const uint64_t now = timing_ns();

    if (!limits_has_left(&hook.said, &limit, now))
        return false;
    limits_take(&hook.said, &limit, now);
    return true;
}

static void say_merged(void)
{
    if (hook.merged != 0 && may_say()) {
        log_say("%llu change%s not passed to %s: it is too slow", (unsigned long long)hook.merged,
                hook.merged == 1 ? " was" : "s were", options.exec);
        hook.merged = 0;
    }
}

bool hook_check(void)
{
    struct stat status;

    if (stat(options.exec, &status) == 0 && !S_ISREG(status.st_mode))
        return options_wrong("cannot run --exec %.300s: it is not a program", options.exec);
    return access(options.exec, X_OK) == 0 ||
           options_wrong(
               "cannot run --exec %.300s: %s; give the path of a program, and no arguments",
               options.exec, strerror(errno));
}

/* The programs must not keep the server's port open, or its files. The server opens its own
 * descriptors with O_CLOEXEC; others were passed to it. Nor must they get capabilities that a
 * service manager gave the server. The server itself keeps these. */
void hook_begin(void)
{
    if (syscall(SYS_close_range, FIRST, ~0U, CLOSE_RANGE_CLOEXEC) != 0) /* before Linux 5.11 */
        for (int descriptor = FIRST; descriptor < INHERITED; descriptor++)
            (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0L, 0L, 0L);
}

/* Changes of this variable wait no more. */
static void end_waiting(size_t variable, size_t changes)
{
    uint8_t *const untold = &alarms[variable].untold;

    *untold = (uint8_t)(changes < *untold ? *untold - changes : 0);
}

static void count_lost(size_t variable, size_t changes)
{
    hook.merged += changes;
    counters[COUNT_NOT_TOLD] += changes;
    end_waiting(variable, changes);
}

void hook_tell(const struct alarms_change *change)
{
    const uint8_t variable = change->variable;
    struct hook_change *const newest = &hook.of[variable].waiting[HOOK_WAITING - 1];

    if (hook.of[variable].count < HOOK_WAITING) {
        hook.of[variable].waiting[hook.of[variable].count++] =
            (struct hook_change){change->was, change->is, change->number};
        return;
    }
    count_lost(variable, 1);
    if (change->is == ALARMS_RESTARTED)
        return;
    newest->is = change->is;
    newest->number = change->number;
    if (newest->was == change->is) { /* it is back to what was told */
        hook.of[variable].count--;
        count_lost(variable, 1);
    }
}

void hook_tell_again(uint8_t variable)
{
    const struct alarms_change last = alarms_last(variable);

    if (alarms[variable].untold == 0)
        return;
    hook_tell(&last);
    count_lost(variable, alarms[variable].untold - 1U);
}

/* Runs the program for a change of the variable. It gets no shell, the server's environment, and
 * standard error for both outputs. Signals are as if the server had not changed them. Returns an
 * error number, or 0. */
static int spawn(size_t variable, const struct hook_change *change, pid_t *child)
{
    char text[4], path[PATH_MAX], name[NAMES_ROOM], was[16], is[16], number[12];
    char *const arguments[] = {path, text, name, was, is, number, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, ignored;

    (void)snprintf(path, sizeof path, "%s", options.exec);
    (void)snprintf(text, sizeof text, "%u", (unsigned)variable % DUMPULSE_VARIABLES);
    (void)snprintf(name, sizeof name, "%s", names_variables[variable].name);
    (void)snprintf(was, sizeof was, "%s", hook_states[change->was]);
    (void)snprintf(is, sizeof is, "%s", hook_states[change->is]);
    (void)snprintf(number, sizeof number, "%u", (unsigned)change->number);
    if (setenv("DUMPULSE_VARIABLE", text, 1) != 0 || setenv("DUMPULSE_NAME", name, 1) != 0 ||
        setenv("DUMPULSE_WAS", was, 1) != 0 || setenv("DUMPULSE_IS", is, 1) != 0 ||
        setenv("DUMPULSE_NUMBER", number, 1) != 0)
        return errno;
    (void)sigemptyset(&none);
    (void)sigemptyset(&ignored);
    (void)sigaddset(&ignored, SIGPIPE);
    (void)sigaddset(&ignored, SIGXFSZ);
    int error = posix_spawn_file_actions_init(&files);
    if (error != 0)
        return error;
    error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    if (error == 0) {
        (void)posix_spawnattr_init(&attributes); /* these four cannot fail with such values */
        (void)posix_spawnattr_setsigmask(&attributes, &none);
        (void)posix_spawnattr_setsigdefault(&attributes, &ignored);
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                        POSIX_SPAWN_SETPGROUP);
        error = posix_spawn(child, options.exec, &files, &attributes, arguments, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&files);
    return error;
}

/* Starts the program for the change of this variable that has waited longest. */
static bool start(size_t variable)
{
    const struct hook_change change = hook.of[variable].waiting[0];
    pid_t child = 0;
    const int error = spawn(variable, &change, &child);

    if (error != 0) {
        counters[COUNT_FAILED_PROGRAMS]++;
        if (error != hook.start_error && may_say()) {
            log_say("cannot run %s: %s; it will be tried again", options.exec, strerror(error));
            hook.start_error = error;
        }
        return false;
    }
    hook.of[variable].child = child;
    hook.of[variable].count--;
    hook.of[variable].told = change;
    end_waiting(variable, 1);
    memmove(hook.of[variable].waiting, hook.of[variable].waiting + 1,
            hook.of[variable].count * sizeof change);
    hook.of[variable].begun = timing_ns();
    hook.of[variable].killed = false;
    hook.start_error = 0;
    hook.running++;
    hook.last = variable;
    return true;
}

void hook_run(void)
{
    const uint64_t now = timing_ns();

    for (size_t i = 0; i < DUMPULSE_VARIABLES; i++) {
        if (hook.of[i].child == 0 || now - hook.of[i].begun < LONGEST * TIMING_SECOND)
            continue;
        hook.of[i].killed = true;
        (void)kill(-hook.of[i].child, SIGKILL); /* its group: also what it has started */
        (void)kill(hook.of[i].child, SIGKILL);  /* it may have left its group */
    }
    const size_t first = hook.last + 1;
    for (size_t i = 0; i < DUMPULSE_VARIABLES && hook.running < AT_ONCE; i++) {
        const size_t variable = (first + i) % DUMPULSE_VARIABLES;
        if (hook.of[variable].child == 0 && hook.of[variable].count != 0 && !start(variable))
            break;
    }
    say_merged();
}

static void note_failure(size_t variable, int status)
{
    const char *ended = WIFSIGNALED(status) ? "ended by signal" : "exit status";
    const int number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    char why[40];

    if (status == 0)
        return;
    counters[COUNT_FAILED_PROGRAMS]++;
    if (!may_say())
        return;
    if (hook.of[variable].killed)
        (void)snprintf(why, sizeof why, "killed after %d s", LONGEST);
    else
        (void)snprintf(why, sizeof why, "%s %d", ended, number);
    log_say("%s %u %s %s: %s", options.exec, (unsigned)variable,
            hook_states[hook.of[variable].told.was], hook_states[hook.of[variable].told.is], why);
}

/* The server may have children that it did not start itself: they are reaped, too. */
void hook_reap(void)
{
    int status;

    for (pid_t child = waitpid(-1, &status, WNOHANG); child > 0;
         child = waitpid(-1, &status, WNOHANG))
        for (size_t i = 0; i < DUMPULSE_VARIABLES; i++) {
            if (hook.of[i].child != child)
                continue;
            note_failure(i, status);
            hook.of[i].child = 0;
            hook.running--;
        }
    hook_run();
}

void hook_finish(bool is_stored)
{
    for (size_t i = 0; i < DUMPULSE_VARIABLES && !is_stored; i++)
        count_lost(i, hook.of[i].count);
    if (hook.merged != 0)
        log_say("%llu change%s not passed to %s", (unsigned long long)hook.merged,
                hook.merged == 1 ? " was" : "s were", options.exec);
}
