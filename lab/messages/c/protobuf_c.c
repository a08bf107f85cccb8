/* Protobuf by protobuf-c, with the structures that its generator makes of message.proto. What it
 * reads is allocated.   SPDX-License-Identifier: MIT */
#include "format.h"

#include "message.pb-c.h"

/* The library does not know how much room there is, so this asks for the size first. */
static size_t encode(uint8_t *wire, size_t size, const void *message)
{
    return protobuf_c_message_get_packed_size(message) <= size
               ? protobuf_c_message_pack(message, wire)
               : 0;
}

static size_t encode_heartbeat(uint8_t *wire, size_t size, const struct heartbeat *in)
{
    Heartbeat message = HEARTBEAT__INIT;
    message.variable = in->variable;
    message.sender = in->sender;
    message.value = in->value;
    return encode(wire, size, &message);
}

static bool decode_heartbeat(const uint8_t *wire, size_t length, struct heartbeat *out)
{
    Heartbeat *const message = heartbeat__unpack(NULL, length, wire);
    const bool right = message != NULL && message->variable <= UINT8_MAX &&
                       message->sender <= UINT8_MAX && message->value <= UINT8_MAX;
    if (right)
        *out = (struct heartbeat){(uint8_t)message->variable, (uint8_t)message->sender,
                                  (uint8_t)message->value};
    heartbeat__free_unpacked(message, NULL);
    return right;
}

static size_t encode_report(uint8_t *wire, size_t size, const struct entry *in)
{
    Report message = REPORT__INIT;
    Entry entries[ENTRIES], *each[ENTRIES];
    for (uint8_t i = 0; i < ENTRIES; i++) {
        entry__init(each[i] = &entries[i]);
        entries[i].time = in[i].time;
        entries[i].sender = in[i].sender;
        entries[i].value = in[i].value;
    }
    message.n_entries = ENTRIES;
    message.entries = each;
    return encode(wire, size, &message);
}

static bool get_entry(const Entry *from, struct entry *out)
{
    *out = (struct entry){(uint16_t)from->time, (uint8_t)from->sender, (uint8_t)from->value};
    return from->time <= UINT16_MAX && from->sender <= UINT8_MAX && from->value <= UINT8_MAX;
}

static bool decode_report(const uint8_t *wire, size_t length, struct entry *out)
{
    Report *const message = report__unpack(NULL, length, wire);
    bool right = message != NULL && message->n_entries == ENTRIES;
    for (uint8_t i = 0; right && i < ENTRIES; i++)
        right = get_entry(message->entries[i], &out[i]);
    report__free_unpacked(message, NULL);
    return right;
}

static size_t encode_list(uint8_t *wire, size_t size, const struct record *in)
{
    List message = LIST__INIT;
    Record records[RECORDS], *each[RECORDS];
    for (uint8_t i = 0; i < RECORDS; i++) {
        record__init(each[i] = &records[i]);
        records[i].id = in[i].id;
        records[i].name = (char *)in[i].name;
        records[i].amount = in[i].amount;
    }
    message.n_records = RECORDS;
    message.records = each;
    return encode(wire, size, &message);
}

static bool get_record(const Record *from, struct record *out)
{
    if (strlen(from->name) >= sizeof out->name)
        return false;
    strcpy(out->name, from->name);
    out->id = from->id;
    out->amount = from->amount;
    return true;
}

static bool decode_list(const uint8_t *wire, size_t length, struct record *out)
{
    List *const message = list__unpack(NULL, length, wire);
    bool right = message != NULL && message->n_records == RECORDS;
    for (uint8_t i = 0; right && i < RECORDS; i++)
        right = get_record(message->records[i], &out[i]);
    list__free_unpacked(message, NULL);
    return right;
}
