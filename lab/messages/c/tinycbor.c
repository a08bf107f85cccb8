/* CBOR (RFC 8949) by TinyCBOR. A heartbeat and an entry are arrays of three numbers, a record is a
 * map with names.   SPDX-License-Identifier: MIT */
#include "format.h"

#include "cbor.h"

/* The encoder remembers an error and goes on: one look at the end is enough. Its results can only
 * be that there is no room. */
static size_t length_of(const CborEncoder *encoder, const uint8_t *wire)
{
    return cbor_encoder_get_extra_bytes_needed(encoder) == 0
               ? cbor_encoder_get_buffer_size(encoder, wire)
               : 0;
}

static void put_three(CborEncoder *encoder, unsigned a, unsigned b, unsigned c)
{
    CborEncoder array;
    cbor_encoder_create_array(encoder, &array, 3);
    cbor_encode_uint(&array, a);
    cbor_encode_uint(&array, b);
    cbor_encode_uint(&array, c);
    cbor_encoder_close_container(encoder, &array);
}

static bool get_number(CborValue *at, uint32_t most, uint32_t *out)
{
    uint64_t value;
    if (!cbor_value_is_unsigned_integer(at))
        return false;
    cbor_value_get_uint64(at, &value);
    *out = (uint32_t)value;
    return value <= most && cbor_value_advance_fixed(at) == CborNoError;
}

static bool get_three(CborValue *at, uint32_t most, uint32_t out[3])
{
    CborValue in;
    return cbor_value_is_array(at) && cbor_value_enter_container(at, &in) == CborNoError &&
           get_number(&in, most, &out[0]) && get_number(&in, UINT8_MAX, &out[1]) &&
           get_number(&in, UINT8_MAX, &out[2]) && cbor_value_at_end(&in) &&
           cbor_value_leave_container(at, &in) == CborNoError;
}

static size_t encode_heartbeat(uint8_t *wire, size_t size, const struct heartbeat *in)
{
    CborEncoder encoder;
    cbor_encoder_init(&encoder, wire, size, 0);
    put_three(&encoder, in->variable, in->sender, in->value);
    return length_of(&encoder, wire);
}

static bool decode_heartbeat(const uint8_t *wire, size_t length, struct heartbeat *out)
{
    CborParser parser;
    CborValue at;
    uint32_t found[3];
    if (cbor_parser_init(wire, length, 0, &parser, &at) != CborNoError ||
        !get_three(&at, UINT8_MAX, found))
        return false;
    *out = (struct heartbeat){(uint8_t)found[0], (uint8_t)found[1], (uint8_t)found[2]};
    return true;
}

static size_t encode_report(uint8_t *wire, size_t size, const struct entry *in)
{
    CborEncoder encoder, array;
    cbor_encoder_init(&encoder, wire, size, 0);
    cbor_encoder_create_array(&encoder, &array, ENTRIES);
    for (uint8_t i = 0; i < ENTRIES; i++)
        put_three(&array, in[i].time, in[i].sender, in[i].value);
    cbor_encoder_close_container(&encoder, &array);
    return length_of(&encoder, wire);
}

static bool decode_report(const uint8_t *wire, size_t length, struct entry *out)
{
    CborParser parser;
    CborValue at, in;
    if (cbor_parser_init(wire, length, 0, &parser, &at) != CborNoError ||
        !cbor_value_is_array(&at) || cbor_value_enter_container(&at, &in) != CborNoError)
        return false;
    for (uint8_t i = 0; i < ENTRIES; i++) {
        uint32_t found[3];
        if (!get_three(&in, UINT16_MAX, found))
            return false;
        out[i] = (struct entry){(uint16_t)found[0], (uint8_t)found[1], (uint8_t)found[2]};
    }
    return cbor_value_at_end(&in);
}

static size_t encode_list(uint8_t *wire, size_t size, const struct record *in)
{
    CborEncoder encoder, array, map;
    cbor_encoder_init(&encoder, wire, size, 0);
    cbor_encoder_create_array(&encoder, &array, RECORDS);
    for (uint8_t i = 0; i < RECORDS; i++) {
        cbor_encoder_create_map(&array, &map, 3);
        cbor_encode_text_stringz(&map, "id");
        cbor_encode_uint(&map, in[i].id);
        cbor_encode_text_stringz(&map, "name");
        cbor_encode_text_stringz(&map, in[i].name);
        cbor_encode_text_stringz(&map, "amount");
        cbor_encode_int(&map, in[i].amount);
        cbor_encoder_close_container(&array, &map);
    }
    cbor_encoder_close_container(&encoder, &array);
    return length_of(&encoder, wire);
}

static bool get_record(const CborValue *map, struct record *out)
{
    CborValue value;
    size_t length = sizeof out->name;
    int64_t amount;
    if (cbor_value_map_find_value(map, "id", &value) != CborNoError ||
        !get_number(&value, UINT32_MAX, &out->id) ||
        cbor_value_map_find_value(map, "name", &value) != CborNoError ||
        !cbor_value_is_text_string(&value) ||
        cbor_value_copy_text_string(&value, out->name, &length, NULL) != CborNoError ||
        cbor_value_map_find_value(map, "amount", &value) != CborNoError ||
        !cbor_value_is_integer(&value) ||
        cbor_value_get_int64_checked(&value, &amount) != CborNoError || amount < INT32_MIN ||
        amount > INT32_MAX)
        return false;
    out->amount = (int32_t)amount;
    return true;
}

static bool decode_list(const uint8_t *wire, size_t length, struct record *out)
{
    CborParser parser;
    CborValue at, in;
    if (cbor_parser_init(wire, length, 0, &parser, &at) != CborNoError ||
        !cbor_value_is_array(&at) || cbor_value_enter_container(&at, &in) != CborNoError)
        return false;
    for (uint8_t i = 0; i < RECORDS; i++)
        if (!cbor_value_is_map(&in) || !get_record(&in, &out[i]) ||
            cbor_value_advance(&in) != CborNoError)
            return false;
    return cbor_value_at_end(&in);
}
