/* Files, and what is left of them after a power cut; see storm.h.   SPDX-License-Identifier: MIT
 *
 * A file system promises what POSIX does, and no more. What was written is on the disk when the
 * file was synced. A name is there when the folder was synced. After a power cut before that, a
 * file is as it was, or as it was written, or the rest of it is zeros; and the folder is as it was
 * after any of its changes. */
#define _GNU_SOURCE /* NOLINT: for O_DIRECTORY */
#include "storm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_now(uint64_t until)
{
    return world->now < until;
}

static int fail(int reason)
{
    errno = reason;
    return -1;
}

/* ---- Names and files. */

static int find(const struct folder *folder, const char *name)
{
    for (int i = 0; i < NAMES; i++)
        if (folder->of[i].file >= 0 && strcmp(folder->of[i].name, name) == 0)
            return i;
    return -1;
}

/* A file that is neither open nor in a folder of now or of the past is used for another one. */
static bool is_needed(int file)
{
    const struct disk *disk = &world->disk;

    for (unsigned i = 0; i < OPEN; i++)
        if (disk->open[i].file == file)
            return true;
    for (unsigned name = 0; name < NAMES; name++) {
        if (disk->now.of[name].file == file)
            return true;
        for (unsigned i = 0; i < disk->changes; i++)
            if (disk->past[i].of[name].file == file)
                return true;
    }
    return false;
}

static int make_file(void)
{
    int file = 0;

    while (file + 1 < FILES && is_needed(file))
        file++;
    memset(&world->disk.files[file], 0, sizeof world->disk.files[file]);
    world->disk.files[file].used = true;
    world->disk.files[file].number = ++world->disk.numbers;
    return file;
}

/* The folder changes now. When too many changes wait for a sync, the oldest is on the disk. */
static void change_folder(void)
{
    struct disk *const disk = &world->disk;

    if (disk->changes == PAST) {
        memmove(disk->past, disk->past + 1, sizeof disk->past - sizeof disk->past[0]);
        disk->changes--;
    }
    disk->past[disk->changes++] = disk->now;
    disk->steps++;
}

static void set_name(const char *name, int file)
{
    int at = find(&world->disk.now, name);

    for (int i = 0; at < 0 && i < NAMES; i++)
        if (world->disk.now.of[i].file < 0)
            at = i;
    if (at < 0)
        abort(); /* the agent has more files than it may */
    change_folder();
    (void)snprintf(world->disk.now.of[at].name, NAME, "%s", name);
    world->disk.now.of[at].file = file;
}

void disk_begin(void)
{
    for (unsigned i = 0; i < NAMES; i++)
        world->disk.now.of[i].file = -1;
    disk_close_all();
}

void disk_close_all(void)
{
    for (unsigned i = 0; i < OPEN; i++)
        world->disk.open[i].file = -1;
}

void disk_put(const char *name, const char *text)
{
    const int at = find(&world->disk.now, name);
    const int number = at >= 0 ? world->disk.now.of[at].file : make_file();
    struct file *const file = &world->disk.files[number];

    if (at < 0)
        set_name(name, number);
    world->disk.changes = 0;
    file->size = file->synced_size = strlen(text);
    memcpy(file->now, text, file->size);
    memcpy(file->synced, text, file->size);
}

const struct file *disk_find(const char *name)
{
    const int at = find(&world->disk.now, name);

    return at < 0 ? NULL : &world->disk.files[world->disk.now.of[at].file];
}

const struct file *disk_numbers(void)
{
    for (unsigned i = 0; i < NAMES; i++)
        if (world->disk.now.of[i].file >= 0 &&
            strstr(world->disk.now.of[i].name, ".numbers") != NULL)
            return &world->disk.files[world->disk.now.of[i].file];
    return NULL;
}

static uint32_t number_in(const struct folder *folder, const char *suffix, size_t at)
{
    for (unsigned i = 0; i < NAMES; i++) {
        const char *const name =
            strcmp(folder->of[i].name, "table") == 0 ? "" : strchr(folder->of[i].name, '.');
        if (folder->of[i].file < 0 || name == NULL || strcmp(name, suffix) != 0)
            continue;
        const struct file *const file = &world->disk.files[folder->of[i].file];
        return file->dirty || file->synced_size < at + 4 ? 0 : dumpulse_read_(file->synced + at);
    }
    return 0;
}

uint32_t disk_least_number(const char *suffix, size_t at)
{
    uint32_t least = number_in(&world->disk.now, suffix, at);

    for (unsigned i = 0; i < world->disk.changes; i++) {
        const uint32_t number = number_in(&world->disk.past[i], suffix, at);
        least = number < least ? number : least;
    }
    return least;
}

bool disk_is_synced(void)
{
    bool is_synced = world->disk.changes == 0;

    for (unsigned i = 0; i < FILES; i++)
        is_synced &= !world->disk.files[i].used || !world->disk.files[i].dirty;
    return is_synced;
}

unsigned disk_count(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < NAMES; i++)
        count += world->disk.now.of[i].file >= 0;
    return count;
}

static void sync_file(struct file *file)
{
    memcpy(file->synced, file->now, FILE_SIZE);
    file->synced_size = file->size;
    file->dirty = false;
}

/* What was not synced is lost, or torn, or is there by chance. */
static void settle(struct file *file)
{
    const unsigned luck = world_chance(4);

    if (luck == 0) {
        memcpy(file->now, file->synced, FILE_SIZE);
        file->size = file->synced_size;
    } else if (luck == 1 && file->size != 0) {
        const uint32_t whole = world_chance(2) == 0 ? 0 : world_chance((uint32_t)file->size);
        memset(file->now + whole, 0, file->size - whole);
    } else if (luck == 2) {
        file->size = 0;
    }
    sync_file(file);
}

void disk_cut(void)
{
    struct disk *const disk = &world->disk;
    const unsigned folder = world_chance(disk->changes + 1);

    if (folder < disk->changes)
        disk->now = disk->past[folder];
    disk->changes = 0;
    for (unsigned i = 0; i < FILES; i++)
        if (disk->files[i].used && disk->files[i].dirty)
            settle(&disk->files[i]);
    const struct file *const numbers = disk_numbers();
    if (disk->brings_back && numbers != NULL && disk->backup.used)
        disk->files[numbers - disk->files] = disk->backup;
    disk->brings_back = false;
    disk_close_all();
}

/* ---- What the agent calls. All its files are in one folder, /d. */

static const char *name_of(const char *path)
{
    const char *const slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static struct file *file_of(int descriptor)
{
    const int at = descriptor - FIRST_DESCRIPTOR;
    const int file = at < 0 || at >= OPEN ? -1 : world->disk.open[at].file;

    return file < 0 || file >= FILES ? NULL : &world->disk.files[file];
}

int disk_open(int file)
{
    for (int i = 0; i < OPEN; i++) {
        if (world->disk.open[i].file >= 0)
            continue;
        world->disk.open[i].file = file;
        world->disk.open[i].at = 0;
        return FIRST_DESCRIPTOR + i;
    }
    return fail(EMFILE);
}

int disk_left_open(void)
{
    const int lock = find(&world->disk.now, "table.lock");
    bool has_lock = false, has_socket = false, has_poller = false;

    for (int i = 0; i < OPEN; i++) {
        const int file = world->disk.open[i].file;
        bool *const has = file == A_SOCKET                                     ? &has_socket
                          : file == A_POLLER                                   ? &has_poller
                          : lock >= 0 && file == world->disk.now.of[lock].file ? &has_lock
                                                                               : NULL;
        if (file >= 0 && (has == NULL || *has))
            return FIRST_DESCRIPTOR + i;
        if (file >= 0)
            *has = true;
    }
    return -1;
}

int __wrap_open(const char *path, int flags, ...)
{
    if (calls_fail("open") != 0)
        return -1;
    if (is_now(world->disk.shut_until) && world->machine.serves)
        return fail(EMFILE);
    if (strcmp(path, "/dev/null") == 0)
        return disk_open(NULL_DEVICE);
    if ((flags & O_DIRECTORY) != 0)
        return disk_open(A_FOLDER);
    const int at = find(&world->disk.now, name_of(path));
    if (at >= 0)
        return disk_open(world->disk.now.of[at].file);
    if ((flags & O_CREAT) == 0)
        return fail(ENOENT);
    if (is_now(world->disk.full_until))
        return fail(ENOSPC);
    const int file = make_file();
    set_name(name_of(path), file);
    return disk_open(file);
}

/* As on Linux, a call that fails has closed the descriptor, too. */
int __wrap_close(int descriptor)
{
    const int at = descriptor - FIRST_DESCRIPTOR;
    const bool is_open = at >= 0 && at < OPEN && world->disk.open[at].file >= 0;
    const int reason = calls_fail("close");

    CLAIM(BOUNDED, true, is_open, "descriptor %d is closed, and is not open", descriptor);
    if (!is_open)
        return fail(EBADF);
    if (world->disk.open[at].file == A_SOCKET)
        bus_close();
    world->disk.open[at].file = -1;
    return reason == 0 ? 0 : fail(reason);
}

/* The table and numbers have a checksum, so any bit may be wrong. Of files that people write, each
 * byte is of 7 bits. A wrong bit of the table stays, if it does not make it somebody else's. */
static void flip(struct file *file, uint8_t *bytes, size_t size)
{
    const size_t at = world_chance((uint32_t)size);
    const bool has_sum = memcmp(file->now, "Dumpulse", 8) == 0;
    const uint8_t bit = (uint8_t)(1U << (has_sum ? world_chance(8) : 7));

    bytes[at] ^= bit;
    if (file == disk_find("table") && at >= 8)
        file->now[at] = file->synced[at] = bytes[at];
    oracle_reads_wrong(file);
}

ssize_t __wrap_read(int descriptor, void *bytes, size_t room)
{
    struct file *const file = file_of(descriptor);
    const int reason = calls_fail("read");

    if (reason > 0)
        return -1;
    if (file == NULL)
        return fail(EBADF);
    /* People put new files in place of old ones: an open one does not grow. */
    size_t *const at = &world->disk.open[descriptor - FIRST_DESCRIPTOR].at;
    size_t *const whole = &world->disk.open[descriptor - FIRST_DESCRIPTOR].size;
    if (*at == 0) {
        oracle_reads(file);
        *whole = file->size;
    }
    const size_t end = *whole < file->size ? *whole : file->size;
    const size_t left = *at < end ? end - *at : 0;
    size_t size = left < room ? left : room;
    if (reason == SHORT && size > 1)
        size /= 2;
    memcpy(bytes, file->now + *at, size);
    if (reason == FLIPPED && size != 0)
        flip(file, bytes, size);
    *at += size;
    return (ssize_t)size;
}

ssize_t __wrap_pwrite(int descriptor, const void *bytes, size_t size, off_t at)
{
    struct file *const file = file_of(descriptor);
    const int reason = calls_fail("pwrite");

    if (reason > 0)
        return -1;
    if (file == NULL)
        return fail(EBADF);
    if (reason == SHORT || is_now(world->disk.full_until)) {
        size /= 2;
        if (size == 0)
            return fail(ENOSPC);
    }
    memcpy(file->now + at, bytes, size);
    if ((size_t)at + size > file->size)
        file->size = (size_t)at + size;
    file->dirty = true;
    world->disk.steps++;
    return (ssize_t)size;
}

int __wrap_ftruncate(int descriptor, off_t size)
{
    struct file *const file = file_of(descriptor);

    if (calls_fail("ftruncate") != 0)
        return -1;
    file->size = (size_t)size;
    file->dirty = true;
    world->disk.steps++;
    return 0;
}

static bool fails(enum failing what)
{
    return is_now(world->disk.fails_until) && (world->disk.failing & what) != 0;
}

int __wrap_fsync(int descriptor)
{
    struct file *const file = file_of(descriptor);
    struct disk *const disk = &world->disk;

    if (calls_fail("fsync") != 0)
        return -1;
    if (is_now(disk->slow_until) && !world->machine.in_thread) {
        world_pass(world_between(SECOND / 10, 5 * SECOND));
        oracle_disturbed();
    }
    if (fails(file == NULL ? FOLDERS_FAIL : FILES_FAIL))
        return fail(EIO);
    if (is_now(disk->lies_until))
        return 0;
    if (file != NULL)
        sync_file(file);
    else
        disk->changes = 0;
    return 0;
}

int __wrap_rename(const char *from, const char *to)
{
    if (calls_fail("rename") != 0)
        return -1;
    const int at = find(&world->disk.now, name_of(from));
    if (at < 0)
        return fail(ENOENT);
    if (fails(RENAMES_FAIL))
        return fail(EIO);
    const int file = world->disk.now.of[at].file;
    set_name(name_of(to), file);
    world->disk.now.of[at].file = -1; /* one change, with the other name */
    if (strcmp(name_of(to), "table") == 0) {
        reference_saves(&world->disk.files[file]);
        oracle_saved();
    }
    return 0;
}

static int tell(const struct file *file, struct stat *status, bool folder)
{
    memset(status, 0, sizeof *status);
    status->st_mode = folder ? S_IFDIR | 0700 : S_IFREG | 0600;
    status->st_nlink = 1;
    status->st_ino = file == NULL ? 1 : (ino_t)(file->number + 1);
    return 0;
}

int __wrap_fstat(int descriptor, struct stat *status)
{
    const struct file *const file = file_of(descriptor);

    return calls_fail("fstat") != 0 ? -1 : tell(file, status, file == NULL);
}

static int tell_name(const char *path, struct stat *status)
{
    const struct file *const file = disk_find(name_of(path));

    return file == NULL ? fail(ENOENT) : tell(file, status, false);
}

int __wrap_lstat(const char *path, struct stat *status)
{
    return calls_fail("lstat") != 0 ? -1 : tell_name(path, status);
}

int __wrap_stat(const char *path, struct stat *status)
{
    return calls_fail("stat") != 0 ? -1 : tell_name(path, status);
}

uid_t __wrap_geteuid(void)
{
    return 1000;
}
