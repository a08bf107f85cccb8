/* The tags of version 2, for every role. dumpulse_keyed.h is the manual.
 * SPDX-License-Identifier: MIT
 *
 * A tag is Chaskey-12 (ISO/IEC 29192-6) of one block of 16 bytes. It is computed in place, in an
 * array of words:
 *
 *     it[0..3]     the block: labels, number, bytes 4 to 7 of the packet; then the tag
 *     it[4..7]     the label's key
 *     it[8..11]    the label's key, doubled
 *
 * For AVR, dumpulse_tag_avr.S has the steps.
 */
#include "dumpulse_keyed.h"

#ifdef __AVR__

/* avr-gcc would shift words bit by bit: so this goes byte by byte. */
static void fill(uint32_t *it, const uint8_t *packet, uint8_t label)
{
    uint8_t *to = (uint8_t *)it, left = 8;

    do {
        *to++ = label;
    } while (--left != 0);
    to += 4;
    for (left = 4; left != 0; left--) {
        *to++ = packet[4];
        packet++;
    }
}

#else
static uint32_t load32(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

#define ROTATED(word, by) ((word) << (by) | (word) >> (32 - (by)))

void dumpulse_permute_(uint32_t state[4])
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

void dumpulse_double_(uint32_t it[12])
{
    uint32_t carry = (it[7] >> 31) * 0x87U;
    uint_fast8_t word = 4;

    /*@ loop pragma UNROLL 4;
        loop assigns word, carry, it[8 .. 11];
        loop variant 8 - word; */
    do {
        it[word + 4] = it[word] << 1 ^ carry;
        carry = it[word] >> 31;
    } while (++word != 8);
}

void dumpulse_last_(uint32_t it[12])
{
    uint_fast8_t word = 0;

    /*@ loop pragma UNROLL 4;
        loop assigns word, it[0 .. 3];
        loop variant 4 - word; */
    do {
        it[word] ^= it[word + 4] ^ it[word + 8];
    } while (++word != 4);
    /*@ assert mixed: BLOCK_AT(it) == XORED(\at(BLOCK_AT(it), Pre),
          XORED(\at(BLOCK_AT(it + 4), Pre), \at(BLOCK_AT(it + 8), Pre))); */
    dumpulse_permute_(it);
    word = 0;
    /*@ loop pragma UNROLL 4;
        loop assigns word, it[0 .. 3];
        loop variant 4 - word; */
    do {
        it[word] ^= it[word + 8];
    } while (++word != 4);
}

static void fill(uint32_t *it, const uint8_t *packet, uint8_t label)
{
    it[0] = it[1] = label * (uint32_t)0x01010101UL;
    it[3] = dumpulse_load32_(packet + 4);
}
#endif

void dumpulse_start_tag_(uint32_t it[12], const uint8_t *packet, uint8_t label, uint32_t number)
{
    fill(it, packet, label);
    it[2] = number;
    dumpulse_get_key((uint8_t *)(it + 4), label);
    dumpulse_to_words_(it + 4);
    dumpulse_double_(it);
}

uint32_t dumpulse_tag_(const uint8_t *packet, uint8_t label, uint32_t number)
{
    uint32_t it[12];

    dumpulse_start_tag_(it, packet, label, number);
    dumpulse_last_(it);
    return it[0];
}

/* No branch depends on a part of the tag: the bits that differ are gathered first. */
bool dumpulse_right_(const uint8_t *packet, uint8_t label, uint32_t number)
{
    const uint32_t made = dumpulse_tag_(packet, label, number);
#ifdef __AVR__
    uint8_t differ = (uint8_t)made ^ packet[0];
    differ |= (uint8_t)(made >> 8) ^ packet[1];
    differ |= (uint8_t)(made >> 16) ^ packet[2];
    differ |= (uint8_t)(made >> 24) ^ packet[3];
    return differ == 0;
#else
    const uint32_t differ = made ^ dumpulse_load32_(packet);
    return (differ | (0 - differ)) >> 31 == 0;
#endif
}

void dumpulse_make_(uint8_t *packet, uint8_t label, uint32_t number)
{
    const uint32_t made = dumpulse_tag_(packet, label, number);

    packet[0] = (uint8_t)(made % 256U);
    packet[1] = (uint8_t)(made / 256U % 256U);
    packet[2] = (uint8_t)(made / 65536U % 256U);
    packet[3] = (uint8_t)(made / 16777216U);
}
