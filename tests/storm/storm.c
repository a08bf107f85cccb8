/* Tells stories, and looks for the smallest one that fails; see storm.h.
 * SPDX-License-Identifier: MIT
 *
 *     storm [--from SEED] [--count N] [--counts]
 *     storm --seed SEED          tells one story, line by line; --smaller TEXT: less of it
 *     storm --fail-each STEP     short stories, in each of which one call of the system fails
 *     storm --seed SEED --fail CALL:N:REASON   tells one of them
 */
#include "storm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void choose_options(struct chosen *it)
{
    const bool is_udp = !machine_has_bus();

    it->no_watch = world_chance(8) == 0;
    it->no_state = world_chance(4) == 0 && !world->keyed;
    it->exec = world_chance(8) != 0 && !it->no_watch;
    it->allow = world_chance(8) != 0 || !is_udp;
    it->allow_heartbeats = world_chance(4) == 0 && is_udp;
    it->keep_old = world_chance(8) == 0;
    it->state_every = world_chance(3) == 0 && !it->no_state ? 1 + world_chance(30) : 0;
    it->rate_total = world_chance(4) == 0 && is_udp ? 1 + world_chance(8) : 0;
    it->self_sender = 1 + world_chance(255);
    it->self = world_chance(3) == 0 ? 40 + world_chance(24) : 0;
}

static void choose_world(void)
{
    static const unsigned ticks[] = {1, 10, 100, 1000};
    /* With an epoch of 2 s, a block does not last. */
    static const unsigned epochs[] = {2, 10, 10, 30};

    world->keyed = world_chance(4) != 0;
    world->two = world->keyed && world_chance(3) == 0;
    world->fd = world_chance(2) == 0;
    world->tick = ticks[world_chance(4)];
    world->epoch = epochs[world_chance(4)];
    world->names.warn = 5000 + 1000 * world_chance(6);
    world->names.crit = world->names.warn * (2 + world_chance(3));
    world->names.low = world_chance(100);
    world->names.high = 255 - world_chance(100);
    world->chosen.readers = 1U << READER | world_chance(1U << READER);
    world->rate = 1 + world_chance(20);
    world->burst = 1 + world_chance(40);
    world->room = world_chance(4) == 0 ? 700 : QUEUE;
    world->chosen.senders = 1U << FIRST_NODE | world_chance(1U << READER);
    world->chosen.senders |= world_chance(1U << READER);
    choose_options(&world->chosen);
}

/* Odd seeds have two keys, whose overlap ends within the story; even ones have none. */
static void choose_short_world(const struct failure *failure)
{
    world->failure = *failure;
    world->chosen = (struct chosen){.exec = true, .allow = true, .readers = world->chosen.readers};
    world->keyed = world->two = world->seed % 2 != 0;
    world->epoch = 2;
    world->names.warn = 5000;
    world->names.crit = 10000;
}

static void put_files(void)
{
    faults_put_files();
    disk_put("program", "");
}

/* Tells the story of this seed, or a smaller one; or a short one, in which a call of the system
 * fails. */
static void tell(uint64_t seed, const struct smaller *smaller, const struct failure *failure,
                 bool aloud, struct told *told)
{
    memset(world, 0, sizeof *world);
    world_begin(seed);
    world->tells = aloud;
    world->smaller = *smaller;
    if (setjmp(world->over) == 0) {
        choose_world();
        if (failure != NULL)
            choose_short_world(failure);
        disk_begin();
        put_files();
        machine_begin();
        nodes_begin();
        if (failure != NULL)
            faults_plan_short();
        else
            faults_plan();
        world_say("version %s, ticks of %u ms, epochs of %u s, late after %u ms, dead after %u ms",
                  world->two     ? "2 with two keys"
                  : world->keyed ? "2"
                                 : "1",
                  world->tick, world->epoch, world->names.warn, world->names.crit);
        machine_live();
    }
    *told = world->told;
}

static const struct smaller ALL_OF_IT = {.faults = 0};

static bool is_same(const struct smaller *one, const struct smaller *other)
{
    return one->faults == other->faults && one->nodes == other->nodes &&
           memcmp(one->by, other->by, sizeof one->by) == 0;
}

/* Does the same claim fail in a story that is this much smaller? */
static bool fails(uint64_t seed, const struct smaller *with, struct smaller *smaller,
                  struct told *told)
{
    struct told tried;

    if (is_same(with, smaller))
        return false;
    tell(seed, with, NULL, false, &tried);
    if (tried.wrong[0] == '\0' || tried.broken != told->broken)
        return false;
    *smaller = *with;
    *told = tried;
    return true;
}

/* The n-th way in which a story may be smaller. Returns false if there are no more. */
static bool make_smaller(struct smaller *smaller, unsigned n, const struct told *told)
{
    const unsigned i = n - NODES - told->faults;

    if (n < told->faults) {
        smaller->faults |= UINT64_C(1) << n;
    } else if (n < told->faults + NODES) {
        smaller->nodes |= 1U << (n - told->faults);
    } else if (i >= 3 * told->faults) {
        return false;
    } else if ((smaller->faults >> i / 3 & 1) == 0) {
        const struct fault *const fault = &told->story[i / 3];
        uint8_t *const halved[] = {&smaller->by[i / 3].at, &smaller->by[i / 3].lasts,
                                   &smaller->by[i / 3].amount};
        const bool can[] = {fault->at > 10 * SECOND, fault->lasts > SECOND, fault->amount != 0};
        if (can[i % 3])
            ++*halved[i % 3];
    }
    return true;
}

/* Makes it smaller in one way after the other, as long as the same claim fails. After TRIES it ends
 * anyway. */
static void shrink(uint64_t seed, struct smaller *smaller, struct told *told)
{
    enum { TRIES = 400 };
    bool is_smaller = true;

    for (unsigned tries = 0; is_smaller && tries < TRIES;) {
        struct smaller with = *smaller;
        is_smaller = false;
        for (unsigned n = 0; make_smaller(&with, n, told) && tries < TRIES; with = *smaller, n++) {
            tries += !is_same(&with, smaller);
            is_smaller |= fails(seed, &with, smaller, told);
        }
    }
}

/* As --smaller reads it: the faults, the nodes, and what is halved. */
static void print_smaller(const struct smaller *smaller)
{
    (void)printf("%llx:%x", (unsigned long long)smaller->faults, smaller->nodes);
    for (unsigned i = 0; i < FAULTS; i++)
        if ((smaller->faults >> i & 1) == 0 &&
            (smaller->by[i].at | smaller->by[i].lasts | smaller->by[i].amount) != 0)
            (void)printf(":%u.%u.%u.%u", i, smaller->by[i].at, smaller->by[i].lasts,
                         smaller->by[i].amount);
}

static struct smaller read_smaller(const char *text)
{
    struct smaller smaller = ALL_OF_IT;
    char *at;

    smaller.faults = strtoull(text, &at, 16);
    smaller.nodes = *at == ':' ? (unsigned)strtoul(at + 1, &at, 16) : 0;
    while (*at == ':') {
        const unsigned long fault = strtoul(at + 1, &at, 10) % FAULTS;
        uint8_t *const by[] = {&smaller.by[fault].at, &smaller.by[fault].lasts,
                               &smaller.by[fault].amount};
        for (unsigned i = 0; i < 3 && *at == '.'; i++)
            *by[i] = (uint8_t)(strtoul(at + 1, &at, 10) % 64);
    }
    return smaller;
}

static void print_failure(uint64_t seed, const struct smaller *smaller, const struct told *told)
{
    char text[LINE];
    const unsigned long first = told->said > LINES / 2 ? told->said - LINES / 2 : 0;

    (void)printf("\nseed %llu: %s\nIt must be true: %s.\n", (unsigned long long)seed, told->wrong,
                 oracle_claim(told->broken));
    (void)printf("The smallest story in which it is not:\n");
    for (unsigned i = 0; i < told->faults; i++) {
        if ((smaller->faults >> i & 1) != 0)
            continue;
        const unsigned seconds = (unsigned)(told->story[i].at / SECOND);
        faults_describe(&told->story[i], text);
        (void)printf("  %3u:%02u  %s\n", seconds / 60, seconds % 60, text);
    }
    for (unsigned node = 0; node < NODES; node++)
        if ((smaller->nodes >> node & 1) != 0)
            (void)printf("%s %u", smaller->nodes % (1U << node) == 0 ? "  without nodes" : ",",
                         node);
    (void)printf("%sIts end (all of it: --seed %llu --smaller ", smaller->nodes != 0 ? "\n" : "",
                 (unsigned long long)seed);
    print_smaller(smaller);
    (void)printf("):\n");
    for (unsigned long i = first; i < told->said; i++)
        (void)printf("  %s\n", told->lines[i % LINES]);
}

static uint64_t number(const char *text)
{
    char *end;
    const uint64_t value = text == NULL ? 0 : strtoull(text, &end, 10);

    if (text == NULL || *text == '\0' || *end != '\0') {
        (void)fprintf(stderr, "storm: a number is missing, or is none\n");
        exit(2);
    }
    return value;
}

struct counts {
    uint64_t armed[CLAIMS_MAX], happened[KINDS_MAX], wrapped[WRAPS];
};

static void count(struct counts *counts, const struct told *told)
{
    for (unsigned i = 0; i < CLAIMS_MAX; i++)
        counts->armed[i] += told->armed[i];
    for (unsigned i = 0; i < KINDS_MAX; i++)
        counts->happened[i] += told->happened_of[i];
    for (unsigned i = 0; i < WRAPS; i++)
        counts->wrapped[i] += told->wrapped[i];
}

static bool print_count(uint64_t count, const char *what, bool must_be)
{
    (void)printf("%12llu  %s\n", (unsigned long long)count, what);
    return count == 0 && must_be;
}

/* Prints how often each claim was armed, each fault happened and each clock wrapped while the agent
 * ran. Returns whether any never was. */
static bool print_counts(const struct counts *counts)
{
    bool is_missing = false;

    for (unsigned i = 0; i < CLAIMS; i++)
        is_missing |= print_count(counts->armed[i], oracle_claim(i), oracle_can_arm(i));
    for (unsigned i = 0; faults_kind(i) != NULL; i++)
        is_missing |= print_count(counts->happened[i], faults_kind(i), faults_can_happen(i));
    for (unsigned i = 0; i < WRAPS; i++)
        is_missing |= print_count(counts->wrapped[i], machine_wrap_name(i), true);
    if (is_missing)
        (void)printf(
            "storm: a claim was never armed, a fault never happened, or nothing wrapped\n");
    return is_missing;
}

/* Tells stories of many seeds. Returns how many fail: after the first one it ends. */
static int tell_many(uint64_t from, uint64_t most, bool counts)
{
    struct counts sums = {.armed = {0}};

    const time_t began = time(NULL);
    uint64_t stories = 0, faults = 0, minutes = 0, hash = 0;
    struct told told = {.wrong = ""};

    for (; stories < most && told.wrong[0] == '\0'; stories++) {
        tell(from + stories, &ALL_OF_IT, NULL, false, &told);
        faults += told.happened;
        minutes += world->now / MINUTE;
        hash = hash * 31 + told.hash;
        count(&sums, &told);
    }
    if (told.wrong[0] != '\0') {
        struct smaller smaller = ALL_OF_IT;
        shrink(from + stories - 1, &smaller, &told);
        print_failure(from + stories - 1, &smaller, &told);
    }
    const uint64_t took = (uint64_t)(time(NULL) - began) + 1;
    (void)printf(
        "storm: %llu stories from seed %llu: %llu passed, %d failed; trace %016llx\n"
        "storm: %llu simulated hours and %llu faults: %llu hours and %llu faults a minute\n",
        (unsigned long long)stories, (unsigned long long)from,
        (unsigned long long)stories - (told.wrong[0] != '\0'), told.wrong[0] != '\0',
        (unsigned long long)hash, (unsigned long long)minutes / 60, (unsigned long long)faults,
        (unsigned long long)minutes / took, (unsigned long long)faults * 60 / took);
    return (counts && print_counts(&sums)) || told.wrong[0] != '\0';
}

/* After the first 16, not each call fails of those that the agent makes often. */
enum { SEEDS = 2, EACH = 16 };

struct failures {
    unsigned step, planned, stories;
    bool has_failed[CALL_KINDS];
    uint64_t hash;
};

/* Tells short stories until the n-th call of this kind is never reached: the first one, and of the
 * others each `step`.
 * Returns false if one fails. */
static bool fail_call(uint64_t seed, unsigned call, int reason, struct failures *all)
{
    struct told told;

    for (unsigned n = 1;; n += 1 + n / EACH) {
        const struct failure failure = {.call = call, .reason = reason, .calls_left = n};
        if (n != 1 && all->planned++ % all->step != 0)
            continue;
        tell(seed, &ALL_OF_IT, &failure, false, &told);
        all->stories++;
        all->hash = all->hash * 31 + told.hash;
        if (told.wrong[0] != '\0') {
            print_failure(seed, &ALL_OF_IT, &told);
            (void)printf("It is told by: --seed %u --fail %s:%u:%s\n", (unsigned)seed,
                         calls_name(call), n, calls_reason_name(reason));
            return false;
        }
        if (!world->failure.has_happened)
            return true;
        all->has_failed[call] = true;
    }
}

static int fail_each(unsigned step)
{
    struct failures all = {.step = step};
    bool passed = true;

    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (unsigned call = 0; call < CALL_KINDS; call++) {
            if (!calls_can_happen(call))
                continue;
            for (unsigned i = 0; passed && calls_reason(call, i) != 0; i++)
                passed = fail_call(seed, call, calls_reason(call, i), &all);
        }
    for (unsigned call = 0; passed && call < CALL_KINDS; call++)
        if (calls_can_happen(call) && !all.has_failed[call]) {
            (void)printf("storm: no story reaches a call of %s\n", calls_name(call));
            passed = false;
        }
    (void)printf("storm: %u stories in each of which a call fails: %u passed; trace %016llx\n",
                 all.stories, all.stories - !passed, (unsigned long long)all.hash);
    return !passed;
}

/* Reads CALL:N:REASON. */
static struct failure read_failure(const char *text)
{
    struct failure failure = {.call = 0};
    unsigned i = 0;
    char name[64], reason[16];

    if (sscanf(text, "%63[^:]:%u:%15s", name, &failure.calls_left, reason) != 3)
        (void)number(NULL);
    while (failure.call + 1 < CALL_KINDS && strcmp(name, calls_name(failure.call)) != 0)
        failure.call++;
    while (calls_reason(failure.call, i) != 0 &&
           strcmp(reason, calls_reason_name(calls_reason(failure.call, i))) != 0)
        i++;
    failure.reason = calls_reason(failure.call, i);
    return failure;
}

/* The linker gives the start of the program to this, and calls the agent's main() __real_main(). */
int __wrap_main(int argc, char **argv)
{
    uint64_t from = 1, count = UINT64_MAX;
    struct smaller smaller = ALL_OF_IT;
    bool one = false, counts = false;
    unsigned step = 0;
    struct failure failure = {.calls_left = 0};

    world = calloc(1, sizeof *world);
    if (world == NULL)
        return 2;
    for (int i = 1; i < argc; i += 2) {
        const char *const value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--counts") == 0) {
            counts = true;
            i--;
            continue;
        }
        if (strcmp(argv[i], "--from") == 0 || strcmp(argv[i], "--seed") == 0)
            from = number(value);
        else if (strcmp(argv[i], "--count") == 0)
            count = number(value);
        else if (strcmp(argv[i], "--smaller") == 0 && value != NULL)
            smaller = read_smaller(value);
        else if (strcmp(argv[i], "--fail-each") == 0)
            step = (unsigned)number(value);
        else if (strcmp(argv[i], "--fail") == 0 && value != NULL)
            failure = read_failure(value);
        else
            (void)number(NULL);
        one |= strcmp(argv[i], "--seed") == 0;
    }
    if (step != 0)
        return fail_each(step);
    if (!one)
        return tell_many(from, count, counts);
    struct told told;
    tell(from, &smaller, failure.calls_left != 0 ? &failure : NULL, true, &told);
    (void)printf("trace %016llx\n", (unsigned long long)told.hash);
    return told.wrong[0] != '\0';
}
