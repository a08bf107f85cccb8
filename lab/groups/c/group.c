/* The group of a curve, by micro-ecc, as a shared library: real.py calls it. It is one file
 * with micro-ecc, whose operations on points are static. Points are x and y, big-endian; the
 * neutral element has none, and stays in Python.   SPDX-License-Identifier: MIT */
#include "uECC.c"

#include "curve.h"

enum { WORDS = 2 * uECC_MAX_WORDS };

static void load(uECC_word_t *point, const uint8_t *bytes)
{
    const uECC_Curve curve = LAB_CURVE();
    uECC_vli_bytesToNative(point, bytes, curve->num_bytes);
    uECC_vli_bytesToNative(point + curve->num_words, bytes + curve->num_bytes, curve->num_bytes);
}

static void store(uint8_t *bytes, const uECC_word_t *point)
{
    const uECC_Curve curve = LAB_CURVE();
    uECC_vli_nativeToBytes(bytes, curve->num_bytes, point);
    uECC_vli_nativeToBytes(bytes + curve->num_bytes, curve->num_bytes, point + curve->num_words);
}

void group_generator(uint8_t *out)
{
    store(out, LAB_CURVE()->G);
}

/* The scalar is from 1 to the order - 1. */
void group_multiply(uint8_t *out, const uint8_t *point, const uint8_t *scalar)
{
    const uECC_Curve curve = LAB_CURVE();
    uECC_word_t from[WORDS], to[WORDS], number[uECC_MAX_WORDS];
    load(from, point);
    uECC_vli_bytesToNative(number, scalar, BITS_TO_BYTES(curve->num_n_bits));
    uECC_point_mult(to, from, number, curve);
    store(out, to);
}

/* Two points whose x differ. */
void group_add(uint8_t *out, const uint8_t *first, const uint8_t *second)
{
    const uECC_Curve curve = LAB_CURVE();
    const wordcount_t words = curve->num_words;
    uECC_word_t a[WORDS], b[WORDS], z[uECC_MAX_WORDS];
    load(a, first);
    load(b, second);
    uECC_vli_modSub(z, b, a, curve->p, words);
    XYcZ_add(a, a + words, b, b + words, curve);
    uECC_vli_modInv(z, z, curve->p, words);
    apply_z(b, b + words, z, curve);
    store(out, b);
}

void group_double(uint8_t *out, const uint8_t *point)
{
    const uECC_Curve curve = LAB_CURVE();
    const wordcount_t words = curve->num_words;
    uECC_word_t a[WORDS], z[uECC_MAX_WORDS] = {1};
    load(a, point);
    curve->double_jacobian(a, a + words, z, curve);
    uECC_vli_modInv(z, z, curve->p, words);
    apply_z(a, a + words, z, curve);
    store(out, a);
}

/* From x, and 2 or 3 for an even or odd y. False if no point has this x. */
int group_decompress(uint8_t *out, const uint8_t *compressed)
{
    uECC_decompress(compressed, out, LAB_CURVE());
    return uECC_valid_public_key(out, LAB_CURVE());
}

int group_is_point(const uint8_t *point)
{
    return uECC_valid_public_key(point, LAB_CURVE());
}
