/* Version 2 of the protocol, with keys; see keys.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for explicit_bzero and O_CLOEXEC */
#include "keys.h"
#include "keys_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "counters.h"
#include "junk.h"
#include "limits.h"
#include "log.h"
#include "loop.h"
#include "options.h"
#include "snapshot.h"
#include "state.h"
#include "table.h"
#include "timing.h"

struct keys keys;
uint8_t keys_label;
bool keys_keeps_beacons;

/* ---- The keys --------------------------------------------------------------------------- */

/* The room belongs to the library. No copy of a label's key stays here. */
void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    memcpy(key, keys.master.key, sizeof keys.master.key);
    dumpulse_label_key(key, label, label < DUMPULSE_VARIABLES ? keys.master.generations[label] : 0);
}

/* systemd's LoadCredential= gives the file to root, and lets the service's user read it by an
 * access control list. Then the mode shows that the group may read, though nobody else may. */
static bool is_credential(void)
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    const size_t length = folder == NULL ? 0 : strlen(folder);

    return length != 0 && strncmp(options.key, folder, length) == 0 && options.key[length] == '/';
}

/* Returns what is wrong with the file, or NULL. */
static const char *what_is_wrong(const struct stat *status)
{
    const mode_t others = S_IRWXG | S_IRWXO;

    if (!S_ISREG(status->st_mode))
        return "it is not a regular file";
    if (status->st_uid != 0 && status->st_uid != geteuid())
        return "it must belong to root, or to the user that the server runs as";
    if ((status->st_mode & (is_credential() ? others & ~(mode_t)S_IRGRP : others)) != 0)
        return "other users may use it: chmod 600 takes that away, but they may have read it";
    return NULL;
}

static bool read_digits(const char *digits, uint8_t key[16])
{
    for (size_t i = 0; i < KEYS_DIGITS; i++) {
        const char digit = digits[i];
        const int value = digit >= '0' && digit <= '9'   ? digit - '0'
                          : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                                                         : -1;
        if (value < 0)
            return false;
        key[i / 2] = (uint8_t)(key[i / 2] << 4 | value);
    }
    return true;
}

/* Reads a decimal number of at most three digits, without zeros before it, and `end` after it.
 * Returns what follows, or NULL. */
static const char *read_small(const char *text, const char *after, char end, unsigned most,
                              unsigned *number)
{
    const char *at = text;

    for (*number = 0; at != after && at - text < 3 && *at >= '0' && *at <= '9'; at++)
        *number = *number * 10 + (unsigned)(*at - '0');
    return at == text || at == after || *at != end || *number > most ||
                   (*text == '0' && at - text > 1)
               ? NULL
               : at + 1;
}

const char *keys_parse(const char *text, size_t length, struct keys_master *master)
{
    const char *const after = text + length;
    bool has[DUMPULSE_VARIABLES] = {false};

    memset(master, 0, sizeof *master);
    if (length < KEYS_DIGITS || !read_digits(text, master->key) ||
        (length > KEYS_DIGITS && text[KEYS_DIGITS] != '\n'))
        return "it has no master key, which is one line of 32 digits 0-9a-f: "
               "dumpulse key show FILE says what it has";
    for (const char *at = text + KEYS_DIGITS + (length > KEYS_DIGITS); at != after;) {
        unsigned variable, generation;
        at = read_small(at, after, ' ', DUMPULSE_VARIABLES - 1, &variable);
        at = at == NULL ? NULL : read_small(at, after, '\n', UINT8_MAX, &generation);
        if (at == NULL || has[variable])
            return "after the key, each line has a variable from 0 to 63 that no other line has, a "
                   "space, and the generation of its key from 0 to 255";
        has[variable] = true;
        master->generations[variable] = (uint8_t)generation;
    }
    return NULL;
}

/* Neither a core dump nor another process of the same user may show the key. */
static bool read_master(struct keys_master *master)
{
    char text[KEYS_LONGEST + 1]; /* one more to find a file that is too long */
    struct stat status;

    (void)prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L);
    const int file = open(options.key, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0 && strspn(options.key, "0123456789abcdefABCDEF") >= KEYS_DIGITS)
        return options_wrong("--key has a key, which others may have seen now: make a new one, and "
                             "give the name of its file"); /* no key gets into the log */
    if (file < 0)
        return options_wrong("cannot read --key %.300s: %s", options.key, strerror(errno));
    const char *wrong = fstat(file, &status) == 0 ? what_is_wrong(&status) : strerror(errno);
    if (wrong == NULL) {
        const ssize_t length = read(file, text, sizeof text);
        wrong = length < 0 ? strerror(errno) : keys_parse(text, (size_t)length, master);
    }
    explicit_bzero(text, sizeof text);
    (void)close(file);
    return wrong == NULL || options_wrong("cannot use --key %.300s: %s", options.key, wrong);
}

bool keys_read(void)
{
    return read_master(&keys.master);
}

/* The key must be the same: the numbers belong to it. */
bool keys_read_again(bool now)
{
    static uint8_t generations[DUMPULSE_VARIABLES];
    struct keys_master master = {.generations = {0}};

    if (now)
        return keys_renew(generations, true);
    const bool same =
        read_master(&master) &&
        (memcmp(master.key, keys.master.key, sizeof master.key) == 0 ||
         options_wrong("--key %.300s has another key: for that, start the server anew, with "
                       "--key-is-new once",
                       options.key));
    memcpy(generations, master.generations, sizeof generations);
    explicit_bzero(&master, sizeof master);
    return same && keys_renew(generations, false);
}

/* ---- Numbers ---------------------------------------------------------------------------- */

static uint8_t *number_of(uint8_t label)
{
    return keys.numbers + KEYS_NUMBERS_AT + (size_t)label * KEYS_NUMBER_SIZE;
}

static void set_number(uint8_t label, uint32_t number)
{
    for (unsigned i = 0; i < KEYS_NUMBER_SIZE; i++)
        number_of(label)[i] = (uint8_t)(number >> (16 - 8 * i));
}

uint32_t dumpulse_load(uint8_t label)
{
    const uint8_t *const number = number_of(label);

    return (uint32_t)number[0] << 16 | (uint32_t)number[1] << 8 | number[2];
}

static uint32_t crc_in(const uint8_t *file)
{
    return dumpulse_read_(file + KEYS_SUM_AT);
}

void keys_seal_numbers(void)
{
    dumpulse_write_(keys.numbers + KEYS_SUM_AT, snapshot_crc32(keys.numbers, KEYS_SUM_AT));
}

/* The fingerprint, which `dumpulse key show` prints, begins with these bytes. No tag is made of the
 * same block, so it says nothing about tags. */
void keys_mark(uint8_t mark[KEYS_MARK_SIZE])
{
    uint32_t words[4]; /* a key begins at an address for words */
    uint8_t *const fingerprint = (uint8_t *)words;

    memcpy(words, keys.master.key, sizeof words);
    dumpulse_label_key(fingerprint, UINT8_MAX, UINT8_MAX);
    memcpy(mark, fingerprint, KEYS_MARK_SIZE);
    explicit_bzero(words, sizeof words);
}

/* The mark is in the name, too: so the numbers of a key stay when another key is used meanwhile. */
static const char *get_suffix(void)
{
    static char suffix[sizeof ".00000000.numbers"];
    uint8_t mark[KEYS_MARK_SIZE];

    keys_mark(mark);
    (void)snprintf(suffix, sizeof suffix, ".%02x%02x%02x%02x.numbers", mark[0], mark[1], mark[2],
                   mark[3]);
    return suffix;
}

bool keys_are_good(size_t size)
{
    uint8_t mark[KEYS_MARK_SIZE];

    keys_mark(mark);
    return size == KEYS_NUMBERS_SIZE && memcmp(keys.numbers, "Dumpulsekeys", KEYS_MARK_AT) == 0 &&
           memcmp(keys.numbers + KEYS_MARK_AT, mark, sizeof mark) == 0 &&
           crc_in(keys.numbers) == snapshot_crc32(keys.numbers, KEYS_SUM_AT);
}

/* Has `file` a number that is larger than in `known`? Both are of the same kind and key. */
static bool has_larger(const uint8_t *file, const uint8_t *known, size_t size)
{
    if (size != KEYS_NUMBERS_SIZE || memcmp(file, known, KEYS_NUMBERS_AT) != 0 ||
        crc_in(file) != snapshot_crc32(file, KEYS_SUM_AT))
        return false;
    for (unsigned at = KEYS_NUMBERS_AT; at < KEYS_GENERATIONS_AT; at += KEYS_NUMBER_SIZE)
        if (memcmp(file + at, known + at, KEYS_NUMBER_SIZE) > 0)
            return true;
    return false;
}

static bool save_numbers(void)
{
    keys_seal_numbers();
    return state_write_numbers(keys.numbers, sizeof keys.numbers, has_larger);
}

bool dumpulse_store(uint8_t label, uint32_t number)
{
    const uint32_t before = dumpulse_load(label);
    const struct limit limit = limits_make(1, KEYS_STORES);
    const uint64_t now = timing_ns();

    if (label < DUMPULSE_VARIABLES) {
        if (!limits_has_left(&keys.stores[label], &limit, now))
            return false;
        limits_take(&keys.stores[label], &limit, now);
    }
    set_number(label, number);
    if (save_numbers())
        return true;
    set_number(label, before);
    keys_seal_numbers();
    return false;
}

/* A new key has taken nothing yet: neither a count, nor a number, nor a packet that waits. */
static void begin_generation(uint8_t variable, uint8_t generation)
{
    keys.numbers[KEYS_GENERATIONS_AT + variable] = generation;
    set_number(variable, 0);
    keys.alone[variable] = 0;
    dumpulse_keyed_renew(&keys.keyed, variable);
    log_say("variable %u: its key has generation %u from now on, and no older one is taken",
            variable, generation);
}

/* The numbers file remembers each generation: else an old copy of the key's file would bring back
 * keys that somebody may have stolen, and the old packets that were made with them.
 *
 * This needs no disk. If the file cannot be written now, the next number that is stored has the
 * generations, too, and no number is taken under a new key before it is stored. After a restart
 * before that, the keys are new once more, and nothing was taken under them that needs a number.
 * So there is one write for all, and not one by dumpulse_alone_renew() for each. */
bool keys_renew(const uint8_t generations[DUMPULSE_VARIABLES], bool now)
{
    const uint8_t *const known = keys.numbers + KEYS_GENERATIONS_AT;
    bool any = false;

    for (uint8_t variable = 0; variable < DUMPULSE_VARIABLES; variable++) {
        if (generations[variable] < known[variable])
            return options_wrong("--key %.300s: variable %u has generation %u there, but has had "
                                 "%u: an old key must not be taken again",
                                 options.key, variable, generations[variable], known[variable]);
        if (!now || generations[variable] == known[variable])
            continue;
        begin_generation(variable, generations[variable]);
        any = true;
    }
    if (now) /* at the start, they are there */
        memmove(keys.master.generations, generations, sizeof keys.master.generations);
    if (any && keys.keyed.reached != 0)
        (void)save_numbers();
    return true;
}

/* If the numbers are lost, the server cannot know which epochs were used. It must not guess: after
 * a smaller number, old packets would be taken again. */
static bool read_numbers(void)
{
    static const char advice[] = "if this key was never used, run this once with --key-is-new; if "
                                 "it was, KEYS in udpserver(8) says what to do";
    const char *const suffix = get_suffix();
    ssize_t size;

    if (!state_read_numbers(suffix, keys.numbers, sizeof keys.numbers, &size))
        return false;
    if (size >= 0 && keys_are_good((size_t)size))
        return true;
    log_say("%s%s is %s: %s", options.state, suffix, size < 0 ? "not there" : "damaged", advice);
    return false;
}

/* The first block follows from the date, so that it is larger than all that were used before if
 * somebody does this with a key that is not new: see "Replacing" in spec/keyed.md. */
bool keys_choose_block(uint64_t unix_s)
{
    enum { SECONDS = 450, LAST = DUMPULSE_EPOCH_LAST_ / 256 - 1 };
    const uint64_t since_2020 = unix_s - 1577836800, block = since_2020 / SECONDS;

    if (block > LAST) { /* before 2020, it is huge */
        log_say("the clock of this machine is wrong: set it first");
        return false;
    }
    set_number(DUMPULSE_BLOCK, (uint32_t)block);
    return true;
}

bool keys_make_numbers(void)
{
    const char *const suffix = get_suffix();
    ssize_t size;

    if (!state_read_numbers(suffix, keys.numbers, sizeof keys.numbers, &size))
        return false;
    if (size >= 0 && keys_are_good((size_t)size)) {
        log_say("%s%s is there: leave out --key-is-new", options.state, suffix);
        return false;
    }
    memset(keys.numbers, 0, sizeof keys.numbers);
    memcpy(keys.numbers, "Dumpulsekeys", KEYS_MARK_AT);
    keys_mark(keys.numbers + KEYS_MARK_AT);
    memcpy(keys.numbers + KEYS_GENERATIONS_AT, keys.master.generations, DUMPULSE_VARIABLES);
    if (!keys_choose_block(timing_unix_ms() / 1000))
        return false;
    keys_seal_numbers();
    if (!state_make_numbers(keys.numbers, sizeof keys.numbers))
        return false;
    log_say("made %s%s: start the server without --key-is-new", options.state, suffix);
    return true;
}

/* ---- Epochs ----------------------------------------------------------------------------- */

enum { LABELS = DUMPULSE_READER_LABEL + 1 };
static const uint64_t PACE = 5000000; /* ns from one beacon to the next, at the start */

static void say_that_it_stopped(void)
{
    log_say("no new epoch can begin: %s",
            dumpulse_load(DUMPULSE_BLOCK) >= DUMPULSE_EPOCH_LAST_ / 256
                ? "all epochs of this key are used up: make a new one"
            : keys.keyed.reached != 0 ? "until a number can be stored, the last one goes on"
                                      : "until a number can be stored, nothing is taken");
}

/* Begins the epoch of one label after the other. If that fails, it tries again each second. At the
 * start it begins all at once, which is more than the queue of a CAN interface holds: so all these
 * beacons follow once more. */
static void go_on(void)
{
    static bool stopped;
    static uint8_t repeated = LABELS;
    const uint64_t step = options.epoch * TIMING_SECOND / LABELS;

    if (repeated < LABELS) {
        dumpulse_keyed_beacon(&keys.keyed, repeated++, NULL);
        if (repeated == LABELS)
            loop_set_interval(LOOP_EPOCH, step);
        return;
    }
    const bool starts = keys.keyed.reached == 0;
    keys_label = keys.keyed.reached % LABELS;
    const bool done = starts
                          ? dumpulse_alone_begin(&keys.keyed, keys.alone, DUMPULSE_VARIABLES, NULL)
                          : dumpulse_keyed_next(&keys.keyed, &keys_label);
    if (done && starts)
        repeated = 0;
    if (done && stopped)
        log_say("a new epoch has begun");
    if (!done && !stopped)
        say_that_it_stopped();
    stopped = !done;
    if (done && keys_label == 0)
        junk_begin_epoch(keys.keyed.junk != 0);
    loop_set_interval(LOOP_EPOCH, !done ? TIMING_SECOND : starts ? PACE : step);
}

/* ---- Packets ---------------------------------------------------------------------------- */

bool keys_leaves(const uint8_t *packet)
{
    static const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;

    return options.also_unkeyed && (packet[DUMPULSE_MAGIC_AT_] == DUMPULSE_MAGIC ||
                                    memcmp(packet, request, sizeof request) == 0);
}

bool keys_is_request(const uint8_t *packet)
{
    return packet[4] == DUMPULSE_IS_HEARTBEAT_ + DUMPULSE_READER_LABEL && packet[5] != 0;
}

bool keys_is_question(const uint8_t *packet)
{
    return packet[4] >= DUMPULSE_IS_HEARTBEAT_ &&
           packet[4] <= DUMPULSE_IS_HEARTBEAT_ + DUMPULSE_READER_LABEL && packet[5] == 0;
}

bool keys_hears(uint8_t variable)
{
    return keys.alone[variable] == 0;
}

/* Only a beacon that answers has a limit: of packets that need a tag, each is looked at, so that no
 * junk stops a node or a reader. */
size_t keys_take(const uint8_t *packet, const uint8_t *source, uint64_t now, void *context)
{
    static const size_t counted[] = {
        [DUMPULSE_REFUSED] = COUNT_MAGIC,  [DUMPULSE_HEARTBEAT] = COUNT_HEARTBEATS,
        [DUMPULSE_REPORT] = COUNT_REPORTS, [DUMPULSE_ANNOUNCE] = COUNT_ANNOUNCES,
        [DUMPULSE_OLD] = COUNT_OLD,        [DUMPULSE_WRONG_TAG] = COUNT_TAG,
        [DUMPULSE_NOT_BEGUN] = COUNT_OLD,  [DUMPULSE_NOT_STORED] = COUNT_WAITING,
        [DUMPULSE_FIRST] = COUNT_WAITING,  [DUMPULSE_ASKS] = COUNT_RATE};
    const bool requests = keys_is_request(packet);
    struct bucket *const bucket =
        requests || keys_is_question(packet) ? limits_find(&keys.beacons, source, now) : NULL;

    if (requests)
        table_prepare();
    keys_keeps_beacons = bucket == NULL;
    const dumpulse_result result = dumpulse_alone_process(
        &keys.keyed, keys.alone, DUMPULSE_VARIABLES, packet, DUMPULSE_PACKET_SIZE, context);
    keys_keeps_beacons = false;
    if (result == DUMPULSE_WRONG_TAG)
        junk_note(source, keys.keyed.junk != 0, now);
    const bool refused = result == DUMPULSE_OLD || result == DUMPULSE_WRONG_TAG;
    if (bucket == NULL || !(result == DUMPULSE_ASKS || (requests && refused)))
        return counted[result];
    limits_count(&keys.beacons, bucket, now); /* a beacon was sent */
    return COUNT_BEACONS;
}

bool keys_begin(void)
{
    limits_set(&keys.beacons, KEYS_EACH, KEYS_BURST, KEYS_ALL);
    if (!read_numbers())
        return false;
    if (!keys_renew(keys.master.generations, true)) {
        log_say("%s", options.wrong);
        return false;
    }
    table_share((table_entry *)(void *)(keys.keyed.agent.report + 4));
    if (options.log >= OPTIONS_LOG_NORMAL)
        log_say("with a key, and a new epoch each %u s; packets without a key are %s",
                (unsigned)options.epoch, options.also_unkeyed ? "taken, too" : "refused");
    loop_define_task(LOOP_EPOCH, go_on, TIMING_SECOND);
    return true;
}
