/* ECDSA over SHA-256, and Ed25519, by OpenSSL 3 as programs call it. Its first use of anything
 * costs more than later ones, so each is used once before the first run is counted. Nothing is
 * chosen by the processor, for OPENSSL_ia32cap is 0:0.   SPDX-License-Identifier: MIT */
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/ecdsa.h>
#include <openssl/rand.h>

#define LAB_PUBLIC 1 /* the keys are objects of OpenSSL's */
#define LAB_SECRET 1
#define LAB_SIGNATURE 72 /* DER at its longest; Ed25519: 64 */
#define LAB_FIRST_DIFFERS
#include "sign.h"

#ifdef LAB_GROUP
#include "ecdsa_vectors.h"
enum { LAB_KNOWN_PUBLIC = sizeof lab_known_public };
#define LAB_HASH EVP_sha256()
#else
#include "ed25519_vectors.h"
#define LAB_HASH NULL
#endif

static EVP_PKEY *pair;
static size_t signature_bytes;

static int random_numbers(unsigned char *bytes, int size)
{
    lab_random(bytes, (size_t)size);
    return 1;
}

static int random_status(void)
{
    return 1;
}

static bool make_keys(uint8_t *public_key, uint8_t *secret_key)
{
    static const RAND_METHOD ours = {
        .bytes = random_numbers, .pseudorand = random_numbers, .status = random_status};
    (void)public_key;
    (void)secret_key;
    EVP_PKEY_free(pair);
    return RAND_set_rand_method(&ours) == 1 &&
#ifdef LAB_GROUP
           (pair = EVP_PKEY_Q_keygen(NULL, NULL, "EC", LAB_GROUP)) != NULL;
#else
           (pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519")) != NULL;
#endif
}

static bool sign_message(uint8_t *signature, const uint8_t *message, size_t length,
                         const uint8_t *secret_key)
{
    (void)secret_key;
    EVP_MD_CTX *const context = EVP_MD_CTX_new();
    signature_bytes = LAB_SIGNATURE;
    const bool done = context != NULL &&
                      EVP_DigestSignInit(context, NULL, LAB_HASH, NULL, pair) == 1 &&
                      EVP_DigestSign(context, signature, &signature_bytes, message, length) == 1;
    EVP_MD_CTX_free(context);
    return done;
}

static bool is_signed(const uint8_t *signature, const uint8_t *message, size_t length,
                      const uint8_t *public_key)
{
    (void)public_key;
    EVP_MD_CTX *const context = EVP_MD_CTX_new();
    const bool right = context != NULL &&
                       EVP_DigestVerifyInit(context, NULL, LAB_HASH, NULL, pair) == 1 &&
                       EVP_DigestVerify(context, signature, signature_bytes, message, length) == 1;
    EVP_MD_CTX_free(context);
    return right;
}

#ifdef LAB_GROUP
/* A published signature of a digest is accepted, and not that of another digest. */
static bool vectors_agree(void)
{
    uint8_t point[1 + LAB_KNOWN_PUBLIC] = {POINT_CONVERSION_UNCOMPRESSED}, der[LAB_SIGNATURE];
    uint8_t digest[sizeof lab_known_digest];
    memcpy(point + 1, lab_known_public, LAB_KNOWN_PUBLIC);
    memcpy(digest, lab_known_digest, sizeof digest);
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, LAB_GROUP, 0),
        OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point),
        OSSL_PARAM_construct_end()};
    ECDSA_SIG *const known = ECDSA_SIG_new();
    ECDSA_SIG_set0(
        known, BN_bin2bn(lab_known_signature, LAB_KNOWN_PUBLIC / 2, NULL),
        BN_bin2bn(lab_known_signature + LAB_KNOWN_PUBLIC / 2, LAB_KNOWN_PUBLIC / 2, NULL));
    uint8_t *end = der;
    const int bytes = i2d_ECDSA_SIG(known, &end);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    if (EVP_PKEY_fromdata_init(context) != 1 ||
        EVP_PKEY_fromdata(context, &pair, EVP_PKEY_PUBLIC_KEY, parameters) != 1)
        return false;
    context = EVP_PKEY_CTX_new(pair, NULL);
    if (EVP_PKEY_verify_init(context) != 1 ||
        EVP_PKEY_verify(context, der, (size_t)bytes, digest, sizeof digest) != 1)
        return false;
    digest[0] ^= 1;
    return EVP_PKEY_verify(context, der, (size_t)bytes, digest, sizeof digest) == 0;
}
#else
static bool vectors_agree(void)
{
    pair =
        EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, lab_known_seed, sizeof lab_known_seed);
    return pair != NULL &&
           sign_message(lab_signature, lab_known_message, sizeof lab_known_message, NULL) &&
           lab_same(lab_signature, lab_known_signature, sizeof lab_known_signature) &&
           is_signed(lab_signature, lab_known_message, sizeof lab_known_message, NULL);
}
#endif
