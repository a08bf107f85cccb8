/* Watches nodes on an ATmega328P: lights lamps and opens relays.   SPDX-License-Identifier: MIT
 *
 * watch_atmega328p.md describes how to wire, set and try it. It is linked with an agent, which has
 * timestamps in seconds: serial_agent.c on a serial line, can_avr.c on a CAN bus.
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
enum { NONE = 8 }; /* this pin means no lamp, or no relay */
enum { OPEN = 0, CLOSED = 1 };

/* The relays, and the position of their contacts in each situation in which a node may not be
 * alive. While all nodes of a relay are alive, it has the other position than after a death. The
 * wiring gives the first two: watch_atmega328p.md. A choice that a reset or a loss of power would
 * turn into chatter does not compile; so OPEN and CLOSED cannot be swapped by mistake. */
/* clang-format off */
#define RELAYS(relay) \
    /*    name,  pin, without power, in reset, before all nodes were heard, after a death */ \
    relay(MOTOR,   0,          OPEN,     OPEN,                        OPEN,         OPEN) \
    relay(LOAD,    1,          OPEN,     OPEN,                        OPEN,         OPEN)

/* The nodes. The times are in seconds. dumpulse_watch.h has what the numbers mean. A lamp is a pin
 * of the port, 0 to 5. Nodes may share lamps and relays. */
#define NODES(node) \
    node(variable(5), silence(2), misses(3), grace(5), values(10, 120), lamp(5), relay(MOTOR)) \
    node(variable(10), silence(5), misses(2), grace(10), values(0, 255), lamp(5), relay(LOAD)) \
    node(variable(12), silence(1), misses(4), grace(12), values(0, 1), lamp(4), relay(NONE))
/* clang-format on */

/* A lamp and a relay in a wrong order do not compile, because only these names exist. */
#define LAMP_lamp(pin) ((uint8_t)_BV(pin))
#define RELAY_relay(pin) ((uint8_t)_BV(pin))
#define LINE(variable, silence, misses, grace, values, lamp, relay)                                \
    DUMPULSE_WATCHED(variable, silence, misses, grace, values),
#define PINS(variable, silence, misses, grace, values, lamp, relay) {LAMP_##lamp, RELAY_##relay},
#define OR_LAMP(variable, silence, misses, grace, values, lamp, relay) | LAMP_##lamp
#define OR_RELAY(variable, silence, misses, grace, values, lamp, relay) | RELAY_##relay

#define NAME(name, pin, unpowered, reset, unheard, dead) name = (pin),
#define OR_PIN(name, pin, unpowered, reset, unheard, dead) | _BV(pin)
#define PLUS_PIN(name, pin, unpowered, reset, unheard, dead) +(1UL << (pin))
/* The pin of a relay is high while its coil has current. Without power, no coil has any. */
#define OR_ENERGISED(name, pin, unpowered, reset, unheard, dead)                                   \
    | ((unpowered) == (dead) ? (uint8_t)_BV(pin) : 0)
#define OR_UNHEARD_AS_DEAD(name, pin, unpowered, reset, unheard, dead)                             \
    | ((unheard) == (dead) ? (uint8_t)_BV(pin) : 0)
#define CHECK(name, pin, unpowered, reset, unheard, dead)                                          \
    _Static_assert((unheard) <= (dead), "relay " #name ": each reset would close it again, "       \
                                        "although its node is dead");                              \
    _Static_assert((reset) <= (unheard), "relay " #name ": each reset would close it for a "       \
                                         "moment, and open it before its node is heard");          \
    _Static_assert((unpowered) <= (reset), "relay " #name ": each loss of power would close it, "  \
                                           "and the reset after it would open it");
RELAYS(CHECK)

enum { RELAYS(NAME) };
DUMPULSE_WATCH(watch, NODES(LINE));
static const struct {
    uint8_t lamp, relay; /* bits of the port */
} pins[] PROGMEM = {NODES(PINS)};
enum { COUNT = sizeof pins / sizeof pins[0] };
enum { LAMP_PINS = 0 NODES(OR_LAMP), RELAY_PINS = 0 NODES(OR_RELAY) };
enum { ENERGISED = 0 RELAYS(OR_ENERGISED), UNHEARD_AS_DEAD = 0 RELAYS(OR_UNHEARD_AS_DEAD) };
_Static_assert((LAMP_PINS | RELAY_PINS) <= 0x3F, "the port has the pins 0 to 5");
_Static_assert((LAMP_PINS & RELAY_PINS) == 0, "a pin cannot have a lamp and a relay");
_Static_assert(RELAY_PINS == (0 RELAYS(OR_PIN)),
               "a relay has no node, or a node one without a line");
_Static_assert(RELAY_PINS == 0 RELAYS(PLUS_PIN), "two relays have one pin");
#ifndef WATCH_ON_C
_Static_assert((RELAY_PINS & _BV(5)) == 0, "the boot loader of a Uno blinks PB5: no relay there");
#endif

static bool changed;

void dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was, dumpulse_state is)
{
    (void)context, (void)variable, (void)was, (void)is;
    changed = true; /* the pins follow after the look, once for all that changed in it */
}

/* Lights a lamp if something is wrong with one of its nodes. A relay takes the position of its line
 * if one of its nodes is dead or missing, or has sent nothing yet, and the other one if all are
 * alive. Values out of range and nodes that are late do not move it. */
static void set_pins(void)
{
    uint8_t lit = 0, moved = 0, held = 0;
    for (uint8_t i = 0; i != COUNT; i++) {
        const dumpulse_state state = watch.seen[i].state;
        uint8_t relay = pgm_read_byte(&pins[i].relay);
        if (state == DUMPULSE_WAITING)
            relay = (uint8_t)(relay & UNHEARD_AS_DEAD);
        else if (state != DUMPULSE_ALIVE)
            lit |= pgm_read_byte(&pins[i].lamp);
        if (state < DUMPULSE_ALIVE || state == DUMPULSE_DEAD) /* also waiting and missing */
            moved |= relay;
        else if (state != DUMPULSE_ALIVE)
            held |= relay;
    }
    moved |= (uint8_t)(held & (PORT ^ ENERGISED));
    PORT = (uint8_t)(lit | (ENERGISED ^ moved)); /* one write, so no relay moves in between */
}

void watch_start(void)
{
    set_pins();
    DIRECTION = LAMP_PINS | RELAY_PINS;
}

void watch_nodes(dumpulse *agent, bool received)
{
    static uint16_t looked;
    const uint16_t now = dumpulse_get_timestamp();
    if (now == looked && !received)
        return;
    looked = now;
    dumpulse_watch(&watch, agent, now);
    if (changed)
        set_pins();
    changed = false;
}
