/* ECDSA and ECDH by micro-ecc, whose random numbers come from here.
 * SPDX-License-Identifier: MIT */
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
