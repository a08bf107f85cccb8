/* ML-KEM by mlkem-native.   SPDX-License-Identifier: MIT */
#include "mlkem_native.h"

#define LAB_PUBLIC MLKEM_PUBLICKEYBYTES(MLK_CONFIG_PARAMETER_SET)
#define LAB_SECRET MLKEM_SECRETKEYBYTES(MLK_CONFIG_PARAMETER_SET)
#define LAB_SENT MLKEM_CIPHERTEXTBYTES(MLK_CONFIG_PARAMETER_SET)
#include "agree.h"

#include "inner.h"

enum { KEY_COINS = 64, COINS = 32 };

static bool make_keys(uint8_t *public_key, uint8_t *secret_key)
{
    uint8_t coins[KEY_COINS];
    lab_random(coins, sizeof coins);
    return mlkem_keypair_derand(public_key, secret_key, coins) == 0;
}

static bool make_shared(uint8_t *sent, uint8_t *shared, const uint8_t *public_key)
{
    uint8_t coins[COINS];
    lab_random(coins, sizeof coins);
    return mlkem_enc_derand(sent, shared, public_key, coins) == 0;
}

static bool find_shared(uint8_t *shared, const uint8_t *sent, const uint8_t *secret_key)
{
    return mlkem_dec(shared, sent, secret_key) == 0;
}

/* With d = 00 01 … 1F, z = 20 … 3F and m = 40 … 5F: the SHA3-256 of encapsulation key,
 * decapsulation key, ciphertext, shared secret, and of the secret that the ciphertext gives after
 * the lowest bit of its middle byte was changed. By kyber-py 1.2.0, which is independent; pyca's
 * cryptography 50.0.2 makes the same encapsulation key of ML-KEM-768. */
static const uint8_t lab_known_digest[] =
#if MLK_CONFIG_PARAMETER_SET == 512
    {0x1E, 0x31, 0xA3, 0xFD, 0xD1, 0x2A, 0x3A, 0x5B, 0xF4, 0xC7, 0x23,
     0x5A, 0x3D, 0x21, 0x63, 0x2C, 0xB7, 0xDB, 0x24, 0x7D, 0xD8, 0xF7,
     0xAF, 0x31, 0xE5, 0x7D, 0x0D, 0xAF, 0xBB, 0xFF, 0xB6, 0xFE};
#elif MLK_CONFIG_PARAMETER_SET == 768
    {0x25, 0x14, 0xA2, 0xE8, 0x76, 0xA3, 0xBE, 0xF9, 0x94, 0x70, 0xDC,
     0x00, 0x03, 0x4E, 0x01, 0xD9, 0xFF, 0x4C, 0x40, 0x2E, 0x50, 0x55,
     0xF2, 0x50, 0x2C, 0x15, 0x03, 0xF9, 0xB1, 0x4A, 0x73, 0xCE};
#elif MLK_CONFIG_PARAMETER_SET == 1024
    {0xD9, 0x28, 0x7C, 0x14, 0x94, 0xEC, 0x74, 0xAB, 0x69, 0xF7, 0x85,
     0x4B, 0xD7, 0x9E, 0xBE, 0xFE, 0x0B, 0xCF, 0x61, 0x10, 0xF7, 0x07,
     0x12, 0xD8, 0xC2, 0xE0, 0x2C, 0xF4, 0x7D, 0x43, 0x82, 0xDD};
#endif

static bool vectors_agree(void)
{
    uint8_t coins[KEY_COINS + COINS], digest[32];
    sha3_context context;
    for (uint8_t i = 0; i < sizeof coins; i++)
        coins[i] = i;
    if (mlkem_keypair_derand(lab_public, lab_secret, coins) != 0 ||
        mlkem_enc_derand(lab_sent, lab_made, lab_public, coins + KEY_COINS) != 0 ||
        mlkem_dec(lab_found, lab_sent, lab_secret) != 0 ||
        !lab_same(lab_made, lab_found, LAB_SHARED))
        return false;
    sha3_init(&context, 256);
    sha3_update(&context, lab_public, LAB_PUBLIC);
    sha3_update(&context, lab_secret, LAB_SECRET);
    sha3_update(&context, lab_sent, LAB_SENT);
    sha3_update(&context, lab_made, LAB_SHARED);
    lab_sent[LAB_SENT / 2] ^= 1;
    if (mlkem_dec(lab_found, lab_sent, lab_secret) != 0)
        return false;
    sha3_update(&context, lab_found, LAB_SHARED);
    sha3_close(&context, digest);
    return lab_same(digest, lab_known_digest, sizeof digest);
}
