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

/* RFC 1950 names the algorithm. The first value is that of the article on it that everybody quotes.
 * The other is zlib's and Python's, of all 256 bytes, upwards. */
static bool vectors_agree(void)
{
    static const struct vector lab_of_name[] = {{9, {0x11, 0xE6, 0x03, 0x98}}};
    static const struct vector lab_of_all[] = {{256, {0xAD, 0xF6, 0x7F, 0x81}}};
    uint8_t all[256];
    count_upwards(all, sizeof all);
    return AGREE((const uint8_t *)"Wikipedia", lab_of_name) && AGREE(all, lab_of_all);
}
