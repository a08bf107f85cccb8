/* What each operation of blst costs, and each whole that is made of them: signatures of Pointcheval
 * and Sanders (2018), and BLS signatures. bridges.py counts the operations of a whole. One file
 * with blst, whose operations on points and fields are static.
 *
 * A run is one operation, or one whole. First come LAB_REPEAT runs of each operation, then all
 * wholes in turn. blst takes the same time for all numbers.   SPDX-License-Identifier: MIT */
#include "server.c"

#include "operation.h"

STEP(operations)

enum { MOST = 10, SCALAR = 32, HASHED = 32, BITS = 255 };

static POINTonE1 lab_p[1], lab_p_other[1], lab_p_out[1], lab_p_table[16];
static POINTonE2 lab_q[1], lab_q_other[1], lab_q_out[1], lab_q_table[16];
static POINTonE1_affine lab_p_affine[1];
static POINTonE2_affine lab_q_affine[1];
static vec384fp12 lab_f, lab_g;
static vec384fp6 lab_line;
static vec256 lab_fr, lab_fr_other;
static pow256 lab_scalar;
static bool_t lab_infinite;

/* Keys, messages and signatures. */
static vec256 lab_secret[MOST + 2];
static pow256 lab_messages[MOST + 1], lab_key;
static POINTonE2 lab_public[MOST + 2], lab_key_public[1];
static POINTonE1 lab_base[1], lab_sigma[1];
static POINTonE1_affine lab_base_affine[1], lab_sigma_affine[1];
static unsigned lab_count;
static bool lab_answer;

#define OPERATION(name, work)                                                                      \
    static LAB_APART void name(void)                                                               \
    {                                                                                              \
        work;                                                                                      \
    }

OPERATION(nothing, __asm__ volatile(""))
OPERATION(fp_multiply, mul_fp(lab_p_out->X, lab_p->X, lab_p->Y))
OPERATION(fp_square, sqr_fp(lab_p_out->X, lab_p->X))
OPERATION(fp_add, add_fp(lab_p_out->X, lab_p->X, lab_p->Y))
OPERATION(fp_subtract, sub_fp(lab_p_out->X, lab_p->X, lab_p->Y))
OPERATION(fp_triple, mul_by_3_fp(lab_p_out->X, lab_p->X))
OPERATION(fp_times_8, mul_by_8_fp(lab_p_out->X, lab_p->X))
OPERATION(fp2_multiply, mul_fp2(lab_q_out->X, lab_q->X, lab_q->Y))
OPERATION(fp2_square, sqr_fp2(lab_q_out->X, lab_q->X))
OPERATION(fp2_add, add_fp2(lab_q_out->X, lab_q->X, lab_q->Y))
OPERATION(fp2_subtract, sub_fp2(lab_q_out->X, lab_q->X, lab_q->Y))
OPERATION(fp2_triple, mul_by_3_fp2(lab_q_out->X, lab_q->X))
OPERATION(fp2_times_8, mul_by_8_fp2(lab_q_out->X, lab_q->X))
OPERATION(fp2_shift, lshift_fp2(lab_q_out->X, lab_q->X, 2))
OPERATION(fp12_multiply, mul_fp12(lab_f, lab_f, lab_g))
OPERATION(fp12_square, sqr_fp12(lab_f, lab_g))
OPERATION(fp12_by_line, mul_by_xy00z0_fp12(lab_f, lab_g, lab_line))
OPERATION(fp12_cyclotomic, cyclotomic_sqr_fp12(lab_f, lab_g))
OPERATION(fp12_frobenius, frobenius_map_fp12(lab_f, lab_g, 2))
OPERATION(fp12_conjugate, conjugate_fp12(lab_f))
OPERATION(fp12_invert, inverse_fp12(lab_f, lab_g))
OPERATION(g1_add, POINTonE1_add(lab_p_out, lab_p, lab_p_other))
OPERATION(g1_add_or_double, POINTonE1_dadd(lab_p_out, lab_p, lab_p_other, NULL))
OPERATION(g1_double, POINTonE1_double(lab_p_out, lab_p))
OPERATION(g1_select, vec_select(lab_p_out, lab_p, lab_p_other, sizeof lab_p, lab_infinite))
OPERATION(g1_affine, POINTonE1_to_affine(lab_p_affine, lab_p))
OPERATION(g1_hash, blst_hash_to_g1(lab_p_out, lab_scalar, HASHED, NULL, 0, NULL, 0))
OPERATION(g2_add, POINTonE2_add(lab_q_out, lab_q, lab_q_other))
OPERATION(g2_add_or_double, POINTonE2_dadd(lab_q_out, lab_q, lab_q_other, NULL))
OPERATION(g2_double, POINTonE2_double(lab_q_out, lab_q))
OPERATION(g2_select, vec_select(lab_q_out, lab_q, lab_q_other, sizeof lab_q, lab_infinite))
OPERATION(g2_psi, psi(lab_q_out, lab_q))
OPERATION(g2_affine, POINTonE2_to_affine(lab_q_affine, lab_q))
OPERATION(miller_loop, miller_loop_n(lab_f, lab_q_affine, lab_p_affine, 1))
OPERATION(final_power, final_exp(lab_f, lab_g))

/* A message times a secret, added: what a signature works out in the field of exponents. */
static LAB_APART void scalar_multiply_add(void)
{
    vec256 product;
    blst_fr_from_scalar(product, lab_scalar);
    blst_fr_mul(product, product, lab_fr);
    blst_fr_add(lab_fr_other, lab_fr_other, product);
}

/* What a step of a multiplication does besides adding and doubling: it reads the whole table, so
 * that nobody can see which entry it takes, and keeps what it needs of the sum. */
#define LOOK_UP(name, ptype, table, out, row)                                                      \
    static LAB_APART void name(void)                                                               \
    {                                                                                              \
        const bool_t row_is_inf =                                                                  \
            ptype##_gather_booth_w5(row, table, booth_encode(get_wval(lab_scalar, 9, 6) & 63, 5)); \
        ptype##_ccopy(out, row, (lab_infinite | row_is_inf) ^ 1);                                  \
        lab_infinite |= vec_is_zero(out->Z, sizeof(out->Z));                                       \
        ptype##_ccopy(out, row, lab_infinite);                                                     \
    }
LOOK_UP(g1_look_up, POINTonE1, lab_p_table, lab_p_out, lab_p)
LOOK_UP(g2_look_up, POINTonE2, lab_q_table, lab_q_out, lab_q)

/* An entry of the second table of G1 from one of the first. */
static LAB_APART void g1_beta(void)
{
    mul_fp(lab_p_out->X, lab_p->X, beta);
    cneg_fp(lab_p_out->Y, lab_p->Y, 1);
    vec_copy(lab_p_out->Z, lab_p->Z, sizeof(lab_p->Z));
}

/* In the order of BLST in bridges.py. */
static void (*const lab_operations[])(void) = {
    nothing,      fp_multiply,         fp_square,       fp_add,           fp_subtract,
    fp_triple,    fp_times_8,          fp2_multiply,    fp2_square,       fp2_add,
    fp2_subtract, fp2_triple,          fp2_times_8,     fp2_shift,        fp12_multiply,
    fp12_square,  fp12_by_line,        fp12_cyclotomic, fp12_frobenius,   fp12_conjugate,
    fp12_invert,  scalar_multiply_add, g1_add,          g1_add_or_double, g1_double,
    g1_look_up,   g1_select,           g1_beta,         g1_affine,        g1_hash,
    g2_add,       g2_add_or_double,    g2_double,       g2_look_up,       g2_select,
    g2_psi,       g2_affine,           miller_loop,     final_power,
};
enum { OPERATIONS = sizeof lab_operations / sizeof *lab_operations };

/* The signature is for any random element of G1: here, for the generator's power that is given. */
static void ps18_sign(void)
{
    vec256 power, product;
    pow256 scalar;
    vec_copy(power, lab_secret[0], sizeof power);
    for (unsigned j = 0; j <= lab_count; j++) {
        blst_fr_from_scalar(product, lab_messages[j]);
        blst_fr_mul(product, product, lab_secret[j + 1]);
        blst_fr_add(power, power, product);
    }
    blst_scalar_from_fr(scalar, power);
    blst_p1_mult(lab_sigma, lab_base, scalar, BITS);
}

/* e(h, X Y^m …) = e(σ, g~), with both powers of Miller loops in one. */
static void ps18_verify(void)
{
    POINTonE2 product, power;
    POINTonE2_affine right;
    vec384fp12 one, two;
    product = lab_public[0];
    for (unsigned j = 0; j <= lab_count; j++) {
        blst_p2_mult(&power, &lab_public[j + 1], lab_messages[j], BITS);
        blst_p2_add_or_double(&product, &product, &power);
    }
    blst_p2_to_affine(&right, &product);
    blst_miller_loop(one, &right, lab_base_affine);
    blst_miller_loop(two, NULL, lab_sigma_affine);
    lab_answer = blst_fp12_finalverify(one, two) != 0;
}

static LAB_APART void whole_ps18_sign(void)
{
    ps18_sign();
}

static LAB_APART void whole_ps18_verify(void)
{
    ps18_verify();
}

static LAB_APART void whole_bls_sign(void)
{
    POINTonE1 hashed;
    blst_hash_to_g1(&hashed, lab_messages[0], HASHED, NULL, 0, NULL, 0);
    blst_p1_mult(lab_sigma, &hashed, lab_key, BITS);
}

static LAB_APART void whole_bls_verify(void)
{
    POINTonE1 hashed;
    POINTonE1_affine message;
    POINTonE2_affine key;
    vec384fp12 one, two;
    blst_hash_to_g1(&hashed, lab_messages[0], HASHED, NULL, 0, NULL, 0);
    blst_p1_to_affine(&message, &hashed);
    blst_p2_to_affine(&key, lab_key_public);
    blst_miller_loop(one, &key, &message);
    blst_miller_loop(two, NULL, lab_sigma_affine);
    lab_answer = blst_fp12_finalverify(one, two) != 0;
}

/* In the order of the wholes in bridges.py. */
static const struct {
    void (*run)(void);
    unsigned messages;
    bool verifies;
} lab_wholes[] = {
    {whole_ps18_sign, 1, false},     {whole_ps18_verify, 1, true}, {whole_ps18_sign, MOST, false},
    {whole_ps18_verify, MOST, true}, {whole_bls_sign, 1, false},   {whole_bls_verify, 1, true},
};

static void (*lab_now)(void);
static bool lab_signs;

static void draw(pow256 scalar, unsigned number)
{
    lab_fill(scalar, SCALAR, number);
    scalar[SCALAR - 1] &= 0x3F; /* below the order */
}

static void make_keys(void)
{
    pow256 scalar;
    for (unsigned j = 0; j < MOST + 2; j++) {
        draw(scalar, j);
        blst_fr_from_scalar(lab_secret[j], scalar);
        blst_p2_mult(&lab_public[j], blst_p2_generator(), scalar, BITS);
    }
    for (unsigned j = 0; j < MOST + 1; j++)
        draw(lab_messages[j], 100 + j);
    draw(scalar, 200);
    blst_p1_mult(lab_base, blst_p1_generator(), scalar, BITS);
    blst_p1_to_affine(lab_base_affine, lab_base);
    draw(lab_key, 201);
    blst_p2_mult(lab_key_public, blst_p2_generator(), lab_key, BITS);
}

/* Numbers of fields: the least limbs come first, and a number below 2^380 is below p. */
static void make_inputs(unsigned n)
{
    static void *const lab_blocks[] = {lab_p,       lab_p_other,  lab_q,       lab_q_other,
                                       lab_p_table, lab_q_table,  lab_f,       lab_g,
                                       lab_line,    lab_p_affine, lab_q_affine};
    static const size_t lab_sizes[] = {sizeof lab_p,        sizeof lab_p_other, sizeof lab_q,
                                       sizeof lab_q_other,  sizeof lab_p_table, sizeof lab_q_table,
                                       sizeof lab_f,        sizeof lab_g,       sizeof lab_line,
                                       sizeof lab_p_affine, sizeof lab_q_affine};
    for (unsigned i = 0; i < sizeof lab_sizes / sizeof *lab_sizes; i++) {
        lab_fill(lab_blocks[i], lab_sizes[i], 100 * n + i);
        for (size_t at = sizeof(vec384) - 1; at < lab_sizes[i]; at += sizeof(vec384))
            ((uint8_t *)lab_blocks[i])[at] &= 0x0F;
    }
    draw(lab_scalar, n);
    blst_fr_from_scalar(lab_fr, lab_scalar);
    blst_fr_from_scalar(lab_fr_other, lab_scalar);
    lab_infinite = 0;
}

void operations_prepare(unsigned n)
{
    lab_answer = true;
    lab_signs = false;
    if (n < OPERATIONS * LAB_REPEAT) {
        make_inputs(n);
        lab_now = lab_operations[n / LAB_REPEAT];
        return;
    }
    const unsigned whole = (n - OPERATIONS * LAB_REPEAT) % (sizeof lab_wholes / sizeof *lab_wholes);
    if (whole == 0)
        make_keys();
    lab_count = lab_wholes[whole].messages;
    lab_now = lab_wholes[whole].run;
    lab_signs = !lab_wholes[whole].verifies;
}

void operations_run(void)
{
    lab_now();
}

/* A signature is right if the next whole, its verification, accepts it, and refuses another. */
bool operations_right(void)
{
    if (lab_signs) {
        blst_p1_to_affine(lab_sigma_affine, lab_sigma);
        return true;
    }
    if (lab_now == whole_ps18_verify || lab_now == whole_bls_verify) {
        const bool accepted = lab_answer;
        lab_messages[0][0] ^= 1;
        lab_now();
        lab_messages[0][0] ^= 1;
        return accepted && !lab_answer;
    }
    return lab_answer;
}
