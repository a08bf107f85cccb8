/* Dumpulse with keys: version 2 of the protocol.   SPDX-License-Identifier: MIT
 *
 * Without the key, nobody can speak in another's name: the agent refuses heartbeats
 * that were forged, repeated or held back, and reports are authentic and fresh.
 * spec/keyed.md, in the project's repository, has every byte, what each role keeps,
 * and what 8 bytes cannot do. Read "What 8 bytes cannot do" there before you rely on
 * this. A device that includes only dumpulse.h pays nothing for this file.
 *
 * WHO NEEDS WHAT
 *   All compile dumpulse_keyed.c, and write hooks. An agent does not need dumpulse.c.
 *   libdumpulse.a does not have dumpulse_keyed.c, as it depends on the SETTINGS below:
 *   compile it with your program. `pkg-config --variable=keyed dumpulse` says where it
 *   was installed.
 *
 *   role                    functions                          hooks
 *   agent                   dumpulse_keyed_begin, _tick,       key, load, store, clock,
 *                           _beacon, _process                  send
 *   node that hears         dumpulse_hear,                     key
 *                           dumpulse_keyed_heartbeat
 *   node that only sends    dumpulse_sender_begin, _announce,  key, load, store
 *                           dumpulse_keyed_heartbeat
 *   reader                  dumpulse_hear,                     key
 *                           dumpulse_keyed_request, _check
 *
 *   The clock and the way to send are the hooks of dumpulse.h. A linker that leaves
 *   out unused functions (-ffunction-sections, --gc-sections) needs only the hooks of
 *   the role.
 *
 * AN AGENT, IN SHORT
 *   static dumpulse_keyed keyed;                   starts as zeros
 *   dumpulse_keyed_begin(&keyed, bus);             after each reset; nothing is taken before
 *   dumpulse_keyed_tick(&keyed, bus);              every 10 seconds
 *   dumpulse_keyed_beacon(&keyed, bus);            every second
 *   dumpulse_keyed_process(&keyed, packet, 8, bus);
 *   The table is keyed.agent. The functions of dumpulse.h and dumpulse_watch.h that
 *   take a dumpulse take &keyed.agent: dumpulse_record() for the agent's own
 *   variables, dumpulse_read_entry(), dumpulse_watch(). Only dumpulse_process_packet()
 *   must not be called for it: it would take packets without a key.
 *
 * A NODE THAT HEARS, IN SHORT
 *   static dumpulse_node node;                     starts as zeros
 *   dumpulse_hear(&node, packet, 8);               each packet that arrives
 *   if (dumpulse_keyed_heartbeat(&node, packet, 3, MY_ADDRESS, battery_volts)) send it
 *
 * A NODE THAT ONLY SENDS, IN SHORT
 *   static dumpulse_node node;                     starts as zeros
 *   bool ready = dumpulse_sender_begin(&node, 5);  after each reset
 *   dumpulse_sender_announce(&node, packet, 5);    if ready: before the first heartbeat,
 *                                                  and after every 16th. Send it
 *   if (dumpulse_keyed_heartbeat(&node, packet, 5, MY_ADDRESS, battery_volts)) send it
 *   If that returns false, begin again with dumpulse_sender_begin().
 *
 * SETTINGS, the same for all files that include this header
 *   DUMPULSE_ALONE       0 to 64: variables 0 to this - 1 may belong to nodes that
 *                        only send. Each takes 4 bytes of RAM. 0 if it is not defined.
 *   DUMPULSE_NODE        defined: only what nodes need is compiled, which is smaller.
 *   DUMPULSE_LABEL_KEYS  defined: the key hook gives the key of each label. With
 *                        DUMPULSE_NODE it does so, too. Define one of the two for
 *                        nodes and readers: they must not know the master key. If
 *                        neither is defined, the hook gives the master key: that is
 *                        for an agent.
 *   DUMPULSE_OWN_TAG     defined: you write dumpulse_tag_() yourself, for a chip that
 *                        has AES or a secure element. Then it is not version 2 any
 *                        more: all of an agent's nodes and readers must do the same.
 *
 * WHAT BREAKS IF A HOOK LIES
 *   key     If two agents have the same master key, each of them takes what was sent
 *           to the other. If a key is known, spec/keyed.md says what is lost.
 *   store   It must return true only when the number will be read after a reset at
 *           any moment from now on. If it returns true too early, or for a number
 *           that is not there, old heartbeats are taken again after the next reset.
 *   load    It must give the last number that was stored. If the power failed while
 *           one was stored, it must give that one or the one before. If it gives an
 *           older one, old heartbeats are taken again. If it gives a larger one, that
 *           is safe, but a node that only sends may stay deaf. If it cannot read a
 *           number, it must give ff ff ff, and not a guess and not 0.
 *   dumpulse_slots_read() and its companions below do all this with 12 bytes of an
 *   EEPROM. Before the first start, the numbers must be there: for an agent 0 and 0,
 *   for a node that only sends 80 00 00.
 *
 * TRUST, LIFETIME, INTERRUPTS, WORK
 *   As in dumpulse.h. Make only one call at a time for one object: process, tick,
 *   beacon and begin of an agent must not interrupt each other. Every loop has a fixed
 *   bound. No branch and no address depends on a key, and a tag is compared in a time
 *   that does not depend on it.
 *   A packet that has to be checked costs two runs of Chaskey-12 with the master key,
 *   one with DUMPULSE_LABEL_KEYS. Others cost none: dumpulse_keyed_look() says which.
 *   An agent that is flooded should count wrong tags. If there are too many, it should
 *   look at no tag for the rest of the second: see "Limits on failures" in
 *   spec/keyed.md.
 */
#ifndef DUMPULSE_KEYED_H
#define DUMPULSE_KEYED_H

#include "dumpulse.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DUMPULSE_ALONE
#define DUMPULSE_ALONE 0
#endif

/* The labels are 0 to 63, of the variables, and these two. */
#define DUMPULSE_READER_LABEL 64U
#define DUMPULSE_BEACON_LABEL 65U
#define DUMPULSE_KEYED_REPORT_SIZE 264U /* 8 bytes of tag, 64 entries of 4 */

/* What became of a packet, more than DUMPULSE_REFUSED, DUMPULSE_HEARTBEAT and DUMPULSE_REPORT.
 * DUMPULSE_REFUSED means here: it is not for this agent, as it has another length or kind. If a
 * request is old or has a wrong tag, the beacon was sent. Only a wrong tag can be a guess. */
enum {
    DUMPULSE_ANNOUNCE = 3,   /* the number of a node that only sends was stored */
    DUMPULSE_OLD = 4,        /* its count, or its own epoch, is not larger than the last one */
    DUMPULSE_WRONG_TAG = 5,  /* somebody else's, of another epoch, damaged, or a guess */
    DUMPULSE_NOT_BEGUN = 6,  /* the agent has no epoch: see dumpulse_keyed_begin() */
    DUMPULSE_NOT_STORED = 7, /* it is right, but the store hook has failed */
    DUMPULSE_NEW = 8         /* only dumpulse_keyed_look(): all but its tag is right */
};

/* An agent. Starts as zeros. */
typedef struct dumpulse_keyed {
    uint32_t beacon;                      /* the beacon's tag, as it is sent, */
    uint8_t epoch[4];                     /* and the rest of it, the high byte first */
    bool begun;                           /* before that, nothing is taken */
    uint8_t last[DUMPULSE_VARIABLES + 1]; /* the last counts: of the variables, of the readers */
    uint32_t tag;                         /* the first half of the report's tag, as it is sent, */
    dumpulse agent;                       /* and the rest of the report */
#if DUMPULSE_ALONE
    uint8_t own[DUMPULSE_ALONE][4]; /* own epochs of nodes, and a 0; or zeros: the node hears */
#endif
} dumpulse_keyed;

/* A node. Starts as zeros. */
typedef struct dumpulse_node {
    uint8_t epoch[4]; /* the agent's, the high byte first; or the node's own, and then a 0 */
    uint8_t left;     /* how many heartbeats can be made in this epoch */
} dumpulse_node;

/* Room for a report. It begins at an address for words. */
typedef struct dumpulse_keyed_report {
    uint32_t tag;   /* the first half of its tag, */
    dumpulse agent; /* and the rest of the report: the other half, and the entries */
} dumpulse_keyed_report;

/* A reader. Starts as zeros. */
typedef struct dumpulse_reader {
    dumpulse_node heard;
    uint8_t epoch[4];                    /* of the last request; zeros: none waits for a report */
    uint8_t asked[DUMPULSE_PACKET_SIZE]; /* the last request */
} dumpulse_reader;

/* Hook, written by the user: gives the master key; or that of a label, with DUMPULSE_NODE or with
 * DUMPULSE_LABEL_KEYS. */
void dumpulse_get_key(uint8_t key[16], uint8_t label);

/* Hook, written by the user: gives a number that was stored, 3 bytes, the high byte first. Label
 * DUMPULSE_BEACON_LABEL is the agent's; 0 to 63 are the variables of nodes that only send. */
void dumpulse_load(uint8_t label, uint8_t number[3]);

/* Hook, written by the user: stores such a number. Returns whether it is stored. */
bool dumpulse_store(uint8_t label, const uint8_t number[3]);

/* ---- An agent. */

/* Begins after a reset. Loads the numbers, stores the next block of epochs, begins an epoch and
 * sends its beacon. Returns false if that failed. Then nothing is taken: call it again later. */
bool dumpulse_keyed_begin(dumpulse_keyed *keyed, void *context);

/* Begins the next epoch, and sends its beacon. Returns false if a number could not be stored, or if
 * all epochs are used up. Then nothing is taken any more: call dumpulse_keyed_begin() later.
 * Work: one tag, 65 bytes written, the send hook; every 256th time the store hook. */
bool dumpulse_keyed_tick(dumpulse_keyed *keyed, void *context);

/* Sends the beacon again. Work: the send hook. */
void dumpulse_keyed_beacon(const dumpulse_keyed *keyed, void *context);

/* Takes a packet from the network, and does what it asks for. The context is for the send hook,
 * which gets a report of DUMPULSE_KEYED_REPORT_SIZE bytes, or a beacon of 8. */
dumpulse_result dumpulse_keyed_process(dumpulse_keyed *keyed, const uint8_t *packet, size_t length,
                                       void *context);

/* What would become of a packet, as far as that can be said without a tag: DUMPULSE_REFUSED, _OLD,
 * _NOT_BEGUN, or _NEW. So an agent that limits how many tags it computes, or how many beacons it
 * sends, need not repeat these checks. Work: nothing is changed, and no hook is called. */
dumpulse_result dumpulse_keyed_look(const dumpulse_keyed *keyed, const uint8_t *packet,
                                    size_t length);

/* ---- Nodes. */

/* For a node that hears, and for a reader: takes a packet. Returns whether it is the beacon of a
 * later epoch. Then heartbeats of this epoch can be made. If for 300 seconds no packet has come
 * whose bytes 4 to 7 are node->epoch, set the node to zeros: spec/keyed.md says why. */
bool dumpulse_hear(dumpulse_node *node, const uint8_t *packet, size_t length);

/* For a node that only sends: takes its next own epoch, and stores it. Call it after each reset,
 * and when no heartbeat can be made any more. Returns false if that failed, or if the variable is
 * not below 64. */
bool dumpulse_sender_begin(dumpulse_node *node, uint8_t variable);

/* For a node that only sends: makes its announce. Send it after dumpulse_sender_begin() returned
 * true, and then again and again, for example with every 16th heartbeat. */
void dumpulse_sender_announce(const dumpulse_node *node, uint8_t packet[DUMPULSE_PACKET_SIZE],
                              uint8_t variable);

/* Makes the next heartbeat. Returns false, and makes none, if there is no epoch yet, if 255 were
 * made in this one, or if the variable is not below 64. */
bool dumpulse_keyed_heartbeat(dumpulse_node *node, uint8_t packet[DUMPULSE_PACKET_SIZE],
                              uint8_t variable, uint8_t sender, uint8_t value);

/* ---- A reader. */

/* Makes a request. The nonce must be new, and nobody may know it before. Returns false, and makes
 * none, if no beacon was heard yet, or if 255 requests were made in this epoch. To leave out counts
 * that other readers have used, subtract from reader->heard.left. */
bool dumpulse_keyed_request(dumpulse_reader *reader, uint8_t packet[DUMPULSE_PACKET_SIZE],
                            const uint8_t nonce[2]);

/* Is it the report that was asked for? It has been received into this room, and `length` bytes
 * came. It is believed once, and not after the beacon of a later epoch was heard: then ask again.
 * Then dumpulse_read_entry(report->agent.report, variable) reads its
 * entries. The tag is written to, but in the end it is as before. */
bool dumpulse_keyed_check(dumpulse_reader *reader, dumpulse_keyed_report *report, size_t length);

/* ---- A number in 12 bytes of memory: two slots of 6 bytes. Memory is a copy of these 12 bytes. If
 * the power fails in a write, the number is the old one or the new one. If it fails in the next
 * write, too, the number may become larger. It never becomes smaller. */

enum { DUMPULSE_SLOT_SIZE = 6 };

/* Reads the number. ff ff ff: it cannot be read. */
void dumpulse_slots_read(const uint8_t memory[2 * DUMPULSE_SLOT_SIZE], uint8_t number[3]);

/* Makes the slot for a number. Returns at which of the 12 bytes it must be written: 0 or 6. Write
 * its bytes in order, and read them back before you say that they are stored. */
uint8_t dumpulse_slots_write(const uint8_t memory[2 * DUMPULSE_SLOT_SIZE],
                             uint8_t slot[DUMPULSE_SLOT_SIZE], const uint8_t number[3]);

/* ------------------------------------------------------------------------------
 * The manual ends here.
 */

/* Byte 4 of a packet tells its kind: a beacon has less than the first one there. Byte 0 of a number
 * tells whose epoch it is. */
enum {
    DUMPULSE_IS_ANNOUNCE_ = 0x40,
    DUMPULSE_IS_HEARTBEAT_ = 0x80, /* and a request */
    DUMPULSE_OWN_FIRST_ = 0x80,    /* at least: a node's own, which is no epoch of an agent */
    DUMPULSE_NO_EPOCH_ = 0x7F      /* neither: no packet fits to it */
};

/* Computes the tag that a packet should have: by the key of this label, over the label, a number
 * of 4 bytes, the high byte first, and bytes 4 to 7 of the packet. Returns bytes 0 to 3 of it, the
 * lowest byte of the result first. If there is a report, its address is one for words. Then the tag
 * also covers bytes 8 to 263 of the report, and bytes 4 to 7 of the tag are written to its bytes 4
 * to 7. */
uint32_t dumpulse_tag_(const uint8_t *packet, uint8_t label, const uint8_t number[4],
                       uint8_t *report);

#ifdef __cplusplus
}
#endif

#endif /* DUMPULSE_KEYED_H */
