/* What keys add to an agent, on any chip.   SPDX-License-Identifier: MIT
 *
 * spec/keyed.md has version 2 of the protocol. keyed_avr.c or stm32_flash.h has the keys and the
 * number, and the image receives from the nodes. With -DUNKEYED=5,6 the nodes of these variables
 * send version 1.
 *
 * A beacon has to wait while a report, or another beacon, leaves. So each label has a bit here.
 */
#include "keyed.h"

enum { LABELS = DUMPULSE_READER_LABEL + 1, IS_REQUEST = 0x80 + DUMPULSE_READER_LABEL };
enum { TURNS = 10 }; /* turns between the beginnings of two labels' epochs */
/* In each turn, one question or rejected request may be answered, and after a pause some at once.
 * This is less than 100 in any second. */
enum { MOST_ANSWERS = 16 };

bool keyed_has_begun;
static dumpulse_beginning beginning; /* the last result, if the agent has not begun */

/* ---- Beacons ----------------------------------------------------------------------------- */

static uint8_t answers;                 /* requests that may be answered now */
static uint8_t pending[LABELS / 8 + 1]; /* a bit for each label whose beacon still has to leave */
static bool may_be_pending;             /* false: no bit is set */

static void add_beacon(uint8_t label)
{
    pending[label / 8] = (uint8_t)(pending[label / 8] | 1U << label % 8);
    may_be_pending = true;
}

/* Sends one of them. */
static void send_beacon(const keyed_agent *keyed)
{
    for (uint8_t label = 0; label != LABELS; label++) {
        const uint8_t bit = (uint8_t)(1U << label % 8);
        if ((pending[label / 8] & bit) != 0) {
            pending[label / 8] &= (uint8_t)~bit;
            dumpulse_keyed_beacon(keyed, label, NULL);
            return;
        }
    }
    may_be_pending = false;
}

/* Begins the epoch of the next label. This does not wait until its beacon can leave: otherwise
 * an attacker who disturbs the bus could make an epoch longer, and its heartbeats would be accepted
 * for longer. */
static void begin_next(keyed_agent *keyed)
{
    const bool sends = keyed_may_send();

    if (!sends)
        add_beacon(keyed->reached == LABELS ? 0 : keyed->reached);
    (void)dumpulse_keyed_next(keyed, sends ? NULL : KEYED_NO_BEACON);
}

/* If the agent has not begun, an LED flashes as often as the result of dumpulse_keyed_begin(),
 * a quarter of a second each time, and again after 4 seconds. */
static void pass_turn(keyed_agent *keyed)
{
    static uint8_t passed, of_label;

    if (passed == keyed_turns())
        return;
    passed++;
    keyed_show((passed & 0x10) != 0 && passed / 0x20 < beginning);
    if (answers != MOST_ANSWERS)
        answers++;
    if (++of_label == TURNS) {
        of_label = 0;
        begin_next(keyed);
    }
}

/* ---- The agent --------------------------------------------------------------------------- */

static uint8_t request[DUMPULSE_PACKET_SIZE];
static bool request_waits;

/* The agent begins a second after a reset: so a chip that is reset all the time stores no number.
 * The beacons of all labels are sent as fast as they can leave. */
void keyed_each_second(keyed_agent *keyed)
{
    if (keyed_has_begun)
        return;
    beginning = dumpulse_keyed_begin(keyed);
    keyed_has_begun = beginning == DUMPULSE_BEGUN;
    for (uint8_t label = 0; keyed_has_begun && label != LABELS; label++)
        add_beacon(label);
}

#ifdef UNKEYED
static const uint8_t variables[] = {UNKEYED}; /* their nodes send version 1 */
#endif

static bool is_unkeyed(uint8_t label)
{
#ifdef UNKEYED
    for (uint8_t i = 0; i != sizeof variables; i++)
        if (variables[i] == label)
            return true;
#endif
    (void)label;
    return false;
}

/* Processes a packet that costs no answer, or whose answer can leave now. */
static dumpulse_result process(keyed_agent *keyed, const uint8_t *packet)
{
#ifdef UNKEYED
    uint8_t unkeyed[DUMPULSE_VARIABLES / 8] = {0}; /* a bit for each */

    for (uint8_t i = 0; i != sizeof variables; i++)
        if (variables[i] < DUMPULSE_VARIABLES)
            unkeyed[variables[i] / 8] |= (uint8_t)(1U << variables[i] % 8);
    return dumpulse_mixed_process(keyed, unkeyed, packet, DUMPULSE_PACKET_SIZE, NULL);
#else
    return dumpulse_keyed_process(keyed, packet, DUMPULSE_PACKET_SIZE, NULL);
#endif
}

/* Frames on a bus do not show their sender, so all questions have one rate limit. Other packets
 * have none. */
dumpulse_result keyed_process(keyed_agent *keyed, const uint8_t *packet)
{
    const bool requests = packet[4] == IS_REQUEST;
    /* process() would answer a wrong request at once: to make a beacon that must not leave would
     * double what such a request costs. */
    const dumpulse_result result = requests
                                       ? dumpulse_keyed_try(keyed, packet, DUMPULSE_PACKET_SIZE)
                                       : dumpulse_keyed_look(keyed, packet, DUMPULSE_PACKET_SIZE);

    if (result == DUMPULSE_ASKS && is_unkeyed(packet[4] % 128))
        return DUMPULSE_REFUSED;
    if (result == DUMPULSE_ASKS ||
        (requests && (result == DUMPULSE_OLD || result == DUMPULSE_WRONG_TAG))) {
        if (answers != 0) {
            answers--;
            add_beacon(packet[4] % 128);
        }
        return result;
    }
    if (requests && !keyed_may_send()) {
        request_waits = true;
        for (uint8_t i = 0; i != sizeof request; i++)
            request[i] = packet[i];
        return DUMPULSE_REFUSED;
    }
    return process(keyed, packet);
}

void keyed_go_on(keyed_agent *keyed)
{
    pass_turn(keyed);
    if (request_waits && keyed_may_send()) {
        request_waits = false;
        (void)keyed_process(keyed, request);
    }
    if (may_be_pending && keyed_may_send())
        send_beacon(keyed);
}
