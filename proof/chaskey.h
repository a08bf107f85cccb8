/* Chaskey-12 of ISO/IEC 29192-6 in ACSL, and that the C code of its files computes it.
 * SPDX-License-Identifier: MIT
 *
 * Frama-C reads this file before dumpulse_tag.c and dumpulse_report.c. The proof has two parts,
 * with the same code and the same contracts. In one, provers would unfold round after round,
 * without end.
 *
 *   round    ROUND_IS_KNOWN. A turn of the loop in dumpulse_permute_() is one round, as it is
 *            defined below. dumpulse_load32_() gives the word of four bytes. The definition gives
 *            all tags of spec/chaskey12.tsv: each of its rows is a lemma in vectors.h, which
 *            `prove` writes.
 *   chaskey  For any function that is a round, and any that is the word of four bytes:
 *            dumpulse_permute_() is twelve rounds, and the others are the steps of Chaskey. */
#include "protocol.h"

/* ---- The definition. It is text, so WP sees all of it at once, and computes it if it has numbers.
 * a, b, c and d are the words of a block. Each line gives one of them a new value. */

#define ROTATED_(word, by) ((uint32_t)((word) << (by)) | (word) >> (32 - (by)))
#define ROUND \
    \let a = (uint32_t)(a + b); \
    \let b = (uint32_t)(ROTATED_(b, 5) ^ a); \
    \let a = ROTATED_(a, 16); \
    \let c = (uint32_t)(c + d); \
    \let d = (uint32_t)(ROTATED_(d, 8) ^ c); \
    \let a = (uint32_t)(a + d); \
    \let d = (uint32_t)(ROTATED_(d, 13) ^ a); \
    \let c = (uint32_t)(c + b); \
    \let b = (uint32_t)(ROTATED_(b, 7) ^ c); \
    \let c = ROTATED_(c, 16);
/* Times x: a bit that leaves the block becomes x^7 + x^2 + x + 1. */
#define DOUBLE \
    \let out = d >> 31; \
    \let d = (uint32_t)(d << 1) ^ c >> 31; \
    \let c = (uint32_t)(c << 1) ^ b >> 31; \
    \let b = (uint32_t)(b << 1) ^ a >> 31; \
    \let a = (uint32_t)(a << 1) ^ (uint32_t)(out * 0x87);

struct block { uint32_t a, b, c, d; };
#define BLOCK(w, x, y, z) \
    ({any \with .a = (uint32_t)(w), .b = (uint32_t)(x), .c = (uint32_t)(y), .d = (uint32_t)(z)})
/* The block of four words in memory. */
#define BLOCK_AT(word) BLOCK(*(word), (word)[1], (word)[2], (word)[3])
#define WORDS_OF(block) \
    \let it = block; \let a = it.a; \let b = it.b; \let c = it.c; \let d = it.d;
#define DOUBLED(block) (WORDS_OF(block) DOUBLE BLOCK(a, b, c, d))
#define XORED(block, other) \
    (\let one = block; \let two = other; \
     BLOCK(one.a ^ two.a, one.b ^ two.b, one.c ^ two.c, one.d ^ two.d))

/* The tag. The blocks before the last one are in the state already, which begins as the key. The
 * mask is the key, doubled once if the last block is whole. */
#define TAG(state, last, mask) XORED(permuted(XORED(last, XORED(state, mask))), mask)

/*@ // Nothing is known of this block. BLOCK replaces all its words.
    axiomatic block { logic struct block any; }
*/
#ifdef ROUND_IS_KNOWN
#define a_round(block) (WORDS_OF(block) ROUND BLOCK(a, b, c, d))
#define FOUR_ROUNDS(block) a_round(a_round(a_round(a_round(block))))
#define permuted(block) FOUR_ROUNDS(FOUR_ROUNDS(FOUR_ROUNDS(block)))
/*@ axiomatic unknown { logic struct block rounds(integer n, struct block v); }

    logic integer word{L}(uint8_t *s) =
      s[0] | (uint32_t)(s[1] << 8) | (uint32_t)(s[2] << 16) | (uint32_t)(s[3] << 24); */
#include "vectors.h"
#else
/*@ axiomatic unknown {
      logic struct block a_round(struct block v);
      logic uint32_t word{L}(uint8_t *s) reads s[0 .. 3];
    }
    logic struct block rounds(integer n, struct block v) =
      n <= 0 ? v : a_round(rounds(n - 1, v));
    logic struct block permuted(struct block v) = rounds(12, v); */
#endif
#define TABLE_BLOCK(at) BLOCK(word(at), word((at) + 4), word((at) + 8), word((at) + 12))
/*@ // The key, after n blocks of a table were mixed into it.
    logic struct block mixed{L}(integer n, struct block key, uint8_t *table) =
      n <= 0 ? key : permuted(XORED(mixed(n - 1, key, table), TABLE_BLOCK(table + 16 * (n - 1))));
*/

/* For the loop in mix(): the state, after n blocks of the table were mixed into it. */
#define MIXED(n) mixed(n, \at(BLOCK_AT(state), Pre), \at(report, Pre) + 8)

#include "dumpulse_keyed.h"

/*@ requires \valid_read(bytes + (0 .. 3));
    assigns \nothing; exits \false;
    ensures loaded: \result == word(bytes); */
static inline uint32_t dumpulse_load32_(const uint8_t *bytes);

/*@ requires \valid(state + (0 .. 3));
    assigns state[0 .. 3]; exits \false;
    ensures BLOCK_AT(state) == permuted(\old(BLOCK_AT(state))); */
void dumpulse_permute_(uint32_t state[4]);

/*@ requires \valid(it + (0 .. 11));
    assigns it[8 .. 11]; exits \false;
    ensures BLOCK_AT(it + 8) == DOUBLED(\old(BLOCK_AT(it + 4))); */
void dumpulse_double_(uint32_t it[12]);

/*@ requires \valid(it + (0 .. 11));
    assigns it[0 .. 3]; exits \false;
    ensures BLOCK_AT(it) ==
      TAG(\old(BLOCK_AT(it + 4)), \old(BLOCK_AT(it)), \old(BLOCK_AT(it + 8))); */
void dumpulse_last_(uint32_t it[12]);

/*@ requires \valid(state + (0 .. 3)) && \valid_read(report + (0 .. 263)) &&
      \separated(state + (0 .. 3), report + (0 .. 263));
    assigns state[0 .. 3]; exits \false;
    ensures BLOCK_AT(state) == mixed(16, \old(BLOCK_AT(state)), report + 8); */
static void mix(uint32_t state[4], const uint8_t *report);
