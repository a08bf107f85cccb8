/* ECDSA over the SHA-256 of the message, with a random nonce.   SPDX-License-Identifier: MIT */
#include "curve.h"

#define LAB_PUBLIC (2 * LAB_FIELD)
#define LAB_SECRET LAB_SCALAR
#define LAB_SIGNATURE (2 * LAB_FIELD)
#define LAB_GIVEN LAB_SCALAR
#include "sign.h"

#include "bearssl_hash.h"

#include "ecdsa_vectors.h"
#include LAB_CURVE_BY

enum { SHA256_BYTES = 32 };

static void digest(uint8_t *out, const uint8_t *message, size_t length)
{
    br_sha256_context context;
    br_sha256_init(&context);
    br_sha256_update(&context, message, length);
    br_sha256_out(&context, out);
}

static bool make_keys(uint8_t *public_key, uint8_t *secret_key)
{
    return curve_keys(public_key, secret_key);
}

static bool sign_message(uint8_t *signature, const uint8_t *message, size_t length,
                         const uint8_t *secret_key)
{
    uint8_t hash[SHA256_BYTES];
    digest(hash, message, length);
    return curve_sign(signature, hash, sizeof hash, secret_key);
}

static bool is_signed(const uint8_t *signature, const uint8_t *message, size_t length,
                      const uint8_t *public_key)
{
    uint8_t hash[SHA256_BYTES];
    digest(hash, message, length);
    return curve_verify(signature, hash, sizeof hash, public_key);
}

/* The secret and the nonce come as random numbers would. */
static bool vectors_agree(void)
{
    uint8_t little_endian[LAB_SCALAR];
    for (int i = 0; i < LAB_SCALAR; i++)
        little_endian[i] = lab_known_secret[LAB_SCALAR - 1 - i];
    lab_given = little_endian;
    bool right = curve_keys(lab_public, lab_secret) &&
                 lab_same(lab_public, lab_known_public, LAB_PUBLIC) &&
                 lab_same(lab_secret, lab_known_secret, LAB_SECRET);
    lab_given = lab_known_nonce;
    right = right &&
            curve_sign(lab_signature, lab_known_digest, sizeof lab_known_digest, lab_secret) &&
            lab_same(lab_signature, lab_known_signature, LAB_SIGNATURE);
    lab_given = NULL;
    return right && curve_verify(lab_known_signature, lab_known_digest, sizeof lab_known_digest,
                                 lab_known_public);
}
