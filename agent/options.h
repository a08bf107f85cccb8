/* The options of an agent for Linux.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_OPTIONS_H
#define DUMPULSE_OPTIONS_H

#include <linux/limits.h>
#include <stdbool.h>
#include <stdint.h>

struct option_spec {
    const char *name, *value, *help;
    bool (*set)(const char *text); /* false: options.wrong says why; or NULL, and then */
    bool *flag;                    /* what to set if there is no value, or else */
    uint64_t *number, low, high;   /* a number in that range */
};

/* What goes to the log: with each of these, more. */
enum { OPTIONS_LOG_ERRORS, OPTIONS_LOG_NORMAL, OPTIONS_LOG_CHANGES };

/* Those that all programs have. */
extern struct options {
    uint64_t tick; /* ms */
    uint64_t self_variable, self_sender;
    const char *state;    /* a path, or NULL */
    uint64_t state_every; /* s */
    unsigned log;         /* how much to say */
    const char *stats;    /* a path, or NULL */
    bool self, keep_old, json, help, version;
    char wrong[256]; /* what is wrong with the arguments */
} options;

/* Of a path, so that state.c can add to it. */
enum { OPTIONS_LONGEST_PATH = PATH_MAX - (int)sizeof ".damaged" };

/* Always false: for `return options_wrong(…)` in whatever reads an option. */
__attribute__((format(printf, 1, 2))) bool options_wrong(const char *format, ...);

/* A decimal number up to the character `end`, digits alone. False if there is none, or it
 * is not in the range. */
bool options_read_number(const char *text, char end, uint64_t low, uint64_t high, uint64_t *number);
bool options_set_number(const char *name, const char *text, uint64_t low, uint64_t high,
                        uint64_t *number);

bool options_read(int count, char *const *arguments); /* false: options.wrong says why */
void options_print_help(void);

#endif
