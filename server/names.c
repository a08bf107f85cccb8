/* Reads the file of names; see names.h.   SPDX-License-Identifier: MIT
 *
 * What is wrong is said without what the file has there: it may be a file of keys.
 * client.py reads the same file with Python's configparser. What is accepted here means the same
 * there. tests/test_names.py compares both. */
#include "names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dumpulse.h"
#include "log.h"
#include "options.h"

enum {
    TICK_MAX = 3600000, /* ms */
    WARN = 5000,
    CRIT = 30000 /* ms, where the file gives none */
};
static const uint64_t TIME_MAX = UINT64_C(360000000000); /* ms: 100,000 h */
static const uint64_t TICKS_MAX = 65470; /* a timestamp can tell an age of one tick more */

#define DIGITS "0123456789"
#define SPACES " \t\r\v\f"

struct names_variable names_variables[DUMPULSE_VARIABLES];

/* A section of the file. That of [dumpulse] comes last. */
static struct section {
    uint64_t warn, crit, tick;       /* ms; 0: not given */
    unsigned line;                   /* where it begins; 0: it is not in the file */
    unsigned given;                  /* a bit for each key, in the order of `keys` */
    bool unexpected;                 /* expect = no */
    bool unauthenticated;            /* Only readers need this. */
    uint8_t now_from;                /* Only readers need this, too. */
    uint8_t boots;                   /* the variable that carries its boot count */
    uint8_t value[2], value_warn[2]; /* without value-warn: 255 to 0, which is within any range */
    char name[NAMES_ROOM];
} sections[DUMPULSE_VARIABLES + 1];
enum { GENERAL = DUMPULSE_VARIABLES };

static const char *file; /* its path, and the line that is being read */
static unsigned line;

__attribute__((format(printf, 1, 2))) static bool refuse(const char *format, ...)
{
    char text[sizeof options.wrong];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return options_wrong("%.300s, line %u: %.150s", file, line, text);
}

/* Decimal with at most 9 digits, or hexadecimal with at most 8. */
static bool read_number(const char *text, uint64_t high, uint64_t *number)
{
    const size_t length = strlen(text);

    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        if (length < 3 || length > 10 || strspn(text + 2, DIGITS "abcdefABCDEF") != length - 2)
            return false;
        *number = strtoul(text + 2, NULL, 16);
        return *number <= high;
    }
    return length <= 9 && options_read_number(text, '\0', 0, high, number);
}

/* Rounds to the nearest whole number of ms, as Python does: a half goes to the even one. */
static uint64_t rounded(double number)
{
    const uint64_t whole = (uint64_t)number; /* below 2^52 */
    const double rest = number - (double)whole;

    return whole + (rest > 0.5 || (rest >= 0.5 && whole % 2 == 1) ? 1 : 0);
}

static bool read_limited_time(const char *text, uint64_t high, uint64_t *time)
{
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1e3}, {"", 1e3}, {"min", 6e4}, {"m", 6e4}, {"h", 36e5}};
    const size_t digits = strspn(text, DIGITS);
    const char *unit = text + digits;

    if (*unit == '.') {
        const size_t decimals = strspn(unit + 1, DIGITS);
        unit = decimals >= 1 && decimals <= 6 ? unit + 1 + decimals : "?";
    }
    unit += *unit == ' ';
    for (size_t i = 0; digits >= 1 && digits <= 9 && i < sizeof units / sizeof units[0]; i++)
        if (strcmp(unit, units[i].name) == 0)
            *time = rounded(strtod(text, NULL) * units[i].ms);
    if (*time >= 1 && *time <= high)
        return true;
    return refuse("this is not a time of at most %llu h: write it like 500ms, 5s, 2min or 1h",
                  (unsigned long long)(high / TICK_MAX));
}

static char *stripped(char *text)
{
    text += strspn(text, SPACES);
    for (size_t length = strlen(text); length > 0 && strchr(SPACES, text[length - 1]) != NULL;)
        text[--length] = '\0';
    return text;
}

/* The functions below read what a key may have: `value` is where it goes. */

static bool read_time(char *text, void *value)
{
    return read_limited_time(text, TIME_MAX, value);
}

static bool read_range(char *text, void *value)
{
    uint8_t *const range = value;
    char *dots = strstr(text, "..");
    uint64_t low, high;

    if (dots != NULL)
        *dots = '\0';
    if (dots == NULL || !read_number(stripped(text), UINT8_MAX, &low) ||
        !read_number(stripped(dots + 2), UINT8_MAX, &high) || low > high)
        return refuse("a range of values has the lower one first, like 0..80; 255 is the highest");
    range[0] = (uint8_t)low;
    range[1] = (uint8_t)high;
    return true;
}

static bool read_tick(char *text, void *value)
{
    uint64_t *const tick = value;

    if (!read_limited_time(text, TICK_MAX, tick))
        return false;
    return *tick == options.tick ||
           refuse("the tick is %llu ms here, but --tick is %llu: give both the same",
                  (unsigned long long)*tick, (unsigned long long)options.tick);
}

static bool read_variable(char *text, void *value)
{
    uint8_t *const variable = value;
    uint64_t number;

    if (!read_number(text, DUMPULSE_VARIABLES - 1, &number))
        return refuse("this is not a variable from 0 to 63");
    *variable = (uint8_t)number;
    return true;
}

static bool read_yes_or_no(char *text, void *value)
{
    bool *const is_no = value;

    *is_no = strcmp(text, "no") == 0;
    return *is_no || strcmp(text, "yes") == 0 || refuse("this is neither yes nor no");
}

/* Characters of two bytes or more that show nothing, or only space: two names could look the same.
 * client.py rejects them, too: tests/test_names.py compares both. */
static bool is_invisible(const char *text, size_t size)
{
    static const uint32_t ranges[][2] = {
        {0xA0, 0xA0},       {0xAD, 0xAD},       {0x34F, 0x34F},     {0x61C, 0x61C},
        {0x115F, 0x1160},   {0x1680, 0x1680},   {0x17B4, 0x17B5},   {0x180B, 0x180F},
        {0x2000, 0x200F},   {0x2028, 0x202F},   {0x205F, 0x206F},   {0x2800, 0x2800},
        {0x3000, 0x3000},   {0x3164, 0x3164},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},
        {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},   {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
        {0x13430, 0x1345F}, {0xE0000, 0xE0FFF},
    };
    uint32_t character = (uint8_t)text[0] & (0x7FU >> size);

    for (size_t i = 1; i < size; i++)
        character = character << 6 | ((uint8_t)text[i] & 0x3FU);
    for (size_t i = 0; size > 1 && i < sizeof ranges / sizeof ranges[0]; i++)
        if (character >= ranges[i][0] && character <= ranges[i][1])
            return true;
    return false;
}

/* client.py allows fewer characters beyond ASCII: only letters and digits that are one column
 * wide. */
static bool read_name(char *text, void *value)
{
    static const char allowed[] = DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                         " ._-/+()";
    size_t characters = 0;

    for (const char *at = text; *at != '\0'; at++) {
        if ((uint8_t)*at < 0x80 && strchr(allowed, *at) == NULL)
            return refuse("a name has only letters, digits, spaces and ._-/+()");
        if (((uint8_t)*at & 0xC0U) == 0xC0 && is_invisible(at, log_character_size(at)))
            return refuse("a name has no characters that cannot be seen");
        if (((uint8_t)*at & 0xC0U) != 0x80)
            characters++;
    }
    if (characters > NAMES_LONGEST || strspn(text, DIGITS "-") == strlen(text))
        return refuse("a name needs a letter, and has at most %d characters", NAMES_LONGEST);
    for (const struct section *other = sections; other != sections + GENERAL; other++)
        if (strcmp(other->name, text) == 0)
            return refuse("another variable has this name already");
    memcpy(value, text, strlen(text) + 1); /* fits: no character has more than 4 bytes */
    return true;
}

enum { OF_ALL = 1, OF_ONE = 2 };
static const struct key {
    const char *name;
    unsigned where; /* The key is for [dumpulse], or for the section of a variable. */
    bool (*read)(char *text, void *value);
    size_t value_at; /* Offset of the value in struct section. */
} keys[] = {
    {"tick", OF_ALL, read_tick, offsetof(struct section, tick)},
    {"now-from", OF_ALL, read_variable, offsetof(struct section, now_from)},
    {"name", OF_ONE, read_name, offsetof(struct section, name)},
    {"warn", OF_ALL | OF_ONE, read_time, offsetof(struct section, warn)},
    {"crit", OF_ALL | OF_ONE, read_time, offsetof(struct section, crit)},
    {"value", OF_ONE, read_range, offsetof(struct section, value)},
    {"value-warn", OF_ONE, read_range, offsetof(struct section, value_warn)},
    {"expect", OF_ONE, read_yes_or_no, offsetof(struct section, unexpected)},
    {"authenticated", OF_ONE, read_yes_or_no, offsetof(struct section, unauthenticated)},
    {"boots", OF_ONE, read_variable, offsetof(struct section, boots)},
};
enum { KEYS = sizeof keys / sizeof keys[0] };

/* Returns NULL if there is no such section. */
static struct section *begin_section(char *text)
{
    char *const last = text + strlen(text) - 1;
    uint64_t number = GENERAL;

    const bool closed = *last == ']';
    *last = '\0';
    if (!closed || (strcmp(text + 1, "dumpulse") != 0 &&
                    !read_number(text + 1, DUMPULSE_VARIABLES - 1, &number))) {
        (void)refuse("a section is [dumpulse] or a variable from [0] to [63]");
        return NULL;
    }
    if (sections[number].line != 0) {
        (void)refuse("this section began in line %u already", sections[number].line);
        return NULL;
    }
    sections[number] = (struct section){.line = line,
                                        .value = {0, UINT8_MAX},
                                        .value_warn = {UINT8_MAX, 0},
                                        .boots = NAMES_NO_BOOTS};
    return &sections[number];
}

static bool refuse_key(unsigned where)
{
    char known[96] = ""; /* has room for all keys of a section */

    for (size_t i = 0; i < KEYS; i++)
        if ((keys[i].where & where) != 0)
            (void)snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s",
                           known[0] == '\0' ? "" : ", ", keys[i].name);
    return refuse("this key does not exist: use %s", known);
}

static bool read_key(struct section *section, char *text)
{
    const unsigned where = section == sections + GENERAL ? OF_ALL : OF_ONE;
    char *equals = strchr(text, '=');
    size_t i = 0;

    if (section == NULL)
        return refuse("a section comes first: [dumpulse], or a variable like [3]");
    if (equals == NULL)
        return refuse(
            "this is neither a section like [3] nor a key and a value like: name = engine");
    *equals = '\0';
    text = stripped(text);
    for (char *at = text; *at != '\0'; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
    while (i < KEYS && strcmp(text, keys[i].name) != 0)
        i++;
    if (i == KEYS || (keys[i].where & where) == 0)
        return refuse_key(where);
    if ((section->given >> i & 1U) != 0)
        return refuse("%s is given twice in this section", keys[i].name);
    section->given |= 1U << i;
    return keys[i].read(stripped(equals + 1), (char *)section + keys[i].value_at);
}

/* A time that is given may change the default of the other one. */
static bool finish_times(const struct section *section, struct names_variable *variable)
{
    const struct section *all = &sections[GENERAL];
    const uint64_t longest = TICKS_MAX * options.tick, ended = longest + options.tick;
    uint64_t warn = section->warn != 0 ? section->warn : all->warn;
    uint64_t crit = section->crit != 0 ? section->crit : all->crit;

    if (warn == 0)
        warn = crit != 0 && crit < WARN ? crit : WARN;
    if (crit == 0)
        crit = warn > CRIT ? warn : CRIT;
    if (section->crit == 0 && all->crit == 0 && crit > longest)
        crit = longest;
    if (warn > crit)
        return refuse("warn, %llu ms, is longer than crit, %llu ms", (unsigned long long)warn,
                      (unsigned long long)crit);
    variable->warn = warn / options.tick;
    variable->crit = crit / options.tick;
    return variable->crit <= TICKS_MAX ||
           refuse("crit, %llu ms, can never be seen: with this tick, ages end at %llu ms",
                  (unsigned long long)crit, (unsigned long long)ended);
}

/* A boot count is sent once after a reset: whoever expected it to be alive would find it dead. */
static bool check_boots(const struct section *section)
{
    const struct section *const carrier = sections + section->boots;
    unsigned users = 0;

    if (section->boots == NAMES_NO_BOOTS)
        return true;
    for (size_t i = 0; i < DUMPULSE_VARIABLES; i++)
        users += sections[i].line != 0 && sections[i].boots == section->boots;
    return (users == 1 && carrier != section && (carrier->line == 0 || carrier->unexpected)) ||
           refuse("boots must be another variable, of no other node, and not one that is expected "
                  "to be alive");
}

static bool finish_variable(const struct section *section, struct names_variable *variable)
{
    line = section->line;
    variable->expected = !section->unexpected;
    variable->low = section->value[0];
    variable->high = section->value[1];
    memcpy(variable->name, section->name, sizeof variable->name);
    variable->boots = section->boots;
    if (!check_boots(section))
        return false;
    if (section->value_warn[0] < variable->low || section->value_warn[1] > variable->high)
        return refuse("value-warn is not within value");
    return finish_times(section, variable);
}

/* Every byte must belong to a character that can be shown, or be white space. */
static bool check_characters(const char *text, size_t length)
{
    line = 1;
    for (size_t at = 0; at < length;) {
        const bool space = text[at] != '\0' && strchr(SPACES "\n", text[at]) != NULL;
        const size_t size = space ? 1 : log_character_size(text + at);
        if (size == 0)
            return refuse("a byte of it is not part of a printable UTF-8 character");
        line += text[at] == '\n';
        at += size;
    }
    return true;
}

static void begin_file(const char *path)
{
    file = path;
    memset(sections, 0, sizeof sections);
    memset(names_variables, 0, sizeof names_variables);
    for (size_t i = 0; i < DUMPULSE_VARIABLES; i++)
        names_variables[i].boots = NAMES_NO_BOOTS;
}

/* Checks what the file has about each variable. */
static bool finish_sections(void)
{
    bool is_right, is_any_expected = false;

    line = sections[GENERAL].line;
    is_right = options_check(finish_times(&sections[GENERAL], &names_variables[0]));
    for (size_t i = 0; i < DUMPULSE_VARIABLES && (is_right || options.check); i++) {
        if (sections[i].line == 0)
            continue;
        is_right &= options_check(finish_variable(&sections[i], &names_variables[i]));
        is_any_expected |= names_variables[i].expected;
    }
    return is_right &&
           (is_any_expected ||
            options_wrong("%.300s: it has no section of a variable that is expected, like [3]",
                          file));
}

bool names_parse(const char *path, char *text, size_t length)
{
    static const char mark[] = "\xEF\xBB\xBF"; /* some editors write it first */
    struct section *section = NULL;
    size_t key_indent = SIZE_MAX;
    bool is_right = true;

    begin_file(path);
    if (!check_characters(text, length))
        return false;
    if (strncmp(text, mark, strlen(mark)) == 0)
        text += strlen(mark);
    line = 0;
    for (char *next = text; next != NULL;) {
        char *const begin = next;
        line++;
        next = strchr(begin, '\n');
        if (next != NULL)
            *next++ = '\0';
        text = stripped(begin);
        const size_t indent = (size_t)(text - begin);
        const size_t before = key_indent;
        key_indent = SIZE_MAX;
        if (*text == '\0' || *text == '#' || *text == ';')
            continue;
        if (indent > before) {
            (void)refuse("this line is indented, so it belongs to the key before: use one line");
        } else if (*text == '[') {
            section = begin_section(text);
            if (section != NULL)
                continue;
        } else if (read_key(section, text)) {
            key_indent = indent;
            continue;
        }
        is_right = options_check(false);
        if (!options.check)
            return false;
    }
    return finish_sections() && is_right;
}

bool names_read(const char *path)
{
    static char content[OPTIONS_FILE_MAX + 2];
    size_t length = 0; /* GCC for i386 takes it for uninitialised otherwise. */

    return options_read_file(path, "a file of names", content, &length) &&
           names_parse(path, content, length);
}
