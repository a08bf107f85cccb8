/* What must be true; see storm.h.   SPDX-License-Identifier: MIT
 *
 * The oracle knows what each node has made, and what came to the agent's socket and when. It looks
 * into the table, the watch and the epochs of the agent at each of its calls of the system. */
#include "storm.h"

#include <stdlib.h>
#include <string.h>

#include "server/hook.h"
#include "server/keys_internal.h"
#include "server/table.h"
#include "server/watch.h"

/* ---- The claims, and their bounds. */

/* Some need not hold if the disk does not keep its promises. Some are about udpserver only. */
enum { NEEDS_DISK = 1, NEEDS_UDP = 2 };
static const struct {
    const char *what;
    unsigned needs;
} claims[] = {
    [FORGED] = {"all entries of the table are what nodes have sent, with the key of now",
                NEEDS_DISK},
    [OLD] = {"no heartbeat is taken in a later epoch than its own, nor before a later one",
             NEEDS_DISK},
    [TAKEN_TWICE] = {"each heartbeat is taken once", NEEDS_DISK},
    [MOVED] = {"the key before is taken in its time only, and until the new one was taken",
               NEEDS_DISK},
    [IGNORED] = {"a heartbeat that comes in its epoch, with a new count, is taken", 0},
    [EPOCH_TWICE] = {"no epoch comes again", NEEDS_DISK},
    [STORED] = {"no number is used before it is stored so that a power cut leaves it", NEEDS_DISK},
    [TOO_EARLY] = {"a node whose heartbeat came in time is not called late, dead or missing", 0},
    [TOO_LATE] = {"a silent node is called late, dead or missing in time", 0},
    [NOT_BACK] = {"a node is called alive in time when it is heard again, and not before", 0},
    [RANGED] = {"a node is called out of range while its value is, and only then", 0},
    [IN_ORDER] = {"each change is told once, and in order", 0},
    [STAMPED] = {"an entry has the time at which its heartbeat was taken", 0},
    [FORGOTTEN] = {"an entry is forgotten when it is too old for its timestamp, and not before", 0},
    [SAVED] = {"a table that has changed is saved in time, as it is", 0},
    [UNCHANGED] = {"an unchanged table is not saved, and a changed one not more often than it must",
                   0},
    [RESTORED] = {"an agent begins with the table of the file, but for what is too old", 0},
    [WHOLE] = {"a file is whole after each kill and each power cut: none is set aside", NEEDS_DISK},
    [SERVES] = {"after the last fault, the agent serves", NEEDS_DISK},
    [HEARD] = {"after the last fault, each node that runs is heard, and its state is right",
               NEEDS_DISK},
    [READ] = {"after the last fault, the reader gets its reports", NEEDS_DISK},
    [FRESH] = {"a report that is believed was made after its request, and once", 0},
    [REPORTED] = {"a request that is allowed gets a report, with the table of that moment", 0},
    [ALLOWED] = {"only addresses that --allow names get reports", NEEDS_UDP},
    [ANSWERED] = {"each question gets a beacon, and nothing else", NEEDS_UDP},
    [TOLD] = {"a node that is heard gets the beacon of each new epoch, in time", NEEDS_UDP},
    [COUNTED] = {"each counter has the number of what it counts", 0},
    [LOGGED] = {"each change is logged, or counted for a later line", 0},
    [PROMPT] = {"what a signal asks for is done before the agent waits again", 0},
    [ENDS] = {"an agent that is told to end saves its table before", 0},
    [BOUNDED] = {"nothing grows: open files, files on the disk, and programs that run", 0},
    [KILLED] = {"a program that runs for a minute is killed, and all that it has started", 0},
};

enum bound { LOOKS, TELLS, FIRST_SAVE, LATER_SAVES, SETTLES, HEARS_AGAIN, READER_WAITS };
/* ms, and two ticks more. udpserver.8 has the same table, under BOUNDS. */
static const unsigned bounds[] = {
    [LOOKS] = 1100,        /* from the time when a state changes until it is found */
    [TELLS] = 600,         /* from then until it is told */
    [FIRST_SAVE] = 1500,   /* from the first change after a start until it is saved */
    [LATER_SAVES] = 11500, /* from any other change until it is saved */
    [SETTLES] = 25000,     /* after the process was stopped or the disk was bad, until these hold */
    [HEARS_AGAIN] = 5000,  /* after the last fault until nodes are heard: 1.5 epochs and */
    [READER_WAITS] = 30000, /* from one report that the reader believes to the next */
};

const char *oracle_claim(unsigned claim)
{
    return claims[claim].what;
}

bool oracle_can_arm(unsigned claim)
{
    return (claims[claim].needs & NEEDS_UDP) == 0 || !machine_has_bus();
}

void oracle_excuse_disk(void)
{
    for (unsigned i = 0; i < sizeof claims / sizeof claims[0]; i++)
        world->excused |= ((claims[i].needs & NEEDS_DISK) != 0 ? 1U : 0U) << i;
}

/* Time passes in whole ticks for the agent, on either side. */
static uint64_t ticks(unsigned count)
{
    return count * world->tick * MS;
}

static uint64_t within(enum bound bound)
{
    return bounds[bound] * MS + ticks(2);
}

bool oracle_is_disk_good(void)
{
    const struct disk *const disk = &world->disk;

    return world->now >= disk->full_until && world->now >= disk->fails_until &&
           world->now >= disk->slow_until && world->now >= disk->lies_until &&
           world->now >= disk->shut_until && world->now != disk->failed_at;
}

bool oracle_is_calm(void)
{
    if (!oracle_is_disk_good())
        oracle_disturbed();
    return machine_steady() - world->truth.disturbed > within(SETTLES);
}

void oracle_disturbed(void)
{
    world->truth.disturbed = machine_steady();
}

void oracle_call_fails(void)
{
    oracle_disturbed();
    world->disk.failed_at = world->now;
}

void oracle_jumped(void)
{
    oracle_disturbed();
    world->truth.clock_set = machine_steady();
    world->truth.was_over |= world->two; /* before all nodes have the new key */
}

/* ---- The table. */

static uint32_t serial_in(const uint8_t *report, unsigned node)
{
    const dumpulse_entry entry = dumpulse_read_entry(report, (uint8_t)node);

    return (uint32_t)entry.sender * 256 + entry.value;
}

static uint64_t number_of(const struct made *made)
{
    return ((uint64_t)made->epoch << 8) + made->count;
}

static const struct keys *keys_of(const struct made *made)
{
    return made->before ? &keys_before : &keys;
}

static bool is_last_key(unsigned node, const struct made *made)
{
    return world->truth.of[node].generation == made->generation &&
           world->truth.of[node].before == made->before;
}

bool oracle_takes_before(void)
{
    return world->truth.before_until > machine_boot();
}

/* The last count that the agent took of this node. Without keys and under a new key, all are
 * new. */
static unsigned last_count(unsigned node, const struct made *made)
{
    return world->keyed && is_last_key(node, made) ? keys_of(made)->keyed.last[node] : 0;
}

/* Epochs and counts of a node grow. */
static void check_order(unsigned node, const struct made *made)
{
    const uint64_t number = number_of(made);
    const uint32_t now = reference_epoch(made->before, node);
    const uint8_t generation = world->truth.names.generations[made->before][node];
    uint64_t *const last = &world->truth.of[node].last;

    CLAIM(MOVED, made->before,
          oracle_takes_before() && !world->truth.of[node].moved &&
              world->truth.names.generations[false][node] == 0,
          "variable %u: a heartbeat with the key before is taken", node);
    if (!is_last_key(node, made))
        *last = 0;
    world->truth.of[node].generation = made->generation;
    world->truth.of[node].before = made->before;
    world->truth.of[node].moved |= world->two && !made->before;
    CLAIM(FORGED, true, made->generation == generation,
          "variable %u: a heartbeat of generation %u is taken, not %u", node, made->generation,
          generation);
    CLAIM(OLD, true, made->epoch == now,
          "variable %u: a heartbeat of epoch %u is taken in epoch %u", node, made->epoch, now);
    CLAIM(OLD, oracle_is_disk_good() && !keys_of(made)->stopped,
          world->now - made->made_at <= (2 * world->epoch + 1) * SECOND + within(LOOKS),
          "variable %u: a heartbeat made %llu s ago is taken: no epoch is as long", node,
          (unsigned long long)((world->now - made->made_at) / SECOND));
    CLAIM(OLD, true, number >= *last,
          "variable %u: a heartbeat made %llu s ago is taken after a later one", node,
          (unsigned long long)((world->now - made->made_at) / SECOND));
    *last = number;
}

/* No time passes between reading the clock and taking a packet. */
static void check_stamp(unsigned node, unsigned timestamp)
{
    const uint64_t now = machine_unix() / ticks(1);

    world->truth.of[node].stamped = now;
    CLAIM(STAMPED, true, timestamp == (uint16_t)now,
          "variable %u: its timestamp is %u, and it is taken at %u", node, timestamp,
          (unsigned)(uint16_t)now);
}

/* A heartbeat that waited in the socket when its node was called late or dead came too late to it
 * only if it was late itself. */
static void check_waiting(unsigned node, const struct made *made)
{
    const uint64_t told = world->truth.of[node].told_bad;

    CLAIM(TOO_EARLY,
          made->arrived != 0 && told > made->arrived && told > world->truth.named &&
              told > world->truth.served_from,
          told - made->arrived >= world->truth.names.warn * MS,
          "variable %u was called late or dead while its heartbeat waited", node);
}

static void set_range(unsigned node, unsigned value)
{
    const struct names *const names = &world->truth.names;
    const bool is_in = value >= names->low && value <= names->high;

    world->truth.of[node].value = (uint8_t)value;
    if (world->truth.of[node].in_range == is_in)
        return;
    world->truth.of[node].in_range = is_in;
    world->truth.of[node].ranged = machine_steady();
}

static void entry_changed(unsigned node)
{
    const dumpulse_entry entry = dumpulse_read_entry(world->truth.table, (uint8_t)node);
    struct made *const made = nodes_find(node, serial_in(world->truth.table, node));

    if (entry.sender == 0 && entry.value == 0 && entry.timestamp == 0)
        return;
    CLAIM(FORGED, true, made != NULL, "variable %u: nobody has sent sender %u and value %u", node,
          entry.sender, entry.value);
    set_range(node, entry.value);
    if (made == NULL || !world->truth.serves)
        return; /* it is excused, or from the disk */
    made->taken++;
    CLAIM(TAKEN_TWICE, world->keyed, made->taken == 1,
          "variable %u: a heartbeat made %llu s ago is taken again", node,
          (unsigned long long)((world->now - made->made_at) / SECOND));
    CLAIM(ALLOWED, world->chosen.allow_heartbeats, reference_may_send(FIRST_NODE + node),
          "variable %u: its node is not allowed to send heartbeats", node);
    if (world->keyed)
        check_order(node, made);
    check_stamp(node, entry.timestamp);
    check_waiting(node, made);
    world->truth.of[node].taken = machine_steady();
    world->truth.of[node].noticed = 0;
}

/* While the agent begins, its epoch is the last one of the old block for a moment. So this looks
 * only when it sends something, or has nothing to do. */
void oracle_check_epoch(void)
{
    struct truth *const it = &world->truth;

    for (unsigned i = 0; i < (unsigned)world->keyed + world->two; i++) {
        const dumpulse_keyed *const keyed = i == 0 ? &keys.keyed : &keys_before.keyed;
        if (keyed->reached == 0)
            continue;
        CLAIM(EPOCH_TWICE, true, keyed->epoch > it->least[i],
              "the agent begins with epoch %u, and had epoch %u before", keyed->epoch,
              it->least[i]);
        it->epoch[i] = keyed->epoch;
    }
}

static const char *name_of(unsigned state)
{
    return hook_states[state];
}

static bool is_watched(unsigned node)
{
    return !world->chosen.no_watch && (world->truth.names.left_out >> node & 1) == 0;
}

/* How old the entry from the file is now. */
static uint64_t restored_for(unsigned node)
{
    return world->truth.of[node].age + machine_steady() - world->truth.served_from;
}

static void check_change(unsigned node, unsigned is)
{
    const unsigned was = world->truth.of[node].state;
    const uint64_t now = machine_steady(), taken = world->truth.of[node].taken;
    const unsigned limit = is == DUMPULSE_LATE ? world->truth.names.warn : world->truth.names.crit;

    world->truth.of[node].state = (uint8_t)is;
    world_say("variable %u: %s, was %s", node, name_of(is), name_of(was));
    CLAIM(IN_ORDER, true, is_watched(node), "variable %u: its state is told, and nobody watches it",
          node);
    CLAIM(NOT_BACK, is == DUMPULSE_ALIVE, taken >= world->truth.of[node].told_bad,
          "variable %u is called alive, and was not heard again", node);
    CLAIM(RANGED, is == DUMPULSE_ALIVE || is == DUMPULSE_OUT_OF_RANGE,
          (is == DUMPULSE_ALIVE) == world->truth.of[node].in_range,
          "variable %u is called %s, and its value is not", node, name_of(is));
    CLAIM(RESTORED, is == DUMPULSE_MISSING, !world->truth.of[node].restored,
          "variable %u is called missing, and the file had an entry of it", node);
    if (is != DUMPULSE_LATE && is != DUMPULSE_DEAD && is != DUMPULSE_MISSING)
        return;
    CLAIM(TOO_EARLY, taken == 0 && world->truth.of[node].age != 0 && is != DUMPULSE_MISSING,
          restored_for(node) + ticks(3) >= limit * MS,
          "variable %u is called %s %llu ms after its heartbeat in the file", node, name_of(is),
          (unsigned long long)(restored_for(node) / MS));
    world->truth.of[node].told_bad = now;
    CLAIM(TOO_EARLY, is == DUMPULSE_MISSING,
          now - world->truth.of[node].watched + within(LOOKS) >= limit * MS,
          "variable %u is called missing, and is watched for %llu ms", node,
          (unsigned long long)((now - world->truth.of[node].watched) / MS));
    /* The agent rounds limits down to ticks. */
    CLAIM(TOO_EARLY, taken != 0, now - taken + ticks(1) >= limit / world->tick * ticks(1),
          "variable %u is called %s %llu ms after its heartbeat", node, name_of(is),
          (unsigned long long)((now - taken) / MS));
}

void __real_dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was,
                             dumpulse_state is);
void __wrap_dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was,
                             dumpulse_state is)
{
    oracle_serves(); /* a bus that is down has brought no packet yet */
    oracle_look();
    CLAIM(IN_ORDER, true, was == world->truth.of[variable].state && was != is,
          "variable %u: it is told that it was %s, and it was %s", variable, name_of(was),
          name_of(world->truth.of[variable].state));
    check_change(variable, is);
    reference_changes(variable, was, is);
    __real_dumpulse_changed(context, variable, was, is);
}

/* --key-until counts from when the agent reads Unix time first, by a clock that nobody sets. */
void oracle_reads_clock(void)
{
    if (world->truth.has_read_clock)
        return;
    world->truth.has_read_clock = true;
    const uint64_t unix_now = machine_unix() / SECOND;

    world->truth.before_until = world->two && world->until > unix_now
                                    ? machine_boot() + (world->until - unix_now) * SECOND
                                    : 0;
}

void oracle_begin_run(void)
{
    struct truth *const it = &world->truth;

    world->machine.read_wrong = it->serves = false;
    it->served_from = it->changed = it->saves = 0;
    memcpy(it->least, it->epoch, sizeof it->least);
    it->has_read_clock = false;
    it->was_ended = it->ended;
    memset(it->table, 0, sizeof it->table);
    reference_begins();
    for (unsigned node = 0; node < NODES; node++) {
        it->of[node].taken = it->of[node].told_bad = it->of[node].due = 0;
        it->of[node].unsure |= it->of[node].moved; /* it may have been stored, or not */
        it->of[node].moved = it->of[node].known;
        it->of[node].watched = it->of[node].age = 0;
        it->of[node].anew = it->of[node].restored = false;
        it->of[node].state = DUMPULSE_WAITING;
        it->of[node].is_first = true;
    }
    oracle_disturbed();
}

/* A variable that is watched again waits, as after a start. */
static void use_names(void)
{
    struct truth *const it = &world->truth;

    for (unsigned node = 0; node < NODES; node++)
        if ((it->names.left_out >> node & 1) != 0 && (it->read.left_out >> node & 1) == 0) {
            it->of[node].state = DUMPULSE_WAITING;
            it->of[node].anew = true;
            it->of[node].told_bad = 0;
            it->of[node].watched = machine_steady();
        }
    it->names = it->read;
    it->named = machine_steady();
    for (unsigned node = 0; node < NODES; node++)
        set_range(node, it->of[node].value);
}

/* At the start, they hold at once; later, when all files are read. */
void oracle_reads(const struct file *file)
{
    struct truth *const it = &world->truth;
    struct names before = it->read;
    uint8_t(*const generations)[NODES] = it->read.generations;

    for (unsigned node = 0; node < NODES; node++)
        if (file == disk_find("key") || file == disk_find("before"))
            generations[file == disk_find("before")][node] =
                world->nodes[node].generations[file == disk_find("before")];
    if (file == disk_find("names")) {
        it->read = world->names;
        memcpy(generations, before.generations, sizeof before.generations);
    } else if (file == disk_find("table") && !it->serves) {
        reference_loads(file);
    }
    if (!it->serves)
        it->names = it->read;
}

/* The table is read again before it is written: that is no start with it. Numbers that are read
 * while the agent serves are written anew. Numbers and key whose time is over are not used. */
void oracle_reads_wrong(const struct file *file)
{
    const bool has_sum = memcmp(file->now, "Dumpulse", 8) == 0;
    const bool is_over = world->two && !oracle_takes_before();

    if (file == disk_find("table")) {
        if (!world->truth.serves && disk_find("table.new") == NULL)
            reference_loads(file);
    } else if (file != disk_find("table.new") &&
               !(has_sum && (world->truth.serves || world->truth.was_over)) &&
               !(file == disk_find("before") && is_over)) {
        world->machine.read_wrong = true;
    }
}

/* The agent's own heartbeat has the time of the request that it is for. */
static void look_at_self(const uint8_t *entries)
{
    const unsigned self = world->chosen.self;
    uint8_t *const known = world->truth.table + 4 + (size_t)4 * self;
    const uint8_t *const entry = entries + (size_t)4 * self;

    if (self == 0 || memcmp(known, entry, 4) == 0)
        return;
    if (dumpulse_read_(entry) == 0)
        reference_forgets(self, known);
    memcpy(known, entry, 4);
    CLAIM(STAMPED, world->truth.serves && dumpulse_read_(entry) != 0,
          dumpulse_read_(entry) == ((uint32_t)(machine_unix() / ticks(1)) << 16 |
                                    world->chosen.self_sender << 8 | entry[3]),
          "variable %u: the agent's own heartbeat is %08x", self, dumpulse_read_(entry));
}

/* The table may be shared with another part of the agent: so this looks at its entries. */
void oracle_look(void)
{
    struct truth *const it = &world->truth;
    const uint8_t *const entries = (const uint8_t *)table_entries;

    if (!world->machine.serves)
        return;
    if (memcmp(it->table + 4, entries, DUMPULSE_REPORT_SIZE - 4) == 0)
        return;
    for (unsigned node = 0; node < NODES; node++) {
        const size_t at = 4 + 4 * (size_t)node;
        if (memcmp(it->table + at, entries + at - 4, 4) == 0)
            continue;
        if (dumpulse_read_(entries + at - 4) == 0)
            reference_forgets(node, it->table + at);
        memcpy(it->table + at, entries + at - 4, 4);
        entry_changed(node);
        world_note(dumpulse_read_(it->table + at));
    }
    look_at_self(entries);
    CLAIM(FORGED, true, memcmp(it->table + 4, entries, DUMPULSE_REPORT_SIZE - 4) == 0,
          "a variable is set that no node has");
    if (it->changed == 0 && it->serves)
        it->changed = machine_steady();
}

void oracle_saved(void)
{
    world->truth.saves += world->truth.serves; /* also one that only ends a failure */
    if (memcmp(world->truth.table, world->truth.outputs.saved, DUMPULSE_REPORT_SIZE) == 0)
        world->truth.changed = 0;
    else
        world->truth.changed = machine_steady();
}

/* Is it made with a key and in the epoch that the agent has now for its node? */
static bool is_current(unsigned node, const struct made *made)
{
    if (!reference_may_send(FIRST_NODE + node))
        return false;
    if (made->before &&
        (!oracle_takes_before() || world->truth.of[node].moved || world->truth.of[node].unsure ||
         world->truth.names.generations[false][node] != 0))
        return false;
    return !world->keyed ||
           (keys_of(made)->keyed.reached != 0 &&
            made->generation == world->truth.names.generations[made->before][node] &&
            made->epoch == reference_epoch(made->before, node));
}

void oracle_logged(const char *line)
{
    const bool flipped = world->failure.has_happened && world->failure.reason == FLIPPED;

    CLAIM(WHOLE, !flipped, strstr(line, "set aside") == NULL && strstr(line, "damaged") == NULL,
          "the agent finds a file that is not whole");
    CLAIM(WHOLE, strstr(line, "has read its files again") != NULL, !world->machine.read_wrong,
          "the agent uses a file with a wrong bit");
    world->machine.read_wrong &= strstr(line, "nothing has changed") == NULL;
    reference_logged(line);
    if (strstr(line, "has read its files again") != NULL)
        use_names();
}

void oracle_arrived(unsigned node, const struct packet *packet)
{
    struct made *const made = nodes_find(node, (uint32_t)packet->bytes[6] * 256 + packet->bytes[7]);

    if (made == NULL || !made->is_sent || made->taken != 0 ||
        packet->length != DUMPULSE_PACKET_SIZE ||
        memcmp(made->packet, packet->bytes, DUMPULSE_PACKET_SIZE) != 0)
        return; /* it is damaged, or forged */
    made->arrived = machine_steady();
    if (is_current(node, made) && packet->bytes[5] > last_count(node, made))
        world->truth.of[node].due = made->serial;
}

/* The agent has taken all packets. */
static void check_due(unsigned node)
{
    const struct made *const made = nodes_find(node, world->truth.of[node].due);

    world->truth.of[node].due = 0;
    if (made == NULL)
        return;
    CLAIM(IGNORED, true,
          made->taken != 0 || !is_current(node, made) ||
              (world->keyed && is_last_key(node, made) &&
               world->truth.of[node].last >= number_of(made)),
          "variable %u: a heartbeat has come, and is not taken", node);
}

/* ---- When the agent has nothing to do. */

/* Only if the disk or a block has changed since the last look. */
static void check_numbers(void)
{
    struct truth *const it = &world->truth;
    const uint32_t used[2] = {keys.keyed.epoch / 256, keys_before.keyed.epoch / 256};

    if (it->disk_steps == world->disk.steps && memcmp(it->used, used, sizeof used) == 0)
        return;
    it->disk_steps = world->disk.steps;
    memcpy(it->used, used, sizeof used);
    for (unsigned i = 0; i < (unsigned)world->keyed + world->two; i++) {
        const struct keys *const of = i == 0 ? &keys : &keys_before;
        if (of->keyed.reached == 0)
            continue;
        const uint32_t block = of->keyed.epoch / 256;
        const uint32_t stored = disk_least_number(of->file.suffix, NUMBERS_BLOCK_AT);
        CLAIM(STORED, true, stored >= block, "block %u is used, and a power cut would leave %u",
              block, stored);
    }
}

/* What the agent takes for stored, and may log. */
static void check_retired(void)
{
    const uint32_t stored = __builtin_bswap32((uint32_t)keys_before.stored.retired);
    const uint32_t left = world->truth.retired == stored
                              ? stored
                              : disk_least_number(keys_before.file.suffix, NUMBERS_RETIRED_AT);

    world->truth.retired = stored;
    CLAIM(STORED, true, (left & stored) == stored,
          "%08x are retired, and a power cut would leave %08x", stored, left);
    for (unsigned node = 0; node < NODES; node++)
        world->truth.of[node].known |= (stored >> (24 - node / 8 * 8 + node % 8) & 1) != 0;
}

static bool is_heard(unsigned state)
{
    return state == DUMPULSE_ALIVE || state == DUMPULSE_OUT_OF_RANGE;
}

static void check_state(unsigned node)
{
    const struct truth *const it = &world->truth;
    const uint64_t now = machine_steady(), taken = it->of[node].taken;
    /* If the process stood still before it looked, and its clock was set or stood still meanwhile,
     * it cannot tell when it heard this: it counts from when it went on. */
    const bool is_set = it->clock_set > taken || world->machine.still != 0;
    const bool is_vague = is_set && it->disturbed > taken;
    const uint64_t noticed =
        is_vague && it->disturbed > it->of[node].noticed ? it->disturbed : it->of[node].noticed;
    const uint64_t began =
        it->of[node].watched > it->served_from ? it->of[node].watched : it->served_from;
    const uint64_t since = noticed > began ? noticed : began;
    const uint8_t state = it->of[node].state;

    CLAIM(TOO_LATE, now - since > it->names.crit * MS + within(LOOKS),
          state == DUMPULSE_DEAD || state == DUMPULSE_MISSING,
          "variable %u is %s, and was silent for %llu ms", node, name_of(state),
          (unsigned long long)((now - since) / MS));
    CLAIM(TOO_LATE, now - since > it->names.warn * MS + within(LOOKS), !is_heard(state),
          "variable %u is %s, and was silent for %llu ms", node, name_of(state),
          (unsigned long long)((now - since) / MS));
    CLAIM(TOO_LATE,
          taken == 0 && it->of[node].age != 0 &&
              restored_for(node) > it->names.crit * MS + within(LOOKS),
          state == DUMPULSE_DEAD, "variable %u is %s, and its entry from the file is %llu ms old",
          node, name_of(state), (unsigned long long)(restored_for(node) / MS));
    CLAIM(RESTORED, it->of[node].restored && now - began > within(LOOKS), state != DUMPULSE_WAITING,
          "variable %u waits, and the file had an entry of it", node);
    CLAIM(NOT_BACK,
          taken > it->named && now - taken > within(LOOKS) &&
              now - taken + ticks(2) < it->names.warn * MS,
          is_heard(state), "variable %u is %s, and was heard %llu ms ago", node, name_of(state),
          (unsigned long long)((now - taken) / MS));
    CLAIM(RANGED, is_heard(state) && now - it->of[node].ranged > within(LOOKS),
          (state == DUMPULSE_ALIVE) == it->of[node].in_range,
          "variable %u is %s, and its value is not", node, name_of(state));
}

static void check_age(unsigned node)
{
    const uint64_t now = machine_steady(), taken = world->truth.of[node].taken;

    CLAIM(FORGOTTEN,
          !world->chosen.keep_old && world->machine.still == 0 && taken != 0 &&
              taken > world->truth.clock_set && now - taken > ticks(65536),
          serial_in(world->truth.table, node) == 0,
          "variable %u: its entry is older than 65536 ticks", node);
}

/* What is in the table until then is from the disk. */
void oracle_serves(void)
{
    if (world->truth.serves)
        return;
    CLAIM(WHOLE, true, !world->machine.read_wrong, "the agent begins with a file with a wrong bit");
    world->truth.serves = true;
    world->truth.served_from = machine_steady();
    reference_serves();
}

void oracle_idle(void)
{
    struct truth *const it = &world->truth;

    oracle_serves();
    CLAIM(BOUNDED, world->machine.thread == NULL, disk_left_open() < 0,
          "descriptor %d is left open", disk_left_open());
    machine_look_for_wraps();
    it->was_over |= world->two && !oracle_takes_before();
    reference_idle();
    oracle_check_epoch();
    check_numbers();
    check_retired();
    for (unsigned node = 0; node < NODES; node++) {
        check_due(node);
        if (it->of[node].noticed == 0)
            it->of[node].noticed = machine_steady();
    }
    CLAIM(MOVED, it->was_ended, keys_before.keyed.reached == 0,
          "the key before begins an epoch, and its time was over");
    if (!oracle_is_calm())
        return;
    machine_look_at_programs(60 * SECOND + within(LOOKS));
    it->ended |= it->before_until != 0 && machine_boot() > it->before_until + within(LOOKS);
    const bool is_first = it->saves == 0 && it->disturbed <= it->served_from; /* none failed */
    const enum bound saves = is_first ? FIRST_SAVE : LATER_SAVES;
    const unsigned every = world->chosen.state_every;
    const uint64_t more = saves == LATER_SAVES && every > 10 ? (every - 10) * SECOND : 0;
    CLAIM(SAVED,
          it->changed != 0 && !world->chosen.no_state &&
              machine_steady() - it->disturbed > within(SETTLES) + more,
          machine_steady() - it->changed <= within(saves) + more,
          "a change of the table is not saved for %llu ms",
          (unsigned long long)((machine_steady() - it->changed) / MS));
    for (unsigned node = 0; node < NODES; node++) {
        if (is_watched(node) && machine_steady() - it->named > within(LOOKS))
            check_state(node);
        check_age(node);
    }
}

/* ---- What others learn. */

static unsigned state_of(const char *name)
{
    unsigned state = DUMPULSE_WAITING;

    while (state < DUMPULSE_DEAD && strcmp(name, hook_states[state]) != 0)
        state++;
    return state;
}

/* What the agent begins with. If a change could not be stored, the program may know another one. */
void oracle_restores(unsigned node, const struct alarms_record *record)
{
    const bool is_bad = record->is == DUMPULSE_LATE || record->is == DUMPULSE_DEAD;

    world->truth.of[node].state = record->is;
    world->truth.of[node].told_bad = is_bad ? machine_steady() : 0;
    world->truth.of[node].anew = record->is == DUMPULSE_WAITING;
    if (record->number < world->truth.of[node].number)
        world->truth.of[node].told = record->is;
    if (record->number < world->truth.of[node].number)
        world->truth.of[node].number = record->number;
}

/* The first change after a start may be one that was told before it, or come after others that were
 * not told. */
static void check_told(unsigned node, unsigned number, unsigned was, unsigned is)
{
    const unsigned knows = world->truth.of[node].told;
    const bool is_again =
        world->truth.of[node].is_first && number == world->truth.of[node].number && is == knows;
    const bool is_anew = world->truth.of[node].anew && was == DUMPULSE_WAITING;
    const bool follows = knows != is && knows == was;
    const bool is_next =
        number > world->truth.of[node].number && (follows || world->truth.of[node].is_first);

    CLAIM(IN_ORDER, !is_anew, is_again || is_next,
          "variable %u: the program gets %s, %s, number %u, and knows %s, number %u", node,
          name_of(was), name_of(is), number, name_of(knows), world->truth.of[node].number);
    CLAIM(IN_ORDER, is_anew, number > world->truth.of[node].number,
          "variable %u: the program gets number %u again", node, number);
    world->truth.of[node].anew &= !is_anew;
    world->truth.of[node].is_first = false;
    world->truth.of[node].told = (uint8_t)is;
    world->truth.of[node].number = number;
}

/* Returns the variable. */
unsigned oracle_told(char *const arguments[])
{
    const unsigned node = (unsigned)strtoul(arguments[1], NULL, 10);

    check_told(node, (unsigned)strtoul(arguments[5], NULL, 10), state_of(arguments[3]),
               state_of(arguments[4]));
    return node;
}

static uint64_t hash_of(const uint8_t *bytes, size_t length)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (; length != 0; length--)
        hash = (hash ^ *bytes++) * UINT64_C(1099511628211);
    return hash;
}

void oracle_reported(const uint8_t *report, size_t length)
{
    const unsigned at = world->truth.reported++ % 256;

    world->truth.reports[at].hash = hash_of(report, length);
    world->truth.reports[at].at = world->now;
    /* It may have been made before the agent stood still; on a bus, it takes time to leave. */
    world->truth.reports[at].before_ends =
        world->truth.before_until + (machine_has_bus() ? SECOND : 0) > machine_boot() ||
        machine_steady() - world->truth.disturbed < SECOND;
}

/* A report without keys may be of any time: it may be late, or come twice. */
void oracle_believed(const uint8_t *report, size_t length, uint64_t asked_at)
{
    const uint64_t hash = hash_of(report, length);

    unsigned i = 0;

    CLAIM(FRESH, world->keyed, world->reader.keyed.heard.epoch == world->reader.last_epoch,
          "the reader believes a report, and has heard a later epoch meanwhile");
    while (i < 256 &&
           (world->truth.reports[i].hash != hash || world->truth.reports[i].at < asked_at))
        i++;
    CLAIM(FRESH, true, i < 256, "the reader believes a report that was not made for it");
    CLAIM(MOVED, i < 256 && world->reader.before, world->truth.reports[i].before_ends,
          "a report is made with the key before after its time");
    if (world->keyed && i < 256)
        world->truth.reports[i].hash = 0;
}

/* ---- After a round. */

static void check_heard(unsigned node)
{
    const uint64_t taken = world->truth.of[node].taken;

    CLAIM(HEARD,
          world->nodes[node].runs && reference_may_send(FIRST_NODE + node) &&
              !(world->nodes[node].before && world->truth.was_over),
          taken != 0 && machine_steady() - taken <= 3 * world->nodes[node].every,
          "variable %u: its node sends, and is not heard", node);
}

uint64_t oracle_hears_after(void)
{
    return 3 * world->epoch * SECOND / 2 + within(HEARS_AGAIN);
}

uint64_t oracle_tells_within(void)
{
    return within(TELLS);
}

void oracle_hears(void)
{
    for (unsigned node = 0; node < NODES; node++)
        check_heard(node);
}

void oracle_recovered(void)
{
    const struct truth *const it = &world->truth;

    world_say("the round has been calm for long enough");
    CLAIM(SERVES, true, it->serves && (!world->keyed || keys.keyed.reached != 0),
          "the agent does not serve");
    for (unsigned node = 0; node < NODES; node++) {
        const bool runs = world->nodes[node].runs && reference_may_send(FIRST_NODE + node);
        check_heard(node);
        CLAIM(HEARD, !(world->nodes[node].before && it->was_over) && !world->chosen.no_watch,
              runs == is_heard(it->of[node].state), "variable %u: its node %s, and is called %s",
              node, runs ? "sends" : "is silent", name_of(it->of[node].state));
        CLAIM(IN_ORDER,
              world->chosen.exec && it->serves && !machine_runs_program(node) &&
                  alarms[node].unlogged == 0,
              it->of[node].told == it->of[node].state,
              "variable %u: the program knows %s, and it is %s", node, name_of(it->of[node].told),
              name_of(it->of[node].state));
    }
    CLAIM(READ, !(world->reader.before && it->was_over) && (world->chosen.allow || world->keyed),
          world->now - world->reader.believed_at <= within(READER_WAITS),
          "the reader has believed no report for %llu s",
          (unsigned long long)((world->now - world->reader.believed_at) / SECOND));
    CLAIM(BOUNDED, true, disk_count() <= NAMES - 2, "%u files are on the disk", disk_count());
}
