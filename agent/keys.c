/* Version 2 of the protocol, with keys; see keys.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for explicit_bzero and O_CLOEXEC */
#include "keys.h"

#include <errno.h>
#include <fcntl.h>
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
#include "state.h"
#include "table.h"
#include "timing.h"

/* It is included, and not linked, so that it always has the settings of keys.h. Its packets have a
 * hook of their own, so that those of version 1 cost no more than before. */
#define dumpulse_send_packet keys_send
#include "dumpulse_keyed.c" /* NOLINT: as said above */
#undef dumpulse_send_packet

static uint8_t master[16];
static dumpulse_keyed keyed;
char keys_everybody[1];

/* ---- The key ---------------------------------------------------------------------------- */

enum { DIGITS = 2 * sizeof master };

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    (void)label; /* the library makes the keys of labels from the master key */
    memcpy(key, master, sizeof master);
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

static bool read_digits(const char digits[DIGITS])
{
    for (size_t i = 0; i < DIGITS; i++) {
        const char digit = digits[i];
        const int value = digit >= '0' && digit <= '9'   ? digit - '0'
                          : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                                                         : -1;
        if (value < 0)
            return false;
        master[i / 2] = (uint8_t)(master[i / 2] << 4 | value);
    }
    return true;
}

/* Neither a core dump nor another process of the same user may show the key. */
bool keys_read(void)
{
    char text[DIGITS + 2]; /* the digits, a newline, and one more to find a file that is too long */
    struct stat status;

    (void)prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L);
    const int file = open(options.key, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0 && strspn(options.key, "0123456789abcdefABCDEF") >= DIGITS)
        return options_wrong("--key has a key, which others may have seen now: make a new one, and "
                             "give the name of its file"); /* no key gets into the log */
    if (file < 0)
        return options_wrong("cannot read --key %.300s: %s", options.key, strerror(errno));
    const char *wrong = fstat(file, &status) == 0 ? what_is_wrong(&status) : strerror(errno);
    if (wrong == NULL) {
        const ssize_t length = read(file, text, sizeof text);
        if (length < 0)
            wrong = strerror(errno);
        else if (!(length == DIGITS || (length == DIGITS + 1 && text[DIGITS] == '\n')) ||
                 !read_digits(text))
            wrong = "it has no master key, which is one line of 32 digits 0-9a-f: "
                    "dumpulse key show FILE says what it has";
    }
    explicit_bzero(text, sizeof text);
    (void)close(file);
    return wrong == NULL || options_wrong("cannot use --key %.300s: %s", options.key, wrong);
}

/* ---- Numbers ---------------------------------------------------------------------------- */

/* FILE.numbers has 8 bytes "Dumpulse", 4 bytes "keys", 4 bytes that tell keys apart, 66 numbers
 * of 3 bytes by label, big-endian, and 4 bytes CRC-32 of all bytes before it, big-endian. */
enum {
    KIND_AT = 8,
    KEY_AT = 12,
    NUMBERS_AT = 16,
    NUMBER_SIZE = 3,
    SUM_AT = NUMBERS_AT + (DUMPULSE_BEACONS + 1) * NUMBER_SIZE,
    NUMBERS_SIZE = SUM_AT + 4
};

static uint8_t numbers[NUMBERS_SIZE]; /* what FILE.numbers has */

static uint8_t *number_of(uint8_t label)
{
    return numbers + NUMBERS_AT + (size_t)label * NUMBER_SIZE;
}

static uint32_t crc_in(const uint8_t *file)
{
    return (uint32_t)file[SUM_AT] << 24 | (uint32_t)file[SUM_AT + 1] << 16 |
           (uint32_t)file[SUM_AT + 2] << 8 | file[SUM_AT + 3];
}

static void seal_numbers(void)
{
    const uint32_t crc = state_crc32(numbers, SUM_AT);

    for (unsigned i = 0; i < 4; i++)
        numbers[SUM_AT + i] = (uint8_t)(crc >> (24 - 8 * i));
}

/* A tag of a label that the protocol does not have: it says nothing about the other tags. */
static uint32_t key_mark(void)
{
    static const uint8_t zeros[DUMPULSE_PACKET_SIZE];

    return dumpulse_tag_(zeros, UINT8_MAX, zeros, NULL);
}

/* What has become of FILE.numbers. */
enum numbers_kind { NUMBERS_GOOD, NUMBERS_DAMAGED, NUMBERS_OF_ANOTHER_KEY };

static enum numbers_kind check_numbers(size_t size)
{
    uint8_t mark[4];

    if (size != NUMBERS_SIZE || memcmp(numbers, "Dumpulsekeys", KEY_AT) != 0 ||
        crc_in(numbers) != state_crc32(numbers, SUM_AT))
        return NUMBERS_DAMAGED;
    store32(mark, key_mark());
    return memcmp(numbers + KEY_AT, mark, sizeof mark) == 0 ? NUMBERS_GOOD : NUMBERS_OF_ANOTHER_KEY;
}

void dumpulse_load(uint8_t label, uint8_t number[3])
{
    memcpy(number, number_of(label), NUMBER_SIZE);
}

/* Has `file` a number that is larger than in `known`? Both are of the same kind and key. */
static bool has_larger(const uint8_t *file, const uint8_t *known, size_t size)
{
    if (size != NUMBERS_SIZE || memcmp(file, known, NUMBERS_AT) != 0 ||
        crc_in(file) != state_crc32(file, SUM_AT))
        return false;
    for (unsigned at = NUMBERS_AT; at < SUM_AT; at += NUMBER_SIZE)
        if (memcmp(file + at, known + at, NUMBER_SIZE) > 0)
            return true;
    return false;
}

static bool save_numbers(void)
{
    return state_write_numbers(numbers, sizeof numbers, has_larger);
}

bool dumpulse_store(uint8_t label, const uint8_t number[3])
{
    uint8_t before[NUMBER_SIZE];

    memcpy(before, number_of(label), NUMBER_SIZE);
    memcpy(number_of(label), number, NUMBER_SIZE);
    seal_numbers();
    if (save_numbers())
        return true;
    memcpy(number_of(label), before, NUMBER_SIZE);
    seal_numbers();
    return false;
}

/* If the numbers are lost, the server cannot know which epochs were used. It must not guess: after
 * a smaller number, old packets would be taken again. */
static bool read_numbers(void)
{
    static const char advice[] = "if this key was never used, run this once with --key-is-new; if "
                                 "it was, KEYS in udpserver(8) says what to do";
    ssize_t size;

    if (!state_read_numbers(numbers, sizeof numbers, &size))
        return false;
    if (size < 0) {
        log_say("%s.numbers is not there: %s", options.state, advice);
        return false;
    }
    switch (check_numbers((size_t)size)) {
    case NUMBERS_DAMAGED: log_say("%s.numbers is damaged: %s", options.state, advice); return false;
    case NUMBERS_OF_ANOTHER_KEY:
        log_say("%s.numbers is of another key than %.300s: %s", options.state, options.key, advice);
        return false;
    default: return true;
    }
}

/* The first block follows from the date, so that it is larger than all that were used before if
 * somebody does this with a key that is not new: see "Replacing" in SPEC-keyed.md. */
static bool choose_block(uint64_t unix_s)
{
    enum { BLOCKS = 8 /* an hour */, LAST = 0x3EFFFF };
    const uint64_t since_2020 = unix_s - 1577836800, block = since_2020 / 3600 * BLOCKS;

    if (block > LAST) { /* before 2020, it is huge */
        log_say("the clock of this machine is wrong: set it first");
        return false;
    }
    for (unsigned i = 0; i < NUMBER_SIZE; i++)
        number_of(DUMPULSE_BEACONS)[i] = (uint8_t)(block >> (16 - 8 * i));
    return true;
}

bool keys_make_numbers(void)
{
    ssize_t size;

    if (!state_read_numbers(numbers, sizeof numbers, &size))
        return false;
    if (size >= 0 && check_numbers((size_t)size) == NUMBERS_GOOD) {
        log_say("%s.numbers is there, and of this key: leave out --key-is-new", options.state);
        return false;
    }
    memset(numbers, 0, sizeof numbers);
    memcpy(numbers, "Dumpulsekeys", KEY_AT);
    store32(numbers + KEY_AT, key_mark());
    if (!choose_block(timing_unix_ms() / 1000))
        return false;
    seal_numbers();
    if (!state_make_numbers(numbers, sizeof numbers))
        return false;
    log_say("made %s.numbers: start the server without --key-is-new", options.state);
    return true;
}

/* ---- Epochs ----------------------------------------------------------------------------- */

/* Begins the next epoch. If there is none, because the server has just started or a number could
 * not be stored, it begins again. It tries that each second, but not before a number can be
 * stored: each beginning makes nodes that only send deaf until their next announce. */
static void begin_epoch(void)
{
    static bool stopped;
    const bool begun = keyed.epoch[0] == NO_EPOCH
                           ? save_numbers() && dumpulse_keyed_begin(&keyed, keys_everybody)
                           : dumpulse_keyed_tick(&keyed, keys_everybody);

    if (begun && stopped)
        log_say("a new epoch has begun: packets are taken again");
    if (!begun && !stopped)
        log_say("no new epoch can begin: %s",
                keyed.epoch[0] == NO_EPOCH
                    ? "until a number can be stored, it takes only nodes that only send"
                    : "all epochs of this key are used up: make a new one");
    stopped = !begun;
    loop_set_interval(LOOP_EPOCH, (begun ? options.epoch : 1) * TIMING_SECOND);
}

/* Nobody may take for an epoch what is none. */
static void send_beacon(void)
{
    if (keyed.epoch[0] != NO_EPOCH)
        dumpulse_keyed_beacon(&keyed, keys_everybody);
}

/* ---- Packets ---------------------------------------------------------------------------- */

/* "Limits on failures" in SPEC-keyed.md: of all sources together, 100 wrong packets a second are
 * looked at, and 100 beacons a second answer. One source gets a fifth of that: a single one
 * cannot stop the others. But 64 nodes at one address may all be wrong at once, when an epoch
 * has ended. */
enum {
    ALL = 100,  /* a second */
    EACH = 20,  /* a second */
    BURST = 64, /* at once, of one source */
    STORES = 10 /* announces a second that are taken: each has to get to the disk */
};
static struct limits wrong_packets, beacons;
static struct bucket wrong_announces, stored_announces;

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
    if (!limits_allow(&beacons, source, now))
        return COUNT_RATE;
    dumpulse_keyed_beacon(&keyed, context);
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
    return packet[4] == IS_HEARTBEAT + DUMPULSE_READERS;
}

bool keys_hears(uint8_t variable)
{
    return keyed.own[variable][0] == 0;
}

/* An announce is looked at only within two more limits. */
static bool may_announce(uint64_t now)
{
    const struct limit one = limits_make(1, 1), stores = limits_make(STORES, BURST);

    return limits_has_left(&wrong_announces, &one, now) &&
           limits_has_left(&stored_announces, &stores, now);
}

static void count_announce(bool stored, uint64_t now)
{
    const struct limit one = limits_make(1, 1), stores = limits_make(STORES, BURST);

    if (stored)
        limits_take(&stored_announces, &stores, now);
    else
        limits_take(&wrong_announces, &one, now);
}

/* The library makes the same checks. Here they tell which packets need a tag: only these may be
 * guesses, and only these count for the limits. */
size_t keys_take(const uint8_t *packet, const uint8_t *source, uint64_t now, void *context)
{
    static const size_t counted[] = {[DUMPULSE_REFUSED] = COUNT_TAG,
                                     [DUMPULSE_HEARTBEAT] = COUNT_HEARTBEATS,
                                     [DUMPULSE_REPORT] = COUNT_REPORTS,
                                     [DUMPULSE_BEACON] = COUNT_BEACONS,
                                     [DUMPULSE_ANNOUNCE] = COUNT_ANNOUNCES};
    const uint8_t kind = packet[4], label = (uint8_t)(kind - IS_HEARTBEAT);
    const bool announces = kind >= IS_ANNOUNCE && kind < IS_HEARTBEAT;

    if (announces ? packet[5] < OWN_FIRST : label > DUMPULSE_READERS)
        return COUNT_MAGIC;
    if (announces ? read24(packet + 5) <= read24(keyed.own[kind - IS_ANNOUNCE])
                  : packet[5] <= keyed.last[label])
        return label == DUMPULSE_READERS ? answer_with_beacon(source, now, context) : COUNT_OLD;
    struct bucket *const bucket = limits_find(&wrong_packets, source, now);
    if (bucket == NULL || (announces && !may_announce(now)))
        return refuse_unseen(now);
    if (label == DUMPULSE_READERS)
        table_prepare();
    const dumpulse_result result =
        dumpulse_keyed_process(&keyed, packet, DUMPULSE_PACKET_SIZE, context);
    if (result == DUMPULSE_REFUSED || result == DUMPULSE_BEACON)
        limits_count(&wrong_packets, bucket, now);
    if (result == DUMPULSE_BEACON)
        (void)limits_allow(&beacons, source, now); /* it has been sent */
    if (announces)
        count_announce(result == DUMPULSE_ANNOUNCE, now);
    return counted[result];
}

bool keys_begin(void)
{
    limits_set(&wrong_packets, EACH, BURST, ALL);
    limits_set(&beacons, EACH, BURST, ALL);
    if (!read_numbers())
        return false;
    table_share((table_entry *)(void *)(keyed.agent.report + 4));
    keyed.epoch[0] = NO_EPOCH;
    if (options.log >= OPTIONS_LOG_NORMAL)
        log_say("with a key, and a new epoch each %u s; packets without a key are %s",
                (unsigned)options.epoch, options.also_unkeyed ? "taken, too" : "refused");
    loop_define_task(LOOP_EPOCH, begin_epoch, options.epoch * TIMING_SECOND);
    loop_define_task(LOOP_BEACON, send_beacon, TIMING_SECOND);
    return true;
}
