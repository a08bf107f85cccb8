/* FN-DSA (Falcon) by c-fn-dsa, without a context.   SPDX-License-Identifier: MIT */
#include "inner.h"

enum { LOGN = FNDSA_LOGN_512 };

#define LAB_PUBLIC FNDSA_VRFY_KEY_SIZE(LOGN)
#define LAB_SECRET FNDSA_SIGN_KEY_SIZE(LOGN)
#define LAB_SIGNATURE FNDSA_SIGNATURE_SIZE(LOGN)
#include "sign.h"

enum { KEY_SEED = 32, SIGN_SEED = 40 };

/* What c-fn-dsa asks the operating system for. */
int fndsa_sysrng(void *bytes, size_t length)
{
    lab_random(bytes, length);
    return 1;
}

static bool make_keys(uint8_t *public_key, uint8_t *secret_key)
{
    return fndsa_keygen(LOGN, secret_key, public_key) != 0;
}

static bool sign_message(uint8_t *signature, const uint8_t *message, size_t length,
                         const uint8_t *secret_key)
{
    return fndsa_sign(secret_key, LAB_SECRET, NULL, 0, FNDSA_HASH_ID_RAW, message, length,
                      signature, LAB_SIGNATURE) == LAB_SIGNATURE;
}

static bool is_signed(const uint8_t *signature, const uint8_t *message, size_t length,
                      const uint8_t *public_key)
{
    return fndsa_verify(signature, LAB_SIGNATURE, public_key, LAB_PUBLIC, NULL, 0,
                        FNDSA_HASH_ID_RAW, message, length) != 0;
}

/* KAT_512[0] of c-fn-dsa's test_fndsa.c, which its versions in other languages share: the SHA3-256
 * of signing key, verifying key and signature; both seeds are the SHAKE256 of what is below. */
static const uint8_t lab_known_seed[] = {LOGN, 0, 0, 0, 0};
static const uint8_t lab_known_digest[] = {
    0x71, 0x00, 0x9C, 0xD3, 0xBC, 0x68, 0xF5, 0x06, 0x16, 0x08, 0xAB, 0x54, 0x1E, 0x9A, 0xE2, 0x7B,
    0xA0, 0x26, 0x3C, 0x42, 0xFA, 0xD9, 0x7C, 0x11, 0x28, 0x25, 0x07, 0x51, 0x76, 0xD5, 0x39, 0xD0};

static bool vectors_agree(void)
{
    uint8_t seeds[KEY_SEED + SIGN_SEED], digest[32];
    shake_context expand;
    shake_init(&expand, 256);
    shake_inject(&expand, lab_known_seed, sizeof lab_known_seed);
    shake_flip(&expand);
    shake_extract(&expand, seeds, sizeof seeds);
    fndsa_keygen_seeded(LOGN, seeds, KEY_SEED, lab_secret, lab_public);
    if (fndsa_sign_seeded(lab_secret, LAB_SECRET, "domain", 6, FNDSA_HASH_ID_RAW, "message", 7,
                          seeds + KEY_SEED, SIGN_SEED, lab_signature,
                          LAB_SIGNATURE) != LAB_SIGNATURE ||
        !fndsa_verify(lab_signature, LAB_SIGNATURE, lab_public, LAB_PUBLIC, "domain", 6,
                      FNDSA_HASH_ID_RAW, "message", 7))
        return false;
    sha3_context context;
    sha3_init(&context, 256);
    sha3_update(&context, lab_secret, LAB_SECRET);
    sha3_update(&context, lab_public, LAB_PUBLIC);
    sha3_update(&context, lab_signature, LAB_SIGNATURE);
    sha3_close(&context, digest);
    return lab_same(digest, lab_known_digest, sizeof digest);
}
