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
#include "limits.h"
#include "log.h"
#include "loop.h"
#include "options.h"
#include "snapshot.h"
#include "state.h"
#include "table.h"
#include "timing.h"

struct keys keys;
char keys_everybody[1];

/* ---- The key ---------------------------------------------------------------------------- */

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    (void)label; /* the library makes the keys of labels from the master key */
    memcpy(key, keys.master, sizeof keys.master);
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

bool keys_read_digits(const char digits[KEYS_DIGITS])
{
    for (size_t i = 0; i < KEYS_DIGITS; i++) {
        const char digit = digits[i];
        const int value = digit >= '0' && digit <= '9'   ? digit - '0'
                          : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                                                         : -1;
        if (value < 0)
            return false;
        keys.master[i / 2] = (uint8_t)(keys.master[i / 2] << 4 | value);
    }
    return true;
}

/* Neither a core dump nor another process of the same user may show the key. */
bool keys_read(void)
{
    /* The digits, a newline, and one more to find a file that is too long. */
    char text[KEYS_DIGITS + 2];
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
        if (length < 0)
            wrong = strerror(errno);
        else if (!(length == KEYS_DIGITS ||
                   (length == KEYS_DIGITS + 1 && text[KEYS_DIGITS] == '\n')) ||
                 !keys_read_digits(text))
            wrong = "it has no master key, which is one line of 32 digits 0-9a-f: "
                    "dumpulse key show FILE says what it has";
    }
    explicit_bzero(text, sizeof text);
    (void)close(file);
    return wrong == NULL || options_wrong("cannot use --key %.300s: %s", options.key, wrong);
}

bool keys_read_again(void)
{
    uint8_t before[sizeof keys.master];

    memcpy(before, keys.master, sizeof before);
    const bool same =
        keys_read() && (memcmp(keys.master, before, sizeof before) == 0 ||
                        options_wrong("--key %.300s has another key: for that, start the server "
                                      "anew, with --key-is-new once",
                                      options.key));
    memcpy(keys.master, before, sizeof before);
    explicit_bzero(before, sizeof before);
    return same;
}

/* ---- Numbers ---------------------------------------------------------------------------- */

uint8_t *keys_number_of(uint8_t label)
{
    return keys.numbers + KEYS_NUMBERS_AT + (size_t)label * KEYS_NUMBER_SIZE;
}

static uint32_t crc_in(const uint8_t *file)
{
    return (uint32_t)file[KEYS_SUM_AT] << 24 | (uint32_t)file[KEYS_SUM_AT + 1] << 16 |
           (uint32_t)file[KEYS_SUM_AT + 2] << 8 | file[KEYS_SUM_AT + 3];
}

void keys_seal_numbers(void)
{
    const uint32_t crc = snapshot_crc32(keys.numbers, KEYS_SUM_AT);

    for (unsigned i = 0; i < 4; i++)
        keys.numbers[KEYS_SUM_AT + i] = (uint8_t)(crc >> (24 - 8 * i));
}

/* A tag of a label that the protocol does not have: it says nothing about the other tags. */
void keys_mark(uint8_t mark[KEYS_MARK_SIZE])
{
    static const uint8_t zeros[DUMPULSE_PACKET_SIZE];
    const uint32_t tag = dumpulse_tag_(zeros, UINT8_MAX, zeros, NULL);

    for (unsigned i = 0; i < KEYS_MARK_SIZE; i++)
        mark[i] = (uint8_t)(tag >> (8 * i));
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

void dumpulse_load(uint8_t label, uint8_t number[3])
{
    memcpy(number, keys_number_of(label), KEYS_NUMBER_SIZE);
}

/* Has `file` a number that is larger than in `known`? Both are of the same kind and key. */
static bool has_larger(const uint8_t *file, const uint8_t *known, size_t size)
{
    if (size != KEYS_NUMBERS_SIZE || memcmp(file, known, KEYS_NUMBERS_AT) != 0 ||
        crc_in(file) != snapshot_crc32(file, KEYS_SUM_AT))
        return false;
    for (unsigned at = KEYS_NUMBERS_AT; at < KEYS_SUM_AT; at += KEYS_NUMBER_SIZE)
        if (memcmp(file + at, known + at, KEYS_NUMBER_SIZE) > 0)
            return true;
    return false;
}

static bool save_numbers(void)
{
    return state_write_numbers(keys.numbers, sizeof keys.numbers, has_larger);
}

bool dumpulse_store(uint8_t label, const uint8_t number[3])
{
    uint8_t before[KEYS_NUMBER_SIZE];

    memcpy(before, keys_number_of(label), KEYS_NUMBER_SIZE);
    memcpy(keys_number_of(label), number, KEYS_NUMBER_SIZE);
    keys_seal_numbers();
    if (save_numbers())
        return true;
    memcpy(keys_number_of(label), before, KEYS_NUMBER_SIZE);
    keys_seal_numbers();
    return false;
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
    enum { BLOCK = 450 /* seconds */, LAST = 0x3EFFFF };
    const uint64_t since_2020 = unix_s - 1577836800, block = since_2020 / BLOCK;

    if (block > LAST) { /* before 2020, it is huge */
        log_say("the clock of this machine is wrong: set it first");
        return false;
    }
    for (unsigned i = 0; i < KEYS_NUMBER_SIZE; i++)
        keys_number_of(DUMPULSE_BEACON_LABEL)[i] = (uint8_t)(block >> (16 - 8 * i));
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
    if (!keys_choose_block(timing_unix_ms() / 1000))
        return false;
    keys_seal_numbers();
    if (!state_make_numbers(keys.numbers, sizeof keys.numbers))
        return false;
    log_say("made %s%s: start the server without --key-is-new", options.state, suffix);
    return true;
}

/* ---- Epochs ----------------------------------------------------------------------------- */

/* Begins the next epoch. If there is none, because the server has just started or could not store a
 * number, it begins as after a start. It tries that each second, but only when it can store a
 * number: each such beginning makes nodes that only send deaf until their next announce. */
static void begin_epoch(void)
{
    static bool stopped;
    const bool begun = keys.keyed.epoch[0] == DUMPULSE_NO_EPOCH_
                           ? save_numbers() && dumpulse_keyed_begin(&keys.keyed, keys_everybody)
                           : dumpulse_keyed_tick(&keys.keyed, keys_everybody);

    if (begun && stopped)
        log_say("a new epoch has begun: packets are taken again");
    if (!begun && !stopped)
        log_say("no new epoch can begin: %s",
                keys.keyed.epoch[0] != DUMPULSE_NO_EPOCH_
                    ? "all epochs of this key are used up: make a new one"
                : keys.keyed.begun
                    ? "until a number can be stored, it takes only nodes that only send"
                    : "until a number can be stored, it takes nothing");
    stopped = !begun;
    loop_set_interval(LOOP_EPOCH, (begun ? options.epoch : 1) * TIMING_SECOND);
}

/* While there is no epoch, no beacon may leave: a node would believe it. */
static void send_beacon(void)
{
    if (keys.keyed.epoch[0] != DUMPULSE_NO_EPOCH_)
        dumpulse_keyed_beacon(&keys.keyed, keys_everybody);
}

/* ---- Packets ---------------------------------------------------------------------------- */

/* Says it once a minute. */
static size_t refuse_unseen(uint64_t now)
{
    static uint64_t quiet_until;

    if (limits_has_come(quiet_until, now)) {
        log_say("too many packets are wrong: some are refused without a look; does a node have "
                "another key, or does somebody guess? --log changes names sources");
        quiet_until = now + 60 * TIMING_SECOND;
    }
    return COUNT_RATE;
}

static size_t answer_with_beacon(const uint8_t *source, uint64_t now, void *context)
{
    if (!limits_allow(&keys.beacons, source, now))
        return COUNT_RATE;
    dumpulse_keyed_beacon(&keys.keyed, context);
    return COUNT_BEACONS;
}

bool keys_leaves(const uint8_t *packet)
{
    static const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;

    return options.also_unkeyed && (packet[DUMPULSE_MAGIC_AT_] == DUMPULSE_MAGIC ||
                                    memcmp(packet, request, sizeof request) == 0);
}

bool keys_is_request(const uint8_t *packet)
{
    return packet[4] == DUMPULSE_IS_HEARTBEAT_ + DUMPULSE_READER_LABEL;
}

bool keys_hears(uint8_t variable)
{
    return keys.keyed.own[variable][0] == 0;
}

/* An announce is looked at only within two more limits. */
static bool may_announce(uint64_t now)
{
    const struct limit one = limits_make(1, 1), stores = limits_make(KEYS_STORES, KEYS_BURST);

    return limits_has_left(&keys.wrong_announces, &one, now) &&
           limits_has_left(&keys.stored_announces, &stores, now);
}

static void count_announce(bool stored, uint64_t now)
{
    const struct limit one = limits_make(1, 1), stores = limits_make(KEYS_STORES, KEYS_BURST);

    if (stored)
        limits_take(&keys.stored_announces, &stores, now);
    else
        limits_take(&keys.wrong_announces, &one, now);
}

/* Only packets that need a tag may be guesses, and only these count for the limits. */
size_t keys_take(const uint8_t *packet, const uint8_t *source, uint64_t now, void *context)
{
    static const size_t counted[] = {
        [DUMPULSE_REFUSED] = COUNT_MAGIC,  [DUMPULSE_HEARTBEAT] = COUNT_HEARTBEATS,
        [DUMPULSE_REPORT] = COUNT_REPORTS, [DUMPULSE_ANNOUNCE] = COUNT_ANNOUNCES,
        [DUMPULSE_OLD] = COUNT_OLD,        [DUMPULSE_WRONG_TAG] = COUNT_TAG,
        [DUMPULSE_NOT_BEGUN] = COUNT_OLD,  [DUMPULSE_NOT_STORED] = COUNT_TAG};
    const bool announces = packet[4] < DUMPULSE_IS_HEARTBEAT_, asks = keys_is_request(packet);
    dumpulse_result result = dumpulse_keyed_look(&keys.keyed, packet, DUMPULSE_PACKET_SIZE);

    if (result != DUMPULSE_NEW)
        return result == DUMPULSE_OLD && asks ? answer_with_beacon(source, now, context)
                                              : counted[result];
    struct bucket *const bucket = limits_find(&keys.wrong, source, now);
    if (bucket == NULL || (announces && !may_announce(now)))
        return refuse_unseen(now);
    if (asks)
        table_prepare();
    result = dumpulse_keyed_process(&keys.keyed, packet, DUMPULSE_PACKET_SIZE, context);
    if (result == DUMPULSE_WRONG_TAG)
        limits_count(&keys.wrong, bucket, now);
    if (announces)
        count_announce(result == DUMPULSE_ANNOUNCE, now);
    if (!asks || result == DUMPULSE_REPORT)
        return counted[result];
    (void)limits_allow(&keys.beacons, source, now); /* it has been sent */
    return COUNT_BEACONS;
}

bool keys_begin(void)
{
    limits_set(&keys.wrong, KEYS_EACH, KEYS_BURST, KEYS_ALL);
    limits_set(&keys.beacons, KEYS_EACH, KEYS_BURST, KEYS_ALL);
    if (!read_numbers())
        return false;
    table_share((table_entry *)(void *)(keys.keyed.agent.report + 4));
    keys.keyed.epoch[0] = DUMPULSE_NO_EPOCH_;
    if (options.log >= OPTIONS_LOG_NORMAL)
        log_say("with a key, and a new epoch each %u s; packets without a key are %s",
                (unsigned)options.epoch, options.also_unkeyed ? "taken, too" : "refused");
    loop_define_task(LOOP_EPOCH, begin_epoch, options.epoch * TIMING_SECOND);
    loop_define_task(LOOP_BEACON, send_beacon, TIMING_SECOND);
    return true;
}
