/* main() of the agents for Linux, which program.h describes.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for O_CLOEXEC */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "alarms.h"
#include "counters.h"
#include "dumpulse.h"
#include "dumpulse_keyed.h"
#include "hook.h"
#include "keys.h"
#include "log.h"
#include "loop.h"
#include "manager.h"
#include "options.h"
#include "program.h"
#include "sockets.h"
#include "state.h"
#include "stats.h"
#include "table.h"
#include "timing.h"
#include "watch.h"

enum { EXIT_USAGE = 2 };

/* If descriptors 0 to 2 are closed, the first files that the program opens would get them, and
 * messages would be written into these files. So /dev/null gets them first. Descriptors from 3 on
 * are left alone: they may be sockets that the service manager passes. */
static void keep_standard_descriptors(void)
{
    int descriptor = STDIN_FILENO;

    while (descriptor >= 0 && descriptor <= STDERR_FILENO)
        descriptor = open("/dev/null", O_RDWR); /* not O_CLOEXEC: programs of --exec need it */
    if (descriptor >= 0)
        (void)close(descriptor);
}

static bool read_files(void)
{
    if ((options.key != NULL && !keys_read_again(false)) ||
        (options.watch != NULL && !watch_read_again())) {
        log_say("%s; nothing has changed", options.wrong);
        return false;
    }
    if (options.key != NULL)
        (void)keys_read_again(true);
    counters[COUNT_RELOADS]++;
    log_say("<6>has read its files again");
    return true;
}

/* SIGHUP: all files are read again, or nothing changes. */
static void read_again(void)
{
    manager_reload();
    manager_ready(read_files() ? "it has read its files again"
                               : "its files were wrong at the last reload: see the log");
}

/* The help, or the version. */
static bool print_about(void)
{
    if (options.help)
        options_print_help();
    else
        (void)printf("%s " DUMPULSE_VERSION ", keys " DUMPULSE_KEYED_VERSION " (experimental)\n",
                     program.name);
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return true;
    log_say("cannot write to the standard output");
    return false;
}

static void do_each_minute(void)
{
    sockets_count_drops();
    (void)log_say_lost();
}

/* The value of the server's own variable: 0 if nothing is wrong. */
static uint8_t own_value(void)
{
    enum { NOT_STORED = 128 };
    const bool is_stored = (options.state == NULL || state_is_saved()) && !keys_cannot_store();

    return (uint8_t)((is_stored ? 0 : NOT_STORED) + keys_wrong_digits());
}

/* Opens what the options name. */
static bool open_all(void)
{
    return program.open() && (options.state == NULL || state_load()) &&
           (options.key == NULL || keys_begin()) && (options.stats == NULL || stats_open());
}

/* Reads all files for the first time. */
static bool read_at_start(void)
{
    bool is_right = options_check(options.watch == NULL || watch_read_names());

    if (is_right || options.check)
        is_right &= options_check(options.key == NULL || keys_read());
    return is_right;
}

/* What is left to do when a signal has ended the loop. Returns whether everything is saved. */
static bool finish(void)
{
    program.finish();
    stats_close();
    watch_finish(options.state != NULL && (alarms_to_store() ? state_save() : state_is_saved()));
    stats_print();
    return options.state == NULL || state_save();
}

int main(int argc, char **argv)
{
    keep_standard_descriptors();
    log_begin(program.name);
    const bool has_arguments = options_read(program.options, argc, argv);
    if (has_arguments && (options.help || options.version))
        return print_about() ? EXIT_SUCCESS : EXIT_FAILURE;
    if (!has_arguments || !read_at_start()) {
        if (options.wrong[0] != '\0') /* --check has logged it */
            log_say("%s", options.wrong);
        return EXIT_USAGE;
    }
    if (options.check)
        return !options.reload || stats_reload() ? EXIT_SUCCESS : EXIT_FAILURE;
    if (options.key_is_new)
        return keys_make_numbers() ? EXIT_SUCCESS : EXIT_FAILURE;
    if (options.key_to_date)
        return keys_skip_to_date() ? EXIT_SUCCESS : EXIT_FAILURE;
    static const struct loop_handlers handlers = {stats_print, read_again, stats_answer, hook_reap};
    const sigset_t waiting = loop_catch_signals();
    loop_define_task(LOOP_DROPS, do_each_minute, 60 * TIMING_SECOND);
    table_begin();
    table_own_value = own_value;
    if (!open_all())
        return EXIT_FAILURE;
    stats_begin(program.name, argv);
    if (options.state != NULL)
        state_begin();
    if (options.watch != NULL)
        watch_begin();
    program.say_what_is_served();
    manager_begin();
    loop_serve(&waiting, &handlers);
    manager_end();
    return finish() ? EXIT_SUCCESS : EXIT_FAILURE;
}
