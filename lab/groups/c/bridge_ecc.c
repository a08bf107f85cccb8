/* What each operation of micro-ecc costs, and each whole that is made of them. bridges.py
 * counts the operations of a whole. One file with micro-ecc, whose operations are static.
 *
 * A run is one operation on other numbers, or one whole. First come LAB_REPEAT runs of each
 * operation, then all wholes in turn, again and again.   SPDX-License-Identifier: MIT */
#include "uECC.c"

#include "curve.h"
#include "operation.h"

#define LAB_GIVEN LAB_SCALAR
#include "random.h"

STEP(operations)

enum { WORDS = uECC_MAX_WORDS, DIGEST = 32 };

static uECC_word_t lab_x[2 * WORDS], lab_y[2 * WORDS], lab_z[2 * WORDS], lab_u[2 * WORDS],
    lab_v[2 * WORDS];
static uint8_t lab_secret[LAB_SCALAR], lab_nonce[LAB_SCALAR], lab_digest[DIGEST];
static uint8_t lab_public[2 * LAB_FIELD], lab_signature[2 * LAB_FIELD], lab_shared[LAB_FIELD];
static uint8_t lab_compressed[1 + LAB_FIELD], lab_found[2 * LAB_FIELD];
static bitcount_t lab_bit;
static bool lab_answer;

#define CURVE LAB_CURVE()
#define FIELD_WORDS (CURVE->num_words)
#define SCALAR_WORDS ((wordcount_t)BITS_TO_WORDS(CURVE->num_n_bits))

static int random_numbers(uint8_t *bytes, unsigned size)
{
    lab_random(bytes, size);
    return 1;
}

#define OPERATION(name, work)                                                                      \
    static LAB_APART void name(void)                                                               \
    {                                                                                              \
        work;                                                                                      \
    }

OPERATION(nothing, __asm__ volatile(""))
OPERATION(field_multiply, uECC_vli_modMult_fast(lab_x, lab_y, lab_z, CURVE))
OPERATION(field_square, uECC_vli_modSquare_fast(lab_x, lab_y, CURVE))
OPERATION(field_add, uECC_vli_modAdd(lab_x, lab_y, lab_z, CURVE->p, FIELD_WORDS))
OPERATION(field_subtract, uECC_vli_modSub(lab_x, lab_y, lab_z, CURVE->p, FIELD_WORDS))
OPERATION(field_copy, uECC_vli_set(lab_x, lab_y, FIELD_WORDS))
OPERATION(field_bytes, uECC_vli_bytesToNative(lab_x, lab_public, CURVE->num_bytes))
OPERATION(field_invert, uECC_vli_modInv(lab_x, lab_y, CURVE->p, FIELD_WORDS))
OPERATION(scalar_multiply, uECC_vli_modMult(lab_x, lab_u, lab_v, CURVE->n, SCALAR_WORDS))
OPERATION(scalar_invert, uECC_vli_modInv(lab_x, lab_u, CURVE->n, SCALAR_WORDS))
OPERATION(ladder_add, XYcZ_add(lab_x, lab_y, lab_u, lab_v, CURVE))
OPERATION(ladder_add_subtract, XYcZ_addC(lab_x, lab_y, lab_u, lab_v, CURVE))
OPERATION(point_double, CURVE->double_jacobian(lab_x, lab_y, lab_z, CURVE))
OPERATION(point_scale, apply_z(lab_x, lab_y, lab_z, CURVE))

/* x / 2, as in the middle of a doubling. */
static LAB_APART void field_halve(void)
{
    if (uECC_vli_testBit(lab_x, 0)) {
        const uECC_word_t carry = uECC_vli_add(lab_x, lab_x, CURVE->p, FIELD_WORDS);
        uECC_vli_rshift1(lab_x, FIELD_WORDS);
        lab_x[FIELD_WORDS - 1] |= carry << (uECC_WORD_BITS - 1);
    } else {
        uECC_vli_rshift1(lab_x, FIELD_WORDS);
    }
}

/* One bit of an exponent that is 1, as in the loop of a square root. */
static LAB_APART void field_power(void)
{
    uECC_vli_modSquare_fast(lab_x, lab_x, CURVE);
    if (uECC_vli_testBit(lab_y, lab_bit))
        uECC_vli_modMult_fast(lab_x, lab_x, lab_z, CURVE);
    lab_answer = --lab_bit > 1;
}

/* In the order of MICRO_ECC in bridges.py. */
static void (*const lab_operations[])(void) = {
    nothing,     field_multiply,      field_square, field_add,   field_subtract,  field_copy,
    field_halve, field_bytes,         field_invert, field_power, scalar_multiply, scalar_invert,
    ladder_add,  ladder_add_subtract, point_double, point_scale,
};
enum { OPERATIONS = sizeof lab_operations / sizeof *lab_operations };

static LAB_APART void whole_sign(void)
{
    uECC_word_t nonce[WORDS];
    uECC_vli_bytesToNative(nonce, lab_nonce, LAB_SCALAR);
    lab_answer = uECC_sign_with_k(lab_secret, lab_digest, DIGEST, nonce, lab_signature, CURVE) != 0;
}

static LAB_APART void whole_verify(void)
{
    lab_answer = uECC_verify(lab_public, lab_digest, DIGEST, lab_signature, CURVE) != 0;
}

/* The key is checked, as anybody may have sent it. */
static LAB_APART void whole_agree(void)
{
    lab_answer = uECC_valid_public_key(lab_public, CURVE) != 0 &&
                 uECC_shared_secret(lab_public, lab_nonce, lab_shared, CURVE) != 0;
}

static LAB_APART void whole_decompress(void)
{
    uECC_decompress(lab_compressed, lab_found, CURVE);
    lab_answer = lab_same(lab_found, lab_public, sizeof lab_found);
}

/* In the order of the wholes in bridges.py. */
static void (*const lab_wholes[])(void) = {whole_sign, whole_verify, whole_agree, whole_decompress};
enum { WHOLES = sizeof lab_wholes / sizeof *lab_wholes };

static void (*lab_now)(void);

/* bridges.py makes the same numbers. The order of secp160r1 has 161 bits, and these have 160.
 */
static void make_inputs(unsigned sample)
{
    lab_fill(lab_secret, sizeof lab_secret, 3 * sample);
    lab_fill(lab_nonce, sizeof lab_nonce, 3 * sample + 1);
    lab_fill(lab_digest, sizeof lab_digest, 3 * sample + 2);
#if LAB_SCALAR > LAB_FIELD
    lab_secret[0] = lab_nonce[0] = 0;
#endif
    if (!uECC_compute_public_key(lab_secret, lab_public, CURVE))
        memset(lab_public, 0, sizeof lab_public); /* then no whole does its work */
    uECC_compress(lab_public, lab_compressed, CURVE);
}

void operations_prepare(unsigned n)
{
    lab_seed(n);
    uECC_set_rng(random_numbers);
    uECC_generate_random_int(lab_x, CURVE->p, FIELD_WORDS);
    uECC_generate_random_int(lab_y, CURVE->p, FIELD_WORDS);
    uECC_generate_random_int(lab_z, CURVE->p, FIELD_WORDS);
    lab_answer = true;
    lab_bit = 80; /* of p of both curves it is 1 */
    if (n < OPERATIONS * LAB_REPEAT) {
        lab_now = lab_operations[n / LAB_REPEAT];
        if (lab_now == field_power)
            uECC_vli_set(lab_y, CURVE->p, FIELD_WORDS);
        const bool scalars = lab_now == scalar_multiply || lab_now == scalar_invert;
        uECC_generate_random_int(lab_u, scalars ? CURVE->n : CURVE->p,
                                 scalars ? SCALAR_WORDS : FIELD_WORDS);
        uECC_generate_random_int(lab_v, scalars ? CURVE->n : CURVE->p,
                                 scalars ? SCALAR_WORDS : FIELD_WORDS);
        return;
    }
    const unsigned whole = (n - OPERATIONS * LAB_REPEAT) % WHOLES;
    if (whole == 0)
        make_inputs((n - OPERATIONS * LAB_REPEAT) / WHOLES);
    lab_now = lab_wholes[whole];
}

void operations_run(void)
{
    lab_now();
}

bool operations_right(void)
{
    return lab_answer;
}
