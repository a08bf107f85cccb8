/* The curve that a flag names, and the bytes of its numbers.   SPDX-License-Identifier: MIT */
#ifndef CURVE_H
#define CURVE_H

#if defined(LAB_SECP256R1)
#define LAB_CURVE uECC_secp256r1
#define LAB_FIELD 32
#define LAB_SCALAR 32
#elif defined(LAB_SECP256K1)
#define LAB_CURVE uECC_secp256k1
#define LAB_FIELD 32
#define LAB_SCALAR 32
#elif defined(LAB_SECP160R1)
#define LAB_CURVE uECC_secp160r1
#define LAB_FIELD 20
#define LAB_SCALAR 21 /* its order has 161 bits */
#endif

#endif
