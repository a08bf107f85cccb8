/* Measurements that mislead, beside those that do not: mislead.py says why. A run is one case,
 * and the cases go on from each other, as the runs of a benchmark do. amd64 only.
 * SPDX-License-Identifier: MIT */
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "uECC.h"

#include "operation.h"
#include "random.h"

STEP(cases)

/* Public keys and signatures of the message "sample" by OpenSSL 3: an RSA key of 2048 bits, and one
 * of P-256. Their secret keys were thrown away. */
static const uint8_t lab_digest[] = {
    0xAF, 0x2B, 0xDB, 0xE1, 0xAA, 0x9B, 0x6E, 0xC1, 0xE2, 0xAD, 0xE1, 0xD6, 0x94, 0xF4, 0x1F, 0xC7,
    0x1A, 0x83, 0x1D, 0x02, 0x68, 0xE9, 0x89, 0x15, 0x62, 0x11, 0x3D, 0x8A, 0x62, 0xAD, 0xD1, 0xBF};
static const uint8_t lab_rsa_key[294] =
    "\x30\x82\x01\x22\x30\x0D\x06\x09\x2A\x86\x48\x86\xF7\x0D\x01\x01\x01\x05\x00\x03\x82\x01\x0F"
    "\x00\x30\x82\x01\x0A\x02\x82\x01\x01\x00\xC9\xF7\x98\x27\xA7\x00\xEE\xEA\xF8\x58\xA4\x36\x5E"
    "\x84\x1A\x57\x85\x97\xAF\xE0\x1B\x18\x7A\x00\x7C\x98\xEA\x4E\x24\xE7\xFC\xF9\xE3\xF6\x91\xFF"
    "\xD5\x3E\x68\x48\xDD\x3D\xA1\x41\xC6\x4A\xEA\xEF\x6B\x88\xA2\x1D\xF4\xED\x5D\x28\x6F\x04\x41"
    "\x8A\xE0\x62\xBD\xBB\x8E\xAE\xE5\x07\xCE\xD7\x46\x9B\x15\x1A\x5A\x54\xA2\x2C\x4A\xE8\x61\x5D"
    "\x50\x34\xDD\x97\xB2\xDD\x51\x4E\x48\x59\x88\xD1\x05\xEA\x98\x2A\x32\x45\xAF\xE7\xEB\xF4\xB8"
    "\x24\x05\xA9\x56\x09\x6E\x29\x46\x12\x83\x0E\x93\xD4\x17\xE2\x1C\x6D\x3A\x89\x2D\x23\xD9\x19"
    "\xA7\x8B\x3A\x60\x4A\x9F\xF1\xD2\xDA\xDA\xF1\x25\x63\x50\x6B\x93\xC5\xE8\x17\x27\x12\xCD\x76"
    "\xFA\xA5\xC7\xFB\xC4\x72\x1D\x10\x5A\xF7\x12\xB6\x73\x0C\xEE\x76\xD0\x94\x79\xCE\x37\xB9\xD4"
    "\x7E\xEF\x76\xA8\xD9\x34\xC8\x28\xD3\x51\x1E\x61\xA8\x81\xB3\xEB\x9D\x8A\x53\x79\xB7\xF6\x8F"
    "\xFA\x23\x10\x86\x66\x9F\x58\x99\x15\xBD\xCB\x43\x57\xCC\x5A\x63\xCB\xDB\xF9\x4C\xF5\x0A\x6A"
    "\xDD\xA8\x54\x89\xD0\x53\x9D\x06\x8E\x70\xCA\x82\x19\xB6\x32\xFF\x31\x6E\x98\x43\x3A\xF0\xED"
    "\x81\x4F\x50\x60\x67\x3D\xBE\x9F\xA2\x4A\x73\xD4\xD1\x02\x03\x01\x00\x01";
static const uint8_t lab_rsa_signature[256] =
    "\x0F\xC8\x71\xAF\x7B\x63\x57\xC3\x5E\xBC\x52\xA6\x69\x6A\x99\x7C\xEB\x4E\x03\x23\x20\x71\x2D"
    "\x4F\x32\xE1\xC7\xD5\x7A\x56\x48\x7F\x84\x53\x56\xA1\xEE\x30\xA5\x10\x4F\x98\x00\xAA\xA8\x65"
    "\x52\x43\xA1\xD0\xFA\xC1\x2D\xDB\xCE\xEF\x2C\xFE\xC6\xDC\x2E\xD5\xC9\xCD\x30\x91\x24\xE2\x46"
    "\x90\xB0\xDC\x63\x1D\x99\x47\x65\x41\x8C\xE3\xA1\xEA\x8B\x02\x1A\x87\x18\x92\xBD\x7E\xC5\x2E"
    "\x22\x6F\xB8\x09\x69\x4E\x2E\x74\xFD\x5B\x67\xAB\xB3\x25\x9A\x34\xF2\xEE\x0C\xAF\xA0\x2F\x5F"
    "\xAA\xF9\xEB\x48\x94\x02\x62\xAE\x6F\x45\x31\x58\x3D\xB3\x3B\x38\x55\xB1\xA2\x48\x64\xB0\x1D"
    "\xBB\x93\x65\xB1\x86\x2D\xA4\x3A\x27\x27\xD8\x9B\xBA\x37\xAA\xC3\x01\xEB\x0D\x4F\x62\x94\xE2"
    "\xDC\x91\xB1\xBB\x09\x3A\xBC\x6D\xE4\x86\x08\x83\x1C\x82\x88\xC2\x17\xFE\x58\xF5\x8A\x0A\x0B"
    "\x52\xEA\xB6\x95\xD2\xE5\xC8\xF2\xF6\xE7\xA1\x00\x66\x6A\x08\x6D\xD6\x2C\xA6\xC9\xA1\x3A\x04"
    "\x81\x57\x50\xD7\x91\x83\xBE\x7C\xBB\x74\xDA\x2C\xD8\x3F\xEA\x11\x2B\xC6\x80\xC1\x1A\x0F\x9E"
    "\xD0\xB8\xC9\x5A\x62\xB2\x60\x96\x17\x4D\xFD\xDC\xEE\xE4\x03\xE6\xEF\x0C\x1D\x7C\xB0\xC1\x39"
    "\x6D\x01\x3A";
static const uint8_t lab_ec_key[91] =
    "\x30\x59\x30\x13\x06\x07\x2A\x86\x48\xCE\x3D\x02\x01\x06\x08\x2A\x86\x48\xCE\x3D\x03\x01\x07"
    "\x03\x42\x00\x04\xB9\xF0\x0B\xE4\xDE\x84\xDC\x35\xEB\xA5\x13\x9B\xC8\x95\xC6\xA5\x18\x53\x45"
    "\x0F\x8A\x5F\x42\x92\x22\xC9\x59\xB9\x2F\x29\x4C\xAB\x56\xBE\x8B\x4C\xCB\x0E\x29\xF9\x6D\xBF"
    "\x1F\x6A\xDB\xB3\x52\xC7\x09\xE3\xE0\xA1\x25\xDB\xEC\x95\x8A\xAA\x79\x54\x9E\xC1\xCA\x34";
static const uint8_t lab_ec_signature[70] =
    "\x30\x44\x02\x20\x49\xAF\x95\x3E\x31\x0C\x27\x79\x13\xC2\xE1\x0C\x1F\x57\xE1\xD1\xE9\x12\x83"
    "\x02\x76\xD4\x96\x9C\xAE\xFC\x8D\x69\x49\xF5\xC4\x42\x02\x20\x64\xB9\x5E\x78\x8F\x44\xBA\x2D"
    "\xDD\xE5\xB2\xE6\x00\xF9\x78\x27\x19\x15\x38\xC3\x42\x28\xD0\xEB\xDA\x27\x58\x78\x41\x64\xFF"
    "\x4E";

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
