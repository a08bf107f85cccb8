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
#include "listeners.h"
#include "log.h"
#include "loop.h"
#include "options.h"
#include "overlap.h"
#include "state.h"
#include "table.h"
#include "timing.h"

/* Each key has epochs, counts and numbers of its own. There is one table, that of `keys`: the other
 * one has entries only while a packet is processed under the key before. */
struct keys keys, keys_before;
uint64_t keys_epoch;

enum { EPOCH = 10 /* s, unless the file has another one */ };

/* ---- The hooks of the library ----------------------------------------------------------- */

/* Three hooks have no context: they are about the key of the last call of library(). */
static struct keys *called;

/* Each call of the library gets its agent from here. */
static dumpulse_keyed *library(struct keys *key)
{
    called = key;
    return &key->keyed;
}

/* The room belongs to the library. No copy of a label's key stays here. */
void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    memcpy(key, called->master.key, sizeof called->master.key);
    dumpulse_label_key(key, label, called->master.generations[label]);
}

/* The first block of this run is stored already, and begins after the one that is loaded. */
uint32_t dumpulse_load(void)
{
    return called->numbers.block - 1;
}

/* The loop never waits for a disk. While this is false, the last epoch goes on. */
static bool store_block(struct keys *key, uint32_t block)
{
    if (block > key->numbers.block)
        key->numbers.block = block;
    if (block > key->stored.block)
        state_store_numbers(&key->file);
    return block <= key->stored.block;
}

bool dumpulse_store(uint32_t number)
{
    return store_block(called, number);
}

/* The context of the send hook. A report is sent at once; a beacon stays here until it is decided
 * whether it is sent. */
struct reply {
    void *to; /* Destination for keys_send(). */
    bool has_beacon;
    uint8_t beacon[DUMPULSE_PACKET_SIZE];
};

/* NULL: a report of version 1, over CAN. */
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    struct reply *const reply = context;

    if (length == DUMPULSE_PACKET_SIZE) {
        memcpy(reply->beacon, packet, sizeof reply->beacon);
        reply->has_beacon = true;
    } else {
        keys_send(reply == NULL ? NULL : reply->to, packet, length);
    }
}

/* ---- The keys --------------------------------------------------------------------------- */

/* Returns what is wrong with the file, or NULL. systemd's LoadCredential= gives the file to root,
 * and lets the service's user read it by an access control list. Then the mode shows that the group
 * may read, though nobody else may. */
static const char *what_is_wrong(const char *path, const struct stat *status)
{
    const char *const folder = getenv("CREDENTIALS_DIRECTORY");
    const size_t length = folder == NULL ? 0 : strlen(folder);
    const bool is_credential =
        length != 0 && strncmp(path, folder, length) == 0 && path[length] == '/';

    if (!S_ISREG(status->st_mode))
        return "it is not a regular file";
    if (status->st_uid != 0 && status->st_uid != geteuid())
        return "it must belong to root, or to the user that the server runs as";
    if ((status->st_mode & (S_IRWXG | S_IRWXO) & ~(is_credential ? (mode_t)S_IRGRP : 0)) != 0)
        return "other users may use it: chmod 600 takes that away, but they may have read it";
    return NULL;
}

static bool read_digits(const char *digits, uint8_t key[16])
{
    static const char all[] = "0123456789abcdef";

    for (size_t i = 0; i < KEYS_DIGITS; i++) {
        const char *const at = memchr(all, digits[i], sizeof all - 1);
        if (at == NULL)
            return false;
        key[i / 2] = (uint8_t)(key[i / 2] << 4 | (at - all));
    }
    return true;
}

/* Reads a decimal number of at most four digits, without zeros before it, and `end` after it.
 * Returns what follows, or NULL. */
static const char *read_small(const char *text, const char *after, char end, unsigned most,
                              unsigned *number)
{
    const char *at = text;

    for (*number = 0; at != after && at - text < 4 && *at >= '0' && *at <= '9'; at++)
        *number = *number * 10 + (unsigned)(*at - '0');
    return at == text || at == after || *at != end || *number > most ||
                   (*text == '0' && at - text > 1)
               ? NULL
               : at + 1;
}

/* Reads a name and a space. Returns what follows, or NULL. */
static const char *read_name(const char *text, const char *after, const char *name)
{
    const size_t length = strlen(name);

    return (size_t)(after - text) > length && memcmp(text, name, length) == 0 ? text + length
                                                                              : NULL;
}

/* The option that names the key's file. */
static const char *option(const struct keys *key)
{
    return key == &keys_before ? "--key-before" : "--key";
}

static const char *path(const struct keys *key)
{
    return key == &keys_before ? options.key_before : options.key;
}

/* Reads a line below the key, which ends before `end`. `has` has which labels came before. Returns
 * NULL, or what is wrong with it. */
static const char *read_line(const char *line, const char *end, bool has[NUMBERS_LABELS],
                             struct keys_master *master)
{
    unsigned label = DUMPULSE_READER_LABEL, generation, epoch;
    const char *const seconds = read_name(line, end, "epoch ");

    if (seconds != NULL) {
        if (read_small(seconds, end, '\n', 3600, &epoch) == NULL || epoch == 0 ||
            master->epoch != 0)
            return "the line with epoch has its seconds from 1 to 3600, and comes once";
        master->epoch = (uint16_t)epoch;
        return NULL;
    }
    const char *rest = read_name(line, end, "readers ");
    if (rest == NULL)
        rest = read_small(line, end, ' ', DUMPULSE_VARIABLES - 1, &label);
    if (rest == NULL || read_small(rest, end, '\n', UINT8_MAX, &generation) == NULL || has[label])
        return "after the key, each line has a variable from 0 to 63 or 'readers', once each, "
               "a space, and the generation of its key from 0 to 255; or it is like 'epoch 10'";
    has[label] = true;
    master->generations[label] = (uint8_t)generation;
    return NULL;
}

static bool refuse(const struct keys *key, const char *why)
{
    return options_wrong("cannot use %s %.300s: %s", option(key), path(key), why);
}

bool keys_parse(const struct keys *key, const char *text, size_t length, struct keys_master *master)
{
    const char *const after = text + length;
    bool has[NUMBERS_LABELS] = {false}, is_right = true;
    unsigned number = 1;

    memset(master, 0, sizeof *master);
    if (length < KEYS_DIGITS || !read_digits(text, master->key) ||
        (length > KEYS_DIGITS && text[KEYS_DIGITS] != '\n'))
        return refuse(key, "it has no master key, which is one line of 32 digits 0-9a-f: "
                           "dumpulse key show FILE prints what it has");
    const char *line = text + KEYS_DIGITS + (length > KEYS_DIGITS);
    while (line != after && (is_right || options.check)) {
        const char *const newline = memchr(line, '\n', (size_t)(after - line));
        const char *const next = newline == NULL ? after : newline + 1;
        const char *const wrong = read_line(line, next, has, master);
        number++;
        is_right &=
            options_check(wrong == NULL || options_wrong("cannot use %s %.300s, line %u: %s",
                                                         option(key), path(key), number, wrong));
        line = next;
    }
    if (master->epoch == 0)
        master->epoch = EPOCH;
    return is_right;
}

/* Neither a core dump nor another process of the same user may show the key. */
static bool read_master(const struct keys *key, struct keys_master *master)
{
    const char *const name = path(key);
    char text[KEYS_LONGEST + 1]; /* one more to find a file that is too long */
    struct stat status;

    (void)prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L);
    const int file = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0 && strspn(name, "0123456789abcdefABCDEF") >= KEYS_DIGITS)
        return options_wrong("%s has a key, which others may have seen now: make a new one, and "
                             "give the name of its file",
                             option(key));
    if (file < 0)
        return options_wrong("cannot read %s %.300s: %s", option(key), name, strerror(errno));
    const char *const wrong =
        fstat(file, &status) == 0 ? what_is_wrong(name, &status) : strerror(errno);
    const ssize_t length = wrong == NULL ? options_read_all(file, text, sizeof text) : 0;
    const bool is_right = wrong != NULL ? refuse(key, wrong)
                          : length < 0  ? refuse(key, strerror(errno))
                                        : keys_parse(key, text, (size_t)length, master);
    explicit_bzero(text, sizeof text);
    (void)close(file);
    return is_right;
}

/* There is one epoch, which nodes have heard of from whoever has split the key. */
static bool check_epoch(const struct keys *key, const struct keys_master *master)
{
    return master->epoch == keys_epoch ||
           options_wrong("%s %.300s sets an epoch of %u s, but the epoch here is %u s", option(key),
                         path(key), master->epoch, (unsigned)keys_epoch);
}

/* Without the key, which --check has found wrong, there is nothing to compare it with. */
static bool read_before(bool has_key)
{
    struct keys_master *const before = &keys_before.master;

    return read_master(&keys_before, before) &&
           (!has_key || (check_epoch(&keys_before, before) &&
                         (memcmp(before->key, keys.master.key, sizeof before->key) != 0 ||
                          options_wrong("--key and --key-before have the same key"))));
}

bool keys_read(void)
{
    const bool is_right = options_check(read_master(&keys, &keys.master));

    keys_epoch = keys.master.epoch;
    if (options.key_before == NULL || !(is_right || options.check))
        return is_right;
    return overlap_read_until(options.key_until) &&
           (overlap_left() == 0 || read_before(is_right)) && is_right;
}

/* The key must be the same: the numbers belong to it. */
static bool read_again(struct keys *key, uint8_t generations[NUMBERS_LABELS], bool now)
{
    struct keys_master master = {.generations = {0}};

    if (now)
        return keys_renew(key, generations, true);
    const bool same =
        read_master(key, &master) &&
        (memcmp(master.key, key->master.key, sizeof master.key) == 0 ||
         options_wrong("%s %.300s has another key: for that, start the server anew, with "
                       "--key-is-new once",
                       option(key), path(key))) &&
        check_epoch(key, &master);
    memcpy(generations, master.generations, NUMBERS_LABELS);
    explicit_bzero(&master, sizeof master);
    return same && keys_renew(key, generations, false);
}

bool keys_read_again(bool now)
{
    static uint8_t generations[NUMBERS_LABELS], generations_before[NUMBERS_LABELS];

    if (!read_again(&keys, generations, now))
        return false;
    if (overlap_left() == 0)
        return true;
    if (now)
        overlap_say("two keys are accepted");
    return read_again(&keys_before, generations_before, now);
}

/* ---- Numbers ---------------------------------------------------------------------------- */

/* A variable is retired under the key before as soon as it was received under its new one, and any
 * label whose new key was renewed: nothing of it is accepted, over restarts, too. Nobody waits for
 * its beacon. */
static bool is_retired(const struct keys *key, uint8_t label)
{
    return (label < DUMPULSE_VARIABLES && (key->numbers.retired >> label & 1) != 0) ||
           (key == &keys_before && keys.master.generations[label] != 0);
}

/* The fingerprint, which `dumpulse key show` prints, begins with these bytes. No tag is made of the
 * same block, so it says nothing about tags. */
void keys_mark(const struct keys *key, uint8_t mark[NUMBERS_MARK_SIZE])
{
    uint32_t words[4]; /* a key is aligned as a uint32_t */
    uint8_t *const fingerprint = (uint8_t *)words;

    memcpy(words, key->master.key, sizeof words);
    dumpulse_label_key(fingerprint, UINT8_MAX, UINT8_MAX);
    memcpy(mark, fingerprint, NUMBERS_MARK_SIZE);
    explicit_bzero(words, sizeof words);
}

static struct keys *owner(const struct state_numbers *file)
{
    return file == &keys_before.file ? &keys_before : &keys;
}

/* What needs numbers that are stored happens now: epochs go on, and what is retired is logged. */
static void end_store(struct state_numbers *file, const struct numbers *numbers, bool is_stored)
{
    struct keys *const key = owner(file);
    const bool is_before = key == &keys_before;
    const uint32_t end = (key->stored.block + 1) * 256;

    if (!is_stored && !key->cannot_store && key->keyed.reached != 0)
        log_say("numbers cannot be stored: if that lasts for %llu min, no new epoch%s can begin",
                (unsigned long long)((end - key->keyed.epoch) * keys_epoch / 60),
                is_before ? " of --key-before" : "");
    key->cannot_store = !is_stored;
    if (!is_stored)
        return;
    if (is_before)
        overlap_retire(numbers->retired & ~key->stored.retired);
    key->stored = *numbers;
    key->stored_at = timing_boot_ns();
    if (is_before && key->stored.block == DUMPULSE_UNREADABLE)
        overlap_end();
    else if (key->stopped || key->jump > key->keyed.epoch / 256)
        loop_start_task(is_before ? LOOP_EPOCH_BEFORE : LOOP_EPOCH, TIMING_SECOND);
}

/* Reads the file. `wrong` becomes what is wrong with it, or NULL. The mark is in its name, too: so
 * the numbers of a key stay when another key is used meanwhile. False: it cannot be read, and the
 * log has the reason. */
static bool read_file(struct keys *key, const char **wrong)
{
    uint8_t mark[NUMBERS_MARK_SIZE], bytes[NUMBERS_SIZE];
    ssize_t size = -1;

    keys_mark(key, mark);
    (void)snprintf(key->file.suffix, sizeof key->file.suffix, ".%02x%02x%02x%02x.numbers", mark[0],
                   mark[1], mark[2], mark[3]);
    key->file.numbers = &key->numbers;
    key->file.on_end = end_store;
    if (!state_read_numbers(&key->file, bytes, &size))
        return false;
    const bool is_good = size >= 0 && numbers_decode(&key->numbers, bytes, (size_t)size) &&
                         memcmp(key->numbers.mark, mark, sizeof mark) == 0;
    *wrong = is_good                                    ? NULL
             : size < 0                                 ? "not there"
             : numbers_are_foreign(bytes, (size_t)size) ? "of another version"
                                                        : "damaged";
    return true;
}

/* "variable 7", or "readers" */
static const char *name_of(uint8_t label)
{
    static char name[sizeof "variable 63"];

    if (label >= DUMPULSE_VARIABLES)
        return "readers";
    (void)snprintf(name, sizeof name, "variable %u", label % DUMPULSE_VARIABLES);
    return name;
}

/* The numbers file remembers each generation: else an old copy of the key's file would bring back
 * keys that somebody may have stolen, and the old packets that were made with them. A new key has
 * no last count yet, and is not retired.
 *
 * This needs no disk. After a restart before they are stored, the keys are new once more. */
bool keys_renew(struct keys *key, const uint8_t generations[NUMBERS_LABELS], bool now)
{
    uint8_t *const known = key->numbers.generations;
    bool any = false;

    for (uint8_t label = 0; label <= DUMPULSE_READER_LABEL; label++) {
        if (generations[label] < known[label])
            return options_wrong("%s %.300s: generation %u of %s there, which has had %u: an old "
                                 "key must not be accepted again",
                                 option(key), path(key), generations[label], name_of(label),
                                 known[label]);
        if (!now || generations[label] == known[label])
            continue;
        any = true;
        known[label] = generations[label];
        if (key == &keys_before && is_retired(key, label))
            continue;
        if (label < DUMPULSE_VARIABLES)
            key->numbers.retired &= ~(UINT64_C(1) << label);
        dumpulse_keyed_renew(&key->keyed, label);
        log_say("%s: the key has generation %u from now on, and no older one is accepted",
                name_of(label), generations[label]);
    }
    if (now) /* At the start, the generations are there already. */
        memmove(key->master.generations, generations, sizeof key->master.generations);
    if (any && key->keyed.reached != 0)
        state_store_numbers(&key->file);
    return true;
}

/* If the numbers are lost, the server cannot know which epochs were used. It must not guess: after
 * a smaller number, old packets would be taken again. */
static bool read_numbers(struct keys *key)
{
    const char *wrong;

    if (!read_file(key, &wrong))
        return false;
    if (wrong != NULL)
        log_say("%s%s is %s: %s", options.state, key->file.suffix, wrong,
                key == &keys_before
                    ? "without it, leave out --key-before"
                    : "if this key was never used, run this once with --key-is-new; "
                      "if it was, KEYS in udpserver(8) describes what to do");
    return wrong == NULL;
}

/* A number that is counted up from 2020 at this pace is larger than all that were used before, as
 * "Replacing" in spec/keyed.md computes. */
enum { PER_BLOCK = 900 /* s */, LAST = DUMPULSE_EPOCH_LAST_ / 256 - 1 };

static int64_t block_of(uint64_t unix_s)
{
    return unix_s < 1577836800 ? -1 : (int64_t)((unix_s - 1577836800) / PER_BLOCK);
}

bool keys_choose_block(uint64_t unix_s, uint32_t *chosen)
{
    const int64_t block = block_of(unix_s);

    if (block < 0 || block > LAST) {
        log_say("the clock of this machine is wrong: set it first");
        return false;
    }
    *chosen = (uint32_t)block;
    return true;
}

/* Whoever sets the clock must not use up the blocks. So only a share of those that are left may be
 * skipped to follow it, and then as many as time that really passes gives: one each PER_SKIP. A
 * server that runs for 70 minutes a day, and was always switched off in between, needs no more. */
enum { SHARE = 128, PER_SKIP = 30 /* s */ };

static void set_skips(struct numbers *numbers, uint32_t blocks)
{
    const uint32_t most = numbers->block < LAST ? (LAST - numbers->block) / SHARE : 0;

    numbers->skips = blocks < most ? blocks : most;
}

/* An old copy of the numbers, or of the whole disk, does not know which blocks were used since. But
 * the date does: so a block that is used is never before that of the date. Returns the date's if
 * `block` is more than `slack` behind it, and else `block`. A clock that is behind changes nothing.
 * Nor does one that is further ahead than may be skipped. */
static uint32_t block_by_date(struct keys *key, uint32_t block, uint32_t slack)
{
    enum { DAY = 86400 };
    const int64_t date = block_of(timing_unix_ms() / 1000);
    const int64_t ahead = date - (int64_t)block;

    if (ahead <= (int64_t)slack)
        return block;
    if (ahead <= key->numbers.skips)
        return (uint32_t)date;
    if (!key->far_behind)
        log_say("the clock is %lld days ahead of %s%s, and epochs of %u days may be skipped now: "
                "set it; or if it is right, run this once with --key-to-date",
                (long long)(ahead * PER_BLOCK / DAY), options.state, key->file.suffix,
                key->numbers.skips * PER_BLOCK / DAY);
    key->far_behind = true;
    return block;
}

bool keys_make_numbers(void)
{
    const char *wrong;

    if (!read_file(&keys, &wrong))
        return false;
    if (wrong == NULL) {
        log_say("%s%s is there: leave out --key-is-new", options.state, keys.file.suffix);
        return false;
    }
    memset(&keys.numbers, 0, sizeof keys.numbers);
    keys_mark(&keys, keys.numbers.mark);
    memcpy(keys.numbers.generations, keys.master.generations, NUMBERS_LABELS);
    if (!keys_choose_block(timing_unix_ms() / 1000, &keys.numbers.block))
        return false;
    set_skips(&keys.numbers, LAST);
    if (!state_make_numbers(&keys.file))
        return false;
    log_say("made %s%s: start the server without --key-is-new", options.state, keys.file.suffix);
    return true;
}

bool keys_skip_to_date(void)
{
    uint32_t date;

    if (!read_numbers(&keys) || !keys_choose_block(timing_unix_ms() / 1000, &date))
        return false;
    if (date > keys.numbers.block)
        keys.numbers.block = date;
    set_skips(&keys.numbers, LAST);
    if (!state_write_numbers(&keys.file))
        return false;
    log_say("%s%s is at the date: start the server without --key-to-date", options.state,
            keys.file.suffix);
    return true;
}

/* ---- Epochs ----------------------------------------------------------------------------- */

static const uint64_t PACE = 5000000; /* ns from one beacon to the next, at the start */

static uint64_t round_begun; /* ns since the machine was started: when label 0 began its epoch */

/* The next block is stored when three quarters of the last one are used. If it were earlier, a
 * server that is restarted twice an hour would use more blocks than the date has. The numbers are
 * stored now and then in any case: so a disk that is full is noticed in time. */
static void store_ahead(struct keys *key)
{
    enum { FROM = 192, OFTEN = 20 * 60 /* s */ }; /* The last quarter of a block begins at FROM. */
    const uint32_t next = key->keyed.epoch / 256 + 1;

    if ((uint8_t)key->keyed.epoch >= FROM && next <= LAST + 1)
        (void)store_block(key, next);
    else if (timing_boot_ns() - key->stored_at >= OFTEN * TIMING_SECOND)
        state_store_numbers(&key->file);
}

static void say_that_it_stopped(const struct keys *key)
{
    const bool is_before = key == &keys_before;

    log_say("no new epoch%s can begin: %s", is_before ? " of --key-before" : "",
            key->keyed.epoch >= DUMPULSE_EPOCH_LAST_ || key->numbers.block > LAST + 1
                ? (is_before ? "all epochs of this key are used up: leave it out"
                             : "all epochs of this key are used up: make a new one")
            : key->keyed.reached != 0 ? "until a number can be stored, the last one goes on"
                                      : "until a number can be stored, nothing is accepted");
}

/* Wrong tags in this epoch: only these can be guesses. */
static uint64_t wrong_tags;

/* One in 2^32 guesses is right. */
static void note_wrong_tags(void)
{
    enum { ALARM = 256 };
    const bool was_alarming = counters[COUNT_EPOCH_TAGS] >= ALARM;

    if (wrong_tags >= ALARM && !was_alarming)
        log_say("%llu packets had wrong tags in the last epoch: tags are being guessed, or "
                "a node has a wrong key",
                (unsigned long long)wrong_tags);
    if (wrong_tags < ALARM && was_alarming)
        log_say("fewer than %d packets had wrong tags in the last epoch", ALARM);
    counters[COUNT_EPOCH_TAGS] = wrong_tags;
    wrong_tags = 0;
}

uint8_t keys_wrong_digits(void)
{
    const uint64_t tags = counters[COUNT_EPOCH_TAGS];

    return tags == 0 ? 0 : (uint8_t)(64 - __builtin_clzll(tags));
}

static void send_beacon(const struct keys *key, uint8_t label, const struct reply *reply)
{
    if (reply->has_beacon && !is_retired(key, label))
        keys_send(NULL, reply->beacon, sizeof reply->beacon);
}

/* Begins the epoch of one label after the other. If that fails, it tries again each second. At the
 * start, all labels begin at once, and their beacons follow one after the other: all of them are
 * more than the queue of a CAN interface holds; and nobody waits for them yet except on CAN.
 * Without `sends`, the bus gets no beacon yet. Returns when it goes on, in ns. */
static uint64_t begin_next(struct keys *key, bool sends)
{
    const uint64_t step = keys_epoch * TIMING_SECOND / NUMBERS_LABELS;
    struct reply reply = {.to = NULL};

    if (key->to_repeat != 0) {
        const uint8_t label = NUMBERS_LABELS - key->to_repeat--;
        dumpulse_keyed_beacon(library(key), label, &reply);
        send_beacon(key, label, &reply);
        return key->to_repeat != 0 ? PACE : step;
    }
    const bool starts = key->keyed.reached == 0;
    const uint8_t label = key->keyed.reached % NUMBERS_LABELS;
    const bool done = starts ? dumpulse_keyed_begin(library(key)) == DUMPULSE_BEGUN
                             : dumpulse_keyed_next(library(key), &reply);
    if (reply.has_beacon && !is_retired(key, label))
        listeners_tell(label, reply.beacon);
    if (sends)
        send_beacon(key, label, &reply);
    if (done && starts)
        key->to_repeat = NUMBERS_LABELS;
    if (done && key->stopped)
        log_say("a new epoch has begun");
    if (!done && !key->stopped)
        say_that_it_stopped(key);
    key->stopped = !done;
    if (done && label == 0 && key == &keys) {
        round_begun = timing_boot_ns();
        note_wrong_tags();
    }
    if (done && label == 0)
        store_ahead(key);
    return !done ? TIMING_SECOND : starts ? PACE : step;
}

/* The bus gets the beacons afterwards, one after the other, as at the start: if they filled the
 * queue of a CAN interface now, it would lose the first of those, too. */
static void begin_at_once(struct keys *key)
{
    key->to_repeat = 0;
    for (unsigned i = 0; i < NUMBERS_LABELS; i++) {
        (void)begin_next(key, false);
        if (key->stopped)
            break;
    }
    key->to_repeat = NUMBERS_LABELS;
    table_read_clock(); /* So many beacons give time to stop it. */
}

/* If the process was stopped, or the machine slept, what was made before must not look new: all
 * labels begin an epoch, as at the start, before anything is taken. A second more than an epoch may
 * pass between two calls of this. It may have stood still often, and for less than that: so a round
 * may last two epochs and a second. */
static void catch_up(void)
{
    static uint64_t last; /* ns since the machine was started */
    const uint64_t now = timing_boot_ns(), epoch = keys_epoch * TIMING_SECOND;
    const uint64_t at_once = now - last, in_all = now - round_begun - epoch;
    const bool often = !keys.stopped && now - round_begun > 2 * epoch + TIMING_SECOND;

    last = now;
    if (keys.keyed.reached == 0 || (at_once <= epoch + TIMING_SECOND && !often))
        return;
    log_say("stood still for %llu s: all epochs begin, and nothing from before is accepted",
            (unsigned long long)((often ? in_all : at_once) / TIMING_SECOND));
    begin_at_once(&keys);
    if (overlap_left() != 0 && keys_before.keyed.reached != 0)
        begin_at_once(&keys_before);
}

/* Notes by how much the clock was set forward. It may also run a bit faster than the other one. */
static void note_step(struct keys *key)
{
    enum { LEAST = 30, DAY = 86400 }; /* s */
    const int64_t before = key->offset;

    key->offset = (int64_t)timing_unix_ms() - (int64_t)(timing_boot_ns() / 1000000);
    const int64_t step = before == 0 ? 0 : (key->offset - before) / 1000;
    if (step >= LEAST)
        key->step = step < DAY ? (uint32_t)step : DAY;
}

/* The clock may have been set since the start, as on a machine without a battery. When it is set
 * forward, a snapshot of the machine may run again: then a new block begins in any case. And epochs
 * of 10 s fall behind the date slowly. Returns the block that is to begin, or the present one. */
static uint32_t block_by_clock(struct keys *key, uint32_t block)
{
    if (key->step == 0 && key->keyed.reached != NUMBERS_LABELS)
        return block;
    const uint32_t wanted = 1 + key->step / PER_BLOCK, most = key->numbers.skips;
    const uint32_t least = block + (wanted < most ? wanted : most);
    uint32_t next = block_by_date(key, block, key->step != 0 ? 0 : 3600 / PER_BLOCK);
    if (key->step != 0 && next < least)
        next = least;
    key->step = 0;
    set_skips(&key->numbers, most - (next - block));
    return next;
}

static void follow_date(struct keys *key)
{
    const uint32_t block = key->keyed.epoch / 256;
    const uint64_t passed = (timing_boot_ns() - key->refilled) / (PER_SKIP * TIMING_SECOND);

    note_step(key);
    key->refilled += passed * PER_SKIP * TIMING_SECOND;
    set_skips(&key->numbers, key->numbers.skips + (uint32_t)passed);
    if (key->keyed.reached == 0)
        return;
    if (key->jump <= block)
        key->jump = block_by_clock(key, block);
    if (key->jump <= block || !store_block(key, key->jump))
        return;
    key->keyed.epoch = key->jump * 256;
    begin_at_once(key);
}

static void go_on(void)
{
    catch_up();
    follow_date(&keys);
    loop_set_interval(LOOP_EPOCH, begin_next(&keys, true));
}

/* And what calls have left on the stack: the key of a label, for example. */
__attribute__((noinline)) static void wipe_before(void)
{
    uint8_t stack[8192];

    explicit_bzero(&keys_before.master, sizeof keys_before.master);
    explicit_bzero(stack, sizeof stack);
}

/* At the end, its numbers say that all of its epochs are used up. So nobody starts it again, by
 * mistake or with a clock that was set back. When this is stored, it is logged. */
static void go_on_before(void)
{
    const uint64_t left = overlap_left();

    if (left == 0) {
        keys_before.numbers.block = DUMPULSE_UNREADABLE;
        wipe_before();
        loop_set_interval(LOOP_EPOCH_BEFORE, 0);
        state_store_numbers(&keys_before.file);
        return;
    }
    follow_date(&keys_before);
    const uint64_t next = begin_next(&keys_before, true);
    loop_set_interval(LOOP_EPOCH_BEFORE, next < left ? next : left);
}

/* ---- Packets ---------------------------------------------------------------------------- */

/* Does --also-unkeyed list this variable? Then it is accepted in version 1 only. */
static bool is_unkeyed(uint8_t label)
{
    return label < DUMPULSE_VARIABLES && (options.also_unkeyed >> label & 1) != 0;
}

bool keys_leaves(const uint8_t *packet)
{
    return packet[DUMPULSE_MAGIC_AT_] == DUMPULSE_MAGIC &&
           is_unkeyed(packet[DUMPULSE_MAGIC_AT_ + 1]);
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

/* Processes a packet under one key. Once a variable was accepted under its new key, the key before
 * is refused at once; after a crash before that is stored, it may be accepted again: so the log has
 * it only when it is stored. */
static dumpulse_result process(struct keys *key, const uint8_t *packet, struct reply *reply)
{
    const uint8_t label = (uint8_t)(packet[4] - DUMPULSE_IS_HEARTBEAT_);

    if (label > DUMPULSE_READER_LABEL || is_unkeyed(label))
        return DUMPULSE_REFUSED;
    if (is_retired(key, label))
        return (dumpulse_result)DUMPULSE_OLD;
    if (key == &keys_before && keys_is_request(packet))
        keys_before.keyed.agent = keys.keyed.agent;
    const dumpulse_result result =
        dumpulse_keyed_process(library(key), packet, DUMPULSE_PACKET_SIZE, reply);
    if (result != DUMPULSE_HEARTBEAT && result != DUMPULSE_REPORT)
        return result;
    const uint64_t bit = label < DUMPULSE_VARIABLES ? UINT64_C(1) << label : 0;
    if (key == &keys_before) {
        const size_t at = 4 + (size_t)4 * label;
        if (bit != 0)
            memcpy(keys.keyed.agent.report + at, key->keyed.agent.report + at, 4);
        overlap.variables |= bit;
        overlap.reports += bit == 0;
        overlap_count();
    } else if (overlap_left() != 0 && (bit & ~keys_before.numbers.retired) != 0) {
        keys_before.numbers.retired |= bit;
        state_store_numbers(&keys_before.file);
    }
    return result;
}

/* Nothing here has a limit, so that nobody can use up that of another by forging its address: each
 * packet costs at most one tag for each key, and a beacon is as long as what it answers. If no key
 * accepts a request, the beacons of both are sent: nobody knows which of them the asker has. */
size_t keys_take(const uint8_t *packet, void *to)
{
    static const size_t counted[] = {
        [DUMPULSE_REFUSED] = COUNT_MAGIC,  [DUMPULSE_HEARTBEAT] = COUNT_HEARTBEATS,
        [DUMPULSE_REPORT] = COUNT_REPORTS, [DUMPULSE_OLD] = COUNT_OLD,
        [DUMPULSE_WRONG_TAG] = COUNT_TAG,  [DUMPULSE_NOT_BEGUN] = COUNT_OLD,
        [DUMPULSE_ASKS] = COUNT_BEACONS};
    static struct keys *const all[] = {&keys_before, &keys};
    struct reply replies[] = {{.to = to}, {.to = to}};
    size_t outcome = COUNT_MAGIC;

    catch_up(); /* this may take a while, in which the time of the key before ends */
    const bool two = overlap_left() != 0;
    if (keys_is_request(packet))
        table_prepare();
    for (size_t i = two ? 0 : 1; i < 2; i++) {
        const dumpulse_result result = process(all[i], packet, &replies[i]);
        outcome = counted[result];
        if (result == DUMPULSE_HEARTBEAT || result == DUMPULSE_REPORT)
            return outcome;
    }
    wrong_tags += outcome == COUNT_TAG;
    for (size_t i = replies[1].has_beacon ? 2 : 0; i-- != 0;) {
        if (replies[i].has_beacon)
            keys_send(to, replies[i].beacon, DUMPULSE_PACKET_SIZE);
        outcome = COUNT_BEACONS;
    }
    return outcome;
}

/* ---- The start -------------------------------------------------------------------------- */

static bool begin(struct keys *key)
{
    if (!read_numbers(key))
        return false;
    struct numbers *const numbers = &key->numbers;
    const uint32_t next = numbers->block + 1, block = block_by_date(key, next, 0);
    key->refilled = timing_boot_ns();
    if (key->far_behind)
        return false;
    set_skips(numbers, numbers->skips - (block - next));
    numbers->block = block;
    if (!keys_renew(key, key->master.generations, true)) {
        log_say("%s", options.wrong);
        return false;
    }
    if (block <= LAST + 1) /* otherwise, all epochs are used up */
        (void)state_write_numbers(&key->file);
    return true;
}

bool keys_cannot_store(void)
{
    return keys.stopped || keys.cannot_store || keys_before.cannot_store;
}

/* The server did not run at the end. Its block says when the key was used last, as it follows the
 * date: if that was later than the end, --key-until may be a typing error, and nothing changes. */
static void end_late(void)
{
    const char *wrong;

    const bool ends = read_before(true) && read_file(&keys_before, &wrong) && wrong == NULL &&
                      block_of(overlap_ended()) > keys_before.numbers.block;
    wipe_before();
    if (!ends)
        return;
    keys_before.numbers.block = DUMPULSE_UNREADABLE;
    if (state_write_numbers(&keys_before.file))
        log_say("it is never accepted again: all of its epochs are used up");
}

static bool begin_before(void)
{
    if (!overlap_begin())
        return false;
    if (overlap_left() == 0) {
        end_late();
        return true;
    }
    loop_define_task(LOOP_EPOCH_BEFORE, go_on_before, TIMING_SECOND);
    return begin(&keys_before);
}

bool keys_begin(void)
{
    if (!begin(&keys))
        return false;
    if (keys.numbers.retired != 0) /* an older key is used again, or the two were exchanged */
        log_say("nothing that is made with --key is accepted from variables: %s; they had a newer "
                "key already: raise their numbers in the file of the key",
                overlap_list(keys.numbers.retired));
    table_share((table_entry *)(void *)(keys.keyed.agent.report + 4));
    log_say("<6>with a key, and a new epoch each %u s; packets without a key are %s%s",
            (unsigned)keys_epoch,
            options.also_unkeyed == 0 ? "rejected"
                                      : "accepted, without authentication, of variables: ",
            options.also_unkeyed == 0 ? "" : overlap_list(options.also_unkeyed));
    loop_define_task(LOOP_EPOCH, go_on, TIMING_SECOND);
    return options.key_before == NULL || begin_before();
}
