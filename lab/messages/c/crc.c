/* CRC-16 (CCITT's polynomial) and CRC-32 (zlib's), the latter in two ways.
 * SPDX-License-Identifier: MIT */
#include <stdint.h>

#ifdef CRC16
#define LAB_TAG 2
#else
#define LAB_TAG 4
#endif
#include "tag.h"

#ifdef __AVR__
#include <avr/pgmspace.h>
#define CONSTANT PROGMEM
#define READ32(address) pgm_read_dword(address)
#else
#define CONSTANT
#define READ32(address) (*(address))
#endif

static void set_key(const uint8_t *key)
{
    (void)key;
}

#if defined CRC16

/* The polynomial 0x1021, the highest bit first, from 0xFFFF: CRC-16/IBM-3740. */
static uint16_t crc16(const uint8_t *bytes, size_t length)
{
    uint16_t crc = 0xFFFF;
    while (length-- > 0) {
        crc ^= (uint16_t)(*bytes++ << 8);
        for (uint8_t bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

static void make_tag(uint8_t *tag, const uint8_t *message, size_t length)
{
    const uint16_t crc = crc16(message, length);
    tag[0] = (uint8_t)(crc >> 8);
    tag[1] = (uint8_t)crc;
}

static const struct vector lab_of_digits[] = {{9, {0x29, 0xB1}}},
                           lab_of_all[] = {{256, {0x3F, 0xBD}}};

#else

/* The polynomial 0xEDB88320, the lowest bit first, from all ones, all inverted. */
#if defined CRC32_BITWISE
static uint32_t add_byte(uint32_t crc, uint8_t byte)
{
    crc ^= byte;
    for (uint8_t bit = 0; bit < 8; bit++)
        crc = crc & 1 ? crc >> 1 ^ 0xEDB88320U : crc >> 1;
    return crc;
}
#else
/* The entry of a byte is the XOR of the entries of its bits, as a CRC is linear. */
#define BIT(n, bit, entry) ((n) / (bit) % 2 ? (entry) : 0U)
#define ENTRY(n)                                                                                   \
    (BIT(n, 1, 0x77073096U) ^ BIT(n, 2, 0xEE0E612CU) ^ BIT(n, 4, 0x076DC419U) ^                    \
     BIT(n, 8, 0x0EDB8832U) ^ BIT(n, 16, 0x1DB71064U) ^ BIT(n, 32, 0x3B6E20C8U) ^                  \
     BIT(n, 64, 0x76DC4190U) ^ BIT(n, 128, 0xEDB88320U))
#define ENTRIES4(n) ENTRY(n), ENTRY((n) + 1), ENTRY((n) + 2), ENTRY((n) + 3)
#define ENTRIES16(n) ENTRIES4(n), ENTRIES4((n) + 4), ENTRIES4((n) + 8), ENTRIES4((n) + 12)
#define ENTRIES64(n) ENTRIES16(n), ENTRIES16((n) + 16), ENTRIES16((n) + 32), ENTRIES16((n) + 48)

static const uint32_t table[256] CONSTANT = {ENTRIES64(0), ENTRIES64(64), ENTRIES64(128),
                                             ENTRIES64(192)};

static uint32_t add_byte(uint32_t crc, uint8_t byte)
{
    return crc >> 8 ^ READ32(&table[(uint8_t)crc ^ byte]);
}
#endif

static uint32_t crc32(const uint8_t *bytes, size_t length)
{
    uint32_t crc = 0xFFFFFFFFU;
    while (length-- > 0)
        crc = add_byte(crc, *bytes++);
    return ~crc;
}

static void make_tag(uint8_t *tag, const uint8_t *message, size_t length)
{
    const uint32_t crc = crc32(message, length);
    tag[0] = (uint8_t)(crc >> 24);
    tag[1] = (uint8_t)(crc >> 16);
    tag[2] = (uint8_t)(crc >> 8);
    tag[3] = (uint8_t)crc;
}

static const struct vector lab_of_digits[] = {{9, {0xCB, 0xF4, 0x39, 0x26}}};
static const struct vector lab_of_all[] = {{256, {0x29, 0x05, 0x8C, 0x73}}};

#endif

/* The check value by which catalogues of CRCs tell them apart; and zlib's and Python's value of all
 * 256 bytes, upwards, which use every entry of a table. */
static bool vectors_agree(void)
{
    uint8_t all[256];
    count_upwards(all, sizeof all);
    return AGREE((const uint8_t *)"123456789", lab_of_digits) && AGREE(all, lab_of_all);
}
