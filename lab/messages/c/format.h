/* The steps of a format: make a message, read it, refuse one that is damaged; each for a heartbeat,
 * for a report of 64 entries and for a list of records with numbers and strings.
 *
 * The file that includes this has the two functions of each payload: encode_ and decode_ with its
 * name. What they are given is right; what they read may be anything. The former returns the bytes
 * that it made, or 0. The scheme gives the bytes of each message and their CRC-32, as other
 * encoders make them in test_codecs.py: HEARTBEAT_BYTES, HEARTBEAT_CRC and so on. Every image
 * that is counted makes these, or the lab ends.   SPDX-License-Identifier: MIT */
#ifndef FORMAT_H
#define FORMAT_H

#include "operation.h"
#include "vectors.h"

#include <string.h>

enum {
    ENTRIES = 64,
    RECORDS = 10,
    NAME_BYTES = 16, /* with the zero that ends it */
    SPARE = 8        /* room behind a message, which an encoder may end with a zero */
};

struct heartbeat {
    uint8_t variable, sender, value;
};

struct entry {
    uint16_t time;
    uint8_t sender, value;
};

struct record {
    uint32_t id;
    int32_t amount;
    char name[NAME_BYTES]; /* zeros behind it */
};

static size_t encode_heartbeat(uint8_t *wire, size_t size, const struct heartbeat *in);
static bool decode_heartbeat(const uint8_t *wire, size_t length, struct heartbeat *out);
static size_t encode_report(uint8_t *wire, size_t size, const struct entry *in);
static bool decode_report(const uint8_t *wire, size_t length, struct entry *out);

/* What a format without a checksum can notice: the last byte is lost. */
#ifndef DAMAGE
#define DAMAGE(wire, length) (void)(length--)
#endif

/* What an agent that keeps its state in the format has done before it is asked for a message. */
#define READY_heartbeat(wire, in) (void)0
#define READY_list(wire, in) (void)0
#ifndef READY_report
#define READY_report(wire, in) (void)0
#endif

static inline uint32_t lab_crc(const uint8_t *bytes, size_t length)
{
    uint32_t crc = 0xFFFFFFFFU;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (uint8_t bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xEDB88320U & -(crc & 1U));
    }
    return ~crc;
}

static inline void fill_heartbeat(struct heartbeat *values)
{
    *values = (struct heartbeat){42, 99, 77};
}

static inline void fill_report(struct entry *values)
{
    for (uint16_t i = 0; i < ENTRIES; i++)
        values[i] = (struct entry){(uint16_t)(i * 991U), (uint8_t)(100 + i), (uint8_t)(i * 37U)};
}

static inline void fill_list(struct record *values)
{
    static const struct record lab_list[RECORDS] = {{1, 215, "boiler"},
                                                    {2, -40, "freezer"},
                                                    {17, 998, "pump \"2\""},
                                                    {300, 1013250, "pressure"},
                                                    {301, 4512, "fan & light"},
                                                    {4095, 0, "door"},
                                                    {70000, -273150, "probe"},
                                                    {70001, 65536, "meter, north"},
                                                    {16777216, 2147483647, "counter"},
                                                    {4294967295, -2147483647, "last"}};
    memcpy(values, lab_list, sizeof lab_list);
}

/* The steps of a payload: the values, what was read, and the message between them. Each has been
 * taken once before it is counted: the first time, a library may make tables. */
#define PAYLOAD(what, type, count, bytes, crc)                                                     \
    static type lab_##what[count], lab_##what##_read[count];                                       \
    static uint8_t lab_##what##_wire[bytes + SPARE];                                               \
    static size_t lab_##what##_length;                                                             \
    static bool lab_##what##_answer;                                                               \
    STEP(make_##what)                                                                              \
    STEP(read_##what)                                                                              \
    STEP(refuse_##what)                                                                            \
    void make_##what##_prepare(unsigned n)                                                         \
    {                                                                                              \
        (void)n;                                                                                   \
        fill_##what(lab_##what);                                                                   \
        READY_##what(lab_##what##_wire, lab_##what);                                               \
        make_##what##_run();                                                                       \
        lab_##what##_length = 0;                                                                   \
    }                                                                                              \
    void make_##what##_run(void)                                                                   \
    {                                                                                              \
        lab_##what##_length =                                                                      \
            encode_##what(lab_##what##_wire, sizeof lab_##what##_wire, lab_##what);                \
    }                                                                                              \
    bool make_##what##_right(void)                                                                 \
    {                                                                                              \
        return lab_##what##_length == bytes && lab_crc(lab_##what##_wire, bytes) == crc;           \
    }                                                                                              \
    void read_##what##_prepare(unsigned n)                                                         \
    {                                                                                              \
        make_##what##_prepare(n);                                                                  \
        make_##what##_run();                                                                       \
        read_##what##_run();                                                                       \
        memset(lab_##what##_read, 0, sizeof lab_##what##_read);                                    \
    }                                                                                              \
    void read_##what##_run(void)                                                                   \
    {                                                                                              \
        lab_##what##_answer =                                                                      \
            decode_##what(lab_##what##_wire, lab_##what##_length, lab_##what##_read);              \
    }                                                                                              \
    bool read_##what##_right(void)                                                                 \
    {                                                                                              \
        return lab_##what##_answer &&                                                              \
               memcmp(lab_##what, lab_##what##_read, sizeof lab_##what) == 0;                      \
    }                                                                                              \
    void refuse_##what##_prepare(unsigned n)                                                       \
    {                                                                                              \
        read_##what##_prepare(n);                                                                  \
        DAMAGE(lab_##what##_wire, lab_##what##_length);                                            \
        refuse_##what##_run();                                                                     \
        lab_##what##_answer = true;                                                                \
    }                                                                                              \
    void refuse_##what##_run(void)                                                                 \
    {                                                                                              \
        read_##what##_run();                                                                       \
    }                                                                                              \
    bool refuse_##what##_right(void)                                                               \
    {                                                                                              \
        return !lab_##what##_answer;                                                               \
    }                                                                                              \
    static bool what##_agrees(void)                                                                \
    {                                                                                              \
        read_##what##_prepare(0);                                                                  \
        if (!make_##what##_right())                                                                \
            return false;                                                                          \
        read_##what##_run();                                                                       \
        return read_##what##_right();                                                              \
    }

PAYLOAD(heartbeat, struct heartbeat, 1, HEARTBEAT_BYTES, HEARTBEAT_CRC)
PAYLOAD(report, struct entry, ENTRIES, REPORT_BYTES, REPORT_CRC)
#ifdef LIST_BYTES
static size_t encode_list(uint8_t *wire, size_t size, const struct record *in);
static bool decode_list(const uint8_t *wire, size_t length, struct record *out);
PAYLOAD(list, struct record, RECORDS, LIST_BYTES, LIST_CRC)
#else
static bool list_agrees(void)
{
    return true;
}
#endif

static bool vectors_agree(void)
{
    return heartbeat_agrees() && report_agrees() && list_agrees();
}

#endif
