/* CBOR by libcbor: a tree that is allocated. A heartbeat and an entry are arrays of three numbers,
 * a record is a map with names.   SPDX-License-Identifier: MIT */
#include "format.h"

#include "cbor.h"

/* Gives an item the smallest width that holds the number, as other encoders do. */
static cbor_item_t *number(uint32_t value)
{
    return value <= UINT8_MAX    ? cbor_build_uint8((uint8_t)value)
           : value <= UINT16_MAX ? cbor_build_uint16((uint16_t)value)
                                 : cbor_build_uint32(value);
}

/* CBOR keeps -1 - value of a negative number. */
static cbor_item_t *amount_item(int32_t value)
{
    if (value >= 0)
        return number((uint32_t)value);
    cbor_item_t *const item = number(~(uint32_t)value);
    cbor_mark_negint(item);
    return item;
}

static cbor_item_t *three(unsigned a, unsigned b, unsigned c)
{
    cbor_item_t *const array = cbor_new_definite_array(3);
    (void)cbor_array_push(array, cbor_move(number(a)));
    (void)cbor_array_push(array, cbor_move(number(b)));
    (void)cbor_array_push(array, cbor_move(number(c)));
    return array;
}

static size_t encode(uint8_t *wire, size_t size, cbor_item_t *tree)
{
    const size_t length = cbor_serialize(tree, wire, size);
    cbor_decref(&tree);
    return length;
}

static cbor_item_t *decode(const uint8_t *wire, size_t length)
{
    struct cbor_load_result result;
    return cbor_load(wire, length, &result);
}

static bool get_number(const cbor_item_t *item, uint32_t most, uint32_t *out)
{
    if (!cbor_isa_uint(item))
        return false;
    const uint64_t value = cbor_get_int(item);
    *out = (uint32_t)value;
    return value <= most;
}

static bool get_three(const cbor_item_t *item, uint32_t most, uint32_t found[3])
{
    if (!cbor_isa_array(item) || cbor_array_size(item) != 3)
        return false;
    cbor_item_t **const in = cbor_array_handle(item);
    return get_number(in[0], most, &found[0]) && get_number(in[1], UINT8_MAX, &found[1]) &&
           get_number(in[2], UINT8_MAX, &found[2]);
}

static size_t encode_heartbeat(uint8_t *wire, size_t size, const struct heartbeat *in)
{
    return encode(wire, size, three(in->variable, in->sender, in->value));
}

static bool decode_heartbeat(const uint8_t *wire, size_t length, struct heartbeat *out)
{
    cbor_item_t *tree = decode(wire, length);
    uint32_t found[3];
    if (tree == NULL)
        return false;
    const bool right = get_three(tree, UINT8_MAX, found);
    cbor_decref(&tree);
    if (right)
        *out = (struct heartbeat){(uint8_t)found[0], (uint8_t)found[1], (uint8_t)found[2]};
    return right;
}

static size_t encode_report(uint8_t *wire, size_t size, const struct entry *in)
{
    cbor_item_t *const array = cbor_new_definite_array(ENTRIES);
    for (uint8_t i = 0; i < ENTRIES; i++)
        (void)cbor_array_push(array, cbor_move(three(in[i].time, in[i].sender, in[i].value)));
    return encode(wire, size, array);
}

static bool decode_report(const uint8_t *wire, size_t length, struct entry *out)
{
    cbor_item_t *tree = decode(wire, length);
    if (tree == NULL)
        return false;
    bool right = cbor_isa_array(tree) && cbor_array_size(tree) == ENTRIES;
    for (uint8_t i = 0; right && i < ENTRIES; i++) {
        uint32_t found[3];
        right = get_three(cbor_array_handle(tree)[i], UINT16_MAX, found);
        if (right)
            out[i] = (struct entry){(uint16_t)found[0], (uint8_t)found[1], (uint8_t)found[2]};
    }
    cbor_decref(&tree);
    return right;
}

static void add(cbor_item_t *map, const char *name, cbor_item_t *value)
{
    (void)cbor_map_add(map,
                       (struct cbor_pair){cbor_move(cbor_build_string(name)), cbor_move(value)});
}

static size_t encode_list(uint8_t *wire, size_t size, const struct record *in)
{
    cbor_item_t *const array = cbor_new_definite_array(RECORDS);
    for (uint8_t i = 0; i < RECORDS; i++) {
        cbor_item_t *const map = cbor_new_definite_map(3);
        add(map, "id", number(in[i].id));
        add(map, "name", cbor_build_string(in[i].name));
        add(map, "amount", amount_item(in[i].amount));
        (void)cbor_array_push(array, cbor_move(map));
    }
    return encode(wire, size, array);
}

static bool is_text(const cbor_item_t *item, const char *text)
{
    const size_t length = strlen(text);
    return cbor_isa_string(item) && cbor_string_is_definite(item) &&
           cbor_string_length(item) == length &&
           memcmp(cbor_string_handle(item), text, length) == 0;
}

static const cbor_item_t *value_of(const cbor_item_t *map, const char *name)
{
    const struct cbor_pair *const pairs = cbor_map_handle(map);
    for (size_t i = 0; i < cbor_map_size(map); i++)
        if (is_text(pairs[i].key, name))
            return pairs[i].value;
    return NULL;
}

static bool get_record(const cbor_item_t *map, struct record *out)
{
    if (!cbor_isa_map(map))
        return false;
    const cbor_item_t *const id = value_of(map, "id"), *const name = value_of(map, "name"),
                             *const amount = value_of(map, "amount");
    if (id == NULL || name == NULL || amount == NULL || !get_number(id, UINT32_MAX, &out->id) ||
        !cbor_isa_string(name) || !cbor_string_is_definite(name) ||
        cbor_string_length(name) >= sizeof out->name || !cbor_is_int(amount))
        return false;
    const uint64_t value = cbor_get_int(amount);
    if (value > INT32_MAX)
        return false;
    out->amount = cbor_isa_negint(amount) ? -1 - (int32_t)value : (int32_t)value;
    memcpy(out->name, cbor_string_handle(name), cbor_string_length(name));
    out->name[cbor_string_length(name)] = '\0';
    return true;
}

static bool decode_list(const uint8_t *wire, size_t length, struct record *out)
{
    cbor_item_t *tree = decode(wire, length);
    if (tree == NULL)
        return false;
    bool right = cbor_isa_array(tree) && cbor_array_size(tree) == RECORDS;
    for (uint8_t i = 0; right && i < RECORDS; i++)
        right = get_record(cbor_array_handle(tree)[i], &out[i]);
    cbor_decref(&tree);
    return right;
}
