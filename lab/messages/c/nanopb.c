/* Protobuf by nanopb, with the structures that its generator makes of message.proto.
 * SPDX-License-Identifier: MIT */
#include "format.h"

#include "message.pb.h"
#include "pb_decode.h"
#include "pb_encode.h"

static size_t encode(uint8_t *wire, size_t size, const pb_msgdesc_t *fields, const void *message)
{
    pb_ostream_t stream = pb_ostream_from_buffer(wire, size);
    return pb_encode(&stream, fields, message) ? stream.bytes_written : 0;
}

static bool decode(const uint8_t *wire, size_t length, const pb_msgdesc_t *fields, void *message)
{
    pb_istream_t stream = pb_istream_from_buffer(wire, length);
    return pb_decode(&stream, fields, message);
}

static size_t encode_heartbeat(uint8_t *wire, size_t size, const struct heartbeat *in)
{
    const Heartbeat message = {in->variable, in->sender, in->value};
    return encode(wire, size, Heartbeat_fields, &message);
}

static bool decode_heartbeat(const uint8_t *wire, size_t length, struct heartbeat *out)
{
    Heartbeat message = Heartbeat_init_zero;
    if (!decode(wire, length, Heartbeat_fields, &message) || message.variable > UINT8_MAX ||
        message.sender > UINT8_MAX || message.value > UINT8_MAX)
        return false;
    *out = (struct heartbeat){(uint8_t)message.variable, (uint8_t)message.sender,
                              (uint8_t)message.value};
    return true;
}

static size_t encode_report(uint8_t *wire, size_t size, const struct entry *in)
{
    Report message;
    message.entries_count = ENTRIES;
    for (uint8_t i = 0; i < ENTRIES; i++)
        message.entries[i] = (Entry){in[i].time, in[i].sender, in[i].value};
    return encode(wire, size, Report_fields, &message);
}

static bool decode_report(const uint8_t *wire, size_t length, struct entry *out)
{
    Report message = Report_init_zero;
    if (!decode(wire, length, Report_fields, &message) || message.entries_count != ENTRIES)
        return false;
    for (uint8_t i = 0; i < ENTRIES; i++) {
        const Entry *const from = &message.entries[i];
        if (from->time > UINT16_MAX || from->sender > UINT8_MAX || from->value > UINT8_MAX)
            return false;
        out[i] = (struct entry){(uint16_t)from->time, (uint8_t)from->sender, (uint8_t)from->value};
    }
    return true;
}

static size_t encode_list(uint8_t *wire, size_t size, const struct record *in)
{
    List message;
    message.records_count = RECORDS;
    for (uint8_t i = 0; i < RECORDS; i++) {
        message.records[i].id = in[i].id;
        message.records[i].amount = in[i].amount;
        strcpy(message.records[i].name, in[i].name);
    }
    return encode(wire, size, List_fields, &message);
}

static bool decode_list(const uint8_t *wire, size_t length, struct record *out)
{
    List message = List_init_zero;
    if (!decode(wire, length, List_fields, &message) || message.records_count != RECORDS)
        return false;
    for (uint8_t i = 0; i < RECORDS; i++) {
        out[i].id = message.records[i].id;
        out[i].amount = message.records[i].amount;
        strcpy(out[i].name, message.records[i].name);
    }
    return true;
}
