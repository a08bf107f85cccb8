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
#include "log.h"
#include "loop.h"
#include "options.h"
#include "overlap.h"
#include "snapshot.h"
#include "state.h"
#include "table.h"
#include "timing.h"

/* Each key has epochs, counts and numbers of its own; `used` are those that the hooks and most of
 * these functions are about. There is one table, that of `keys`: the other one has entries only
 * while it is looked at. */
struct keys keys, keys_before;
static struct keys *used = &keys;
static bool has_before; /* could --key-before be read? */
uint8_t keys_label;
uint64_t keys_epoch;
bool keys_keeps_beacons;

enum { EPOCH = 10 /* s, unless the file has another one */ };

/* A block of code with such a variable is about the key before, until its end. */
#define UNDER_KEY_BEFORE __attribute__((cleanup(go_back), unused)) = use_before()

static struct keys *use_before(void)
{
    used = &keys_before;
    return used;
}

static void go_back(struct keys *const *before)
{
    (void)before;
    used = &keys;
    keys_keeps_beacons = false;
}

/* ---- The keys --------------------------------------------------------------------------- */

/* The room belongs to the library. No copy of a label's key stays here. */
void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    memcpy(key, used->master.key, sizeof used->master.key);
    dumpulse_label_key(key, label, used->master.generations[label]);
}

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

const char *keys_parse(const char *text, size_t length, struct keys_master *master)
{
    const char *const after = text + length;
    bool has[KEYS_LABELS] = {false};

    memset(master, 0, sizeof *master);
    if (length < KEYS_DIGITS || !read_digits(text, master->key) ||
        (length > KEYS_DIGITS && text[KEYS_DIGITS] != '\n'))
        return "it has no master key, which is one line of 32 digits 0-9a-f: "
               "dumpulse key show FILE says what it has";
    for (const char *at = text + KEYS_DIGITS + (length > KEYS_DIGITS); at != after;) {
        unsigned label = DUMPULSE_READER_LABEL, generation, epoch;
        const char *const seconds = read_name(at, after, "epoch ");
        if (seconds != NULL) {
            at = read_small(seconds, after, '\n', 3600, &epoch);
            if (at == NULL || epoch == 0 || master->epoch != 0)
                return "the line with epoch has its seconds from 1 to 3600, and comes once";
            master->epoch = (uint16_t)epoch;
            continue;
        }
        const char *const of_readers = read_name(at, after, "readers ");
        at = of_readers != NULL ? of_readers
                                : read_small(at, after, ' ', DUMPULSE_VARIABLES - 1, &label);
        at = at == NULL ? NULL : read_small(at, after, '\n', UINT8_MAX, &generation);
        if (at == NULL || has[label])
            return "after the key, each line has a variable from 0 to 63 or 'readers', once each, "
                   "a space, and the generation of its key from 0 to 255; or it is like 'epoch 10'";
        has[label] = true;
        master->generations[label] = (uint8_t)generation;
    }
    if (master->epoch == 0)
        master->epoch = EPOCH;
    return NULL;
}

/* The option that names the file of the key that is used. */
static const char *option(void)
{
    return used == &keys_before ? "--key-before" : "--key";
}

static const char *path(void)
{
    return used == &keys_before ? options.key_before : options.key;
}

/* Neither a core dump nor another process of the same user may show the key. */
static bool read_master(struct keys_master *master)
{
    char text[KEYS_LONGEST + 1]; /* one more to find a file that is too long */
    struct stat status;

    (void)prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L);
    const int file = open(path(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0 && strspn(path(), "0123456789abcdefABCDEF") >= KEYS_DIGITS)
        return options_wrong("%s has a key, which others may have seen now: make a new one, and "
                             "give the name of its file",
                             option());
    if (file < 0)
        return options_wrong("cannot read %s %.300s: %s", option(), path(), strerror(errno));
    const char *wrong =
        fstat(file, &status) == 0 ? what_is_wrong(path(), &status) : strerror(errno);
    if (wrong == NULL) {
        const ssize_t length = options_read_all(file, text, sizeof text);
        wrong = length < 0 ? strerror(errno) : keys_parse(text, (size_t)length, master);
    }
    explicit_bzero(text, sizeof text);
    (void)close(file);
    return wrong == NULL || options_wrong("cannot use %s %.300s: %s", option(), path(), wrong);
}

/* There is one epoch, which nodes have heard of from whoever has split the key. */
static bool check_epoch(const struct keys_master *master)
{
    return master->epoch == keys_epoch ||
           options_wrong("%s %.300s tells nodes that an epoch has %u s, and here it has %u s",
                         option(), path(), master->epoch, (unsigned)keys_epoch);
}

static bool read_before(void)
{
    uint8_t mark[KEYS_MARK_SIZE], mark_before[KEYS_MARK_SIZE];

    keys_mark(mark);
    struct keys *const before UNDER_KEY_BEFORE;
    const bool is_good = read_master(&before->master) && check_epoch(&before->master);
    keys_mark(mark_before);
    has_before = is_good && (memcmp(mark, mark_before, sizeof mark) != 0 ||
                             options_wrong("--key and --key-before have the same key"));
    return has_before;
}

bool keys_read(void)
{
    if (!read_master(&keys.master))
        return false;
    keys_epoch = keys.master.epoch;
    return options.key_before == NULL ||
           (overlap_read_until(options.key_until) && (read_before() || overlap_left() == 0));
}

/* The key must be the same: the numbers belong to it. */
static bool read_again(uint8_t generations[KEYS_LABELS], bool now)
{
    struct keys_master master = {.generations = {0}};

    if (now)
        return keys_renew(generations, true);
    const bool same =
        read_master(&master) &&
        (memcmp(master.key, used->master.key, sizeof master.key) == 0 ||
         options_wrong("%s %.300s has another key: for that, start the server anew, with "
                       "--key-is-new once",
                       option(), path())) &&
        check_epoch(&master);
    memcpy(generations, master.generations, KEYS_LABELS);
    explicit_bzero(&master, sizeof master);
    return same && keys_renew(generations, false);
}

bool keys_read_again(bool now)
{
    static uint8_t generations[KEYS_LABELS], generations_before[KEYS_LABELS];

    if (!read_again(generations, now))
        return false;
    if (overlap_left() == 0)
        return true;
    struct keys *const before UNDER_KEY_BEFORE;
    if (now)
        overlap_say("two keys are taken");
    return read_again(generations_before, now);
}

/* ---- Numbers ---------------------------------------------------------------------------- */

static const char BEGINNING[] = "Dumpulsekey2"; /* of the file */

static void set_block(uint32_t block)
{
    dumpulse_write_(used->numbers + KEYS_BLOCK_AT, block);
}

static uint32_t get_block(void)
{
    return dumpulse_read_(used->numbers + KEYS_BLOCK_AT);
}

/* The first block of this run is stored already, and begins after the one that is loaded. */
uint32_t dumpulse_load(void)
{
    return get_block() - 1;
}

static bool is_in(const uint8_t *numbers, uint8_t variable)
{
    return (numbers[KEYS_RETIRED_AT + variable / 8] >> variable % 8 & 1) != 0;
}

/* A variable is retired under the key before as soon as it was received under its new one, and any
 * label whose new key was renewed: nothing of it is accepted, over restarts, too. Nobody waits for
 * its beacon. */
static bool is_retired(uint8_t label)
{
    return (label < DUMPULSE_VARIABLES && is_in(used->numbers, label)) ||
           (used == &keys_before && keys.master.generations[label] != 0);
}

static void set_retired(uint8_t variable, bool retired)
{
    uint8_t *const map = &used->numbers[KEYS_RETIRED_AT + variable / 8];
    const uint8_t bit = (uint8_t)(1U << variable % 8);

    *map = (uint8_t)(retired ? *map | bit : *map & ~bit);
}

void keys_seal(uint8_t numbers[KEYS_NUMBERS_SIZE])
{
    dumpulse_write_(numbers + KEYS_SUM_AT, snapshot_crc32(numbers, KEYS_SUM_AT));
}

static bool is_sealed(const uint8_t *numbers)
{
    return dumpulse_read_(numbers + KEYS_SUM_AT) == snapshot_crc32(numbers, KEYS_SUM_AT);
}

/* The fingerprint, which `dumpulse key show` prints, begins with these bytes. No tag is made of the
 * same block, so it says nothing about tags. */
void keys_mark(uint8_t mark[KEYS_MARK_SIZE])
{
    uint32_t words[4]; /* a key is aligned as a uint32_t */
    uint8_t *const fingerprint = (uint8_t *)words;

    memcpy(words, used->master.key, sizeof words);
    dumpulse_label_key(fingerprint, UINT8_MAX, UINT8_MAX);
    memcpy(mark, fingerprint, KEYS_MARK_SIZE);
    explicit_bzero(words, sizeof words);
}

bool keys_are_good(size_t size)
{
    uint8_t mark[KEYS_MARK_SIZE];

    keys_mark(mark);
    return size == KEYS_NUMBERS_SIZE && memcmp(used->numbers, BEGINNING, KEYS_MARK_AT) == 0 &&
           memcmp(used->numbers + KEYS_MARK_AT, mark, sizeof mark) == 0 && is_sealed(used->numbers);
}

/* Has `file` a later block than `known`, or variables that are retired only there? Both are of the
 * same kind and key. */
static bool has_larger(const uint8_t *file, const uint8_t *known, size_t size)
{
    if (size != KEYS_NUMBERS_SIZE || memcmp(file, known, KEYS_BLOCK_AT) != 0 || !is_sealed(file))
        return false;
    if (memcmp(file + KEYS_BLOCK_AT, known + KEYS_BLOCK_AT, KEYS_RETIRED_AT - KEYS_BLOCK_AT) > 0)
        return true;
    for (unsigned at = KEYS_RETIRED_AT; at < KEYS_SKIPS_AT; at++)
        if ((file[at] & ~known[at]) != 0)
            return true;
    return false;
}

static struct keys *owner(const struct state_numbers *file)
{
    return file == &keys_before.file ? &keys_before : &keys;
}

static void take_numbers(struct state_numbers *file, uint8_t *bytes)
{
    memcpy(bytes, owner(file)->numbers, KEYS_NUMBERS_SIZE);
    keys_seal(bytes);
}

static uint32_t stored_block(const struct keys *of)
{
    return dumpulse_read_(of->stored + KEYS_BLOCK_AT);
}

/* What needs numbers that are stored happens now: epochs go on, and what is retired is logged. */
static void end_store(struct state_numbers *file, const uint8_t *bytes, bool is_stored)
{
    struct keys *const of = owner(file);
    const bool is_before = of == &keys_before;
    const uint32_t end = (stored_block(of) + 1) * 256;

    if (!is_stored && !of->cannot_store && of->keyed.reached != 0)
        log_say("numbers cannot be stored: if that lasts for %llu min, no new epoch%s can begin",
                (unsigned long long)((end - of->keyed.epoch) * keys_epoch / 60),
                is_before ? " of --key-before" : "");
    of->cannot_store = !is_stored;
    if (!is_stored)
        return;
    for (uint8_t variable = 0; is_before && variable < DUMPULSE_VARIABLES; variable++)
        if (is_in(bytes, variable) && !is_in(of->stored, variable))
            overlap_note(variable, true);
    memcpy(of->stored, bytes, sizeof of->stored);
    of->stored_at = timing_boot_ns();
    if (is_before && stored_block(of) == DUMPULSE_UNREADABLE)
        overlap_end();
    else if (of->stopped || of->jump > of->keyed.epoch / 256)
        loop_start_task(is_before ? LOOP_EPOCH_BEFORE : LOOP_EPOCH, TIMING_SECOND);
}

/* The mark is in the name, too: so the numbers of a key stay when another key is used meanwhile. */
static bool read_file(ssize_t *size)
{
    uint8_t mark[KEYS_MARK_SIZE];

    keys_mark(mark);
    (void)snprintf(used->file.suffix, sizeof used->file.suffix, ".%02x%02x%02x%02x.numbers",
                   mark[0], mark[1], mark[2], mark[3]);
    used->file.size = sizeof used->numbers;
    used->file.take = take_numbers;
    used->file.is_later = has_larger;
    used->file.on_end = end_store;
    return state_read_numbers(&used->file, used->numbers, size);
}

/* The loop never waits for a disk. While this is false, the last epoch goes on. */
bool dumpulse_store(uint32_t number)
{
    if (number > get_block())
        set_block(number);
    if (number > stored_block(used))
        state_store_numbers(&used->file);
    return number <= stored_block(used);
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

/* The key before is refused at once. After a crash before this is stored, it may be accepted again:
 * so the log has it only when it is stored. */
static void retire(uint8_t variable)
{
    struct keys *const before UNDER_KEY_BEFORE;

    if (is_in(before->numbers, variable))
        return;
    set_retired(variable, true);
    state_store_numbers(&used->file);
}

/* The numbers file remembers each generation: else an old copy of the key's file would bring back
 * keys that somebody may have stolen, and the old packets that were made with them. A new key has
 * no last count yet, and is not retired.
 *
 * This needs no disk. After a restart before they are stored, the keys are new once more. */
bool keys_renew(const uint8_t generations[KEYS_LABELS], bool now)
{
    const uint8_t *const known = used->numbers + KEYS_GENERATIONS_AT;
    bool any = false;

    for (uint8_t label = 0; label <= DUMPULSE_READER_LABEL; label++) {
        if (generations[label] < known[label])
            return options_wrong("%s %.300s: generation %u of %s there, which has had %u: an old "
                                 "key must not be taken again",
                                 option(), path(), generations[label], name_of(label),
                                 known[label]);
        if (!now || generations[label] == known[label])
            continue;
        any = true;
        used->numbers[KEYS_GENERATIONS_AT + label] = generations[label];
        if (used == &keys_before && is_retired(label))
            continue;
        if (label < DUMPULSE_VARIABLES)
            set_retired(label, false);
        dumpulse_keyed_renew(&used->keyed, label);
        log_say("%s: the key has generation %u from now on, and no older one is taken",
                name_of(label), generations[label]);
    }
    if (now) /* at the start, they are there */
        memmove(used->master.generations, generations, sizeof used->master.generations);
    if (any && used->keyed.reached != 0)
        state_store_numbers(&used->file);
    return true;
}

/* If the numbers are lost, the server cannot know which epochs were used. It must not guess: after
 * a smaller number, old packets would be taken again. */
static bool read_numbers(void)
{
    const char *const advice = used == &keys_before
                                   ? "without it, leave out --key-before"
                                   : "if this key was never used, run this once with --key-is-new; "
                                     "if it was, KEYS in udpserver(8) says what to do";
    ssize_t size;

    if (!read_file(&size))
        return false;
    if (size >= 0 && keys_are_good((size_t)size))
        return true;
    log_say("%s%s is %s: %s", options.state, used->file.suffix,
            size < 0                                                   ? "not there"
            : memcmp(used->numbers, "Dumpulsekeys", KEYS_MARK_AT) == 0 ? "of an older version"
                                                                       : "damaged",
            advice);
    return false;
}

/* A number that is counted up from 2020 at this pace is larger than all that were used before, as
 * "Replacing" in spec/keyed.md computes. */
enum { PER_BLOCK = 900 /* s */, LAST = DUMPULSE_EPOCH_LAST_ / 256 - 1 };

static int64_t block_of(uint64_t unix_s)
{
    return unix_s < 1577836800 ? -1 : (int64_t)((unix_s - 1577836800) / PER_BLOCK);
}

bool keys_choose_block(uint64_t unix_s)
{
    const int64_t block = block_of(unix_s);

    if (block < 0 || block > LAST) {
        log_say("the clock of this machine is wrong: set it first");
        return false;
    }
    set_block((uint32_t)block);
    return true;
}

/* Whoever sets the clock must not use up the blocks. So only a share of those that are left may be
 * skipped to follow it, and then as many as time that really passes gives: one each PER_SKIP. A
 * server that runs for 70 minutes a day, and was always switched off in between, needs no more. */
enum { SHARE = 128, PER_SKIP = 30 /* s */ };

static uint32_t get_skips(void)
{
    return dumpulse_read_(used->numbers + KEYS_SKIPS_AT);
}

static void set_skips(uint32_t blocks)
{
    const uint32_t most = get_block() < LAST ? (LAST - get_block()) / SHARE : 0;

    dumpulse_write_(used->numbers + KEYS_SKIPS_AT, blocks < most ? blocks : most);
}

/* An old copy of the numbers, or of the whole disk, does not know which blocks were used since. But
 * the date does: so a block that is used is never before that of the date. Returns the date's if
 * `block` is more than `slack` behind it, and else `block`. A clock that is behind changes nothing.
 * Nor does one that is further ahead than may be skipped. */
static uint32_t block_by_date(uint32_t block, uint32_t slack)
{
    enum { DAY = 86400 };
    const int64_t date = block_of(timing_unix_ms() / 1000);
    const int64_t ahead = date - (int64_t)block;

    if (ahead <= (int64_t)slack)
        return block;
    if (ahead <= get_skips())
        return (uint32_t)date;
    if (!used->far_behind)
        log_say("the clock is %lld days ahead of %s%s, and epochs of %u days may be skipped now: "
                "set it; or if it is right, run this once with --key-to-date",
                (long long)(ahead * PER_BLOCK / DAY), options.state, used->file.suffix,
                get_skips() * PER_BLOCK / DAY);
    used->far_behind = true;
    return block;
}

bool keys_make_numbers(void)
{
    ssize_t size;

    if (!read_file(&size))
        return false;
    if (size >= 0 && keys_are_good((size_t)size)) {
        log_say("%s%s is there: leave out --key-is-new", options.state, used->file.suffix);
        return false;
    }
    memset(used->numbers, 0, sizeof used->numbers);
    memcpy(used->numbers, BEGINNING, KEYS_MARK_AT);
    keys_mark(used->numbers + KEYS_MARK_AT);
    memcpy(used->numbers + KEYS_GENERATIONS_AT, used->master.generations, KEYS_LABELS);
    if (!keys_choose_block(timing_unix_ms() / 1000))
        return false;
    set_skips(LAST);
    if (!state_make_numbers(&used->file))
        return false;
    log_say("made %s%s: start the server without --key-is-new", options.state, used->file.suffix);
    return true;
}

bool keys_skip_to_date(void)
{
    if (!read_numbers())
        return false;
    const uint32_t before = get_block();
    if (!keys_choose_block(timing_unix_ms() / 1000))
        return false;
    if (before > get_block())
        set_block(before);
    set_skips(LAST);
    if (!state_write_numbers(&used->file))
        return false;
    log_say("%s%s is at the date: start the server without --key-to-date", options.state,
            used->file.suffix);
    return true;
}

/* ---- Epochs ----------------------------------------------------------------------------- */

static const uint64_t PACE = 5000000; /* ns from one beacon to the next, at the start */

static uint64_t round_begun; /* ns since the machine was started: when label 0 began its epoch */

/* The next block is stored when three quarters of the last one are used. If it were earlier, a
 * server that is restarted twice an hour would use more blocks than the date has. The numbers are
 * stored now and then in any case: so a disk that is full is noticed in time. */
static void store_ahead(void)
{
    enum { FROM = 192 /* of 256 epochs */, OFTEN = 20 * 60 /* s */ };
    const uint32_t next = used->keyed.epoch / 256 + 1;

    if ((uint8_t)used->keyed.epoch >= FROM && next <= LAST + 1)
        (void)dumpulse_store(next);
    else if (timing_boot_ns() - used->stored_at >= OFTEN * TIMING_SECOND)
        state_store_numbers(&used->file);
}

static void say_that_it_stopped(void)
{
    const bool is_before = used == &keys_before;

    log_say("no new epoch%s can begin: %s", is_before ? " of --key-before" : "",
            used->keyed.epoch >= DUMPULSE_EPOCH_LAST_ || get_block() > LAST + 1
                ? (is_before ? "all epochs of this key are used up: leave it out"
                             : "all epochs of this key are used up: make a new one")
            : used->keyed.reached != 0 ? "until a number can be stored, the last one goes on"
                                       : "until a number can be stored, nothing is taken");
}

/* Wrong tags in this epoch: only these can be guesses. */
static uint64_t wrong_tags;

/* One in 2^32 guesses is right. */
static void note_wrong_tags(void)
{
    enum { ALARM = 256 };
    const bool was_alarming = counters[COUNT_EPOCH_TAGS] >= ALARM;

    if (wrong_tags >= ALARM && !was_alarming)
        log_say("%llu packets had wrong tags in the last epoch: somebody guesses tags, or a node "
                "has a wrong key",
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

/* Begins the epoch of one label after the other. If that fails, it tries again each second. At the
 * start, all labels begin at once, and their beacons follow one after the other: all of them are
 * more than the queue of a CAN interface holds. Returns when it goes on, in ns. */
static uint64_t begin_next(void)
{
    const uint64_t step = keys_epoch * TIMING_SECOND / KEYS_LABELS;

    if (used->to_repeat != 0) {
        const uint8_t label = KEYS_LABELS - used->to_repeat--;
        keys_keeps_beacons = is_retired(label);
        dumpulse_keyed_beacon(&used->keyed, label, NULL);
        return used->to_repeat != 0 ? PACE : step;
    }
    const bool starts = used->keyed.reached == 0;
    keys_label = used->keyed.reached % KEYS_LABELS;
    keys_keeps_beacons = !starts && is_retired(keys_label);
    const bool done = starts ? dumpulse_keyed_begin(&used->keyed) == DUMPULSE_BEGUN
                             : dumpulse_keyed_next(&used->keyed, &keys_label);
    if (done && starts)
        used->to_repeat = KEYS_LABELS;
    if (done && used->stopped)
        log_say("a new epoch has begun");
    if (!done && !used->stopped)
        say_that_it_stopped();
    used->stopped = !done;
    if (done && keys_label == 0 && used == &keys) {
        round_begun = timing_boot_ns();
        note_wrong_tags();
    }
    if (done && keys_label == 0)
        store_ahead();
    return !done ? TIMING_SECOND : starts ? PACE : step;
}

static void begin_at_once(void)
{
    used->to_repeat = 0;
    for (unsigned i = 0; i < KEYS_LABELS; i++) {
        (void)begin_next();
        if (used->stopped)
            break;
    }
    used->to_repeat = KEYS_LABELS;
    keys_keeps_beacons = false;
    table_read_clock(); /* so many beacons, too, give time to stop it */
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
    log_say("stood still for %llu s: all epochs begin, and nothing from before is taken",
            (unsigned long long)((often ? in_all : at_once) / TIMING_SECOND));
    begin_at_once();
    if (overlap_left() == 0 || keys_before.keyed.reached == 0)
        return;
    struct keys *const before UNDER_KEY_BEFORE;
    begin_at_once();
}

/* Notes by how much the clock was set forward. It may also run a bit faster than the other one. */
static void note_step(void)
{
    enum { LEAST = 30, DAY = 86400 }; /* s */
    const int64_t before = used->offset;

    used->offset = (int64_t)timing_unix_ms() - (int64_t)(timing_boot_ns() / 1000000);
    const int64_t step = before == 0 ? 0 : (used->offset - before) / 1000;
    if (step >= LEAST)
        used->step = step < DAY ? (uint32_t)step : DAY;
}

/* The clock may have been set since the start, as on a machine without a battery. When it is set
 * forward, a snapshot of the machine may run again: then a new block begins in any case. And epochs
 * of 10 s fall behind the date slowly. Returns the block that is to begin, or the present one. */
static uint32_t block_by_clock(uint32_t block)
{
    if (used->step == 0 && used->keyed.reached != KEYS_LABELS)
        return block;
    const uint32_t wanted = 1 + used->step / PER_BLOCK, most = get_skips();
    const uint32_t least = block + (wanted < most ? wanted : most);
    uint32_t next = block_by_date(block, used->step != 0 ? 0 : 3600 / PER_BLOCK);
    if (used->step != 0 && next < least)
        next = least;
    used->step = 0;
    set_skips(get_skips() - (next - block));
    return next;
}

static void follow_date(void)
{
    const uint32_t block = used->keyed.epoch / 256;
    const uint64_t passed = (timing_boot_ns() - used->refilled) / (PER_SKIP * TIMING_SECOND);

    note_step();
    used->refilled += passed * PER_SKIP * TIMING_SECOND;
    set_skips(get_skips() + (uint32_t)passed);
    if (used->keyed.reached == 0)
        return;
    if (used->jump <= block)
        used->jump = block_by_clock(block);
    if (used->jump <= block || !dumpulse_store(used->jump))
        return;
    used->keyed.epoch = used->jump * 256;
    begin_at_once();
}

static void go_on(void)
{
    catch_up();
    follow_date();
    const uint64_t next = begin_next();
    keys_keeps_beacons = false;
    loop_set_interval(LOOP_EPOCH, next);
}

/* ---- The key before --------------------------------------------------------------------- */

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

    struct keys *const before UNDER_KEY_BEFORE;
    if (left == 0) {
        set_block(DUMPULSE_UNREADABLE);
        wipe_before();
        loop_set_interval(LOOP_EPOCH_BEFORE, 0);
        state_store_numbers(&used->file);
        return;
    }
    follow_date();
    const uint64_t next = begin_next();
    loop_set_interval(LOOP_EPOCH_BEFORE, next < left ? next : left);
}

/* Does --also-unkeyed list this variable? Then it is accepted in version 1 only. */
static bool is_unkeyed(uint8_t label)
{
    return label < DUMPULSE_VARIABLES && (options.also_unkeyed >> label & 1) != 0;
}

/* Notes under which generation a label was accepted: `dumpulse key list` shows it. */
static dumpulse_result process(const uint8_t *packet, void *context)
{
    const uint8_t label = (uint8_t)(packet[4] - DUMPULSE_IS_HEARTBEAT_);

    if (is_unkeyed(label))
        return DUMPULSE_REFUSED;
    if (is_retired(label))
        return (dumpulse_result)DUMPULSE_OLD;
    const dumpulse_result result =
        dumpulse_keyed_process(&used->keyed, packet, DUMPULSE_PACKET_SIZE, context);
    if (result != DUMPULSE_HEARTBEAT && result != DUMPULSE_REPORT)
        return result;
    uint8_t *const accepted = &used->numbers[KEYS_ACCEPTED_AT + label];
    const uint8_t generation = used->master.generations[label];
    const uint8_t number = generation == UINT8_MAX ? UINT8_MAX : (uint8_t)(generation + 1);
    if (*accepted != number) {
        *accepted = number;
        state_store_numbers(&used->file);
    }
    return result;
}

/* Looks at a packet that needs a tag. Returns whether it was taken. Else nothing has changed, and
 * no beacon was sent. */
static bool take_before(const uint8_t *packet, void *context, dumpulse_result *result)
{
    const uint8_t variable = packet[4] % DUMPULSE_VARIABLES;

    struct keys *const before UNDER_KEY_BEFORE;
    if (keys_is_request(packet))
        before->keyed.agent = keys.keyed.agent;
    keys_keeps_beacons = true;
    *result = process(packet, context);
    if (*result == DUMPULSE_REPORT) {
        overlap_note_report();
    } else if (*result == DUMPULSE_HEARTBEAT) {
        const size_t at = 4 + (size_t)4 * variable;
        memcpy(keys.keyed.agent.report + at, before->keyed.agent.report + at, 4);
        overlap_note(variable, false);
    }
    return *result == DUMPULSE_REPORT || *result == DUMPULSE_HEARTBEAT;
}

/* Sends the beacon of the key before, too: nobody knows which of them the asker has. */
static void answer_before(uint8_t label, void *context)
{
    struct keys *const before UNDER_KEY_BEFORE;

    if (!is_retired(label))
        dumpulse_keyed_beacon(&before->keyed, label, context);
}

/* ---- Packets ---------------------------------------------------------------------------- */

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

/* Nothing here has a limit, so that nobody can use up that of another by forging its address: each
 * packet costs at most one tag for each key, and a beacon is as long as what it answers. */
size_t keys_take(const uint8_t *packet, void *context)
{
    static const size_t counted[] = {
        [DUMPULSE_REFUSED] = COUNT_MAGIC,  [DUMPULSE_HEARTBEAT] = COUNT_HEARTBEATS,
        [DUMPULSE_REPORT] = COUNT_REPORTS, [DUMPULSE_OLD] = COUNT_OLD,
        [DUMPULSE_WRONG_TAG] = COUNT_TAG,  [DUMPULSE_NOT_BEGUN] = COUNT_OLD};
    const bool requests = keys_is_request(packet), asks = keys_is_question(packet);
    dumpulse_result result;

    catch_up(); /* this may take a while, in which the time of the key before ends */
    const bool two = overlap_left() != 0;
    if (requests)
        table_prepare();
    if (two && !asks && take_before(packet, context, &result))
        return counted[result];
    result = process(packet, context);
    if (two && result == DUMPULSE_HEARTBEAT)
        retire(packet[4] % DUMPULSE_VARIABLES);
    wrong_tags += result == DUMPULSE_WRONG_TAG;
    const bool refused = result == DUMPULSE_OLD || result == DUMPULSE_WRONG_TAG;
    if (result != DUMPULSE_ASKS && !(requests && refused))
        return counted[result];
    if (two)
        answer_before(packet[4] - DUMPULSE_IS_HEARTBEAT_, context);
    return COUNT_BEACONS;
}

static bool begin(void)
{
    if (!read_numbers())
        return false;
    used->refilled = timing_boot_ns();
    const uint32_t block = block_by_date(get_block() + 1, 0);
    if (used->far_behind)
        return false;
    set_skips(get_skips() - (block - (get_block() + 1)));
    set_block(block);
    if (!keys_renew(used->master.generations, true)) {
        log_say("%s", options.wrong);
        return false;
    }
    if (block <= LAST + 1) /* otherwise, all epochs are used up */
        (void)state_write_numbers(&used->file);
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
    ssize_t size;

    struct keys *const before UNDER_KEY_BEFORE;
    const bool ends = has_before && read_file(&size) && size >= 0 && keys_are_good((size_t)size) &&
                      block_of(overlap_ended()) > get_block();
    wipe_before();
    if (!ends)
        return;
    set_block(DUMPULSE_UNREADABLE);
    if (state_write_numbers(&before->file))
        log_say("it is never taken again: all of its epochs are used up");
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
    struct keys *const before UNDER_KEY_BEFORE;
    return begin();
}

bool keys_begin(void)
{
    uint64_t retired = 0;

    if (!begin())
        return false;
    for (uint8_t variable = 0; variable < DUMPULSE_VARIABLES; variable++)
        retired |= (uint64_t)is_retired(variable) << variable;
    if (retired != 0) /* an older key is used again, or the two were exchanged */
        log_say("nothing that is made with --key is taken of variables: %s; they had a newer key "
                "already: dumpulse key renew gives them a new one",
                overlap_list(retired));
    table_share((table_entry *)(void *)(keys.keyed.agent.report + 4));
    if (options.log >= OPTIONS_LOG_NORMAL)
        log_say("with a key, and a new epoch each %u s; packets without a key are %s%s",
                (unsigned)keys_epoch,
                options.also_unkeyed == 0 ? "refused"
                                          : "accepted, without authentication, of variables: ",
                options.also_unkeyed == 0 ? "" : overlap_list(options.also_unkeyed));
    loop_define_task(LOOP_EPOCH, go_on, TIMING_SECOND);
    return options.key_before == NULL || begin_before();
}
