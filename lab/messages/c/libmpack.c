/* MessagePack by libmpack, which allocates nothing. A heartbeat and an entry are arrays of three
 * numbers, a record is a map with names.   SPDX-License-Identifier: MIT */
#include "format.h"

#include "conv.h"
#include "core.h"

struct out {
    mpack_tokbuf_t state;
    char *at;
    size_t left;
    bool right;
};

struct in {
    mpack_tokbuf_t state;
    const char *at;
    size_t left;
};

static void put(struct out *out, mpack_token_t token)
{
    out->right = out->right && out->left > 0 &&
                 mpack_write(&out->state, &out->at, &out->left, &token) == MPACK_OK;
}

static void put_text(struct out *out, const char *text)
{
    const mpack_uint32_t length = (mpack_uint32_t)strlen(text);
    put(out, mpack_pack_str(length));
    put(out, mpack_pack_chunk(text, length));
}

static void put_three(struct out *out, unsigned a, unsigned b, unsigned c)
{
    put(out, mpack_pack_array(3));
    put(out, mpack_pack_uint(a));
    put(out, mpack_pack_uint(b));
    put(out, mpack_pack_uint(c));
}

static struct out into(uint8_t *wire, size_t size)
{
    struct out out = {.at = (char *)wire, .left = size, .right = true};
    mpack_tokbuf_init(&out.state);
    return out;
}

static size_t length_of(const struct out *out, const uint8_t *wire)
{
    return out->right ? (size_t)(out->at - (const char *)wire) : 0;
}

static struct in from(const uint8_t *wire, size_t length)
{
    struct in in = {.at = (const char *)wire, .left = length};
    mpack_tokbuf_init(&in.state);
    return in;
}

static bool get(struct in *in, mpack_token_type_t type, mpack_token_t *token)
{
    return in->left > 0 && mpack_read(&in->state, &in->at, &in->left, token) == MPACK_OK &&
           token->type == type;
}

static bool get_sized(struct in *in, mpack_token_type_t type, mpack_uint32_t length)
{
    mpack_token_t token;
    return get(in, type, &token) && token.length == length;
}

static bool get_number(struct in *in, uint32_t most, uint32_t *out)
{
    mpack_token_t token;
    if (!get(in, MPACK_TOKEN_UINT, &token))
        return false;
    const mpack_uintmax_t value = mpack_unpack_uint(token);
    *out = (uint32_t)value;
    return value <= most;
}

static bool get_text(struct in *in, char *text, size_t size)
{
    mpack_token_t token;
    if (!get(in, MPACK_TOKEN_STR, &token) || token.length >= size)
        return false;
    const size_t length = token.length;
    if (length > 0 && (!get(in, MPACK_TOKEN_CHUNK, &token) || token.length != length))
        return false;
    memcpy(text, token.data.chunk_ptr, length);
    text[length] = '\0';
    return true;
}

static bool get_three(struct in *in, uint32_t most, uint32_t found[3])
{
    return get_sized(in, MPACK_TOKEN_ARRAY, 3) && get_number(in, most, &found[0]) &&
           get_number(in, UINT8_MAX, &found[1]) && get_number(in, UINT8_MAX, &found[2]);
}

static size_t encode_heartbeat(uint8_t *wire, size_t size, const struct heartbeat *in)
{
    struct out out = into(wire, size);
    put_three(&out, in->variable, in->sender, in->value);
    return length_of(&out, wire);
}

static bool decode_heartbeat(const uint8_t *wire, size_t length, struct heartbeat *out)
{
    struct in in = from(wire, length);
    uint32_t found[3];
    if (!get_three(&in, UINT8_MAX, found) || in.left != 0)
        return false;
    *out = (struct heartbeat){(uint8_t)found[0], (uint8_t)found[1], (uint8_t)found[2]};
    return true;
}

static size_t encode_report(uint8_t *wire, size_t size, const struct entry *in)
{
    struct out out = into(wire, size);
    put(&out, mpack_pack_array(ENTRIES));
    for (uint8_t i = 0; i < ENTRIES; i++)
        put_three(&out, in[i].time, in[i].sender, in[i].value);
    return length_of(&out, wire);
}

static bool decode_report(const uint8_t *wire, size_t length, struct entry *out)
{
    struct in in = from(wire, length);
    uint32_t found[3];
    if (!get_sized(&in, MPACK_TOKEN_ARRAY, ENTRIES))
        return false;
    for (uint8_t i = 0; i < ENTRIES; i++) {
        if (!get_three(&in, UINT16_MAX, found))
            return false;
        out[i] = (struct entry){(uint16_t)found[0], (uint8_t)found[1], (uint8_t)found[2]};
    }
    return in.left == 0;
}

static size_t encode_list(uint8_t *wire, size_t size, const struct record *in)
{
    struct out out = into(wire, size);
    put(&out, mpack_pack_array(RECORDS));
    for (uint8_t i = 0; i < RECORDS; i++) {
        put(&out, mpack_pack_map(3));
        put_text(&out, "id");
        put(&out, mpack_pack_uint(in[i].id));
        put_text(&out, "name");
        put_text(&out, in[i].name);
        put_text(&out, "amount");
        put(&out, mpack_pack_sint(in[i].amount));
    }
    return length_of(&out, wire);
}

static bool get_amount(struct in *in, int32_t *out)
{
    mpack_token_t token;
    if (in->left == 0 || mpack_read(&in->state, &in->at, &in->left, &token) != MPACK_OK)
        return false;
    if (token.type == MPACK_TOKEN_UINT) {
        const mpack_uintmax_t value = mpack_unpack_uint(token);
        *out = (int32_t)value;
        return value <= INT32_MAX;
    }
    if (token.type != MPACK_TOKEN_SINT)
        return false;
    const mpack_sintmax_t value = mpack_unpack_sint(token);
    *out = (int32_t)value;
    return value >= INT32_MIN;
}

/* The pairs may stand in any order. */
static bool get_record(struct in *in, struct record *out)
{
    uint8_t found = 0;
    if (!get_sized(in, MPACK_TOKEN_MAP, 3))
        return false;
    for (uint8_t i = 0; i < 3; i++) {
        char key[sizeof "amount"];
        if (!get_text(in, key, sizeof key))
            return false;
        if (strcmp(key, "id") == 0 && get_number(in, UINT32_MAX, &out->id))
            found |= 1;
        else if (strcmp(key, "name") == 0 && get_text(in, out->name, sizeof out->name))
            found |= 2;
        else if (strcmp(key, "amount") == 0 && get_amount(in, &out->amount))
            found |= 4;
        else
            return false;
    }
    return found == 7;
}

static bool decode_list(const uint8_t *wire, size_t length, struct record *out)
{
    struct in in = from(wire, length);
    if (!get_sized(&in, MPACK_TOKEN_ARRAY, RECORDS))
        return false;
    for (uint8_t i = 0; i < RECORDS; i++)
        if (!get_record(&in, &out[i]))
            return false;
    return in.left == 0;
}
