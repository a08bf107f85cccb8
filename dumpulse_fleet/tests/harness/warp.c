/* A library for LD_PRELOAD that gives Python other clocks, and SQLite another disk. The structure
 * in the file $WARP says which: clocks run `speed` times as fast as the system's from `base` on,
 * Unix time is `ahead` seconds ahead, the disk is full, a sync takes `slow` more seconds, and no
 * request leaves while the network is `cut`.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile struct {
    double base[8]; /* The base of each clock, by its number, s. */
    double speed, ahead, full, slow, cut;
} * warp;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("WARP");
    const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0)
        warp = mmap(NULL, sizeof *warp, PROT_READ, MAP_SHARED, file, 0);
}

static double seconds(const struct timespec *t)
{
    return (double)t->tv_sec + (double)t->tv_nsec * 1e-9;
}

static struct timespec timespec_of(double t)
{
    const int64_t whole = (int64_t)t;
    return (struct timespec){whole, (long)((t - (double)whole) * 1e9)};
}

static int is_scaled(clockid_t clock)
{
    return warp && (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME);
}

static double warped(clockid_t clock, double t)
{
    return warp->base[clock] + (t - warp->base[clock]) * warp->speed +
           (clock == CLOCK_REALTIME ? warp->ahead : 0);
}

/* The system's time at which the program's clock shows this. */
static struct timespec unwarped(clockid_t clock, const struct timespec *at)
{
    const double base = warp->base[clock];
    return timespec_of(base + (seconds(at) - (clock == CLOCK_REALTIME ? warp->ahead : 0) - base) /
                                  warp->speed);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    const int status = (int)syscall(SYS_clock_gettime, clock, t);
    if (status == 0 && is_scaled(clock))
        *t = timespec_of(warped(clock, seconds(t)));
    return status;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *rest)
{
    struct timespec real = *t;
    if (is_scaled(clock))
        real = flags & TIMER_ABSTIME ? unwarped(clock, t) : timespec_of(seconds(t) / warp->speed);
    return syscall(SYS_clock_nanosleep, clock, flags, &real, rest) ? errno : 0;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int ms)
{
    if (warp && ms > 0)
        ms = (int)(ms / warp->speed) + 1;
    return (int)syscall(SYS_epoll_pwait, epoll, events, most, ms, NULL, (size_t)8);
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict at)
{
    int (*next)(sem_t *, clockid_t, const struct timespec *);
    *(void **)&next = dlsym(RTLD_NEXT, "sem_clockwait");
    const struct timespec real = is_scaled(clock) ? unwarped(clock, at) : *at;
    return next(semaphore, clock, &real);
}

/* Python's conditions are of the monotonic clock. */
int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict at)
{
    const struct timespec real = warp ? unwarped(CLOCK_MONOTONIC, at) : *at;
    return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &real);
}

/* The kernel's times of packets are those of the system's clock. */
int recvmmsg(int file, struct mmsghdr *messages, unsigned count, int flags, struct timespec *wait)
{
    const int got = (int)syscall(SYS_recvmmsg, file, messages, count, flags, wait);
    for (int i = 0; warp && i < got; i++) {
        struct msghdr *message = &messages[i].msg_hdr;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c))
            if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
                struct timespec *t = (struct timespec *)(void *)CMSG_DATA(c);
                *t = timespec_of(warped(CLOCK_REALTIME, seconds(t)));
            }
    }
    return got;
}

int sendmmsg(int file, struct mmsghdr *messages, unsigned count, int flags)
{
    if (warp && warp->cut > 0) {
        errno = ENETUNREACH;
        return -1;
    }
    return (int)syscall(SYS_sendmmsg, file, messages, count, flags);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at)
{
    if (warp && warp->full > 0) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_pwrite64, file, bytes, count, at);
}

int fdatasync(int file)
{
    if (warp && warp->slow > 0) {
        const struct timespec t = timespec_of(warp->slow / warp->speed);
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, NULL);
    }
    return (int)syscall(SYS_fdatasync, file);
}
