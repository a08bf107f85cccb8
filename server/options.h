/* The options of an agent for Linux.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_OPTIONS_H
#define DUMPULSE_OPTIONS_H

#include <linux/limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct option_spec {
    const char *name, *value, *help;
    /* One of these four is not NULL. */
    bool (*set)(const char *text); /* reads the value; false: options.wrong says why */
    bool *flag;                    /* an option without a value: it makes this true */
    uint64_t *number, low, high;   /* where a number goes, and its range */
    const char **file;             /* where the name of a file goes */
};

/* What one agent adds to the options that all agents have. */
struct options_own {
    const char *usage; /* the help before the options */
    const char *notes; /* the help after the options */
    const struct option_spec *list;
    size_t count;
    void (*set_defaults)(void);
    bool (*set_operand)(const char *text); /* reads an argument that is no option */
    bool (*finish)(void); /* checks them all; false: options.wrong says what is wrong */
};

/* The options that all agents have. */
extern struct options {
    uint64_t tick; /* ms */
    uint64_t self_variable, self_sender;
    const char *state;      /* a path, or NULL */
    uint64_t state_every;   /* s */
    const char *stats;      /* a path, or NULL */
    const char *watch;      /* the path of a file of names, or NULL */
    const char *exec;       /* the path of a program, or NULL */
    const char *key;        /* the path of the master key, or NULL: version 1 of the protocol */
    const char *key_before; /* File of the previous key, or NULL. */
    const char *key_until;  /* Until when the previous key is accepted. */
    uint64_t also_unkeyed;  /* a bit for each variable that is accepted in version 1 */
    bool key_is_new;        /* make FILE.KEY.numbers, and end */
    bool key_to_date;       /* have its epochs follow the date, however far, and end */
    bool self, keep_old, help, version, check, reload; /* --reload checks, too */
    char wrong[512];                                   /* First mistake in the arguments. */
} options;

/* The longest path of a state file: state.c appends suffixes like ".damaged". */
enum { OPTIONS_LONGEST_PATH = PATH_MAX - (int)sizeof ".00000000.numbers" };

/* Writes options.wrong. Returns false, so that a function which reads an option can
 * `return options_wrong(…)`. */
__attribute__((format(printf, 1, 2))) bool options_wrong(const char *format, ...);

/* Returns whether something is right. If not, --check logs options.wrong here and empties it, so
 * that its caller can go on to the next mistake. */
bool options_check(bool is_right);

/* Reads a decimal number, of digits alone, that ends before the character `end`. False: there is no
 * such number, or it is not in the range. */
bool options_read_number(const char *text, char end, uint64_t low, uint64_t high, uint64_t *number);
bool options_set_number(const char *name, const char *text, uint64_t low, uint64_t high,
                        uint64_t *number);

/* Reads up to the end of the file, or `room` bytes: one call of read() may return less. Returns how
 * many, or -1. */
ssize_t options_read_all(int descriptor, void *bytes, size_t room);

/* Reads a file that somebody has written, and puts a zero after it. `kind` says what it must be.
 * False: options.wrong says why that is impossible. */
enum { OPTIONS_FILE_MAX = 65536 /* bytes */ };
bool options_read_file(const char *path, const char *kind, char content[OPTIONS_FILE_MAX + 2],
                       size_t *length);

/* Reads the arguments. False: options.wrong says what is wrong with them. */
bool options_read(const struct options_own *own, int count, char *const *arguments);
void options_print_help(void); /* Prints the help of the options that were read last. */

#endif
