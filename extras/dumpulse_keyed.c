/* Agents, nodes and readers with keys. dumpulse_keyed.h is the manual.
 * SPDX-License-Identifier: MIT
 *
 * A tag is Chaskey-12 (ISO/IEC 29192-6) of one block, or of a table and one block. Its key is the
 * tag of a block of labels by the master key. So both work in place, on an array `it` of words:
 *
 *     it[0..3]     the block of the packet: labels, number, bytes 4 to 7; then the tag
 *     it[4..7]     a block of labels; then the label's key
 *     it[8..11]    the master key; then the label's key, doubled
 *     it[12..15]   the master key, doubled
 */
#include "dumpulse_keyed.h"

enum { IS_ANNOUNCE = DUMPULSE_IS_ANNOUNCE_, IS_HEARTBEAT = DUMPULSE_IS_HEARTBEAT_ };
/* Byte 0 of the last epoch, which is 3f000000. So byte 0 of an epoch is below IS_ANNOUNCE. */
enum { EPOCH_LAST = 0x3F };
enum { OWN_FIRST = DUMPULSE_OWN_FIRST_, NO_EPOCH = DUMPULSE_NO_EPOCH_ };
enum { FULL = 255 };

#ifdef __GNUC__
#define APART static __attribute__((noinline))
#define INSIDE static inline __attribute__((always_inline))
#else
#define APART static
#define INSIDE static inline
#endif

static inline void store32(uint8_t *bytes, uint32_t value)
{
    bytes[0] = (uint8_t)(value % 256U);
    bytes[1] = (uint8_t)(value / 256U % 256U);
    bytes[2] = (uint8_t)(value / 65536U % 256U);
    bytes[3] = (uint8_t)(value / 16777216U);
}

#ifndef __AVR__
static uint32_t load32(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}
#define LOAD(bytes) load32(bytes)
#else
/* Each address is one for words. Without this, each byte would be shifted to its place, bit by
 * bit. */
#define LOAD(bytes) (*(const word_in_memory *)(const void *)(bytes))
#endif

/* Words lie in memory with their lowest byte first. If the processor has them like this, too, a
 * word at an address for words is stored in one piece, and the bytes of a key are words already. */
#if defined __GNUC__ && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
typedef uint32_t __attribute__((may_alias)) word_in_memory;
#define STORE(address, value) (*(word_in_memory *)(void *)(address) = (value))
#define TO_WORDS(key) ((void)(key))
#else
#define STORE(address, value) store32((uint8_t *)(address), (value))
#define TO_WORDS(key) to_words(key)

static inline void to_words(uint32_t *key)
{
    uint_fast8_t word;

    for (word = 0; word != 4; word++) {
        key[word] = load32((const uint8_t *)(key + word));
    }
}
#endif

#ifndef DUMPULSE_OWN_TAG
#ifdef __AVR__
/* Computes Chaskey-12. at[0..3] is the last block, and becomes the tag. at[4..7] is the key, and
 * at[8..11] becomes the key, doubled. If there is a report, its table comes before the last block.
 *
 * In C, this would be larger by half, and the rounds would take three times as long. The state is
 * in r8 to r23: a, b, c and d, from the lowest byte on. A round has two halves, which differ in
 * how far b and d are rotated; after each, a and c change places. */
APART void chaskey(uint32_t *at, const uint8_t *report)
{
    __asm__ volatile(
        /* The key, doubled: a carry becomes 0x87. No address is so high that adiw has one. */
        "adiw r30, 16\n\t"
        "ldi r24, 16\n"
        "1:\n\t"
        "ld r25, Z+\n\trol r25\n\tstd Z+15, r25\n\tdec r24\n\tbrne 1b\n\t"
        "sbc r25, r25\n\tandi r25, 0x87\n\tld r0, Z\n\teor r0, r25\n\tst Z, r0\n\t"
        "sbiw r30, 16\n\t"
#ifndef DUMPULSE_NODE
        /* The blocks: 1, or 16 more if there is a report. */
        "ldi r24, 1\n\t"
        "sbiw r26, 0\n\tbreq 2f\n\tldi r24, 17\n"
        "2:\n\t"
        "mov r7, r24\n\t"
        "adiw r26, 8\n"
        /* A block of the table is mixed into the key. */
        "3:\n\t"
        "dec r7\n\tbreq 5f\n\t"
        "ldi r24, 16\n"
        "4:\n\t"
        "ld r0, X+\n\tld r25, Z\n\teor r0, r25\n\tst Z+, r0\n\tdec r24\n\tbrne 4b\n\t"
        "rjmp 7f\n"
#endif
        /* The last block is mixed with the key and with the key doubled. */
        "5:\n\t"
        "sbiw r30, 16\n\t"
        "ldi r24, 16\n"
        "6:\n\t"
        "ld r0, Z\n\tldd r25, Z+16\n\teor r0, r25\n\tldd r25, Z+32\n\teor r0, r25\n\t"
        "st Z+, r0\n\tdec r24\n\tbrne 6b\n"
        "7:\n\t"
        "sbiw r30, 16\n\t"
        "ld r8, Z\n\tldd r9, Z+1\n\tldd r10, Z+2\n\tldd r11, Z+3\n\t"
        "ldd r12, Z+4\n\tldd r13, Z+5\n\tldd r14, Z+6\n\tldd r15, Z+7\n\t"
        "ldd r16, Z+8\n\tldd r17, Z+9\n\tldd r18, Z+10\n\tldd r19, Z+11\n\t"
        "ldd r20, Z+12\n\tldd r21, Z+13\n\tldd r22, Z+14\n\tldd r23, Z+15\n\t"
        "ldi r24, 24\n"
        "8:\n\t"
        "add r8, r12\n\tadc r9, r13\n\tadc r10, r14\n\tadc r11, r15\n\t"
        "add r16, r20\n\tadc r17, r21\n\tadc r18, r22\n\tadc r19, r23\n\t"
        /* b <<< 5 or 7 */
        "ldi r25, 5\n\tsbrc r24, 0\n\tldi r25, 7\n"
        "9:\n\t"
        "lsl r12\n\trol r13\n\trol r14\n\trol r15\n\tadc r12, r1\n\tdec r25\n\tbrne 9b\n\t"
        /* d <<< 8, and then 0 or 5 */
        "mov r0, r23\n\tmov r23, r22\n\tmov r22, r21\n\tmov r21, r20\n\tmov r20, r0\n\t"
        "sbrc r24, 0\n\tldi r25, 5\n\t"
        "rjmp 11f\n"
        "10:\n\t"
        "lsl r20\n\trol r21\n\trol r22\n\trol r23\n\tadc r20, r1\n"
        "11:\n\t"
        "dec r25\n\tbrpl 10b\n\t"
        "eor r12, r8\n\teor r13, r9\n\teor r14, r10\n\teor r15, r11\n\t"
        "eor r20, r16\n\teor r21, r17\n\teor r22, r18\n\teor r23, r19\n\t"
        /* a <<< 16; then a and c change places */
        "movw r0, r8\n\tmovw r8, r16\n\tmovw r16, r10\n\tmovw r10, r18\n\tmovw r18, r0\n\t"
        "clr r1\n\t"
        "dec r24\n\tbrne 8b\n\t"
        "st Z, r8\n\tstd Z+1, r9\n\tstd Z+2, r10\n\tstd Z+3, r11\n\t"
        "std Z+4, r12\n\tstd Z+5, r13\n\tstd Z+6, r14\n\tstd Z+7, r15\n\t"
        "std Z+8, r16\n\tstd Z+9, r17\n\tstd Z+10, r18\n\tstd Z+11, r19\n\t"
        "std Z+12, r20\n\tstd Z+13, r21\n\tstd Z+14, r22\n\tstd Z+15, r23\n\t"
#ifndef DUMPULSE_NODE
        "cpse r7, r1\n\trjmp 3b\n\t"
#endif
        "ldi r24, 16\n"
        "12:\n\t"
        "ld r0, Z\n\tldd r25, Z+32\n\teor r0, r25\n\tst Z+, r0\n\tdec r24\n\tbrne 12b"
        : "+z"(at), "+x"(report)
        :
        :
#ifndef DUMPULSE_NODE
        "r7",
#endif
        "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "r16", "r17", "r18", "r19", "r20",
        "r21", "r22", "r23", "r24", "r25", "memory");
}

static inline void fill(uint32_t *words, uint8_t label)
{
    uint8_t left = 32;
    /* The & keeps the label out of the registers that change, also if it is 32, too. */
    __asm__ volatile("1:\n\tst %a[to]+, %[label]\n\tdec %[left]\n\tbrne 1b"
                     : [to] "+&e"(words), [left] "+&r"(left)
                     : [label] "r"(label)
                     : "memory");
}

static inline void number_to_memory(uint32_t *to, const uint8_t number[4])
{
    /* Volatile, or avr-gcc 14 would call a function that swaps four bytes; and avr-gcc 5 would need
     * one more pointer at a time. */
    volatile uint8_t *byte = (uint8_t *)to;
    byte[0] = number[3];
    byte[1] = number[2];
    byte[2] = number[1];
    byte[3] = number[0];
}
#else
#define ROTATED(word, by) ((word) << (by) | (word) >> (32 - (by)))

static inline uint32_t reversed(uint32_t word)
{
    return word << 24 | (word & 0xFF00U) << 8 | (word >> 8 & 0xFF00U) | word >> 24;
}

APART void permute(uint32_t *state)
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint_fast8_t left = 12;
    /*@ loop invariant 1 <= left <= 12;
        loop invariant BLOCK(a, b, c, d) == rounds(12 - left, \at(BLOCK_AT(state), Pre));
        loop assigns a, b, c, d, left;
        loop variant left; */
    do {
        a += b;
        b = ROTATED(b, 5) ^ a;
        a = ROTATED(a, 16);
        c += d;
        d = ROTATED(d, 8) ^ c;
        a += d;
        d = ROTATED(d, 13) ^ a;
        c += b;
        b = ROTATED(b, 7) ^ c;
        c = ROTATED(c, 16);
        /*@ assert one_round:
              BLOCK(a, b, c, d) == a_round(\at(BLOCK(a, b, c, d), LoopCurrent)); */
    } while (--left != 0);
    state[0] = a;
    state[1] = b;
    state[2] = c;
    state[3] = d;
}

/* The same as above, for all others. */
APART void chaskey(uint32_t *at, const uint8_t *report)
{
    uint32_t carry = (at[7] >> 31) * 0x87U;
    uint32_t *word = at;

    /*@ loop pragma UNROLL 4;
        loop assigns word, carry, at[8 .. 11];
        loop variant at + 4 - word; */
    do { /* the key, doubled */
        word[8] = word[4] << 1 ^ carry;
        carry = word[4] >> 31;
        word++;
    } while (word != at + 4);
    if (report != NULL) {
        /* A block of the table is mixed into the key, which `word` points to. */
        uint_fast8_t i;
        /*@ loop invariant 0 <= i <= 64 && report == \at(report, Pre) + 4 * i;
            loop invariant a: word[0] == MIXED_WORD(a, 0);
            loop invariant b: word[1] == MIXED_WORD(b, 1);
            loop invariant c: word[2] == MIXED_WORD(c, 2);
            loop invariant d: word[3] == MIXED_WORD(d, 3);
            loop assigns i, report, at[4 .. 7];
            loop variant 64 - i; */
        for (i = 0; i != 64; i++) {
            report += 4;
            word[i % 4U] ^= load32(report + 4);
            if (i % 4U == 3) {
                permute(word);
                /*@ assert block: BLOCK_AT(word) == MIXED(i / 4 + 1); */
            }
            /*@ assert place: 4 * i == 16 * (i / 4) + 4 * (i % 4); */
            /*@ assert next: (i + 1) / 4 == (i % 4 == 3 ? i / 4 + 1 : i / 4) &&
                  (i + 1) % 4 == (i % 4 == 3 ? 0 : i % 4 + 1); */
        }
    }
    word = at;
    /*@ loop pragma UNROLL 4;
        loop assigns word, at[0 .. 3];
        loop variant at + 4 - word; */
    do {
        *word ^= word[4] ^ word[8];
        word++;
    } while (word != at + 4);
    permute(at);
    /*@ loop pragma UNROLL 4;
        loop assigns at, at[0 .. 3];
        loop variant word - at; */
    do {
        *at ^= at[8];
        at++;
    } while (at != word);
}

/* Writes labels to words 0, 1 and 4 to 7. */
static inline void fill(uint32_t *words, uint8_t label)
{
    const uint32_t four = label * (uint32_t)0x01010101UL;
    words[0] = four;
    words[1] = four;
    words[4] = four;
    words[5] = four;
    words[6] = four;
    words[7] = four;
}

static inline void number_to_memory(uint32_t *to, const uint8_t number[4])
{
    *to = reversed(load32(number));
}
#endif

uint32_t dumpulse_tag_(const uint8_t *packet, uint8_t label, const uint8_t number[4],
                       uint8_t *report)
{
    uint32_t it[16];
    fill(it, label);
    number_to_memory(it + 2, number);
    it[3] = LOAD(packet + 4);
#if defined DUMPULSE_LABEL_KEYS || defined DUMPULSE_NODE
    dumpulse_get_key((uint8_t *)(it + 4), label);
    TO_WORDS(it + 4);
#else
    dumpulse_get_key((uint8_t *)(it + 8), label);
    TO_WORDS(it + 8);
    chaskey(it + 4, NULL);
#endif
    chaskey(it, report);
#ifndef DUMPULSE_NODE
    if (report != NULL) {
        STORE(report + 4, it[1]);
    }
#endif
    return it[0];
}
#endif

/* Does the packet have the right tag? No branch depends on a part of it. */
INSIDE bool right(const uint8_t *packet, uint8_t label, const uint8_t number[4])
{
    const uint32_t made = dumpulse_tag_(packet, label, number, NULL);
#ifdef __AVR__
    uint8_t differ = (uint8_t)made ^ packet[0];
    differ |= (uint8_t)(made >> 8) ^ packet[1];
    differ |= (uint8_t)(made >> 16) ^ packet[2];
    differ |= (uint8_t)(made >> 24) ^ packet[3];
    return differ == 0;
#else
    return made == load32(packet);
#endif
}

/* ---- The agent. */

#ifndef DUMPULSE_NODE

void dumpulse_keyed_beacon(const dumpulse_keyed *keyed, void *context)
{
    dumpulse_send_packet(context, (const uint8_t *)keyed, DUMPULSE_PACKET_SIZE);
}

/* Adds 1 to the epoch, which is not the last one. */
INSIDE void count_up(dumpulse_keyed *keyed)
{
    uint_fast8_t i = 4;

    /*@ loop invariant 1 <= i <= 4;
        loop invariant \forall integer k; i <= k < 4 ==>
          keyed->epoch[k] == 0 && \at(keyed->epoch[k], Pre) == 255;
        loop invariant \forall integer k; 0 <= k < i ==>
          keyed->epoch[k] == \at(keyed->epoch[k], Pre);
        loop assigns i, keyed->epoch[0 .. 3];
        loop variant i; */
    do {
        i--;
    } while (++keyed->epoch[i] == 0);
    /*@ assert \forall integer k; k == i ==>
          keyed->epoch[k] == \at(keyed->epoch[k], Pre) + 1; */
    /*@ assert i == 3 ==> big(&keyed->epoch[0]) == \at(big(&keyed->epoch[0]), Pre) + 1; */
    /*@ assert i == 2 ==> big(&keyed->epoch[0]) == \at(big(&keyed->epoch[0]), Pre) + 1; */
    /*@ assert i == 1 ==> big(&keyed->epoch[0]) == \at(big(&keyed->epoch[0]), Pre) + 1; */
    /*@ assert i == 0 ==> big(&keyed->epoch[0]) == \at(big(&keyed->epoch[0]), Pre) + 1; */
}

/* Sets the counts to 0, but not those of nodes that only send. */
INSIDE void clear_counts(dumpulse_keyed *keyed)
{
    uint_fast8_t label;

    /*@ loop invariant 0 <= label <= 65;
        loop invariant \forall integer i; 0 <= i < label && !sends_only(keyed, i) ==>
          keyed->last[i] == 0;
        loop invariant \forall integer i; 0 <= i < 65 && (i >= label || sends_only(keyed, i)) ==>
          keyed->last[i] == \at(keyed->last[i], Pre);
        loop assigns label, keyed->last[0 .. 64];
        loop variant 65 - label; */
    for (label = 0; label <= DUMPULSE_READER_LABEL; label++) {
#if DUMPULSE_ALONE
        if (label < DUMPULSE_ALONE && keyed->own[label][0] != 0) {
            continue;
        }
#endif
        keyed->last[label] = 0;
    }
}

INSIDE void make_beacon(dumpulse_keyed *keyed)
{
    STORE(keyed, dumpulse_tag_((const uint8_t *)keyed, DUMPULSE_BEACON_LABEL, keyed->epoch, NULL));
}

INSIDE void start_epoch(dumpulse_keyed *keyed, void *context)
{
    clear_counts(keyed);
    make_beacon(keyed);
    dumpulse_keyed_beacon(keyed, context);
}

bool dumpulse_keyed_tick(dumpulse_keyed *keyed, void *context)
{
    if (keyed->begun && keyed->epoch[0] < EPOCH_LAST) {
        count_up(keyed);
        if (keyed->epoch[3] != 0 || dumpulse_store(DUMPULSE_BEACON_LABEL, keyed->epoch)) {
            start_epoch(keyed, context);
            return true;
        }
    }
    keyed->epoch[0] = NO_EPOCH;
    return false;
}

bool dumpulse_keyed_begin(dumpulse_keyed *keyed, void *context)
{
#if DUMPULSE_ALONE
    uint_fast8_t variable;
    /*@ loop invariant 0 <= variable <= DUMPULSE_ALONE;
        loop invariant \forall integer i; 0 <= i < variable ==> keyed->last[i] == FULL;
        loop assigns variable, (&keyed->own[0][0])[0 .. 127], keyed->last[0 .. 31], loaded;
        loop variant DUMPULSE_ALONE - variable; */
    for (variable = 0; variable != DUMPULSE_ALONE; variable++) {
        dumpulse_load((uint8_t)variable, keyed->own[variable]);
        keyed->last[variable] = FULL;
    }
#endif
    dumpulse_load(DUMPULSE_BEACON_LABEL, keyed->epoch);
    keyed->epoch[3] = FULL;
    keyed->begun = true;
    /*@ assert \forall integer i; 0 <= i < DUMPULSE_ALONE ==> keyed->last[i] == FULL; */
    return dumpulse_keyed_tick(keyed, context);
}

/* 0 to 64 in a heartbeat or request, and 192 to 255 in an announce. */
INSIDE uint8_t label_of(uint8_t byte4)
{
    /*@ assert byte4 < 128 || byte4 >= 128; */
    return (uint8_t)(byte4 - IS_HEARTBEAT);
}

/* The number that tags of this label are made with: the node's own epoch, or the agent's. */
static inline const uint8_t *number_of(const dumpulse_keyed *keyed, uint8_t label)
{
#if DUMPULSE_ALONE
    if (label < DUMPULSE_ALONE && keyed->own[label][0] != 0) {
        return keyed->own[label];
    }
#else
    (void)label;
#endif
    return keyed->epoch;
}

#if DUMPULSE_ALONE
/* The own epoch of a node that only sends. */
static inline uint32_t read24(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
}

INSIDE dumpulse_result look_at_announce(const dumpulse_keyed *keyed, const uint8_t *packet,
                                        uint8_t variable)
{
    if (variable >= DUMPULSE_ALONE || packet[5] < OWN_FIRST) {
        return DUMPULSE_REFUSED;
    }
    if (!keyed->begun) {
        return DUMPULSE_NOT_BEGUN;
    }
    return read24(packet + 5) <= read24(keyed->own[variable]) ? DUMPULSE_OLD : DUMPULSE_NEW;
}

/* An announce of a new own epoch. */
static dumpulse_result announced(dumpulse_keyed *keyed, const uint8_t *packet, uint8_t variable)
{
    const uint8_t zeros[4] = {0, 0, 0, 0};
    uint8_t *own = keyed->own[variable];

    if (!right(packet, variable, zeros)) {
        return DUMPULSE_WRONG_TAG;
    }
    if (!dumpulse_store(variable, packet + 5)) {
        return DUMPULSE_NOT_STORED;
    }
    own[0] = packet[5];
    own[1] = packet[6];
    own[2] = packet[7];
    keyed->last[variable] = 0;
    return DUMPULSE_ANNOUNCE;
}
#endif

dumpulse_result dumpulse_keyed_look(const dumpulse_keyed *keyed, const uint8_t *packet,
                                    size_t length)
{
    uint8_t label;

    if (length != DUMPULSE_PACKET_SIZE) {
        return DUMPULSE_REFUSED;
    }
    label = label_of(packet[4]);
#if DUMPULSE_ALONE
    if (label >= 256 - IS_ANNOUNCE) {
        /*@ assert label % 64 == packet[4] - 64; */
        return look_at_announce(keyed, packet, label % DUMPULSE_VARIABLES);
    }
#endif
    if (label > DUMPULSE_READER_LABEL) {
        return DUMPULSE_REFUSED;
    }
    if (!keyed->begun || number_of(keyed, label)[0] == NO_EPOCH) {
        return DUMPULSE_NOT_BEGUN;
    }
    return packet[5] <= keyed->last[label] ? DUMPULSE_OLD : DUMPULSE_NEW;
}

/* Makes the report that answers this request, and sends it. */
INSIDE void send_report(dumpulse_keyed *keyed, const uint8_t *packet, void *context)
{
    uint8_t *report = (uint8_t *)keyed + offsetof(dumpulse_keyed, tag);

    STORE(report, dumpulse_tag_(packet, DUMPULSE_READER_LABEL, keyed->epoch, report));
    dumpulse_send_packet(context, report, DUMPULSE_KEYED_REPORT_SIZE);
}

dumpulse_result dumpulse_keyed_process(dumpulse_keyed *keyed, const uint8_t *packet, size_t length,
                                       void *context)
{
    dumpulse_result result = dumpulse_keyed_look(keyed, packet, length);
    uint8_t label;

    if (result == DUMPULSE_REFUSED || result == DUMPULSE_NOT_BEGUN) {
        return result;
    }
    label = label_of(packet[4]);
#if DUMPULSE_ALONE
    if (label > DUMPULSE_READER_LABEL) {
        return result == DUMPULSE_NEW ? announced(keyed, packet, label % DUMPULSE_VARIABLES)
                                      : result;
    }
#endif
    if (result == DUMPULSE_NEW) {
        if (right(packet, label, number_of(keyed, label))) {
            keyed->last[label] = packet[5];
            if (label != DUMPULSE_READER_LABEL) {
                return dumpulse_record(&keyed->agent, label, packet[6], packet[7]);
            }
            send_report(keyed, packet, context);
            return DUMPULSE_REPORT;
        }
        result = DUMPULSE_WRONG_TAG;
    }
    if (label == DUMPULSE_READER_LABEL) {
        dumpulse_keyed_beacon(keyed, context);
    }
    return result;
}

#endif

/* ---- Nodes and readers. */

static void make(uint8_t *packet, uint8_t label, const uint8_t number[4])
{
    store32(packet, dumpulse_tag_(packet, label, number, NULL));
}

bool dumpulse_hear(dumpulse_node *node, const uint8_t *packet, size_t length)
{
    uint_fast8_t i = 0;

    if (length != DUMPULSE_PACKET_SIZE || packet[4] >= IS_ANNOUNCE) {
        return false;
    }
    /*@ loop invariant 0 <= i <= 3;
        loop invariant \forall integer k; 0 <= k < i ==> packet[4 + k] == node->epoch[k];
        loop assigns i;
        loop variant 3 - i; */
    while (i != 3 && packet[4 + i] == node->epoch[i]) {
        i++;
    }
    if (packet[4 + i] <= node->epoch[i] || !right(packet, DUMPULSE_BEACON_LABEL, packet + 4)) {
        return false;
    }
    /*@ loop invariant 0 <= i <= 4;
        loop invariant \forall integer k; 0 <= k < i ==> node->epoch[k] == packet[4 + k];
        loop assigns i, node->epoch[0 .. 3];
        loop variant 4 - i; */
    for (i = 0; i != 4; i++) {
        node->epoch[i] = packet[4 + i];
    }
    node->left = FULL;
    return true;
}

/* Makes a heartbeat, or a request if the label is the readers'. At least one must be left. */
INSIDE void count(dumpulse_node *node, uint8_t *packet, uint8_t label, uint8_t first,
                  uint8_t second)
{
    packet[4] = (uint8_t)(IS_HEARTBEAT + label);
    packet[5] = (uint8_t)(256U - node->left);
    packet[6] = first;
    packet[7] = second;
    node->left--;
    make(packet, label, node->epoch);
}

bool dumpulse_keyed_heartbeat(dumpulse_node *node, uint8_t packet[DUMPULSE_PACKET_SIZE],
                              uint8_t variable, uint8_t sender, uint8_t value)
{
    if (variable >= DUMPULSE_VARIABLES || node->left == 0) {
        return false;
    }
    count(node, packet, variable, sender, value);
    return true;
}

/* Adds 1 to an own epoch. After the last one comes 0. */
INSIDE void count_own(uint8_t *number)
{
    uint_fast8_t i = 3;

    /*@ loop invariant 1 <= i <= 3;
        loop invariant \forall integer k; i <= k < 3 ==>
          number[k] == 0 && \at(number[k], Pre) == 255;
        loop invariant \forall integer k; 0 <= k < i ==> number[k] == \at(number[k], Pre);
        loop assigns i, number[0 .. 2];
        loop variant i; */
    do {
        i--;
    } while (++number[i] == 0 && i != 0);
    /*@ assert number[0] == 0 && i == 0 || number[i] == \at(number[\at(i, Here)], Pre) + 1; */
    /*@ assert i == 2 ==> three(number) == \at(three(number), Pre) + 1; */
    /*@ assert i == 1 ==> three(number) == \at(three(number), Pre) + 1; */
    /*@ assert i == 0 && number[0] != 0 ==> three(number) == \at(three(number), Pre) + 1; */
    /*@ assert i == 0 && number[0] == 0 ==> \at(three(number), Pre) == 0xFFFFFF; */
}

bool dumpulse_sender_begin(dumpulse_node *node, uint8_t variable)
{
    node->left = 0;
    if (variable >= DUMPULSE_VARIABLES) {
        return false;
    }
    dumpulse_load(variable, node->epoch);
    node->epoch[3] = 0;
    count_own(node->epoch);
    if (node->epoch[0] < OWN_FIRST || !dumpulse_store(variable, node->epoch)) {
        return false;
    }
    node->left = FULL;
    return true;
}

void dumpulse_sender_announce(const dumpulse_node *node, uint8_t packet[DUMPULSE_PACKET_SIZE],
                              uint8_t variable)
{
    uint_fast8_t at;

    /*@ loop invariant 0 <= at <= 4;
        loop invariant \forall integer k; 0 <= k < at ==> packet[k] == 0;
        loop assigns at, packet[0 .. 3];
        loop variant 4 - at; */
    for (at = 0; at != 4; at++) {
        packet[at] = 0; /* these bytes are the number, until the tag is there */
    }
    packet[4] = (uint8_t)(IS_ANNOUNCE + variable);
    packet[5] = node->epoch[0];
    packet[6] = node->epoch[1];
    packet[7] = node->epoch[2];
    make(packet, variable, packet);
}

#ifndef DUMPULSE_NODE
bool dumpulse_keyed_request(dumpulse_reader *reader, uint8_t packet[DUMPULSE_PACKET_SIZE],
                            const uint8_t nonce[2])
{
    uint_fast8_t i;

    if (reader->heard.left == 0) {
        return false;
    }
    count(&reader->heard, packet, DUMPULSE_READER_LABEL, nonce[0], nonce[1]);
    for (i = 0; i != 4; i++) {
        reader->epoch[i] = reader->heard.epoch[i];
    }
    for (i = 0; i != DUMPULSE_PACKET_SIZE; i++) {
        reader->asked[i] = packet[i];
    }
    return true;
}

bool dumpulse_keyed_check(dumpulse_reader *reader, dumpulse_keyed_report *report, size_t length)
{
    uint8_t *tag = (uint8_t *)report;
    uint8_t had[8], differ = 0;
    uint_fast8_t i;

    if (length != DUMPULSE_KEYED_REPORT_SIZE || reader->asked[5] == 0) {
        return false;
    }
    for (i = 0; i != 4; i++) { /* a later beacon was heard: the report may have been held back */
        differ |= (uint8_t)(reader->epoch[i] ^ reader->heard.epoch[i]);
    }
    for (i = 0; i != 8; i++) {
        had[i] = tag[i];
    }
    STORE(tag, dumpulse_tag_(reader->asked, DUMPULSE_READER_LABEL, reader->epoch, tag));
    for (i = 0; i != 8; i++) {
        differ |= (uint8_t)(tag[i] ^ had[i]);
        tag[i] = had[i];
    }
    if (differ != 0) {
        return false;
    }
    reader->asked[5] = 0;
    return true;
}
#endif

/* ---- Slots. */

static bool is_whole(const uint8_t *slot)
{
    uint8_t wrong = 0;
    uint_fast8_t i;

    for (i = 0; i != 3; i++) {
        wrong |= (uint8_t)(slot[i] ^ slot[i + 3] ^ 0xFFU);
    }
    return wrong == 0;
}

/* Where the number lies: 0, 6, or 12 if none is whole. */
static uint8_t place(const uint8_t *memory)
{
    const uint8_t *other = memory + DUMPULSE_SLOT_SIZE;
    uint_fast8_t i = 0;

    if (!is_whole(other)) {
        return is_whole(memory) ? 0 : 2 * DUMPULSE_SLOT_SIZE;
    }
    while (i != 2 && memory[i] == other[i]) {
        i++;
    }
    return is_whole(memory) && memory[i] >= other[i] ? 0 : DUMPULSE_SLOT_SIZE;
}

void dumpulse_slots_read(const uint8_t memory[2 * DUMPULSE_SLOT_SIZE], uint8_t number[3])
{
    const uint8_t at = place(memory);
    uint_fast8_t i;

    for (i = 0; i != 3; i++) {
        number[i] = at == 2 * DUMPULSE_SLOT_SIZE ? 0xFF : memory[at + i];
    }
}

uint8_t dumpulse_slots_write(const uint8_t memory[2 * DUMPULSE_SLOT_SIZE],
                             uint8_t slot[DUMPULSE_SLOT_SIZE], const uint8_t number[3])
{
    const uint8_t at = place(memory) == 0 ? DUMPULSE_SLOT_SIZE : 0;
    uint_fast8_t i;

    for (i = 0; i != 3; i++) {
        slot[i] = number[i];
        slot[i + 3] = (uint8_t)(number[i] ^ 0xFFU);
    }
    return at;
}
