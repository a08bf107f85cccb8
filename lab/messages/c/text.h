/* Numbers of 32 bits as text.   SPDX-License-Identifier: MIT */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
