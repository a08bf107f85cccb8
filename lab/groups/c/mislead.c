/* Measurements that mislead, beside those that do not: mislead.py says why. A run is one case,
 * and the cases go on from each other, as the runs of a benchmark do. amd64 only.
 * SPDX-License-Identifier: MIT */
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "uECC.h"

#include "mislead_keys.h"
#include "operation.h"
#include "random.h"

STEP(cases)

enum { FIELD = 20, SCALAR = 21, MESSAGE = 1024, CALLS = 100 };

static EVP_PKEY *lab_key;
static uint8_t lab_hash[EVP_MAX_MD_SIZE], lab_message[MESSAGE];
static uint8_t lab_secret[SCALAR], lab_public[2 * FIELD], lab_signature[2 * FIELD];
static bool lab_answer;

static int random_numbers(uint8_t *bytes, unsigned size)
{
    lab_random(bytes, size);
    return 1;
}

static EVP_PKEY *parse(const uint8_t *bytes, size_t length)
{
    return d2i_PUBKEY(NULL, &bytes, (long)length);
}

static LAB_APART bool accepts(EVP_PKEY *key, const uint8_t *signature, size_t length)
{
    EVP_PKEY_CTX *const context = EVP_PKEY_CTX_new(key, NULL);
    const bool right =
        EVP_PKEY_verify_init(context) == 1 &&
        EVP_PKEY_CTX_set_signature_md(context, EVP_sha256()) == 1 &&
        EVP_PKEY_verify(context, signature, length, lab_digest, sizeof lab_digest) == 1;
    EVP_PKEY_CTX_free(context);
    return right;
}

static LAB_APART void nothing(void)
{
    __asm__ volatile("");
}

static LAB_APART void hash(void)
{
    lab_answer = EVP_Digest(lab_digest, sizeof lab_digest, lab_hash, NULL, EVP_sha256(), NULL) == 1;
}

static LAB_APART void verify_rsa(void)
{
    lab_answer = accepts(lab_key, lab_rsa_signature, sizeof lab_rsa_signature);
}

static LAB_APART void verify_ec(void)
{
    lab_answer = accepts(lab_key, lab_ec_signature, sizeof lab_ec_signature);
}

static LAB_APART void parse_and_verify_ec(void)
{
    EVP_PKEY *const key = parse(lab_ec_key, sizeof lab_ec_key);
    lab_answer = accepts(key, lab_ec_signature, sizeof lab_ec_signature);
    EVP_PKEY_free(key);
}

static LAB_APART void parse_ec(void)
{
    EVP_PKEY *const key = parse(lab_ec_key, sizeof lab_ec_key);
    lab_answer = key != NULL;
    EVP_PKEY_free(key);
}

static LAB_APART void verify_message(void)
{
    lab_answer = uECC_verify(lab_public, lab_message, 32, lab_signature, uECC_secp160r1()) != 0;
}

/* As the library has it, but here the compiler can see that it only reads. */
static inline uint32_t adler(const uint8_t *bytes, size_t length)
{
    uint32_t low = 1, high = 0;
    for (size_t i = 0; i < length; i++) {
        low = (low + bytes[i]) % 65521U;
        high = (high + low) % 65521U;
    }
    return high << 16 | low;
}

static LAB_APART void checksums_that_nobody_reads(void)
{
    for (int i = 0; i < CALLS; i++)
        adler(lab_message, sizeof lab_message);
}

/* The compiler must think that something else reads each sum, and may write the message. */
static LAB_APART void checksums(void)
{
    for (int i = 0; i < CALLS; i++) {
        const uint32_t sum = adler(lab_message, sizeof lab_message);
        __asm__ volatile("" ::"r"(sum) : "memory");
    }
}

static void prepare_nothing(unsigned number)
{
    (void)number;
}

/* Another key has been used before, so that OpenSSL is past its first call. */
static void restore(const uint8_t *bytes, size_t length, const uint8_t *signature, size_t signed_)
{
    lab_key = parse(bytes, length);
    accepts(lab_key, signature, signed_);
    EVP_PKEY_free(lab_key);
    lab_key = parse(bytes, length);
}

static void restore_rsa(unsigned number)
{
    (void)number;
    restore(lab_rsa_key, sizeof lab_rsa_key, lab_rsa_signature, sizeof lab_rsa_signature);
}

static void restore_ec(unsigned number)
{
    (void)number;
    restore(lab_ec_key, sizeof lab_ec_key, lab_ec_signature, sizeof lab_ec_signature);
}

static void sign(unsigned number)
{
    uECC_set_rng(random_numbers);
    lab_seed(number);
    uECC_make_key(lab_public, lab_secret, uECC_secp160r1());
    lab_fill(lab_message, sizeof lab_message, number);
    uECC_sign(lab_secret, lab_message, 32, lab_signature, uECC_secp160r1());
}

/* In the order of CASES in mislead.py. */
static const struct {
    void (*prepare)(unsigned);
    void (*run)(void);
    unsigned number; /* of the message */
} lab_cases[] = {
    {prepare_nothing, nothing, 0},    {prepare_nothing, hash, 0},
    {prepare_nothing, hash, 0},       {restore_rsa, verify_rsa, 0},
    {prepare_nothing, verify_rsa, 0}, {restore_ec, parse_and_verify_ec, 0},
    {restore_ec, verify_ec, 0},       {prepare_nothing, parse_ec, 0},
    {sign, verify_message, 1},        {sign, verify_message, 1},
    {sign, verify_message, 2},        {sign, verify_message, 3},
    {sign, verify_message, 4},        {prepare_nothing, checksums_that_nobody_reads, 0},
    {prepare_nothing, checksums, 0},
};

static void (*lab_now)(void);

void cases_prepare(unsigned n)
{
    lab_answer = true;
    lab_cases[n].prepare(lab_cases[n].number);
    lab_now = lab_cases[n].run;
}

void cases_run(void)
{
    lab_now();
}

bool cases_right(void)
{
    return lab_answer;
}
