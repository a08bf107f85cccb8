/* The steps of a check or a MAC: make a tag, accept a right one, refuse a wrong one.
 *
 * The file that includes this has defined LAB_TAG, the bytes of a tag, and these functions. Its
 * vectors compare whole tags with published ones.   SPDX-License-Identifier: MIT */
#ifndef TAG_H
#define TAG_H

#include "operation.h"

/* 16 bytes; what can be worked out in advance is */
static void set_key(const uint8_t *key);

/* LAB_TAG bytes, as a function for every length: the compiler must not make one for these few. */
static void make_tag(uint8_t *tag, const uint8_t *message, size_t length) LAB_APART;
static bool vectors_agree(void);

enum { WHOLE_WORDS = (LAB_TAG + 3) / 4 * 4 }; /* or what pads them would count as static RAM */

static uint8_t lab_message[LAB_LENGTH], lab_tag[WHOLE_WORDS], lab_key[16];
static int lab_answer;

/* In constant time: how many bytes of a guess are right must not show. */
static bool tag_is_right(const uint8_t *message, size_t length, const uint8_t *tag)
{
    uint8_t right[LAB_TAG], differ = 0;
    make_tag(right, message, length);
    for (size_t i = 0; i < LAB_TAG; i++)
        differ |= (uint8_t)(right[i] ^ tag[i]);
    return differ == 0;
}

STEP(vectors)
STEP(key)
STEP(make)
STEP(accept)
STEP(refuse)

void vectors_prepare(unsigned n)
{
    (void)n;
}

void vectors_run(void)
{
    lab_answer = vectors_agree();
}

bool vectors_right(void)
{
    return lab_answer;
}

void key_prepare(unsigned n)
{
    (void)n;
    lab_fill(lab_key, sizeof lab_key, 1001);
    set_key(lab_key);
    lab_fill(lab_key, sizeof lab_key, 1000);
}

void key_run(void)
{
    set_key(lab_key);
}

bool key_right(void)
{
    lab_fill(lab_message, sizeof lab_message, 0);
    make_run();
    set_key(lab_key);
    return make_right();
}

void make_prepare(unsigned n)
{
    (void)n;
    key_prepare(0);
    set_key(lab_key);
    lab_fill(lab_message, sizeof lab_message, 0);
}

void make_run(void)
{
    make_tag(lab_tag, lab_message, sizeof lab_message);
}

bool make_right(void)
{
    const bool right = tag_is_right(lab_message, sizeof lab_message, lab_tag);
    lab_tag[LAB_TAG - 1] ^= 0x80;
    return right && !tag_is_right(lab_message, sizeof lab_message, lab_tag);
}

void accept_prepare(unsigned n)
{
    make_prepare(n);
    make_run();
    lab_answer = false;
}

void accept_run(void)
{
    lab_answer = tag_is_right(lab_message, sizeof lab_message, lab_tag);
}

bool accept_right(void)
{
    return lab_answer;
}

void refuse_prepare(unsigned n)
{
    accept_prepare(n);
    lab_message[0] ^= 1;
    lab_answer = true;
}

void refuse_run(void)
{
    lab_answer = tag_is_right(lab_message, sizeof lab_message, lab_tag);
}

bool refuse_right(void)
{
    return !lab_answer;
}

#endif
