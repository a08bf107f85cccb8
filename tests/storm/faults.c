/* All that can go wrong; see storm.h.   SPDX-License-Identifier: MIT
 *
 * A story has rounds. In each, faults begin within FAULTS_FOR, and after the last one has ended,
 * nothing goes wrong for CALM_FOR. Then all must be well again. */
#include "storm.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The calm lasts ten of the longest epochs. */
static const uint64_t FAULTS_FOR = 300, LONGEST = 120, CALM_FOR = 300; /* s */

/* ---- The process and the machine. */

static void trap(enum trap trap, const struct fault *fault)
{
    machine_trap(trap, fault->amount % 60, fault->at + fault->lasts);
}

static void crash(const struct fault *fault)
{
    trap(TRAP_CRASH, fault);
}

static void cut_power(const struct fault *fault)
{
    trap(fault->amount / 60 % 2 == 0 ? TRAP_CUT : TRAP_CUT_UNSYNCED, fault);
}

static void stop(const struct fault *fault)
{
    trap(TRAP_STOP, fault);
}

static void sleep_well(const struct fault *fault)
{
    trap(TRAP_SLEEP, fault);
    world->truth.clock_set = machine_steady() + fault->lasts;
}

/* A little longer than a clock takes to wrap, too: then what is old looks new. */
static void jump(const struct fault *fault)
{
    const uint64_t times[] = {3600 * SECOND, 65536 * world->tick * MS, (MS << 32)};

    trap(TRAP_JUMP, fault);
    world->machine.jump = (times[fault->amount / 60 % 3] + fault->lasts / 8) / 2 * 2;
    world->machine.jump += fault->amount / 180 % 2;
}

static void end_well(const struct fault *fault)
{
    (void)fault;
    machine_signal(SIGTERM);
}

/* ---- Its clocks. */

static void set_clock(const struct fault *fault)
{
    static const int64_t by[] = {1, 60, 3600, 18 * 3600, 40 * 24 * 3600};
    const int64_t seconds = by[fault->amount / 2 % 5];

    machine_set_clock((fault->amount % 2 == 0 ? 1 : -1) * seconds * (int64_t)SECOND);
    world->truth.clock_set = machine_steady();
}

static void stop_clock(const struct fault *fault)
{
    (void)fault;
    world->machine.still = machine_unix();
}

static void start_clock(const struct fault *fault)
{
    (void)fault;
    world->machine.still = 0;
    world->truth.clock_set = machine_steady();
}

static void drift(const struct fault *fault)
{
    machine_drift((int32_t)(fault->amount % 1000) - 500);
}

/* ---- Its disk. */

static void fill_disk(const struct fault *fault)
{
    world->disk.full_until = world->now + fault->lasts;
}

static void shut_files(const struct fault *fault)
{
    world->disk.shut_until = world->now + fault->lasts;
}

/* Whoever has changed its files meanwhile tells it again. */
static void open_files(const struct fault *fault)
{
    (void)fault;
    oracle_disturbed();
    machine_signal(SIGHUP);
}

static void break_disk(const struct fault *fault)
{
    world->disk.fails_until = world->now + fault->lasts;
    world->disk.failing = 1 + fault->amount % (FILES_FAIL | FOLDERS_FAIL | RENAMES_FAIL);
}

static void slow_disk(const struct fault *fault)
{
    world->disk.slow_until = world->now + fault->lasts;
}

static void end_trouble(const struct fault *fault)
{
    (void)fault;
    oracle_disturbed();
}

static void make_disk_lie(const struct fault *fault)
{
    world->disk.lies_until = world->now + fault->lasts;
    oracle_excuse_disk();
}

static void bring_back(const struct fault *fault)
{
    const struct file *const numbers = disk_numbers();

    (void)fault;
    if (numbers == NULL)
        return;
    world->disk.backup = *numbers;
    world->disk.brings_back = true;
    oracle_excuse_disk();
}

/* ---- The network. */

static void break_bus(const struct fault *fault)
{
    bus_change(BUS_OFF + fault->amount % 3);
}

static void mend_bus(const struct fault *fault)
{
    (void)fault;
    bus_change(BUS_WORKS);
}

static void lose(const struct fault *fault)
{
    world->weather.lost = 2 + fault->amount % 20;
}

static void keep(const struct fault *fault)
{
    (void)fault;
    world->weather.lost = 0;
}

static void scatter(const struct fault *fault)
{
    world->weather.doubled = 2 + fault->amount % 10;
    world->weather.damaged = 5 + fault->amount % 50;
    world->weather.delay = fault->amount % 4000 * MS;
}

static void gather(const struct fault *fault)
{
    (void)fault;
    world->weather.doubled = world->weather.damaged = 0;
    world->weather.delay = 0;
}

static void cut_off(const struct fault *fault)
{
    world->weather.cut[FIRST_NODE + fault->node] = true;
}

static void connect_again(const struct fault *fault)
{
    world->weather.cut[FIRST_NODE + fault->node] = false;
}

static void hold_back(const struct fault *fault)
{
    world->weather.held[FIRST_NODE + fault->node] = true;
}

static void release(const struct fault *fault)
{
    network_release(FIRST_NODE + fault->node);
}

/* ---- The nodes. */

static void reset_node(const struct fault *fault)
{
    nodes_start(fault->node);
}

static void end_node(const struct fault *fault)
{
    world->nodes[fault->node].runs = false;
}

static void put_key(const char *name, const char *digits, bool before)
{
    char text[64 + NODES * 8];
    int length = snprintf(text, sizeof text, "%s\nepoch %u\n%s", digits, world->epoch,
                          world->wrong_file == KEY_IS_WRONG ? "epoch\n" : "");

    for (unsigned node = 0; node < NODES; node++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%u %u\n", node,
                           world->nodes[node].generations[before]);
    disk_put(name, text);
}

static void put_names(void)
{
    const struct names *const it = &world->names;
    char text[128 + NODES * 48];
    int length =
        snprintf(text, sizeof text, "[dumpulse]\nwarn = %ums\ncrit = %ums\n", it->warn, it->crit);

    for (unsigned node = 0; node < NODES; node++)
        if ((it->left_out >> node & 1) == 0)
            length += snprintf(text + length, sizeof text - (size_t)length,
                               "[%u]\nname = n%u.%u\nvalue = %u..%u\n", node, node, it->edition,
                               it->low, it->high);
    (void)snprintf(text + length, sizeof text - (size_t)length, "%s",
                   world->wrong_file == NAMES_ARE_WRONG ? "name\n" : "");
    disk_put("names", text);
}

void faults_put_files(void)
{
    put_key("key", "000102030405060708090a0b0c0d0e0f", false);
    put_key("before", "01000000000000000000000000000000", true);
    put_names();
    machine_signal(SIGHUP);
}

static void renew(const struct fault *fault)
{
    nodes_renew(fault->node);
    faults_put_files();
}

static void change_all(const struct fault *fault)
{
    struct names *const it = &world->names;

    it->warn = 5000 + fault->amount % 6000;
    it->crit = it->warn * (2 + fault->amount / 6000 % 3);
    it->low = fault->amount % 100;
    it->high = 255 - fault->amount / 7 % 100;
    it->edition++;
    faults_put_files();
}

static void change_names(const struct fault *fault)
{
    world->names.left_out |= 1U << fault->node;
    change_all(fault);
}

static void watch_again(const struct fault *fault)
{
    world->names.left_out &= ~(1U << fault->node);
    faults_put_files();
}

/* All nodes change their states each second. That is more than the log gets at once. */
static void flap_on(unsigned number)
{
    const struct fault *const fault = &world->told.story[number];
    const bool lasts = world->now < fault->at + fault->lasts;

    world->names.low = 0;
    world->names.high = lasts && world->names.high != 0 ? 0 : 255;
    faults_put_files();
    if (lasts)
        world_plan(world->now + SECOND, flap_on, number);
}

static void flap(const struct fault *fault)
{
    flap_on((unsigned)(fault - world->told.story));
}

/* All files have changed, and one is wrong: so all of the change must wait. */
static void make_one_wrong(const struct fault *fault)
{
    world->wrong_file = 1 + fault->amount / 11 % 2;
    change_all(fault);
}

static void mend_file(const struct fault *fault)
{
    (void)fault;
    world->wrong_file = NONE_IS_WRONG;
    faults_put_files();
}

static void read_counters(const struct fault *fault)
{
    (void)fault;
    machine_signal(SIGUSR1);
}

static void keep_busy(const struct fault *fault)
{
    (void)fault;
    world->machine.busy_until = world->now + 3 * SECOND;
}

/* A reload that failed is asked for again. */
static void reload(unsigned unused)
{
    (void)unused;
    faults_put_files();
}

/* All parties get the new key. Some are late: the time of the key before is over then. */
static void plan_moves(void)
{
    for (unsigned party = FIRST_NODE; party < PARTIES; party++)
        if (party == READER || world->nodes[party - FIRST_NODE].before)
            world_plan(world_chance(2) == 0 ? world_between(MINUTE, 5 * MINUTE)
                                            : world_between(12 * MINUTE, 17 * MINUTE),
                       nodes_move, party);
}

/* ---- Somebody else. */

static void attack(unsigned number)
{
    const struct fault *const fault = &world->told.story[number];

    attacker_replay(fault->amount % 200);
    if (world->now < fault->at + fault->lasts)
        world_plan(world->now + SECOND, attack, number);
}

static void replay(const struct fault *fault)
{
    attack((unsigned)(fault - world->told.story));
}

static void send_junk(const struct fault *fault)
{
    attacker_send_junk(fault->amount % 5000);
}

static void flood_on(unsigned number)
{
    const struct fault *const fault = &world->told.story[number];

    attacker_flood(fault->amount % 2 == 0 ? (unsigned)READER : FIRST_NODE + fault->node,
                   1 + fault->amount % 60);
    if (world->now < fault->at + fault->lasts && world->now < fault->at + 20 * SECOND)
        world_plan(world->now + SECOND / 2, flood_on, number);
}

static void flood(const struct fault *fault)
{
    flood_on((unsigned)(fault - world->told.story));
}

static void forge(const struct fault *fault)
{
    attacker_forge(fault->node, fault->amount % 200);
}

/* ---- The table. */

enum needs { KEYS = 1, NODE = 2, LASTS = 4, CALLS = 8, RARE = 16, HAS_BUS = 32 };
static const struct {
    const char *what;
    void (*begin)(const struct fault *fault);
    void (*end)(const struct fault *fault); /* NULL: nothing is to be done */
    unsigned needs;
} kinds[] = {
    {"the agent is killed", crash, NULL, CALLS},
    {"the power of its machine fails", cut_power, NULL, CALLS},
    {"its process is stopped", stop, NULL, CALLS | LASTS},
    {"its machine sleeps", sleep_well, NULL, CALLS | LASTS},
    {"for an hour, 65,536 ticks or 2^32 ms, it is stopped or sleeps, and nothing else happens",
     jump, NULL, CALLS},
    {"it is told to end", end_well, NULL, 0},
    {"its files change, and that of names lacks", change_names, watch_again, NODE | LASTS},
    {"its files change, and one is wrong", make_one_wrong, mend_file, LASTS},
    {"its file of names changes each second", flap, NULL, LASTS},
    {"somebody asks for its counters", read_counters, NULL, 0},
    {"packets keep it busy", keep_busy, NULL, 0},
    {"somebody sets its clock", set_clock, NULL, 0},
    {"its clock stands still", stop_clock, start_clock, LASTS},
    {"its clocks run at another speed", drift, NULL, 0},
    {"its disk is full", fill_disk, end_trouble, LASTS},
    {"it can open no file", shut_files, open_files, LASTS},
    {"its disk fails to sync or to rename", break_disk, end_trouble, LASTS},
    {"its disk is slow", slow_disk, end_trouble, LASTS},
    {"its disk lies about what is synced", make_disk_lie, end_trouble, LASTS | RARE},
    {"at the next power failure, its disk gives back old numbers", bring_back, NULL, RARE | KEYS},
    {"its bus is off, or its CAN interface is down or gone", break_bus, mend_bus, LASTS | HAS_BUS},
    {"packets are lost", lose, keep, LASTS},
    {"packets come late, twice, damaged, in another order", scatter, gather, LASTS},
    {"a node is cut off", cut_off, connect_again, NODE | LASTS},
    {"what a node sends is held back", hold_back, release, NODE | LASTS},
    {"a node is reset", reset_node, NULL, NODE},
    {"a node falls silent", end_node, reset_node, NODE | LASTS},
    {"a node falls silent for good", end_node, NULL, NODE},
    {"a node gets a new key", renew, NULL, NODE | KEYS},
    {"recorded packets are sent again", replay, NULL, LASTS | KEYS},
    {"somebody sends junk", send_junk, NULL, 0},
    {"somebody sends more requests or questions than any limit", flood, NULL, NODE | LASTS},
    {"somebody has a node's key, and forges", forge, NULL, NODE | KEYS},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void end(unsigned number)
{
    kinds[world->told.story[number].kind].end(&world->told.story[number]);
}

const char *faults_kind(unsigned kind)
{
    return kind < KINDS ? kinds[kind].what : NULL;
}

bool faults_can_happen(unsigned kind)
{
    return (kinds[kind].needs & HAS_BUS) == 0 || machine_has_bus();
}

void faults_describe(const struct fault *fault, char text[LINE])
{
    const unsigned needs = kinds[fault->kind].needs;
    int length = snprintf(text, LINE, "%s", kinds[fault->kind].what);

    if ((needs & NODE) != 0)
        length += snprintf(text + length, LINE - (size_t)length, ", variable %u", fault->node);
    if ((needs & CALLS) != 0)
        length += snprintf(text + length, LINE - (size_t)length, ", %u calls from now",
                           fault->amount % 60);
    if ((needs & LASTS) != 0)
        (void)snprintf(text + length, LINE - (size_t)length, ", for %u s",
                       (unsigned)(fault->lasts / SECOND));
}

static void begin(unsigned number)
{
    const struct fault *const fault = &world->told.story[number];
    char text[LINE];

    if ((world->smaller.faults >> number & 1) != 0)
        return;
    faults_describe(fault, text);
    world_say("%s", text);
    world->told.happened++;
    world->told.happened_of[fault->kind]++;
    kinds[fault->kind].begin(fault);
    if (kinds[fault->kind].end != NULL)
        world_plan(world->now + fault->lasts, end, number);
}

static void hear(unsigned unused)
{
    (void)unused;
    oracle_hears();
}

/* All nodes that are silent for good begin again with the next round. */
static void recover(unsigned unused)
{
    (void)unused;
    oracle_recovered();
    for (unsigned node = 0; node < NODES; node++)
        if (!world->nodes[node].runs)
            nodes_start(node);
}

static unsigned choose(void)
{
    for (unsigned tries = 0;; tries++) {
        const unsigned kind = world_chance(KINDS), needs = kinds[kind].needs;
        if (((needs & KEYS) != 0 && !world->keyed) || !faults_can_happen(kind))
            continue;
        if ((world->unused >> kind & 1) != 0 && tries < 8 * KINDS)
            continue;
        if ((needs & RARE) == 0 || world_chance(16) == 0)
            return kind;
    }
}

/* No fault comes into the calm by this: it comes earlier in its round, or in the first one. */
static void make_smaller(struct fault *fault, uint64_t round)
{
    const unsigned number = (unsigned)(fault - world->told.story);
    unsigned at = world->smaller.by[number].at;

    if (at != 0 && fault->at >= round) {
        fault->at -= round;
        at--;
    }
    if (at != 0)
        fault->at = fault->at >> at > 10 * SECOND ? fault->at >> at : 10 * SECOND;
    fault->lasts >>= world->smaller.by[number].lasts;
    fault->amount >>= world->smaller.by[number].amount;
}

void faults_plan(void)
{
    const uint64_t round = (FAULTS_FOR + LONGEST + CALM_FOR) * SECOND;

    /* What one fault hides, another one shows: half of the stories lack about half of the kinds. */
    if (world_chance(2) == 0)
        world->unused = (uint64_t)world_chance(UINT32_MAX) << 32 | world_chance(UINT32_MAX);
    world->told.faults = 1 + world_chance(FAULTS);
    for (unsigned i = 0; i < world->told.faults; i++) {
        struct fault *const fault = &world->told.story[i];
        fault->kind = choose();
        fault->at = i % ROUNDS * round + world_between(10 * SECOND, FAULTS_FOR * SECOND);
        fault->lasts = world_between(SECOND, LONGEST * SECOND);
        fault->node = world_chance(NODES);
        fault->amount = world_chance(100000);
        make_smaller(fault, round);
        world_plan(fault->at, begin, i);
    }
    for (unsigned i = 1; i <= ROUNDS; i++) {
        world_plan(i * round - CALM_FOR * SECOND + oracle_hears_after(), hear, 0);
        world_plan(i * round - 1, recover, 0);
    }
    if (world->two)
        plan_moves();
    world->end = ROUNDS * round;
}

/* The agent does all that it can do: it reads its files again, keys are renewed and replaced, a
 * node is dead for a while, the agent ends and loses its power. After the last one of these, a call
 * may fail for a while; then nothing goes wrong. */
void faults_plan_short(void)
{
    enum { FAILS_FOR = 62, SECONDS = 110 };
    static const struct {
        void (*begin)(const struct fault *fault);
        unsigned at, lasts; /* s */
    } faults[] = {{change_names, 8, 6},    {end_node, 10, 20}, {renew, 16, 0},
                  {make_one_wrong, 24, 4}, {send_junk, 28, 0}, {read_counters, 29, 0},
                  {end_well, 33, 0},       {renew, 45, 0},     {cut_power, 48, 0}};

    world->told.faults = sizeof faults / sizeof faults[0];
    for (unsigned i = 0; i < world->told.faults; i++) {
        struct fault *const fault = &world->told.story[i];
        while (kinds[fault->kind].begin != faults[i].begin)
            fault->kind++;
        fault->at = faults[i].at * SECOND;
        fault->lasts = faults[i].lasts * SECOND;
        fault->node = 2 * i % NODES;
        fault->amount = 6006;
        if (world->keyed || (kinds[fault->kind].needs & KEYS) == 0)
            world_plan(fault->at, begin, i);
    }
    world->machine.unix_ahead = (int64_t)((world->until - 30) * SECOND - machine_steady());
    world->failure_ends = FAILS_FOR * SECOND;
    world->end = SECONDS * SECOND;
    world_plan(world->failure_ends, reload, 0);
    world_plan(world->end - 1, recover, 0);
    for (unsigned party = FIRST_NODE; party < PARTIES && world->two; party++)
        world_plan(2 * party * SECOND, nodes_move, party);
}
