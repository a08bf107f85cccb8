/* The process of the agent, its clocks, signals and sockets; see storm.h.
 * SPDX-License-Identifier: MIT
 *
 * The agent is the whole of udpserver or canserver, from its main() on. The linker gives its calls
 * of the system to the functions here whose names begin with __wrap_. While it waits in
 * epoll_pwait(), the world goes on. */
#define _GNU_SOURCE /* NOLINT: for struct mmsghdr */
#include "storm.h"

#include <errno.h>
#include <linux/can.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <pthread.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "server/keys.h"
#include "server/log.h"
#include "server/program.h"
#include "server/sockets.h"

enum { NETWORK = 10 << 24 /* the agent's network: 10.0.0.0 */ };
enum { RESTART_AFTER = 5 /* s, as dumpulse.service has it */ };
/* s: until some minutes of the second round, or of the first one */
static const unsigned KEY_BEFORE_FOR[] = {940, 940, 240};
static const uint64_t NOVEMBER_2023 = UINT64_C(1700000000000000000); /* ns since 1970 */

bool machine_has_bus(void)
{
    return strcmp(program.name, "canserver") == 0;
}

/* ---- Worlds. Many begin shortly before something wraps. */

static const struct {
    const char *what;
    uint64_t after; /* ns; of ticks, and of epochs, their number */
} wraps[] = {
    [TICKS_WRAP] = {"Unix time passes a multiple of 65,536 ticks", 65536},
    [UNIX_MS_WRAP] = {"Unix time passes a multiple of 2^32 ms", UINT64_C(4294967296000000)},
    [STEADY_MS_WRAP] = {"the machine is up for 2^32 ms", UINT64_C(4294967296000000)},
    [SECONDS_WRAP] = {"Unix time passes a multiple of 2^31 s: in 2038, or in 2106",
                      UINT64_C(2147483648000000000)},
    [BLOCK_WRAP] = {"a block of epochs ends, and the next one begins", 256},
};

const char *machine_wrap_name(enum wrap wrap)
{
    return wraps[wrap].what;
}

static uint64_t period_of(enum wrap wrap)
{
    return wraps[wrap].after * (wrap == TICKS_WRAP ? world->tick * MS : 1);
}

/* Returns a moment before `moment` that is less than a story away. */
static uint64_t before(uint64_t moment)
{
    return moment - world_between(MINUTE, 20 * MINUTE);
}

static void choose_begin(void)
{
    struct machine *const it = &world->machine;
    const enum wrap wrap = world_chance(2 * BLOCK_WRAP);
    const uint64_t period = period_of(wrap < BLOCK_WRAP ? wrap : TICKS_WRAP);
    const uint64_t more = world->keyed ? 0 : world_chance(2); /* keys do not last until 2106 */
    const uint64_t later = before((NOVEMBER_2023 / period + 1 + more) * period);
    const uint64_t up = before(period_of(STEADY_MS_WRAP));

    if (wrap == STEADY_MS_WRAP)
        it->drifted = up;
    else if (wrap < BLOCK_WRAP)
        it->unix_ahead = (int64_t)later;
    it->unix_ahead -= (int64_t)it->drifted;
}

void machine_set_clock(int64_t by)
{
    world->machine.unix_ahead += by;
    memset(world->machine.looked, 0, sizeof world->machine.looked);
}

void machine_look_for_wraps(void)
{
    struct machine *const it = &world->machine;
    const uint64_t steady = machine_steady(), unix_now = machine_unix();
    const uint64_t now[WRAPS] = {[TICKS_WRAP] = unix_now,
                                 [UNIX_MS_WRAP] = unix_now,
                                 [SECONDS_WRAP] = unix_now,
                                 [STEADY_MS_WRAP] = steady,
                                 [BLOCK_WRAP] = world->truth.epoch[0]};

    for (unsigned i = 0; i < WRAPS; i++) {
        world->told.wrapped[i] +=
            it->looked[i] != 0 && now[i] / period_of(i) == it->looked[i] / period_of(i) + 1;
        it->looked[i] = now[i];
    }
}

/* ---- Static data. The linker names where they begin and end. */

extern char __data_start[], _end[]; /* NOLINT: the linker's names */
static char *as_at_the_start;

void machine_begin(void)
{
    const size_t size = (size_t)(_end - __data_start);

    if (as_at_the_start == NULL) {
        char *const copy = malloc(size);
        as_at_the_start = copy;
        memcpy(copy, __data_start, size);
    }
    world->machine.unix_ahead = (int64_t)NOVEMBER_2023;
    choose_begin();
    world->until = (machine_unix() / SECOND + KEY_BEFORE_FOR[world->seed % 3]) / 60 * 60;
}

static void forget_all(void)
{
    memcpy(__data_start, as_at_the_start, (size_t)(_end - __data_start));
}

/* ---- Clocks. */

static uint64_t steady_at(uint64_t now)
{
    const struct machine *const it = &world->machine;
    const uint64_t passed = now - it->slept - it->drifted_at;

    return it->drifted + passed / 1000000 * (uint64_t)(1000000 + it->drift) + passed % 1000000;
}

uint64_t machine_steady(void)
{
    return steady_at(world->now);
}

uint64_t machine_boot(void)
{
    return machine_steady() + world->machine.slept + world->machine.jumped;
}

uint64_t machine_unix(void)
{
    const struct machine *const it = &world->machine;

    /* Unix time goes on while the machine sleeps. */
    return it->still != 0 ? it->still : machine_boot() + (uint64_t)it->unix_ahead;
}

void machine_drift(int32_t ppm)
{
    if (world->machine.asleep)
        return;
    world->machine.drifted = machine_steady();
    world->machine.drifted_at = world->now - world->machine.slept;
    world->machine.drift = ppm;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    oracle_look();
    if (clock == CLOCK_REALTIME)
        oracle_reads_clock();
    const uint64_t ns = clock == CLOCK_REALTIME   ? machine_unix()
                        : clock == CLOCK_BOOTTIME ? machine_boot()
                                                  : machine_steady();
    time->tv_sec = (time_t)(ns / SECOND);
    time->tv_nsec = (long)(ns % SECOND);
    return 0;
}

/* ---- The process. */

static void thread_is_due(unsigned start)
{
    if (start == (unsigned)world->machine.starts && world->machine.thread != NULL)
        world->machine.thread_due = true;
}

static void end_process(void)
{
    longjmp(world->machine.ends, 1);
}

void machine_trap(enum trap trap, unsigned calls, uint64_t until)
{
    world->machine.trap = trap;
    world->machine.calls_left = calls;
    world->machine.trap_until = until;
}

static void ring(unsigned timer);

/* At each call of the thread that saves, the loop may go on. Each thread has an errno. */
static void pause_thread(void)
{
    struct machine *const it = &world->machine;
    const bool slow = world->now < world->disk.slow_until;
    const int reason = errno;

    if (!it->in_thread || world_chance(2) == 0)
        return;
    it->thread_waits =
        world->now + (slow ? world_between(SECOND / 10, 5 * SECOND) : world_between(0, MS));
    world_plan(it->thread_waits, thread_is_due, (unsigned)it->starts);
    (void)swapcontext(&it->own, &it->loop);
    errno = reason;
}

void machine_call(void)
{
    struct machine *const it = &world->machine;

    oracle_look();
    pause_thread();
    if (it->trap == TRAP_NONE || (it->trap == TRAP_CUT_UNSYNCED && disk_is_synced()) ||
        it->calls_left-- != 0)
        return;
    const enum trap trap = it->trap;
    const bool sleeps = it->jump % 2 != 0;
    const uint64_t began = world->now;
    const uint64_t lasts = it->trap_until > began ? it->trap_until - began : 0;
    it->trap = TRAP_NONE;
    if (trap == TRAP_STOP) {
        world_pass(lasts);
        oracle_disturbed();
        world_say("the agent's process goes on");
    } else if (trap == TRAP_SLEEP) {
        it->asleep = true;
        world_pass(lasts);
        it->slept += world->now - began;
        it->asleep = false;
        oracle_disturbed();
        world_say("the agent's machine wakes up");
    } else if (trap == TRAP_JUMP) {
        it->drifted += sleeps ? 0 : it->jump;
        it->jumped += sleeps ? it->jump : 0;
        world_plan(world->now, ring, it->timers);
        oracle_jumped();
        world_say("%s for %llu s", sleeps ? "the agent's machine slept" : "its process stood still",
                  (unsigned long long)(it->jump / SECOND));
    } else {
        if (trap != TRAP_CRASH)
            disk_cut();
        world_say("%s", trap == TRAP_CRASH ? "the agent is killed" : "the power fails");
        end_process();
    }
}

int __real_main(int argc, char **argv);

/* Returns the exit status, or -1 if it was killed. NULL: it serves, and makes no numbers. */
static int run_process(char *makes_numbers_of)
{
    const time_t end = (time_t)world->until;
    char tick[12], rate[20], burst[20], until[40];
    struct tm parts;
    const struct chosen *const chosen = &world->chosen;
    char self[24], every[24], total[24];
    char *arguments[32 + 2 * PARTIES] = {"agent", "--tick", tick};
    char readers[PARTIES][32], senders[PARTIES][40];
    int count = 3;

    (void)snprintf(tick, sizeof tick, "%u", world->tick);
    (void)snprintf(rate, sizeof rate, "--rate=%u", world->rate);
    (void)snprintf(burst, sizeof burst, "--burst=%u", world->burst);
    (void)snprintf(self, sizeof self, "--self=%u:%u", chosen->self, chosen->self_sender);
    (void)snprintf(every, sizeof every, "--state-every=%u", chosen->state_every);
    (void)snprintf(total, sizeof total, "--rate-total=%u", chosen->rate_total);
    const struct {
        bool is_chosen;
        char *text;
    } some[] = {{!chosen->no_state, "--state=/d/table"}, {!chosen->no_watch, "--watch=/d/names"},
                {chosen->exec, "--exec=/d/program"},     {machine_has_bus(), "can0"},
                {chosen->keep_old, "--keep-old"},        {chosen->state_every != 0, every},
                {chosen->rate_total != 0, total},        {chosen->self != 0, self}};
    for (unsigned i = 0; i < sizeof some / sizeof some[0]; i++)
        if (some[i].is_chosen)
            arguments[count++] = some[i].text;
    for (unsigned party = FIRST_NODE; party < PARTIES; party++) {
        (void)snprintf(readers[party], sizeof readers[0], "--allow=10.0.0.%u", party);
        (void)snprintf(senders[party], sizeof senders[0], "--allow-heartbeats=10.0.0.%u", party);
        if (chosen->allow && !machine_has_bus() && (chosen->readers >> party & 1) != 0)
            arguments[count++] = readers[party];
        if (chosen->allow_heartbeats && (chosen->senders >> party & 1) != 0)
            arguments[count++] = senders[party];
    }
    (void)strftime(until, sizeof until, "--key-until=%Y-%m-%dT%H:%MZ", gmtime_r(&end, &parts));
    if (!machine_has_bus()) {
        arguments[count++] = rate;
        arguments[count++] = burst;
    }
    if (world->keyed) {
        arguments[count++] = "--key";
        arguments[count++] = makes_numbers_of != NULL ? makes_numbers_of : "/d/key";
    }
    if (makes_numbers_of != NULL) {
        arguments[count++] = "--key-is-new";
    } else if (world->two) {
        arguments[count++] = "--key-before=/d/before";
        arguments[count++] = until;
    }
    forget_all();
    return setjmp(world->machine.ends) == 0 ? __real_main(count, arguments) : -1;
}

/* What belongs to a process ends with it. */
static void clean_up(void)
{
    struct machine *const it = &world->machine;

    disk_close_all();
    bus_close();
    it->up = it->serves = it->asleep = it->in_thread = it->thread_due = false;
    it->thread = NULL;
    it->alarm = 0;
    it->first = it->count = 0;
    it->signalled = 0;
    memset(it->looked, 0, sizeof it->looked);
    memset(it->pending, 0, sizeof it->pending);
    memset(it->programs, 0, sizeof it->programs);
}

void machine_live(void)
{
    /* What fails is done again, but no numbers are made twice. */
    for (unsigned i = 0; i < (unsigned)world->keyed + world->two; i++)
        for (unsigned tries = 0; tries < 2; tries++) {
            world->machine.up = true;
            const int status = run_process(i == 0 ? "/d/key" : "/d/before");
            clean_up();
            if (status == 0)
                break;
        }
    for (;;) {
        world->machine.up = true;
        world->machine.starts++;
        oracle_begin_run();
        const int status = run_process(NULL);
        reference_ends(status);
        clean_up();
        if (status >= 0)
            world_say("the agent has ended with status %d", status);
        world_pass(RESTART_AFTER * SECOND);
    }
}

/* ---- Signals. They come only while the agent waits. */

void machine_signal(int number)
{
    struct machine *const it = &world->machine;

    if (!it->up)
        return;
    it->pending[number] = true;
    if (it->signalled == 0)
        it->signalled = machine_steady();
}

/* The clock of the agent may be slower than that of the world. */
static void ring(unsigned timer)
{
    struct machine *const it = &world->machine;

    if (it->alarm == 0 || timer != it->timers)
        return;
    if (machine_steady() >= it->alarm) {
        it->alarm = 0;
        machine_signal(SIGALRM);
    } else {
        world_plan(world->now + it->alarm - machine_steady() + MS / 1000, ring, timer);
    }
}

static bool take_signals(void)
{
    bool any = false;

    world->machine.signalled = 0;
    for (int i = 1; i < 65; i++) {
        if (!world->machine.pending[i])
            continue;
        world->machine.pending[i] = false;
        any = true;
        reference_signals(i);
        if (world->machine.handlers[i] != NULL)
            world->machine.handlers[i](i);
    }
    return any;
}

int __wrap_sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    if (before != NULL)
        memset(before, 0, sizeof *before);
    if (action != NULL)
        world->machine.handlers[number] = action->sa_handler;
    return 0;
}

int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
    (void)how, (void)set;
    return before == NULL ? 0 : sigemptyset(before);
}

int __wrap_setitimer(int which, const struct itimerval *timer, struct itimerval *before)
{
    const uint64_t wait =
        (uint64_t)timer->it_value.tv_sec * SECOND + (uint64_t)timer->it_value.tv_usec * (MS / 1000);

    (void)which, (void)before;
    machine_call();
    world->machine.timers++;
    world->machine.alarm = wait == 0 ? 0 : machine_steady() + wait;
    if (wait != 0)
        world_plan(world->now + wait, ring, world->machine.timers);
    return 0;
}

/* ---- The thread that saves, and the programs of --exec. */

/* Until its end, or until the loop goes on. */
static void run_thread(void)
{
    struct machine *const it = &world->machine;
    const int reason = errno;

    it->thread_due = false;
    it->in_thread = true;
    (void)swapcontext(&it->loop, &it->own);
    it->in_thread = false;
    errno = reason;
}

/* The first function of the thread. When it returns, the loop goes on. */
static void begin_thread(void)
{
    struct machine *const it = &world->machine;

    (void)it->thread(it->thread_argument);
    it->thread = NULL;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    struct machine *const it = &world->machine;

    (void)attributes;
    oracle_look();
    if (argument == NULL) /* it saves the table, and not numbers */
        reference_takes_state();
    const int reason = calls_fail("pthread_create");
    if (reason != 0)
        return reason;
    *thread = 0;
    it->thread = run;
    it->thread_argument = argument;
    (void)getcontext(&it->own);
    it->own.uc_stack.ss_sp = it->stack;
    it->own.uc_stack.ss_size = sizeof it->stack;
    it->own.uc_link = &it->loop;
    makecontext(&it->own, begin_thread, 0);
    it->thread_waits = world->now + world_between(0, 5 * MS);
    world_plan(it->thread_waits, thread_is_due, (unsigned)it->starts);
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    (void)thread, (void)result;
    oracle_look();
    while (world->machine.thread != NULL) {
        const uint64_t waits = world->machine.thread_waits;
        if (waits > world->now + SECOND / 10) { /* the disk is slow */
            world_pass(waits - world->now);
            oracle_disturbed();
        }
        run_thread();
    }
    return 0;
}

/* A program of --exec fails by chance, unless it is killed. */
static void end_program(unsigned number)
{
    for (unsigned i = 0; i < PROGRAMS; i++)
        if ((unsigned)world->machine.programs[i].number == number) {
            world->machine.programs[i].ended = true;
            machine_signal(SIGCHLD);
        }
}

int __wrap_posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[],
                       char *const environment[])
{
    const int reason = calls_fail("posix_spawn");

    (void)path, (void)actions, (void)attributes, (void)environment;
    if (reason != 0)
        return reason;
    for (unsigned i = 0; i < PROGRAMS; i++) {
        if (world->machine.programs[i].number != 0)
            continue;
        world->machine.programs[i].number = *child = (pid_t)++world->machine.children;
        world->machine.programs[i].ended = world->machine.programs[i].group_killed = false;
        world->machine.programs[i].begun = machine_steady();
        world->machine.programs[i].status = world_chance(8) == 0 ? 1 << 8 : 0;
        world_plan(world->now + (world_chance(16) == 0 ? 10 * MINUTE : world_between(0, SECOND)),
                   end_program, (unsigned)*child);
        world->machine.programs[i].variable = oracle_told(arguments);
        reference_starts(arguments, world->machine.programs[i].variable);
        return 0;
    }
    CLAIM(BOUNDED, true, false, "more than %u programs run", (unsigned)PROGRAMS);
    return EAGAIN;
}

int __real_posix_spawn_file_actions_init(posix_spawn_file_actions_t *actions);
int __wrap_posix_spawn_file_actions_init(posix_spawn_file_actions_t *actions)
{
    const int reason = calls_fail("posix_spawn_file_actions_init");

    return reason != 0 ? reason : __real_posix_spawn_file_actions_init(actions);
}

int __real_posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int descriptor,
                                            const char *path, int flags, mode_t mode);
int __wrap_posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int descriptor,
                                            const char *path, int flags, mode_t mode)
{
    const int reason = calls_fail("posix_spawn_file_actions_addopen");

    return reason != 0
               ? reason
               : __real_posix_spawn_file_actions_addopen(actions, descriptor, path, flags, mode);
}

/* Then what has changed since waits. */
bool machine_runs_program(unsigned node)
{
    bool runs = false;

    for (unsigned i = 0; i < PROGRAMS; i++)
        runs |=
            world->machine.programs[i].number != 0 && world->machine.programs[i].variable == node;
    return runs;
}

pid_t __wrap_waitpid(pid_t child, int *status, int flags)
{
    (void)child, (void)flags;
    for (unsigned i = 0; i < PROGRAMS; i++) {
        const int number = world->machine.programs[i].number;
        if (number == 0 || !world->machine.programs[i].ended)
            continue;
        world->machine.programs[i].number = 0;
        *status = world->machine.programs[i].status;
        reference_reaps(*status);
        return number;
    }
    return -1;
}

/* The group of a program is killed first. */
int __wrap_kill(pid_t process, int number)
{
    const pid_t child = process < 0 ? -process : process;

    for (unsigned i = 0; i < PROGRAMS; i++) {
        if (world->machine.programs[i].number != child)
            continue;
        const uint64_t ran_for = machine_steady() - world->machine.programs[i].begun;
        CLAIM(KILLED, true,
              number == SIGKILL && ran_for >= MINUTE &&
                  (process < 0 || world->machine.programs[i].group_killed),
              "program %d gets signal %d after %llu ms", (int)process, number,
              (unsigned long long)(ran_for / MS));
        if (process < 0) {
            world->machine.programs[i].group_killed = true;
            continue;
        }
        world->machine.programs[i].status = number;
        world_plan(world->now, end_program, (unsigned)process);
    }
    return 0;
}

void machine_look_at_programs(uint64_t most)
{
    for (unsigned i = 0; i < PROGRAMS; i++)
        CLAIM(KILLED, world->machine.programs[i].number != 0 && !world->machine.programs[i].ended,
              machine_steady() - world->machine.programs[i].begun <= most,
              "a program runs for %llu ms",
              (unsigned long long)((machine_steady() - world->machine.programs[i].begun) / MS));
}

/* ---- The socket, and waiting for it. */

void machine_queue(unsigned from, const uint8_t *bytes, size_t length)
{
    struct machine *const it = &world->machine;
    struct waiting *const place = &it->queue[(it->first + it->count++) % QUEUE];

    place->length = (uint16_t)length;
    place->from = (uint8_t)from;
    memcpy(place->bytes, bytes, length < sizeof place->bytes ? length : sizeof place->bytes);
}

void machine_deliver(const struct packet *packet)
{
    struct machine *const it = &world->machine;

    if (!it->serves || it->asleep || (machine_has_bus() && !bus_hears()))
        return;
    if (it->count >= world->room) {
        it->drops++;
        return;
    }
    machine_queue(packet->from, packet->bytes, packet->length);
    if (packet->from >= FIRST_NODE && packet->from < FIRST_NODE + NODES)
        oracle_arrived(packet->from - FIRST_NODE, packet);
}

bool __wrap_endpoints_open(unsigned (*take)(int descriptor))
{
    world->machine.serves = true;
    return sockets_add(disk_open(A_SOCKET), take);
}

const char *__wrap_endpoints_describe(void)
{
    return "";
}

int __wrap_recvmmsg(int descriptor, struct mmsghdr *messages, unsigned room, int flags,
                    struct timespec *timeout)
{
    struct machine *const it = &world->machine;
    unsigned done = 0;

    (void)flags, (void)timeout;
    if (calls_fail("recvmmsg") != 0)
        return -1;
    errno = EBADF;
    if (descriptor < 0)
        return -1;
    oracle_serves();
    reference_begins_batch();
    it->answered = NULL;
    for (; done < room && it->count != 0; done++, it->count--) {
        const struct waiting *const packet = &it->queue[it->first++ % QUEUE];
        struct msghdr *const message = &messages[done].msg_hdr;
        world_note(dumpulse_read_(packet->bytes + 4));
        if (packet->from != AGENT)
            reference_takes(packet);
        if (machine_has_bus()) {
            messages[done].msg_len = (unsigned)bus_frame(message->msg_iov->iov_base, packet);
            continue;
        }
        const struct sockaddr_in address = {.sin_family = AF_INET,
                                            .sin_port = htons(9060),
                                            .sin_addr.s_addr = htonl(NETWORK + packet->from)};
        memcpy(message->msg_name, &address, sizeof address);
        message->msg_namelen = sizeof address;
        message->msg_controllen = 0;
        message->msg_flags = 0;
        messages[done].msg_len = packet->length < message->msg_iov->iov_len
                                     ? packet->length
                                     : (unsigned)message->msg_iov->iov_len;
        memcpy(message->msg_iov->iov_base, packet->bytes, messages[done].msg_len);
    }
    it->first %= QUEUE;
    errno = done == 0 ? bus_error() : 0;
    return done == 0 ? -1 : (int)done;
}

static unsigned party_of(const struct msghdr *message)
{
    return ntohl(((const struct sockaddr_in *)message->msg_name)->sin_addr.s_addr) - NETWORK;
}

static void send_one(const struct msghdr *message, bool answers)
{
    const struct iovec *const bytes = message->msg_iov;
    const unsigned party = party_of(message);

    oracle_check_epoch();
    if (bytes->iov_len > DUMPULSE_PACKET_SIZE)
        oracle_reported(bytes->iov_base, bytes->iov_len);
    if (answers)
        reference_sends(party, bytes->iov_base, bytes->iov_len);
    else
        reference_tells(party - FIRST_NODE, bytes->iov_base);
    network_send(AGENT, party, bytes->iov_base, bytes->iov_len);
}

int __wrap_sendmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags)
{
    const int reason = calls_fail("sendmmsg");
    const struct msghdr *const first = &messages[0].msg_hdr;

    (void)descriptor, (void)flags;
    if (reason > 0) /* a second beacon has the address of the first one */
        reference_does_not_send(first->msg_iov->iov_len,
                                first->msg_name == world->machine.answered);
    world->machine.answered = first->msg_name;
    if (reason > 0)
        return -1;
    if (reason == SHORT && count > 1)
        count /= 2;
    for (unsigned i = 0; i < count; i++)
        send_one(&messages[i].msg_hdr, true);
    world->machine.answered = messages[count - 1].msg_hdr.msg_name;
    return (int)count;
}

ssize_t __wrap_sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    (void)descriptor, (void)flags;
    if (calls_fail("sendmsg") != 0)
        return -1;
    send_one(message, false); /* the beacon of a new epoch */
    return (ssize_t)message->msg_iov->iov_len;
}

/* A packet that means nothing comes each time. Signals must be let in, too. */
static void keep_busy(void)
{
    static const uint8_t nothing[DUMPULSE_PACKET_SIZE];
    struct machine *const it = &world->machine;
    const uint64_t stood = world->truth.disturbed, now = machine_steady();
    const uint64_t since = it->signalled > stood ? it->signalled : stood;
    const uint64_t waits = now > since ? now - since : 0;

    CLAIM(PROMPT, it->signalled != 0, waits <= SECOND, "a signal waits for %llu ms",
          (unsigned long long)(waits / MS));
    if (world->now >= it->busy_until || !it->serves || (machine_has_bus() && !bus_hears()))
        return;
    world_pass(MS / 20);
    if (it->count == 0)
        machine_queue(FIRST_NODE, nothing, sizeof nothing);
}

int __wrap_epoll_pwait(int descriptor, struct epoll_event *events, int room, int timeout,
                       const sigset_t *signals)
{
    (void)descriptor, (void)room, (void)timeout, (void)signals;
    for (;;) {
        if (calls_fail("epoll_pwait") != 0)
            return -1;
        if (world->machine.thread_due)
            run_thread();
        keep_busy();
        /* A ready socket comes before signals. */
        if (world->machine.count != 0 || world->bus.error != 0) {
            events[0].data.ptr = &sockets[0];
            return 1;
        }
        if (take_signals()) {
            errno = EINTR;
            return -1;
        }
        oracle_idle();
        world_step();
    }
}

int __wrap_ppoll(struct pollfd *descriptors, nfds_t count, const struct timespec *timeout,
                 const sigset_t *signals)
{
    (void)descriptors, (void)count, (void)signals;
    if (calls_fail("ppoll") != 0)
        return -1;
    errno = EINTR;
    if (take_signals())
        return -1;
    if (timeout->tv_nsec != 0)
        world_pass((uint64_t)timeout->tv_nsec);
    return 0;
}

/* ---- What the agent says, and the rest. */

bool __wrap_log_say(const char *format, ...)
{
    char text[4 * LINE];
    va_list arguments;

    if (format[0] == '<') /* its severity */
        format += 3;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    world_say("  agent: %.140s", text);
    oracle_logged(text);
    return true;
}

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    (void)flags;
    if (calls_fail("getrandom") != 0)
        return -1;
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)world_chance(256);
    return (ssize_t)size;
}

int __wrap_epoll_create1(int flags)
{
    (void)flags;
    return calls_fail("epoll_create1") != 0 ? -1 : disk_open(A_POLLER);
}

int __wrap_getsockopt(int descriptor, int level, int name, void *value, socklen_t *size)
{
    const int buffer = (int)world->room * 768; /* bytes: the agent expects a queue of this size */

    (void)descriptor, (void)level;
    if (calls_fail("getsockopt") != 0)
        return -1;
    if (name == SO_MEMINFO)
        ((uint32_t *)value)[SK_MEMINFO_DROPS] = (uint32_t)world->machine.drops;
    if (name != SO_RCVBUF)
        return 0;
    memcpy(value, &buffer, sizeof buffer);
    *size = sizeof buffer;
    return 0;
}

/* These calls change nothing that the storm looks at, whatever their parameters are. */
#define SUCCEEDS(name)                                                                             \
    long __wrap_##name(void)                                                                       \
    {                                                                                              \
        return calls_fail(#name) != 0 ? -1 : 0;                                                    \
    }
SUCCEEDS(access)
SUCCEEDS(epoll_ctl)
SUCCEEDS(fchmod)
SUCCEEDS(flock)
SUCCEEDS(prctl)
SUCCEEDS(setenv)
SUCCEEDS(setsockopt)
SUCCEEDS(syscall)

long __wrap_getenv(void)
{
    return 0;
}
