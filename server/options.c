/* The options of an agent for Linux; see options.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for strchrnul and O_CLOEXEC */
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "dumpulse.h"
#include "log.h"

struct options options;
static const struct options_own *of_agent; /* Options of the agent that reads its arguments. */

bool options_wrong(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(options.wrong, sizeof options.wrong, format, arguments);
    va_end(arguments);
    return false;
}

bool options_check(bool is_right)
{
    if (!is_right && options.check && options.wrong[0] != '\0') {
        log_say("%s", options.wrong);
        options.wrong[0] = '\0';
    }
    return is_right;
}

bool options_read_number(const char *text, char end, uint64_t low, uint64_t high, uint64_t *number)
{
    uint64_t value = 0;

    if (*text == end)
        return false;
    for (; *text != end; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (uint64_t)(*text - '0'); /* no overflow: high <= 10^18 */
        if (value > high)
            return false;
    }
    *number = value;
    return value >= low;
}

bool options_set_number(const char *name, const char *text, uint64_t low, uint64_t high,
                        uint64_t *number)
{
    if (options_read_number(text, '\0', low, high, number))
        return true;
    return options_wrong("%s must be a number from %llu to %llu, not '%.40s'", name,
                         (unsigned long long)low, (unsigned long long)high, text);
}

ssize_t options_read_all(int descriptor, void *bytes, size_t room)
{
    ssize_t length = 0, got = 1;

    while (got > 0 && (size_t)length < room) {
        got = read(descriptor, (uint8_t *)bytes + length, room - (size_t)length);
        length += got;
    }
    return got < 0 ? -1 : length;
}

bool options_read_file(const char *path, const char *kind, char content[OPTIONS_FILE_MAX + 2],
                       size_t *length)
{
    struct stat status;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (descriptor < 0)
        return options_wrong("cannot read %.300s: %s", path, strerror(errno));
    const bool regular = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
    const ssize_t got = regular ? options_read_all(descriptor, content, OPTIONS_FILE_MAX + 1) : 0;
    const int reason = errno;
    (void)close(descriptor);
    if (!regular)
        return options_wrong("cannot read %.300s: it is not a regular file", path);
    if (got < 0)
        return options_wrong("cannot read %.300s: %s", path, strerror(reason));
    *length = (size_t)got;
    if (*length > OPTIONS_FILE_MAX)
        return options_wrong("%.300s is not %s: it is longer than %d bytes", path, kind,
                             OPTIONS_FILE_MAX);
    content[*length] = '\0';
    return true;
}

static bool set_self(const char *text)
{
    const char *colon = strchrnul(text, ':');

    options.self = true;
    options.self_sender = 1;
    if (options_read_number(text, *colon, 0, DUMPULSE_VARIABLES - 1, &options.self_variable) &&
        (*colon == '\0' ||
         options_read_number(colon + 1, '\0', 1, UINT8_MAX, &options.self_sender)))
        return true;
    return options_wrong("--self must be a variable from 0 to 63, or one and a sender from 1 to "
                         "255 like 0:1, not '%.40s'",
                         text);
}

/* `--state table.lock` would take the lock of the server with `--state table` for a damaged one. */
static bool set_state(const char *text)
{
    static const char *const others[] = {".lock",    ".new",     ".numbers",
                                         ".damaged", ".changed", ".retired"};

    if (*text == '\0' || strlen(text) > OPTIONS_LONGEST_PATH)
        return options_wrong("--state must be the name of a file, of %d bytes at most",
                             OPTIONS_LONGEST_PATH);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const size_t size = strlen(others[i]), length = strlen(text);
        if (length > size && strcmp(text + length - size, others[i]) == 0)
            return options_wrong("--state: a name with %s at its end is one of the server's other "
                                 "files: '%.60s'",
                                 others[i], text);
    }
    options.state = text;
    return true;
}

static bool set_stats(const char *text)
{
    enum { LONGEST = sizeof((struct sockaddr_un *)NULL)->sun_path - 1 };

    if (*text == '\0' || strlen(text) > LONGEST)
        return options_wrong("--stats must be a path for a socket, of %d bytes at most", LONGEST);
    options.stats = text;
    return true;
}

static bool set_key_until(const char *text)
{
    options.key_until = text;
    return true;
}

/* A list like 3,7-12. */
static bool set_also_unkeyed(const char *text)
{
    const char *part = text;
    uint64_t listed = 0;

    for (;;) {
        const char *const end = part + strcspn(part, ",");
        const char *const hyphen = memchr(part, '-', (size_t)(end - part));
        const char *const first_end = hyphen == NULL ? end : hyphen;
        uint64_t first, last;
        if (!options_read_number(part, *first_end, 0, DUMPULSE_VARIABLES - 1, &first) ||
            !options_read_number(hyphen == NULL ? part : hyphen + 1, *end, first,
                                 DUMPULSE_VARIABLES - 1, &last))
            return options_wrong("--also-unkeyed must be variables from 0 to 63, like 5,6 or "
                                 "3,7-12, not '%.40s'",
                                 text);
        listed |= (UINT64_MAX >> (DUMPULSE_VARIABLES - 1 - (last - first))) << first;
        if (*end == '\0')
            break;
        part = end + 1;
    }
    options.also_unkeyed = listed;
    return true;
}

static const struct option_spec common[] = {
    {"--self", "VARIABLE[:SENDER]", "record this variable before every report", .set = set_self},
    {"--tick", "MS", "unit of the timestamps in milliseconds (1000)", .number = &options.tick,
     .low = 1, .high = 3600000},
    {"--keep-old", NULL, "do not forget entries that are 64992 ticks old",
     .flag = &options.keep_old},
    {"--state", "FILE", "keep the table in this file over a restart", .set = set_state},
    {"--state-every", "S", "seconds between two writes of FILE (10)",
     .number = &options.state_every, .low = 1, .high = 86400},
    {"--watch", "FILE", "log which variables are late or dead, by this file",
     .file = &options.watch},
    {"--exec", "PROGRAM", "run this for each change that --watch logs", .file = &options.exec},
    {"--key", "FILE", "accept only packets with this key; needs --state", .file = &options.key},
    {"--key-before", "FILE", "with --key: accept packets made with this one, too",
     .file = &options.key_before},
    {"--key-until", "TIME", "how long --key-before is accepted: 2026-12-31T23:59Z",
     .set = set_key_until},
    {"--also-unkeyed", "LIST", "with --key: variables that send without one: 3,7-12",
     .set = set_also_unkeyed},
    {"--key-is-new", NULL, "once for each new --key: make its numbers, and end",
     .flag = &options.key_is_new},
    {"--key-to-date", NULL, "if the log asks for it: skip to the date, and end",
     .flag = &options.key_to_date},
    {"--stats", "PATH", "make a socket that `dumpulse status` reads", .set = set_stats},
    {"--check", NULL, "read all files, print each mistake, and end", .flag = &options.check},
    {"--reload", NULL, "the same, and have the server do so, within 5 s", .flag = &options.reload},
    {"--help", NULL, "print this help; so does -h", .flag = &options.help},
    {"--version", NULL, "print the version", .flag = &options.version},
};
enum { COMMON = sizeof common / sizeof common[0] };

/* The agent's own options come before the common ones. */
static const struct option_spec *option_at(size_t i)
{
    return i < of_agent->count ? &of_agent->list[i] : &common[i - of_agent->count];
}

static size_t option_count(void)
{
    return of_agent->count + COMMON;
}

void options_print_help(void)
{
    char text[40];

    (void)printf("%s\n", of_agent->usage);
    for (size_t i = 0; i < option_count(); i++) {
        const struct option_spec *option = option_at(i);
        (void)snprintf(text, sizeof text, "%s %s", option->name,
                       option->value == NULL ? "" : option->value);
        (void)printf("  %-24s %s\n", text, option->help);
    }
    (void)printf("\n%s"
                 "SIGUSR1 prints the counters. SIGHUP reads files again. SIGTERM, SIGINT end it.\n"
                 "Exit status: 0 ended by a signal; 1 cannot run; 2 wrong arguments.\n",
                 of_agent->notes);
}

/* Sets an option to the value `text` (NULL: the option was given without a value). */
static bool set_option(const struct option_spec *option, const char *text)
{
    if (option->flag != NULL) {
        *option->flag = true;
        return text == NULL || options_wrong("%s takes no value", option->name);
    }
    if (text == NULL)
        return options_wrong("%s needs a value: %s", option->name, option->value);
    if (option->set != NULL)
        return option->set(text);
    if (option->file != NULL) {
        *option->file = text;
        return *text != '\0' || options_wrong("%s must be the name of a file", option->name);
    }
    return options_set_number(option->name, text, option->low, option->high, option->number);
}

/* Reads one argument. `next` is the argument after it, or NULL: it may be the value of an option.
 * Returns how many of the two were used; 0: something is wrong with them. */
static int read_argument(const char *given, const char *next)
{
    const char *argument = strcmp(given, "-h") == 0 ? "--help" : given;
    const char *equals = strchrnul(argument, '=');
    const size_t length = (size_t)(equals - argument);

    if (argument[0] != '-')
        return of_agent->set_operand(argument) ? 1 : 0;
    for (size_t i = 0; i < option_count(); i++) {
        const struct option_spec *option = option_at(i);
        if (strlen(option->name) != length || memcmp(argument, option->name, length) != 0)
            continue;
        if (*equals == '=' || option->flag != NULL)
            return set_option(option, *equals == '=' ? equals + 1 : NULL) ? 1 : 0;
        return set_option(option, next) ? 2 : 0;
    }
    return options_wrong("there is no option '%.40s': --help lists them", argument);
}

bool options_read(const struct options_own *own, int count, char *const *arguments)
{
    of_agent = own;
    memset(&options, 0, sizeof options);
    options.tick = 1000;
    of_agent->set_defaults();
    for (int i = 1; i < count;) {
        const int used = read_argument(arguments[i], i + 1 < count ? arguments[i + 1] : NULL);
        if (used == 0)
            return false;
        i += used;
    }
    if (options.state == NULL && options.state_every != 0)
        return options_wrong("--state-every is for a state file: give --state FILE, too");
    if (options.exec != NULL && options.watch == NULL)
        return options_wrong("--exec is for changes of variables: give --watch FILE, too");
    if (options.key == NULL && (options.also_unkeyed != 0 || options.key_is_new ||
                                options.key_to_date || options.key_before != NULL))
        return options_wrong("--also-unkeyed, --key-is-new, --key-to-date and --key-before are for "
                             "--key: give --key FILE, too");
    if ((options.key_before == NULL) != (options.key_until == NULL))
        return options_wrong("--key-before needs an end: give it together with --key-until TIME");
    if (options.key != NULL && options.state == NULL)
        return options_wrong("--key needs numbers that survive a restart: give --state FILE, too");
    if (options.reload && options.stats == NULL)
        return options_wrong(
            "--reload is for a server that runs with --stats PATH: give that, too");
    if (options.state_every == 0)
        options.state_every = 10;
    options.check |= options.reload;
    return of_agent->finish();
}
