/* ECDSA and ECDH over P-256 by P256-Cortex-M4, whose numbers are little-endian words.
 * SPDX-License-Identifier: MIT */
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
