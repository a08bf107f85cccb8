/* ML-DSA by mldsa-native: pure, hedged, without a context.   SPDX-License-Identifier: MIT */
#include "mldsa_native.h"

#define LAB_PUBLIC MLDSA_PUBLICKEYBYTES(MLD_CONFIG_PARAMETER_SET)
#define LAB_SECRET MLDSA_SECRETKEYBYTES(MLD_CONFIG_PARAMETER_SET)
#define LAB_SIGNATURE MLDSA_BYTES(MLD_CONFIG_PARAMETER_SET)
#include "sign.h"

#include "inner.h"

enum { SEED = 32 };

static const uint8_t lab_prefix[] = {0, 0}; /* a message, not its hash; a context of 0 bytes */

static bool sign_with(uint8_t *signature, const uint8_t *message, size_t length,
                      const uint8_t *secret_key, const uint8_t *random)
{
    return mldsa_signature_internal(signature, message, length, lab_prefix, sizeof lab_prefix,
                                    random, secret_key, 0) == 0;
}

static bool make_keys(uint8_t *public_key, uint8_t *secret_key)
{
    uint8_t seed[SEED];
    lab_random(seed, sizeof seed);
    return mldsa_keypair_internal(public_key, secret_key, seed) == 0;
}

static bool sign_message(uint8_t *signature, const uint8_t *message, size_t length,
                         const uint8_t *secret_key)
{
    uint8_t random[SEED];
    lab_random(random, sizeof random);
    return sign_with(signature, message, length, secret_key, random);
}

static bool is_signed(const uint8_t *signature, const uint8_t *message, size_t length,
                      const uint8_t *public_key)
{
    return mldsa_verify(signature, message, length, NULL, 0, public_key) == 0;
}

/* With the seed 00 01 … 1F, the message "abc" and 32 zeros for random numbers: the SHA3-256 of
 * public key, secret key and signature. By dilithium-py 1.5.0, which is independent; pyca's
 * cryptography 50.0.2 makes the same public key of ML-DSA-44. */
static const uint8_t lab_known_digest[] =
#if MLD_CONFIG_PARAMETER_SET == 44
    {0xBE, 0xF3, 0xBD, 0xA7, 0xB7, 0x1D, 0xDB, 0x41, 0xA1, 0x80, 0xE3,
     0xDD, 0xD0, 0xA1, 0x65, 0x82, 0x69, 0x40, 0x1B, 0x3D, 0xBE, 0x60,
     0xEC, 0xA0, 0x04, 0x4D, 0x47, 0xF4, 0x49, 0x35, 0x79, 0x53};
#elif MLD_CONFIG_PARAMETER_SET == 65
    {0xE0, 0xD9, 0xE8, 0x35, 0x5F, 0x61, 0xC8, 0x2C, 0x6D, 0x70, 0x88,
     0x9B, 0xB9, 0x39, 0xB2, 0xD5, 0x01, 0xD8, 0x2F, 0xB4, 0xC6, 0x97,
     0xBB, 0xD9, 0x5A, 0xF1, 0x81, 0x7C, 0x58, 0x9F, 0x2E, 0x6C};
#endif

static bool vectors_agree(void)
{
    static const uint8_t lab_zeros[SEED];
    uint8_t seed[SEED], digest[32];
    sha3_context context;
    for (uint8_t i = 0; i < SEED; i++)
        seed[i] = i;
    if (mldsa_keypair_internal(lab_public, lab_secret, seed) != 0 ||
        !sign_with(lab_signature, (const uint8_t *)"abc", 3, lab_secret, lab_zeros) ||
        !is_signed(lab_signature, (const uint8_t *)"abc", 3, lab_public))
        return false;
    sha3_init(&context, 256);
    sha3_update(&context, lab_public, LAB_PUBLIC);
    sha3_update(&context, lab_secret, LAB_SECRET);
    sha3_update(&context, lab_signature, LAB_SIGNATURE);
    sha3_close(&context, digest);
    return lab_same(digest, lab_known_digest, sizeof digest);
}
