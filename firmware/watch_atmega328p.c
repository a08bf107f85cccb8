/* Watches nodes on an ATmega328P: lights lamps and cuts relays.   SPDX-License-Identifier: MIT
 *
 * watch_atmega328p.md says how to wire, set and try it. This file is only what is done about the
 * nodes. It is linked with an agent: uart_atmega328p.c hears the nodes on a serial line, can_avr.c
 * on a CAN bus. Both have timestamps in seconds.
 */
#include <avr/io.h>
#include <avr/pgmspace.h>

#include "dumpulse_watch.h"
#include "watch.h"

#ifdef WATCH_ON_C /* can_avr.c needs port B for the CAN controller */
#define PORT PORTC
#define DIRECTION DDRC
#else
#define PORT PORTB
#define DIRECTION DDRB
#endif
enum { NONE = 8 }; /* as a pin: no lamp, or no relay */
#ifndef WATCH_OPEN
#define WATCH_OPEN 0 /* 1: relays stay open until each of their nodes was heard */
#endif
#ifndef WATCH_RESETS
#define WATCH_RESETS 0 /* 1: the watchdog is not fed while a node is dead or missing */
#endif

/* The nodes. The times are in seconds. dumpulse_watch.h says what the first six numbers mean. Lamp
 * and relay are pins of the port, 0 to 5. Nodes may share them. */
/* clang-format off */
#define NODES(node) \
    /* variable, silence, misses, grace, lowest, highest, lamp, relay */ \
    node(     5,       2,      3,     5,     10,     120,    5,     0) \
    node(    10,       5,      2,    10,      0,     255,    5,     1) \
    node(    12,       1,      4,    12,      0,       1,    4,  NONE)
/* clang-format on */

#define LINE(variable, silence, misses, grace, lowest, highest, lamp, relay)                       \
    DUMPULSE_WATCHED(variable, silence, misses, grace, lowest, highest),
#define PINS(variable, silence, misses, grace, lowest, highest, lamp, relay)                       \
    {(uint8_t)_BV(lamp), (uint8_t)_BV(relay)},
#define OR_LAMP(variable, silence, misses, grace, lowest, highest, lamp, relay) | (uint8_t)_BV(lamp)
#define OR_RELAY(variable, silence, misses, grace, lowest, highest, lamp, relay)                   \
    | (uint8_t)_BV(relay)

DUMPULSE_WATCH(watch, NODES(LINE));
static const struct {
    uint8_t lamp, relay; /* bits of the port */
} pins[] PROGMEM = {NODES(PINS)};
enum { COUNT = sizeof pins / sizeof pins[0] };
enum { LAMPS = 0 NODES(OR_LAMP), RELAYS = 0 NODES(OR_RELAY) };
_Static_assert((LAMPS | RELAYS) <= 0x3F, "the port has the pins 0 to 5");
_Static_assert((LAMPS & RELAYS) == 0, "a pin cannot have a lamp and a relay");

static bool changed;

void dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was, dumpulse_state is)
{
    (void)context, (void)variable, (void)was, (void)is;
    changed = true; /* the pins follow after the look, once for all that changed in it */
}

/* A lamp is lit if something is wrong with one of its nodes. A relay is cut if one of its nodes is
 * silent for too long, or has never spoken when its grace is over. */
static void set_pins(void)
{
    uint8_t lit = 0, closed = RELAYS;
    for (uint8_t i = 0; i != COUNT; i++) {
        const dumpulse_state state = watch.seen[i].state;
        if (state != DUMPULSE_WAITING && state != DUMPULSE_ALIVE)
            lit |= pgm_read_byte(&pins[i].lamp);
        if (state == DUMPULSE_MISSING || state == DUMPULSE_DEAD ||
            (WATCH_OPEN && state == DUMPULSE_WAITING))
            closed &= (uint8_t)~pgm_read_byte(&pins[i].relay);
    }
    PORT = lit | closed; /* in one step, so no relay moves in between */
}

void watch_start(void)
{
    set_pins();
    DIRECTION = LAMPS | RELAYS;
}

bool watch_is_well(void)
{
    const dumpulse_state worst = dumpulse_watch_worst(&watch);
    return !WATCH_RESETS || (worst != DUMPULSE_MISSING && worst != DUMPULSE_DEAD);
}

void watch_nodes(dumpulse *agent, bool heard)
{
    static uint16_t looked;
    const uint16_t now = dumpulse_get_timestamp();
    if (now == looked && !heard)
        return;
    looked = now;
    dumpulse_watch(&watch, agent, now);
    if (changed)
        set_pins();
    changed = false;
}
