/* The state file of an agent for Linux; see state.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for O_NOFOLLOW, flock and lstat */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "counters.h"
#include "log.h"
#include "loop.h"
#include "options.h"
#include "snapshot.h"
#include "table.h"
#include "timing.h"

/* Each of the server's files begins with "Dumpulse", or is empty. */
enum { BEGINNING = 8 };

static struct {
    uint8_t bytes[STATE_LONGEST + 1]; /* one more, to find a file that is too long */
    size_t size;
    bool exists;
} content; /* of the file that was read last */

static char path[PATH_MAX]; /* the file that was used last */
static uint8_t
    saved[SNAPSHOT_SIZE]; /* what this server has last read from FILE, or written to it */
static int lock = -1;     /* the descriptor of FILE.lock, which it has locked; or -1 */
static int failure;       /* why the last save failed: an error number; 0: it succeeded */
static bool gives_away;   /* are files made for the owner of the folder? */

/* While the server serves, a thread saves the table: a disk may be slow. Until it has ended, nobody
 * else uses what is above here. */
static struct {
    pthread_t thread;
    bool is_looked_at; /* save_if_changed() has started it, and not seen its end yet */
    bool runs;         /* it was started, and not joined yet */
    bool ended;        /* set by the thread, read by the loop */
    int reason;        /* what the thread found: an error number, or 0 */
    uint8_t state[SNAPSHOT_SIZE];
} saver;
static uint64_t interval; /* ns from one save to the next: see save_if_changed() */

/* ---- Files ------------------------------------------------------------------------------ */

/* Is the content a state, perhaps a damaged one? It is if it begins like a state, but for zeros in
 * the place of its end, as after a power failure. Any other file belongs to somebody else, and
 * stays where it is: FILE may be a typing error. */
static bool is_ours(void)
{
    size_t size = content.size;

    while (size != 0 && content.bytes[size - 1] == 0)
        size--;
    return content.size <= STATE_LONGEST &&
           memcmp(content.bytes, "Dumpulse", size < BEGINNING ? size : BEGINNING) == 0;
}

static void set_path(const char *suffix)
{
    (void)snprintf(path, sizeof path, "%s%s", options.state, suffix);
}

/* Returns the descriptor of the folder of FILE, or -1. */
static int open_folder(void)
{
    char folder[PATH_MAX];

    (void)snprintf(folder, sizeof folder, "%s", options.state);
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[1] = '\0';
    return open(slash == NULL ? "." : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Root makes the files for a server that runs as another user. This gives a file to that user. It
 * must be a file of ours: the user may have put another one here. */
static bool give_away(int file)
{
    struct stat status;
    const int folder = gives_away ? open_folder() : -1;

    if (folder < 0)
        return !gives_away;
    const bool done =
        fstat(folder, &status) == 0 && fchown(file, status.st_uid, status.st_gid) == 0;
    const int reason = errno;
    (void)close(folder);
    errno = reason;
    return done;
}

/* Opens FILE with that suffix if it is a regular file. It never waits, even if the file is of
 * another kind. A file that is opened for writing must have one name only: with two, it may be
 * somebody else's file. */
static int open_file(const char *suffix, int flags, mode_t mode)
{
    struct stat status;

    set_path(suffix);
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

/* Reads the file into `content`. False with ENOMSG: the file is not ours. */
static bool read_content(int file)
{
    const ssize_t size = options_read_all(file, content.bytes, sizeof content.bytes);

    content.exists = true;
    content.size = size < 0 ? 0 : (size_t)size;
    if (size >= 0)
        errno = ENOMSG;
    return size >= 0 && is_ours();
}

/* Reads FILE with that suffix into `content`, if it exists. False: it exists, but cannot be read or
 * is not ours. */
static bool read_if_exists(const char *suffix)
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

/* Two servers must not use the same FILE. So each server locks FILE.lock, which is empty and is
 * never replaced. Whoever can open a file can also lock it, and so stop a server from starting.
 * Anybody may read FILE; only its owner may open FILE.lock. Somebody may remove FILE.lock, or its
 * directory: so this function looks for it before each save. */
static bool hold_lock(void)
{
    struct stat mine, now;

    set_path(".lock");
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
        (void)fchmod(lock, 0600); /* somebody may have allowed others to open it */
        if (give_away(lock) && flock(lock, LOCK_EX | LOCK_NB) == 0)
            return true;
        reason = errno;
    }
    (void)close(lock);
    lock = -1;
    errno = reason;
    return false;
}

/* Renames FILE with the suffix `from` to FILE with the suffix `to`. If a file has that name
 * already, it must be ours, too, and is replaced. */
static bool set_aside(const char *from, const char *to, const char *why)
{
    char aside[PATH_MAX];

    if (!read_if_exists(to))
        return false;
    memcpy(aside, path, sizeof aside);
    set_path(from);
    if (rename(path, aside) != 0)
        return false;
    log_say("%s %s: set aside as %s%s", path, why, aside,
            content.exists ? " in place of an older one" : "");
    return true;
}

/* Says why the file that was used last cannot be used. */
static const char *reason_text(int reason)
{
    switch (reason) {
    case EINVAL:
    case ENXIO:
    case EISDIR: return "it is not a regular file";
    case ELOOP: return "it is a symbolic link: name the file itself";
    case EMLINK: return "it is a file of several names: remove it";
    case EWOULDBLOCK: return "another server uses it: give each server its own";
    case ESTALE: return "another server has used larger numbers: start this one again";
    case ENOMSG: return "it is somebody else's, and no state: give another name";
    default: return strerror(reason);
    }
}

/* A disk that is full or fails may work again later. Other errors stay until somebody repairs
 * them. */
static bool is_temporary(int reason)
{
    return reason == ENOSPC || reason == EDQUOT || reason == EIO || reason == EROFS ||
           reason == EFBIG;
}

/* ---- Saving ----------------------------------------------------------------------------- */

static bool write_new(const uint8_t *bytes, size_t size)
{
    const int file = open_file(".new", O_RDWR | O_CREAT, 0644);

    if (file < 0)
        return false;
    bool done = read_content(file) && give_away(file) && ftruncate(file, 0) == 0;
    if (done) {
        errno = EIO; /* pwrite() may write too few bytes without an error */
        done = pwrite(file, bytes, size, 0) == (ssize_t)size && fsync(file) == 0;
    }
    const int reason = errno;
    (void)close(file);
    errno = reason;
    return done;
}

/* After a power failure, a renamed file has its new name only if the directory was on the disk. */
static bool sync_directory(void)
{
    const int directory = open_folder();

    if (directory < 0)
        return false;
    const bool done = fsync(directory) == 0;
    const int reason = errno;
    (void)close(directory);
    errno = reason;
    return done;
}

/* Writes FILE.new, and renames it to FILE: so at any moment FILE is complete, the old one or the
 * new one. As this server has the lock, a FILE with another content was put there by a person. It
 * is not lost: it gets another name. */
static bool save(const uint8_t state[SNAPSHOT_SIZE])
{
    if (!hold_lock() || !write_new(state, SNAPSHOT_SIZE) || !read_if_exists(""))
        return false;
    if (content.exists &&
        (content.size != SNAPSHOT_SIZE || memcmp(content.bytes, saved, SNAPSHOT_SIZE) != 0) &&
        !set_aside("", ".changed",
                   "was put there while this server used it (to restore a state, stop the "
                   "server first)"))
        return false;
    set_path(".new");
    if (rename(path, options.state) != 0)
        return false;
    memcpy(saved, state, SNAPSHOT_SIZE);
    (void)sync_directory(); /* some file systems cannot: for the table, that is no error */
    return true;
}

/* Counts and logs what became of a save. `before` is why the one before it failed. */
static bool note_save(int reason, int *before, const char *suffix)
{
    if (reason != 0)
        counters[COUNT_FAILED_SAVES]++;
    if (reason != 0 && reason != *before)
        log_say("cannot write state: %s: %s", path, reason_text(reason));
    if (reason == 0 && *before != 0)
        log_say("state is written to %s%s again", options.state, suffix);
    *before = reason;
    return reason == 0;
}

static void take_state(void)
{
    table_collect();
    snapshot_encode(saver.state, &table_agent, timing_unix_ms());
}

static void *run_saver(void *unused)
{
    saver.reason = save(saver.state) ? 0 : errno;
    __atomic_store_n(&saver.ended, true, __ATOMIC_RELEASE);
    return unused;
}

/* Waits for the thread, if there is one, and notes what it found. */
static void join_saver(void)
{
    if (!saver.runs)
        return;
    (void)pthread_join(saver.thread, NULL);
    saver.runs = false;
    (void)note_save(saver.reason, &failure, "");
}

bool state_is_saved(void)
{
    return failure == 0;
}

bool state_save(void)
{
    join_saver();
    take_state();
    return note_save(save(saver.state) ? 0 : errno, &failure, "");
}

typedef bool later(const uint8_t *file, const uint8_t *known, size_t size);

/* As for FILE. But a folder that cannot be synced is an error: an older file would have the
 * server take old packets again. For the same reason, larger numbers are not replaced. Another
 * server can have stored them if this one did not have the lock all the time. */
static bool write_numbers(struct state_numbers *file, const uint8_t *bytes, size_t size,
                          later *is_later)
{
    char name[PATH_MAX];

    join_saver();
    if (!hold_lock() || !read_if_exists(file->suffix))
        return false;
    if (content.exists && is_later != NULL && is_later(content.bytes, file->last, content.size)) {
        errno = ESTALE;
        return false;
    }
    memcpy(name, path, sizeof name);
    if (!write_new(bytes, size))
        return false;
    set_path(".new");
    if (rename(path, name) != 0)
        return false;
    memcpy(file->last, bytes, size); /* at most STATE_LONGEST */
    return sync_directory();
}

bool state_write_numbers(struct state_numbers *file, const uint8_t *bytes, size_t size,
                         later *is_later)
{
    return note_save(write_numbers(file, bytes, size, is_later) ? 0 : errno, &file->failure,
                     file->suffix);
}

/* A server that ends soon after each start must save, too: so the first pauses are short. */
static void save_if_changed(void)
{
    enum { OFTEN = 20000000 /* ns from one look at the thread to the next */ };
    const uint64_t longest = options.state_every * TIMING_SECOND;

    if (saver.is_looked_at) {
        if (saver.runs && !__atomic_load_n(&saver.ended, __ATOMIC_ACQUIRE))
            return;
        join_saver();
        saver.is_looked_at = false;
        loop_set_interval(LOOP_SAVING, interval);
        interval = 2 * interval < longest ? 2 * interval : longest;
        return;
    }
    table_collect();
    if (failure == 0 &&
        memcmp(saved + SNAPSHOT_ENTRIES_AT, table_agent.report + 4, SNAPSHOT_ENTRIES_SIZE) == 0)
        return;
    take_state();
    saver.ended = false;
    saver.runs = pthread_create(&saver.thread, NULL, run_saver, NULL) == 0;
    if (!saver.runs)
        (void)state_save();
    saver.is_looked_at = true;
    loop_set_interval(LOOP_SAVING, OFTEN);
}

void state_begin(void)
{
    interval = TIMING_SECOND;
    loop_define_task(LOOP_SAVING, save_if_changed, interval);
}

/* ---- Loading ---------------------------------------------------------------------------- */

/* False, so that a caller can return it. */
static bool refuse(void)
{
    log_say("cannot use --state: %s: %s", path, reason_text(errno));
    return false;
}

/* Takes the table from FILE's content, or sets FILE aside. False: the server must not start, and
 * the log has the reason. */
static bool take_content(void)
{
    unsigned forgotten = 0;

    switch (
        snapshot_decode(content.bytes, content.size, timing_unix_ms(), &table_agent, &forgotten)) {
    case SNAPSHOT_DAMAGED:
        return set_aside("", ".damaged", "is damaged") || is_temporary(errno) || refuse();
    case SNAPSHOT_OTHER_VERSION:
        return set_aside("", ".damaged", "is of another version") || is_temporary(errno) ||
               refuse();
    case SNAPSHOT_OTHER_TICK: {
        const unsigned tick = snapshot_tick(content.bytes);
        log_say("%s has ticks of %u ms: give --tick %u, or move it away", options.state, tick,
                tick);
        return false;
    }
    default: break; /* it is good */
    }
    memcpy(saved, content.bytes, SNAPSHOT_SIZE);
    if (forgotten != 0)
        log_say("forgot %u variable%s of %s: too old for a timestamp to tell", forgotten,
                forgotten == 1 ? "" : "s", options.state);
    return true;
}

/* FILE is read before the lock is taken, too, so that a typing error leaves no FILE.lock behind. */
bool state_load(void)
{
    if (!read_if_exists("") || (!hold_lock() && !is_temporary(errno)) || !read_if_exists(""))
        return refuse();
    if (content.exists && !take_content())
        return false;
    if (!state_save() && !is_temporary(failure))
        return false;
    if (failure != 0)
        log_say("serving without it; the state is written as soon as that is possible");
    return true;
}

/* ---- FILE.KEY.numbers ------------------------------------------------------------------- */

bool state_read_numbers(struct state_numbers *file, uint8_t *bytes, size_t room, ssize_t *size)
{
    if (!read_if_exists(file->suffix))
        return refuse();
    *size = content.exists ? (ssize_t)content.size : -1;
    memcpy(bytes, content.bytes, content.exists && content.size < room ? content.size : room);
    memcpy(file->last, content.bytes, sizeof file->last);
    return true;
}

bool state_make_numbers(struct state_numbers *file, const uint8_t *bytes, size_t size)
{
    gives_away = geteuid() == 0;
    if (!hold_lock() || !read_if_exists(file->suffix) ||
        (content.exists && !set_aside(file->suffix, ".retired", "was damaged")))
        return refuse();
    return state_write_numbers(file, bytes, size, NULL);
}
