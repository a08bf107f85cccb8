/* A heartbeat of 4 bytes as other protocols send it, with their counters, and how they take one:
 * -DLAB_SECOC, -DLAB_LORAWAN, -DLAB_MAVLINK, -DLAB_CANOPEN_SAFETY. Each has one key, and knows one
 * sender. Where the counter survives a reset is not in it.   SPDX-License-Identifier: MIT
 *
 * SecOC            profile 1 of AUTOSAR: the low byte of a counter of 8 bytes, 24 bits of AES-CMAC
 *                  over a name of 2 bytes, the data and the counter
 * LoRaWAN          1.0, a data frame of class A: the payload is encrypted, too; 32 bits of AES-CMAC
 * MAVLink          2, signed: CRC-16, then 48 bits of SHA-256 over the key, the packet and its time
 * CANopen Safety   EN 50325-5: the data again in a second frame, inverted. No key */
#if defined LAB_SECOC || defined LAB_LORAWAN
#include "cmac.c"
#else
#include "operation.h"
#include "vectors.h"

#include <string.h>

static uint8_t lab_message[LAB_LENGTH], lab_key[32];
static int lab_answer;
#endif

STEP(send)
STEP(take)
STEP(reject)

/* The number of the message: what was sent last, or taken last. */
static uint32_t counter;
static const uint32_t lab_before = 0x0001FFFF; /* The next number's low bytes begin again. */

/* In constant time: how many bytes of a guess are right must not show. */
static bool equal(const uint8_t *a, const uint8_t *b, uint8_t length)
{
    uint8_t differ = 0;
    for (uint8_t i = 0; i < length; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

static void store(uint8_t *to, uint32_t value, uint8_t bytes)
{
    for (uint8_t i = 0; i < bytes; i++, value >>= 8)
        to[i] = (uint8_t)value;
}

#ifdef LAB_SECOC
enum { WIRE = LAB_LENGTH + 4, COUNTER = 8 };

static void protect(uint8_t *wire, uint32_t count)
{
    uint8_t text[2 + LAB_LENGTH + COUNTER] = {0x12, 0x34}, tag[LAB_TAG];
    memcpy(text + 2, wire, LAB_LENGTH);
    for (uint8_t i = 0; i < 4; i++, count >>= 8)
        text[sizeof text - 1 - i] = (uint8_t)count;
    make_tag(tag, text, sizeof text);
    memcpy(wire + LAB_LENGTH + 1, tag, 3);
}

static void send(uint8_t *wire, const uint8_t *message)
{
    memcpy(wire, message, LAB_LENGTH);
    wire[LAB_LENGTH] = (uint8_t)++counter;
    protect(wire, counter);
}

/* The count is the next one with this low byte. */
static bool take(uint8_t *message, const uint8_t *wire)
{
    uint32_t count = (counter & ~0xFFUL) | wire[LAB_LENGTH];
    uint8_t right[WIRE];
    if (count <= counter)
        count += 0x100;
    memcpy(right, wire, LAB_LENGTH + 1);
    protect(right, count);
    if (!equal(right, wire, WIRE))
        return false;
    counter = count;
    memcpy(message, wire, LAB_LENGTH);
    return true;
}

static const uint8_t lab_expected[WIRE] = {0x51, 0xE0, 0x7B, 0x01, 0x00, 0x5D, 0xF2, 0x3E};
#elif defined LAB_LORAWAN
enum { HEAD = 9, TEXT = HEAD + LAB_LENGTH, WIRE = TEXT + 4 };

/* What both blocks begin with: that of the key stream, and that which the tag begins with. */
static void block_of(uint8_t *block, uint8_t kind, const uint8_t *wire, uint32_t count,
                     uint8_t last)
{
    memset(block, 0, BLOCK);
    block[0] = kind;
    memcpy(block + 6, wire + 1, 4);
    store(block + 10, count, 4);
    block[15] = last;
}

static void encipher(uint8_t *wire, uint32_t count)
{
    _Alignas(uint32_t) uint8_t stream[BLOCK];
    block_of(stream, 1, wire, count, 1);
    encrypt(stream);
    for (uint8_t i = 0; i < LAB_LENGTH; i++)
        wire[HEAD + i] ^= stream[i];
}

static void protect(uint8_t *wire, uint32_t count)
{
    uint8_t text[BLOCK + TEXT], tag[LAB_TAG];
    block_of(text, 0x49, wire, count, TEXT);
    memcpy(text + BLOCK, wire, TEXT);
    make_tag(tag, text, sizeof text);
    memcpy(wire + TEXT, tag, 4);
}

static void send(uint8_t *wire, const uint8_t *message)
{
    static const uint8_t head[HEAD] = {0x40, 0x04, 0x03, 0x02, 0x01, 0, 0, 0, 1};
    memcpy(wire, head, HEAD);
    store(wire + 6, ++counter, 2);
    memcpy(wire + HEAD, message, LAB_LENGTH);
    encipher(wire, counter);
    protect(wire, counter);
}

/* The count is the next one with these low bytes. */
static bool take(uint8_t *message, const uint8_t *wire)
{
    uint32_t count = (counter & ~0xFFFFUL) | wire[6] | (uint16_t)wire[7] << 8;
    uint8_t right[WIRE];
    if (count <= counter)
        count += 0x10000;
    memcpy(right, wire, TEXT);
    protect(right, count);
    if (!equal(right, wire, WIRE))
        return false;
    counter = count;
    encipher(right, count);
    memcpy(message, right + HEAD, LAB_LENGTH);
    return true;
}

static const uint8_t lab_expected[WIRE] = {0x40, 0x04, 0x03, 0x02, 0x01, 0x00, 0x00, 0x00, 0x01,
                                           0xE2, 0x7B, 0x92, 0xAE, 0xE0, 0xED, 0xA3, 0x67};
#elif defined LAB_MAVLINK
#include "sha256.h"

enum { HEAD = 10, TEXT = HEAD + LAB_LENGTH + 2, TAG = 6, WIRE = TEXT + 7 + TAG, EXTRA = 50 };

static uint16_t crc(uint16_t sum, const uint8_t *bytes, uint8_t length)
{
    while (length-- > 0) {
        uint8_t byte = *bytes++ ^ (uint8_t)sum;
        byte ^= (uint8_t)(byte << 4);
        sum = (sum >> 8) ^ (uint16_t)byte << 8 ^ (uint16_t)byte << 3 ^ byte >> 4;
    }
    return sum;
}

static void protect(uint8_t *wire)
{
    static const uint8_t extra = EXTRA; /* MAVLink's CRC_EXTRA of a heartbeat. */
    uint8_t digest[32];
    br_sha256_context hash;
    store(wire + TEXT - 2, crc(crc(0xFFFF, wire + 1, TEXT - 3), &extra, 1), 2);
    br_sha256_init(&hash);
    br_sha256_update(&hash, lab_key, sizeof lab_key);
    br_sha256_update(&hash, wire, WIRE - TAG);
    br_sha256_out(&hash, digest);
    memcpy(wire + WIRE - TAG, digest, TAG);
}

/* The time, in units of 10 µs, stands for the number of the message; its high bytes stay 0. */
static void send(uint8_t *wire, const uint8_t *message)
{
    static const uint8_t head[HEAD] = {0xFD, LAB_LENGTH, 1, 0, 0, 7, 1, 0, 0, 0};
    memcpy(wire, head, HEAD);
    memcpy(wire + HEAD, message, LAB_LENGTH);
    memset(wire + TEXT, 0, 7);
    store(wire + TEXT + 1, ++counter, 4);
    protect(wire);
}

static bool take(uint8_t *message, const uint8_t *wire)
{
    uint8_t right[WIRE];
    uint32_t count = 0;
    for (uint8_t i = 4; i > 0; i--)
        count = count << 8 | wire[TEXT + i];
    if (count <= counter)
        return false;
    memcpy(right, wire, WIRE);
    protect(right);
    if (!equal(right, wire, WIRE))
        return false;
    counter = count;
    memcpy(message, wire + HEAD, LAB_LENGTH);
    return true;
}

static const uint8_t lab_expected[WIRE] = {
    0xFD, 0x04, 0x01, 0x00, 0x00, 0x07, 0x01, 0x00, 0x00, 0x00, 0x51, 0xE0, 0x7B, 0x01, 0x12,
    0x41, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x20, 0xF7, 0xCF, 0x64, 0xDA, 0xAB};
#else
enum { WIRE = 2 * LAB_LENGTH };

static void send(uint8_t *wire, const uint8_t *message)
{
    for (uint8_t i = 0; i < LAB_LENGTH; i++) {
        wire[i] = message[i];
        wire[LAB_LENGTH + i] = (uint8_t)~message[i];
    }
}

static bool take(uint8_t *message, const uint8_t *wire)
{
    for (uint8_t i = 0; i < LAB_LENGTH; i++)
        if (wire[i] != (uint8_t)~wire[LAB_LENGTH + i])
            return false;
    memcpy(message, wire, LAB_LENGTH);
    return true;
}

static const uint8_t lab_expected[WIRE] = {0x51, 0xE0, 0x7B, 0x01, 0xAE, 0x1F, 0x84, 0xFE};
#endif

static uint8_t lab_wire[WIRE], lab_taken[LAB_LENGTH];

void send_prepare(unsigned n)
{
#ifdef LAB_TAG
    make_prepare(n);
#else
    (void)n;
    lab_fill(lab_key, sizeof lab_key, 1000);
    lab_fill(lab_message, sizeof lab_message, 0);
#endif
    counter = lab_before;
}

void send_run(void)
{
    send(lab_wire, lab_message);
}

bool send_right(void)
{
    return lab_same(lab_wire, lab_expected, WIRE);
}

void take_prepare(unsigned n)
{
    send_prepare(n);
    memcpy(lab_wire, lab_expected, WIRE);
    lab_answer = false;
}

void take_run(void)
{
    lab_answer = take(lab_taken, lab_wire);
}

/* And not a second time, if there is a counter. */
bool take_right(void)
{
    const bool taken = lab_answer && lab_same(lab_taken, lab_message, LAB_LENGTH);
    return taken && (counter == lab_before || !take(lab_taken, lab_wire));
}

void reject_prepare(unsigned n)
{
    take_prepare(n);
    lab_wire[WIRE - 1] ^= 1;
    lab_answer = true;
}

void reject_run(void)
{
    take_run();
}

bool reject_right(void)
{
    return !lab_answer;
}

#ifndef LAB_TAG
static bool vectors_agree(void)
{
    send_prepare(0);
    send_run();
    return send_right();
}
#endif
