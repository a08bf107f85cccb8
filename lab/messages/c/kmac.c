/* KMAC128 (NIST SP 800-185), of 64 bits, on the SHAKE of c-fn-dsa. The key's two blocks are worked
 * out in advance, so a short message takes one permutation.   SPDX-License-Identifier: MIT */
#define LAB_TAG 8
#include "tag.h"

#include <string.h>

#include "inner.h"

enum { RATE = 168, ENDS_SHAKE = 0x1F, ENDS_KMAC = 0x04 };

static shake_context keyed;

static void set_key(const uint8_t *key)
{
    uint8_t block[RATE] = {1, RATE, 1, 32, 'K', 'M', 'A', 'C', 1, 0};
    shake_init(&keyed, 128);
    shake_inject(&keyed, block, sizeof block);
    memset(block, 0, sizeof block);
    memcpy(block, (const uint8_t[]){1, RATE, 1, 128}, 4);
    memcpy(block + 4, key, 16);
    shake_inject(&keyed, block, sizeof block);
}

static void make_tag(uint8_t *tag, const uint8_t *message, size_t length)
{
    static const uint8_t bits[] = {8 * LAB_TAG, 1};
    shake_context it = keyed;
    shake_inject(&it, message, length);
    shake_inject(&it, bits, sizeof bits);
    ((uint8_t *)it.A)[it.dptr] ^= ENDS_SHAKE ^ ENDS_KMAC; /* shake_flip adds the first */
    shake_flip(&it);
    shake_extract(&it, tag, LAB_TAG);
}

/* By OpenSSL, of a key and a message that count upwards. */
static bool vectors_agree(void)
{
    static const struct vector lab_vectors[] = {
        {4, {0xBF, 0xC6, 0x26, 0x08, 0x52, 0xD1, 0x72, 0xDB}},
        {165, {0x6F, 0x56, 0x30, 0xAE, 0x9E, 0xD4, 0xE2, 0xFB}},
        {166, {0xDE, 0xBE, 0xF1, 0xD7, 0x9A, 0xD2, 0xEF, 0x33}},
        {200, {0x89, 0xD7, 0x9F, 0xBA, 0xE9, 0x34, 0xF2, 0x3F}}};
    uint8_t bytes[200];
    count_upwards(bytes, sizeof bytes);
    set_key(bytes);
    return AGREE(bytes, lab_vectors);
}

/* The permutation alone: Keccak-p[1600] with 24 rounds, of the state of SHAKE128. */
STEP(block)

void fndsa_sha3_process_block(uint64_t *state, unsigned words);

static uint64_t lab_state[25];

void block_prepare(unsigned n)
{
    (void)n;
    memset(lab_state, 0, sizeof lab_state);
}

void block_run(void)
{
    fndsa_sha3_process_block(lab_state, RATE / 8);
}

/* Of a state of zeros, as the designers publish it: KeccakF-1600-IntermediateValues. */
bool block_right(void)
{
    return lab_state[0] == 0xF1258F7940E1DDE7U && lab_state[1] == 0x84D5CCF933C0478AU;
}
