/* All of mlkem-native (-DLAB_KEM) or mldsa-native as one file: its configuration, the SHAKE of
 * PQClean that it gets instead of a library's, and pqm4's names.   SPDX-License-Identifier: MIT */
#include <string.h>

#include "api.h"
#include "fips202.h"

int PQCLEAN_randombytes(uint8_t *bytes, size_t length);

#ifdef LAB_KEM
#define mlk_shake128ctx shake128incctx
#define mlk_shake128_init shake128_inc_init
#define mlk_shake128_absorb_once(state, in, length)                                                \
    (shake128_inc_absorb(state, in, length), shake128_inc_finalize(state))
#define mlk_shake128_squeezeblocks(out, blocks, state)                                             \
    shake128_inc_squeeze(out, (blocks) * (size_t)SHAKE128_RATE, state)
#define mlk_shake128_release shake128_inc_ctx_release
#define mlk_shake256 shake256
#define mlk_sha3_256 sha3_256
#define mlk_sha3_512 sha3_512

#define MLK_CONFIG_FILE "api.h"
#define MLK_CONFIG_PARAMETER_SET 768
#define MLK_CONFIG_NAMESPACE_PREFIX crypto_kem
#define MLK_CONFIG_FIPS202_CUSTOM_HEADER "api.h"
#define MLK_CONFIG_SERIAL_FIPS202_ONLY
#define MLK_CONFIG_CUSTOM_RANDOMBYTES
#define mlk_randombytes PQCLEAN_randombytes
#define MLK_CONFIG_INTERNAL_API_QUALIFIER static
#include "mlkem_native_bcm.c"
#else
#define mld_shake128ctx shake128incctx
#define mld_shake128_init shake128_inc_init
#define mld_shake128_absorb shake128_inc_absorb
#define mld_shake128_finalize shake128_inc_finalize
#define mld_shake128_squeeze shake128_inc_squeeze
#define mld_shake128_release shake128_inc_ctx_release
#define mld_shake256ctx shake256incctx
#define mld_shake256_init shake256_inc_init
#define mld_shake256_absorb shake256_inc_absorb
#define mld_shake256_finalize shake256_inc_finalize
#define mld_shake256_squeeze shake256_inc_squeeze
#define mld_shake256_release shake256_inc_ctx_release
#define mld_shake256 shake256

#define MLD_CONFIG_FILE "api.h"
#define MLD_CONFIG_PARAMETER_SET 65
#define MLD_CONFIG_NAMESPACE_PREFIX mldsa
#define mldsa_keypair crypto_sign_keypair
#define MLD_CONFIG_FIPS202_CUSTOM_HEADER "api.h"
#define MLD_CONFIG_SERIAL_FIPS202_ONLY
#define MLD_CONFIG_CUSTOM_RANDOMBYTES
#define mld_randombytes PQCLEAN_randombytes
#define MLD_CONFIG_INTERNAL_API_QUALIFIER static
#include "mldsa_native_bcm.c"

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
