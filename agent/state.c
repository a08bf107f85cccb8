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

static uint8_t saved_entries[ENTRIES_SIZE]; /* what the file holds */
static int state_lock = -1; /* the file itself, locked: no other server may write it */
static bool save_failed;

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

    /* An entry that has grown older than a timestamp can tell would look young again: it is
     * forgotten. A clock that was set back makes nothing older. */
    const uint64_t written = get_number(state + WRITTEN_AT, 8) / options.tick;
    const uint64_t now = now_ms / options.tick, passed = now > written ? now - written : 0;
    *forgotten = 0;
    for (uint8_t i = 0; i < DUMPULSE_VARIABLES; i++) {
        uint8_t *entry = to->report + 4 + 4 * (size_t)i;
        const uint16_t age = (uint16_t)(written - dumpulse_read_entry(to->report, i).timestamp);
        if (get_number(entry, 4) != 0 && passed > (uint64_t)(UINT16_MAX - age)) {
            put_number(entry, 4, 0);
            ++*forgotten;
        }
    }
    return STATE_GOOD;
}

static bool is_same(const struct stat *one, const struct stat *other)
{
    return one->st_ino == other->st_ino && one->st_dev == other->st_dev;
}

/* A regular file, locked for this server alone; never waits, whatever the path is. Another server
 * may have put a new file in its place just before it was locked: then the path has another. What
 * is to be written must not be somebody else's file by another name. */
static int open_state(const char *path, int flags)
{
    struct stat status, now;
    const int file = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644);

    if (file < 0)
        return -1;
    int reason = EINVAL;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
        reason = EWOULDBLOCK;
        if (flags != O_RDONLY && status.st_nlink > 1)
            reason = EMLINK;
        else if (flock(file, LOCK_EX | LOCK_NB) != 0)
            reason = errno;
        else if (lstat(path, &now) == 0 && is_same(&now, &status))
            return file;
    }
    (void)close(file);
    errno = reason;
    return -1;
}

static const char *state_error(void)
{
    switch (errno) {
    case EINVAL:
    case ENXIO:
    case EISDIR: return "it is not a regular file";
    case ELOOP: return "it is a symbolic link: name the file itself";
    case EMLINK: return "it is a file of several names: remove it";
    case EWOULDBLOCK: return "another server uses it: give each its own";
    default: return strerror(errno);
    }
}

static bool write_state(int file)
{
    uint8_t state[STATE_SIZE];
    char path[PATH_MAX];

    encode_state(state, &table_agent, timing_unix_ms());
    errno = EIO; /* should fewer bytes be written than asked, without an error */
    if (ftruncate(file, 0) != 0 || write(file, state, STATE_SIZE) != STATE_SIZE || fsync(file) != 0)
        return false;
    (void)snprintf(path, sizeof path, "%s.new", options.state);
    if (rename(path, options.state) != 0)
        return false;

    /* The new name lasts once its directory is on the disk; some file systems cannot say. */
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        slash[1] = '\0';
    const int directory = open(slash == NULL ? "." : path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        (void)fsync(directory);
        (void)close(directory);
    }
    memcpy(saved_entries, table_agent.report + 4, ENTRIES_SIZE);
    return true;
}

/* Is there a FILE that this server has neither read nor written? Another has, then, which was
 * started at the same time, or after FILE was removed. */
static bool is_taken(void)
{
    struct stat mine, now;

    return lstat(options.state, &now) == 0 &&
           (state_lock < 0 || fstat(state_lock, &mine) != 0 || !is_same(&now, &mine));
}

/* Under another name first: at any moment FILE is a whole one, the old or the new. Whoever has
 * locked that name is the only one to put a FILE in place. Packets wait in the sockets' buffers
 * meanwhile. */
bool state_save(void)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s.new", options.state);
    const int file = open_state(path, O_WRONLY | O_CREAT);
    const bool taken = file >= 0 && is_taken();
    if (taken) {
        (void)unlink(path);
        errno = EWOULDBLOCK;
    }
    if (file >= 0 && !taken && write_state(file)) {
        if (save_failed)
            log_say("state is written to %s again", options.state);
        if (state_lock >= 0)
            (void)close(state_lock);
        state_lock = file;
        save_failed = false;
        return true;
    }
    if (!save_failed)
        log_say("cannot write state to %s.new: %s", options.state, state_error());
    if (file >= 0)
        (void)close(file);
    counters[COUNT_FAILED_SAVES]++;
    save_failed = true;
    return false;
}

static bool set_state_aside(const char *why)
{
    char aside[PATH_MAX];

    (void)snprintf(aside, sizeof aside, "%s.damaged", options.state);
    const bool older = access(aside, F_OK) == 0;
    if (rename(options.state, aside) != 0) {
        log_say("%s %s, and cannot be renamed to %s: %s", options.state, why, aside,
                strerror(errno));
        return false;
    }
    log_say("%s %s: set aside as %s%s; starting with an empty table", options.state, why, aside,
            older ? " in place of an older one" : "");
    return true;
}

/* Takes the table from an open file, or sets that aside. False, and has said why, if the server
 * must not start. */
static bool read_state(int file)
{
    uint8_t state[STATE_SIZE + 1]; /* one more, to see a longer file */
    unsigned forgotten = 0;
    const ssize_t size = read(file, state, sizeof state);

    if (size < 0) {
        log_say("cannot read %s: %s", options.state, strerror(errno));
        return false;
    }
    switch (decode_state(state, (size_t)size, timing_unix_ms(), &table_agent, &forgotten)) {
    case STATE_DAMAGED: return set_state_aside("is damaged");
    case STATE_OTHER_VERSION: return set_state_aside("is of another version");
    case STATE_OTHER_TICK: {
        const unsigned tick = (unsigned)get_number(state + TICK_AT, 4);
        log_say("%s has ticks of %u ms: give --tick %u, or move it away", options.state, tick,
                tick);
        return false;
    }
    default: break; /* it is good */
    }
    if (forgotten != 0)
        log_say("%u variables of %s are too old to tell how old: forgotten", forgotten,
                options.state);
    return true;
}

bool state_load(void)
{
    state_lock = open_state(options.state, O_RDONLY);
    if (state_lock < 0 && errno != ENOENT) {
        log_say("cannot use --state %s: %s", options.state, state_error());
        return false;
    }
    return (state_lock < 0 || read_state(state_lock)) && state_save();
}

void state_save_if_changed(void)
{
    if (memcmp(saved_entries, table_agent.report + 4, ENTRIES_SIZE) != 0)
        (void)state_save();
}
