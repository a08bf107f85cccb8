/* The steps of a check or a MAC: make a tag, accept a right one, refuse a wrong one.
 *
 * The file that includes this has defined LAB_TAG, the bytes of a tag, and these functions. Its
 * vectors compare whole tags with published ones.   SPDX-License-Identifier: MIT */
#ifndef TAG_H
#define TAG_H

#include "operation.h"
#include "vectors.h"

/* Of 16 bytes. All that can be worked out in advance is worked out here. */
static void set_key(const uint8_t *key);

/* LAB_TAG bytes. The compiler must make one function for every length, and none for the few lengths
 * of this file. It must not guess from the callers in this file, such as the vectors, how often the
 * function runs. With the attribute `used`, it must expect other callers, too. */
static void make_tag(uint8_t *tag, const uint8_t *message, size_t length) LAB_APART
    __attribute__((used));

enum { WHOLE_WORDS = (LAB_TAG + 3) / 4 * 4 }; /* Padding would count as static RAM. */

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

/* A published tag, of the first bytes of a message; and whether all of them are made so. */
struct vector {
    uint16_t length;
    uint8_t tag[LAB_TAG];
};

static inline bool tags_agree(const uint8_t *message, const struct vector *vectors, size_t count)
{
    uint8_t tag[LAB_TAG];
    for (size_t i = 0; i < count; i++) {
        make_tag(tag, message, vectors[i].length);
        if (!lab_same(tag, vectors[i].tag, LAB_TAG))
            return false;
    }
    return true;
}

#define AGREE(message, vectors) tags_agree(message, vectors, sizeof(vectors) / sizeof *(vectors))

static inline void count_upwards(uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)i;
}

STEP(key)
STEP(make)
STEP(accept)
STEP(refuse)

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
    for (int i = 0; i < LAB_TAG; i++) {
        lab_tag[i] ^= 0x80;
        if (tag_is_right(lab_message, sizeof lab_message, lab_tag))
            return false;
        lab_tag[i] ^= 0x80;
    }
    return tag_is_right(lab_message, sizeof lab_message, lab_tag);
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
    lab_message[LAB_LENGTH - 1] ^= 1;
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
