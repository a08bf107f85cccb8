/* Dumpulse with keys: version 2 of the protocol.   SPDX-License-Identifier: MIT
 *
 * An agent rejects heartbeats that were forged, replayed or delayed beyond their epoch,
 * and a reader rejects such reports. spec/keyed.md, in the project's repository, has
 * every byte, and what each role keeps. Read "What 8 bytes cannot do" there before you
 * rely on this. A device that includes only dumpulse.h pays nothing for this file.
 *
 * WHO NEEDS WHAT
 *   A role is a set of files. Compile those of your role. Or compile all of them, into a
 *   static library, or with -ffunction-sections and -Wl,--gc-sections: then what a program
 *   does not call is left out, and its hooks are not needed. No macro changes what they
 *   do. An agent does not need dumpulse.c.
 *
 *   role                    files: dumpulse_tag.c, and     hooks
 *   agent                   dumpulse_agent.c               key, load, store, clock, send
 *                           dumpulse_report.c
 *   the same, and nodes     dumpulse_mixed.c               the same
 *   of version 1            and dumpulse.c, too
 *   node                    dumpulse_node.c                key
 *   reader                  dumpulse_node.c                key
 *                           dumpulse_reader.c
 *                           dumpulse_report.c
 *
 *   For AVR, compile dumpulse_tag_avr.S, too. A program with the master key needs
 *   dumpulse_master.c. dumpulse_slots.c keeps the number in an EEPROM or in flash. The clock and
 *   the way to send are the hooks of dumpulse.h.
 *
 * AN AGENT, IN SHORT
 *   static dumpulse_keyed keyed;                   starts as zeros
 *   dumpulse_keyed_begin(&keyed);                  after each reset; accepts nothing before
 *   dumpulse_keyed_next(&keyed, bus);              65 of these are an epoch: a quick one with
 *                                                  10 ms each, as all nodes wait; then 154 ms
 *   dumpulse_keyed_process(&keyed, packet, 8, bus);
 *   The table is keyed.agent. The functions of dumpulse.h and dumpulse_watch.h that
 *   take a dumpulse take &keyed.agent: dumpulse_record() for the agent's own
 *   variables, dumpulse_read_entry(), dumpulse_watch(). Only dumpulse_process_packet()
 *   must not be called for it: it would accept packets without a key.
 *   A node that cannot receive sends version 1. If some of yours do, call
 *   dumpulse_mixed_process() instead of dumpulse_keyed_process(), with a list of their
 *   variables. Anyone can forge the heartbeats of these variables.
 *
 * A NODE, IN SHORT
 *   static dumpulse_node node;                     starts as zeros
 *   static const dumpulse_pace pace = {10000, 1000, 3, MY_ADDRESS};
 *   for (;;) {
 *       if (receive(packet))                       waits for a packet, but not for long
 *           dumpulse_hear(&node, 3, packet, 8);
 *       while (dumpulse_node_tick(&node, &pace, milliseconds(), battery_volts, packet))
 *           send(packet);
 *   }
 *
 * A READER, IN SHORT
 *   static dumpulse_reader reader;                 starts as zeros
 *   dumpulse_ask(packet, DUMPULSE_READER_LABEL), and send that
 *   dumpulse_hear(&reader.heard, DUMPULSE_READER_LABEL, answer, length)
 *   if (dumpulse_keyed_request(&reader, packet, nonce)) send it
 *   if (dumpulse_keyed_check(&reader, &report, length)) it is accepted
 *   If a beacon comes instead of a report, hear it, and make a request with another
 *   nonce: at most twice if dumpulse_hear() returned true. If it returned false, another
 *   reader has used this count: after n of these, subtract n / 2 from reader.heard.left
 *   first, as far as it goes. To believe nothing older after a reset either, keep
 *   reader.heard.epoch, and begin with a reader in which it is smaller by 1.
 *
 * WHAT BREAKS IF A HOOK IS WRONG
 *   key     If two agents have the same master key, each of them accepts what was sent
 *           to the other. If a key is known, spec/keyed.md says what is lost.
 *   store   It must return true only when the number will be read after a reset at
 *           any moment from now on. If it returns true too early, or for a number
 *           that is not there, old heartbeats are accepted after the next reset.
 *   load    It must give the last number that was stored. If the power failed while
 *           one was stored, it must give that one or the one before. If it gives an
 *           older one, old heartbeats are accepted. If it gives a larger one, that
 *           is safe. If it cannot read the number, it must give DUMPULSE_UNREADABLE,
 *           and not a guess and not 0.
 *   dumpulse_slots_read() and its companion do all this with 12 bytes of an EEPROM, and
 *   dumpulse_flash_read() with two pages of flash.
 *   Before the first start, the number must be there: 0.
 *
 * TRUST, LIFETIME, INTERRUPTS, WORK
 *   As in dumpulse.h. Make only one call at a time for one object: process, next,
 *   beacon and begin of an agent must not interrupt each other. Every loop has a fixed
 *   bound. No branch and no address depends on a key, and a tag is compared in a time
 *   that does not depend on it.
 *   A packet that has to be checked costs one run of Chaskey-12, and one more if the key
 *   hook calls dumpulse_label_key(). Others cost none, but an answer with a beacon costs
 *   as much: dumpulse_keyed_look() says which packets get one.
 *
 * GUESSES
 *   A tag has 32 bits. spec/keyed.md says how long guesses take to find one, for one forged
 *   heartbeat of one epoch. keyed.wrong counts the wrong tags of an epoch.
 */
#ifndef DUMPULSE_KEYED_H
#define DUMPULSE_KEYED_H

#include "dumpulse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of this interface, which is experimental; the protocol with keys is version 2. */
#define DUMPULSE_KEYED_VERSION "0.2.0"

/* The labels are 0 to 63, of the variables, and this one. */
#define DUMPULSE_READER_LABEL 64U
#define DUMPULSE_KEYED_REPORT_SIZE 264U /* 8 bytes of tag, 64 entries of 4 */

/* What became of a packet, more than DUMPULSE_REFUSED, DUMPULSE_HEARTBEAT and DUMPULSE_REPORT.
 * DUMPULSE_REFUSED means here: it is not for this agent, as it has another length or kind. If a
 * request is old or has a wrong tag, a beacon was sent. Only a wrong tag can be a guess. */
enum {
    DUMPULSE_OLD = 3,       /* its count is not larger than the last one */
    DUMPULSE_WRONG_TAG = 4, /* Another key or epoch, damage, or a guess. */
    DUMPULSE_NOT_BEGUN = 5, /* the agent has no epoch: dumpulse_keyed_begin() says why */
    DUMPULSE_ASKS = 6,      /* a question, whose beacon was sent; it has no tag */
    DUMPULSE_NEW = 7        /* only of look and try: nothing but its tag can be wrong */
};

/* Whether an agent has begun, or why not. Only DUMPULSE_NOT_STORED may end by itself. */
typedef uint8_t dumpulse_beginning;
enum {
    DUMPULSE_BEGUN = 0,
    DUMPULSE_NOT_STORED = 1, /* the store hook has failed */
    DUMPULSE_NO_NUMBER = 2,  /* no number was ever stored, or it cannot be read */
    DUMPULSE_USED_UP = 3     /* the epochs of this master key: it needs a new one */
};

/* An agent. Starts as zeros. An epoch does not begin for all labels at once: each begins it when
 * its beacon is sent for the first time, one label after the other. */
typedef struct dumpulse_keyed {
    uint32_t epoch; /* the largest one: of labels that have reached it */
    uint8_t
        reached;   /* labels below this are in the epoch, others in the one before; 0: not begun */
    uint8_t wrong; /* tags in this epoch, modulo 256 */
    uint8_t last[DUMPULSE_VARIABLES + 1]; /* the last counts: of the variables, of the readers */
    uint32_t tag;                         /* First half of the report's tag, as it is sent. */
    dumpulse agent;                       /* The rest of the report. */
} dumpulse_keyed;

/* A node. Starts as zeros. */
typedef struct dumpulse_node {
    uint32_t epoch;       /* the agent's; 0: none is known */
    uint8_t left;         /* Heartbeats that can still be made in this epoch. */
    uint8_t questions;    /* that no beacon has answered */
    bool heard;           /* its beacon, since the last tick */
    uint8_t answered;     /* questions, by the beacon of a later epoch: so a heartbeat is due */
    uint16_t waits_since; /* when the last beacon came, or the last question left */
    uint16_t beat_at;     /* when the last heartbeat was made */
} dumpulse_node;

/* What a node is told. Times have a unit of yours, of which an epoch has 8 to 50000, and a period
 * at most 50000: milliseconds, for example. */
typedef struct dumpulse_pace {
    uint16_t epoch;   /* Length of the agent's epochs, ticks. */
    uint16_t period;  /* Time between two heartbeats, ticks. */
    uint8_t variable; /* the node's */
    uint8_t sender;
} dumpulse_pace;

/* Room for a report. */
typedef struct dumpulse_keyed_report {
    uint32_t tag;   /* First half of the report's tag. */
    dumpulse agent; /* The rest: the other half, and the entries. */
} dumpulse_keyed_report;

/* A reader. Starts as zeros. */
typedef struct dumpulse_reader {
    dumpulse_node heard;
    uint32_t epoch;                      /* Epoch of the last request; 0 if none waits. */
    uint8_t asked[DUMPULSE_PACKET_SIZE]; /* the last request */
} dumpulse_reader;

/* Hook, written by the user: gives the key of a label, 0 to 64. It gets room for the key that is
 * aligned as a uint32_t. Whoever has the master key copies the master key into this room, and calls
 * dumpulse_label_key() with it. */
void dumpulse_get_key(uint8_t key[16], uint8_t label);

/* Makes the key of a label out of the master key, in place. The room must be aligned as a uint32_t:
 * at other addresses, a Cortex-M may stop. The hook's room is. The generation is 0 at first: a node
 * that gets a new key gets the next one.
 * Work: one run of Chaskey-12. */
void dumpulse_label_key(uint8_t key[16], uint8_t label, uint8_t generation);

/* What the load hook returns if there is no number. */
#define DUMPULSE_UNREADABLE 0xFFFFFFUL

/* Hook, written by the user: returns the number of 24 bits that was stored. */
uint32_t dumpulse_load(void);

/* Hook, written by the user: stores this number. Returns whether it is stored. */
bool dumpulse_store(uint32_t number);

/* ---- An agent. */

/* Begins after a reset: loads the number, stores the next one, and begins the first epoch of its
 * block for all labels. It sends nothing: the next 65 calls of dumpulse_keyed_next() do.
 * If it returns another result than DUMPULSE_BEGUN, nothing is accepted: the firmware should show
 * that. Call it again later, but not more often than once a second.
 * Work: the load and the store hook. */
dumpulse_beginning dumpulse_keyed_begin(dumpulse_keyed *keyed);

/* Goes on: begins the epoch of the next label, and sends its beacon. After the last label comes the
 * first one of the next epoch. Returns false if the next block could not be stored, or if all
 * epochs are used up. Then the epoch goes on: call it again.
 * Work: one tag, the send hook; every 16640th time the store hook. */
bool dumpulse_keyed_next(dumpulse_keyed *keyed, void *context);

/* Sends the beacon of a label again, if the agent has begun. Work: one tag, the send hook. */
void dumpulse_keyed_beacon(const dumpulse_keyed *keyed, uint8_t label, void *context);

/* Takes a packet from the network, and does what it asks for. The context is for the send hook,
 * which gets a report of DUMPULSE_KEYED_REPORT_SIZE bytes, or a beacon of 8. */
dumpulse_result dumpulse_keyed_process(dumpulse_keyed *keyed, const uint8_t *packet, size_t length,
                                       void *context);

/* Forgets the last count of a variable, which must have a new key now. */
void dumpulse_keyed_renew(dumpulse_keyed *keyed, uint8_t variable);

/* What would become of a packet of 8 bytes, as far as that can be said without a tag:
 * DUMPULSE_REFUSED, _NOT_BEGUN, _ASKS, _OLD or _NEW. So an agent that limits how many beacons it
 * sends need not repeat these checks. Work: nothing is changed, and no hook is called. */
dumpulse_result dumpulse_keyed_look(const dumpulse_keyed *keyed, const uint8_t *packet,
                                    size_t length);

/* As dumpulse_keyed_look(), and looks at the tag, too. If that is wrong, it counts as in
 * dumpulse_keyed_process(): DUMPULSE_WRONG_TAG. After DUMPULSE_NEW, that takes the packet. This is
 * for an agent that limits the beacons which answer wrong requests, too. Work: one tag. */
dumpulse_result dumpulse_keyed_try(dumpulse_keyed *keyed, const uint8_t *packet, size_t length);

/* ---- An agent, some of whose nodes cannot receive. They send version 1. */

/* As dumpulse_keyed_process(), but the variables in `unkeyed` are accepted in version 1, and not in
 * version 2. Variable v is bit v % 8 of unkeyed[v / 8]. Requests have a key all the same. Reports
 * are authenticated, but these entries in them are not: anybody could have set them. */
dumpulse_result dumpulse_mixed_process(dumpulse_keyed *keyed,
                                       const uint8_t unkeyed[DUMPULSE_VARIABLES / 8],
                                       const uint8_t *packet, size_t length, void *context);

/* ---- Nodes. */

/* For a node, and for a reader: takes a packet. Returns whether it is the beacon of a later epoch
 * for this label. Then heartbeats of this epoch can be made. */
bool dumpulse_hear(dumpulse_node *node, uint8_t label, const uint8_t *packet, size_t length);

/* Makes a question for the beacon of a label. It needs no key. */
void dumpulse_ask(uint8_t packet[DUMPULSE_PACKET_SIZE], uint8_t label);

/* Makes the next heartbeat. Returns false, and makes none, if there is no epoch yet, if 255 were
 * made in this one, or if the variable is not below 64. */
bool dumpulse_keyed_heartbeat(dumpulse_node *node, uint8_t packet[DUMPULSE_PACKET_SIZE],
                              uint8_t variable, uint8_t sender, uint8_t value);

/* Makes what is due: a heartbeat in each period, and at once when a question was answered; or a
 * question if the node has no epoch, no counts left, or no beacon for a quarter more than an epoch,
 * two for each epoch in which no beacon comes. After 30 epochs without a beacon it forgets its
 * epoch: spec/keyed.md says why. Call it until it returns false, and then again when time has
 * passed or a packet has come. Now is a clock that wraps. Work: one tag. */
bool dumpulse_node_tick(dumpulse_node *node, const dumpulse_pace *pace, uint16_t now, uint8_t value,
                        uint8_t packet[DUMPULSE_PACKET_SIZE]);

/* ---- A reader. */

/* Makes a request. The nonce must be new and unpredictable. Returns false, and makes
 * none, if no beacon was heard yet, or if 255 requests were made in this epoch. To leave out counts
 * that other readers have used, subtract from reader->heard.left. */
bool dumpulse_keyed_request(dumpulse_reader *reader, uint8_t packet[DUMPULSE_PACKET_SIZE],
                            const uint8_t nonce[2]);

/* Is it the report that was asked for? It has been received into this room, and `length` bytes
 * came. It is accepted once, and not after the beacon of a later epoch was heard: then ask again.
 * Then dumpulse_read_entry(report->agent.report, variable) reads its entries. The tag is written
 * to, but in the end it is as before. */
bool dumpulse_keyed_check(dumpulse_reader *reader, dumpulse_keyed_report *report, size_t length);

/* ---- A number in 12 bytes of memory: two slots of 6 bytes, each with the number, big-endian, and
 * the same inverted: 800001 is 80 00 01 7f ff fe. Memory is a copy of these 12 bytes. If the power
 * fails in a write, the number is the old one or the new one. If it fails in the next write, too,
 * the number may become larger. It never becomes smaller. */

enum { DUMPULSE_SLOT_SIZE = 6 };

/* Reads the number. DUMPULSE_UNREADABLE: it cannot be read. */
uint32_t dumpulse_slots_read(const uint8_t memory[2 * DUMPULSE_SLOT_SIZE]);

/* Makes the slot for a number. Returns at which of the 12 bytes it must be written: 0 or 6. Write
 * its bytes in order, and read them back before you say that they are stored. */
uint8_t dumpulse_slots_write(const uint8_t memory[2 * DUMPULSE_SLOT_SIZE],
                             uint8_t slot[DUMPULSE_SLOT_SIZE], uint32_t number);

/* ---- A number in two pages of flash, one behind the other: `size` is that of one, a power of 2.
 * Each number is a record of 8 bytes, 4 big-endian ones and the same inverted, behind the last one.
 * A page is erased only when the other one is full: with 1,024 bytes, once for 256 numbers. Blank
 * flash may be ff or 00. Whenever the power fails, also in an erasure, the number is the old one or
 * the new one. */

enum { DUMPULSE_RECORD_SIZE = 8 };

/* Reads the number. DUMPULSE_UNREADABLE: there is none. */
uint32_t dumpulse_flash_read(const uint8_t *pages, size_t size);

/* Makes the record for a number. Returns at which byte it must be written. If that is the first
 * byte of a page, 0 or `size`, erase this page first. Write the bytes in order, in units of up to
 * 8, and read them back before you say that they are stored. */
size_t dumpulse_flash_write(const uint8_t *pages, size_t size, uint8_t record[DUMPULSE_RECORD_SIZE],
                            uint32_t number);

/* ------------------------------------------------------------------------------
 * The manual ends here.
 */

/* Byte 4 of a packet tells its kind. Beacons have less than the first value there, heartbeats at
 * least the second one. What is between them is reserved. */
enum {
    DUMPULSE_BEACON_END_ = 0x20,
    DUMPULSE_IS_HEARTBEAT_ = 0x80 /* Heartbeats, requests and questions begin here. */
};
/* The largest count: so many heartbeats can be made in an epoch. */
enum { DUMPULSE_FULL_ = 255 };
#define DUMPULSE_EPOCH_LAST_ 0x1FFFFFFFUL

/* dumpulse_tag.c. The tag of a packet: by the key of this label, over the label, a number, and
 * bytes 4 to 7. Bytes 0 to 3 have it, the lowest byte of the result first. A chip with AES or a
 * secure element may have another tag: then write these five, instead of dumpulse_tag.c, for all of
 * an agent's nodes and readers. It is not version 2 any more. */
bool dumpulse_right_(const uint8_t *packet, uint8_t label, uint32_t number);
void dumpulse_make_(uint8_t *packet, uint8_t label, uint32_t number);

/* The same, and its steps. In it[12], words 0 to 3 are the block, 4 to 7 the key, and 8 to 11 the
 * key doubled; the first four become the tag. */
uint32_t dumpulse_tag_(const uint8_t *packet, uint8_t label, uint32_t number);
void dumpulse_start_tag_(uint32_t it[12], const uint8_t *packet, uint8_t label, uint32_t number);
void dumpulse_double_(uint32_t it[12]);
void dumpulse_last_(uint32_t it[12]);
void dumpulse_permute_(uint32_t state[4]);

/* A number of 32 bits from bytes, and to bytes, the high byte first. */
static inline uint32_t dumpulse_read_(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static inline void dumpulse_write_(uint8_t *bytes, uint32_t number)
{
    bytes[0] = (uint8_t)(number >> 24);
    bytes[1] = (uint8_t)(number >> 16);
    bytes[2] = (uint8_t)(number >> 8);
    bytes[3] = (uint8_t)number;
}

/* The same, the low byte first. */
static inline uint32_t dumpulse_load32_(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Bytes become words, or words bytes. Where the lowest byte comes first, they are that already. */
static inline void dumpulse_to_words_(uint32_t *words)
{
#if defined __BYTE_ORDER__ && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    (void)words;
#else
    uint_fast8_t word;

    for (word = 0; word != 4; word++) {
        words[word] = dumpulse_load32_((const uint8_t *)(words + word));
    }
#endif
}

/* dumpulse_report.c. Writes the tag of the report that answers a request, 8 bytes, to its front. */
void dumpulse_report_tag_(const uint8_t *request, uint32_t number, uint8_t *report);

/* dumpulse_node.c. Makes a heartbeat or a request. At least one must be left. */
void dumpulse_count_(dumpulse_node *node, uint8_t *packet, uint8_t label, uint8_t first,
                     uint8_t second);

#ifdef __cplusplus
}
#endif

#endif /* DUMPULSE_KEYED_H */
