/* All of mlkem-native (-DLAB_KEM) or mldsa-native as one file: its configuration, the SHAKE of
 * PQClean that it gets instead of a library's, and pqm4's names.   SPDX-License-Identifier: MIT */
#include <string.h>

#include "api.h"
#include "fips202.h"

int PQCLEAN_randombytes(uint8_t *bytes, size_t length);

/* Each state is released once, as PQClean's needs memory. One of `x4` is four of them. */
#define SHAKE(prefix, bits, rate)                                                                  \
    typedef shake##bits##incctx prefix##bits##ctx;                                                 \
    typedef struct {                                                                               \
        shake##bits##incctx each[4];                                                               \
    } prefix##bits##x4ctx;                                                                         \
    static inline void prefix##bits##_init(prefix##bits##ctx *state)                               \
    {                                                                                              \
        shake##bits##_inc_init(state);                                                             \
    }                                                                                              \
    static inline void prefix##bits##_absorb(prefix##bits##ctx *state, const uint8_t *in,          \
                                             size_t length)                                        \
    {                                                                                              \
        shake##bits##_inc_absorb(state, in, length);                                               \
    }                                                                                              \
    static inline void prefix##bits##_finalize(prefix##bits##ctx *state)                           \
    {                                                                                              \
        shake##bits##_inc_finalize(state);                                                         \
    }                                                                                              \
    static inline void prefix##bits##_absorb_once(prefix##bits##ctx *state, const uint8_t *in,     \
                                                  size_t length)                                   \
    {                                                                                              \
        prefix##bits##_absorb(state, in, length);                                                  \
        prefix##bits##_finalize(state);                                                            \
    }                                                                                              \
    static inline void prefix##bits##_squeeze(uint8_t *out, size_t length,                         \
                                              prefix##bits##ctx *state)                            \
    {                                                                                              \
        shake##bits##_inc_squeeze(out, length, state);                                             \
    }                                                                                              \
    static inline void prefix##bits##_squeezeblocks(uint8_t *out, size_t blocks,                   \
                                                    prefix##bits##ctx *state)                      \
    {                                                                                              \
        prefix##bits##_squeeze(out, blocks *(rate), state);                                        \
    }                                                                                              \
    static inline void prefix##bits##_release(prefix##bits##ctx *state)                            \
    {                                                                                              \
        shake##bits##_inc_ctx_release(state);                                                      \
    }                                                                                              \
    static inline void prefix##bits##x4_init(prefix##bits##x4ctx *state)                           \
    {                                                                                              \
        for (int i = 0; i < 4; i++)                                                                \
            prefix##bits##_init(&state->each[i]);                                                  \
    }                                                                                              \
    static inline void prefix##bits##x4_absorb_once(prefix##bits##x4ctx *state, const uint8_t *a,  \
                                                    const uint8_t *b, const uint8_t *c,            \
                                                    const uint8_t *d, size_t length)               \
    {                                                                                              \
        const uint8_t *const in[] = {a, b, c, d};                                                  \
        for (int i = 0; i < 4; i++)                                                                \
            prefix##bits##_absorb_once(&state->each[i], in[i], length);                            \
    }                                                                                              \
    static inline void prefix##bits##x4_squeezeblocks(                                             \
        uint8_t *a, uint8_t *b, uint8_t *c, uint8_t *d, size_t blocks, prefix##bits##x4ctx *state) \
    {                                                                                              \
        uint8_t *const out[] = {a, b, c, d};                                                       \
        for (int i = 0; i < 4; i++)                                                                \
            prefix##bits##_squeezeblocks(out[i], blocks, &state->each[i]);                         \
    }                                                                                              \
    static inline void prefix##bits##x4_release(prefix##bits##x4ctx *state)                        \
    {                                                                                              \
        for (int i = 0; i < 4; i++)                                                                \
            prefix##bits##_release(&state->each[i]);                                               \
    }

#ifdef LAB_KEM
SHAKE(mlk_shake, 128, SHAKE128_RATE)
#define mlk_shake256 shake256
#define mlk_sha3_256 sha3_256
#define mlk_sha3_512 sha3_512

static inline void mlk_shake256x4(uint8_t *a, uint8_t *b, uint8_t *c, uint8_t *d, size_t length,
                                  uint8_t *e, uint8_t *f, uint8_t *g, uint8_t *h, size_t taken)
{
    shake256(a, length, e, taken);
    shake256(b, length, f, taken);
    shake256(c, length, g, taken);
    shake256(d, length, h, taken);
}

#define MLK_CONFIG_FILE "api.h"
#define MLK_CONFIG_PARAMETER_SET 768
#define MLK_CONFIG_NAMESPACE_PREFIX mlkem
#define MLK_CONFIG_FIPS202_CUSTOM_HEADER "api.h"
#define MLK_CONFIG_FIPS202X4_CUSTOM_HEADER "api.h"
#define MLK_CONFIG_CUSTOM_RANDOMBYTES
#define mlk_randombytes PQCLEAN_randombytes
#define MLK_CONFIG_INTERNAL_API_QUALIFIER static
#define MLK_CONFIG_EXTERNAL_API_QUALIFIER static
#include "mlkem_native_bcm.c"

int crypto_kem_keypair(uint8_t *pk, uint8_t *sk)
{
    return mlkem_keypair(pk, sk);
}

int crypto_kem_enc(uint8_t *ct, uint8_t *ss, const uint8_t *pk)
{
    return mlkem_enc(ct, ss, pk);
}

int crypto_kem_dec(uint8_t *ss, const uint8_t *ct, const uint8_t *sk)
{
    return mlkem_dec(ss, ct, sk);
}
#else
SHAKE(mld_shake, 128, SHAKE128_RATE)
SHAKE(mld_shake, 256, SHAKE256_RATE)
#define mld_shake256 shake256

#define MLD_CONFIG_FILE "api.h"
#define MLD_CONFIG_PARAMETER_SET 65
#define MLD_CONFIG_NAMESPACE_PREFIX mldsa
#define MLD_CONFIG_FIPS202_CUSTOM_HEADER "api.h"
#define MLD_CONFIG_FIPS202X4_CUSTOM_HEADER "api.h"
#define MLD_CONFIG_CUSTOM_RANDOMBYTES
#define mld_randombytes PQCLEAN_randombytes
#define MLD_CONFIG_INTERNAL_API_QUALIFIER static
#define MLD_CONFIG_EXTERNAL_API_QUALIFIER static
#include "mldsa_native_bcm.c"

int crypto_sign_keypair(uint8_t *pk, uint8_t *sk)
{
    return mldsa_keypair(pk, sk);
}

int crypto_sign_signature(uint8_t *sig, size_t *siglen, const uint8_t *m, size_t mlen,
                          const uint8_t *sk)
{
    *siglen = CRYPTO_BYTES;
    return mldsa_signature(sig, m, mlen, NULL, 0, sk);
}

int crypto_sign_verify(const uint8_t *sig, size_t siglen, const uint8_t *m, size_t mlen,
                       const uint8_t *pk)
{
    return siglen != CRYPTO_BYTES || mldsa_verify(sig, m, mlen, NULL, 0, pk);
}
#endif
