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

/* While the server serves, a thread writes one file after the other: a disk may be slow. Until it
 * has ended, nobody else uses what is above here. */
static struct {
    pthread_t thread;
    struct state_numbers *numbers; /* the file that it writes; NULL: the table */
    bool runs;                     /* it was started, and not joined yet */
    bool ended;                    /* set by the thread, read by the loop */
    int reason;                    /* the result of the thread: an error number, or 0 */
    uint8_t bytes[STATE_LONGEST];
} saver;
static struct state_numbers *due[2]; /* numbers to be stored, in this order; NULL: none */
static uint64_t numbers_at;  /* ns: no numbers are stored before, as the last store failed */
static uint64_t table_at;    /* ns: when the table is compared with the saved one */
static uint64_t table_pause; /* ns from one comparison to the next */
enum { OFTEN = 20000000 };   /* ns from one look at the thread to the next */

/* ---- Files ------------------------------------------------------------------------------ */

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

/* Reads the file into `content`. False with ENOMSG: the file is not ours. It is, perhaps damaged,
 * if it begins like a state, but for zeros in the place of its end, as after a power failure. Any
 * other file belongs to somebody else, and stays where it is: FILE may be a typing error. */
static bool read_content(int file)
{
    ssize_t size = options_read_all(file, content.bytes, sizeof content.bytes);

    content.exists = true;
    content.size = size < 0 ? 0 : (size_t)size;
    if (size < 0)
        return false;
    errno = ENOMSG;
    while (size != 0 && content.bytes[size - 1] == 0)
        size--;
    return content.size <= STATE_LONGEST &&
           memcmp(content.bytes, "Dumpulse", size < 8 ? (size_t)size : 8) == 0;
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

/* As for FILE. But a folder that cannot be synced is an error: an older file would have the
 * server take old packets again. For the same reason, larger numbers are not replaced. Another
 * server can have stored them if this one did not have the lock all the time. */
static bool write_numbers(struct state_numbers *file, const uint8_t *bytes)
{
    char name[PATH_MAX];

    if (!hold_lock() || !read_if_exists(file->suffix))
        return false;
    if (content.exists && file->is_later(content.bytes, file->last, content.size)) {
        errno = ESTALE;
        return false;
    }
    memcpy(name, path, sizeof name);
    if (!write_new(bytes, file->size))
        return false;
    set_path(".new");
    if (rename(path, name) != 0)
        return false;
    memcpy(file->last, bytes, file->size);
    return sync_directory();
}

static void take_content_of(struct state_numbers *file)
{
    saver.numbers = file;
    if (file != NULL) {
        file->take(file, saver.bytes);
        return;
    }
    table_collect();
    snapshot_encode(saver.bytes, &table_agent, timing_unix_ms());
}

static void *run_saver(void *numbers)
{
    struct state_numbers *const file = numbers;
    const bool done = file == NULL ? save(saver.bytes) : write_numbers(file, saver.bytes);

    saver.reason = done ? 0 : errno;
    __atomic_store_n(&saver.ended, true, __ATOMIC_RELEASE);
    return NULL;
}

static void end_save(void)
{
    const uint64_t longest = options.state_every * TIMING_SECOND;
    struct state_numbers *const file = saver.numbers;

    if (file == NULL) {
        (void)note_save(saver.reason, &failure, "");
        /* A server that ends soon after each start must save, too: so the first pauses are short.
         */
        table_pause = 2 * table_pause < longest ? 2 * table_pause : longest;
        table_at = timing_ns() + table_pause;
        return;
    }
    const bool is_stored = note_save(saver.reason, &file->failure, file->suffix);
    if (!is_stored) {
        numbers_at = timing_ns() + TIMING_SECOND;
        state_store_numbers(file);
    }
    file->on_end(file, saver.bytes, is_stored);
}

/* Waits for the thread, if there is one. */
static void join_saver(void)
{
    if (!saver.runs)
        return;
    (void)pthread_join(saver.thread, NULL);
    saver.runs = false;
    end_save();
}

/* Writes a file while the caller waits, and no thread runs. NULL: the table. */
static void write_now(struct state_numbers *file)
{
    take_content_of(file);
    (void)run_saver(file);
    end_save();
}

static struct state_numbers *take_due(void)
{
    struct state_numbers *const file = due[0];

    due[0] = due[1];
    due[1] = NULL;
    return file;
}

bool state_is_saved(void)
{
    return failure == 0;
}

bool state_save(void)
{
    join_saver();
    for (size_t tries = 0; tries < 2 && due[0] != NULL; tries++)
        write_now(take_due());
    write_now(NULL);
    return failure == 0;
}

bool state_write_numbers(struct state_numbers *file)
{
    write_now(file);
    return file->failure == 0;
}

void state_store_numbers(struct state_numbers *file)
{
    if (due[0] != NULL && due[0] != file)
        due[1] = file;
    else
        due[0] = file;
    loop_start_task(LOOP_SAVING, OFTEN);
}

static bool is_table_due(void)
{
    if (timing_ns() < table_at)
        return false;
    table_at = timing_ns() + table_pause;
    table_collect();
    return failure != 0 ||
           memcmp(saved + SNAPSHOT_ENTRIES_AT, table_agent.report + 4, SNAPSHOT_ENTRIES_SIZE) != 0;
}

/* Starts the thread if a file is due, and looks whether it has ended. */
static void write_what_is_due(void)
{
    if (saver.runs && !__atomic_load_n(&saver.ended, __ATOMIC_ACQUIRE))
        return;
    join_saver();
    const uint64_t now = timing_ns();
    struct state_numbers *const file = due[0] != NULL && now >= numbers_at ? take_due() : NULL;
    if (file == NULL && !is_table_due()) {
        const uint64_t next = due[0] != NULL && numbers_at < table_at ? numbers_at : table_at;
        loop_set_interval(LOOP_SAVING, next > now ? next - now : OFTEN);
        return;
    }
    take_content_of(file);
    saver.ended = false;
    saver.runs = pthread_create(&saver.thread, NULL, run_saver, file) == 0;
    if (!saver.runs)
        write_now(file);
    loop_set_interval(LOOP_SAVING, OFTEN);
}

void state_begin(void)
{
    table_pause = TIMING_SECOND / 2;
    loop_define_task(LOOP_SAVING, write_what_is_due, table_pause);
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

bool state_read_numbers(struct state_numbers *file, uint8_t *bytes, ssize_t *size)
{
    if (!read_if_exists(file->suffix))
        return refuse();
    *size = content.exists ? (ssize_t)content.size : -1;
    memcpy(bytes, content.bytes,
           content.exists && content.size < file->size ? content.size : file->size);
    memcpy(file->last, content.bytes, sizeof file->last);
    return true;
}

bool state_make_numbers(struct state_numbers *file)
{
    gives_away = geteuid() == 0;
    if (!hold_lock() || !read_if_exists(file->suffix) ||
        (content.exists && !set_aside(file->suffix, ".retired", "was damaged")))
        return refuse();
    return state_write_numbers(file);
}
