/* The steps of a signature: make a pair of keys, sign, verify a right one, refuse a wrong one.
 *
 * The file that includes this has defined LAB_PUBLIC, LAB_SECRET and LAB_SIGNATURE, in bytes, and
 * the functions below. Each run has other random numbers and another message; the keys are those of
 * run 0, but for the step that makes them.   SPDX-License-Identifier: MIT */
#ifndef SIGN_H
#define SIGN_H

#include "operation.h"
#include "random.h"
#include "vectors.h"

static bool make_keys(uint8_t *public_key, uint8_t *secret_key);
static bool sign_message(uint8_t *signature, const uint8_t *message, size_t length,
                         const uint8_t *secret_key) LAB_APART;
static bool is_signed(const uint8_t *signature, const uint8_t *message, size_t length,
                      const uint8_t *public_key) LAB_APART;

static uint8_t lab_message[LAB_LENGTH];
static uint8_t lab_public[LAB_PUBLIC] __attribute__((aligned(8)));
static uint8_t lab_secret[LAB_SECRET] __attribute__((aligned(8)));
static uint8_t lab_signature[LAB_SIGNATURE] __attribute__((aligned(8)));
static bool lab_answer;
const uint32_t lab_sizes[3] = {LAB_SECRET, LAB_PUBLIC, LAB_SIGNATURE}; /* for lab/joules/board.c */

STEP(key)
STEP(sign)
STEP(verify)
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
    lab_fill(lab_message, sizeof lab_message, 0);
    sign_run();
    return sign_right();
}

void sign_prepare(unsigned n)
{
    if (n == 0) {
        key_prepare(0);
        key_run();
    }
    lab_fill(lab_message, sizeof lab_message, n);
    lab_seed(n + 1000);
}

void sign_run(void)
{
    lab_answer = sign_message(lab_signature, lab_message, sizeof lab_message, lab_secret);
}

bool sign_right(void)
{
    return lab_answer && is_signed(lab_signature, lab_message, sizeof lab_message, lab_public);
}

void verify_prepare(unsigned n)
{
    sign_prepare(n);
    sign_run();
    lab_answer = false;
}

void verify_run(void)
{
    lab_answer = is_signed(lab_signature, lab_message, sizeof lab_message, lab_public);
}

bool verify_right(void)
{
    return lab_answer;
}

/* The signature is of another message. */
void refuse_prepare(unsigned n)
{
    verify_prepare(n);
    lab_message[LAB_LENGTH - 1] ^= 1;
    lab_answer = true;
}

void refuse_run(void)
{
    verify_run();
}

bool refuse_right(void)
{
    return !lab_answer;
}

#endif
