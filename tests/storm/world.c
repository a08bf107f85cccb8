/* Time, chance, and what is written down; see storm.h.   SPDX-License-Identifier: MIT */
#include "storm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct world *world;

/* xorshift64*: the same on every machine. */
uint32_t world_chance(uint32_t in)
{
    world->random ^= world->random >> 12;
    world->random ^= world->random << 25;
    world->random ^= world->random >> 27;
    return (uint32_t)((world->random * UINT64_C(2685821657736338717)) >> 32) % in;
}

uint64_t world_between(uint64_t low, uint64_t high)
{
    const uint64_t first =
        world_chance(UINT32_MAX); /* compilers may exchange two calls of a line */

    return low + (first << 16 | world_chance(65536)) % (high - low + 1);
}

/* FNV-1a, over the bytes of the number from the lowest on. */
void world_note(uint64_t number)
{
    for (unsigned i = 0; i < 8; i++, number >>= 8)
        world->told.hash = (world->told.hash ^ (number & 0xFF)) * UINT64_C(1099511628211);
}

void world_say(const char *format, ...)
{
    char *line = world->told.lines[world->told.said++ % LINES];
    const uint64_t ms = world->now / MS;
    va_list arguments;

    const int head = snprintf(line, LINE, "%3u:%02u.%03u ", (unsigned)(ms / 60000),
                              (unsigned)(ms / 1000 % 60), (unsigned)(ms % 1000));
    va_start(arguments, format);
    (void)vsnprintf(line + head, (size_t)(LINE - head), format, arguments);
    va_end(arguments);
    for (const char *at = line; *at != '\0'; at++)
        world_note((uint8_t)*at);
    if (world->tells)
        (void)printf("%s\n", line);
}

void world_broken(unsigned claim, const char *format, ...)
{
    va_list arguments;

    if ((world->excused >> claim & 1) != 0)
        return;
    va_start(arguments, format);
    (void)vsnprintf(world->told.wrong, sizeof world->told.wrong, format, arguments);
    va_end(arguments);
    world->told.broken = claim;
    world_say("WRONG: %s", world->told.wrong);
    longjmp(world->over, 1);
}

/* ---- Events: a heap, the earliest first; of two at the same time, the one planned first. */

static bool is_before(const struct event *one, const struct event *other)
{
    return one->at != other->at ? one->at < other->at : one->order < other->order;
}

void world_plan(uint64_t at, void (*run)(unsigned argument), unsigned argument)
{
    struct event *const heap = world->events;
    const struct event new = {at < world->now ? world->now : at, world->order++, run, argument};
    unsigned place = world->planned++;

    if (world->planned > EVENTS)
        abort();
    for (; place != 0 && is_before(&new, &heap[(place - 1) / 2]); place = (place - 1) / 2)
        heap[place] = heap[(place - 1) / 2];
    heap[place] = new;
}

static struct event take_first(void)
{
    struct event *const heap = world->events;
    const struct event first = heap[0], last = heap[--world->planned];
    unsigned place = 0;

    for (unsigned below = 1; below < world->planned; below = 2 * place + 1) {
        if (below + 1 < world->planned && is_before(&heap[below + 1], &heap[below]))
            below++;
        if (!is_before(&heap[below], &last))
            break;
        heap[place] = heap[below];
        place = below;
    }
    heap[place] = last;
    return first;
}

uint64_t world_next(void)
{
    return world->planned == 0 || world->events[0].at > world->end ? world->end
                                                                   : world->events[0].at;
}

void world_step(void)
{
    world->now = world_next();
    if (world->now == world->end)
        longjmp(world->over, 1);
    const struct event event = take_first();
    event.run(event.argument);
}

void world_pass(uint64_t duration)
{
    const uint64_t until = world->now + duration;

    while (world_next() <= until)
        world_step();
    world->now = until;
}

void world_begin(uint64_t seed)
{
    world->seed = seed;
    world->told.hash = UINT64_C(14695981039346656037);
    world->random = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
    for (unsigned i = 0; i < 8; i++)
        (void)world_chance(2);
}
