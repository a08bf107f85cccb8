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

enum claim {
    FORGED,
    OLD,
    TAKEN_TWICE,
    MOVED,
    IGNORED,
    EPOCH_TWICE,
    STORED,
    TOO_EARLY,
    TOO_LATE,
    NOT_BACK,
    IN_ORDER,
    STAMPED,
    FORGOTTEN,
    SAVED,
    WHOLE,
    SERVES,
    HEARD,
    READ,
    FRESH,
    BOUNDED
};
static const struct {
    const char *what;
    bool needs_disk; /* it need not hold if the disk does not keep its promises */
} claims[] = {
    [FORGED] = {"all entries of the table are what nodes have sent, with the key of now", true},
    [OLD] = {"no heartbeat is taken in a later epoch than its own, nor before a later one", true},
    [TAKEN_TWICE] = {"each heartbeat is taken once", true},
    [MOVED] = {"the key before is taken in its time only, and until the new one was taken", true},
    [IGNORED] = {"a heartbeat that comes in its epoch, with a new count, is taken", false},
    [EPOCH_TWICE] = {"no epoch comes again", true},
    [STORED] = {"no number is used before it is stored so that a power cut leaves it", true},
    [TOO_EARLY] = {"a node whose heartbeat came in time is not called late, dead or missing",
                   false},
    [TOO_LATE] = {"a silent node is called dead or missing in time", false},
    [NOT_BACK] = {"a node is called alive in time when it is heard again, and not before", false},
    [IN_ORDER] = {"each change is told once, and in order", false},
    [STAMPED] = {"an entry has the time at which its heartbeat was taken", false},
    [FORGOTTEN] = {"an entry is forgotten before its timestamp looks new again", false},
    [SAVED] = {"a table that has changed is saved in time", false},
    [WHOLE] = {"a file is whole after each kill and each power cut: none is set aside", true},
    [SERVES] = {"after the last fault, the agent serves", true},
    [HEARD] = {"after the last fault, each node that runs is heard, and its state is right", true},
    [READ] = {"after the last fault, the reader gets its reports", true},
    [FRESH] = {"a report that is believed was made after its request, and once", false},
    [BOUNDED] = {"nothing grows: open files, and files on the disk", false},
};

enum bound { LOOKS, FIRST_SAVE, LATER_SAVES, SETTLES, HEARS_AGAIN, READER_WAITS };
/* ms, and two ticks more. udpserver.8 has the same table, under BOUNDS. */
static const unsigned bounds[] = {
    [LOOKS] = 1100,        /* from the time when a state changes until it is told */
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

void oracle_excuse_disk(void)
{
    for (unsigned i = 0; i < sizeof claims / sizeof claims[0]; i++)
        world->excused |= (claims[i].needs_disk ? 1U : 0U) << i;
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

static bool is_disk_good(void)
{
    const struct disk *const disk = &world->disk;

    return world->now >= disk->full_until && world->now >= disk->fails_until &&
           world->now >= disk->slow_until && world->now >= disk->lies_until &&
           world->now >= disk->shut_until;
}

static bool is_calm(void)
{
    if (!is_disk_good())
        oracle_disturbed();
    return machine_steady() - world->truth.disturbed > within(SETTLES);
}

void oracle_disturbed(void)
{
    world->truth.disturbed = machine_steady();
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

static bool takes_before(void)
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
    const struct keys *const of = keys_of(made);
    const uint64_t number = number_of(made);
    const uint32_t now = of->keyed.epoch - (node >= of->keyed.reached);
    uint64_t *const last = &world->truth.of[node].last;

    if (made->before && (!takes_before() || world->truth.of[node].moved))
        world_broken(MOVED, "variable %u: a heartbeat with the key before is taken", node);
    if (!is_last_key(node, made))
        *last = 0;
    world->truth.of[node].generation = made->generation;
    world->truth.of[node].before = made->before;
    if (world->two && !made->before && !world->truth.of[node].moved) {
        world->truth.of[node].moved = true;
        world->truth.of[node].unsure = !is_disk_good();
    }
    if (made->generation != of->master.generations[node])
        world_broken(FORGED, "variable %u: a heartbeat of generation %u is taken, not %u", node,
                     made->generation, of->master.generations[node]);
    if (made->epoch != now)
        world_broken(OLD, "variable %u: a heartbeat of epoch %u is taken in epoch %u", node,
                     made->epoch, now);
    if (is_disk_good() && !of->stopped &&
        world->now - made->made_at > (2 * world->epoch + 1) * SECOND + within(LOOKS))
        world_broken(OLD, "variable %u: a heartbeat made %llu s ago is taken: no epoch is as long",
                     node, (unsigned long long)((world->now - made->made_at) / SECOND));
    if (number < *last)
        world_broken(OLD, "variable %u: a heartbeat made %llu s ago is taken after a later one",
                     node, (unsigned long long)((world->now - made->made_at) / SECOND));
    *last = number;
}

static void check_stamp(unsigned node, unsigned timestamp)
{
    const unsigned age = (uint16_t)(machine_unix() / ticks(1) - timestamp);

    if (is_calm() && world->machine.still == 0 && age > 1)
        world_broken(STAMPED, "variable %u: its timestamp is %u ticks old when it is taken", node,
                     age);
}

/* A heartbeat that waited in the socket when its node was called late or dead came too late to it
 * only if it was late itself. */
static void check_waiting(unsigned node, const struct made *made)
{
    const uint64_t told = world->truth.of[node].told_bad;

    if (made->arrived != 0 && told > made->arrived && told > world->truth.named &&
        told - made->arrived < world->truth.names.warn * MS)
        world_broken(TOO_EARLY, "variable %u was called late or dead while its heartbeat waited",
                     node);
}

static void entry_changed(unsigned node)
{
    const dumpulse_entry entry = dumpulse_read_entry(world->truth.table, (uint8_t)node);
    struct made *const made = nodes_find(node, serial_in(world->truth.table, node));

    if (entry.sender == 0 && entry.value == 0 && entry.timestamp == 0)
        return;
    if (made == NULL) {
        world_broken(FORGED, "variable %u: nobody has sent sender %u and value %u", node,
                     entry.sender, entry.value);
        return;
    }
    if (!world->truth.serves)
        return; /* it is from the disk */
    if (++made->taken > 1 && world->keyed)
        world_broken(TAKEN_TWICE, "variable %u: a heartbeat made %llu s ago is taken again", node,
                     (unsigned long long)((world->now - made->made_at) / SECOND));
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
        if (keyed->epoch <= it->least[i])
            world_broken(EPOCH_TWICE, "the agent begins with epoch %u, and had epoch %u before",
                         keyed->epoch, it->least[i]);
        it->epoch[i] = keyed->epoch;
    }
}

static const char *name_of(unsigned state)
{
    return hook_states[state];
}

static bool is_watched(unsigned node)
{
    return (world->truth.names.left_out >> node & 1) == 0;
}

static void check_change(unsigned node, unsigned is)
{
    const unsigned was = world->truth.of[node].state;
    const uint64_t now = machine_steady(), taken = world->truth.of[node].taken;
    const unsigned limit = is == DUMPULSE_LATE ? world->truth.names.warn : world->truth.names.crit;

    world->truth.of[node].state = (uint8_t)is;
    world_say("variable %u: %s, was %s", node, name_of(is), name_of(was));
    if (!is_watched(node))
        world_broken(IN_ORDER, "variable %u: its state is told, and nobody watches it", node);
    if (is == DUMPULSE_ALIVE && taken < world->truth.of[node].told_bad)
        world_broken(NOT_BACK, "variable %u is called alive, and was not heard again", node);
    if (is != DUMPULSE_LATE && is != DUMPULSE_DEAD && is != DUMPULSE_MISSING)
        return;
    world->truth.of[node].told_bad = now;
    if (is == DUMPULSE_MISSING && now - world->truth.of[node].watched + within(LOOKS) < limit * MS)
        world_broken(TOO_EARLY, "variable %u is called missing, and is watched for %llu ms", node,
                     (unsigned long long)((now - world->truth.of[node].watched) / MS));
    if (taken != 0 && now - taken + ticks(2) < limit * MS)
        world_broken(TOO_EARLY, "variable %u is called %s %llu ms after its heartbeat", node,
                     name_of(is), (unsigned long long)((now - taken) / MS));
}

void __real_dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was,
                             dumpulse_state is);
void __wrap_dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was,
                             dumpulse_state is)
{
    oracle_look();
    if (was != world->truth.of[variable].state || was == is)
        world_broken(IN_ORDER, "variable %u: it is told that it was %s, and it was %s", variable,
                     name_of(was), name_of(world->truth.of[variable].state));
    check_change(variable, is);
    __real_dumpulse_changed(context, variable, was, is);
}

/* --key-until counts from the start on, by a clock that nobody sets. */
static void begin_overlap(void)
{
    const uint64_t unix_now = machine_unix() / SECOND * SECOND;

    world->truth.before_until =
        world->two && UNTIL_UNIX > unix_now ? machine_boot() + UNTIL_UNIX - unix_now : 0;
    if (world->two && world->truth.before_until == 0)
        world->truth.was_over = true;
}

void oracle_begin_run(void)
{
    struct truth *const it = &world->truth;

    it->serves = false;
    it->served_from = it->changed = it->saves = 0;
    memcpy(it->least, it->epoch, sizeof it->least);
    begin_overlap();
    world_trace("start");
    memset(it->table, 0, sizeof it->table);
    for (unsigned node = 0; node < NODES; node++) {
        it->of[node].taken = it->of[node].told_bad = it->of[node].due = 0;
        it->of[node].moved = it->of[node].known;
        it->of[node].watched = 0;
        it->of[node].anew = false;
        it->of[node].state = it->of[node].told = DUMPULSE_WAITING;
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
}

/* At the start, they hold at once; later, when all files are read. */
void oracle_named(void)
{
    world->truth.read = world->names;
    if (!world->truth.serves)
        world->truth.names = world->names;
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
        memcpy(it->table + at, entries + at - 4, 4);
        world_trace("entry %u %08x %d", node, dumpulse_read_(it->table + at), it->serves);
        entry_changed(node);
        world_note(dumpulse_read_(it->table + at));
    }
    if (memcmp(it->table + 4, entries, DUMPULSE_REPORT_SIZE - 4) != 0)
        world_broken(FORGED, "a variable is set that no node has");
    if (it->changed == 0 && it->serves)
        it->changed = machine_steady();
}

void oracle_saved(void)
{
    world->truth.saves += world->truth.serves; /* also one that only ends a failure */
    world->truth.changed = 0;
}

/* Is it made with a key and in the epoch that the agent has now for its node? */
static bool is_current(unsigned node, const struct made *made)
{
    const struct keys *const of = keys_of(made);

    if (made->before &&
        (!takes_before() || world->truth.of[node].moved || world->truth.of[node].unsure))
        return false;
    return !world->keyed ||
           (of->keyed.reached != 0 && made->generation == of->master.generations[node] &&
            made->epoch == of->keyed.epoch - (node >= of->keyed.reached));
}

void oracle_logged(const char *line)
{
    if (strstr(line, "set aside") != NULL || strstr(line, "damaged") != NULL)
        world_broken(WHOLE, "the agent finds a file that is not whole");
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
    if (made == NULL || made->taken != 0)
        return;
    if (is_current(node, made) &&
        (!world->keyed || !is_last_key(node, made) || world->truth.of[node].last < number_of(made)))
        world_broken(IGNORED, "variable %u: a heartbeat has come, and is not taken", node);
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
        const uint32_t stored = disk_least_number(of->file.suffix, KEYS_BLOCK_AT);
        if (stored < block)
            world_broken(STORED, "block %u is used, and a power cut would leave %u", block, stored);
    }
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

    if (now - since > it->names.crit * MS + within(LOOKS) && state != DUMPULSE_DEAD &&
        state != DUMPULSE_MISSING)
        world_broken(TOO_LATE, "variable %u is %s, and was silent for %llu ms", node,
                     name_of(state), (unsigned long long)((now - since) / MS));
    if (taken > it->named && now - taken > within(LOOKS) &&
        now - taken + ticks(2) < it->names.warn * MS && state != DUMPULSE_ALIVE)
        world_broken(NOT_BACK, "variable %u is %s, and was heard %llu ms ago", node, name_of(state),
                     (unsigned long long)((now - taken) / MS));
}

static void check_age(unsigned node)
{
    const uint64_t now = machine_steady(), taken = world->truth.of[node].taken;

    if (world->machine.still == 0 && taken != 0 && taken > world->truth.clock_set &&
        now - taken > ticks(65536) && serial_in(world->truth.table, node) != 0)
        world_broken(FORGOTTEN, "variable %u: its entry is older than 65536 ticks", node);
}

/* What is in the table until then is from the disk. */
void oracle_serves(void)
{
    if (world->truth.serves)
        return;
    world->truth.serves = true;
    world->truth.served_from = machine_steady();
}

void oracle_idle(void)
{
    struct truth *const it = &world->truth;

    oracle_serves();
    oracle_check_epoch();
    check_numbers();
    for (unsigned node = 0; node < NODES; node++) {
        check_due(node);
        it->of[node].known |= it->of[node].moved && !it->of[node].unsure;
        if (it->of[node].noticed == 0)
            it->of[node].noticed = machine_steady();
    }
    if (!is_calm())
        return;
    const enum bound saves = it->saves == 0 ? FIRST_SAVE : LATER_SAVES;
    if (it->changed != 0 && machine_steady() - it->changed > within(saves))
        world_broken(SAVED, "a change of the table is not saved for %llu ms",
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

/* The variables are a list like 1-3,7. */
void oracle_told(const char *variables, const char *was, const char *is)
{
    const bool several = strcmp(was, "several") == 0;

    for (const char *at = variables; *at != '\0';) {
        char *after;
        unsigned first = (unsigned)strtoul(at, &after, 10), last = first;
        if (*after == '-')
            last = (unsigned)strtoul(after + 1, &after, 10);
        at = *after == ',' ? after + 1 : after;
        for (; first <= last; first++) {
            const unsigned knows = world->truth.of[first].told;
            if (world->truth.of[first].anew && (several || state_of(was) == DUMPULSE_WAITING))
                world->truth.of[first].anew = false;
            else if (knows == state_of(is) || (!several && knows != state_of(was)))
                world_broken(IN_ORDER, "variable %u: the program gets %s, %s, and knows %s", first,
                             was, is, name_of(knows));
            world->truth.of[first].told = (uint8_t)state_of(is);
        }
    }
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
}

/* A report without keys may be of any time: it may be late, or come twice. */
void oracle_believed(const uint8_t *report, size_t length, uint64_t asked_at)
{
    const uint64_t hash = hash_of(report, length);

    if (world->keyed && world->reader.keyed.heard.epoch != world->reader.last_epoch)
        world_broken(FRESH, "the reader believes a report, and has heard a later epoch meanwhile");
    for (unsigned i = 0; i < 256; i++)
        if (world->truth.reports[i].hash == hash && world->truth.reports[i].at >= asked_at) {
            if (world->keyed)
                world->truth.reports[i].hash = 0;
            return;
        }
    world_broken(FRESH, "the reader believes a report that was not made for it");
}

/* ---- After a round. */

static void check_heard(unsigned node)
{
    const uint64_t taken = world->truth.of[node].taken;

    if (world->nodes[node].runs && !(world->nodes[node].before && world->truth.was_over) &&
        (taken == 0 || machine_steady() - taken > 3 * world->nodes[node].every))
        world_broken(HEARD, "variable %u: its node sends, and is not heard", node);
}

uint64_t oracle_hears_after(void)
{
    return 3 * world->epoch * SECOND / 2 + within(HEARS_AGAIN);
}

void oracle_hears(void)
{
    for (unsigned node = 0; node < NODES; node++)
        check_heard(node);
}

void oracle_recovered(void)
{
    const struct truth *const it = &world->truth;
    unsigned open = 0;

    world_say("the round has been calm for long enough");
    if (!it->serves || (world->keyed && keys.keyed.reached == 0))
        world_broken(SERVES, "the agent does not serve");
    for (unsigned node = 0; node < NODES; node++) {
        const bool runs = world->nodes[node].runs;
        check_heard(node);
        if (runs != (it->of[node].state == DUMPULSE_ALIVE) &&
            !(world->nodes[node].before && it->was_over))
            world_broken(HEARD, "variable %u: its node %s, and is called %s", node,
                         runs ? "sends" : "is silent", name_of(it->of[node].state));
        if (it->of[node].told != it->of[node].state)
            world_broken(IN_ORDER, "variable %u: the program knows %s, and it is %s", node,
                         name_of(it->of[node].told), name_of(it->of[node].state));
    }
    if (world->now - world->reader.believed_at > within(READER_WAITS) && !it->was_over)
        world_broken(READ, "the reader has believed no report for %llu s",
                     (unsigned long long)((world->now - world->reader.believed_at) / SECOND));
    for (unsigned i = 0; i < OPEN; i++)
        open += world->disk.open[i].file >= 0;
    if (open > 2 || disk_count() > NAMES - 2)
        world_broken(BOUNDED, "%u files are open, and %u are on the disk", open, disk_count());
}
