/* ECDSA and ECDH over the curve that a flag names, with the bytes of its numbers: by micro-ecc, or
 * with LAB_P256_M4 by P256-Cortex-M4, whose numbers are little-endian words.
 * SPDX-License-Identifier: MIT */
#ifndef CURVE_H
#define CURVE_H

#if defined(LAB_SECP256R1)
#define LAB_CURVE uECC_secp256r1
#define LAB_FIELD 32
#define LAB_SCALAR 32
#elif defined(LAB_SECP256K1)
#define LAB_CURVE uECC_secp256k1
#define LAB_FIELD 32
#define LAB_SCALAR 32
#elif defined(LAB_SECP160R1)
#define LAB_CURVE uECC_secp160r1
#define LAB_FIELD 20
#define LAB_SCALAR 21 /* its order has 161 bits */
#endif

#include "operation.h"
#include "random.h"

#ifdef LAB_P256_M4
#include "p256-cortex-m4.h"

enum { NUMBER = LAB_FIELD }; /* bytes */
typedef uint32_t number[NUMBER / 4];

static void to_words(number words, const uint8_t *bytes)
{
    p256_convert_endianness(words, bytes, NUMBER);
}

static void to_bytes(uint8_t *bytes, const number words)
{
    p256_convert_endianness(bytes, words, NUMBER);
}

static bool curve_keys(uint8_t *public_key, uint8_t *secret_key)
{
    number x, y, secret;
    do
        lab_random((uint8_t *)secret, NUMBER);
    while (!p256_keygen(x, y, secret));
    to_bytes(public_key, x);
    to_bytes(public_key + NUMBER, y);
    to_bytes(secret_key, secret);
    return true;
}

static inline bool curve_sign(uint8_t *signature, const uint8_t *hash, unsigned length,
                              const uint8_t *secret_key)
{
    number r, s, secret, nonce;
    to_words(secret, secret_key);
    do
        lab_random((uint8_t *)nonce, NUMBER);
    while (!p256_sign(r, s, hash, length, secret, nonce));
    to_bytes(signature, r);
    to_bytes(signature + NUMBER, s);
    return true;
}

static inline bool curve_verify(const uint8_t *signature, const uint8_t *hash, unsigned length,
                                const uint8_t *public_key)
{
    number x, y, r, s;
    to_words(x, public_key);
    to_words(y, public_key + NUMBER);
    to_words(r, signature);
    to_words(s, signature + NUMBER);
    return p256_verify(x, y, hash, length, r, s);
}

static inline bool curve_shared(uint8_t *shared, const uint8_t *public_key,
                                const uint8_t *secret_key)
{
    number x, y, secret;
    to_words(x, public_key);
    to_words(y, public_key + NUMBER);
    to_words(secret, secret_key);
    return p256_ecdh_calc_shared_secret(shared, secret, x, y);
}
#else
#include "uECC.h"

static int random_numbers(uint8_t *bytes, unsigned size)
{
    lab_random(bytes, size);
    return 1;
}

static bool curve_keys(uint8_t *public_key, uint8_t *secret_key)
{
    uECC_set_rng(random_numbers);
    return uECC_make_key(public_key, secret_key, LAB_CURVE()) != 0;
}

static inline bool curve_sign(uint8_t *signature, const uint8_t *hash, unsigned length,
                              const uint8_t *secret_key)
{
    uECC_set_rng(random_numbers);
    return uECC_sign(secret_key, hash, length, signature, LAB_CURVE()) != 0;
}

static inline bool curve_verify(const uint8_t *signature, const uint8_t *hash, unsigned length,
                                const uint8_t *public_key)
{
    return uECC_verify(public_key, hash, length, signature, LAB_CURVE()) != 0;
}

/* Anybody may have sent the key, so it is checked. */
static inline bool curve_shared(uint8_t *shared, const uint8_t *public_key,
                                const uint8_t *secret_key)
{
    uECC_set_rng(random_numbers);
    return uECC_valid_public_key(public_key, LAB_CURVE()) != 0 &&
           uECC_shared_secret(public_key, secret_key, shared, LAB_CURVE()) != 0;
}
#endif

#endif
