/* A scheme with the interface that SUPERCOP, PQClean and pqm4 share: api.h, with names that begin
 * with LAB_PREFIX. -DLAB_KEM for a key agreement. All of its random numbers come from the lab.
 * SPDX-License-Identifier: MIT */
#include "api.h"
#ifdef LAB_WITHOUT_PROTOTYPES
#include "crypto_sign.h"
#endif

#define JOINED_(prefix, name) prefix##name
#define JOINED(prefix, name) JOINED_(prefix, name)
#define THEIRS(name) JOINED(LAB_PREFIX, name)

#define LAB_PUBLIC THEIRS(CRYPTO_PUBLICKEYBYTES)
#define LAB_SECRET THEIRS(CRYPTO_SECRETKEYBYTES)
#ifdef LAB_KEM
#define LAB_SENT THEIRS(CRYPTO_CIPHERTEXTBYTES)
#define LAB_SHARED THEIRS(CRYPTO_BYTES)
#include "agree.h"
#else
#define LAB_SIGNATURE THEIRS(CRYPTO_BYTES)
#include "sign.h"
#endif

int PQCLEAN_randombytes(uint8_t *bytes, size_t length)
{
    lab_random(bytes, length);
    return 0;
}

int randombytes(uint8_t *bytes, unsigned long long length)
{
    return PQCLEAN_randombytes(bytes, (size_t)length);
}

#ifdef __arm__
/* What malloc takes from: PQClean's hashes keep their states there. It counts as static RAM. */
void *_sbrk(ptrdiff_t more)
{
    static uint8_t heap[4096] __attribute__((aligned(8)));
    static size_t taken;
    if ((size_t)more > sizeof heap - taken)
        return (void *)-1;
    taken += (size_t)more;
    return heap + taken - more;
}
#endif

static uint32_t crc(uint32_t sum, const uint8_t *bytes, size_t length)
{
    while (length-- > 0) {
        sum ^= *bytes++;
        for (int i = 0; i < 8; i++)
            sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320 : 0);
    }
    return sum;
}

#ifdef LAB_KEM
static bool make_keys(uint8_t *public_key, uint8_t *secret_key)
{
    return THEIRS(crypto_kem_keypair)(public_key, secret_key) == 0;
}

static bool make_shared(uint8_t *sent, uint8_t *shared, const uint8_t *public_key)
{
    return THEIRS(crypto_kem_enc)(sent, shared, public_key) == 0;
}

/* A scheme may say that it refuses what was changed, or give another secret. */
static bool find_shared(uint8_t *shared, const uint8_t *sent, const uint8_t *secret_key)
{
    (void)THEIRS(crypto_kem_dec)(shared, sent, secret_key);
    return true;
}

static uint32_t lab_crc(void)
{
    encapsulate_prepare(9);
    encapsulate_run();
    const uint32_t sum = crc(crc(~0U, lab_public, LAB_PUBLIC), lab_secret, LAB_SECRET);
    return encapsulate_right() ? crc(crc(sum, lab_sent, LAB_SENT), lab_made, LAB_SHARED) : 0;
}
#else
/* Of the signature, which may vary: what a scheme's pointer to a size_t or an unsigned long long
 * points to, on machines whose lowest byte comes first. */
static unsigned long long lab_length;

static bool make_keys(uint8_t *public_key, uint8_t *secret_key)
{
    return THEIRS(crypto_sign_keypair)(public_key, secret_key) == 0;
}

#ifdef LAB_JOINED
static uint8_t lab_joined[LAB_SIGNATURE + LAB_LENGTH], lab_opened[LAB_SIGNATURE + LAB_LENGTH];

static bool sign_message(uint8_t *signature, const uint8_t *message, size_t length,
                         const uint8_t *secret_key)
{
    (void)signature;
    lab_length = 0;
    return THEIRS(crypto_sign)(lab_joined, (void *)&lab_length, message, length, secret_key) == 0;
}

static bool is_signed(const uint8_t *signature, const uint8_t *message, size_t length,
                      const uint8_t *public_key)
{
    unsigned long long opened = 0;
    (void)signature;
    return THEIRS(crypto_sign_open)(lab_opened, (void *)&opened, lab_joined, lab_length,
                                    public_key) == 0 &&
           opened == length && lab_same(lab_opened, message, length);
}
#define LAB_SENT_SIGNATURE lab_joined
#else
static bool sign_message(uint8_t *signature, const uint8_t *message, size_t length,
                         const uint8_t *secret_key)
{
    lab_length = 0;
    return THEIRS(crypto_sign_signature)(signature, (void *)&lab_length, message, length,
                                         secret_key) == 0;
}

static bool is_signed(const uint8_t *signature, const uint8_t *message, size_t length,
                      const uint8_t *public_key)
{
    return THEIRS(crypto_sign_verify)(signature, lab_length, message, length, public_key) == 0;
}
#define LAB_SENT_SIGNATURE lab_signature
#endif

static uint32_t lab_crc(void)
{
    sign_prepare(0);
    sign_run();
    const uint32_t sum = crc(crc(~0U, lab_public, LAB_PUBLIC), lab_secret, LAB_SECRET);
    return sign_right() ? crc(sum, LAB_SENT_SIGNATURE, (size_t)lab_length) : 0;
}
#endif

/* What the same program makes on the computer where its known answers were met; 0: it is not
 * compiled there. */
#ifdef LAB_CRC
static bool vectors_agree(void)
{
    const uint32_t found = lab_crc();
    return found != 0 && (LAB_CRC == 0 || found == LAB_CRC);
}
#else
static bool vectors_agree(void)
{
    return false;
}

#include <stdio.h>

int main(void)
{
    printf("%lu\n", (unsigned long)lab_crc());
    return 0;
}
#endif
