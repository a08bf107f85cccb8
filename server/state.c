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

#include "alarms.h"
#include "counters.h"
#include "log.h"
#include "loop.h"
#include "options.h"
#include "snapshot.h"
#include "table.h"
#include "timing.h"

/* Why something has failed: an error number, or one of these; and with which file: FILE with this
 * suffix. Each function that gets a pointer to one sets it; the reason is 0 if it returns true. */
struct failure {
    int reason;
    const char *suffix;
};
enum { NOT_REGULAR = -1, SEVERAL_NAMES = -2, NOT_OURS = -3, LARGER_NUMBERS = -4 };

/* Of a file. */
struct content {
    uint8_t bytes[STATE_LONGEST + 1]; /* one more, to find a file that is too long */
    size_t size;
    bool exists;
};

static uint8_t
    saved[SNAPSHOT_SIZE]; /* Bytes that this server last read from FILE, or wrote to it. */
static int lock = -1;     /* the descriptor of FILE.lock, which it has locked; or -1 */
static int failed_for;    /* Reason of the last failure, as in struct failure; 0: none. */
static bool gives_away;   /* are files made for the owner of the folder? */

/* While the server serves, a thread writes one file after the other: a disk may be slow. Until it
 * has ended, nobody else uses what is above here. */
static struct {
    pthread_t thread;
    struct state_numbers *numbers; /* the file that it writes; NULL: the table */
    bool runs;                     /* it was started, and not joined yet */
    bool ended;                    /* set by the thread, read by the loop */
    struct failure failure;        /* Failure of the thread; reason 0: none. */
    struct numbers taken;          /* Numbers that it writes. */
    uint8_t bytes[STATE_LONGEST];  /* Bytes of these, or of the table. */
} saver;
static struct state_numbers *due[2]; /* numbers to be stored, in this order; NULL: none */
static uint64_t numbers_at;  /* ns: no numbers are stored before, as the last store failed */
static uint64_t table_at;    /* ns: when the table is compared with the saved one */
static uint64_t table_pause; /* ns from one comparison to the next */
enum { OFTEN = 20000000 };   /* ns from one look at the thread to the next */

/* ---- Files ------------------------------------------------------------------------------ */

/* Returns whether `reason` is 0. */
static bool note(struct failure *failure, int reason, const char *suffix)
{
    *failure = (struct failure){reason, suffix};
    return reason == 0;
}

/* Writes the name of FILE with that suffix. */
static const char *make_path(char path[PATH_MAX], const char *suffix)
{
    (void)snprintf(path, PATH_MAX, "%s%s", options.state, suffix);
    return path;
}

/* Writes the name of the folder of FILE. */
static const char *make_folder(char path[PATH_MAX])
{
    (void)make_path(path, "");
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return ".";
    slash[1] = '\0';
    return path;
}

/* Root makes the files for a server that runs as another user. This gives a file to that user. It
 * must be a file of ours: the user may have put another one here. Returns the reason, or 0. */
static int give_away(int file)
{
    char path[PATH_MAX];
    struct stat folder;

    return !gives_away || (stat(make_folder(path), &folder) == 0 &&
                           fchown(file, folder.st_uid, folder.st_gid) == 0)
               ? 0
               : errno;
}

/* Opens FILE with that suffix if it is a regular file. It never waits, even if the file is of
 * another kind. A file that is opened for writing must have one name only: with two, it may be
 * somebody else's file. Returns the reason, and then `file` becomes -1; or 0. */
static int open_file(const char *suffix, int flags, int *file)
{
    const mode_t mode = strcmp(suffix, ".lock") == 0 ? 0600 : 0644;
    char path[PATH_MAX];
    struct stat status;

    *file =
        open(make_path(path, suffix), flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
    if (*file < 0)
        return errno;
    const bool is_regular = fstat(*file, &status) == 0 && S_ISREG(status.st_mode);
    if (is_regular && (flags == O_RDONLY || status.st_nlink <= 1))
        return 0;
    (void)close(*file);
    *file = -1;
    return is_regular ? SEVERAL_NAMES : NOT_REGULAR;
}

/* Reads the file. Returns the reason, or 0. It is ours, perhaps damaged, if it begins like a state,
 * but for zeros in the place of its end, as after a power failure. Any other file belongs to
 * somebody else, and stays where it is: FILE may be a typing error. */
static int read_content(int file, struct content *content)
{
    ssize_t size = options_read_all(file, content->bytes, sizeof content->bytes);

    content->exists = true;
    content->size = size < 0 ? 0 : (size_t)size;
    if (size < 0)
        return errno;
    while (size != 0 && content->bytes[size - 1] == 0)
        size--;
    return content->size <= STATE_LONGEST &&
                   memcmp(content->bytes, "Dumpulse", size < 8 ? (size_t)size : 8) == 0
               ? 0
               : NOT_OURS;
}

/* Reads FILE with that suffix, if it exists. */
static bool read_if_exists(struct failure *failure, const char *suffix, struct content *content)
{
    int file, reason = open_file(suffix, O_RDONLY, &file);

    content->exists = false;
    if (reason == 0) {
        reason = read_content(file, content);
        (void)close(file);
    }
    return note(failure, reason == ENOENT ? 0 : reason, suffix);
}

/* Two servers must not use the same FILE. So each server locks FILE.lock, which is empty and is
 * never replaced. Whoever can open a file can also lock it, and so stop a server from starting.
 * Anybody may read FILE; only its owner may open FILE.lock. Somebody may remove FILE.lock, or its
 * directory: so this function looks for it before each save. */
static bool hold_lock(struct failure *failure)
{
    struct stat mine, now;
    struct content content;

    if (lock >= 0) {
        char path[PATH_MAX];
        if (fstat(lock, &mine) == 0 && lstat(make_path(path, ".lock"), &now) == 0 &&
            mine.st_ino == now.st_ino && mine.st_dev == now.st_dev)
            return note(failure, 0, ".lock");
        (void)close(lock);
    }
    int reason = open_file(".lock", O_RDWR | O_CREAT, &lock);
    if (reason != 0)
        return note(failure, reason, ".lock"); /* The descriptor is -1 here. */
    (void)read_content(lock, &content);
    if (content.size == 0)
        (void)fchmod(lock, 0600); /* somebody may have allowed others to open it */
    reason = content.size != 0 ? NOT_OURS : give_away(lock);
    if (reason == 0 && flock(lock, LOCK_EX | LOCK_NB) != 0)
        reason = errno;
    if (reason != 0) {
        (void)close(lock);
        lock = -1;
    }
    return note(failure, reason, ".lock");
}

static bool rename_file(struct failure *failure, const char *from, const char *to)
{
    char path[PATH_MAX], new_path[PATH_MAX];
    const bool done = rename(make_path(path, from), make_path(new_path, to)) == 0;

    return note(failure, done ? 0 : errno, from);
}

/* Renames FILE with the suffix `from` to FILE with the suffix `to`. If a file has that name
 * already, it must be ours, too, and is replaced. */
static bool set_aside(struct failure *failure, const char *from, const char *to, const char *why)
{
    struct content older;

    if (!read_if_exists(failure, to, &older) || !rename_file(failure, from, to))
        return false;
    log_say("%s%s %s: set aside as %s%s%s", options.state, from, why, options.state, to,
            older.exists ? " in place of an older one" : "");
    return true;
}

/* Says why a file cannot be used. */
static const char *reason_text(int reason)
{
    switch (reason) {
    case NOT_REGULAR:
    case ENXIO:
    case EISDIR: return "it is not a regular file";
    case ELOOP: return "it is a symbolic link: name the file itself";
    case SEVERAL_NAMES: return "it is a file of several names: remove it";
    case EWOULDBLOCK: return "another server uses it: give each server its own";
    case LARGER_NUMBERS: return "another server has used larger numbers: start this one again";
    case NOT_OURS: return "it belongs to another program, and is not a state: give another name";
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

static bool write_new(struct failure *failure, const uint8_t *bytes, size_t size)
{
    struct content content;
    int file, reason = open_file(".new", O_RDWR | O_CREAT, &file);

    if (reason != 0)
        return note(failure, reason, ".new");
    reason = read_content(file, &content);
    if (reason == 0)
        reason = give_away(file);
    errno = EIO; /* pwrite() may write too few bytes without an error */
    if (reason == 0 && (ftruncate(file, 0) != 0 || pwrite(file, bytes, size, 0) != (ssize_t)size ||
                        fsync(file) != 0))
        reason = errno;
    (void)close(file);
    return note(failure, reason, ".new");
}

/* After a power failure, a renamed file has its new name only if the directory was on the disk. */
static bool sync_directory(struct failure *failure)
{
    char path[PATH_MAX];
    const int directory = open(make_folder(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int reason = directory >= 0 && fsync(directory) == 0 ? 0 : errno;

    if (directory >= 0)
        (void)close(directory);
    return note(failure, reason, ".new");
}

/* Writes FILE.new, and renames it to FILE: so at any moment FILE is complete, the old one or the
 * new one. As this server has the lock, a FILE with another content was put there by a person. It
 * is not lost: it gets another name. */
static bool save(struct failure *failure, const uint8_t state[SNAPSHOT_SIZE])
{
    struct content content;

    if (!hold_lock(failure) || !write_new(failure, state, SNAPSHOT_SIZE) ||
        !read_if_exists(failure, "", &content))
        return false;
    if (content.exists &&
        (content.size != SNAPSHOT_SIZE || memcmp(content.bytes, saved, SNAPSHOT_SIZE) != 0) &&
        !set_aside(failure, "", ".changed",
                   "was put there while this server used it (to restore a state, stop the "
                   "server first)"))
        return false;
    if (!rename_file(failure, ".new", ""))
        return false;
    memcpy(saved, state, SNAPSHOT_SIZE);
    struct failure ignored; /* some file systems cannot: for the table, that is no error */
    (void)sync_directory(&ignored);
    return true;
}

/* As for FILE. But a folder that cannot be synced is an error: an older file would have the
 * server take old packets again. For the same reason, larger numbers are not replaced. Another
 * server can have stored them if this one did not have the lock all the time. */
static bool write_numbers(struct failure *failure, struct state_numbers *file,
                          const uint8_t bytes[NUMBERS_SIZE])
{
    struct content content;

    if (!hold_lock(failure) || !read_if_exists(failure, file->suffix, &content))
        return false;
    if (content.exists && numbers_are_later(content.bytes, file->last, content.size))
        return note(failure, LARGER_NUMBERS, file->suffix);
    if (!write_new(failure, bytes, NUMBERS_SIZE) || !rename_file(failure, ".new", file->suffix))
        return false;
    memcpy(file->last, bytes, NUMBERS_SIZE);
    return sync_directory(failure);
}

/* Counts and logs what became of a save. `before` is why the one before it failed. */
static bool note_save(const struct failure *failure, int *before, const char *suffix)
{
    const int reason = failure->reason;

    if (reason != 0)
        counters[COUNT_FAILED_SAVES]++;
    if (reason != 0 && reason != *before)
        log_say("cannot write state: %s%s: %s", options.state, failure->suffix,
                reason_text(reason));
    if (reason == 0 && *before != 0)
        log_say("state is written to %s%s again", options.state, suffix);
    *before = reason;
    return reason == 0;
}

static void take_content_of(struct state_numbers *file)
{
    saver.numbers = file;
    if (file != NULL) {
        saver.taken = *file->numbers;
        numbers_encode(saver.bytes, &saver.taken);
        return;
    }
    table_collect();
    alarms_begin_store();
    snapshot_encode(saver.bytes, &table_agent, timing_unix_ms());
}

static void *run_saver(void *numbers)
{
    struct state_numbers *const file = numbers;

    (void)(file == NULL ? save(&saver.failure, saver.bytes)
                        : write_numbers(&saver.failure, file, saver.bytes));
    __atomic_store_n(&saver.ended, true, __ATOMIC_RELEASE);
    return NULL;
}

static void end_save(void)
{
    const uint64_t longest = options.state_every * TIMING_SECOND;
    struct state_numbers *const file = saver.numbers;

    if (file == NULL) {
        (void)note_save(&saver.failure, &failed_for, "");
        alarms_end_store();
        /* A server that ends soon after each start must save, too: so the first pauses are short.
         */
        table_pause = 2 * table_pause < longest ? 2 * table_pause : longest;
        table_at = timing_ns() + table_pause;
        return;
    }
    const bool is_stored = note_save(&saver.failure, &file->failure, file->suffix);
    if (!is_stored) {
        numbers_at = timing_ns() + TIMING_SECOND;
        state_store_numbers(file);
    }
    file->on_end(file, &saver.taken, is_stored);
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
    return failed_for == 0;
}

bool state_save(void)
{
    join_saver();
    for (size_t tries = 0; tries < 2 && due[0] != NULL; tries++)
        write_now(take_due());
    write_now(NULL);
    return failed_for == 0;
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
    uint8_t records[ALARMS_SIZE];

    if (alarms_to_store())
        return true;
    if (timing_ns() < table_at)
        return false;
    table_at = timing_ns() + table_pause;
    table_collect();
    alarms_encode(records);
    return failed_for != 0 ||
           memcmp(saved + SNAPSHOT_ENTRIES_AT, table_agent.report + 4, SNAPSHOT_ENTRIES_SIZE) !=
               0 ||
           memcmp(saved + SNAPSHOT_ALARMS_AT, records, sizeof records) != 0;
}

/* Starts the thread if a file is due, and looks whether it has ended. */
static void write_what_is_due(void)
{
    const bool runs = saver.runs && !__atomic_load_n(&saver.ended, __ATOMIC_ACQUIRE);

    if (!runs)
        join_saver();
    alarms_tell(false);
    if (runs)
        return;
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

static void store_alarms(void)
{
    loop_start_task(LOOP_SAVING, OFTEN);
}

void state_begin(void)
{
    alarms_store = store_alarms;
    table_pause = TIMING_SECOND / 2;
    loop_define_task(LOOP_SAVING, write_what_is_due, table_pause);
}

/* ---- Loading ---------------------------------------------------------------------------- */

/* False, so that a caller can return it. */
static bool refuse(const struct failure *failure)
{
    log_say("cannot use --state: %s%s: %s", options.state, failure->suffix,
            reason_text(failure->reason));
    return false;
}

/* Takes the table from FILE's content, or sets FILE aside. False: the server must not start, and
 * the log has the reason. */
static bool take_content(const struct content *content)
{
    unsigned forgotten = 0;
    struct failure failure;
    const enum snapshot_kind kind =
        snapshot_decode(content->bytes, content->size, timing_unix_ms(), &table_agent, &forgotten);

    if (kind == SNAPSHOT_DAMAGED || kind == SNAPSHOT_OTHER_VERSION)
        return set_aside(&failure, "", ".damaged",
                         kind == SNAPSHOT_DAMAGED ? "is damaged" : "is of another version") ||
               is_temporary(failure.reason) || refuse(&failure);
    if (kind == SNAPSHOT_OTHER_TICK) {
        const unsigned tick = snapshot_tick(content->bytes);
        log_say("%s has ticks of %u ms: give --tick %u, or move it away", options.state, tick,
                tick);
        return false;
    }
    memcpy(saved, content->bytes, SNAPSHOT_SIZE);
    if (forgotten != 0)
        log_say("forgot %u variable%s of %s: older than a timestamp can show", forgotten,
                forgotten == 1 ? "" : "s", options.state);
    return true;
}

/* FILE is read before the lock is taken, too, so that a typing error leaves no FILE.lock behind. */
bool state_load(void)
{
    struct content content;
    struct failure failure;

    if (!read_if_exists(&failure, "", &content) ||
        (!hold_lock(&failure) && !is_temporary(failure.reason)) ||
        !read_if_exists(&failure, "", &content))
        return refuse(&failure);
    if (content.exists && !take_content(&content))
        return false;
    if (!state_save() && !is_temporary(failed_for))
        return false;
    if (failed_for != 0)
        log_say("serving without it; the state is written as soon as that is possible");
    return true;
}

/* ---- FILE.KEY.numbers ------------------------------------------------------------------- */

bool state_read_numbers(struct state_numbers *file, uint8_t bytes[NUMBERS_SIZE], ssize_t *size)
{
    struct content content = {.size = 0};
    struct failure failure;

    if (!read_if_exists(&failure, file->suffix, &content))
        return refuse(&failure);
    *size = content.exists ? (ssize_t)content.size : -1;
    memcpy(bytes, content.bytes, NUMBERS_SIZE);
    memcpy(file->last, bytes, NUMBERS_SIZE);
    return true;
}

bool state_make_numbers(struct state_numbers *file)
{
    struct content content;
    struct failure failure;

    gives_away = geteuid() == 0;
    if (!hold_lock(&failure) || !read_if_exists(&failure, file->suffix, &content) ||
        (content.exists && !set_aside(&failure, file->suffix, ".retired", "was damaged")))
        return refuse(&failure);
    return state_write_numbers(file);
}
