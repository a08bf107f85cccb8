/* JSON (RFC 8259): written by hand, read by jsmn. All are objects with names.
 * SPDX-License-Identifier: MIT */
#include "format.h"

#define JSMN_STATIC
#include "jsmn.h"

enum { PAIRS = 3, TOKENS = 1 + 2 * PAIRS /* of an object */ };

/* All of these characters are digits, and no number is above `most`. */
static inline bool number_in(const char *text, size_t length, uint32_t most, uint32_t *out)
{
    uint32_t value = 0;
    for (size_t i = 0; i < length; i++) {
        const uint8_t digit = (uint8_t)(text[i] - '0');
        if (digit > 9 || value > UINT32_MAX / 10 || value * 10 > UINT32_MAX - digit)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return length > 0 && value <= most;
}

static inline bool amount_in(const char *text, size_t length, int32_t *out)
{
    uint32_t value;
    const bool negative = length > 0 && text[0] == '-';
    if (!number_in(text + negative, length - negative, INT32_MAX, &value))
        return false;
    *out = negative ? -(int32_t)value : (int32_t)value;
    return true;
}

/* Each of these writes at `at`, not beyond `end`, and returns where it ended. */
static char *put(char *at, const char *end, char c)
{
    if (at != end)
        *at++ = c;
    return at;
}

static char *put_raw(char *at, const char *end, const char *text)
{
    while (*text != '\0')
        at = put(at, end, *text++);
    return at;
}

static char *put_number(char *at, const char *end, uint32_t value)
{
    char digits[10];
    uint8_t count = 0;
    for (; value > UINT16_MAX; value /= 10)
        digits[count++] = (char)('0' + value % 10);
    uint16_t rest = (uint16_t)value; /* a division of 16 bits is three times faster on AVR */
    do {
        digits[count++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    while (count != 0)
        at = put(at, end, digits[--count]);
    return at;
}

static char *put_string(char *at, const char *end, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    at = put(at, end, '"');
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ') {
            at = put_raw(at, end, "\\u00");
            at = put(at, end, hex[*text >> 4]);
            at = put(at, end, hex[*text & 15]);
        } else {
            if (*text == '"' || *text == '\\')
                at = put(at, end, '\\');
            at = put(at, end, *text);
        }
    }
    return put(at, end, '"');
}

static char *put_three(char *at, const char *end, const char *name, uint16_t first, uint8_t sender,
                       uint8_t value)
{
    at = put_raw(at, end, name);
    at = put_number(at, end, first);
    at = put_raw(at, end, ",\"sender\":");
    at = put_number(at, end, sender);
    at = put_raw(at, end, ",\"val\":");
    at = put_number(at, end, value);
    return put(at, end, '}');
}

/* If there is no room, characters get lost. So a full buffer may lack some. */
static size_t length_of(const char *at, const uint8_t *wire, size_t size)
{
    const size_t length = (size_t)(at - (const char *)wire);
    return length == size ? 0 : length;
}

static size_t encode_heartbeat(uint8_t *wire, size_t size, const struct heartbeat *in)
{
    const char *const end = (char *)wire + size;
    return length_of(put_three((char *)wire, end, "{\"var\":", in->variable, in->sender, in->value),
                     wire, size);
}

static size_t encode_report(uint8_t *wire, size_t size, const struct entry *in)
{
    const char *const end = (char *)wire + size;
    char *at = (char *)wire;
    for (uint8_t i = 0; i < ENTRIES; i++) {
        at = put(at, end, i == 0 ? '[' : ',');
        at = put_three(at, end, "{\"time\":", in[i].time, in[i].sender, in[i].value);
    }
    return length_of(put(at, end, ']'), wire, size);
}

static size_t encode_list(uint8_t *wire, size_t size, const struct record *in)
{
    const char *const end = (char *)wire + size;
    char *at = (char *)wire;
    for (uint8_t i = 0; i < RECORDS; i++) {
        const bool negative = in[i].amount < 0;
        at = put_raw(at, end, i == 0 ? "[{\"id\":" : ",{\"id\":");
        at = put_number(at, end, in[i].id);
        at = put_raw(at, end, ",\"name\":");
        at = put_string(at, end, in[i].name);
        at = put_raw(at, end, negative ? ",\"amount\":-" : ",\"amount\":");
        at = put_number(at, end, negative ? -(uint32_t)in[i].amount : (uint32_t)in[i].amount);
        at = put(at, end, '}');
    }
    return length_of(put(at, end, ']'), wire, size);
}

static size_t length_in(const jsmntok_t *token)
{
    return (size_t)(token->end - token->start);
}

/* The value of a name in an object of three pairs without objects in them, in any order. */
static const jsmntok_t *value_of(const char *text, const jsmntok_t *object, const char *name)
{
    const size_t length = strlen(name);
    for (uint8_t i = 1; i < TOKENS; i += 2)
        if (object[i].type == JSMN_STRING && object[i].size == 1 &&
            length_in(&object[i]) == length && memcmp(text + object[i].start, name, length) == 0)
            return &object[i + 1];
    return NULL;
}

static bool get_number(const char *text, const jsmntok_t *object, const char *name, uint32_t most,
                       uint32_t *out)
{
    const jsmntok_t *const value = value_of(text, object, name);
    return value != NULL && value->type == JSMN_PRIMITIVE &&
           number_in(text + value->start, length_in(value), most, out);
}

/* No name needs an escape but \" and \\: others are refused. */
static bool get_string(const char *text, const jsmntok_t *object, const char *name, char *out,
                       size_t size)
{
    const jsmntok_t *const value = value_of(text, object, name);
    size_t length = 0;
    if (value == NULL || value->type != JSMN_STRING)
        return false;
    for (int i = value->start; i < value->end; i++) {
        if (text[i] == '\\' && text[++i] != '"' && text[i] != '\\')
            return false;
        if (length == size - 1)
            return false;
        out[length++] = text[i];
    }
    out[length] = '\0';
    return true;
}

static bool is_object(const jsmntok_t *token)
{
    return token->type == JSMN_OBJECT && token->size == PAIRS;
}

static bool parse(const uint8_t *wire, size_t length, jsmntok_t *tokens, unsigned count)
{
    jsmn_parser parser;
    jsmn_init(&parser);
    return jsmn_parse(&parser, (const char *)wire, length, tokens, count) == (int)count;
}

static bool get_three(const char *text, const jsmntok_t *object, const char *first, uint32_t most,
                      uint32_t found[3])
{
    return is_object(object) && get_number(text, object, first, most, &found[0]) &&
           get_number(text, object, "sender", UINT8_MAX, &found[1]) &&
           get_number(text, object, "val", UINT8_MAX, &found[2]);
}

static bool decode_heartbeat(const uint8_t *wire, size_t length, struct heartbeat *out)
{
    jsmntok_t tokens[TOKENS];
    uint32_t found[3];
    if (!parse(wire, length, tokens, TOKENS) ||
        !get_three((const char *)wire, tokens, "var", UINT8_MAX, found))
        return false;
    *out = (struct heartbeat){(uint8_t)found[0], (uint8_t)found[1], (uint8_t)found[2]};
    return true;
}

static bool decode_report(const uint8_t *wire, size_t length, struct entry *out)
{
    jsmntok_t tokens[1 + ENTRIES * TOKENS];
    if (!parse(wire, length, tokens, 1 + ENTRIES * TOKENS) || tokens[0].type != JSMN_ARRAY)
        return false;
    for (uint8_t i = 0; i < ENTRIES; i++) {
        uint32_t found[3];
        if (!get_three((const char *)wire, &tokens[1 + i * TOKENS], "time", UINT16_MAX, found))
            return false;
        out[i] = (struct entry){(uint16_t)found[0], (uint8_t)found[1], (uint8_t)found[2]};
    }
    return true;
}

static bool decode_list(const uint8_t *wire, size_t length, struct record *out)
{
    const char *const text = (const char *)wire;
    jsmntok_t tokens[1 + RECORDS * TOKENS];
    if (!parse(wire, length, tokens, 1 + RECORDS * TOKENS) || tokens[0].type != JSMN_ARRAY)
        return false;
    for (uint8_t i = 0; i < RECORDS; i++) {
        const jsmntok_t *const object = &tokens[1 + i * TOKENS];
        if (!is_object(object) || !get_number(text, object, "id", UINT32_MAX, &out[i].id) ||
            !get_string(text, object, "name", out[i].name, sizeof out[i].name))
            return false;
        const jsmntok_t *const amount = value_of(text, object, "amount");
        if (amount == NULL || amount->type != JSMN_PRIMITIVE ||
            !amount_in(text + amount->start, length_in(amount), &out[i].amount))
            return false;
    }
    return true;
}
