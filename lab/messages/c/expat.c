/* XML 1.0: written by printf, read by expat. All are elements with attributes.
 * SPDX-License-Identifier: MIT */
#include "format.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>

#include "expat.h"

#ifdef HEAP_BYTES
#include <errno.h>

/* What malloc divides on a bare chip: static, so that it counts as RAM. */
void *_sbrk(ptrdiff_t more)
{
    static char heap[HEAP_BYTES];
    static ptrdiff_t used;
    if (more > HEAP_BYTES - used) {
        errno = ENOMEM;
        return (void *)-1;
    }
    void *const found = &heap[used];
    used += more;
    return found;
}
#endif

struct out {
    char *at;
    size_t left;
};

/* A part that does not fit leaves no room for what follows it. */
static void advance(struct out *out, int length)
{
    if (length < 0 || (size_t)length >= out->left) {
        out->left = 0;
    } else {
        out->at += length;
        out->left -= (size_t)length;
    }
}

static size_t length_of(const struct out *out, const uint8_t *wire)
{
    return out->left == 0 ? 0 : (size_t)(out->at - (const char *)wire);
}

static size_t encode_heartbeat(uint8_t *wire, size_t size, const struct heartbeat *in)
{
    struct out out = {(char *)wire, size};
    advance(&out, snprintf(out.at, out.left, "<hb var=\"%u\" sender=\"%u\" val=\"%u\"/>",
                           in->variable, in->sender, in->value));
    return length_of(&out, wire);
}

static size_t encode_report(uint8_t *wire, size_t size, const struct entry *in)
{
    struct out out = {(char *)wire, size};
    advance(&out, snprintf(out.at, out.left, "<report>"));
    for (uint8_t i = 0; i < ENTRIES; i++)
        advance(&out, snprintf(out.at, out.left, "<e time=\"%u\" sender=\"%u\" val=\"%u\"/>",
                               in[i].time, in[i].sender, in[i].value));
    advance(&out, snprintf(out.at, out.left, "</report>"));
    return length_of(&out, wire);
}

/* Replaces characters that must not stand between quotes. XML allows no control characters. */
static const char *escaped(const char *text, char *room)
{
    char *at = room;
    for (; *text != '\0'; text++) {
        const char *const entity = *text == '&'   ? "&amp;"
                                   : *text == '<' ? "&lt;"
                                   : *text == '>' ? "&gt;"
                                   : *text == '"' ? "&quot;"
                                                  : NULL;
        if (entity == NULL) {
            *at++ = *text;
        } else {
            strcpy(at, entity);
            at += strlen(entity);
        }
    }
    *at = '\0';
    return room;
}

static size_t encode_list(uint8_t *wire, size_t size, const struct record *in)
{
    struct out out = {(char *)wire, size};
    advance(&out, snprintf(out.at, out.left, "<list>"));
    for (uint8_t i = 0; i < RECORDS; i++) {
        char room[NAME_BYTES * (sizeof "&quot;" - 1)];
        advance(&out, snprintf(out.at, out.left,
                               "<r id=\"%" PRIu32 "\" name=\"%s\" amount=\"%" PRId32 "\"/>",
                               in[i].id, escaped(in[i].name, room), in[i].amount));
    }
    advance(&out, snprintf(out.at, out.left, "</list>"));
    return length_of(&out, wire);
}

struct reading {
    XML_Parser parser;
    void *out;
    const char *root; /* of the elements, if they are in one */
    unsigned depth, count;
};

static const char *value_of(const char **attributes, const char *name)
{
    for (; attributes[0] != NULL; attributes += 2)
        if (strcmp(attributes[0], name) == 0)
            return attributes[1];
    return "";
}

static bool get_number(const char **attributes, const char *name, uint32_t most, uint32_t *out)
{
    const char *const text = value_of(attributes, name);
    return number_in(text, strlen(text), most, out);
}

static bool get_three(const char **attributes, const char *first, uint32_t most, uint32_t found[3])
{
    return get_number(attributes, first, most, &found[0]) &&
           get_number(attributes, "sender", UINT8_MAX, &found[1]) &&
           get_number(attributes, "val", UINT8_MAX, &found[2]);
}

static bool take_heartbeat(struct reading *reading, const char *name, const char **attributes)
{
    uint32_t found[3];
    if (strcmp(name, "hb") != 0 || reading->count == 1 ||
        !get_three(attributes, "var", UINT8_MAX, found))
        return false;
    *(struct heartbeat *)reading->out =
        (struct heartbeat){(uint8_t)found[0], (uint8_t)found[1], (uint8_t)found[2]};
    return true;
}

static bool take_entry(struct reading *reading, const char *name, const char **attributes)
{
    uint32_t found[3];
    if (strcmp(name, "e") != 0 || reading->count == ENTRIES ||
        !get_three(attributes, "time", UINT16_MAX, found))
        return false;
    ((struct entry *)reading->out)[reading->count] =
        (struct entry){(uint16_t)found[0], (uint8_t)found[1], (uint8_t)found[2]};
    return true;
}

static bool take_record(struct reading *reading, const char *name, const char **attributes)
{
    struct record *const out = (struct record *)reading->out + reading->count;
    const char *const text = value_of(attributes, "name"), *const amount =
                                                               value_of(attributes, "amount");
    if (strcmp(name, "r") != 0 || reading->count == RECORDS ||
        !get_number(attributes, "id", UINT32_MAX, &out->id) || strlen(text) >= sizeof out->name ||
        !amount_in(amount, strlen(amount), &out->amount))
        return false;
    strcpy(out->name, text);
    return true;
}

typedef bool take(struct reading *reading, const char *name, const char **attributes);

static void element(struct reading *reading, const char *name, const char **attributes, take *take)
{
    const bool is_root = reading->root != NULL && reading->depth == 0;
    const unsigned depth = reading->root != NULL;
    if (is_root ? strcmp(name, reading->root) != 0
                : reading->depth != depth || !take(reading, name, attributes))
        XML_StopParser(reading->parser, XML_FALSE);
    else
        reading->count += !is_root;
    reading->depth++;
}

static void XMLCALL on_heartbeat(void *reading, const char *name, const char **attributes)
{
    element(reading, name, attributes, take_heartbeat);
}

static void XMLCALL on_entry(void *reading, const char *name, const char **attributes)
{
    element(reading, name, attributes, take_entry);
}

static void XMLCALL on_record(void *reading, const char *name, const char **attributes)
{
    element(reading, name, attributes, take_record);
}

static void XMLCALL on_end(void *reading, const char *name)
{
    (void)name;
    ((struct reading *)reading)->depth--;
}

static bool decode(const uint8_t *wire, size_t length, struct reading *reading, unsigned count,
                   XML_StartElementHandler on_element)
{
    reading->parser = XML_ParserCreate(NULL);
    if (reading->parser == NULL)
        return false;
    XML_SetHashSalt(reading->parser, 1); /* or it would be random, and so would be the cost */
    XML_SetUserData(reading->parser, reading);
    XML_SetElementHandler(reading->parser, on_element, on_end);
    const bool right =
        XML_Parse(reading->parser, (const char *)wire, (int)length, 1) == XML_STATUS_OK;
    XML_ParserFree(reading->parser);
    return right && reading->count == count;
}

static bool decode_heartbeat(const uint8_t *wire, size_t length, struct heartbeat *out)
{
    struct reading reading = {.out = out};
    return decode(wire, length, &reading, 1, on_heartbeat);
}

static bool decode_report(const uint8_t *wire, size_t length, struct entry *out)
{
    struct reading reading = {.out = out, .root = "report"};
    return decode(wire, length, &reading, ENTRIES, on_entry);
}

static bool decode_list(const uint8_t *wire, size_t length, struct record *out)
{
    struct reading reading = {.out = out, .root = "list"};
    return decode(wire, length, &reading, RECORDS, on_record);
}
