/* The steps of a key agreement: make a pair of keys; make a secret for its owner, and a message
 * that tells him the secret; find the secret in the message.
 *
 * With ECDH, encapsulate makes a pair of keys that is used once, and sends the public one. The step
 * `refuse` is for schemes that notice a change on the way: both sides then have different secrets.
 * The file that includes this has defined LAB_PUBLIC, LAB_SECRET and LAB_SENT, in bytes, and
 * LAB_SHARED, if a secret has not 32, and the functions below. Each run has other random numbers.
 * SPDX-License-Identifier: MIT */
#ifndef AGREE_H
#define AGREE_H

#include "operation.h"
#include "random.h"
#include "vectors.h"

#ifndef LAB_SHARED
#define LAB_SHARED 32
#endif

static bool make_keys(uint8_t *public_key, uint8_t *secret_key);
static bool make_shared(uint8_t *sent, uint8_t *shared, const uint8_t *public_key);
static bool find_shared(uint8_t *shared, const uint8_t *sent, const uint8_t *secret_key);

static uint8_t lab_public[LAB_PUBLIC] __attribute__((aligned(8)));
static uint8_t lab_secret[LAB_SECRET] __attribute__((aligned(8)));
static uint8_t lab_sent[LAB_SENT] __attribute__((aligned(8)));
static uint8_t lab_made[LAB_SHARED], lab_found[LAB_SHARED];
static bool lab_answer;
const uint32_t lab_sizes[3] = {LAB_SECRET, LAB_PUBLIC, LAB_SENT}; /* for lab/joules/board.c */

STEP(key)
STEP(encapsulate)
STEP(decapsulate)
STEP(refuse)

void key_prepare(unsigned n)
{
    lab_seed(n);
}

void key_run(void)
{
    lab_answer = make_keys(lab_public, lab_secret);
}

bool key_right(void)
{
    if (!lab_answer)
        return false;
    encapsulate_run();
    return encapsulate_right();
}

void encapsulate_prepare(unsigned n)
{
    key_prepare(n);
    key_run();
    lab_answer = false;
}

void encapsulate_run(void)
{
    lab_answer = make_shared(lab_sent, lab_made, lab_public);
}

bool encapsulate_right(void)
{
    return lab_answer && find_shared(lab_found, lab_sent, lab_secret) &&
           lab_same(lab_found, lab_made, LAB_SHARED);
}

void decapsulate_prepare(unsigned n)
{
    encapsulate_prepare(n);
    encapsulate_run();
    lab_answer = false;
}

void decapsulate_run(void)
{
    lab_answer = find_shared(lab_found, lab_sent, lab_secret);
}

bool decapsulate_right(void)
{
    return lab_answer && lab_same(lab_found, lab_made, LAB_SHARED);
}

void refuse_prepare(unsigned n)
{
    decapsulate_prepare(n);
    decapsulate_run();
    lab_sent[LAB_SENT / 2] ^= 1;
}

void refuse_run(void)
{
    decapsulate_run();
}

bool refuse_right(void)
{
    return lab_answer && !lab_same(lab_found, lab_made, LAB_SHARED);
}

#endif
