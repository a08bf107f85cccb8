/* Ed25519 by Monocypher.   SPDX-License-Identifier: MIT */
#define LAB_PUBLIC 32
#define LAB_SECRET 64 /* the seed, and the public key again */
#define LAB_SIGNATURE 64
#include "sign.h"

#include "monocypher-ed25519.h"

#include "ed25519_vectors.h"

static bool make_keys(uint8_t *public_key, uint8_t *secret_key)
{
    uint8_t seed[32];
    lab_random(seed, sizeof seed);
    crypto_ed25519_key_pair(secret_key, public_key, seed);
    return true;
}

static bool sign_message(uint8_t *signature, const uint8_t *message, size_t length,
                         const uint8_t *secret_key)
{
    crypto_ed25519_sign(signature, secret_key, message, length);
    return true;
}

static bool is_signed(const uint8_t *signature, const uint8_t *message, size_t length,
                      const uint8_t *public_key)
{
    return crypto_ed25519_check(signature, public_key, message, length) == 0;
}

static bool vectors_agree(void)
{
    lab_given = lab_known_seed;
    make_keys(lab_public, lab_secret);
    lab_given = NULL;
    sign_message(lab_signature, lab_known_message, sizeof lab_known_message, lab_secret);
    return lab_same(lab_public, lab_known_public, LAB_PUBLIC) &&
           lab_same(lab_signature, lab_known_signature, LAB_SIGNATURE) &&
           is_signed(lab_known_signature, lab_known_message, sizeof lab_known_message,
                     lab_known_public);
}
