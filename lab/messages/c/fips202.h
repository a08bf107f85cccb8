/* SHA-3 and SHAKE by c-fn-dsa, under the names that mlkem-native and mldsa-native call them by.
 * FIPS202(name) puts the prefix of one of them before a name.   SPDX-License-Identifier: MIT */
#ifndef LAB_FIPS202_H
#define LAB_FIPS202_H

#include "inner.h"

enum { SHAKE128_RATE = 168, SHAKE256_RATE = 136 };

#define SHAKE(bits)                                                                                \
    typedef shake_context FIPS202(shake##bits##ctx);                                               \
    static inline void FIPS202(shake##bits##_init)(shake_context state[1])                         \
    {                                                                                              \
        shake_init(state, bits);                                                                   \
    }                                                                                              \
    static inline void FIPS202(shake##bits##_absorb)(shake_context state[1], const uint8_t *in,    \
                                                     size_t length)                                \
    {                                                                                              \
        shake_inject(state, in, length);                                                           \
    }                                                                                              \
    static inline void FIPS202(shake##bits##_finalize)(shake_context state[1])                     \
    {                                                                                              \
        shake_flip(state);                                                                         \
    }                                                                                              \
    static inline void FIPS202(shake##bits##_absorb_once)(shake_context state[1],                  \
                                                          const uint8_t *in, size_t length)        \
    {                                                                                              \
        shake_inject(state, in, length);                                                           \
        shake_flip(state);                                                                         \
    }                                                                                              \
    static inline void FIPS202(shake##bits##_squeeze)(uint8_t out[], size_t length,                \
                                                      shake_context state[1])                      \
    {                                                                                              \
        shake_extract(state, out, length);                                                         \
    }                                                                                              \
    static inline void FIPS202(shake##bits##_squeezeblocks)(uint8_t out[], size_t blocks,          \
                                                            shake_context state[1])                \
    {                                                                                              \
        shake_extract(state, out, blocks *SHAKE##bits##_RATE);                                     \
    }                                                                                              \
    static inline void FIPS202(shake##bits##_release)(shake_context state[1])                      \
    {                                                                                              \
        (void)state;                                                                               \
    }

SHAKE(128)
SHAKE(256)

static inline void FIPS202(shake256)(uint8_t *out, size_t length, const uint8_t *in, size_t size)
{
    shake_context state;
    shake_init(&state, 256);
    shake_inject(&state, in, size);
    shake_flip(&state);
    shake_extract(&state, out, length);
}

#define SHA3(bits)                                                                                 \
    static inline void FIPS202(sha3_##bits)(uint8_t out[], const uint8_t *in, size_t size)         \
    {                                                                                              \
        sha3_context state;                                                                        \
        sha3_init(&state, bits);                                                                   \
        sha3_update(&state, in, size);                                                             \
        sha3_close(&state, out);                                                                   \
    }

SHA3(256)
SHA3(512)

#endif
