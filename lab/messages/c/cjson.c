/* JSON by cJSON: a tree that is allocated, numbers that are doubles. All are objects with names.
 * SPDX-License-Identifier: MIT */
#include "format.h"

#include <stdlib.h>

#include "cJSON.h"

/* The tree is printed, and given back. */
static size_t encode(uint8_t *wire, size_t size, cJSON *tree)
{
    char *const text = cJSON_PrintUnformatted(tree);
    cJSON_Delete(tree);
    if (text == NULL)
        return 0;
    const size_t length = strlen(text);
    if (length <= size)
        memcpy(wire, text, length);
    free(text);
    return length <= size ? length : 0;
}

static cJSON *three(const char *name, unsigned first, unsigned sender, unsigned value)
{
    cJSON *const object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, name, first);
    cJSON_AddNumberToObject(object, "sender", sender);
    cJSON_AddNumberToObject(object, "val", value);
    return object;
}

static bool get_number(const cJSON *object, const char *name, double least, double most,
                       double *out)
{
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= least && item->valuedouble <= most) ||
        item->valuedouble != (double)(int64_t)item->valuedouble)
        return false;
    *out = item->valuedouble;
    return true;
}

static bool get_three(const cJSON *object, const char *name, double most, double found[3])
{
    return get_number(object, name, 0, most, &found[0]) &&
           get_number(object, "sender", 0, UINT8_MAX, &found[1]) &&
           get_number(object, "val", 0, UINT8_MAX, &found[2]);
}

static size_t encode_heartbeat(uint8_t *wire, size_t size, const struct heartbeat *in)
{
    return encode(wire, size, three("var", in->variable, in->sender, in->value));
}

static bool decode_heartbeat(const uint8_t *wire, size_t length, struct heartbeat *out)
{
    cJSON *const tree = cJSON_ParseWithLength((const char *)wire, length);
    double found[3];
    const bool right = get_three(tree, "var", UINT8_MAX, found);
    cJSON_Delete(tree);
    if (right)
        *out = (struct heartbeat){(uint8_t)found[0], (uint8_t)found[1], (uint8_t)found[2]};
    return right;
}

static size_t encode_report(uint8_t *wire, size_t size, const struct entry *in)
{
    cJSON *const array = cJSON_CreateArray();
    for (uint8_t i = 0; i < ENTRIES; i++)
        cJSON_AddItemToArray(array, three("time", in[i].time, in[i].sender, in[i].value));
    return encode(wire, size, array);
}

static bool decode_report(const uint8_t *wire, size_t length, struct entry *out)
{
    cJSON *const tree = cJSON_ParseWithLength((const char *)wire, length);
    const cJSON *item;
    unsigned count = 0;
    bool right = cJSON_IsArray(tree);
    cJSON_ArrayForEach(item, tree)
    {
        double found[3];
        right = right && count < ENTRIES && get_three(item, "time", UINT16_MAX, found);
        if (!right)
            break;
        out[count++] = (struct entry){(uint16_t)found[0], (uint8_t)found[1], (uint8_t)found[2]};
    }
    cJSON_Delete(tree);
    return right && count == ENTRIES;
}

static size_t encode_list(uint8_t *wire, size_t size, const struct record *in)
{
    cJSON *const array = cJSON_CreateArray();
    for (uint8_t i = 0; i < RECORDS; i++) {
        cJSON *const object = cJSON_CreateObject();
        cJSON_AddNumberToObject(object, "id", in[i].id);
        cJSON_AddStringToObject(object, "name", in[i].name);
        cJSON_AddNumberToObject(object, "amount", in[i].amount);
        cJSON_AddItemToArray(array, object);
    }
    return encode(wire, size, array);
}

static bool get_record(const cJSON *object, struct record *out)
{
    const char *const name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "name"));
    double id, amount;
    if (name == NULL || strlen(name) >= sizeof out->name ||
        !get_number(object, "id", 0, UINT32_MAX, &id) ||
        !get_number(object, "amount", INT32_MIN, INT32_MAX, &amount))
        return false;
    strcpy(out->name, name);
    out->id = (uint32_t)id;
    out->amount = (int32_t)amount;
    return true;
}

static bool decode_list(const uint8_t *wire, size_t length, struct record *out)
{
    cJSON *const tree = cJSON_ParseWithLength((const char *)wire, length);
    const cJSON *item;
    unsigned count = 0;
    bool right = cJSON_IsArray(tree);
    cJSON_ArrayForEach(item, tree)
    {
        right = right && count < RECORDS && get_record(item, &out[count++]);
        if (!right)
            break;
    }
    cJSON_Delete(tree);
    return right && count == RECORDS;
}
