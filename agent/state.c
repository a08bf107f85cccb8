/* The state file of an agent for Linux: state.h tells more.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for O_NOFOLLOW, flock and lstat */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "counters.h"
#include "log.h"
#include "options.h"
#include "table.h"
#include "timing.h"

/* Numbers are big-endian: 8 bytes "Dumpulse", 4 version, 4 tick in ms, 8 Unix time of the
 * writing in ms, 256 the entries as in a report, 4 CRC-32 (as zlib's) of all before. */
enum {
    STATE_VERSION = 1,
    VERSION_AT = 8,
    TICK_AT = 12,
    WRITTEN_AT = 16,
    ENTRIES_AT = 24,
    ENTRIES_SIZE = DUMPULSE_REPORT_SIZE - 4,
    CRC_AT = ENTRIES_AT + ENTRIES_SIZE,
    STATE_SIZE = CRC_AT + 4
};

/* A file of ours is no longer than this, one of a later version neither. */
enum { LONGEST = 1024 };

static struct {
    uint8_t bytes[LONGEST + 1]; /* one more, to see a longer file */
    size_t size;
    bool exists;
} content; /* of the file that was read last */

static char path[PATH_MAX]; /* the file that was used last */
static uint8_t
    saved[STATE_SIZE]; /* what FILE holds, as far as this server has read or written it */
static int lock = -1;  /* FILE.lock, locked, or -1 */
static int failure;    /* why the last save has failed: an error number; 0: it has not */

static void put_number(uint8_t *bytes, size_t size, uint64_t number)
{
    while (size-- != 0) {
        bytes[size] = (uint8_t)number;
        number >>= 8;
    }
}

static uint64_t get_number(const uint8_t *bytes, size_t size)
{
    uint64_t number = 0;

    while (size-- != 0)
        number = number << 8 | *bytes++;
    return number;
}

static uint32_t crc32_of(const uint8_t *bytes, size_t size)
{
    uint32_t crc = UINT32_MAX;

    while (size-- != 0) {
        crc ^= *bytes++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320U : 0);
    }
    return ~crc;
}

static void encode_state(uint8_t state[STATE_SIZE], const dumpulse *from, uint64_t now_ms)
{
    memcpy(state, "Dumpulse", VERSION_AT);
    put_number(state + VERSION_AT, 4, STATE_VERSION);
    put_number(state + TICK_AT, 4, options.tick);
    put_number(state + WRITTEN_AT, 8, now_ms);
    memcpy(state + ENTRIES_AT, from->report + 4, ENTRIES_SIZE);
    put_number(state + CRC_AT, 4, crc32_of(state, CRC_AT));
}

/* What the bytes are: only after STATE_GOOD has `to` changed. */
enum state_kind { STATE_GOOD, STATE_DAMAGED, STATE_OTHER_VERSION, STATE_OTHER_TICK };

static enum state_kind decode_state(const uint8_t *state, size_t size, uint64_t now_ms,
                                    dumpulse *to, unsigned *forgotten)
{
    if (size != STATE_SIZE || memcmp(state, "Dumpulse", VERSION_AT) != 0 ||
        get_number(state + CRC_AT, 4) != crc32_of(state, CRC_AT))
        return STATE_DAMAGED;
    if (get_number(state + VERSION_AT, 4) != STATE_VERSION)
        return STATE_OTHER_VERSION;
    if (get_number(state + TICK_AT, 4) != options.tick)
        return STATE_OTHER_TICK;
    memcpy(to->report + 4, state + ENTRIES_AT, ENTRIES_SIZE);

    const uint64_t written = get_number(state + WRITTEN_AT, 8) / options.tick;
    *forgotten = table_forget_old(to, written, now_ms / options.tick);
    return STATE_GOOD;
}

/* ---- Files ------------------------------------------------------------------------------ */

/* Is the content a state, if perhaps a damaged one? It begins as a state does, or has not a single
 * bit, as after a power failure. Anything else is somebody else's, and stays where it is: FILE may
 * be a typing error. */
static bool is_ours(void)
{
    const size_t start = content.size < VERSION_AT ? content.size : VERSION_AT;
    size_t zeros = 0;

    while (zeros < content.size && content.bytes[zeros] == 0)
        zeros++;
    return content.size <= LONGEST &&
           (zeros == content.size || memcmp(content.bytes, "Dumpulse", start) == 0);
}

static void name_file(const char *suffix)
{
    (void)snprintf(path, sizeof path, "%s%s", options.state, suffix);
}

/* Opens a regular file, FILE with that suffix; never waits, whatever it is. What is to be written
 * must not be somebody else's file by another name. */
static int open_file(const char *suffix, int flags, mode_t mode)
{
    struct stat status;

    name_file(suffix);
    const int file = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
    if (file < 0)
        return -1;
    int reason = EINVAL;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
        if (flags == O_RDONLY || status.st_nlink <= 1)
            return file;
        reason = EMLINK;
    }
    (void)close(file);
    errno = reason;
    return -1;
}

/* False with ENOMSG: the file is not ours. */
static bool read_content(int file)
{
    const ssize_t size = read(file, content.bytes, sizeof content.bytes);

    content.exists = true;
    content.size = size < 0 ? 0 : (size_t)size;
    if (size >= 0)
        errno = ENOMSG;
    return size >= 0 && is_ours();
}

/* What has FILE with that suffix? False if it is there, and cannot be read or is not ours. */
static bool look_at(const char *suffix)
{
    const int file = open_file(suffix, O_RDONLY, 0);

    content.exists = false;
    if (file < 0)
        return errno == ENOENT;
    const bool usable = read_content(file);
    const int reason = errno;
    (void)close(file);
    errno = reason;
    return usable;
}

/* No two servers have one FILE: each locks FILE.lock, which is empty and is never replaced. Whoever
 * can open a file can lock it, and keep a server from starting: so it is not FILE that is locked,
 * which anybody may read, but a file that is its owner's alone. Somebody may remove it, alone or
 * with its directory: so it is looked for before each save. */
static bool hold_lock(void)
{
    struct stat mine, now;

    name_file(".lock");
    if (lock >= 0) {
        if (fstat(lock, &mine) == 0 && lstat(path, &now) == 0 && mine.st_ino == now.st_ino &&
            mine.st_dev == now.st_dev)
            return true;
        (void)close(lock);
    }
    lock = open_file(".lock", O_RDWR | O_CREAT, 0600);
    if (lock < 0)
        return false;
    (void)read_content(lock);
    int reason = ENOMSG;
    if (content.size == 0) {
        (void)fchmod(lock, 0600); /* if it is one that was opened to others meanwhile */
        if (flock(lock, LOCK_EX | LOCK_NB) == 0)
            return true;
        reason = errno;
    }
    (void)close(lock);
    lock = -1;
    errno = reason;
    return false;
}

/* The content of FILE gets another name; what has that name must be ours, too, and goes. */
static bool set_aside(const char *suffix, const char *why)
{
    char aside[PATH_MAX];

    if (!look_at(suffix))
        return false;
    memcpy(aside, path, sizeof aside);
    name_file("");
    if (rename(path, aside) != 0)
        return false;
    log_say("%s %s: set aside as %s%s", path, why, aside,
            content.exists ? " in place of an older one" : "");
    return true;
}

/* Why the file that was used last cannot be. */
static const char *reason_text(int reason)
{
    static char text[80];

    switch (reason) {
    case EINVAL:
    case ENXIO:
    case EISDIR: return "it is not a regular file";
    case ELOOP: return "it is a symbolic link: name the file itself";
    case EMLINK: return "it is a file of several names: remove it";
    case EWOULDBLOCK: return "another server uses it: give each its own";
    case ENOMSG:
        (void)snprintf(text, sizeof text, "it is somebody else's, and begins with '%.*s'",
                       content.size < 24 ? (int)content.size : 24, (const char *)content.bytes);
        return text;
    default: return strerror(reason);
    }
}

/* A disk that is full or fails may be better later. Other reasons need somebody to mend them. */
static bool may_pass(int reason)
{
    return reason == ENOSPC || reason == EDQUOT || reason == EIO || reason == EROFS;
}

/* ---- Saving ----------------------------------------------------------------------------- */

static bool write_new(const uint8_t state[STATE_SIZE])
{
    const int file = open_file(".new", O_RDWR | O_CREAT, 0644);

    if (file < 0)
        return false;
    bool done = read_content(file) && ftruncate(file, 0) == 0;
    if (done) {
        errno = EIO; /* should fewer bytes be written than asked, without an error */
        done = pwrite(file, state, STATE_SIZE, 0) == STATE_SIZE && fsync(file) == 0;
    }
    const int reason = errno;
    (void)close(file);
    errno = reason;
    return done;
}

/* A new name lasts once its directory is on the disk; some file systems cannot say. */
static void keep_names(void)
{
    name_file("");
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        slash[1] = '\0';
    const int directory = open(slash == NULL ? "." : path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        (void)fsync(directory);
        (void)close(directory);
    }
}

/* Under another name first: at any moment FILE is a whole one, the old or the new. This server has
 * the lock: a FILE that is neither is what a person has put there, and not lost. Packets wait in the
 * sockets' buffers meanwhile. */
static bool save(void)
{
    uint8_t state[STATE_SIZE];

    encode_state(state, &table_agent, timing_unix_ms());
    if (!hold_lock() || !write_new(state) || !look_at(""))
        return false;
    if (content.exists &&
        (content.size != STATE_SIZE || memcmp(content.bytes, saved, STATE_SIZE) != 0) &&
        !set_aside(".changed",
                   "was put there while this server used it (to restore a state, stop the "
                   "server first)"))
        return false;
    name_file(".new");
    if (rename(path, options.state) != 0)
        return false;
    memcpy(saved, state, STATE_SIZE);
    keep_names();
    return true;
}

bool state_save(void)
{
    const int reason = save() ? 0 : errno;

    if (reason != 0)
        counters[COUNT_FAILED_SAVES]++;
    if (reason != 0 && reason != failure)
        log_say("cannot write state: %s: %s", path, reason_text(reason));
    if (reason == 0 && failure != 0)
        log_say("state is written to %s again", options.state);
    failure = reason;
    return reason == 0;
}

void state_save_if_changed(void)
{
    if (failure != 0 || memcmp(saved + ENTRIES_AT, table_agent.report + 4, ENTRIES_SIZE) != 0)
        (void)state_save();
}

/* ---- Loading ---------------------------------------------------------------------------- */

static bool refuse(void)
{
    log_say("cannot use --state: %s: %s", path, reason_text(errno));
    return false;
}

/* Takes the table from FILE's content, or sets FILE aside. False, and has said why, if the server
 * must not start. */
static bool take_content(void)
{
    unsigned forgotten = 0;

    switch (decode_state(content.bytes, content.size, timing_unix_ms(), &table_agent, &forgotten)) {
    case STATE_DAMAGED: return set_aside(".damaged", "is damaged") || may_pass(errno) || refuse();
    case STATE_OTHER_VERSION:
        return set_aside(".damaged", "is of another version") || may_pass(errno) || refuse();
    case STATE_OTHER_TICK: {
        const unsigned tick = (unsigned)get_number(content.bytes + TICK_AT, 4);
        log_say("%s has ticks of %u ms: give --tick %u, or move it away", options.state, tick,
                tick);
        return false;
    }
    default: break; /* it is good */
    }
    memcpy(saved, content.bytes, STATE_SIZE);
    if (forgotten != 0)
        log_say("forgot %u variable%s of %s: too old for a timestamp to tell", forgotten,
                forgotten == 1 ? "" : "s", options.state);
    return true;
}

/* FILE is looked at before there is a lock, too, so that a typing error leaves no FILE.lock. */
bool state_load(void)
{
    if (!look_at("") || (!hold_lock() && !may_pass(errno)) || !look_at(""))
        return refuse();
    if (content.exists && !take_content())
        return false;
    if (!state_save() && !may_pass(failure))
        return false;
    if (failure != 0)
        log_say("serving all the same; the state is written as soon as that is possible");
    return true;
}
