/* The library's own checksum.   SPDX-License-Identifier: MIT */
#define LAB_TAG 4
#include "tag.h"

#include "dumpulse.h"

static void set_key(const uint8_t *key)
{
    (void)key;
}

static void make_tag(uint8_t *tag, const uint8_t *message, size_t length)
{
    unsigned a, b;
    dumpulse_sum_(message, (uint_fast8_t)(length - 1), &a, &b);
    dumpulse_write16_(tag, b);
    dumpulse_write16_(tag + 2, a);
}

/* RFC 1950 names the algorithm; the value is that of the article on it that everybody quotes. */
static bool vectors_agree(void)
{
    static const uint8_t lab_right[] = {0x11, 0xE6, 0x03, 0x98};
    uint8_t tag[LAB_TAG];
    make_tag(tag, (const uint8_t *)"Wikipedia", 9);
    return lab_same(tag, lab_right, LAB_TAG);
}
