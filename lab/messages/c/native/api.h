/* mlkem-native (-DLAB_KEM) or mldsa-native with the interface of pqm4.
 * SPDX-License-Identifier: MIT */
#ifndef LAB_NATIVE_API_H
#define LAB_NATIVE_API_H
#include <stddef.h>
#include <stdint.h>

#ifdef LAB_KEM
#define CRYPTO_ALGNAME "ML-KEM-768 native"
#define CRYPTO_PUBLICKEYBYTES 1184
#define CRYPTO_SECRETKEYBYTES 2400
#define CRYPTO_CIPHERTEXTBYTES 1088
#define CRYPTO_BYTES 32
int crypto_kem_keypair(uint8_t *pk, uint8_t *sk);
int crypto_kem_enc(uint8_t *ct, uint8_t *ss, const uint8_t *pk);
int crypto_kem_dec(uint8_t *ss, const uint8_t *ct, const uint8_t *sk);
#else
#define CRYPTO_ALGNAME "ML-DSA-65 native"
#define CRYPTO_PUBLICKEYBYTES 1952
#define CRYPTO_SECRETKEYBYTES 4032
#define CRYPTO_BYTES 3309
int crypto_sign_keypair(uint8_t *pk, uint8_t *sk);
int crypto_sign_signature(uint8_t *sig, size_t *siglen, const uint8_t *m, size_t mlen,
                          const uint8_t *sk);
int crypto_sign_verify(const uint8_t *sig, size_t siglen, const uint8_t *m, size_t mlen,
                       const uint8_t *pk);
#endif
#endif
