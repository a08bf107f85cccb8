/* MessagePack by msgpack-c, which allocates. A heartbeat and an entry are arrays of three numbers,
 * a record is a map with names.   SPDX-License-Identifier: MIT */
#include "format.h"

#include "msgpack.h"

static size_t finish(uint8_t *wire, size_t size, msgpack_sbuffer *buffer)
{
    const size_t length = buffer->size <= size ? buffer->size : 0;
    memcpy(wire, buffer->data, length);
    msgpack_sbuffer_destroy(buffer);
    return length;
}

static void put_three(msgpack_packer *packer, unsigned a, unsigned b, unsigned c)
{
    msgpack_pack_array(packer, 3);
    msgpack_pack_unsigned_int(packer, a);
    msgpack_pack_unsigned_int(packer, b);
    msgpack_pack_unsigned_int(packer, c);
}

static bool get_number(const msgpack_object *object, uint32_t most, uint32_t *out)
{
    if (object->type != MSGPACK_OBJECT_POSITIVE_INTEGER || object->via.u64 > most)
        return false;
    *out = (uint32_t)object->via.u64;
    return true;
}

static bool get_three(const msgpack_object *object, uint32_t most, uint32_t found[3])
{
    if (object->type != MSGPACK_OBJECT_ARRAY || object->via.array.size != 3)
        return false;
    const msgpack_object *const in = object->via.array.ptr;
    return get_number(&in[0], most, &found[0]) && get_number(&in[1], UINT8_MAX, &found[1]) &&
           get_number(&in[2], UINT8_MAX, &found[2]);
}

static bool unpack(msgpack_unpacked *unpacked, const uint8_t *wire, size_t length)
{
    size_t offset = 0;
    msgpack_unpacked_init(unpacked);
    return msgpack_unpack_next(unpacked, (const char *)wire, length, &offset) ==
               MSGPACK_UNPACK_SUCCESS &&
           offset == length;
}

static size_t encode_heartbeat(uint8_t *wire, size_t size, const struct heartbeat *in)
{
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    put_three(&packer, in->variable, in->sender, in->value);
    return finish(wire, size, &buffer);
}

static bool decode_heartbeat(const uint8_t *wire, size_t length, struct heartbeat *out)
{
    msgpack_unpacked unpacked;
    uint32_t found[3];
    const bool right =
        unpack(&unpacked, wire, length) && get_three(&unpacked.data, UINT8_MAX, found);
    msgpack_unpacked_destroy(&unpacked);
    if (right)
        *out = (struct heartbeat){(uint8_t)found[0], (uint8_t)found[1], (uint8_t)found[2]};
    return right;
}

static size_t encode_report(uint8_t *wire, size_t size, const struct entry *in)
{
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    msgpack_pack_array(&packer, ENTRIES);
    for (uint8_t i = 0; i < ENTRIES; i++)
        put_three(&packer, in[i].time, in[i].sender, in[i].value);
    return finish(wire, size, &buffer);
}

static bool decode_report(const uint8_t *wire, size_t length, struct entry *out)
{
    msgpack_unpacked unpacked;
    bool right = unpack(&unpacked, wire, length) && unpacked.data.type == MSGPACK_OBJECT_ARRAY &&
                 unpacked.data.via.array.size == ENTRIES;
    for (uint8_t i = 0; right && i < ENTRIES; i++) {
        uint32_t found[3];
        right = get_three(&unpacked.data.via.array.ptr[i], UINT16_MAX, found);
        if (right)
            out[i] = (struct entry){(uint16_t)found[0], (uint8_t)found[1], (uint8_t)found[2]};
    }
    msgpack_unpacked_destroy(&unpacked);
    return right;
}

static void put_text(msgpack_packer *packer, const char *text)
{
    msgpack_pack_str_with_body(packer, text, strlen(text));
}

static size_t encode_list(uint8_t *wire, size_t size, const struct record *in)
{
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    msgpack_pack_array(&packer, RECORDS);
    for (uint8_t i = 0; i < RECORDS; i++) {
        msgpack_pack_map(&packer, 3);
        put_text(&packer, "id");
        msgpack_pack_uint32(&packer, in[i].id);
        put_text(&packer, "name");
        put_text(&packer, in[i].name);
        put_text(&packer, "amount");
        msgpack_pack_int32(&packer, in[i].amount);
    }
    return finish(wire, size, &buffer);
}

static const msgpack_object *value_of(const msgpack_object_map *map, const char *name)
{
    const size_t length = strlen(name);
    for (uint32_t i = 0; i < map->size; i++) {
        const msgpack_object *const key = &map->ptr[i].key;
        if (key->type == MSGPACK_OBJECT_STR && key->via.str.size == length &&
            memcmp(key->via.str.ptr, name, length) == 0)
            return &map->ptr[i].val;
    }
    return NULL;
}

static bool get_amount(const msgpack_object *object, int32_t *out)
{
    if (object->type == MSGPACK_OBJECT_POSITIVE_INTEGER && object->via.u64 <= INT32_MAX)
        *out = (int32_t)object->via.u64;
    else if (object->type == MSGPACK_OBJECT_NEGATIVE_INTEGER && object->via.i64 >= INT32_MIN)
        *out = (int32_t)object->via.i64;
    else
        return false;
    return true;
}

static bool get_record(const msgpack_object *object, struct record *out)
{
    if (object->type != MSGPACK_OBJECT_MAP)
        return false;
    const msgpack_object_map *const map = &object->via.map;
    const msgpack_object *const id = value_of(map, "id"), *const name = value_of(map, "name"),
                                *const amount = value_of(map, "amount");
    if (id == NULL || name == NULL || amount == NULL || !get_number(id, UINT32_MAX, &out->id) ||
        name->type != MSGPACK_OBJECT_STR || name->via.str.size >= sizeof out->name ||
        !get_amount(amount, &out->amount))
        return false;
    memcpy(out->name, name->via.str.ptr, name->via.str.size);
    out->name[name->via.str.size] = '\0';
    return true;
}

static bool decode_list(const uint8_t *wire, size_t length, struct record *out)
{
    msgpack_unpacked unpacked;
    bool right = unpack(&unpacked, wire, length) && unpacked.data.type == MSGPACK_OBJECT_ARRAY &&
                 unpacked.data.via.array.size == RECORDS;
    for (uint8_t i = 0; right && i < RECORDS; i++)
        right = get_record(&unpacked.data.via.array.ptr[i], &out[i]);
    msgpack_unpacked_destroy(&unpacked);
    return right;
}
