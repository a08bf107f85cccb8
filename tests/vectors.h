/* Reads a file of test vectors, step by step, on any machine with a C library.
 * SPDX-License-Identifier: MIT */
#ifndef VECTORS_H
#define VECTORS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = 2048, FIELDS_MAX = 8, BYTES_MAX = 520 };

typedef struct bytes {
    size_t length;
    uint8_t *data; /* a block of exactly `length` bytes, so that a sanitizer knows its end */
} bytes;

static unsigned long line_number, passed, failed;

static void quit(const char *why)
{
    fprintf(stderr, "vectors: line %lu: %s\n", line_number, why);
    exit(2);
}

static void expect(bool holds, const char *what)
{
    if (holds)
        return;
    failed++;
    printf("vectors: line %lu: %s\n", line_number, what);
}

static bytes bytes_of(const char *hex)
{
    bytes result = {0, NULL};
    const size_t digits = strcmp(hex, "-") == 0 ? 0 : strlen(hex);
    if (digits % 2 != 0 || digits / 2 > BYTES_MAX)
        quit("bad bytes");
    result.length = digits / 2;
    result.data = (uint8_t *)malloc(result.length);
    if (result.data == NULL && result.length != 0)
        quit("out of memory");
    for (size_t i = 0; i < result.length; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
            quit("bad bytes");
        result.data[i] = (uint8_t)byte;
    }
    return result;
}

static uint8_t byte_of(const char *number)
{
    const long value = strtol(number, NULL, 10);
    if (value < 0 || value > 255)
        quit("not a byte");
    return (uint8_t)value;
}

static uint16_t word_of(const char *number)
{
    const long value = strtol(number, NULL, 10);
    if (value < 0 || value > 65535)
        quit("not a number of 16 bits");
    return (uint16_t)value;
}

typedef void take_step(const char **field, int fields);

/* Takes each step of the file that the arguments name. Returns the exit status. */
static int run_vectors(int argc, char **argv, take_step *step)
{
    char line[LINE_SIZE];
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;

    if (file == NULL) {
        fprintf(stderr, "usage: vectors FILE, a file that can be read\n");
        return 2;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        const char *field[FIELDS_MAX] = {"", "", "", "", "", "", "", ""};
        int fields = 0;
        const unsigned long failed_before = failed;

        line_number++;
        if (strchr(line, '\n') == NULL)
            quit("line too long");
        if (line[0] == '#')
            continue;
        for (char *word = strtok(line, "\t\n"); word != NULL; word = strtok(NULL, "\t\n")) {
            if (fields == FIELDS_MAX)
                quit("too many fields");
            field[fields++] = word;
        }
        step(field, fields);
        if (failed == failed_before)
            passed++;
    }
    fclose(file);
    printf("vectors: %lu passed, %lu failed\n", passed, failed);
    return failed != 0 || passed == 0;
}

#endif /* VECTORS_H */
