/* Unit tests of server/hook.c, which runs the program of --exec, with a simulated kernel and clock.
 *                                                             SPDX-License-Identifier: MIT
 * Here a minute passes at once, and a test says when a program ends. test_watch_server.py
 * tests the rest, with real programs.
 */
#define _GNU_SOURCE /* NOLINT: for environ */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/counters.h"
#include "server/hook.h"
#include "server/hook_internal.h"
#include "server/names.h"
#include "server/options.h"
#include "server/timing.h"
#include "stand_ins.h"
#include "tools/units.h"

enum { VARIABLES = 64, STATES = 6, RESTARTED = STATES, PROGRAMS = 8, FIRST_PID = 1000 };

/* ---- The kernel: programs that run, and the time ------------------------------------------ */

static struct {
    pid_t pid;     /* 0: no program runs here */
    bool ended;    /* It is over, and was not reaped. */
    unsigned kill; /* Number of kills: 1 for a group, 100 for the process alone. */
    int status;
    int variable; /* whose change it was told of */
} programs[PROGRAMS];

static pid_t last_pid;
static int spawn_error;
static unsigned spawned;
static int current[VARIABLES], told[VARIABLES]; /* states: the newest, and as the program knows */
/* Number of the change that the program got last. */
static unsigned told_number[VARIABLES];
static uint64_t given, changes_told; /* changes */

static void check_attributes(const posix_spawnattr_t *attributes)
{
    sigset_t mask, defaults;
    pid_t group = -1;
    short flags = 0;

    assert_int_equal(posix_spawnattr_getflags(attributes, &flags), 0);
    assert_int_equal(flags, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    assert_int_equal(posix_spawnattr_getpgroup(attributes, &group), 0);
    assert_int_equal(group, 0); /* one of its own */
    assert_int_equal(posix_spawnattr_getsigmask(attributes, &mask), 0);
    assert_int_equal(posix_spawnattr_getsigdefault(attributes, &defaults), 0);
    for (int number = 1; number < SIGRTMAX; number++) {
        assert_int_equal(sigismember(&mask, number) == 1, false);
        assert_int_equal(sigismember(&defaults, number) == 1,
                         number == SIGPIPE || number == SIGXFSZ);
    }
}

static int state_of(const char *word)
{
    static const char *const words[] = {"waiting", "missing", "alive",    "out-of-range",
                                        "late",    "dead",    "restarted"};

    for (int i = 0; i <= RESTARTED; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    fail_msg("there is no state %s", word);
    return 0;
}

static bool is_of(size_t program, int variable)
{
    return programs[program].pid != 0 && programs[program].variable == variable;
}

/* The program for a variable never runs twice at a time, and its first state is always the last one
 * that it was told before. */
int __wrap_posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *files,
                       const posix_spawnattr_t *attributes, char *const arguments[],
                       char *const environment[])
{
    const int variable = atoi(arguments[1]);
    const unsigned long number = strtoul(arguments[5], NULL, 10);
    size_t free_one = PROGRAMS;

    assert_non_null(files);
    check_attributes(attributes);
    assert_ptr_equal(environment, environ);
    assert_string_equal(path, "/bin/lamp");
    assert_string_equal(arguments[0], "/bin/lamp");
    assert_string_equal(arguments[2], variable == 3 ? "engine" : "");
    assert_null(arguments[6]);
    assert_string_equal(arguments[1], getenv("DUMPULSE_VARIABLE"));
    assert_string_equal(arguments[2], getenv("DUMPULSE_NAME"));
    assert_string_equal(arguments[3], getenv("DUMPULSE_WAS"));
    assert_string_equal(arguments[4], getenv("DUMPULSE_IS"));
    assert_string_equal(arguments[5], getenv("DUMPULSE_NUMBER"));
    if (spawn_error != 0)
        return spawn_error;
    for (size_t i = 0; i < PROGRAMS; i++) {
        if (programs[i].pid == 0)
            free_one = i;
        else
            assert_int_not_equal(programs[i].variable, variable);
    }
    assert_true(free_one < PROGRAMS); /* no more than 8 at a time */
    assert_int_equal(state_of(arguments[3]), told[variable]);
    assert_int_not_equal(state_of(arguments[4]), told[variable]);
    if (state_of(arguments[4]) != RESTARTED)
        told[variable] = state_of(arguments[4]);
    assert_true(number > told_number[variable] && number <= alarms[variable].number);
    told_number[variable] = (unsigned)number;
    changes_told++;
    *child = ++last_pid;
    programs[free_one].pid = last_pid;
    programs[free_one].variable = variable;
    programs[free_one].ended = false;
    programs[free_one].kill = 0;
    spawned++;
    return 0;
}

int __wrap_kill(pid_t pid, int number)
{
    assert_int_equal(number, SIGKILL);
    for (size_t i = 0; i < PROGRAMS; i++)
        if (programs[i].pid == abs(pid)) {
            programs[i].kill += pid < 0 ? 1 : 100;
            return 0;
        }
    fail_msg("%d is killed, which is none of its programs", pid);
    return -1;
}

static bool stranger; /* a child that the server did not start has ended */

pid_t __wrap_waitpid(pid_t pid, int *status, int flags)
{
    assert_int_equal(pid, -1);
    assert_int_equal(flags, WNOHANG);
    *status = 0x100; /* Status of the stranger. */
    if (stranger) {
        stranger = false;
        return FIRST_PID - 1;
    }
    for (size_t i = 0; i < PROGRAMS; i++)
        if (programs[i].ended) {
            const pid_t ended = programs[i].pid;
            *status = programs[i].status;
            programs[i].ended = false;
            programs[i].pid = 0;
            return ended;
        }
    return 0;
}

static long old_kernel; /* Result of close_range(). */
static int closed_from, closed_to;
static unsigned ambient_cleared;

long __wrap_syscall(long number, ...)
{
    va_list arguments;

    assert_int_equal(number, SYS_close_range);
    va_start(arguments, number);
    assert_int_equal(va_arg(arguments, int), 3);
    assert_true(va_arg(arguments, unsigned) == UINT32_MAX);
    assert_int_equal(va_arg(arguments, int), 4); /* CLOSE_RANGE_CLOEXEC */
    va_end(arguments);
    return old_kernel;
}

int __wrap_fcntl(int descriptor, int command, int value)
{
    assert_int_equal(command, F_SETFD);
    assert_int_equal(value, FD_CLOEXEC);
    if (closed_from == 0)
        closed_from = descriptor;
    else
        assert_int_equal(descriptor, closed_to + 1);
    closed_to = descriptor;
    return 0;
}

int __wrap_prctl(int option, long what, ...)
{
    va_list arguments;

    assert_int_equal(option, PR_CAP_AMBIENT);
    assert_int_equal(what, PR_CAP_AMBIENT_CLEAR_ALL);
    va_start(arguments, what);
    for (int i = 0; i < 3; i++) /* the kernel refuses anything else */
        assert_int_equal(va_arg(arguments, long), 0);
    va_end(arguments);
    ambient_cleared++;
    return 0;
}

/* ---- The service -------------------------------------------------------------------------- */

struct names_variable names_variables[VARIABLES];

static void tell_hook(const struct alarms_change *change)
{
    if (change != NULL)
        hook_tell(change);
}

static int start_again(void **state)
{
    (void)state;
    memset(&hook, 0, sizeof hook);
    memset(programs, 0, sizeof programs);
    memset(counters, 0, sizeof counters);
    memset(current, 0, sizeof current);
    memset(told, 0, sizeof told);
    memset(told_number, 0, sizeof told_number);
    memset(alarms, 0, sizeof alarms);
    alarms_tell_one = tell_hook;
    logged_count = spawned = 0;
    given = changes_told = 0;
    spawn_error = 0;
    last_pid = FIRST_PID;
    clock_ns = 1000 * TIMING_SECOND;
    options.exec = "/bin/lamp";
    memcpy(names_variables[3].name, "engine", sizeof "engine");
    return 0;
}

static void tell(int variable, int state)
{
    if (state == RESTARTED)
        alarms_add_restart((uint8_t)variable, 0);
    else
        alarms_add((uint8_t)variable, (uint8_t)current[variable], (uint8_t)state);
    alarms_tell(true);
    current[variable] = state == RESTARTED ? current[variable] : state;
    given++;
}

static size_t find(int variable)
{
    for (size_t i = 0; i < PROGRAMS; i++)
        if (is_of(i, variable))
            return i;
    fail_msg("no program runs for variable %d", variable);
    return 0;
}

static bool runs(int variable)
{
    for (size_t i = 0; i < PROGRAMS; i++)
        if (is_of(i, variable))
            return true;
    return false;
}

static void end(size_t program, int status)
{
    programs[program].ended = true;
    programs[program].status = status;
}

static void end_all(void)
{
    for (size_t i = 0; i < PROGRAMS; i++)
        if (programs[i].pid != 0)
            end(i, 0);
    hook_reap();
}

/* ---- The tests ---------------------------------------------------------------------------- */

TEST_AFTER(start_again, test_one_change_that_was_not_told_is_said)
{
    for (int i = 0; i < 5; i++)
        tell(3, 2 + i % 3);
    hook_run();
    assert_string_equal(last_logged(), "1 change was not passed to /bin/lamp: it is too slow");
    hook_run();
    assert_int_equal(logged_count, 1);
}

/* 8 variables have a program each, and the others wait for these to end. All changes are told. */
TEST_AFTER(start_again, test_a_storm)
{
    for (int variable = 0; variable < VARIABLES; variable++) {
        tell(variable, 5);
        tell(variable, 2);
    }
    for (unsigned programs_run = 8; programs_run <= 2 * VARIABLES; programs_run += 8) {
        hook_run();
        assert_int_equal(spawned, programs_run);
        end_all();
    }
    for (int variable = 0; variable < VARIABLES; variable++)
        assert_int_equal(told[variable], 2);
    assert_int_equal(counters[COUNT_NOT_TOLD], 0);
    assert_int_equal(hook.running, 0);
}

/* The variables whose programs were started last have their next turn after all others. */
TEST_AFTER(start_again, test_nobody_waits_for_ever)
{
    for (int variable = 20; variable < 28; variable++)
        tell(variable, 2);
    hook_run();
    for (int variable = 28; variable < 34; variable++)
        tell(variable, 2);
    for (int variable = 26; variable < 28; variable++) {
        end(find(variable), 0);
        tell(variable, 4);
    }
    hook_reap();
    assert_true(runs(28) && runs(29));
    assert_false(runs(26) || runs(27));
}

static unsigned chance(unsigned below)
{
    return (unsigned)(random_number() % below);
}

/* Variables change and programs end at random. In the end, the program knows each variable's newest
 * state, and what it was not told was counted. */
TEST_AFTER(start_again, test_any_order)
{
    for (unsigned run = 0; run < 300; run++) {
        (void)start_again(state);
        const unsigned variables = 1 + chance(VARIABLES), busy = 2 + chance(20);
        for (unsigned step = 0; step < 500; step++) {
            const int variable = (int)chance(variables);
            const size_t program = chance(PROGRAMS);
            if (chance(busy) != 0)
                tell(variable, chance(9) == 0
                                   ? RESTARTED
                                   : (current[variable] + 1 + (int)chance(STATES - 1)) % STATES);
            spawn_error = chance(30) == 0 ? EAGAIN : 0;
            if (programs[program].pid != 0 && chance(3) == 0)
                end(program, 0);
            clock_ns += chance(2) * 10000000;
            if (chance(2) == 0)
                hook_reap();
            else
                hook_run();
        }
        spawn_error = 0;
        for (unsigned i = 0; i < VARIABLES * 5 && (i == 0 || hook.running != 0); i++)
            end_all();
        for (int variable = 0; variable < VARIABLES; variable++) {
            assert_int_equal(told[variable], current[variable]);
            assert_int_equal(alarms[variable].untold, 0);
        }
        assert_int_equal(changes_told + counters[COUNT_NOT_TOLD], given);
        hook_finish(false);
        assert_int_equal(changes_told + counters[COUNT_NOT_TOLD], given);
    }
}

TEST_AFTER(start_again, test_a_program_is_killed_after_a_minute)
{
    tell(3, 2);
    tell(0, 2);
    hook_run();
    clock_ns += TIMING_SECOND;
    tell(63, 2);
    hook_run();
    clock_ns += 59 * TIMING_SECOND - 1;
    hook_run();
    assert_int_equal(programs[find(3)].kill, 0);
    clock_ns++;
    hook_run();
    assert_int_equal(programs[find(3)].kill, 101); /* its group, and itself */
    assert_int_equal(programs[find(0)].kill, 101);
    assert_int_equal(programs[find(63)].kill, 0);
    assert_int_equal(logged_count, 0);
    end(find(3), SIGKILL);
    hook_reap();
    assert_string_equal(last_logged(), "/bin/lamp 3 waiting alive: killed after 60 s");
    assert_int_equal(counters[COUNT_FAILED_PROGRAMS], 1);
    tell(3, 4);
    hook_run(); /* the next one has its own minute */
    assert_int_equal(programs[find(3)].kill, 0);
    end(find(3), SIGKILL);
    hook_reap();
    assert_string_equal(last_logged(), "/bin/lamp 3 alive late: ended by signal 9");
    end(find(0), 0x300);
    hook_reap();
    assert_string_equal(last_logged(), "/bin/lamp 0 waiting alive: killed after 60 s");
    end(find(63), 0x300);
    hook_reap();
    assert_string_equal(last_logged(), "/bin/lamp 63 waiting alive: exit status 3");
    assert_int_equal(counters[COUNT_FAILED_PROGRAMS], 4);
    assert_int_equal(logged_count, 4);
}

/* It is tried again with each look. The log says it once for each reason. */
TEST_AFTER(start_again, test_a_program_that_cannot_start)
{
    spawn_error = ENOENT;
    tell(3, 2);
    tell(4, 2);
    for (unsigned i = 0; i < 1000; i++) {
        hook_run();
        clock_ns += TIMING_SECOND;
    }
    assert_string_equal(last_logged(),
                        "cannot run /bin/lamp: No such file or directory; it will be tried again");
    assert_int_equal(logged_count, 1);
    assert_int_equal(counters[COUNT_FAILED_PROGRAMS], 1000); /* one for each look */
    spawn_error = EACCES;
    hook_run();
    assert_string_equal(last_logged(),
                        "cannot run /bin/lamp: Permission denied; it will be tried again");
    assert_int_equal(logged_count, 2);
    spawn_error = 0;
    hook_run();
    assert_int_equal(spawned, 2);
    end_all();
    tell(3, 4);
    for (int i = 0; i < 2; i++) { /* it has run meanwhile */
        spawn_error = i == 0 ? EACCES : EPERM;
        hook_run();
        assert_int_equal(logged_count, 3 + i);
        spawn_error = 0;
        hook_run();
        end_all();
        tell(3, i == 0 ? 2 : 4);
    }
    for (int i = 0; i < 30; i++) { /* two reasons in turn do not flood the log */
        spawn_error = i % 2 == 0 ? ENOENT : EACCES;
        hook_run();
    }
    assert_int_equal(logged_count, 11); /* 10 at once, and the first one was long ago */
    clock_ns += TIMING_SECOND;
    spawn_error = ENOMEM;
    hook_run();
    assert_string_equal(last_logged(),
                        "cannot run /bin/lamp: Cannot allocate memory; it will be tried "
                        "again");
}

TEST_AFTER(start_again, test_children_of_others_are_reaped)
{
    tell(3, 2);
    tell(0, 2);
    tell(63, 2);
    hook_run();
    stranger = true;
    end(find(3), 0);
    end(find(63), 0);
    end(find(0), 0);
    hook_reap();
    assert_false(stranger);
    assert_int_equal(hook.running, 0);
    assert_int_equal(logged_count, 0);
    assert_int_equal(counters[COUNT_FAILED_PROGRAMS], 0);
}

TEST_AFTER(start_again, test_what_is_left_at_the_end_is_said)
{
    hook_finish(false);
    assert_int_equal(logged_count, 0);
    tell(0, 2);
    hook_run();
    for (int i = 0; i < 6; i++) {
        tell(0, 2 + (i + 1) % 3);
        tell(63, 2 + (i + 1) % 3);
    }
    hook_finish(false);
    assert_string_equal(last_logged(), "12 changes were not passed to /bin/lamp");
    assert_int_equal(counters[COUNT_NOT_TOLD], 12);

    (void)start_again(state);
    tell(63, 2);
    hook_finish(false);
    assert_string_equal(last_logged(), "1 change was not passed to /bin/lamp");
}

/* What the last run has not told comes first, with its number. The rest of it is counted. */
TEST_AFTER(start_again, test_a_restart_tells_what_was_not_told)
{
    uint8_t stored[ALARMS_SIZE];

    alarms[3] = (struct alarms_record){.number = 7, .was = 4, .is = 5, .untold = 3};
    told[3] = 4;
    alarms[5] = (struct alarms_record){.number = 9, .was = 4, .is = 5};
    alarms_encode(stored);
    memset(alarms, 0, sizeof alarms);
    alarms_decode(stored);
    hook_tell_again(3);
    hook_tell_again(5);
    hook_run();
    assert_int_equal(spawned, 1);
    assert_int_equal(told_number[3], 7);
    assert_int_equal(alarms[3].untold, 0);
    assert_int_equal(counters[COUNT_NOT_TOLD], 2);
    tell(3, 2); /* It stays for the next run. */
    hook_finish(true);
    assert_int_equal(alarms[3].untold, 1);
    assert_int_equal(counters[COUNT_NOT_TOLD], 2);
}

TEST_AFTER(start_again, test_programs_get_no_descriptors_and_no_capabilities)
{
    hook_begin();
    assert_int_equal(closed_to, 0);
    assert_int_equal(ambient_cleared, 1);
    old_kernel = -1; /* it does not know close_range() */
    hook_begin();
    assert_int_equal(closed_from, 3);
    assert_int_equal(closed_to, 1023);
    assert_int_equal(ambient_cleared, 2);
}

int main(void)
{
    return run_units("unit-hook");
}
